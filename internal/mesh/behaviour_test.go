package mesh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// A site is a node in memory.
type site struct {
	*Mesh
	engine *engine.Engine
	bus    *meshtest.Bus   // to the first broker
	wires  []*meshtest.Bus // to all brokers
	id     *member.Identity
	log    bytes.Buffer
	stop   func()
}

// newSite starts a node on a broker. The default options may be changed.
func newSite(t *testing.T, k *meshtest.Broker, change func(*member.Options)) *site {
	t.Helper()
	return newSiteOf(t, k, engine.Options{}, change)
}

// newSiteOf is newSite with options of the engine.
func newSiteOf(t *testing.T, k *meshtest.Broker, eo engine.Options, change func(*member.Options)) *site {
	t.Helper()
	return newSiteOn(t, []*meshtest.Broker{k}, eo, change)
}

// newSiteOn is newSiteOf on several brokers.
func newSiteOn(t *testing.T, brokers []*meshtest.Broker, eo engine.Options, change func(*member.Options)) *site {
	t.Helper()
	s := &site{}
	eo.Secret = enginetest.Secret
	eo.Tally = engine.BookOptions{Generation: 24 * time.Hour, Keep: 4, Capacity: max(eo.Tally.Capacity, 20_000),
		Error: 1e-3, Memory: eo.Tally.Memory}
	eo.Block = engine.BookOptions{Generation: 7 * 24 * time.Hour, Keep: 3, Capacity: 2000, Error: 1e-6}
	e, err := engine.Open(context.Background(), eo)
	if err != nil {
		t.Fatal(err)
	}
	o := member.Options{Dir: memoryDir(t), Engine: e, KeyID: enginetest.Secret.ID(), Mode: member.External,
		Log: slog.New(slog.NewTextHandler(&s.log, nil))}
	if change != nil {
		change(&o)
	}
	if o.Identity == nil {
		if o.Identity, err = member.OpenIdentity(o.Dir); err != nil {
			t.Fatal(err)
		}
	}
	s.engine, s.id = e, o.Identity
	if s.Mesh, err = prepare(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	for i, k := range brokers {
		b := k.Connect()
		b.Server = fmt.Sprint("memory ", i)
		s.wires = append(s.wires, b)
		s.Mesh.use(b)
	}
	if len(s.wires) > 0 {
		s.bus = s.wires[0]
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	s.stop = func() {
		cancel()
		if done == nil {
			return
		}
		if err := errors.Join(<-done, s.Mesh.Close(), e.Close(context.Background())); err != nil {
			t.Error(err)
		}
		done = nil
	}
	return s
}

// trust makes every site of the list a peer of the first, and makes them answer its asks, as every
// sharing node does.
func trust(t *testing.T, s *site, weight float64, peers ...*site) {
	t.Helper()
	for _, p := range peers {
		s.weigh(t, p, weight)
		if _, listed := p.Find(s.id.Hint()); !listed {
			p.weigh(t, s, 0)
		}
	}
}

func (s *site) weigh(t *testing.T, p *site, weight float64) {
	t.Helper()
	change := func(ctx context.Context, id string, weight float64) error { return s.AddPeer(ctx, id, "", weight) }
	if _, listed := s.Find(p.id.Hint()); listed {
		change = s.WeighPeer
	}
	if err := change(context.Background(), p.id.ID(), weight); err != nil {
		t.Fatal(err)
	}
}

func (s *site) peer(t *testing.T, of *site) PeerStatus {
	t.Helper()
	for _, p := range s.Status().Peers {
		if p.ID == of.id.ID() {
			return p
		}
	}
	t.Fatalf("%s is no peer", of.id.ID())
	return PeerStatus{}
}

// settle waits until all counts are shared.
func settle() { bubble.Advance(5 * time.Second) }

// A slowEngine calls before once, when it is given a part of a peer.
type slowEngine struct {
	*engine.Engine
	before func()
}

func (e *slowEngine) ApplyRemote(ctx context.Context, origin string, parts []engine.Parsed) error {
	if f := e.before; f != nil {
		e.before = nil
		f()
	}
	return e.Engine.ApplyRemote(ctx, origin, parts)
}

// TestRollbackInTheMiddle rolls a peer back while the receiver handles a message with counts that
// the rollback drops. They must not count.
func TestRollbackInTheMiddle(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		memory := &slowEngine{Engine: enginetest.Small(t, nil)}
		home, peer := newSite(t, k, func(o *member.Options) { o.Engine = memory }), newSite(t, k, nil)
		defer home.stop()
		defer peer.stop()
		done := make(chan error)
		memory.before = func() {
			go func() {
				done <- home.RollbackPeer(context.Background(), peer.id.ID(), time.Now().Truncate(24*time.Hour))
			}()
			bubble.Advance(time.Second)
		}
		trust(t, home, 1, peer)
		enginetest.Report(t, peer.engine, 1, bulkhead.Sighting, 3)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		bubble.Advance(time.Minute)
		if got := enginetest.Check(t, memory.Engine, 1).Sightings; got != 0 || home.peer(t, peer).Missing != 0 {
			t.Errorf("%d sightings of a generation that was rolled back: %+v", got, home.peer(t, peer))
		}
	})
}

// TestPaperMerging follows the examples of the paper on merging counting filters. Two servers count
// an element with the cells (2,5,8) at one and (4,4,3) at the other. The merged count is 2+3 from
// the servers' own arrays, never less than the truth. After one further report at each, the counts
// of both add up exactly, while H1 on a merged array would have lost reports.
func TestPaperMerging(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		a, b := newSite(t, k, nil), newSite(t, k, nil)
		defer a.stop()
		defer b.stop()
		trust(t, a, 1, b)
		trust(t, b, 1, a)
		enginetest.Report(t, a.engine, 1, bulkhead.Sighting, 2) // the smallest of (2,5,8)
		enginetest.Report(t, b.engine, 1, bulkhead.Sighting, 3) // the smallest of (4,4,3)
		settle()
		for _, s := range []*site{a, b} {
			if got := enginetest.Check(t, s.engine, 1).Sightings; got != 5 {
				t.Errorf("merged count %d, want 2 + 3", got)
			}
		}
		// The delta formula: a round has the adds since the last one.
		for range 3 {
			before := a.engine.Own()[0].Version
			enginetest.Report(t, a.engine, 1, bulkhead.Sighting, 2)
			enginetest.Report(t, b.engine, 1, bulkhead.Sighting, 2)
			settle()
			after := a.engine.Own()[0].Version
			if got := b.peer(t, a); got.Missing != 0 || after != before+1 {
				t.Errorf("delta from version %d to %d, %d missing", before, after, got.Missing)
			}
		}
		for _, s := range []*site{a, b} {
			if got := enginetest.Check(t, s.engine, 1).Sightings; got != 17 {
				t.Errorf("after three more rounds: %d, want 17", got)
			}
		}
	})
}

// TestRollback checks that a peer's counts since a time are dropped and do not come back by
// themselves, and that its next generation counts.
func TestRollback(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		slow := func(o *member.Options) { o.Interval, o.Heartbeat = 10*time.Second, 5*time.Minute } // the test runs for days
		home, peer := newSite(t, k, slow), newSite(t, k, slow)
		defer home.stop()
		defer peer.stop()
		trust(t, home, 1, peer)
		enginetest.Report(t, peer.engine, 1, bulkhead.Sighting, 3)
		bubble.Advance(36 * time.Hour)
		enginetest.Report(t, peer.engine, 1, bulkhead.Sighting, 4)
		bubble.Advance(time.Minute)
		if got := enginetest.Check(t, home.engine, 1).Sightings; got != 7 {
			t.Fatalf("%d sightings, want 7", got)
		}
		if err := home.RollbackPeer(t.Context(), peer.id.ID(), time.Now().Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
		if l, err := home.Loss(peer.id.ID(), time.Now().Add(-time.Hour)); err != nil || l != (member.Loss{}) {
			t.Errorf("a rollback to an hour ago drops %+v, %v, want nothing", l, err)
		}
		today := time.Now().Truncate(24 * time.Hour)
		for _, tt := range []struct { // the key is in two generations
			since   time.Time
			counted uint64
		}{{time.Time{}, 2}, {today, 1}} {
			l, err := home.Loss(peer.id.ID(), tt.since)
			if err != nil || l.Counted != tt.counted || l.Arrays != int(tt.counted) || l.From.Before(tt.since) ||
				l.From.After(today) {
				t.Errorf("loss since %v: %+v, %v, want %d keys", tt.since, l, err, tt.counted)
			}
		}
		if _, err := home.Loss(peer.id.ID(), time.Now().Add(time.Hour)); !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("loss by a rollback to the future: %v", err)
		}
		if err := home.RollbackPeer(t.Context(), peer.id.ID(), time.Now().Add(time.Hour)); !errors.Is(err,
			bulkhead.ErrMalformed) {
			t.Errorf("rollback to the future: %v", err)
		}
		enginetest.Report(t, peer.engine, 1, bulkhead.Sighting, 5)
		bubble.Advance(10 * time.Minute)
		if got := enginetest.Check(t, home.engine, 1).Sightings; got != 12 {
			t.Errorf("rolled back to an hour ago, inside the last generation: %d sightings, want 12: it began before", got)
		}
		if err := home.RollbackPeer(t.Context(), peer.id.ID(), time.Now().Truncate(24*time.Hour)); err != nil {
			t.Fatal(err)
		}
		enginetest.Report(t, peer.engine, 1, bulkhead.Sighting, 6)
		bubble.Advance(10 * time.Minute)
		if got := enginetest.Check(t, home.engine, 1).Sightings; got != 3 {
			t.Errorf("rolled back to this morning: %d sightings, want 3", got)
		}
		if p := home.peer(t, peer); p.Refusals[member.ReasonRollback] == 0 || p.Missing != 0 {
			t.Errorf("after the rollback: %+v", p)
		}
		bubble.Advance(24 * time.Hour)
		enginetest.Report(t, peer.engine, 1, bulkhead.Sighting, 7)
		bubble.Advance(time.Minute)
		if got := enginetest.Check(t, home.engine, 1).Sightings; got != 10 {
			t.Errorf("on the next day: %d sightings, want 3 + 7", got)
		}
	})
}

// A failingEngine fails to forget generations while err is set, as a node that ends before it has.
type failingEngine struct {
	*engine.Engine
	err error
}

func (e *failingEngine) ForgetGenerations(ctx context.Context, origin string, since uint64) error {
	if e.err != nil {
		return e.err
	}
	return e.Engine.ForgetGenerations(ctx, origin, since)
}

// TestRollbackOfFormer checks that a rollback holds for the counts that a peer lost with a former
// incarnation: its preview includes them, and a node that ended in the middle drops them afterwards,
// also if they are in a generation that began by the peer's clock alone.
func TestRollbackOfFormer(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		failing := &failingEngine{Engine: enginetest.Small(t, nil)}
		ahead := engine.Options{Now: func() time.Time { return time.Now().Add(24 * time.Hour) }}
		home, peer := newSite(t, k, func(o *member.Options) { o.Engine = failing }), newSiteOf(t, k, ahead, nil)
		defer home.stop()
		defer peer.stop()
		trust(t, home, 1, peer)
		enginetest.Report(t, peer.engine, 1, bulkhead.Sighting, 3)
		settle()
		id, today := peer.id.ID(), time.Now().Truncate(24*time.Hour)
		want, err := home.Loss(id, today)
		if err != nil || want.Counted != 1 || want.Arrays != 1 {
			t.Fatalf("loss %+v, %v, want one key", want, err)
		}
		if err := failing.Renew(t.Context(), id, failing.Incarnation(id)+1); err != nil {
			t.Fatal(err)
		}
		if l, err := home.Loss(id, today); err != nil || l != want {
			t.Errorf("loss of a former incarnation %+v, %v, want %+v", l, err, want)
		}
		failing.err = errors.New("the node ended")
		if err := home.RollbackPeer(t.Context(), id, today); !errors.Is(err, failing.err) {
			t.Fatalf("rollback: %v", err)
		}
		failing.err = nil
		if got := enginetest.Check(t, failing.Engine, 1).Sightings; got != 3 {
			t.Fatalf("%d sightings before the node starts again, want 3", got)
		}
		if err := home.DropRefused(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := enginetest.Check(t, failing.Engine, 1).Sightings; got != 0 {
			t.Errorf("%d sightings of a former incarnation that was rolled back", got)
		}
	})
}

// TestOvertakenHead checks that a head made before an array began, and received after the array's
// first round, is no sign that the origin lost the array.
func TestOvertakenHead(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		slow := func(o *member.Options) { o.Heartbeat = time.Hour }
		home, peer := newSite(t, k, slow), newSite(t, k, slow)
		defer home.stop()
		defer peer.stop()
		settle()
		k.Hold(wire.KindHead, 4*time.Second)
		home.weigh(t, peer, 1)
		peer.origin.Greet()
		bubble.Advance(time.Second)
		enginetest.Report(t, peer.engine, 1, bulkhead.Sighting, 3)
		settle()
		if p := home.peer(t, peer); p.Messages != 2 || p.Applied != 1 {
			t.Fatalf("%d messages, %d rounds applied, want a head and a round", p.Messages, p.Applied)
		}
		enginetest.Report(t, peer.engine, 1, bulkhead.Sighting, 4)
		settle()
		if p, got := home.peer(t, peer), enginetest.Check(t, home.engine, 1).Sightings; got != 7 || len(p.Refusals) > 0 {
			t.Errorf("%d sightings, want 7; refused %v", got, p.Refusals)
		}
	})
}

// TestMemoryBudget checks that an array that exceeds the memory and cannot be merged is refused
// with the name of the setting, and that the present arrays still count.
func TestMemoryBudget(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		one := newSite(t, k, nil)
		two := newSiteOf(t, k, engine.Options{Tally: engine.BookOptions{Capacity: 30_000}}, nil) // another geometry
		size := one.engine.Own()[0].Bytes
		home := newSiteOf(t, k, engine.Options{Store: memoryStore(t), RemoteBytes: size + size/2}, nil)
		defer home.stop()
		defer one.stop()
		defer two.stop()
		trust(t, home, 1, one)
		enginetest.Report(t, one.engine, 1, bulkhead.Sighting, 3)
		settle()
		trust(t, home, 1, two)
		enginetest.Report(t, two.engine, 1, bulkhead.Sighting, 4)
		settle()
		enginetest.Report(t, one.engine, 1, bulkhead.Sighting, 5)
		settle()
		if got := enginetest.Check(t, home.engine, 1).Sightings; got != 8 {
			t.Errorf("%d sightings, want those of the first peer, 8", got)
		}
		p := home.peer(t, two)
		if p.Refusals[member.ReasonMemory] == 0 || !strings.Contains(p.Error, "mesh.memory_bytes") || p.Memory != 0 {
			t.Errorf("second peer: %+v", p)
		}
	})
}

func memoryStore(t *testing.T) *store.Store {
	t.Helper()
	st, err := store.Open(filepath.Join(memoryDir(t), "data"), store.Options{Durability: store.Relaxed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

// TestMergedPeers has twelve peers and memory for four arrays. All counts arrive, exactly while the
// merged arrays are far from full. An evicted or rolled back peer leaves the merged arrays, and a
// returning peer enters them.
func TestMergedPeers(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		const n = 12
		slow := func(o *member.Options) { o.Heartbeat = 10 * time.Second }
		var peers []*site
		for range n {
			s := newSite(t, k, slow)
			defer s.stop()
			peers = append(peers, s)
		}
		size := peers[0].engine.Own()[0].Bytes
		home := newSiteOf(t, k, engine.Options{Store: memoryStore(t), RemoteBytes: 4 * size}, slow)
		defer home.stop()
		trust(t, home, 1, peers...)
		for _, p := range peers {
			for sig := range 30 {
				enginetest.Report(t, p.engine, sig, bulkhead.Sighting, 3)
			}
		}
		want := func(after string, count uint32) {
			t.Helper()
			bubble.Advance(2 * time.Minute)
			for sig := range 30 {
				if got := enginetest.Check(t, home.engine, sig).Sightings; got != count {
					t.Fatalf("%s: signature %d: %d sightings, want %d", after, sig, got, count)
				}
			}
			s := home.Status()
			for _, p := range s.Peers {
				if p.Missing != 0 || len(p.Refusals) > 0 || p.Behind != 0 {
					t.Errorf("%s: peer %+v", after, p)
				}
			}
			if s.Memory.Bytes > s.Memory.Limit || s.Memory.Merged < n-4 {
				t.Errorf("%s: %+v", after, s.Memory)
			}
		}
		want("all peers", 3*n)
		for _, p := range peers {
			for sig := range 30 {
				enginetest.Report(t, p.engine, sig, bulkhead.Sighting, 2)
			}
		}
		want("more of them", 5*n)
		if err := home.EvictPeer(t.Context(), peers[3].id.ID()); err != nil {
			t.Fatal(err)
		}
		want("one evicted", 5*(n-1))
		trust(t, home, 1, peers[3])
		want("and back", 5*n)
		if err := home.WeighPeer(t.Context(), peers[4].id.ID(), 0); err != nil {
			t.Fatal(err)
		}
		want("one of weight 0", 5*(n-1))
		if err := home.WeighPeer(t.Context(), peers[4].id.ID(), 1); err != nil {
			t.Fatal(err)
		}
		want("and of weight 1 again", 5*n)
	})
}

// TestOriginAway checks that a node that joins while an origin is away gets the origin's counts
// from the broker.
func TestOriginAway(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		peer := newSite(t, k, nil)
		for n := range 50 {
			enginetest.Report(t, peer.engine, n, bulkhead.Sighting, 2)
		}
		settle()
		peer.stop()
		home := newSite(t, k, nil)
		defer home.stop()
		home.weigh(t, peer, 1)
		settle()
		for n := range 50 {
			if got := enginetest.Check(t, home.engine, n).Sightings; got != 2 {
				t.Fatalf("signature %d: %d sightings, want 2", n, got)
			}
		}
	})
}

// TestThirtyTwoOrigins has 32 origins with common and different signatures. The counts of one node
// that holds them all are never below the truth, and above it only as often as its arrays promise.
func TestThirtyTwoOrigins(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		slow := func(o *member.Options) { o.Heartbeat = 10 * time.Second }
		home := newSite(t, k, slow)
		defer home.stop()
		rng := rand.New(rand.NewPCG(32, 32))
		truth := make(map[int]uint32)
		for range 32 {
			s := newSite(t, k, func(o *member.Options) { slow(o); o.Role = member.Publish })
			defer s.stop()
			trust(t, home, 1, s)
			trust(t, s, 1, home)
			for range 40 {
				n, count := rng.IntN(400), uint32(1+rng.IntN(9))
				enginetest.Report(t, s.engine, n, bulkhead.Sighting, count)
				truth[n] += count
			}
		}
		bubble.Advance(2 * time.Minute)
		over := 0
		for n := range 400 {
			got := enginetest.Check(t, home.engine, n).Sightings
			if got < truth[n] {
				t.Errorf("signature %d: %d sightings, want %d", n, got, truth[n])
			}
			if got > truth[n] {
				over++
			}
		}
		if over > 4 {
			t.Errorf("%d of 400 counts too high, want at most 1 in 100", over)
		}
		for _, p := range home.Status().Peers {
			if p.Missing != 0 || p.Quarantine != "" {
				t.Errorf("peer %s: %+v", p.ID, p)
			}
		}
		t.Logf("%d of 400 counts over the truth with 32 origins", over)
	})
}

// TestOneOfTwoBrokersAway checks that messages which an origin sent to one broker before it went
// for good are read when that broker is back, although the other was connected all the time. The
// same holds for messages that a node had no time to read before it was stopped.
func TestOneOfTwoBrokersAway(t *testing.T) {
	for name, stop := range map[string]bool{"connection": false, "restart": true} {
		t.Run(name, func(t *testing.T) {
			meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
				second := meshtest.NewBroker(rand.New(rand.NewPCG(2, 2)))
				dir := t.TempDir()
				memory := enginetest.Small(t, nil)
				open := func() *site {
					return newSiteOn(t, []*meshtest.Broker{k, second}, engine.Options{}, func(o *member.Options) {
						o.Dir, o.Engine = dir,
							memory
					})
				}
				home := open()
				defer func() { home.stop() }()
				other, peer := newSite(t, k, nil), newSite(t, second, nil)
				defer other.stop()
				trust(t, home, 1, other, peer)
				enginetest.Report(t, peer.engine, 1, bulkhead.Sighting, 1)
				settle()
				home.wires[1].Set(false)
				bubble.Advance(time.Minute)
				enginetest.Report(t, peer.engine, 1, bulkhead.Sighting, 10)
				settle()
				peer.stop()
				for range 20 {
					bubble.Advance(time.Minute)
					enginetest.Report(t, other.engine, 2, bulkhead.Sighting, 1)
				}
				if stop {
					home.stop()
					home = open()
				} else {
					home.wires[1].Set(true)
				}
				settle()
				if got := enginetest.Check(t, memory, 1).Sightings; got != 11 {
					t.Errorf("%d sightings, want 11", got)
				}
			})
		})
	}
}
