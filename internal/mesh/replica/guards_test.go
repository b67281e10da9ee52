package replica

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// TestIntakeRests checks that the receiver is woken as long as something waits, and no longer.
func TestIntakeRests(t *testing.T) {
	q := newIntake()
	for range 3 {
		if err := q.put(t.Context(), incoming{m: &wire.Message{}}, false); err != nil {
			t.Fatal(err)
		}
	}
	for left := 2; left >= 0; left-- {
		<-q.ready
		if _, ok := q.take(); !ok {
			t.Fatalf("nothing to take, want %d more", left+1)
		}
		if woken := len(q.ready) == 1; woken != (left > 0) {
			t.Errorf("%d wait, and the receiver is woken: %v", left, woken)
		}
	}
}

// A lookedAt counts how often the arrays of a peer are looked at.
type lookedAt struct {
	*meshtest.Engine
	n int
}

func (e *lookedAt) Replica(origin string) []engine.ArrayState {
	e.n++
	return e.Engine.Replica(origin)
}

// TestNothingMissing checks that a peer of which nothing can be missing takes no look at its arrays: a node
// with many peers repairs several times a second.
func TestNothingMissing(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		x := wire.Ref{Array: engine.ArraySpam, Start: 7}
		for name, tt := range map[string]struct {
			before func(*origin)
			looks  int
		}{
			"nothing": {func(*origin) {}, 0},
			"a head":  {func(o *origin) { o.heads[x] = wire.ArrayHead{Ref: x, Geometry: meshtest.Bits} }, 1},
			"a round that waits": {func(o *origin) {
				one := meshtest.Round(t, x, 4, 2)
				o.hold(&one)
			}, 1},
			"an array that its head omits": {func(o *origin) { o.gone = []wire.Ref{x} }, 1},
		} {
			r := newRig(t, k, nil)
			e := &lookedAt{Engine: r.Engine}
			r.t.engine = e
			if tt.before(r.t); e.n != 0 {
				t.Fatalf("%s: %d looks before", name, e.n)
			}
			if r.t.missing(); e.n != tt.looks {
				t.Errorf("%s: %d looks at the arrays, want %d", name, e.n, tt.looks)
			}
		}
	})
}

// TestFarFuture checks that the refusal of a generation beyond any calendar names a time in the future, not one
// before 1970.
func TestFarFuture(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		for _, start := range []uint64{1 << 40, 1 << 63, math.MaxUint64} {
			r.Engine.Expired = start
			got := r.Refused(func() { r.t.early(wire.Ref{Array: engine.ArraySpam, Start: start}) })
			if text := r.Entry().Refusals.Last; got != member.ReasonEarly || !strings.Contains(text, "starts at 36812-") {
				t.Errorf("start %d: refused for %q: %s", start, got, text)
			}
		}
	})
}

// TestWordOrMessage checks that a hub's word about a head is queued without a message, and that an empty message is
// malformed.
func TestWordOrMessage(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		topic := wire.Topic{Kind: wire.KindHead, Origin: r.Peer.Hint()}
		for _, tt := range []struct {
			still   wire.HeadSum
			data    []byte
			refused string
		}{{wire.HeadSum{3}, nil, ""}, {wire.HeadSum{}, nil, member.ReasonMalformed},
			{wire.HeadSum{3}, []byte{1}, member.ReasonMalformed}} {
			got := r.Refused(func() {
				r.receiver.Deliver(t.Context(), r.Bus, wire.Arrival{Topic: topic, Data: tt.data, Still: tt.still}, false)
			})
			x, ok := r.receiver.in.take()
			if got != tt.refused || ok != (tt.refused == "") ||
				ok && (x.m != nil || x.sum != tt.still || x.from != topic.Origin) {
				t.Errorf("%+v: refused for %q, queued %v: %+v", tt, got, ok, x)
			}
		}
	})
}

// TestUnreadableHeard checks that a disk that does not give the last messages of peers ends the start: what is there is
// not lost, and must not be written anew.
func TestUnreadableHeard(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		if err := os.Mkdir(filepath.Join(r.Options.Dir, HeardFile), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := r.receiver.Load(); err == nil {
			t.Error("a folder in place of the file is no error")
		}
	})
}

// TestFullDiskAtRenewal checks that a new incarnation that the engine could not note begins with the peer's next
// message.
func TestFullDiskAtRenewal(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		r.Engine.Life = 20
		m := &wire.Message{Kind: wire.KindHead, Stamp: wire.Stamp{Incarnation: 30, Boot: 31, Seq: 1, At: 40}}
		r.Engine.RenewErr = bulkhead.ErrReadOnly
		if got := r.Refused(func() {
			if r.t.alive(t.Context(), m) || r.t.last == m.Stamp {
				t.Error("an incarnation that is not noted has begun")
			}
		}); got != "" {
			t.Errorf("the peer is charged for a full disk: %s", got)
		}
		r.Engine.RenewErr = nil
		if !r.t.alive(t.Context(), m) || r.t.last != m.Stamp || len(r.Engine.Renewed) != 1 {
			t.Errorf("noted %v, last message %+v", r.Engine.Renewed, r.t.last)
		}
	})
}

// TestRoundsThatShowTooMuch checks that a peer whose rounds fill an array until it reports what was never added is no
// longer counted.
func TestRoundsThatShowTooMuch(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		for shown, want := range map[float64]bool{maxShown: false, maxShown + 0.01: true} {
			r := newRig(t, k, nil)
			x := wire.Ref{Array: engine.ArrayCounts, Start: 7}
			r.Engine.Held = []engine.ArrayState{{Array: x.Array, Start: x.Start, Version: 4, Boot: 5, Geometry: meshtest.Cells,
				Keys: 1 << 30}}
			r.Engine.ShownShare = shown
			r.t.delta(t.Context(), &wire.Message{Kind: wire.KindDelta, Stamp: wire.Stamp{Boot: 5},
				Rounds: []wire.Round{meshtest.Round(t, x, 4, 2)}})
			if got := r.Entry().Quarantine != ""; len(r.Engine.Applied) != 1 || got != want {
				t.Errorf("an array that shows %v: applied %d rounds, quarantined %v, want %v", shown, len(r.Engine.Applied), got,
					want)
			}
		}
	})
}

// A slowBus takes all the time that it may have to read the images of an origin.
type slowBus struct {
	*meshtest.SentBus
	took []time.Duration
}

func (b *slowBus) StoredImages(ctx context.Context, _ wire.Hint, _ func(wire.Arrival) bool) error {
	end, _ := ctx.Deadline()
	b.took = append(b.took, time.Until(end))
	bubble.Advance(time.Until(end))
	return ctx.Err()
}

// TestSharesOfTime checks that each new origin has an equal share of the time to read images, however slow the broker
// is with the others.
func TestSharesOfTime(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		const peers = 4
		for range peers - 1 {
			if err := r.AddPeer(t.Context(), meshtest.Identity(t).ID(), "", 1); err != nil {
				t.Fatal(err)
			}
		}
		b := &slowBus{SentBus: r.Bus}
		r.receiver.imagesOfNew(t.Context(), b)
		for i, took := range b.took {
			if took != catchUpLimit/peers {
				t.Errorf("origin %d has %v, want %v", i, took, catchUpLimit/peers)
			}
		}
		if len(b.took) != peers {
			t.Errorf("%d origins are read, want %d", len(b.took), peers)
		}
	})
}

// TestNewerHeadStays checks that a head of the incarnation that is held does not take the place of a newer
// incarnation's head: only that one can convince a peer of what it had.
func TestNewerHeadStays(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		for next, want := range map[uint64]string{0: "held", 20: "held", 21: "newer"} {
			r := newRig(t, k, nil)
			r.Engine.Life = 20
			r.t.next, r.t.evidence.Head = next, []byte("newer")
			m := &wire.Message{Kind: wire.KindHead, Stamp: wire.Stamp{Incarnation: 20, Boot: 20, Seq: 1, At: 30},
				Statement: []byte("held")}
			if r.t.applyHead(t.Context(), m); string(r.t.evidence.Head) != want || r.t.head != m.Stamp {
				t.Errorf("after incarnation %d: the head %q is kept, want %q", next, r.t.evidence.Head, want)
			}
		}
	})
}

// A growing engine holds an array at the version of the parts that it took last.
type growing struct{ *meshtest.Engine }

func (e *growing) ApplyRemote(ctx context.Context, origin string, parts []engine.Parsed) error {
	x := parts[len(parts)-1]
	e.Held = []engine.ArrayState{{Array: x.Array, Start: x.Start, Version: max(x.At, x.To), Boot: x.Boot,
		Geometry: x.Geometry}}
	return e.Engine.ApplyRemote(ctx, origin, parts)
}

// TestImageLetsRoundsIn checks that rounds which wait for an image are applied when it comes.
func TestImageLetsRoundsIn(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		r.t.engine = &growing{r.Engine}
		x := wire.Ref{Array: engine.ArrayCounts, Start: 7}
		c, err := arrays.NewCounting(meshtest.Cells)
		if err != nil {
			t.Fatal(err)
		}
		c.SetGeneration(x.Start)
		waits := meshtest.Round(t, x, 9, 2)
		r.t.hold(&waits)
		r.t.image(t.Context(), &wire.Message{Kind: wire.KindImage, Stamp: wire.Stamp{Incarnation: 1, Boot: 5},
			Image: wire.Image{Ref: x, At: 9, Geometry: meshtest.Cells, Lineage: wire.Lineage{{Boot: 5, Base: 0}},
				Pages: [][]byte{c.Image(0).Append(nil)}}})
		if len(r.Engine.Applied) != 2 || len(r.t.pending) != 0 || r.t.waiting != 0 {
			t.Errorf("%d parts are applied, want the image and the round; %d bytes wait", len(r.Engine.Applied), r.t.waiting)
		}
	})
}
