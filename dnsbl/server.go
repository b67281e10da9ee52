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
	defer func() {
		q.question = nil // it belongs to the transport
		s.pool.Put(q)
	}()
	if err := q.parse(msg); errors.Is(err, errNoAnswer) {
		s.Stats.Broken.Add(1)
		return dst
	}
	s.Stats.Queries.Add(1)
	if limit != maxTCP {
		limit = q.udpSize
	}
	switch {
	case q.code != noError:
		s.Stats.Broken.Add(1)
		return q.begin(dst, q.code, false, limit).end(q, q.code)
	case q.class != classIN && q.class != classANY, q.kind == typeAXFR, q.kind == typeIXFR:
		return s.refuse(q, dst, limit)
	}
	// A copy for each query would be garbage of the size of a list before it is
	// collected. Nobody keeps the name longer than q.
	z, labels := s.find(unsafe.String(unsafe.SliceData(q.name), len(q.name)))
	if z == nil {
		return s.refuse(q, dst, limit)
	}
	apex := q.zoneOffset(len(z.apex))
	if labels == "" {
		return z.answerApex(q, dst, apex, limit)
	}
	return s.answerName(q, dst, z, labels, apex, limit)
}

func (s *Server) refuse(q *query, dst []byte, limit int) []byte {
	s.Stats.Refused.Add(1)
	return q.begin(dst, refused, false, limit).end(q, refused)
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

func (z *zone) answerApex(q *query, dst []byte, apex uint16, limit int) []byte {
	r := q.begin(dst, noError, true, limit)
	switch q.kind {
	case typeSOA, typeANY:
		r.addSOA(z, apex, 6)
	case typeNS:
		r.addNS(z, apex)
	default:
		r.addSOA(z, apex, 8)
	}
	return r.end(q, noError)
}

// answerName answers for a name below the apex. The address of a hit is given
// for A and ANY, its reason for TXT; every other type exists without data.
func (s *Server) answerName(q *query, dst []byte, z *zone, labels string, apex uint16, limit int) []byte {
	found := absent
	if !q.odd {
		found = z.look(labels)
	}
	if found == absent {
		s.Stats.Misses.Add(1)
		r := q.begin(dst, nxDomain, true, limit)
		r.addSOA(z, apex, 8)
		return r.end(q, nxDomain)
	}
	r := q.begin(dst, noError, true, limit)
	switch {
	case found != between && (q.kind == typeA || q.kind == typeANY):
		s.Stats.Hits.Add(1)
		r.addA(z.ttl, z.code)
	case found == test && q.kind == typeTXT:
		r.addTXT(z.ttl, testReason)
	case found == present && q.kind == typeTXT:
		s.Stats.Hits.Add(1)
		r.addTXT(z.ttl, z.List.Describe())
	default:
		r.addSOA(z, apex, 8)
	}
	return r.end(q, noError)
}
