package fuzzy

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/listen"
	"github.com/bulkhead-mail/bulkhead/internal/prototest"
)

// TestIPv6: the same dialogue over IPv6, and from a wildcard address of both
// families.
func TestIPv6(t *testing.T) {
	for _, tt := range []struct{ bind, host string }{{"[::1]:0", "::1"}, {":0", "::1"}, {":0", "127.0.0.1"}} {
		s := &Server{House: new(prototest.House), UpdateFrom: listen.Loopback()}
		ctx, cancel := context.WithCancel(context.Background())
		conns, err := listen.Packets(ctx, tt.bind, 1)
		if err != nil {
			cancel()
			t.Skipf("no IPv6: %v", err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := s.ServePackets(ctx, conns); err != nil {
				t.Errorf("ServePackets: %v", err)
			}
		})
		_, port, err := net.SplitHostPort(conns[0].LocalAddr().String())
		must(t, err)
		c := dial(t, net.JoinHostPort(tt.host, port), nil)
		must(t, c.Write(t.Context(), digestOf(1), nil, 1, 7))
		if r := mustCheck(t, c, digestOf(1), nil); r.Value != 7 {
			t.Errorf("%s asked at %s: %+v", tt.bind, tt.host, r)
		}
		cancel()
		wg.Wait()
	}
}

// answers returns how many of n pings are answered. All packets of one socket
// are handled in their order, so that silence means that the rest was dropped.
func answers(t *testing.T, address string, n int) (answered int) {
	t.Helper()
	c, err := net.Dial("udp", address)
	must(t, err)
	defer c.Close()
	for i := range n {
		r := Request{Version: 4, Command: Ping, Tag: uint32(i)}
		_, err := c.Write(r.Append(nil))
		must(t, err)
	}
	buf := make([]byte, 2048)
	for {
		c.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		if _, err := c.Read(buf); err != nil {
			return answered
		}
		answered++
	}
}

func TestRatesAndNetworks(t *testing.T) {
	few := listen.Rate{PerSecond: 1e-6, Burst: 5}
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	for _, tt := range []struct {
		name string
		s    *Server
		want int // of 20
	}{
		{"none", &Server{}, 20},
		{"rate", &Server{Rate: few}, 5},
		{"rate, exempt", &Server{Rate: few, Exempt: loopback}, 20},
		{"blocked", &Server{Blocked: loopback}, 0},
		{"others blocked", &Server{Blocked: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}, 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.s.House = new(prototest.House)
			if got := answers(t, serve(t, tt.s), 20); got != tt.want {
				t.Errorf("%d of 20 requests answered, want %d", got, tt.want)
			}
		})
	}
}

// slowHouse counts nothing until it is released.
type slowHouse struct {
	bulkhead.Counter
	counting chan struct{} // told of each count that has begun
	release  chan struct{}
}

func (h *slowHouse) Count(ctx context.Context, sigs []bulkhead.Signature, n []uint32) error {
	select {
	case h.counting <- struct{}{}:
	case <-h.release:
	}
	<-h.release
	return h.Counter.Count(ctx, sigs, n)
}

// TestWritesDoNotStallChecks: checks are answered while as many writes as the
// server takes wait for a disk that does not answer.
func TestWritesDoNotStallChecks(t *testing.T) {
	house := &slowHouse{bulkhead.CounterOf(new(prototest.House)), make(chan struct{}, 1), make(chan struct{})}
	address := serve(t, &Server{House: house})
	release := sync.OnceFunc(func() { close(house.release) })
	t.Cleanup(release) // before the server's own, which waits for its writes
	writer, err := net.Dial("udp", address)
	must(t, err)
	defer writer.Close()
	const writes = 200
	for i := range writes {
		r := Request{Version: 4, Command: Write, Digest: digestOf(byte(i)), Flag: 7, Value: 1, Tag: uint32(i)}
		_, err := writer.Write(r.Append(nil))
		must(t, err)
	}
	<-house.counting
	c := dial(t, address, nil)
	for i := range 100 {
		if r := mustCheck(t, c, digestOf(byte(i)), nil); r.OK() {
			t.Fatalf("check %d: %+v before anything was counted", i, r)
		}
	}
	release()
	// A retransmission is not counted again, and waits for the first.
	must(t, c.Write(t.Context(), digestOf(77), nil, 7, 1))
}
