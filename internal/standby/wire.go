package standby

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// Kinds of frames. A frame is its kind, 1 byte, the length of its content, 4 bytes little-endian, and the
// content.
const (
	frameHello   byte = 'h' // JSON: hello, from the side that connected
	frameWelcome byte = 'w' // JSON: welcome
	frameFile    byte = 'f' // 1 byte length of the name, name, content
	frameCopy    byte = 'c' // a piece of a backup of the store
	frameCopied  byte = 'd' // the backup is complete; no content
	frameEntries byte = 'e' // entries: index 8 bytes, length 4 bytes, entry
	frameBeat    byte = 'b' // index of the first node's last entry, 8 bytes
	frameAck     byte = 'a' // last index on the second node's disk, 8 bytes
	frameHistory byte = 'n' // entries of the history, as in frameEntries; only to a node that states History
)

const (
	maxHello = 4 << 10
	maxFrame = store.MaxEntry + 8<<20
	// patience is the longest time without a byte from the other side, and for a frame to be sent.
	patience = 10 * time.Second
	// beatEvery is the time between two frames of a connection on which nothing happens.
	beatEvery = 500 * time.Millisecond
)

// wireVersion is the version of this protocol.
const wireVersion = 1

// A hello is the first frame of a connection.
type hello struct {
	Version int  `json:"version"`
	Follow  bool `json:"follow,omitempty"` // the node follows; otherwise it states its term and ends
	Role    Role `json:"role"`
	// TakeOver asks the first node to decide nothing more, and to name its last entry.
	TakeOver bool `json:"take_over,omitempty"`
	// GaveUp: the follower has asked for that, and could not take over.
	GaveUp bool   `json:"gave_up,omitempty"`
	Term   uint64 `json:"term"`
	From   uint64 `json:"from,omitempty"` // first entry of the term
	Source string `json:"source,omitempty"`
	Last   uint64 `json:"last,omitempty"` // last entry that the follower has on disk
	Token  string `json:"token,omitempty"`
	// History is the last entry of the first node's history that the follower has; absent if it takes none.
	History *uint64 `json:"history,omitempty"`
	Port    string  `json:"port,omitempty"` // where the node listens itself
	// Unlinked: the follower does not know that its state comes from the journal that both nodes read.
	Unlinked bool `json:"unlinked,omitempty"`
}

// A welcome is the answer.
type welcome struct {
	Version     int    `json:"version"`
	Role        Role   `json:"role"`
	Term        uint64 `json:"term"`
	From        uint64 `json:"from,omitempty"`
	Last        uint64 `json:"last"`
	Incarnation string `json:"incarnation,omitempty"` // of the store that is copied
	Copy        bool   `json:"copy,omitempty"`        // a copy of the store follows, and then the end
	History     uint64 `json:"history,omitempty"`     // the last entry of the history of a node that hands over
	TakesOver   bool   `json:"takes_over,omitempty"`  // the second node is about to begin a later term
	Problem     string `json:"problem,omitempty"`     // nothing follows
}

// A wire reads and writes frames. One goroutine may read while another writes.
type wire struct {
	conn  net.Conn
	limit int // of the content of a received frame
	buf   []byte
}

func (w *wire) send(kind byte, parts ...[]byte) error {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	buffers := net.Buffers{binary.LittleEndian.AppendUint32([]byte{kind}, uint32(n))}
	buffers = append(buffers, parts...)
	w.conn.SetWriteDeadline(time.Now().Add(patience))
	_, err := buffers.WriteTo(w.conn)
	return err
}

func (w *wire) sendJSON(kind byte, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return w.send(kind, text)
}

func (w *wire) sendIndex(kind byte, index uint64) error {
	return w.send(kind, binary.LittleEndian.AppendUint64(nil, index))
}

// receive returns the next frame. Its content is valid until the next call.
func (w *wire) receive() (kind byte, content []byte, err error) {
	var head [5]byte
	w.conn.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.ReadFull(w.conn, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.LittleEndian.Uint32(head[1:])
	if uint64(size) > uint64(w.limit) {
		return 0, nil, fmt.Errorf("standby: %w: a frame of %d bytes, limit %d", bulkhead.ErrMalformed, size, w.limit)
	}
	n := int(size)
	w.buf = w.buf[:0]
	for len(w.buf) < n { // memory grows with what has arrived
		have := len(w.buf)
		w.buf = append(w.buf, make([]byte, min(n-have, max(64<<10, have)))...)
		w.conn.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.ReadFull(w.conn, w.buf[have:]); err != nil {
			return 0, nil, err
		}
	}
	return head[0], w.buf, nil
}

// receiveJSON reads a frame of the given kind.
func (w *wire) receiveJSON(kind byte, v any) error {
	k, content, err := w.receive()
	if err != nil {
		return err
	}
	if k != kind {
		return fmt.Errorf("standby: %w: a frame of kind %q, want %q", bulkhead.ErrMalformed, k, kind)
	}
	if err := json.Unmarshal(content, v); err != nil {
		return fmt.Errorf("standby: %w: %v", bulkhead.ErrMalformed, err)
	}
	return nil
}

// maxTermStep is by how much a term that another node states may exceed the own one. Each take-over adds one.
const maxTermStep = 1 << 20

// checkTerm refuses terms that no number of take-overs explains: they would leave no later ones.
func checkTerm(term, own uint64) error {
	if term > own && term-own > maxTermStep {
		return fmt.Errorf("standby: %w: term %d, and this node's is %d", bulkhead.ErrMalformed, term, own)
	}
	return nil
}

// receiveHello reads the first frame of a connection, at a node with a term.
func (w *wire) receiveHello(own uint64) (*hello, error) {
	var h hello
	if err := w.receiveJSON(frameHello, &h); err != nil {
		return nil, err
	}
	if port, err := strconv.ParseUint(h.Port, 10, 16); h.Port != "" && (err != nil || port == 0) {
		return nil, fmt.Errorf("standby: %w: port %.20q", bulkhead.ErrMalformed, h.Port)
	}
	return &h, checkTerm(h.Term, own)
}

// receiveWelcome reads the answer to a hello of a node with a term.
func (w *wire) receiveWelcome(own uint64) (reply welcome, err error) {
	if err := w.receiveJSON(frameWelcome, &reply); err != nil {
		return reply, err
	}
	return reply, checkTerm(reply.Term, own)
}

// receiveAck reads an acknowledgement.
func (w *wire) receiveAck() (index uint64, err error) {
	kind, content, err := w.receive()
	if err != nil {
		return 0, err
	}
	if kind != frameAck {
		return 0, fmt.Errorf("standby: %w: a frame of kind %q from a standby", bulkhead.ErrMalformed, kind)
	}
	return parseIndex(content)
}

// parseIndex reads the content of a beat or an acknowledgement.
func parseIndex(content []byte) (uint64, error) {
	if len(content) != 8 {
		return 0, fmt.Errorf("standby: %w: an index of %d bytes", bulkhead.ErrMalformed, len(content))
	}
	return binary.LittleEndian.Uint64(content), nil
}

// appendEntries appends the content of a frame of entries.
func appendEntries(b []byte, entries []store.Entry) []byte {
	for _, e := range entries {
		b = binary.LittleEndian.AppendUint64(b, e.Index)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(e.Data)))
		b = append(b, e.Data...)
	}
	return b
}

// parseEntries reads the content of a frame of entries, which continue after an index. They refer to content.
func parseEntries(content []byte, last uint64) ([]store.Entry, error) {
	return parseAscending(content, last, false)
}

// parseHistory reads the content of a frame of the history, whose entries have ascending indexes.
func parseHistory(content []byte) ([]store.Entry, error) { return parseAscending(content, 0, true) }

// parseAscending reads entries with indexes above last. Unless gaps is set, each index follows the one before.
func parseAscending(content []byte, last uint64, gaps bool) (entries []store.Entry, err error) {
	for len(content) > 0 {
		if len(content) < 12 {
			return nil, fmt.Errorf("standby: %w: an entry of %d bytes", bulkhead.ErrMalformed, len(content))
		}
		index, n := binary.LittleEndian.Uint64(content), binary.LittleEndian.Uint32(content[8:])
		content = content[12:]
		if uint64(n) > uint64(len(content)) || n > store.MaxEntry || index <= last ||
			!gaps && index != last+1 {
			return nil, fmt.Errorf("standby: %w: entry %d of %d bytes after entry %d, with %d bytes left",
				bulkhead.ErrMalformed, index, n, last, len(content))
		}
		entries = append(entries, store.Entry{Index: index, Data: content[:n:n]})
		content, last = content[n:], index
	}
	return entries, nil
}

// The limits of a [File].
const (
	MaxName = math.MaxUint8 // bytes of its name
	MaxFile = 16 << 20      // bytes of its content
)

// A File is a small file of the data folder that the second node needs as well.
type File struct {
	Name    string // relative to the data folder, with slashes
	Content []byte
}

func (w *wire) sendFile(f File) error {
	if len(f.Name) > MaxName || len(f.Content) > MaxFile {
		return fmt.Errorf("standby: file %.80q of %d bytes, limit %d", f.Name, len(f.Content), MaxFile)
	}
	return w.send(frameFile, append([]byte{byte(len(f.Name))}, f.Name...), f.Content)
}

// parseFile reads the content of a frame of a file, and refuses names outside of the data folder.
func parseFile(content []byte) (File, error) {
	if len(content) < 1 || len(content) < 1+int(content[0]) || len(content) > 1+MaxName+MaxFile {
		return File{}, fmt.Errorf("standby: %w: a file of %d bytes", bulkhead.ErrMalformed, len(content))
	}
	name := string(content[1 : 1+int(content[0])])
	if !filepath.IsLocal(filepath.FromSlash(name)) || name != filepath.ToSlash(filepath.Clean(name)) || name == "." {
		return File{}, fmt.Errorf("standby: %w: a file with the name %.80q", bulkhead.ErrMalformed, name)
	}
	return File{name, append([]byte(nil), content[1+len(name):]...)}, nil
}
