package door

import (
	"bufio"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
)

// A closer counts how often it was closed.
type closer int

func (c *closer) Close() error { *c++; return nil }

// seat enters a connection that has waited for age, or is at work if age is negative.
func seat(t *testing.T, c *Crowd, addr string, age time.Duration) (*Place, *closer) {
	t.Helper()
	conn := new(closer)
	p, _ := c.Enter(conn, netip.MustParseAddr(addr))
	if p == nil {
		t.Fatalf("%s: no place", addr)
	}
	if p.since.Store(sinceOrigin() - int64(age)); age < 0 {
		p.Work()
	}
	return p, conn
}

// TestCrowdGivesWay: which connection loses its place to a newcomer from 192.0.2.1.
func TestCrowdGivesWay(t *testing.T) {
	type conn struct {
		addr  string
		age   time.Duration
		loses bool
	}
	const busy = -1
	for _, tt := range []struct {
		name  string
		crowd *Crowd
		conns []conn
		want  bool
	}{
		{"room", &Crowd{Max: 3}, []conn{{"192.0.2.9", time.Hour, false}, {"192.0.2.9", time.Hour, false}}, true},
		{"no caps", &Crowd{}, []conn{{"192.0.2.9", time.Hour, false}}, true},
		{"the longest idle", &Crowd{Max: 3}, []conn{{"192.0.2.9", time.Minute, false}, {"198.51.100.1", time.Hour, true},
			{"203.0.113.1", 2 * time.Second, false}}, true},
		{"none idle", &Crowd{Max: 2}, []conn{{"192.0.2.9", busy, false}, {"198.51.100.1", 0, false}}, false},
		{"the largest network, however fresh", &Crowd{Max: 4}, []conn{
			{"192.0.2.9", busy, false}, {"198.51.100.1", 0, true}, {"198.51.100.77", busy, false},
			{"198.51.100.3", busy, false}}, true},
		{"of that the longest", &Crowd{Max: 4}, []conn{
			{"203.0.113.1", time.Hour, false}, {"198.51.100.1", 0, false}, {"198.51.100.77", time.Second / 2, true},
			{"198.51.100.3", busy, false}}, true},
		{"a site of IPv6", &Crowd{Max: 4}, []conn{
			{"2001:db8:1::1", busy, false}, {"2001:db8:2:1::1", 0, true}, {"2001:db8:2:2::1", busy, false},
			{"2001:db8:2:3::1", busy, false}}, true},
		{"a network with one more is no larger", &Crowd{Max: 2},
			[]conn{{"198.51.100.1", 0, false}, {"203.0.113.1", busy, false}}, false},
		{"one's own idle", &Crowd{Max: 3}, []conn{{"192.0.2.9", 3 * time.Second, true}, {"192.0.2.8", 2 * time.Second, false},
			{"192.0.2.7", busy, false}}, true},
		{"one's own that are not", &Crowd{Max: 2}, []conn{{"192.0.2.9", 0, false}, {"192.0.2.8", 0, false}}, false},
		{"per client", &Crowd{Max: 9, PerClient: 2}, []conn{{"192.0.2.1", 3 * time.Second, true},
			{"192.0.2.1", 2 * time.Second, false}, {"192.0.2.7", time.Hour, false}}, true},
		{"per client, none idle", &Crowd{Max: 9, PerClient: 2}, []conn{{"192.0.2.1", 0, false}, {"192.0.2.1", busy, false},
			{"192.0.2.7", time.Hour, false}}, false},
	} {
		c := tt.crowd
		closers := make([]*closer, len(tt.conns))
		lost := false
		for i, conn := range tt.conns {
			_, closers[i] = seat(t, c, conn.addr, conn.age)
			lost = lost || conn.loses
		}
		conn := new(closer)
		p, evicted := c.Enter(conn, netip.MustParseAddr("192.0.2.1"))
		if (p != nil) != tt.want || evicted != lost || *conn != 0 {
			t.Errorf("%s: entered %v, evicted %v, the newcomer closed %d times", tt.name, p != nil, evicted, *conn)
		}
		for i, conn := range tt.conns {
			if closed := *closers[i] > 0; closed != conn.loses {
				t.Errorf("%s: connection %d closed %v", tt.name, i, closed)
			}
		}
	}
}

// TestCrowdBooks compares random operations with plain counts: no cap is ever exceeded, a
// connection loses its place once, and no place is left at the end.
func TestCrowdBooks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	c := &Crowd{Max: 20, PerClient: 4}
	type seated struct {
		place *Place
		conn  *closer
		addr  netip.Addr
	}
	var all []seated
	for range 5000 {
		if len(all) > 0 && rng.IntN(3) == 0 {
			i := rng.IntN(len(all))
			switch rng.IntN(3) {
			case 0:
				all[i].place.Leave()
				all[i].place.Leave()
				all = append(all[:i], all[i+1:]...)
			case 1:
				all[i].place.Work()
			case 2:
				all[i].place.since.Store(max(1, sinceOrigin()-rng.Int64N(int64(3*time.Second))))
			}
			continue
		}
		conn, addr := new(closer), netip.AddrFrom4([4]byte{192, 0, byte(rng.IntN(3)), byte(rng.IntN(4))})
		if p, _ := c.Enter(conn, addr); p != nil {
			all = append(all, seated{p, conn, addr})
		}
		kept := all[:0]
		clients, networks := make(map[netip.Addr]int), make(map[netip.Addr]int)
		for _, s := range all {
			if *s.conn == 0 {
				kept = append(kept, s)
				clients[s.addr]++
				networks[NetworkOf(s.addr)]++
			}
		}
		all = kept
		if len(all) > 20 || len(c.places) != len(all) {
			t.Fatalf("%d open, %d in the books", len(all), len(c.places))
		}
		for a, n := range clients {
			if n > 4 || c.clients[a] != n || c.shares[NetworkOf(a)].conns != networks[NetworkOf(a)] {
				t.Fatalf("%v has %d, in the books %d; its network %d, %+v", a, n, c.clients[a],
					networks[NetworkOf(a)], c.shares[NetworkOf(a)])
			}
		}
		if len(c.clients) != len(clients) || len(c.shares) != len(networks) {
			t.Fatal("who has left is remembered")
		}
	}
	for _, s := range all {
		s.place.Leave()
	}
	if len(c.places)+len(c.clients)+len(c.shares) != 0 {
		t.Errorf("left in the books: %v", c)
	}
}

// TestStreamNewcomers: the most silent connections that one network may have keep no client out,
// and do not disturb a request under way.
func TestStreamNewcomers(t *testing.T) {
	s := &StreamServer{MaxConns: 8, Handler: echo, Refusal: []byte("try again later\n")}
	addr, _ := start(t, s, "127.0.0.1:0")
	silent := make([]net.Conn, 8)
	for i := range silent {
		silent[i] = dial(t, addr)
	}
	await.True(t, "all connections are open", func() bool { return s.Stats.Open.Load() >= 8 })
	// All connections are local: they give way as soon as they are idle.
	await.True(t, "a newcomer gets an answer", func() bool {
		c := dial(t, addr)
		defer c.Close() // a server answers a limited number of refused ones at once
		if _, err := io.WriteString(c, "x\n"); err != nil {
			return false
		}
		answer := make([]byte, 2)
		_, err := io.ReadFull(c, answer)
		return err == nil && string(answer) == "x\n"
	})
	if s.Stats.Evicted.Load() == 0 || s.Stats.Open.Load() > 9 {
		t.Errorf("%d gave way, %d open", s.Stats.Evicted.Load(), s.Stats.Open.Load())
	}
	answered := 0
	for i, c := range silent {
		c.SetReadDeadline(time.Now().Add(time.Minute))
		// A request that is on the way while the connection gives way must not turn the answer into a reset.
		if _, err := io.WriteString(c, "x\n"); err != nil {
			t.Errorf("client %d: %v", i, err)
		}
		if answer, err := bufio.NewReader(c).ReadString('\n'); err != nil {
			t.Errorf("client %d: %q, %v", i, answer, err)
		} else if answer == "try again later\n" {
			answered++
			if rest, err := io.ReadAll(c); err != nil || len(rest) > 0 {
				t.Errorf("client %d reads %q after the answer, %v", i, rest, err)
			}
		} else if answer != "x\n" {
			t.Errorf("client %d: %q", i, answer)
		}
	}
	if int64(answered) != s.Stats.Evicted.Load() {
		t.Errorf("%d of %d that gave way read the answer", answered, s.Stats.Evicted.Load())
	}
	await.True(t, "the others remain", func() bool { return int(s.Stats.Open.Load()) <= 9 })
}
