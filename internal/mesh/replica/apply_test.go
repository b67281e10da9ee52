package replica

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// TestJitter checks that pauses are spread over the upper half of the longest one.
func TestJitter(t *testing.T) {
	for _, d := range []time.Duration{0, 1, 2, time.Second, time.Hour} {
		least, most := d, time.Duration(0)
		for range 1000 {
			got := jitter(d)
			least, most = min(least, got), max(most, got)
		}
		if least < d/2 || most > d || d > 2 && (least > d/2+d/20 || most < d-d/20) {
			t.Errorf("pauses of up to %v are from %v to %v", d, least, most)
		}
	}
}

// TestEmptyArrival checks that a message without bytes is malformed, unless it is a hub's word that the sender still
// publishes a head.
func TestEmptyArrival(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		from := r.Peer.Hint()
		for still, want := range map[wire.HeadSum]string{{}: member.ReasonMalformed, {1}: ""} {
			a := wire.Arrival{Topic: wire.Topic{Kind: wire.KindHead, Origin: from}, Still: still}
			got := r.Refused(func() { r.receiver.Deliver(t.Context(), r.Bus, a, false) })
			x, queued := r.receiver.in.take()
			if got != want || queued != (want == "") || queued && (x.from != from || x.sum != still || x.m != nil) {
				t.Errorf("with the sum %v: refused %q, queued %v %+v", still, got, queued, x)
			}
		}
	})
}

// TestHeadSupersedes checks that a head that names restored arrays drops these of former incarnations, and that all
// former incarnations of an aggregate are dropped.
func TestHeadSupersedes(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		x, y := wire.Ref{Array: engine.ArraySpam, Start: 7}, wire.Ref{Array: engine.ArraySpam, Start: 8}
		heads := []wire.ArrayHead{{Ref: x, Version: 5, Geometry: meshtest.Bits, Lineage: wire.Lineage{{Boot: 20, Base: 5}}},
			{Ref: y, Version: 5, Geometry: meshtest.Bits, Lineage: wire.Lineage{{Boot: 20, Base: 0}}}}
		restored := []engine.ArrayKey{{Array: x.Array, Start: x.Start}}
		for name, tt := range map[string]struct {
			former    bool
			aggregate bool
			err       error
			want      []engine.ArrayKey
			dropped   bool
			refused   string
		}{
			"no former incarnation": {false, false, nil, nil, false, ""},
			"one":                   {true, false, nil, restored, false, ""},
			"of an aggregate":       {true, true, nil, nil, true, ""},
			"a failure":             {true, true, bulkhead.ErrOverLimit, nil, false, member.ReasonLimit},
		} {
			r.again()
			r.Engine.Former, r.Engine.Superseded, r.Engine.Dropped, r.Engine.FormerErr = nil, nil, nil, tt.err
			if tt.former {
				r.Engine.Former = []engine.FormerIncarnation{{ID: "former1", Incarnation: 1}}
			}
			var organisations []wire.Organisation
			if tt.aggregate {
				organisations = []wire.Organisation{{1}}
			}
			r.Figures(r.Peer.Hint(), func(s *member.Stats) { s.Organisations = organisations })
			r.Engine.Held = []engine.ArrayState{{Array: x.Array, Start: x.Start, Version: 5, Boot: 20},
				{Array: y.Array, Start: y.Start, Version: 5, Boot: 20}}
			m := &wire.Message{Kind: wire.KindHead, Stamp: wire.Stamp{Incarnation: 2, Boot: 20, Seq: 1}, Heads: heads}
			got := r.Refused(func() { r.t.applyHead(t.Context(), m) })
			if !slices.Equal(r.Engine.Superseded, tt.want) || (len(r.Engine.Dropped) == 1) != tt.dropped || got != tt.refused {
				t.Errorf("%s: %v superseded, %v dropped, refused %q", name, r.Engine.Superseded, r.Engine.Dropped, got)
			}
		}
	})
}

// TestDoubtedSince checks that a peer that stays in doubt with each head is so since the first one.
func TestDoubtedSince(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		x := wire.Ref{Array: engine.ArraySpam, Start: 7}
		r.Engine.Held = []engine.ArrayState{{Array: x.Array, Start: x.Start, Version: 10, Geometry: meshtest.Bits, Boot: 20}}
		first := time.Now()
		for seq := range uint64(3) {
			at := wire.Stamp{Incarnation: 1, Boot: 20, Seq: seq + 1}
			r.t.last = at
			heads := []wire.ArrayHead{{Ref: x, Version: 9, Geometry: meshtest.Bits, Lineage: wire.Lineage{{Boot: 20, Base: 0}}}}
			r.t.applyHead(t.Context(), &wire.Message{Kind: wire.KindHead, Stamp: at, Heads: heads})
			if !r.t.suspect || !r.t.doubted.Equal(first) {
				t.Errorf("head %d: suspect %v since %v, want %v", seq, r.t.suspect, r.t.doubted, first)
			}
			bubble.Advance(resetAfter / 4)
		}
	})
}

// TestRunRepairs checks that a running receiver asks for what a peer's head names and this node lacks, however many
// messages arrive meanwhile, and that it asks for nothing once nothing is missing.
func TestRunRepairs(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		r.Engine.Life = 1
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			r.receiver.Run(ctx)
			close(done)
		}()
		seq := uint64(0)
		head := func(arrays ...wire.ArrayHead) {
			seq++
			m := &wire.Message{Kind: wire.KindHead, From: r.Peer.Hint(),
				Stamp: wire.Stamp{Incarnation: 1, Boot: 1, Seq: seq, At: 1}, Heads: arrays}
			if err := r.receiver.in.put(ctx, incoming{from: m.From, m: m}, true); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		asked := func(after time.Duration) (n int) {
			bubble.Advance(after)
			synctest.Wait()
			for ; len(r.asked.wants) > 0; n++ {
				<-r.asked.wants
			}
			return n
		}
		missing := wire.ArrayHead{Ref: wire.Ref{Array: engine.ArraySpam, Start: 7}, Version: 9, Geometry: meshtest.Bits}
		for round := range 2 {
			if n := asked(time.Hour); n != 0 {
				t.Errorf("round %d: asked %d times for nothing", round, n)
			}
			n := 0
			for range 40 {
				head(missing)
				n += asked(gapWait / 8)
			}
			if n == 0 {
				t.Errorf("round %d: not asked while messages arrive", round)
			}
			if n := asked(10 * time.Minute); n < 8 || n > 30 {
				t.Errorf("round %d: asked %d times in ten minutes, want about every %v", round, n, maxBackoff)
			}
			head()
		}
		cancel()
		<-done
	})
}
