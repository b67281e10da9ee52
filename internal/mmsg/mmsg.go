package mmsg

import (
	"bytes"
	"net"
	"net/netip"

	"golang.org/x/net/ipv4"
)

// A Reader receives datagrams.
type Reader struct {
	conn     *ipv4.PacketConn // of either family: batches do not depend on it
	messages []ipv4.Message
}

// NewReader returns a Reader of up to n datagrams at once, each with up to control bytes of control
// messages.
func NewReader(c *net.UDPConn, n, control int) *Reader {
	r := &Reader{conn: ipv4.NewPacketConn(c), messages: make([]ipv4.Message, n)}
	for i := range r.messages {
		r.messages[i].Buffers, r.messages[i].OOB = make([][]byte, 1), make([]byte, control)
	}
	return r
}

// SetBuffer sets the buffer for datagram i of each following Read. Every i must have a buffer
// before the first Read.
func (r *Reader) SetBuffer(i int, b []byte) { r.messages[i].Buffers[0] = b }

// Read waits for datagrams and returns how many it received.
func (r *Reader) Read() (int, error) { return r.conn.ReadBatch(r.messages, 0) }

// Len returns the length of datagram i of the last Read. A datagram that is longer than its buffer
// is truncated.
func (r *Reader) Len(i int) int { return r.messages[i].N }

// Addr returns the source of datagram i of the last Read.
func (r *Reader) Addr(i int) net.Addr { return r.messages[i].Addr }

// Control returns the control messages of datagram i of the last Read, valid until the next Read.
func (r *Reader) Control(i int) []byte { return r.messages[i].OOB[:r.messages[i].NN] }

// AddrPort returns the IP address, IPv4 unmapped and without a zone, and the port of a, or the zero
// AddrPort if a is not the address of a UDP socket.
func AddrPort(a net.Addr) netip.AddrPort {
	udp, ok := a.(*net.UDPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := udp.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port())
}

// Limits on datagrams that are sent as one: the limits of the kernel, and the largest IP packet
// without its headers.
const (
	maxSegments  = 64
	maxSegmented = 60_000
)

// A Writer sends datagrams. Each of its messages is a train: a run of datagrams to one address, all
// of one length except the last, which may be shorter. The kernel receives a train as one packet and
// cuts it into segments of that length.
type Writer struct {
	conn          *ipv4.PacketConn
	segment       bool // the kernel segments
	trains        []ipv4.Message
	to            []netip.AddrPort // of each train
	control       [][]byte         // of each train, with the size of its segments
	room          int              // datagrams that may be added
	most          int
	sent, refused int
}

// NewWriter returns a Writer of up to n datagrams at once.
func NewWriter(c *net.UDPConn, n int) *Writer {
	return &Writer{conn: ipv4.NewPacketConn(c), segment: canSegment(c), trains: make([]ipv4.Message, 0, n),
		control: make([][]byte, n), room: n, most: n}
}

// Single disables segmentation: each datagram is sent on its own.
func (w *Writer) Single() { w.segment = false }

// Add adds a datagram to those that the next Flush sends, and flushes first if the Writer is full.
// addr is nil on a connected socket. Neither data nor control may change before the Flush.
func (w *Writer) Add(addr net.Addr, control, data []byte) {
	if len(data) == 0 {
		w.refused++
		return
	}
	if w.room == 0 {
		w.flush()
	}
	w.room--
	to, n := AddrPort(addr), len(w.trains)
	if w.segment && n > 0 && to == w.to[n-1] && takes(&w.trains[n-1], control, len(data)) {
		w.trains[n-1].Buffers = append(w.trains[n-1].Buffers, data)
		return
	}
	w.trains, w.to = w.trains[:n+1], append(w.to, to)
	t := &w.trains[n]
	t.Addr, t.OOB, t.Buffers = addr, control, append(t.Buffers[:0], data)
}

// takes reports whether the train t takes one more datagram.
func takes(t *ipv4.Message, control []byte, size int) bool {
	n, first := len(t.Buffers), len(t.Buffers[0])
	return size <= first && len(t.Buffers[n-1]) == first && n < maxSegments && (n+1)*first <= maxSegmented &&
		bytes.Equal(t.OOB, control)
}

// Flush sends the added datagrams. It returns how many were sent since the last Flush, and how many
// the system refused.
func (w *Writer) Flush() (sent, refused int) {
	w.flush()
	sent, refused = w.sent, w.refused
	w.sent, w.refused = 0, 0
	return sent, refused
}

func (w *Writer) flush() {
	for i := range w.trains {
		if t := &w.trains[i]; len(t.Buffers) > 1 {
			w.control[i] = appendSegment(append(w.control[i][:0], t.OOB...), len(t.Buffers[0]))
			t.OOB = w.control[i]
		}
	}
	for rest := w.trains; len(rest) > 0; {
		n, err := w.conn.WriteBatch(rest, 0)
		n = max(n, 0)
		for _, t := range rest[:n] {
			w.sent += len(t.Buffers)
		}
		if rest = rest[n:]; err != nil && len(rest) > 0 {
			w.split(&rest[0], err)
			rest = rest[1:]
		}
	}
	w.trains, w.to, w.room = w.trains[:0], w.to[:0], w.most
}

// split sends the datagrams of a train that the system refused one by one. If the system does not
// support segmentation, no further trains are made.
func (w *Writer) split(t *ipv4.Message, err error) {
	if len(t.Buffers) == 1 {
		w.refused++
		return
	}
	w.segment = w.segment && !unsegmented(err)
	control := t.OOB[:len(t.OOB)-len(appendSegment(nil, 0))]
	for _, data := range t.Buffers {
		one := []ipv4.Message{{Addr: t.Addr, OOB: control, Buffers: [][]byte{data}}}
		if n, _ := w.conn.WriteBatch(one, 0); n == 1 {
			w.sent++
		} else {
			w.refused++
		}
	}
}
