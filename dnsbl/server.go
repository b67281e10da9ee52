package dnsbl

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/bulkhead-mail/bulkhead/internal/listen"
)

// maxZones bounds the zones that a name is compared with.
const maxZones = 256

// tcpIdle is how long a TCP connection may rest (RFC 7766 section 6.2.3).
const tcpIdle = 20 * time.Second

// Options configure a [Server].
type Options struct {
	Zones []Zone
	// Rate limits the queries of one client; those above it are dropped, on TCP
	// the connection is closed. The zero Rate sets no limit.
	Rate listen.Rate
	// Exempt lists the clients that Rate does not apply to.
	Exempt []netip.Prefix
	// MaxConns caps the TCP connections; 0 means the default of internal/listen.
	MaxConns int
	// Log takes faults; nil discards them.
	Log *slog.Logger
}

// A Server answers DNS queries over UDP and TCP. Its methods may be called
// concurrently.
type Server struct {
	zones  atomic.Pointer[[]*zone] // the longest names first
	packet listen.PacketServer
	stream listen.StreamServer
	pool   sync.Pool // of *query

	// Stats counts what was answered.
	Stats Stats
}

// Stats are the counters of a [Server]; all may be read at any time.
type Stats struct {
	Queries atomic.Int64 // that were answered
	Hits    atomic.Int64 // answered with a listed name's address or text
	Misses  atomic.Int64 // answered with NXDOMAIN
	Refused atomic.Int64 // outside the zones, or of a kind that is not served
	Broken  atomic.Int64 // that broke the format; most of them get an answer that says so
}

// NewServer checks the zones.
func NewServer(o Options) (*Server, error) {
	s := &Server{}
	s.pool.New = func() any { return new(query) }
	if err := s.SetZones(o.Zones); err != nil {
		return nil, err
	}
	s.packet = listen.PacketServer{Rate: o.Rate, Exempt: o.Exempt, Log: o.Log, MaxPacket: 4096}
	s.packet.Handler = s.packet.Each(func(_ context.Context, p *listen.Packet) {
		p.Reply = s.answer(p.Reply, p.Data, maxUDP)
	})
	s.stream = listen.StreamServer{
		Handler: s.serve, MaxConns: o.MaxConns, RequestRate: o.Rate, Exempt: o.Exempt, RequestTime: tcpIdle, Log: o.Log,
	}
	return s, nil
}

// SetZones replaces the zones of a running server. A mistake changes nothing.
func (s *Server) SetZones(zones []Zone) error {
	if len(zones) > maxZones {
		return fmt.Errorf("dnsbl: %d zones, limit %d", len(zones), maxZones)
	}
	var all []*zone
	for _, z := range zones {
		c, err := newZone(z)
		if err != nil {
			return err
		}
		at := 0
		for ; at < len(all) && len(all[at].apex) >= len(c.apex); at++ {
			if all[at].apex == c.apex {
				return fmt.Errorf("dnsbl: zone %q is given twice", c.apex)
			}
		}
		all = append(all[:at], append([]*zone{c}, all[at:]...)...)
	}
	s.zones.Store(&all)
	return nil
}

// ServeUDP answers on conns (see [listen.Packets]) until ctx ends or one of them
// fails. After the end of ctx it returns nil.
func (s *Server) ServeUDP(ctx context.Context, conns []*net.UDPConn) error {
	return s.packet.Serve(ctx, conns)
}

// ServeTCP answers on l until ctx ends or l fails. After the end of ctx it
// returns nil.
func (s *Server) ServeTCP(ctx context.Context, l net.Listener) error {
	return s.stream.Serve(ctx, l)
}

// Packets and Conns return the counters of the transports.
func (s *Server) Packets() *listen.PacketStats { return &s.packet.Stats }

// Conns returns the counters of the TCP connections.
func (s *Server) Conns() *listen.StreamStats { return &s.stream.Stats }

// serve answers the queries of one TCP connection: each message has its length
// before it (RFC 1035 section 4.2.2).
func (s *Server) serve(_ context.Context, c *listen.Conn) {
	r := bufio.NewReader(c)
	var in, out []byte
	for !c.Draining() {
		c.Await()
		var size [2]byte
		if _, err := io.ReadFull(r, size[:]); err != nil {
			return
		}
		n := int(binary.BigEndian.Uint16(size[:]))
		in = append(in[:0], make([]byte, n)...)
		if _, err := io.ReadFull(r, in); err != nil || !c.Allow(1) {
			return
		}
		out = s.answer(append(out[:0], 0, 0), in, maxTCP)
		if len(out) == 2 {
			return
		}
		binary.BigEndian.PutUint16(out, uint16(len(out)-2))
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}

// answer appends the answer to msg to dst; it appends nothing to what must not
// be answered. limit is the most bytes that the transport takes.
func (s *Server) answer(dst, msg []byte, limit int) []byte {
	q := s.pool.Get().(*query)
	defer s.pool.Put(q)
	if err := q.parse(msg); errors.Is(err, errNoAnswer) {
		s.Stats.Broken.Add(1)
		return dst
	}
	s.Stats.Queries.Add(1)
	if limit != maxTCP {
		limit = q.udpSize
	}
	r := s.reply(q)
	return q.answer(dst, &r, limit)
}

func (s *Server) reply(q *query) reply {
	switch {
	case q.code != dnsmessage.RCodeSuccess:
		s.Stats.Broken.Add(1)
		return reply{code: q.code}
	case q.question.Class != dnsmessage.ClassINET && q.question.Class != dnsmessage.ClassANY,
		q.question.Type == dnsmessage.TypeAXFR, q.question.Type == typeIXFR:
		return s.refuse()
	}
	// A copy for each query would be garbage of the size of a list before it is
	// collected. Nobody keeps the name longer than q.
	z, labels := s.find(unsafe.String(unsafe.SliceData(q.name), len(q.name)))
	switch {
	case z == nil:
		return s.refuse()
	case labels == "":
		return z.ofApex(q.question.Type)
	}
	return s.ofName(q, z, labels)
}

func (s *Server) refuse() reply {
	s.Stats.Refused.Add(1)
	return reply{code: dnsmessage.RCodeRefused}
}

// find returns the zone of a name and the labels below its apex.
func (s *Server) find(name string) (*zone, string) {
	for _, z := range *s.zones.Load() {
		below, ok := strings.CutSuffix(name, z.apex)
		switch {
		case !ok:
		case below == "":
			return z, ""
		case below[len(below)-1] == '.':
			return z, below[:len(below)-1]
		}
	}
	return nil, ""
}

func (z *zone) ofApex(kind dnsmessage.Type) reply {
	switch kind {
	case dnsmessage.TypeSOA, dnsmessage.TypeALL:
		return reply{authoritative: true, zone: z, kind: dnsmessage.TypeSOA}
	case dnsmessage.TypeNS:
		return reply{authoritative: true, zone: z, kind: dnsmessage.TypeNS}
	}
	return z.nothing(dnsmessage.RCodeSuccess)
}

// nothing is the answer without a record: the zone's SOA says for how long.
func (z *zone) nothing(code dnsmessage.RCode) reply {
	return reply{code: code, authoritative: true, zone: z, kind: dnsmessage.TypeSOA, negative: true}
}

// ofName answers for a name below the apex. The address of a hit is given for A
// and ANY, its reason for TXT; every other type exists without data.
func (s *Server) ofName(q *query, z *zone, labels string) reply {
	found := absent
	if !q.odd {
		found = z.look(labels)
	}
	if found == absent {
		s.Stats.Misses.Add(1)
		return z.nothing(dnsmessage.RCodeNameError)
	}
	r := reply{authoritative: true, zone: z}
	kind := q.question.Type
	switch {
	case found != between && (kind == dnsmessage.TypeA || kind == dnsmessage.TypeALL):
		s.Stats.Hits.Add(1)
		r.kind = dnsmessage.TypeA
	case found == test && kind == dnsmessage.TypeTXT:
		r.kind, r.text = dnsmessage.TypeTXT, testReason
	case found == present && kind == dnsmessage.TypeTXT:
		s.Stats.Hits.Add(1)
		r.kind, r.text = dnsmessage.TypeTXT, z.List.Describe()
	default:
		return z.nothing(dnsmessage.RCodeSuccess)
	}
	return r
}
