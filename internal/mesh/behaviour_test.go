package mesh

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// A site is a node in memory.
type site struct {
	*Mesh
	engine *engine.Engine
	bus    *memBus
	id     *Identity
	log    bytes.Buffer
	stop   func()
}

// newSite starts a node on a broker. The default options may be changed.
func newSite(t *testing.T, k *memBroker, change func(*Options)) *site {
	t.Helper()
	s := &site{}
	e, err := engine.Open(context.Background(), engine.Options{
		Secret: testSecret,
		Tally:  engine.BookOptions{Generation: 24 * time.Hour, Keep: 4, Capacity: 20_000, Error: 1e-3},
		Block:  engine.BookOptions{Generation: 7 * 24 * time.Hour, Keep: 3, Capacity: 2000, Error: 1e-6},
	})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Dir: t.TempDir(), Engine: e, KeyID: testSecret.ID(), Mode: External, Log: slog.New(slog.NewTextHandler(&s.log, nil))}
	if change != nil {
		change(&o)
	}
	if o.Identity == nil {
		if o.Identity, err = OpenIdentity(o.Dir); err != nil {
			t.Fatal(err)
		}
	}
	s.engine, s.id = e, o.Identity
	if s.Mesh, err = prepare(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	s.bus = k.connect()
	s.Mesh.buses = []bus{s.bus}
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

// trust makes every site of the list a peer of the first.
func trust(t *testing.T, s *site, weight float64, peers ...*site) {
	t.Helper()
	for _, p := range peers {
		if err := s.AddPeer(context.Background(), p.id.ID(), "", weight); err != nil {
			t.Fatal(err)
		}
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

// inBubble runs a test with a clock of its own, and a broker without faults.
func inBubble(t *testing.T, f func(t *testing.T, k *memBroker)) {
	synctest.Test(t, func(t *testing.T) { f(t, newMemBroker(rand.New(rand.NewPCG(1, 1)))) })
}

// settle waits until everything that was counted is shared.
func settle() { time.Sleep(5 * time.Second) }

// TestPaperMerging: the examples of the paper on merging counting filters. Two
// servers count an element whose cells hold (2,5,8) at one and (4,4,3) at the
// other: the merged count is 2+3 from the servers' own arrays, never less than
// the truth; and once one more report arrived at each, the counts of both add up
// exactly, where H1 on a merged array would have lost reports.
func TestPaperMerging(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		a, b := newSite(t, k, nil), newSite(t, k, nil)
		defer a.stop()
		defer b.stop()
		trust(t, a, 1, b)
		trust(t, b, 1, a)
		report(t, a.engine, 1, bulkhead.Sighting, 2) // the smallest of (2,5,8)
		report(t, b.engine, 1, bulkhead.Sighting, 3) // the smallest of (4,4,3)
		settle()
		for _, s := range []*site{a, b} {
			if got := check(t, s.engine, 1).Sightings; got != 5 {
				t.Errorf("merged count %d, want 2 + 3", got)
			}
		}
		// The delta formula: what travels is what was added since the last time.
		for range 3 {
			before := a.engine.Own()[0].Version
			report(t, a.engine, 1, bulkhead.Sighting, 2)
			report(t, b.engine, 1, bulkhead.Sighting, 2)
			settle()
			after := a.engine.Own()[0].Version
			if got := b.peer(t, a); got.Missing != 0 || after != before+1 {
				t.Errorf("delta from version %d to %d, %d missing", before, after, got.Missing)
			}
		}
		for _, s := range []*site{a, b} {
			if got := check(t, s.engine, 1).Sightings; got != 17 {
				t.Errorf("after three more rounds: %d, want 17", got)
			}
		}
	})
}

// TestSpoiledPeer: a peer below the promotion weight lists nothing alone; one
// that lists or counts too much is quarantined, and counts again once weighed.
func TestSpoiledPeer(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		home := newSite(t, k, func(o *Options) { o.MaxListings, o.MaxAdds = 2, 50 })
		spoiled := newSite(t, k, nil)
		defer home.stop()
		defer spoiled.stop()
		trust(t, home, 0.5, spoiled)
		report(t, spoiled.engine, 1, bulkhead.Spam, 1)
		settle()
		if f := check(t, home.engine, 1); f.Judged == bulkhead.JudgedSpam || f.Spam != 1 {
			t.Errorf("listed by a peer of weight 0.5 alone: %+v", f)
		}
		if err := home.WeighPeer(t.Context(), spoiled.id.ID(), 1); err != nil {
			t.Fatal(err)
		}
		if f := check(t, home.engine, 1); f.Judged != bulkhead.JudgedSpam {
			t.Errorf("listed by a peer of weight 1: %+v", f)
		}
		for n := range 200 {
			report(t, spoiled.engine, n+10, bulkhead.Spam, 1)
		}
		settle()
		p := home.peer(t, spoiled)
		if !strings.Contains(p.Quarantine, "listings") {
			t.Errorf("200 listings where 120 an hour are allowed: quarantine %q", p.Quarantine)
		}
		if f := check(t, home.engine, 1); f.Judged == bulkhead.JudgedSpam || f.Spam != 0 {
			t.Errorf("counted in quarantine: %+v", f)
		}
		if !strings.Contains(home.log.String(), "ALERT") {
			t.Error("no alert in the log")
		}
		if err := home.WeighPeer(t.Context(), spoiled.id.ID(), 0.9); err != nil {
			t.Fatal(err)
		}
		if p := home.peer(t, spoiled); p.Quarantine != "" || p.Weight != 0.9 {
			t.Errorf("weighed again: %+v", p)
		}
		if f := check(t, home.engine, 150); f.Spam != 1 {
			t.Errorf("what was published in quarantine is not there afterwards: %+v", f)
		}
		report(t, spoiled.engine, 5000, bulkhead.Sighting, 1_000_000)
		settle()
		if p := home.peer(t, spoiled); !strings.Contains(p.Quarantine, "adds") {
			t.Errorf("a million adds at once: quarantine %q", p.Quarantine)
		}
	})
}

// TestRollback: what a peer counted since a time is dropped and does not come
// back by itself; its next generation counts.
func TestRollback(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		slow := func(o *Options) { o.Interval, o.Heartbeat = 10*time.Second, 5*time.Minute } // days are long
		home, peer := newSite(t, k, slow), newSite(t, k, slow)
		defer home.stop()
		defer peer.stop()
		trust(t, home, 1, peer)
		report(t, peer.engine, 1, bulkhead.Sighting, 3)
		time.Sleep(36 * time.Hour)
		report(t, peer.engine, 1, bulkhead.Sighting, 4)
		time.Sleep(time.Minute)
		if got := check(t, home.engine, 1).Sightings; got != 7 {
			t.Fatalf("%d sightings, want 7", got)
		}
		if err := home.RollbackPeer(t.Context(), peer.id.ID(), time.Now().Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
		if err := home.RollbackPeer(t.Context(), peer.id.ID(), time.Now().Add(time.Hour)); !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("rollback to the future: %v", err)
		}
		report(t, peer.engine, 1, bulkhead.Sighting, 5)
		time.Sleep(10 * time.Minute)
		if got := check(t, home.engine, 1).Sightings; got != 12 {
			t.Errorf("rolled back to an hour ago, inside the last generation: %d sightings, want 12: it began before", got)
		}
		if err := home.RollbackPeer(t.Context(), peer.id.ID(), time.Now().Truncate(24*time.Hour)); err != nil {
			t.Fatal(err)
		}
		report(t, peer.engine, 1, bulkhead.Sighting, 6)
		time.Sleep(10 * time.Minute)
		if got := check(t, home.engine, 1).Sightings; got != 3 {
			t.Errorf("rolled back to this morning: %d sightings, want 3", got)
		}
		if p := home.peer(t, peer); p.Refusals[reasonRollback] == 0 || p.Missing != 0 {
			t.Errorf("after the rollback: %+v", p)
		}
		time.Sleep(24 * time.Hour)
		report(t, peer.engine, 1, bulkhead.Sighting, 7)
		time.Sleep(time.Minute)
		if got := check(t, home.engine, 1).Sightings; got != 10 {
			t.Errorf("on the next day: %d sightings, want 3 + 7", got)
		}
	})
}

// TestStrangers: messages of unknown senders, forged ones, repetitions and those
// of a later program change nothing, are counted, and logged once.
func TestStrangers(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		home, peer, stranger := newSite(t, k, nil), newSite(t, k, nil), newSite(t, k, nil)
		defer home.stop()
		defer peer.stop()
		defer stranger.stop()
		trust(t, home, 1, peer)
		report(t, peer.engine, 1, bulkhead.Sighting, 3)
		for n := range 5 {
			report(t, stranger.engine, n, bulkhead.Spam, 100)
			settle()
		}
		if f := check(t, home.engine, 1); f.Sightings != 3 || f.Spam != 0 {
			t.Errorf("counted of a stranger: %+v", f)
		}
		k.mu.Lock()
		deltas := k.deltas
		k.mu.Unlock()
		before := home.peer(t, peer)
		for _, d := range deltas {
			home.receiver.deliver(t.Context(), d.msg) // again
			forged := bytes.Clone(d.msg)
			forged[len(forged)-70] ^= 1
			home.receiver.deliver(t.Context(), forged)
			newer := bytes.Clone(d.msg)
			newer[0] = 9
			home.receiver.deliver(t.Context(), newer)
			home.receiver.deliver(t.Context(), newer[:5])
		}
		settle()
		after := home.peer(t, peer)
		if after.Applied != before.Applied {
			t.Errorf("%d rounds applied, then %d", before.Applied, after.Applied)
		}
		if f := check(t, home.engine, 1); f.Sightings != 3 || f.Spam != 0 {
			t.Errorf("after forgeries: %+v", f)
		}
		if after.Refusals[reasonForged]+after.Refusals[reasonMalformed] == 0 || after.Refusals[reasonVersion] == 0 {
			t.Errorf("refusals of the peer: %v", after.Refusals)
		}
		if s := home.Status().Strangers; s[reasonStranger] == 0 {
			t.Errorf("refusals of strangers: %v", s)
		}
		if n := strings.Count(home.log.String(), reasonStranger); n != 1 {
			t.Errorf("the stranger is logged %d times, want once", n)
		}
	})
}

// TestMemoryBudget: what exceeds the memory is refused with the name of the
// setting, and what is there goes on.
func TestMemoryBudget(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		one, two := newSite(t, k, nil), newSite(t, k, nil)
		size := one.engine.Own()[0].Bytes
		home := newSite(t, k, func(o *Options) { o.Memory = size + size/2 })
		defer home.stop()
		defer one.stop()
		defer two.stop()
		trust(t, home, 1, one)
		report(t, one.engine, 1, bulkhead.Sighting, 3)
		settle()
		trust(t, home, 1, two)
		report(t, two.engine, 1, bulkhead.Sighting, 4)
		settle()
		report(t, one.engine, 1, bulkhead.Sighting, 5)
		settle()
		if got := check(t, home.engine, 1).Sightings; got != 8 {
			t.Errorf("%d sightings, want those of the first peer, 8", got)
		}
		p := home.peer(t, two)
		if p.Refusals[reasonMemory] == 0 || !strings.Contains(p.Error, "mesh.memory") || p.Memory != 0 {
			t.Errorf("second peer: %+v", p)
		}
	})
}

// TestNewKey: a node that changes its key stays the peer that it was.
func TestNewKey(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		home := newSite(t, k, nil)
		dir := t.TempDir()
		peer := newSite(t, k, func(o *Options) { o.Dir = dir })
		defer home.stop()
		trust(t, home, 0.8, peer)
		report(t, peer.engine, 1, bulkhead.Sighting, 10)
		settle()
		peer.stop()
		old, to, err := RotateIdentity(dir)
		if err != nil {
			t.Fatal(err)
		}
		again := newSite(t, k, func(o *Options) { o.Dir, o.Store = dir, "another" }) // its engine has forgotten all
		defer again.stop()
		report(t, again.engine, 2, bulkhead.Sighting, 10)
		time.Sleep(5 * time.Minute)
		list := home.Status().Peers
		if len(list) != 1 || list[0].ID != to.ID() || list[0].Weight != 0.8 {
			t.Fatalf("peers after the change of %s to %s: %+v", old.ID(), to.ID(), list)
		}
		if got := check(t, home.engine, 2).Sightings; got != 8 {
			t.Errorf("%d sightings under the new key, want 0.8 of 10", got)
		}
	})
}

// TestTwoServersOneKey: of two servers with one key neither is counted.
func TestTwoServersOneKey(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		home, peer := newSite(t, k, nil), newSite(t, k, nil)
		defer home.stop()
		defer peer.stop()
		trust(t, home, 1, peer)
		report(t, peer.engine, 1, bulkhead.Sighting, 3)
		settle()
		twin := newSite(t, k, func(o *Options) { o.Identity = peer.id })
		defer twin.stop()
		for range 10 {
			report(t, twin.engine, 2, bulkhead.Sighting, 1)
			report(t, peer.engine, 2, bulkhead.Sighting, 1)
			time.Sleep(30 * time.Second)
		}
		if p := home.peer(t, peer); p.Quarantine != "two servers use its key" {
			t.Errorf("quarantine %q", p.Quarantine)
		}
		if peer.Status().Strangers["own key elsewhere"] == 0 {
			t.Error("the node does not notice its twin")
		}
	})
}

// TestRoles: who only subscribes tells nothing, and who only publishes counts
// nobody.
func TestRoles(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		both := newSite(t, k, nil)
		reader := newSite(t, k, func(o *Options) { o.Role = Subscribe })
		trap := newSite(t, k, func(o *Options) { o.Role = Publish })
		sites := []*site{both, reader, trap}
		for _, s := range sites {
			defer s.stop()
			for _, p := range sites {
				if p != s {
					trust(t, s, 1, p)
				}
			}
		}
		for i, s := range sites {
			report(t, s.engine, 1, bulkhead.Sighting, []uint32{1, 10, 100}[i])
		}
		time.Sleep(2 * time.Minute)
		for i, want := range []uint32{101, 111, 100} {
			if got := check(t, sites[i].engine, 1).Sightings; got != want {
				t.Errorf("role %q: %d sightings, want %d", sites[i].opts.Role, got, want)
			}
		}
	})
}

// TestOriginAway: a node that joins while an origin is away learns from the
// broker what the origin had counted.
func TestOriginAway(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		peer := newSite(t, k, nil)
		for n := range 50 {
			report(t, peer.engine, n, bulkhead.Sighting, 2)
		}
		settle()
		peer.stop()
		home := newSite(t, k, nil)
		defer home.stop()
		trust(t, home, 1, peer)
		settle()
		for n := range 50 {
			if got := check(t, home.engine, n).Sightings; got != 2 {
				t.Fatalf("signature %d: %d sightings, want 2", n, got)
			}
		}
	})
}

// TestPeerList: mistakes in changes of the list change nothing, and the list
// survives a restart.
func TestPeerList(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		dir := t.TempDir()
		home, peer := newSite(t, k, func(o *Options) { o.Dir = dir }), newSite(t, k, nil)
		defer peer.stop()
		ctx := context.Background()
		key := peer.id.ID()
		for name, err := range map[string]error{
			"no key":          home.AddPeer(ctx, "UABC", "", 1),
			"own key":         home.AddPeer(ctx, home.id.ID(), "", 1),
			"weight":          home.AddPeer(ctx, key, "", 1.5),
			"name":            home.AddPeer(ctx, key, strings.Repeat("n", 65), 1),
			"weigh unknown":   home.WeighPeer(ctx, key, 1),
			"evict unknown":   home.EvictPeer(ctx, key),
			"unknown peer":    home.RollbackPeer(ctx, key, time.Now()),
			"weigh by no key": home.WeighPeer(ctx, "bob", 1),
		} {
			if !errors.Is(err, bulkhead.ErrMalformed) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n := len(home.Status().Peers) + len(home.engine.Origins()); n != 0 {
			t.Errorf("%d peers after mistakes", n)
		}
		if err := home.AddPeer(ctx, key, "bob", 0.25); err != nil {
			t.Fatal(err)
		}
		if err := home.AddPeer(ctx, key, "bob", 0.25); !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("added twice: %v", err)
		}
		home.stop()
		home = newSite(t, k, func(o *Options) { o.Dir = dir })
		defer home.stop()
		if p := home.peer(t, peer); p.Name != "bob" || p.Weight != 0.25 {
			t.Errorf("after a restart: %+v", p)
		}
		if got := home.engine.Origins(); len(got) != 1 || got[0] != (engine.Origin{ID: key, Weight: 0.25}) {
			t.Errorf("origins after a restart: %+v", got)
		}
	})
}

// TestThirtyTwoOrigins: 32 origins count the same and different signatures; one
// node holds them all, and what it says is never under the truth and over it
// only as often as its arrays promise.
func TestThirtyTwoOrigins(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		slow := func(o *Options) { o.Heartbeat = 10 * time.Second }
		home := newSite(t, k, slow)
		defer home.stop()
		rng := rand.New(rand.NewPCG(32, 32))
		truth := make(map[int]uint32)
		for range 32 {
			s := newSite(t, k, func(o *Options) { slow(o); o.Role = Publish })
			defer s.stop()
			trust(t, home, 1, s)
			trust(t, s, 1, home)
			for range 40 {
				n, count := rng.IntN(400), uint32(1+rng.IntN(9))
				report(t, s.engine, n, bulkhead.Sighting, count)
				truth[n] += count
			}
		}
		time.Sleep(2 * time.Minute)
		over := 0
		for n := range 400 {
			got := check(t, home.engine, n).Sightings
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
