//go:build !linux

package mmsg

import (
	"net"
	"net/netip"
)

// An Addr is the address of a socket. The zero Addr stands for the peer of a
// connected socket.
type Addr struct{ ap netip.AddrPort }

// AddrPort returns the address, with IPv4 unmapped and without a zone, and the port.
func (a *Addr) AddrPort() netip.AddrPort {
	return netip.AddrPortFrom(a.ap.Addr().Unmap().WithZone(""), a.ap.Port())
}

// A Reader receives datagrams.
type Reader struct {
	conn    *net.UDPConn
	buf     []byte
	control []byte
	n, oob  int
	addr    Addr
}

// NewReader returns a Reader. On this system it receives one datagram at a time.
func NewReader(c *net.UDPConn, n, control int) (*Reader, error) {
	return &Reader{conn: c, control: make([]byte, control)}, nil
}

// SetBuffer sets the buffer for the datagram of each following Read.
func (r *Reader) SetBuffer(i int, b []byte) {
	if i == 0 {
		r.buf = b
	}
}

// Read waits for a datagram and returns 1.
func (r *Reader) Read() (int, error) {
	n, oob, _, addr, err := r.conn.ReadMsgUDPAddrPort(r.buf, r.control)
	if err != nil {
		return 0, err
	}
	r.n, r.oob, r.addr = n, oob, Addr{addr}
	return 1, nil
}

// Len returns the length of the datagram.
func (r *Reader) Len(int) int { return r.n }

// Addr returns the source of the datagram.
func (r *Reader) Addr(int) Addr { return r.addr }

// Control returns its control messages, valid until the next Read.
func (r *Reader) Control(int) []byte { return r.control[:r.oob] }

// A Writer sends datagrams.
type Writer struct {
	conn          *net.UDPConn
	sent, refused int
}

// NewWriter returns a Writer.
func NewWriter(c *net.UDPConn, n int) (*Writer, error) { return &Writer{conn: c}, nil }

// Single does nothing: there is no segmentation on this system.
func (w *Writer) Single() {}

// Add sends a datagram. Addr may be nil on a connected socket.
func (w *Writer) Add(addr *Addr, control, data []byte) {
	var err error
	switch {
	case len(control) > maxControl || len(data) == 0:
		w.refused++
		return
	case addr == nil || !addr.ap.IsValid():
		_, err = w.conn.Write(data)
	default:
		_, _, err = w.conn.WriteMsgUDPAddrPort(data, control, addr.ap)
	}
	if err != nil {
		w.refused++
		return
	}
	w.sent++
}

// Flush returns how many datagrams were sent since the last Flush, and how many
// the system refused.
func (w *Writer) Flush() (sent, refused int) {
	sent, refused = w.sent, w.refused
	w.sent, w.refused = 0, 0
	return sent, refused
}
