package mesh

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
)

// adds returns rounds with n adds and with keys keys.
func adds(t *testing.T, n, keys int) (counts, lists *arrays.Round) {
	t.Helper()
	c, err := arrays.NewCounting(filter.Geometry{Kind: filter.Cells, Lines: filter.PageLines, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	b, err := arrays.NewBits(filter.Geometry{Kind: filter.Bitmap, Lines: filter.PageLines, K: 8})
	if err != nil {
		t.Fatal(err)
	}
	counts, lists = c.NewRound(), b.NewRound()
	counts.Record([]filter.Key{{Hi: 1, Lo: 1}}, []uint32{uint32(n)}, []uint32{0})
	for i := range keys {
		lists.RecordBits([]filter.Key{{Hi: uint64(i) << 40, Lo: uint64(i)}}, []bool{false})
	}
	counts.Close()
	lists.Close()
	return counts, lists
}

// TestGrowth checks that an hour's allowance may arrive at once, that the used part is restored by
// the minute, and that a silence of an hour or more adds its own allowance.
func TestGrowth(t *testing.T) {
	o := &member.Options{MaxAdds: 100, MaxListings: 10, StreamAge: 72 * time.Hour}
	begun := time.Unix(1_800_000_000, 0)
	type step struct {
		minute  float64
		silence time.Duration // credited before
		adds    int
		keys    int
		ok      bool
	}
	for name, steps := range map[string][]step{
		"an hour's worth":          {{0, 0, 6000, 600, true}, {0, 0, 1, 0, false}},
		"one more listing":         {{0, 0, 0, 601, false}},
		"one more add":             {{0, 0, 6001, 0, false}},
		"it comes back":            {{0, 0, 6000, 600, true}, {10, 0, 1000, 100, true}, {10, 0, 1, 0, false}},
		"listings come back":       {{0, 0, 0, 600, true}, {10, 0, 0, 100, true}, {10, 0, 0, 1, false}},
		"no more than all of it":   {{0, 0, 3000, 0, true}, {1000, 0, 6000, 0, true}, {1000, 0, 1, 0, false}},
		"a clock that goes back":   {{10, 0, 6000, 0, true}, {0, 0, 1, 0, false}},
		"a short silence":          {{0, 59 * time.Minute, 6001, 0, false}},
		"two hours of silence":     {{0, 2 * time.Hour, 6000 + 12000, 600 + 1200, true}, {0, 0, 1, 0, false}},
		"listings after a silence": {{0, 2 * time.Hour, 0, 600 + 1200, true}, {0, 0, 0, 1, false}},
		"the credit stays":         {{0, 2 * time.Hour, 0, 0, true}, {50, 0, 6000 + 12000, 0, true}, {50, 0, 1, 0, false}},
		"for an hour":              {{0, 2 * time.Hour, 0, 0, true}, {61, 0, 6000, 0, true}, {61, 0, 1, 0, false}},
		"a silence of a year":      {{0, 365 * 24 * time.Hour, 6000 + 72*6000, 0, true}, {0, 0, 1, 0, false}},
	} {
		g := &member.Growth{At: begun}
		for i, s := range steps {
			now := begun.Add(time.Duration(s.minute * float64(time.Minute)))
			if s.silence > 0 {
				g.Credit(o, now, s.silence)
			}
			counts, lists := adds(t, s.adds, s.keys)
			why := g.Charge(o, now, engine.ArrayCounts, counts)
			if extra := g.Charge(o, now, engine.ArraySpam, lists); why == "" {
				why = extra
			}
			if (why == "") != s.ok {
				t.Errorf("%s, step %d: %q", name, i+1, why)
			}
		}
	}
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

// TestDraw checks that a peer gets twice the size of all arrays, and as much again in ten minutes.
func TestDraw(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		m := closed(t, nil)
		_, id := identity(t)
		h := id.Hint()
		if err := m.AddPeer(t.Context(), id.ID(), "", 1); err != nil {
			t.Fatal(err)
		}
		own := map[wire.Ref]engine.ArrayState{
			{Array: engine.ArrayCounts, Start: 5}: {Bytes: 1 << 20, Keys: 1 << 30},
			{Array: engine.ArraySpam, Start: 5}:   {Bytes: 1 << 20, Keys: 1 << 10}, // mostly empty: 9 KiB to send
		}
		const most = drawLeast + 2<<20 + 2*(1024+8<<10)
		s := m.sender
		if !s.may(h, own) {
			t.Fatal("a new peer may have nothing")
		}
		for _, step := range []struct {
			wait  time.Duration
			bytes int
			may   bool
		}{
			{0, most - 1, true}, {0, 1, false}, {time.Minute, 0, true}, {0, most/10 + 1, false},
			{time.Minute, most / 10, false}, {5 * time.Minute, most / 3, true}, {24 * time.Hour, most - 1, true}, {0, 2, false},
		} {
			bubble.Advance(step.wait)
			s.may(h, own) // it asks
			s.charge(h, step.bytes)
			if got := s.may(h, own); got != step.may {
				t.Errorf("after %v and %d bytes: %v, want %v", step.wait, step.bytes, got, step.may)
			}
		}
		if got := m.Status().Peers[0].Served; got < 2*most {
			t.Errorf("%d bytes were served, want those that were charged", got)
		}
		if err := m.EvictPeer(t.Context(), id.ID()); err != nil {
			t.Fatal(err)
		}
		if s.forgetDraws(); len(s.draws) != 0 {
			t.Error("something is known of a peer that is none")
		}
		// Images that are larger than their keys suggest count with their real size.
		s.arrays[wire.Ref{Array: engine.ArraySpam, Start: 5}] = &ownArray{image: 4 << 20}
		if s.may(h, own); s.draws[h].left != drawLeast+2<<20+8<<20 {
			t.Errorf("%.0f bytes, want twice those of the images", s.draws[h].left)
		}
	})
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

// TestExcess checks the text about a peer above its rate.
func TestExcess(t *testing.T) {
	o := &member.Options{MaxAdds: 100, MaxListings: 10}
	for want, g := range map[string]member.Growth{
		"": {Adds: 6000, Listings: 600}, "5 adds above its rate, limit 100 a minute": {Adds: 6005, Listings: 600},
		"7 listings above its rate, limit 10 a minute": {Adds: 6000, Listings: 607},
	} {
		if got := g.Excess(o); got != want {
			t.Errorf("%+v: %q, want %q", g, got, want)
		}
	}
}
