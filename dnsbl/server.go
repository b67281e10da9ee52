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

// DefaultUnproven is the rate of answers to a network without cookies: more than the resolver of a
// busy mail server asks of one zone, and at most 30 KB a second to a victim.
var DefaultUnproven = door.Rate{PerSecond: 500, Burst: 1000}

// tcpIdle is how long a TCP connection may be idle (RFC 7766 section 6.2.3).
const tcpIdle = 20 * time.Second

// A Server answers DNS queries over UDP and TCP. Set the fields before Prepare or
// Serve. Its methods may be called concurrently.
type Server struct {
	// Zones are the zones at the start; see SetZones.
	Zones []Zone
	// Rate limits the queries of one client; those above it are dropped, and on TCP the
	// connection is closed. The zero Rate sets no limit.
	Rate door.Rate
	// Unproven limits the answers over UDP to one network, a /24 or /48, of clients that have not
	// proved by a cookie (RFC 7873) that the address is theirs: a forger of addresses would send
	// such traffic to a victim. Beyond it every second query is sent to TCP, and the other queries
	// get no answer. The zero Rate means DefaultUnproven.
	Unproven door.Rate
	// Exempt lists the clients without either rate limit, and without the limit of 1.5
	// times the query's size on an answer over UDP.
	Exempt []netip.Prefix
	// MaxConns caps the TCP connections; 0 means door.DefaultMaxConns.
	MaxConns int
	// Memory bounds the memory of datagrams, see [door.PacketServer]; nil sets no bound.
	Memory *door.Memory
	// Log records faults; nil discards them.
	Log *slog.Logger
	// Stats are the counters.
	Stats Stats

	once   sync.Once
	err    error
	zones  atomic.Pointer[[]*zone] // the longest names first
	packet door.PacketServer
	stream door.StreamServer
	pool   sync.Pool // of *desk

	baker    *baker
	unproven *door.Limiter
	slips    atomic.Int64
}

// Stats are the counters of a [Server]; all may be read at any time.
type Stats struct {
	Queries atomic.Int64 // that were answered
	Hits    atomic.Int64 // answered with a listed name's address or text
	Misses  atomic.Int64 // answered with NXDOMAIN
	Refused atomic.Int64 // outside the zones, or of an unsupported kind
	Broken  atomic.Int64 // malformed; most get an answer with an error code
	Slipped atomic.Int64 // beyond [Server.Unproven]: sent to TCP, or nothing
	Failed  atomic.Int64 // SERVFAIL: nothing is known of the zone's list
}

// Prepare checks the zones; Serve and ServePacket call it too.
func (s *Server) Prepare() error {
	s.once.Do(func() { s.err = s.prepare() })
	return s.err
}

func (s *Server) prepare() error {
	s.pool.New = func() any { return new(desk) }
	s.baker = newBaker()
	if s.Unproven == (door.Rate{}) {
		s.Unproven = DefaultUnproven
	}
	s.unproven = door.NewLimiter(s.Unproven, nil)
	s.packet.Handler, s.packet.Log, s.packet.MaxPacket, s.packet.Unordered = s.answerAll, s.Log, 4096, true
	s.packet.Rate, s.packet.Exempt, s.packet.Memory = s.Rate, s.Exempt, s.Memory
	s.stream.Handler, s.stream.Log, s.stream.RequestTime, s.stream.MaxConns = s.serve, s.Log, tcpIdle, s.MaxConns
	s.stream.RequestRate, s.stream.Exempt = s.Rate, s.Exempt
	return s.SetZones(s.Zones)
}

// SetZones replaces the zones of a server that has been prepared. On an error nothing
// changes.
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

// ServePacket answers the queries that come to pc until Shutdown, then returns
// door.ErrServerClosed; or until pc fails, or at once if a zone is wrong. It may be
// called concurrently, for several sockets; see [door.ListenPackets].
func (s *Server) ServePacket(pc net.PacketConn) error {
	if err := s.Prepare(); err != nil {
		pc.Close()
		return err
	}
	return s.packet.ServePacket(pc)
}

// Serve is ServePacket for the TCP connections of l.
func (s *Server) Serve(l net.Listener) error {
	if err := s.Prepare(); err != nil {
		l.Close()
		return err
	}
	return s.stream.Serve(l)
}

// Shutdown ends the server when current queries are answered, or ctx ends; see
// [door.PacketServer.Shutdown] and [door.StreamServer.Shutdown].
func (s *Server) Shutdown(ctx context.Context) error {
	return door.ShutdownBoth(ctx, &s.packet, &s.stream)
}

// PacketStats returns the counters of the datagrams.
func (s *Server) PacketStats() *door.PacketStats { return &s.packet.Stats }

// ConnStats returns the counters of the TCP connections.
func (s *Server) ConnStats() *door.ConnStats { return &s.stream.Stats }

// serve answers the queries of one TCP connection: each message is preceded by its
// length (RFC 1035 section 4.2.2).
func (s *Server) serve(_ context.Context, c *door.Conn) {
	client := c.Client()
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
		out = s.answer(append(out[:0], 0, 0), in, client, maxTCP)
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
