package dnsbl

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead/door"
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
	Rate door.Rate
	// Exempt lists the clients that Rate does not apply to.
	Exempt []netip.Prefix
	// MaxConns caps the TCP connections; 0 means the default of door.
	MaxConns int
	// Log takes faults; nil discards them.
	Log *slog.Logger
}

// A Server answers DNS queries over UDP and TCP. Its methods may be called
// concurrently.
type Server struct {
	zones  atomic.Pointer[[]*zone] // the longest names first
	packet door.PacketServer
	stream door.StreamServer
	pool   sync.Pool // of *desk

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
	s.pool.New = func() any { return new(desk) }
	if err := s.SetZones(o.Zones); err != nil {
		return nil, err
	}
	s.packet = door.PacketServer{Rate: o.Rate, Exempt: o.Exempt, Log: o.Log, MaxPacket: 4096, Unordered: true}
	s.packet.Handler = s.answerAll
	s.stream = door.StreamServer{
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

// ServeUDP answers on conns (see [door.ListenPackets]) until ctx ends or one of them
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
func (s *Server) Packets() *door.PacketStats { return &s.packet.Stats }

// Conns returns the counters of the TCP connections.
func (s *Server) Conns() *door.ConnStats { return &s.stream.Stats }

// serve answers the queries of one TCP connection: each message has its length
// before it (RFC 1035 section 4.2.2).
func (s *Server) serve(_ context.Context, c *door.Conn) {
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
