package door

import (
	"net"
	"net/netip"

	"github.com/bulkhead-mail/bulkhead/internal/mmsg"
)

// A reader receives datagrams, several at once if it can.
type reader interface {
	SetBuffer(i int, b []byte) // for datagram i of the next Read
	Read() (int, error)
	Len(i int) int
	Origin(i int, p *Packet) // sets Client of p, the zero AddrPort if there is none, and where its reply goes
	Control(i int) []byte
}

// A writer sends replies.
type writer interface {
	Send(p *Packet)
	Flush() (sent, refused int) // since the last Flush
}

type batchReader struct{ *mmsg.Reader }

func (r batchReader) Origin(i int, p *Packet) {
	p.from = r.Addr(i)
	p.Client = mmsg.AddrPort(p.from)
}

type batchWriter struct{ *mmsg.Writer }

func (w batchWriter) Send(p *Packet) { w.Add(p.from, p.oob, p.Reply) }

// A single reads or writes one datagram after the other, on sockets that are not
// the kernel's, or are wrapped.
type single struct {
	conn          net.PacketConn
	buf           []byte
	n             int
	from          net.Addr
	sent, refused int
}

func (s *single) SetBuffer(i int, b []byte) {
	if i == 0 {
		s.buf = b
	}
}

func (s *single) Read() (int, error) {
	var err error
	if s.n, s.from, err = s.conn.ReadFrom(s.buf); err != nil {
		return 0, err
	}
	return 1, nil
}

func (s *single) Len(int) int { return s.n }

func (s *single) Origin(_ int, p *Packet) {
	p.from, p.Client = s.from, addrPortOf(s.from)
}

func (s *single) Control(int) []byte { return nil }

func (s *single) Send(p *Packet) {
	if _, err := s.conn.WriteTo(p.Reply, p.from); err != nil {
		s.refused++
		return
	}
	s.sent++
}

func (s *single) Flush() (sent, refused int) {
	sent, refused = s.sent, s.refused
	s.sent, s.refused = 0, 0
	return sent, refused
}

// addrPortOf returns IP address and port within a, or the zero AddrPort.
func addrPortOf(a net.Addr) netip.AddrPort {
	if a == nil {
		return netip.AddrPort{}
	}
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port())
}
