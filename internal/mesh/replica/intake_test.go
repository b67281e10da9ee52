package replica

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// TestIntakeFrees checks that the queue does not keep a message that was taken.
func TestIntakeFrees(t *testing.T) {
	q := newIntake()
	var freed weak.Pointer[wire.Message]
	func() {
		m := &wire.Message{Statement: make([]byte, 1<<20)}
		freed = weak.Make(m)
		if err := q.put(t.Context(), incoming{m: m}, false); err != nil {
			t.Fatal(err)
		}
	}()
	if err := q.put(t.Context(), incoming{m: &wire.Message{}}, false); err != nil {
		t.Fatal(err)
	}
	if x, ok := q.take(); !ok || len(x.m.Statement) != 1<<20 {
		t.Fatal("the first item is another")
	}
	runtime.GC()
	if freed.Value() != nil {
		t.Error("the queue keeps a message that was taken")
	}
	runtime.KeepAlive(q)
}

// TestLook checks that an array is inspected when its keys could report too much, and again when
// they have grown by a sixteenth or begun anew.
func TestLook(t *testing.T) {
	for _, tt := range []struct {
		g     filter.Geometry
		least uint64 // keys that can set a tenth of its cells or bits
	}{
		{filter.Geometry{Kind: filter.Cells, Lines: 1000, K: 4}, 128_000 / 10 / 4},
		{filter.Geometry{Kind: filter.Bitmap, Lines: 1000, K: 8}, 512_000 / 10 / 8},
	} {
		l := make(look)
		at := func(keys uint64) engine.ArrayState {
			return engine.ArrayState{Array: engine.ArraySpam, Start: 5, Geometry: tt.g, Keys: keys}
		}
		if l.due(at(tt.least)) || !l.due(at(tt.least+1)) {
			t.Errorf("%v: looked at with %d keys: %v; with one more: %v", tt.g, tt.least, l.due(at(tt.least)),
				l.due(at(tt.least+1)))
		}
		seen := 16 * tt.least
		l[wire.Ref{Array: engine.ArraySpam, Start: 5}] = seen
		for keys, want := range map[uint64]bool{seen: false, seen + tt.least: false, seen + tt.least + 1: true,
			seen - 1: true, tt.least: false} {
			if got := l.due(at(keys)); got != want {
				t.Errorf("%v: looked at with %d keys, after %d: %v, want %v", tt.g, keys, seen, got, want)
			}
		}
	}
}

// TestIntake compares the queue before the receiver with a list: first in, first out, within the
// limits of all bytes and of one sender's bytes.
func TestIntake(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 5))
		q := newIntake()
		type entry struct {
			from wire.Hint
			cost int
		}
		var list []entry
		sum := func(of wire.Hint) (all, share int) {
			for _, e := range list {
				all += e.cost
				if e.from == of {
					share += e.cost
				}
			}
			return all, share
		}
		refused := 0
		for range 600 {
			if rng.IntN(3) == 0 {
				x, ok := q.take()
				if ok != (len(list) > 0) {
					t.Fatalf("taken: %v, %d wait", ok, len(list))
				}
				if ok {
					if x.from != list[0].from || x.cost() != list[0].cost {
						t.Fatalf("taken of %v, %d bytes, want %+v", x.from, x.cost(), list[0])
					}
					list = list[1:]
				}
				if waits := len(q.ready) > 0; ok && len(list) > 0 && !waits {
					t.Fatalf("%d wait, and nobody is told", len(list))
				}
				continue
			}
			x := incoming{from: wire.Hint{byte(rng.IntN(5))}}
			if rng.IntN(10) > 0 {
				x.size, x.m = rng.IntN(12<<20), &wire.Message{Statement: make([]byte, 10), Rounds: make([]wire.Round, rng.IntN(3)),
					Wants: make([]wire.ArrayHead, rng.IntN(3))}
				if want := x.size + 10 + queuedCost*(1+len(x.m.Rounds)+len(x.m.Wants)); x.cost() != want {
					t.Fatalf("cost %d, want %d", x.cost(), want)
				}
			}
			all, share := sum(x.from)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			err := q.put(ctx, x, false)
			switch {
			case share > 0 && share+x.cost() > maxQueuedShare:
				refused++
				if !errors.Is(err, errShare) {
					t.Fatalf("%d bytes beside %d of the sender: %v", x.cost(), share, err)
				}
			case x.m != nil && all > 0 && all+x.cost() > maxQueued:
				refused++
				if !errors.Is(err, context.Canceled) {
					t.Fatalf("%d bytes beside %d: %v", x.cost(), all, err)
				}
			case err != nil:
				t.Fatalf("%d bytes beside %d, %d of the sender: %v", x.cost(), all, share, err)
			default:
				list = append(list, entry{x.from, x.cost()})
			}
		}
		if refused == 0 {
			t.Errorf("seed %d: nothing was refused", seed)
		}
	}
}

// TestIntakeWaits checks that an item without room waits until another is taken, or its context
// ends, and that an item over its sender's share waits only on request.
func TestIntakeWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newIntake()
		of := func(from byte, size int) incoming {
			return incoming{from: wire.Hint{from}, m: &wire.Message{}, size: size}
		}
		for from := byte(1); from <= 3; from++ {
			if err := q.put(t.Context(), of(from, maxQueuedShare-2*queuedCost), true); err != nil {
				t.Fatal(err)
			}
		}
		done := make(chan error, 1)
		wait := func(ctx context.Context, x incoming) {
			go func() { done <- q.put(ctx, x, true) }()
			synctest.Wait()
			if len(done) > 0 {
				t.Fatalf("it did not wait: %v", <-done)
			}
		}
		wait(t.Context(), of(1, 5000)) // over its share
		if err := q.put(t.Context(), of(1, 5000), false); !errors.Is(err, errShare) {
			t.Errorf("over its share: %v", err)
		}
		if x, ok := q.take(); !ok || x.from != (wire.Hint{1}) {
			t.Fatalf("%+v, %v", x, ok)
		}
		if synctest.Wait(); len(done) == 0 || <-done != nil {
			t.Fatal("it waits though something was taken")
		}
		if err := q.put(t.Context(), of(4, maxQueuedShare-10*queuedCost), true); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		wait(ctx, of(5, 10*queuedCost)) // no room at all
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("ended: %v", err)
		}
		wait(t.Context(), of(5, 10*queuedCost))
		q.take()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestIntakeBounds checks that the queue takes items that fill it, or a sender's share of it, to
// the byte, and an item of any size while it is empty.
func TestIntakeBounds(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	of := func(from byte, cost int) incoming {
		x := incoming{from: wire.Hint{from}, m: &wire.Message{}}
		x.size = cost - x.cost()
		return x
	}
	q := newIntake()
	put := func(x incoming) error { return q.put(gone, x, false) }
	if err := put(of(1, maxQueued+1)); err != nil {
		t.Errorf("more than all may have, in an empty queue: %v", err)
	}
	if err := put(of(2, 1000)); !errors.Is(err, context.Canceled) {
		t.Errorf("beside that: %v", err)
	}
	if _, ok := q.take(); !ok {
		t.Fatal("nothing to take")
	}
	full := 0
	for from := byte(1); full+maxQueuedShare <= maxQueued; from++ {
		if err := errors.Join(put(of(from, 1000)), put(of(from, maxQueuedShare-1000))); err != nil {
			t.Fatalf("a whole share after %d bytes: %v", full, err)
		}
		if err := put(of(from, 1000)); !errors.Is(err, errShare) {
			t.Errorf("more than a share: %v", err)
		}
		full += maxQueuedShare
	}
	if left := maxQueued - full; left > 0 {
		if err := put(of(200, left)); err != nil {
			t.Errorf("the last %d bytes: %v", left, err)
		}
	}
	if err := put(of(201, 1000)); !errors.Is(err, context.Canceled) {
		t.Errorf("beside a full queue: %v", err)
	}
	if err := put(incoming{from: wire.Hint{202}}); err != nil {
		t.Errorf("what costs nothing: %v", err)
	}
	for {
		if _, ok := q.take(); !ok {
			break
		}
	}
	if q.bytes != 0 || len(q.shares) != 0 {
		t.Errorf("%d bytes and %d shares of an empty queue", q.bytes, len(q.shares))
	}
}

// TestQueueShare checks that the receiver's queue is bounded in bytes. A sender over its share
// loses its next message, or waits; other senders do not.
func TestQueueShare(t *testing.T) {
	q := newIntake()
	flooder, other := wire.Hint{1}, wire.Hint{2}
	big := incoming{from: flooder, m: &wire.Message{}, size: 4 << 20}
	n := 0
	for ; n < 1000 && q.put(t.Context(), big, false) == nil; n++ {
	}
	if want := maxQueuedShare / (4 << 20); n == 0 || n > want {
		t.Errorf("%d messages of 4 MiB of one sender wait, want 1 to %d", n, want)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := q.put(ended, big, true); err != context.Canceled {
		t.Errorf("who waits for a share: %v", err)
	}
	if err := q.put(t.Context(), incoming{from: other, m: &wire.Message{}, size: 100}, false); err != nil {
		t.Errorf("another sender: %v", err)
	}
	many := incoming{from: wire.Hint{3}, m: &wire.Message{Wants: make([]wire.ArrayHead, wire.MaxParts)},
		size: 4 * wire.MaxParts}
	for n = 0; n < 1000 && q.put(t.Context(), many, false) == nil; n++ {
	}
	if n > maxQueuedShare/(wire.MaxParts*queuedCost) {
		t.Errorf("%d messages of %d parts wait", n, wire.MaxParts)
	}
	for left := 1; left > 0; left = len(q.list) {
		if _, ok := q.take(); !ok {
			t.Fatal("nothing to take")
		}
	}
	if q.bytes != 0 || len(q.shares) != 0 {
		t.Errorf("empty, and has %d bytes of %d senders", q.bytes, len(q.shares))
	}
	// An item larger than any share is taken alone.
	if err := q.put(t.Context(), incoming{from: flooder, m: &wire.Message{}, size: maxQueuedShare + 1},
		false); err != nil {
		t.Error(err)
	}
}

// TestTooFull compares the keys that an array may have when it arrives as images with the rule: an
// hour's allowance more than a peer may have added since the generation began.
func TestTooFull(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	o := &member.Options{MaxAdds: 100, MaxListings: 10}
	for _, tt := range []struct {
		array   engine.Array
		minutes int64
		most    uint64
	}{
		{engine.ArrayCounts, 0, 6000}, {engine.ArrayCounts, 10, 7000}, {engine.ArrayCounts, 1440, 150_000},
		{engine.ArraySpam, 0, 600}, {engine.ArrayRevoked, 30, 900},
		{engine.ArrayCounts, -30, 6000}, // it begins in half an hour
	} {
		s := engine.ArrayState{Array: tt.array, Start: uint64(now.Unix() - 60*tt.minutes), Keys: tt.most}
		if why := tooFull(o, now, s); why != "" {
			t.Errorf("%d keys of %s after %d minutes: %s", s.Keys, tt.array, tt.minutes, why)
		}
		if s.Keys++; tooFull(o, now, s) == "" {
			t.Errorf("%d keys of %s after %d minutes are taken", s.Keys, tt.array, tt.minutes)
		}
	}
}
