package mesh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// TestSpoiledPeer checks that a peer below the promotion weight lists nothing alone. A peer that
// lists or counts too much is quarantined, and counts again once weighed.
func TestSpoiledPeer(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		home := newSite(t, k, func(o *member.Options) { o.MaxListings, o.MaxAdds = 2, 50 })
		spoiled := newSite(t, k, nil)
		defer home.stop()
		defer spoiled.stop()
		trust(t, home, 0.5, spoiled)
		enginetest.Report(t, spoiled.engine, 1, bulkhead.Spam, 1)
		settle()
		if f := enginetest.Check(t, home.engine, 1); f.Judged == bulkhead.JudgedSpam || f.Spam != 1 {
			t.Errorf("listed by a peer of weight 0.5 alone: %+v", f)
		}
		if err := home.WeighPeer(t.Context(), spoiled.id.ID(), 1); err != nil {
			t.Fatal(err)
		}
		if f := enginetest.Check(t, home.engine, 1); f.Judged != bulkhead.JudgedSpam {
			t.Errorf("listed by a peer of weight 1: %+v", f)
		}
		for n := range 200 {
			enginetest.Report(t, spoiled.engine, n+10, bulkhead.Spam, 1)
		}
		settle()
		p := home.peer(t, spoiled)
		if !strings.Contains(p.Quarantine, "listings") {
			t.Errorf("200 listings where 120 an hour are allowed: quarantine %q", p.Quarantine)
		}
		if f := enginetest.Check(t, home.engine, 1); f.Judged == bulkhead.JudgedSpam || f.Spam != 0 {
			t.Errorf("counted in quarantine: %+v", f)
		}
		if !strings.Contains(home.log.String(), "peer is quarantined") {
			t.Error("no alert in the log")
		}
		if err := home.WeighPeer(t.Context(), spoiled.id.ID(), 0.9); err != nil {
			t.Fatal(err)
		}
		if p := home.peer(t, spoiled); p.Quarantine != "" || p.Weight != 0.9 {
			t.Errorf("weighed again: %+v", p)
		}
		if f := enginetest.Check(t, home.engine, 150); f.Spam != 1 {
			t.Errorf("what was published in quarantine is not there afterwards: %+v", f)
		}
		enginetest.Report(t, spoiled.engine, 5000, bulkhead.Sighting, 1_000_000)
		settle()
		if p := home.peer(t, spoiled); !strings.Contains(p.Quarantine, "adds") {
			t.Errorf("a million adds at once: quarantine %q", p.Quarantine)
		}
	})
}

// TestNewsletter has a peer list a newsletter, and count it as often as makes any message bulk.
// Neither has an effect at a little weight, both end with the peer's eviction, and the lists and
// counts of others stay.
func TestNewsletter(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		home, liar, honest := newSite(t, k, nil), newSite(t, k, nil), newSite(t, k, nil)
		defer home.stop()
		defer liar.stop()
		defer honest.stop()
		trust(t, home, 1, liar, honest)
		const newsletter, spam = 1, 2
		enginetest.Report(t, home.engine, newsletter, bulkhead.Sighting, 3)
		enginetest.Report(t, liar.engine, newsletter, bulkhead.Spam, 1)
		enginetest.Report(t, liar.engine, newsletter, bulkhead.Sighting, 400)
		enginetest.Report(t, honest.engine, spam, bulkhead.Spam, 1)
		enginetest.Report(t, honest.engine, spam, bulkhead.Sighting, 30)
		settle()
		if f := enginetest.Check(t, home.engine, newsletter); f.Judged != bulkhead.JudgedSpam || f.Sightings != 403 {
			t.Errorf("listed by a peer of full weight: %+v", f)
		}
		// A little weight lists nothing, and makes nothing bulk, whatever the peer claims.
		if err := home.WeighPeer(t.Context(), liar.id.ID(), 0.05); err != nil {
			t.Fatal(err)
		}
		if f := enginetest.Check(t, home.engine,
			newsletter); f.Judged == bulkhead.JudgedSpam || f.Sightings != 3+1 || f.Bulk {
			t.Errorf("listed by a peer of weight 0.05: %+v", f)
		}
		if err := home.EvictPeer(t.Context(), liar.id.ID()); err != nil {
			t.Fatal(err)
		}
		if f := enginetest.Check(t, home.engine,
			newsletter); f.Judged == bulkhead.JudgedSpam || f.Sightings != 3 || f.Spam != 0 {
			t.Errorf("after the eviction: %+v", f)
		}
		if f := enginetest.Check(t, home.engine, spam); f.Judged != bulkhead.JudgedSpam || f.Sightings != 30 || f.Spam != 1 {
			t.Errorf("what another peer has listed: %+v", f)
		}
	})
}

// A fullEngine accepts nothing of peers while its disk is full.
type fullEngine struct {
	*engine.Engine
	full atomic.Bool
}

func (e *fullEngine) ApplyRemote(ctx context.Context, origin string, parts []engine.Parsed) error {
	if e.full.Load() {
		return fmt.Errorf("%w: write journal: no space left on device", bulkhead.ErrReadOnly)
	}
	return e.Engine.ApplyRemote(ctx, origin, parts)
}

// TestRefusedIsNotCharged checks that adds that a peer repeats because this node could not store
// them are not charged to the peer.
func TestRefusedIsNotCharged(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		var full *fullEngine
		home := newSite(t, k, func(o *member.Options) {
			full = &fullEngine{Engine: o.Engine.(*engine.Engine)}
			o.Engine, o.MaxAdds = full, 10
		})
		peer := newSite(t, k, nil)
		defer home.stop()
		defer peer.stop()
		trust(t, home, 1, peer)
		trust(t, peer, 1, home)
		full.full.Store(true)
		enginetest.Report(t, peer.engine, 1, bulkhead.Sighting, 500)
		bubble.Advance(10 * time.Minute)
		full.full.Store(false)
		bubble.Advance(2 * time.Minute)
		if p, got := home.peer(t, peer), enginetest.Check(t, home.engine, 1).Sightings; got != 500 || p.Quarantine != "" {
			t.Errorf("%d sightings, want 500; quarantine %q", got, p.Quarantine)
		}
	})
}

// TestClockAhead checks that a peer's counts in a future generation are refused, and that the list
// of peers reports it.
func TestClockAhead(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		home := newSite(t, k, nil)
		ahead := func() time.Time { return time.Now().Add(1000 * time.Hour) }
		peer := newSiteOf(t, k, engine.Options{Now: ahead}, func(o *member.Options) { o.Now = ahead })
		defer home.stop()
		defer peer.stop()
		trust(t, home, 1, peer)
		enginetest.Report(t, peer.engine, 1, bulkhead.Spam, 1)
		settle()
		if p := home.peer(t, peer); p.Refusals[member.ReasonEarly] == 0 || !strings.Contains(p.Error, "clock") || p.Keys > 0 {
			t.Errorf("%+v", p)
		}
	})
}

// TestStrangers checks that messages of unknown senders, forged and repeated messages, and messages
// of a later program change nothing, are counted, and are logged once.
func TestStrangers(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		home, peer, stranger := newSite(t, k, nil), newSite(t, k, nil), newSite(t, k, nil)
		defer home.stop()
		defer peer.stop()
		defer stranger.stop()
		trust(t, home, 1, peer)
		enginetest.Report(t, peer.engine, 1, bulkhead.Sighting, 3)
		for n := range 5 {
			enginetest.Report(t, stranger.engine, n, bulkhead.Spam, 100)
			settle()
		}
		if f := enginetest.Check(t, home.engine, 1); f.Sightings != 3 || f.Spam != 0 {
			t.Errorf("counted of a stranger: %+v", f)
		}
		k.Mu.Lock()
		deltas := k.Deltas
		k.Mu.Unlock()
		before := home.peer(t, peer)
		for _, d := range deltas {
			bring := func(msg []byte) {
				home.replicas.Deliver(t.Context(), home.bus, wire.Arrival{Topic: d.Topic, Data: msg}, true)
			}
			bring(d.Data) // again
			forged := bytes.Clone(d.Data)
			forged[len(forged)-70] ^= 1
			bring(forged)
			newer := bytes.Clone(d.Data)
			newer[0] = 9
			bring(newer)
			bring(newer[:5])
		}
		settle()
		after := home.peer(t, peer)
		if after.Applied != before.Applied {
			t.Errorf("%d rounds applied, then %d", before.Applied, after.Applied)
		}
		if f := enginetest.Check(t, home.engine, 1); f.Sightings != 3 || f.Spam != 0 {
			t.Errorf("after forgeries: %+v", f)
		}
		if after.Refusals[member.ReasonForged]+after.Refusals[member.ReasonMalformed] == 0 ||
			after.Refusals[member.ReasonVersion] == 0 {
			t.Errorf("refusals of the peer: %v", after.Refusals)
		}
		if s := home.Status().Strangers; s[member.ReasonStranger] == 0 {
			t.Errorf("refusals of strangers: %v", s)
		}
		if n := strings.Count(home.log.String(), member.ReasonStranger); n != 1 {
			t.Errorf("the stranger is logged %d times, want once", n)
		}
	})
}

// TestNewKey checks that a node that changes its key stays the same peer.
func TestNewKey(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		home := newSite(t, k, nil)
		dir := t.TempDir()
		peer := newSite(t, k, func(o *member.Options) { o.Dir = dir })
		defer home.stop()
		trust(t, home, 0.8, peer)
		enginetest.Report(t, peer.engine, 1, bulkhead.Sighting, 10)
		settle()
		peer.stop()
		old, to, err := member.RotateIdentity(dir)
		if err != nil {
			t.Fatal(err)
		}
		again := newSite(t, k, func(o *member.Options) { o.Dir, o.Store = dir, "another" }) // its engine has forgotten all
		defer again.stop()
		again.weigh(t, home, 0)
		enginetest.Report(t, again.engine, 2, bulkhead.Sighting, 10)
		bubble.Advance(5 * time.Minute)
		list := home.Status().Peers
		if len(list) != 1 || list[0].ID != to.ID() || list[0].Weight != 0.8 {
			t.Fatalf("peers after the change of %s to %s: %+v", old.ID(), to.ID(), list)
		}
		if got := enginetest.Check(t, home.engine, 2).Sightings; got != 8 {
			t.Errorf("%d sightings under the new key, want 0.8 of 10", got)
		}
	})
}

// TestKeyChangedTwice checks that a key that no peer knows yet is not replaced by one that no peer
// could accept.
func TestKeyChangedTwice(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		home := newSite(t, k, nil)
		dir := t.TempDir()
		peer := newSite(t, k, func(o *member.Options) { o.Dir = dir })
		defer home.stop()
		trust(t, home, 1, peer)
		settle()
		for change := range 3 {
			peer.stop()
			_, to, err := member.RotateIdentity(dir)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := member.RotateIdentity(dir); err == nil || !strings.Contains(err.Error(), to.ID()) {
				t.Errorf("changed twice: %v", err)
			}
			peer = newSite(t, k, func(o *member.Options) { o.Dir, o.Store = dir, "another" })
			settle()
			if list := home.Status().Peers; len(list) != 1 || list[0].ID != to.ID() {
				t.Errorf("peers after change %d to %s: %+v", change, to.ID(), list)
			}
		}
		peer.stop()
	})
}

// TestTwoServersOneKey checks that two servers with one key are both quarantined within two
// heartbeats, whether the second one is a copy of the folder or only has the key, and that both
// report it.
func TestTwoServersOneKey(t *testing.T) {
	for _, copied := range []bool{false, true} {
		for part := range time.Duration(6) {
			meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
				home, peer := newSite(t, k, nil), newSite(t, k, nil)
				defer home.stop()
				defer peer.stop()
				trust(t, home, 1, peer)
				enginetest.Report(t, peer.engine, 1, bulkhead.Sighting, 3)
				beat := peer.Mesh.opts.Heartbeat
				bubble.Advance(beat + part*beat/6)
				dir := t.TempDir()
				if copied {
					if err := os.CopyFS(dir, os.DirFS(peer.Mesh.opts.Dir)); err != nil {
						t.Fatal(err)
					}
				}
				twin := newSite(t, k, func(o *member.Options) { o.Identity, o.Dir = peer.id, dir })
				defer twin.stop()
				for range 10 {
					enginetest.Report(t, twin.engine, 2, bulkhead.Sighting, 1)
					enginetest.Report(t, peer.engine, 2, bulkhead.Sighting, 1)
					bubble.Advance(2 * beat / 10)
				}
				bubble.Advance(2 * peer.Mesh.opts.Interval) // a head is sent, and heard
				if p := home.peer(t, peer); p.Quarantine != "two servers use its key" {
					t.Errorf("copied %v, begun %v after a heartbeat: quarantine %q", copied, part*beat/6, p.Quarantine)
				}
				if !peer.Status().Twin || !twin.Status().Twin {
					t.Errorf("copied %v, begun %v after a heartbeat: noticed at the first %v, at the second %v", copied,
						part*beat/6, peer.Status().Twin, twin.Status().Twin)
				}
			})
		}
	}
}

// TestRoles checks that a node that only subscribes publishes no counts, and one that only
// publishes counts no peer.
func TestRoles(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		both := newSite(t, k, nil)
		reader := newSite(t, k, func(o *member.Options) { o.Role = member.Subscribe })
		trap := newSite(t, k, func(o *member.Options) { o.Role = member.Publish })
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
			enginetest.Report(t, s.engine, 1, bulkhead.Sighting, []uint32{1, 10, 100}[i])
		}
		bubble.Advance(2 * time.Minute)
		for i, want := range []uint32{101, 111, 100} {
			if got := enginetest.Check(t, sites[i].engine, 1).Sightings; got != want {
				t.Errorf("role %q: %d sightings, want %d", sites[i].opts.Role, got, want)
			}
		}
	})
}

// TestPeerList checks that mistaken changes of the list change nothing, and that the list survives
// a restart.
func TestPeerList(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		dir := t.TempDir()
		home, peer := newSite(t, k, func(o *member.Options) { o.Dir = dir }), newSite(t, k, nil)
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
		home = newSite(t, k, func(o *member.Options) { o.Dir = dir })
		defer home.stop()
		if p := home.peer(t, peer); p.Name != "bob" || p.Weight != 0.25 {
			t.Errorf("after a restart: %+v", p)
		}
		if got := home.engine.Origins(); len(got) != 1 || got[0] != (engine.Origin{ID: key, Weight: 0.25}) {
			t.Errorf("origins after a restart: %+v", got)
		}
	})
}

// A hurriedEngine is called by a caller that leaves before it has answered.
type hurriedEngine struct {
	*engine.Engine
	leave func()
}

func (e *hurriedEngine) SetOrigins(ctx context.Context, origins []engine.Origin) error {
	e.leave()
	if err := e.Engine.SetOrigins(context.WithoutCancel(ctx), origins); err != nil {
		return err
	}
	return ctx.Err() // the engine has it, and the caller does not know
}

// TestImpatientAdministrator checks that a change of the peer list whose caller leaves early is
// applied or not, and that the engine counts the peers on the list.
func TestImpatientAdministrator(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		hurried := &hurriedEngine{leave: func() {}}
		home := newSite(t, k, func(o *member.Options) {
			hurried.Engine = o.Engine.(*engine.Engine)
			o.Engine = hurried
		})
		defer home.stop()
		f := newForger(t, k, home, 1)
		for what, change := range map[string]func(context.Context) error{
			"weigh": func(ctx context.Context) error { return home.WeighPeer(ctx, f.id.ID(), 0.5) },
			"evict": func(ctx context.Context) error { return home.EvictPeer(ctx, f.id.ID()) },
		} {
			ctx, cancel := context.WithCancel(t.Context())
			hurried.leave = cancel
			err := change(ctx)
			if got, want := home.engine.Origins(), home.Origins(); !slices.Equal(got, want) {
				t.Errorf("%s: %v: the engine counts %v, the list says %v", what, err, got, want)
			}
			cancel()
		}
	})
}

// TestAwayIsNoGrowth checks that an honest peer's counts from the days that this node was away
// arrive at once, and do not quarantine the peer. A peer whose messages arrived all the time has no
// more than an hour's allowance.
func TestAwayIsNoGrowth(t *testing.T) {
	for name, restart := range map[string]bool{"connection": false, "restart": true} {
		t.Run(name, func(t *testing.T) {
			meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
				slow := func(o *member.Options) { o.Interval, o.Heartbeat = 10*time.Second, 5*time.Minute }
				dir, memory := t.TempDir(), enginetest.Small(t, nil)
				open := func() *site {
					return newSite(t, k, func(o *member.Options) { slow(o); o.Dir, o.Engine, o.MaxAdds = dir, memory, 1000 })
				}
				home, peer := open(), newSite(t, k, slow)
				defer func() { home.stop() }()
				defer peer.stop()
				trust(t, home, 1, peer)
				enginetest.Report(t, peer.engine, 1, bulkhead.Sighting, 1)
				bubble.Advance(10 * time.Minute)
				if restart {
					home.stop()
				} else {
					home.bus.Set(false)
				}
				for range 40 {
					bubble.Advance(time.Hour)
					enginetest.Report(t, peer.engine, 1, bulkhead.Sighting, 30_000)
				}
				if restart {
					home = open()
				} else {
					home.bus.Set(true)
				}
				bubble.Advance(10 * time.Minute)
				if p, got := home.peer(t, peer), enginetest.Check(t, memory, 1).Sightings; p.Quarantine != "" || got != 1_200_001 {
					t.Errorf("%d sightings, want 1200001; quarantine %q", got, p.Quarantine)
				}
				bubble.Advance(3 * time.Hour)
				enginetest.Report(t, peer.engine, 1, bulkhead.Sighting, 100_000)
				bubble.Advance(10 * time.Minute)
				if p := home.peer(t, peer); !strings.Contains(p.Quarantine, "adds") {
					t.Errorf("100,000 adds at once where 60,000 an hour are allowed: quarantine %q", p.Quarantine)
				}
			})
		})
	}
}
