package fuzzy

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestIPv6: the same dialogue over IPv6, and from a wildcard address of both
// families.
func TestIPv6(t *testing.T) {
	serve := func(t *testing.T, address string) net.Addr {
		s := &Server{Clearinghouse: new(prototest.House), UpdateFrom: door.Loopback()}
		return prototest.ServePackets(t, address, 1, s)
	}
	prototest.EachFamily(t, serve, func(t *testing.T, address string) {
		c := dial(t, address, nil)
		must(t, c.Write(t.Context(), digestOf(1), nil, 1, 7))
		if r := mustCheck(t, c, digestOf(1), nil); r.Value != 7 {
			t.Errorf("asked at %s: %+v", address, r)
		}
	})
}

// answers returns how many of n pings are answered, of which want should be.
func answers(t *testing.T, address string, n, want int) (answered int) {
	t.Helper()
	c, err := net.Dial("udp", address)
	must(t, err)
	defer c.Close()
	for i := range n {
		r := Request{Version: 4, Command: Ping, Tag: uint32(i)}
		_, err := c.Write(r.Append(nil))
		must(t, err)
	}
	return prototest.Answers(c, want)
}

func TestRatesAndNetworks(t *testing.T) {
	few := door.Rate{PerSecond: 1e-6, Burst: 5}
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
			tt.s.Clearinghouse = new(prototest.House)
			if got := answers(t, serve(t, tt.s), 20, tt.want); got != tt.want {
				t.Errorf("%d of 20 requests answered, want %d", got, tt.want)
			}
		})
	}
}

// slowHouse counts nothing until it is released.
type slowHouse struct {
	bulkhead.Counter
	counting chan struct{} // receives each count that has begun
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
	memory := door.NewMemory(1 << 30)
	address := serve(t, &Server{Clearinghouse: house, Memory: memory})
	release := sync.OnceFunc(func() { close(house.release) })
	t.Cleanup(release) // runs before the server's cleanup, which waits for its writes
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
	if _, held, _ := memory.Usage(); held == 0 {
		t.Error("writes that wait hold no memory")
	}
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

// TestHiddenListHidesNoOther: an entry of a digest on a list that is hidden from a client does not
// change the client's answers for other lists.
func TestHiddenListHidesNoOther(t *testing.T) {
	var shingles [32]uint64
	for i := range shingles {
		shingles[i] = uint64(i) * 0x9e3779b97f4a7c15
	}
	ours, err := NewKeyPair(nil)
	must(t, err)
	guests, err := NewKeyPair(nil)
	must(t, err)
	house := new(prototest.House)
	s := &Server{Clearinghouse: house, Keys: []*Key{{KeyPair: ours, Update: true}, {KeyPair: guests, Hidden: []uint8{7}}}}
	address := serve(t, s)
	writer, guest := dial(t, address, &ours.Public), dial(t, address, &guests.Public)
	must(t, writer.Write(t.Context(), digestOf(1), &shingles, 2, 5))
	must(t, writer.Write(t.Context(), digestOf(2), &shingles, 7, 9))
	must(t, writer.Write(t.Context(), digestOf(3), nil, 7, 9))
	listed := digestOf(3)
	if _, err := house.Report(t.Context(), bulkhead.Report{Signatures: []bulkhead.Signature{plainSignature(&listed)},
		Vote: bulkhead.Spam}); err != nil {
		t.Fatal(err)
	}
	if r := mustCheck(t, guest, digestOf(2), &shingles); r.Flag != 2 || r.Value != 5 || len(r.Extra) != 0 {
		t.Errorf("near copy of what the guest may know: %+v", r)
	}
	if r := mustCheck(t, guest, digestOf(3), nil); r.Flag != 1 || !r.OK() {
		t.Errorf("listed by votes, and hidden: %+v", r)
	}
	if r := mustCheck(t, writer, digestOf(2), &shingles); r.Flag != 7 || r.Value != 9 {
		t.Errorf("to us: %+v", r)
	}
}
