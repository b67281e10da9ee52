package dnsbl

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/bulkhead-mail/bulkhead/door"
)

// TestTCP: each answer follows its length. A query that must not be answered, or is above the rate,
// ends the connection, as does a client that stops.
func TestTCP(t *testing.T) {
	hit := question(dnsmessage.ClassINET, dnsmessage.TypeA, "evil", "example", "bl", "example", "com")
	framed := func(msg []byte) []byte { return append(binary.BigEndian.AppendUint16(nil, uint16(len(msg))), msg...) }
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	for _, tt := range []struct {
		name  string
		set   func(*Server)
		after []byte // two questions
		want  int    // answers
		count int64  // queries
	}{
		{"end", nil, nil, 2, 2},
		{"no query", nil, append(framed(make([]byte, 11)), framed(hit)...), 2, 2},
		{"nothing", nil, append([]byte{0, 0}, framed(hit)...), 2, 2},
		{"cut", nil, framed(hit)[:20], 2, 2},
		{"half a length", nil, []byte{0}, 2, 2},
		{"over the rate", func(s *Server) { s.Rate = door.Rate{PerSecond: 1e-6, Burst: 1} }, nil, 1, 1},
		{"exempt", func(s *Server) { s.Rate, s.Exempt = door.Rate{PerSecond: 1e-6, Burst: 1}, loopback }, nil, 2, 2},
	} {
		s := newFreshServer(t)
		if tt.set != nil {
			tt.set(s)
		}
		c, err := net.Dial("tcp", serve(t, s))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write(append(append(framed(hit), framed(hit)...), tt.after...)); err != nil {
			t.Fatal(err)
		}
		c.(*net.TCPConn).CloseWrite()
		c.SetDeadline(time.Now().Add(20 * time.Second))
		got, err := io.ReadAll(c)
		if err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: %v", tt.name, err)
		}
		n := 0
		for ; len(got) >= 2; n++ {
			size := min(int(binary.BigEndian.Uint16(got)), len(got)-2)
			var m dnsmessage.Message
			if err := m.Unpack(got[2 : 2+size]); err != nil || len(m.Answers) != 1 {
				t.Fatalf("%s: answer % x: %v", tt.name, got, err)
			}
			got = got[2+size:]
		}
		if n != tt.want || s.Stats.Queries.Load() != tt.count {
			t.Errorf("%s: %d answers, %d queries counted, want %d, %d", tt.name, n, s.Stats.Queries.Load(), tt.want, tt.count)
		}
	}
}

// newFreshServer is newServer without the preparation.
func newFreshServer(t *testing.T) *Server {
	var zones []Zone
	for _, z := range *newServer(t).zones.Load() {
		zones = append(zones, z.Zone)
	}
	return &Server{Zones: zones}
}

// TestUDPRate: queries above the rate are dropped, unless the client is exempt, and so are
// datagrams that must not be answered.
func TestUDPRate(t *testing.T) {
	hit := question(dnsmessage.ClassINET, dnsmessage.TypeA, "evil", "example", "bl", "example", "com")
	for _, exempt := range []bool{false, true} {
		s := newFreshServer(t)
		s.Rate = door.Rate{PerSecond: 1e-6, Burst: 3}
		want := int64(3)
		if exempt {
			s.Exempt = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
			want = 5
		}
		c, err := net.Dial("udp", serve(t, s))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for range 5 {
			if _, err := c.Write(hit); err != nil {
				t.Fatal(err)
			}
		}
		buf := make([]byte, 2048)
		for range want {
			c.SetReadDeadline(time.Now().Add(20 * time.Second))
			if n, err := c.Read(buf); err != nil || n < len(hit) {
				t.Fatalf("exempt %v: answer of %d bytes, %v", exempt, n, err)
			}
		}
		for s.PacketStats().Received.Load()+s.PacketStats().Limited.Load() < 5 {
			runtime.Gosched()
		}
		if got := s.Stats.Queries.Load(); got != want {
			t.Errorf("exempt %v: %d queries answered, want %d", exempt, got, want)
		}
	}
}

// TestWrongZone: with an invalid zone nothing is served, and the socket or
// listener is closed.
func TestWrongZone(t *testing.T) {
	s := &Server{Zones: []Zone{{Name: "x.example", Form: "?", List: set{}}}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range []error{s.Serve(l), s.ServePacket(pc), s.Prepare()} {
		if got == nil || !strings.Contains(got.Error(), `form "?"`) {
			t.Errorf("%v, want the form named", got)
		}
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is open: %v", err)
	}
	if _, _, err := pc.ReadFrom(nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the socket is open: %v", err)
	}
}
