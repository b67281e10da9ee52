package stream

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// The layout is specified in docs/specs/journal.md#messages-of-a-stream.
const (
	magic     = "BHJ1"
	headBytes = len(magic) + 4*8 + 2*4
	overhead  = headBytes + 12 + 16 // with the nonce and the tag of AES-GCM
	maxParts  = 1 << 16
)

// A message is one part of an entry, or the mark at which a stream begins.
type message struct {
	writer uint64 // random number of the process that wrote it
	index  uint64 // of the entry; of a mark: of the last entry before the stream
	before uint64 // [store.Position].Link before the entry, and after it
	after  uint64
	part   uint32 // from 0
	parts  uint32 // number of parts of the entry; 0: a mark
	data   []byte // of this part
}

// mark reports whether the message is the mark at which a stream begins.
func (m *message) mark() bool { return m.parts == 0 }

// last reports whether the message completes an entry, or is a mark.
func (m *message) last() bool { return m.mark() || m.part == m.parts-1 }

// A sealer encrypts and authenticates messages under a key of the node.
type sealer struct {
	aead cipher.AEAD
	// owner identifies the key, in hexadecimal.
	owner string
}

func newSealer(key [32]byte) (sealer, error) {
	derived := sha256.Sum256(append([]byte("bulkhead journal key "), key[:]...))
	owner := sha256.Sum256(append([]byte("bulkhead journal owner "), key[:]...))
	block, err := aes.NewCipher(derived[:])
	if err != nil {
		return sealer{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return sealer{aead, hex.EncodeToString(owner[:8])}, err
}

// seal returns the bytes of a message.
func (s *sealer) seal(m *message) []byte {
	b := make([]byte, 0, overhead+len(m.data))
	b = append(b, magic...)
	for _, v := range []uint64{m.writer, m.index, m.before, m.after} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = binary.LittleEndian.AppendUint32(b, m.part)
	b = binary.LittleEndian.AppendUint32(b, m.parts)
	return s.aead.Seal(b, nil, m.data, b)
}

// open parses and decrypts the bytes of a message.
func (s *sealer) open(b []byte) (m message, err error) {
	if len(b) < overhead || string(b[:len(magic)]) != magic {
		return m, fmt.Errorf("%w: %d bytes that are no part of a journal", bulkhead.ErrMalformed, len(b))
	}
	head, sealed := b[:headBytes], b[headBytes:]
	data, err := s.aead.Open(nil, nil, sealed, head)
	if err != nil {
		return m, fmt.Errorf("%w: %d bytes that were not written with this node's key, or were changed",
			bulkhead.ErrMalformed, len(b))
	}
	u := func(i int) uint64 { return binary.LittleEndian.Uint64(head[len(magic)+8*i:]) }
	m = message{writer: u(0), index: u(1), before: u(2), after: u(3), data: data,
		part:  binary.LittleEndian.Uint32(head[headBytes-8:]),
		parts: binary.LittleEndian.Uint32(head[headBytes-4:])}
	switch {
	case m.parts > maxParts || m.part > 0 && m.part >= m.parts:
		return message{}, fmt.Errorf("%w: part %d of %d", bulkhead.ErrMalformed, m.part, m.parts)
	case m.mark() && len(m.data) > 0:
		return message{}, fmt.Errorf("%w: a mark of %d bytes", bulkhead.ErrMalformed, len(m.data))
	}
	return m, nil
}

// An assembler makes entries of messages in their order.
type assembler struct {
	head message // of the entry of which parts are missing; its parts are 0 if there is none
	next uint32  // the part that follows
	data []byte
}

// add adds a message. done reports whether it completes an entry, or is a mark. Parts without a beginning are what is
// left of an entry that was dropped, and are skipped. A beginning without its end was never acknowledged, and is
// skipped as well once another entry begins.
func (a *assembler) add(m message) (entry message, done bool, err error) {
	switch {
	case m.part == 0:
		a.head, a.next, a.data = m, 0, nil
	case a.head.mark():
		return message{}, false, nil
	case m.index != a.head.index || m.part != a.next || m.parts != a.head.parts || m.writer != a.head.writer ||
		m.after != a.head.after:
		return message{}, false, fmt.Errorf("%w: part %d of entry %d after part %d of entry %d", bulkhead.ErrMalformed,
			m.part, m.index, int(a.next)-1, a.head.index)
	}
	if len(a.data)+len(m.data) > store.MaxEntry {
		return message{}, false, fmt.Errorf("%w: entry %d of more than %d bytes", bulkhead.ErrMalformed, m.index,
			store.MaxEntry)
	}
	a.data = append(a.data, m.data...)
	a.next++
	if !m.last() {
		return message{}, false, nil
	}
	entry, entry.data = a.head, a.data
	a.head, a.data = message{}, nil
	return entry, true, nil
}
