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
)

// A forger is a peer that signs arbitrary messages.
type forger struct {
	id  *Identity
	at  stamp
	bus *memBus
}

// newForger returns a peer of a site that has no program of its own.
func newForger(t *testing.T, k *memBroker, of *site, weight float64) *forger {
	t.Helper()
	_, id := identity(t)
	if err := of.AddPeer(context.Background(), id.ID(), "forger", weight); err != nil {
		t.Fatal(err)
	}
	now := uint64(time.Now().UnixMilli())
	return &forger{id: id, at: stamp{incarnation: now, boot: now + 1, at: now + 2}, bus: k.connect()}
}

// say delivers a message to a node.
func (f *forger) say(t *testing.T, to *site, m *message) {
	t.Helper()
	f.at.seq++
	m.stamp, m.from = f.at, f.id.public.hint()
	f.bring(t, to, f.topic(m), appendMessage(nil, m, f.id))
}

// bring delivers arbitrary bytes to a node.
func (f *forger) bring(t *testing.T, to *site, x topic, raw []byte) {
	t.Helper()
	to.receiver.deliver(t.Context(), f.bus, arrival{topic: x, msg: raw}, true)
}

// topic returns where the forger publishes a message.
func (f *forger) topic(m *message) topic {
	x := topic{kind: m.kind, origin: f.id.public.hint()}
	if m.kind == kindAsk {
		x = topic{kind: m.kind, origin: m.to, key: f.id.public.hint().String()}
	}
	return x
}

func (s *site) peerOf(t *testing.T, id *Identity) PeerStatus {
	t.Helper()
	return s.peer(t, &site{id: id})
}

// tracked returns the rounds of an origin that wait in the receiver.
func (s *site) tracked(h hint) (rounds, bytes int) {
	done := make(chan struct{})
	s.receiver.call(func(context.Context) {
		defer close(done)
		if t := s.receiver.origins[h]; t != nil {
			for _, list := range t.pending {
				rounds += len(list)
				for _, x := range list {
					bytes += cap(x.data)
				}
			}
		}
	})
	<-done
	return rounds, bytes
}

// TestEndlessGaps checks that rounds that never continue an array are kept up to a limit, however
// small they are, and that none of them keeps its message alive.
func TestEndlessGaps(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		home := newSite(t, k, nil)
		defer home.stop()
		f := newForger(t, k, home, 1)
		start := home.engine.Own()[0].Start
		from := uint64(1000)
		for range 40 {
			m := &message{kind: kindDelta}
			for range maxParts {
				m.rounds = append(m.rounds, round{ref: ref{engine.ArrayCounts, start}, from: from, to: from + 1})
				from += 2
			}
			f.say(t, home, m)
		}
		// One waiting byte, in a message of a megabyte.
		m := &message{kind: kindDelta, rounds: []round{
			{ref: ref{engine.ArraySpam, start}, from: 7, to: 9, data: []byte{1}},
			{ref: ref{engine.ArrayCounts, 1}, from: 7, to: 9, data: make([]byte, 1<<20)}, // expired long ago
		}}
		f.say(t, home, m)
		synctest.Wait()
		rounds, held := home.tracked(f.id.public.hint())
		if limit := maxPending / roundCost; rounds == 0 || rounds > limit {
			t.Errorf("%d rounds wait, want 1 to %d", rounds, limit)
		}
		if held > maxPending {
			t.Errorf("%d bytes wait, limit %d", held, maxPending)
		}
		if p := home.peerOf(t, f.id); p.Refusals[reasonWaiting] == 0 || !strings.Contains(home.log.String(), reasonWaiting) {
			t.Errorf("what has no room is not booked: %+v", p)
		}
	})
}

// TestEndlessGenerations checks that a peer cannot make a node keep an unlimited number of arrays
// by beginning one generation after the other.
func TestEndlessGenerations(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		home := newSite(t, k, nil)
		defer home.stop()
		f := newForger(t, k, home, 1)
		begin := home.engine.Own()[0].Start
		g := filter.Geometry{Kind: filter.Bitmap, Lines: 1, K: 8, KeyID: testSecret.ID()}
		for n := range 8 {
			m := &message{kind: kindDelta}
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
				m.rounds = append(m.rounds, round{
					ref: ref{engine.ArraySpam, start}, to: r.To, geometry: g, announce: true,
					lineage: lineage{{f.at.boot, 0}}, data: r.AppendBody(nil),
				})
			}
			f.say(t, home, m)
		}
		settle()
		if n := len(home.engine.Replica(f.id.ID())); n == 0 || n > 2*maxParts {
			t.Errorf("%d arrays of one peer, limit %d", n, 2*maxParts)
		}
		if p := home.peerOf(t, f.id); p.Refusals[reasonLimit] == 0 || p.Missing != 0 {
			t.Errorf("%+v", p)
		}
	})
}

// imagesOf returns the images of an array of counts with keys keys, as a peer would send them,
// after change has modified each page.
func imagesOf(t *testing.T, f *forger, start uint64, keys int, at uint64, change func(*arrays.Image)) *message {
	t.Helper()
	g := filter.Geometry{Kind: filter.Cells, Lines: 4096, K: 6, KeyID: testSecret.ID()}
	c, err := arrays.NewCounting(g)
	if err != nil {
		t.Fatal(err)
	}
	c.SetGeneration(start)
	for n := range uint64(keys) {
		c.AddBatch(0, []filter.Key{{Hi: (n + 1) * 0x9e3779b97f4a7c15, Lo: (n + 1) * 0xc2b2ae3d27d4eb4f}}, []uint32{1}, nil)
	}
	m := &message{kind: kindImage,
		image: image{ref: ref{engine.ArrayCounts, start}, at: at, geometry: g, lineage: lineage{{f.at.boot, 0}}}}
	if at == 0 {
		m.image.at = c.Version()
	}
	for p := range c.Pages() {
		x := c.Image(p)
		if change != nil {
			change(x)
		}
		m.image.pages = append(m.image.pages, x.Append(nil))
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
			inBubble(t, func(t *testing.T, k *memBroker) {
				home := newSite(t, k, func(o *Options) { o.MaxAdds = 1 })
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
				if p.Quarantine == "" && (kept > 0 || p.Refusals[reasonAbsurd] == 0) {
					t.Errorf("10,000 keys where 60 an hour are allowed: %d keys are counted, %+v", kept, p)
				}
			})
		})
	}
}

// TestSubscriberIsSilent checks that a node that only subscribes does not answer asks.
func TestSubscriberIsSilent(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		home := newSite(t, k, func(o *Options) { o.Role = Subscribe })
		defer home.stop()
		f := newForger(t, k, home, 0)
		report(t, home.engine, 1, bulkhead.Spam, 3)
		settle()
		var told int
		handle := func(a arrival) {
			if m, err := parseMessage(a.msg, testSecret.ID()); err == nil && (m.kind != kindHead || len(m.heads) > 0) {
				told++
			}
		}
		f.bus.subscribe(func(x topic) bool { return x.kind != kindAsk }, handle)
		var wants []arrayHead
		for _, a := range home.engine.Own() {
			wants = append(wants, arrayHead{ref: ref{a.Array, a.Start}})
		}
		f.say(t, home, &message{kind: kindAsk, to: home.id.public.hint(), wants: wants})
		settle()
		life := home.Status().Incarnation
		for i := range wants {
			wants[i].version = 1 << 40 // an incarnation that it has forgotten
		}
		f.say(t, home, &message{kind: kindAsk, to: home.id.public.hint(), life: life, wants: wants})
		settle()
		if told > 0 {
			t.Errorf("%d messages tell what was counted", told)
		}
	})
}

// TestAskedAgainAndAgain checks that one peer that asks without pause does not make a node resend
// to all without pause.
func TestAskedAgainAndAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		home := newSite(t, k, nil)
		defer home.stop()
		f := newForger(t, k, home, 0)
		for n := range 500 {
			report(t, home.engine, n, bulkhead.Sighting, 1)
		}
		settle()
		before := home.Status().Bytes
		life := home.Status().Incarnation
		own := home.engine.Own()
		for range 1000 {
			f.say(t, home, &message{kind: kindAsk, to: home.id.public.hint(), life: life,
				wants: []arrayHead{{ref: ref{own[0].Array, own[0].Start}}}})
			f.say(t, home, &message{kind: kindAsk, to: home.id.public.hint(), life: life})
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
	inBubble(t, func(t *testing.T, k *memBroker) {
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
	inBubble(t, func(t *testing.T, k *memBroker) {
		home, peer := newSite(t, k, nil), newSiteOf(t, k, engine.Options{Tally: engine.BookOptions{Capacity: 100_000}},
			func(o *Options) { o.imageBytes = 4 << 10 })
		defer home.stop()
		defer peer.stop()
		trust(t, home, 1, peer)
		report(t, peer.engine, 0, bulkhead.Sighting, 1)
		settle()
		k.limit(20 << 10)
		for n := range 6000 {
			report(t, peer.engine, n, bulkhead.Sighting, 1)
		}
		time.Sleep(2 * time.Minute)
		report(t, peer.engine, 1, bulkhead.Sighting, 1)
		time.Sleep(2 * time.Minute)
		if got := check(t, home.engine, 1).Sightings; got != 2 {
			t.Errorf("%d sightings, want 2; peer %+v", got, home.peer(t, peer))
		}
		if n := peer.Status().Dropped; n == 0 {
			t.Error("no message is counted as dropped")
		}
	})
}

// TestSmallRounds checks that a sender's stored rounds are bounded even if all are small, and are
// dropped with their arrays.
func TestSmallRounds(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		home := newSite(t, k, nil)
		home.stop()
		s := newSender(home.Mesh)
		const n = 200_000
		for i := range uint64(n) {
			s.remember(&round{ref: ref{engine.ArrayCounts, 7}, from: i, to: i + 1, data: make([]byte, 20)})
		}
		if kept, limit := len(s.arrays[ref{engine.ArrayCounts, 7}].rounds), maxHistory/roundCost; kept == 0 || kept > limit {
			t.Errorf("%d rounds are kept, want 1 to %d", kept, limit)
		}
		s.outbox = make([]outbox, len(home.buses))
		s.head(context.Background()) // generation 7 is dropped
		if len(s.arrays)+len(s.order)+s.history > 0 {
			t.Errorf("%d arrays, %d rounds, %d bytes are kept of what has expired", len(s.arrays), len(s.order), s.history)
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
			inBubble(t, func(t *testing.T, k *memBroker) {
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
					if c := check(t, home.engine, n); c.Sightings > 0 || c.Judged != bulkhead.Unjudged {
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
func everything(t *testing.T, f *forger, start uint64, a engine.Array, lines uint64, asImage bool) *message {
	t.Helper()
	g := filter.Geometry{Kind: kindOf(a), Lines: lines, K: 8, KeyID: testSecret.ID()}
	var keys []filter.Key
	for n := range uint64(12_000) {
		keys = append(keys, filter.Key{Hi: (n + 1) * 0x9e3779b97f4a7c15 >> min(1, lines-1), Lo: (n + 1) * 0xc2b2ae3d27d4eb4f})
	}
	x := ref{a, start}
	l := lineage{{f.at.boot, 0}}
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
		return &message{kind: kindImage, image: image{x, r.To, g, l, [][]byte{page}}}
	}
	return &message{kind: kindDelta,
		rounds: []round{{ref: x, to: r.To, geometry: g, announce: true, lineage: l, data: r.AppendBody(nil)}}}
}
