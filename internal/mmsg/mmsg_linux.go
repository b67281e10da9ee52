package mmsg

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An Addr is a socket address as the kernel writes it. It can be compared, and used for a reply,
// without being parsed. The zero Addr stands for the peer of a connected socket.
type Addr struct {
	raw [unix.SizeofSockaddrInet6]byte
	n   uint8
}

// AddrPort returns the address, with IPv4 unmapped and without a zone, and the port. It returns the
// zero AddrPort if there is no address.
func (a *Addr) AddrPort() netip.AddrPort {
	if a.n < unix.SizeofSockaddrInet4 {
		return netip.AddrPort{}
	}
	port := binary.BigEndian.Uint16(a.raw[2:])
	switch binary.NativeEndian.Uint16(a.raw[:]) {
	case unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(a.raw[4:8])), port)
	case unix.AF_INET6:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(a.raw[8:24])).Unmap(), port)
	}
	return netip.AddrPort{}
}

// A Reader receives datagrams.
type Reader struct {
	conn  syscall.RawConn
	heads []unix.Mmsghdr
	parts []unix.Iovec
	addrs [][unix.SizeofSockaddrInet6]byte
	extra [][]byte
	call  func(fd uintptr) bool // made once, since each closure is an allocation
	n     int
	errno syscall.Errno
}

// NewReader returns a Reader of up to n datagrams at once, each with up to control bytes of control
// messages.
func NewReader(c *net.UDPConn, n, control int) (*Reader, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("mmsg: %w", err)
	}
	r := &Reader{
		conn: raw, heads: make([]unix.Mmsghdr, n), parts: make([]unix.Iovec, n),
		addrs: make([][unix.SizeofSockaddrInet6]byte, n), extra: make([][]byte, n),
	}
	for i := range r.heads {
		h := &r.heads[i].Hdr
		h.Name, h.Iov = &r.addrs[i][0], &r.parts[i]
		h.SetIovlen(1)
		if control > 0 {
			r.extra[i] = make([]byte, control)
			h.Control = &r.extra[i][0]
		}
		r.reset(i)
	}
	r.call = r.receive
	return r, nil
}

func (r *Reader) reset(i int) {
	h := &r.heads[i].Hdr
	h.Namelen = unix.SizeofSockaddrInet6
	h.SetControllen(len(r.extra[i]))
}

// SetBuffer sets the buffer for datagram i of each following Read. Every i must have a buffer
// before the first Read.
func (r *Reader) SetBuffer(i int, b []byte) {
	r.parts[i].Base = &b[0]
	r.parts[i].SetLen(len(b))
}

// Read waits for datagrams and returns how many it received.
func (r *Reader) Read() (int, error) {
	for i := range r.n {
		r.reset(i)
	}
	r.n, r.errno = 0, 0
	if err := r.conn.Read(r.call); err != nil {
		return 0, err
	}
	if r.errno != 0 {
		return 0, fmt.Errorf("mmsg: recvmmsg: %w", r.errno)
	}
	return r.n, nil
}

func (r *Reader) receive(fd uintptr) bool {
	for {
		n, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&r.heads[0])), uintptr(len(r.heads)),
			unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			r.n = int(n)
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return false
		}
		r.errno = errno
		return true
	}
}

// Len returns the length of datagram i of the last Read. A datagram that is longer than its buffer
// is truncated.
func (r *Reader) Len(i int) int { return int(r.heads[i].Len) }

// Addr returns the source of datagram i of the last Read.
func (r *Reader) Addr(i int) Addr {
	return Addr{raw: r.addrs[i], n: uint8(min(r.heads[i].Hdr.Namelen, unix.SizeofSockaddrInet6))}
}

// Control returns the control messages of datagram i of the last Read, valid until the next Read.
func (r *Reader) Control(i int) []byte { return r.extra[i][:r.heads[i].Hdr.Controllen] }

// Limits on datagrams that are sent as one: the limits of the kernel, and the largest IP packet
// without its headers.
const (
	maxSegments  = 64
	maxSegmented = 60_000
)

// segmentSpace is the size of the control message that holds the length of each segment.
var segmentSpace = unix.CmsgSpace(2)

// A train is a run of datagrams to one address, all of one length except the last, which may be
// shorter. The kernel receives them as one packet and cuts it into segments of that length.
type train struct {
	addr    Addr
	size    int
	short   bool // the last datagram is shorter, so nothing can follow
	first   int  // index of the first of its parts
	n       int
	control int // bytes of extra that the caller has set
	extra   [maxControl + 32]byte
}

// A Writer sends datagrams.
type Writer struct {
	conn    syscall.RawConn
	segment bool // the kernel supports segmentation
	trains  []train
	heads   []unix.Mmsghdr
	parts   []unix.Iovec
	call    func(fd uintptr) bool
	sending []unix.Mmsghdr
	n       int
	errno   syscall.Errno
	sent    int
	refused int
}

// NewWriter returns a Writer of up to n datagrams at once.
func NewWriter(c *net.UDPConn, n int) (*Writer, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("mmsg: %w", err)
	}
	w := &Writer{conn: raw, trains: make([]train, 0, n), heads: make([]unix.Mmsghdr, n), parts: make([]unix.Iovec, 0, n)}
	w.call = w.send
	err = raw.Control(func(fd uintptr) {
		_, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT)
		w.segment = err == nil
	})
	if err != nil {
		return nil, fmt.Errorf("mmsg: %w", err)
	}
	return w, nil
}

// Single disables segmentation: each datagram is sent on its own.
func (w *Writer) Single() { w.segment = false }

// Add adds a datagram to those that the next Flush sends, and flushes first if the Writer is full.
// addr may be nil on a connected socket. data must not change before the Flush; control, of at most
// 64 bytes, may.
func (w *Writer) Add(addr *Addr, control, data []byte) {
	if len(w.parts) == cap(w.parts) {
		w.flush()
	}
	if len(data) == 0 || len(control) > maxControl {
		w.refused++
		return
	}
	part := unix.Iovec{Base: &data[0]}
	part.SetLen(len(data))
	if t := w.last(); t == nil || !w.segment || !t.takes(addr, control, len(data)) {
		w.trains = w.trains[:len(w.trains)+1]
		t = w.last()
		t.size, t.short, t.first, t.n, t.addr = len(data), false, len(w.parts), 0, Addr{}
		if addr != nil {
			t.addr = *addr
		}
		t.control = copy(t.extra[:], control)
	}
	t := w.last()
	t.n++
	t.short = len(data) < t.size
	w.parts = append(w.parts, part)
}

func (w *Writer) last() *train {
	if len(w.trains) == 0 {
		return nil
	}
	return &w.trains[len(w.trains)-1]
}

func (t *train) takes(addr *Addr, control []byte, size int) bool {
	return size <= t.size && !t.short && t.n < maxSegments && (t.n+1)*size <= maxSegmented &&
		(addr == nil && t.addr.n == 0 || addr != nil && *addr == t.addr) && string(control) == string(t.extra[:t.control])
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
		w.fill(&w.heads[i], &w.trains[i])
	}
	for at := 0; at < len(w.trains); {
		n, errno := w.sendmmsg(w.heads[at:len(w.trains)])
		for _, t := range w.trains[at : at+n] {
			w.sent += t.n
		}
		at += n
		if n == 0 {
			w.mend(&w.trains[at], errno)
			at++
		}
	}
	w.trains, w.parts = w.trains[:0], w.parts[:0]
}

func (w *Writer) fill(m *unix.Mmsghdr, t *train) {
	h := &m.Hdr
	*h = unix.Msghdr{Iov: &w.parts[t.first]}
	h.SetIovlen(t.n)
	if t.addr.n > 0 {
		h.Name, h.Namelen = &t.addr.raw[0], uint32(t.addr.n)
	}
	n := t.control
	if t.n > 1 {
		c := (*unix.Cmsghdr)(unsafe.Pointer(&t.extra[n]))
		c.Level, c.Type = unix.IPPROTO_UDP, unix.UDP_SEGMENT
		c.SetLen(unix.CmsgLen(2))
		binary.NativeEndian.PutUint16(t.extra[n+unix.CmsgLen(0):], uint16(t.size))
		n += segmentSpace
	}
	if n > 0 {
		h.Control = &t.extra[0]
		h.SetControllen(n)
	}
}

// mend handles a train that the system refused: it sends the datagrams one by one. If the system
// does not support segmentation, no further trains are made.
func (w *Writer) mend(t *train, errno syscall.Errno) {
	if t.n == 1 {
		w.refused++
		return
	}
	if errno == unix.EIO || errno == unix.EINVAL || errno == unix.EOPNOTSUPP || errno == unix.ENOPROTOOPT {
		w.segment = false
	}
	one, first, n := *t, t.first, t.n
	one.n = 1
	var head [1]unix.Mmsghdr
	for i := range n {
		one.first = first + i
		w.fill(&head[0], &one)
		if sent, _ := w.sendmmsg(head[:]); sent == 1 {
			w.sent++
		} else {
			w.refused++
		}
	}
}

func (w *Writer) sendmmsg(heads []unix.Mmsghdr) (int, syscall.Errno) {
	w.sending, w.n, w.errno = heads, 0, 0
	if err := w.conn.Write(w.call); err != nil {
		return 0, unix.EBADF
	}
	return w.n, w.errno
}

func (w *Writer) send(fd uintptr) bool {
	for {
		n, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(&w.sending[0])),
			uintptr(len(w.sending)), unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			w.n = int(n)
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return false
		}
		w.errno = errno
		return true
	}
}
