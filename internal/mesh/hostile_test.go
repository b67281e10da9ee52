package mesh

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// A forger is a peer that signs arbitrary messages.
type forger struct {
	id  *member.Identity
	at  wire.Stamp
	bus *meshtest.Bus
}

// newForger returns a peer of a site that has no program of its own.
func newForger(t *testing.T, k *meshtest.Broker, of *site, weight float64) *forger {
	t.Helper()
	_, id := meshtest.Folder(t)
	if err := of.AddPeer(context.Background(), id.ID(), "forger", weight); err != nil {
		t.Fatal(err)
	}
	now := uint64(time.Now().UnixMilli())
	return &forger{id: id, at: wire.Stamp{Incarnation: now, Boot: now + 1, At: now + 2}, bus: k.Connect()}
}

// say delivers a message to a node.
func (f *forger) say(t *testing.T, to *site, m *wire.Message) {
	t.Helper()
	f.at.Seq++
	m.Stamp, m.From = f.at, f.id.Hint()
	f.bring(t, to, f.topic(m), wire.AppendMessage(nil, m, f.id))
}

// bring delivers arbitrary bytes to a node.
func (f *forger) bring(t *testing.T, to *site, x wire.Topic, raw []byte) {
	t.Helper()
	to.replicas.Deliver(t.Context(), f.bus, wire.Arrival{Topic: x, Data: raw}, true)
}

// topic returns where the forger publishes a message.
func (f *forger) topic(m *wire.Message) wire.Topic {
	x := wire.Topic{Kind: m.Kind, Origin: f.id.Hint()}
	if m.Kind == wire.KindAsk {
		x = wire.Topic{Kind: m.Kind, Origin: m.To, Key: f.id.Hint().String()}
	}
	return x
}

func (s *site) peerOf(t *testing.T, id *member.Identity) PeerStatus {
	t.Helper()
	return s.peer(t, &site{id: id})
}

// TestEndlessGenerations checks that a peer cannot make a node keep an unlimited number of arrays
// by beginning one generation after the other.
func TestEndlessGenerations(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		home := newSite(t, k, nil)
		defer home.stop()
		f := newForger(t, k, home, 1)
		begin := home.engine.Own()[0].Start
		g := filter.Geometry{Kind: filter.Bitmap, Lines: 1, K: 8, KeyID: enginetest.Secret.ID()}
		for n := range 8 {
			m := &wire.Message{Kind: wire.KindDelta}
			for i := range 512 {
				bits, err := arrays.NewBits(g)
				if err != nil {
					t.Fatal(err)
				}
				start := begin + uint64(512*n+i)
				bits.SetGeneration(start)
				r := bits.NewRound()
				keys := []filter.Key{{Hi: 1, Lo: 2}}
				before := make([]bool, 1)
				bits.SetBatch(0, keys, before)
				r.RecordBits(keys, before)
				r.Close()
				m.Rounds = append(m.Rounds, wire.Round{
					Ref: wire.Ref{Array: engine.ArraySpam, Start: start}, To: r.To, Geometry: g, Announce: true,
					Lineage: wire.Lineage{{Boot: f.at.Boot, Base: 0}}, Data: r.AppendBody(nil),
				})
			}
			f.say(t, home, m)
		}
		settle()
		if n := len(home.engine.Replica(f.id.ID())); n == 0 || n > 2*wire.MaxParts {
			t.Errorf("%d arrays of one peer, limit %d", n, 2*wire.MaxParts)
		}
		if p := home.peerOf(t, f.id); p.Refusals[member.ReasonLimit] == 0 || p.Missing != 0 {
			t.Errorf("%+v", p)
		}
	})
}

// imagesOf returns the images of an array of counts with keys keys, as a peer would send them,
// after change has modified each page.
func imagesOf(t *testing.T, f *forger, start uint64, keys int, at uint64, change func(*arrays.Image)) *wire.Message {
	t.Helper()
	g := filter.Geometry{Kind: filter.Cells, Lines: 4096, K: 6, KeyID: enginetest.Secret.ID()}
	c, err := arrays.NewCounting(g)
	if err != nil {
		t.Fatal(err)
	}
	c.SetGeneration(start)
	for n := range uint64(keys) {
		c.AddBatch(0, []filter.Key{{Hi: (n + 1) * 0x9e3779b97f4a7c15, Lo: (n + 1) * 0xc2b2ae3d27d4eb4f}}, []uint32{1}, nil)
	}
	m := &wire.Message{Kind: wire.KindImage,
		Image: wire.Image{Ref: wire.Ref{Array: engine.ArrayCounts, Start: start}, At: at, Geometry: g,
			Lineage: wire.Lineage{{Boot: f.at.Boot, Base: 0}}}}
	if at == 0 {
		m.Image.At = c.Version()
	}
	for p := range c.Pages() {
		x := c.Image(p)
		if change != nil {
			change(x)
		}
		m.Image.Pages = append(m.Image.Pages, x.Append(nil))
	}
	return m
}

// TestImagesAboveTheRate checks that images of more keys than a peer may have added are detected,
// even if some are declared missing, or declare fewer keys.
func TestImagesAboveTheRate(t *testing.T) {
	for name, tt := range map[string]struct {
		at     uint64
		change func(*arrays.Image)
	}{
		"complete":       {},
		"never complete": {at: 1 << 40},
		"belittled":      {change: func(m *arrays.Image) { m.Info.Keys = 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
				home := newSite(t, k, func(o *member.Options) { o.MaxAdds = 1 })
				defer home.stop()
				f := newForger(t, k, home, 1)
				start := home.engine.Own()[0].Start
				f.say(t, home, imagesOf(t, f, start, 10_000, tt.at, tt.change))
				settle()
				p := home.peerOf(t, f.id)
				kept := 0
				for _, a := range home.engine.Replica(f.id.ID()) {
					kept += int(a.Keys)
				}
				if p.Quarantine == "" && (kept > 0 || p.Refusals[member.ReasonAbsurd] == 0) {
					t.Errorf("10,000 keys where 60 an hour are allowed: %d keys are counted, %+v", kept, p)
				}
			})
		})
	}
}

// TestSubscriberIsSilent checks that a node that only subscribes does not answer asks.
func TestSubscriberIsSilent(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		home := newSite(t, k, func(o *member.Options) { o.Role = member.Subscribe })
		defer home.stop()
		f := newForger(t, k, home, 0)
		enginetest.Report(t, home.engine, 1, bulkhead.Spam, 3)
		settle()
		var notified int
		handle := func(a wire.Arrival) {
			if m, err := meshtest.Parse(a.Data, enginetest.Secret.ID()); err == nil && (m.Kind != wire.KindHead ||
				len(m.Heads) > 0) {
				notified++
			}
		}
		f.bus.Subscribe(func(x wire.Topic) bool { return x.Kind != wire.KindAsk }, handle)
		var wants []wire.ArrayHead
		for _, a := range home.engine.Own() {
			wants = append(wants, wire.ArrayHead{Ref: wire.Ref{Array: a.Array, Start: a.Start}})
		}
		f.say(t, home, &wire.Message{Kind: wire.KindAsk, To: home.id.Hint(), Wants: wants})
		settle()
		life := home.Status().Incarnation
		for i := range wants {
			wants[i].Version = 1 << 40 // an incarnation that it has forgotten
		}
		f.say(t, home, &wire.Message{Kind: wire.KindAsk, To: home.id.Hint(), Incarnation: life, Wants: wants})
		settle()
		if notified > 0 {
			t.Errorf("%d messages tell what was counted", notified)
		}
	})
}

// TestAskedAgainAndAgain checks that one peer that asks without pause does not make a node resend
// to all without pause.
func TestAskedAgainAndAgain(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		home := newSite(t, k, nil)
		defer home.stop()
		f := newForger(t, k, home, 0)
		for n := range 500 {
			enginetest.Report(t, home.engine, n, bulkhead.Sighting, 1)
		}
		settle()
		before := home.Status().Bytes
		life := home.Status().Incarnation
		own := home.engine.Own()
		for range 1000 {
			f.say(t, home, &wire.Message{Kind: wire.KindAsk, To: home.id.Hint(), Incarnation: life,
				Wants: []wire.ArrayHead{{Ref: wire.Ref{Array: own[0].Array, Start: own[0].Start}}}})
			f.say(t, home, &wire.Message{Kind: wire.KindAsk, To: home.id.Hint(), Incarnation: life})
			synctest.Wait()
		}
		settle()
		if sent := home.Status().Bytes - before; sent > 100_000 {
			t.Errorf("%d bytes sent for 1000 questions after the same", sent)
		}
	})
}

// TestRollbackOfTheFuture checks that a rollback also refuses generations that have begun by the
// peer's clock.
func TestRollbackOfTheFuture(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		home := newSite(t, k, nil)
		defer home.stop()
		f := newForger(t, k, home, 1)
		start := uint64(time.Now().Add(10 * time.Hour).Unix())
		f.say(t, home, imagesOf(t, f, start, 100, 0, nil))
		settle()
		if n := len(home.engine.Replica(f.id.ID())); n != 1 {
			t.Fatalf("%d arrays", n)
		}
		if err := home.RollbackPeer(t.Context(), f.id.ID(), time.Now().Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
		f.say(t, home, imagesOf(t, f, start, 100, 0, nil))
		settle()
		if n := len(home.engine.Replica(f.id.ID())); n != 0 {
			t.Errorf("%d arrays came back after the rollback", n)
		}
	})
}

// TestRoundTooLarge checks that a round that is too large for the broker costs images, and not the
// peer's counts for as long as the round is remembered.
func TestRoundTooLarge(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		home, peer := newSite(t, k, nil), newSiteOf(t, k, engine.Options{Tally: engine.BookOptions{Capacity: 100_000}},
			func(o *member.Options) { o.MessageBytes = 4 << 10 })
		defer home.stop()
		defer peer.stop()
		trust(t, home, 1, peer)
		enginetest.Report(t, peer.engine, 0, bulkhead.Sighting, 1)
		settle()
		k.Limit(20 << 10)
		for n := range 6000 {
			enginetest.Report(t, peer.engine, n, bulkhead.Sighting, 1)
		}
		bubble.Advance(2 * time.Minute)
		enginetest.Report(t, peer.engine, 1, bulkhead.Sighting, 1)
		bubble.Advance(2 * time.Minute)
		if got := enginetest.Check(t, home.engine, 1).Sightings; got != 2 {
			t.Errorf("%d sightings, want 2; peer %+v", got, home.peer(t, peer))
		}
		if n := peer.Status().Dropped; n == 0 {
			t.Error("no message is counted as dropped")
		}
	})
}

// TestListsEverything checks that a few listings, or counts, that make an array report every
// signature are detected, however they arrive, and whether they fill a small array or half of the
// lines of a larger one.
func TestListsEverything(t *testing.T) {
	for name, tt := range map[string]struct {
		array engine.Array
		lines uint64
		image bool
	}{
		"list":              {engine.ArraySpam, 1, false},
		"half of a list":    {engine.ArraySpam, 64, false},
		"list as image":     {engine.ArraySpam, 1, true},
		"counts":            {engine.ArrayCounts, 1, false},
		"counts, as images": {engine.ArrayCounts, 64, true},
	} {
		t.Run(name, func(t *testing.T) {
			meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
				home := newSite(t, k, nil)
				defer home.stop()
				f := newForger(t, k, home, 1)
				f.say(t, home, everything(t, f, home.engine.Own()[0].Start, tt.array, tt.lines, tt.image))
				settle()
				if p := home.peerOf(t, f.id); !strings.Contains(p.Quarantine, "of all signatures") {
					t.Errorf("%+v", p)
				}
				shown := 0
				for n := range 100 {
					if c := enginetest.Check(t, home.engine, n); c.Sightings > 0 || c.Judged != bulkhead.Unjudged {
						shown++
					}
				}
				if shown > 0 {
					t.Errorf("%d of 100 signatures that nobody reported are shown", shown)
				}
			})
		})
	}
}

// everything returns a message about an array that reports every key in half of its lines, or in
// its only one.
func everything(t *testing.T, f *forger, start uint64, a engine.Array, lines uint64, asImage bool) *wire.Message {
	t.Helper()
	kind := filter.Bitmap
	if a == engine.ArrayCounts {
		kind = filter.Cells
	}
	g := filter.Geometry{Kind: kind, Lines: lines, K: 8, KeyID: enginetest.Secret.ID()}
	var keys []filter.Key
	for n := range uint64(12_000) {
		keys = append(keys, filter.Key{Hi: (n + 1) * 0x9e3779b97f4a7c15 >> min(1, lines-1), Lo: (n + 1) * 0xc2b2ae3d27d4eb4f})
	}
	x := wire.Ref{Array: a, Start: start}
	l := wire.Lineage{{Boot: f.at.Boot, Base: 0}}
	var r *arrays.Round
	var page []byte
	if a == engine.ArrayCounts {
		c, err := arrays.NewCounting(g)
		if err != nil {
			t.Fatal(err)
		}
		c.SetGeneration(start)
		r = c.NewRound()
		n, before := make([]uint32, len(keys)), make([]uint32, len(keys))
		for i := range n {
			n[i] = 1
		}
		c.AddBatch(0, keys, n, before)
		r.Record(keys, n, before)
		page = c.Image(0).Append(nil)
	} else {
		b, err := arrays.NewBits(g)
		if err != nil {
			t.Fatal(err)
		}
		b.SetGeneration(start)
		r = b.NewRound()
		before := make([]bool, len(keys))
		b.SetBatch(0, keys, before)
		r.RecordBits(keys, before)
		page = b.Image(0).Append(nil)
	}
	r.Close()
	if asImage {
		return &wire.Message{Kind: wire.KindImage, Image: wire.Image{Ref: x, At: r.To, Geometry: g, Lineage: l,
			Pages: [][]byte{page}}}
	}
	return &wire.Message{Kind: wire.KindDelta,
		Rounds: []wire.Round{{Ref: x, To: r.To, Geometry: g, Announce: true, Lineage: l, Data: r.AppendBody(nil)}}}
}
