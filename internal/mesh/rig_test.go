package mesh

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/replica"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/logtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// A rig is a mesh that does not run, on a stub of an engine, with one peer.
type rig struct {
	*Mesh
	Engine *meshtest.Engine
	Peer   *member.Identity
}

func newRig(t *testing.T, k *meshtest.Broker, change func(*member.Options)) *rig {
	t.Helper()
	r := &rig{Engine: &meshtest.Engine{Engine: enginetest.Small(t, nil)}, Peer: meshtest.Identity(t)}
	r.Mesh = closed(t, func(o *member.Options) {
		o.Engine = r.Engine
		if change != nil {
			change(o)
		}
	})
	r.use(k.Connect())
	if err := r.AddPeer(t.Context(), r.Peer.ID(), "peer", 1); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestNetworkForgotten checks that a status has a peer's other network for an hour after its last head
// from there.
func TestNetworkForgotten(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		r.Figures(r.Peer.Hint(), func(s *member.Stats) { s.Network, s.NetworkAt = "cafe", time.Now() })
		bubble.Advance(replica.NetworkRest - time.Nanosecond)
		if got := r.Status().Peers[0].Network; got != "cafe" {
			t.Errorf("in %q before an hour is over", got)
		}
		bubble.Advance(time.Nanosecond)
		if got := r.Status().Peers[0].Network; got != "" {
			t.Errorf("in %q after an hour of silence", got)
		}
	})
}

// TestStatusBounds checks for how long a status reports another server with the node's key, for how long the clock of a
// peer counts, how different it may be, and that no peer is silent for a node that hears none.
func TestStatusBounds(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, func(o *member.Options) { o.Role = member.Publish })
		r.state.NoteTwin()
		bubble.Advance(twinShown*r.opts.Heartbeat - time.Nanosecond)
		if !r.Status().Twin {
			t.Error("another server with the key is not shown")
		}
		bubble.Advance(time.Nanosecond)
		if r.Status().Twin {
			t.Error("another server with the key is still shown")
		}
		clocks := func(ahead time.Duration, wantAgree, wantAll int) {
			t.Helper()
			if agree, all := r.Clocks(time.Now().Add(ahead)); agree != wantAgree || all != wantAll {
				t.Errorf("%d of %d clocks agree, want %d of %d", agree, all, wantAgree, wantAll)
			}
		}
		clocks(0, 0, 0)
		r.Figures(r.Peer.Hint(), func(s *member.Stats) { s.Clock, s.ClockAt = time.Now(), time.Now() })
		bubble.Advance(silentAfter * r.opts.Heartbeat)
		clocks(clockTolerance-time.Nanosecond, 1, 1)
		clocks(clockTolerance, 0, 1)
		bubble.Advance(time.Nanosecond)
		clocks(0, 0, 0)
		r.Engine.Former = []engine.FormerIncarnation{{Incarnation: 7}}
		r.Figures(r.Peer.Hint(), func(s *member.Stats) { s.Behind = time.Now() })
		bubble.Advance(time.Minute)
		if p := r.Status().Peers[0]; p.Silent != 0 || p.Behind != time.Minute || len(p.Former) != 1 {
			t.Errorf("%+v; want no silence at a node that hears nothing, a minute behind, and a former incarnation", p)
		}
	})
}

// TestStatusSums checks that the status of a peer sums over its arrays, and that the probability of an error in one
// of them is at most one.
func TestStatusSums(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		for _, tt := range []struct{ each, want float64 }{{0.25, 0.75}, {0.5, 1}} {
			r.Engine.HeldOf = map[string][]engine.ArrayState{r.Peer.ID(): {{Keys: 3, Bytes: 100, Ghost: tt.each},
				{Keys: 4, Bytes: 1000, Ghost: tt.each, Merged: true}, {Ghost: tt.each, Merged: true}}}
			want := Replica{Keys: 7, Memory: 1100, Merged: 2, Ghost: tt.want}
			if got := r.Status().Peers[0].Replica; got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
	})
}

var errBroken = errors.New("broken")

// An ailing is an engine that does not count origins, or does not forget generations.
type ailing struct {
	*meshtest.Engine
	originsErr, forgetErr error
}

func (a *ailing) SetOrigins(ctx context.Context, list []engine.Origin) error {
	return errors.Join(a.originsErr, a.Engine.SetOrigins(ctx, list))
}

func (a *ailing) ForgetGenerations(context.Context, string, uint64) error { return a.forgetErr }

// TestFailedStart checks that a mesh does not start if its engine does not record what it counts, which peers would
// miss, or does not count what it should.
func TestFailedStart(t *testing.T) {
	for name, fail := range map[string]func(*ailing){
		"recording":                         func(a *ailing) { a.RecordErr = errBroken },
		"pages":                             func(a *ailing) { a.MissingErr = errBroken },
		"origins":                           func(a *ailing) { a.originsErr = errBroken },
		"a generation that was rolled back": func(a *ailing) { a.forgetErr = errBroken },
	} {
		dir, id := meshtest.Folder(t)
		peer := meshtest.Identity(t)
		if err := member.SavePeers(dir, []*member.Peer{{ID: peer.ID(), Key: peer.Public(), Weight: 1,
			Refused: []member.Stretch{{From: 5, To: 5}}}}); err != nil {
			t.Fatal(err)
		}
		e := &ailing{Engine: &meshtest.Engine{Engine: enginetest.Small(t, nil), Held: []engine.ArrayState{{Start: 5}}}}
		fail(e)
		m, err := prepare(t.Context(), member.Options{Dir: dir, Identity: id, Engine: e, KeyID: enginetest.Secret.ID(),
			Mode: member.Join})
		if m != nil || !errors.Is(err, errBroken) {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
}

// A stuckBus cannot close.
type stuckBus struct{ transport }

func (stuckBus) Close() error { return errBroken }

// TestFailedClose checks that a mesh reports what was not closed.
func TestFailedClose(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		r.buses = []transport{stuckBus{}, r.buses[0]}
		if err := r.Close(); !errors.Is(err, errBroken) || r.buses[1].Status().Connected {
			t.Errorf("%v, another connection: %v", err, r.buses[1].Status())
		}
	})
}

// TestRefusedByAHub checks that the log names a hub that refuses the node, if the hub has admitted it before.
func TestRefusedByAHub(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		var log logtest.Log
		r := newRig(t, k, func(o *member.Options) { o.Log = log.Logger() })
		if r.refused(r.Peer.Public()); log.Has("expelled") {
			t.Errorf("expelled by a hub that never admitted the node: %s", log.String())
		}
		if err := r.state.Admit(r.Peer.ID()); err != nil {
			t.Fatal(err)
		}
		if r.refused(r.Peer.Public()); !log.Has("expelled by peer") {
			t.Errorf("the log has %s", log.String())
		}
	})
}

// TestEvictedAndBack checks that a peer that was evicted and is accepted again begins anew: it may continue from an
// earlier state, and is not asked about its past, as a peer is whose folder was copied back.
func TestEvictedAndBack(t *testing.T) {
	for evicted, want := range map[bool]int{true: 0, false: 1} {
		meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
			home := newSite(t, k, nil)
			defer home.stop()
			f := newForger(t, k, home, 1)
			f.at.Boot, f.at.At = f.at.Boot+100, f.at.At+100
			f.say(t, home, &wire.Message{Kind: wire.KindHead})
			settle()
			if evicted {
				if err := errors.Join(home.EvictPeer(t.Context(), f.id.ID()),
					home.AddPeer(t.Context(), f.id.ID(), "back", 1)); err != nil {
					t.Fatal(err)
				}
				settle()
			}
			var mu sync.Mutex
			asked := 0
			defer f.bus.Subscribe(func(x wire.Topic) bool { return x.Kind == wire.KindAsk && x.Origin == f.id.Hint() },
				func(a wire.Arrival) {
					mu.Lock()
					defer mu.Unlock()
					if m, err := meshtest.Parse(a.Data, enginetest.Secret.ID()); err == nil && m.Boot > 0 {
						asked++
					}
				})()
			f.at.Boot -= 50
			f.say(t, home, &wire.Message{Kind: wire.KindHead})
			settle()
			mu.Lock()
			defer mu.Unlock()
			if asked != want {
				t.Errorf("evicted %v: asked %d times about its past, want %d", evicted, asked, want)
			}
		})
	}
}

// TestNewPeerAndOldBroker checks that a node reads what its broker has stored: of a peer when it is added, and of all
// peers when it connects again. It then publishes its versions at once. A node that only publishes reads nothing.
func TestNewPeerAndOldBroker(t *testing.T) {
	for _, role := range []member.Role{member.Both, member.Publish} {
		meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
			home, peer := newSite(t, k, func(o *member.Options) { o.Role = role }), newSite(t, k, nil)
			defer home.stop()
			handed := func() int {
				k.Mu.Lock()
				defer k.Mu.Unlock()
				return home.bus.Handed
			}
			sees := func(when string, want uint32) {
				t.Helper()
				if role == member.Publish {
					want = 0
				}
				got := enginetest.Check(t, home.engine, 1).Sightings
				if got != want || role == member.Publish && handed() > 0 {
					t.Errorf("%s, %s: %d sightings, want %d; %d stored messages read", role, when, got, want, handed())
				}
			}
			enginetest.Report(t, peer.engine, 1, bulkhead.Sighting, 3)
			settle()
			peer.stop()
			sees("before it knows the peer", 0)
			if err := home.AddPeer(t.Context(), peer.id.ID(), "", 1); err != nil {
				t.Fatal(err)
			}
			settle()
			sees("when it knows the peer", 3)
			var mu sync.Mutex
			heads := 0
			defer k.Connect().Subscribe(func(x wire.Topic) bool { return x.Kind == wire.KindHead }, func(wire.Arrival) {
				mu.Lock()
				defer mu.Unlock()
				heads++
			})()
			home.bus.Set(false)
			settle()
			before := handed()
			home.bus.Set(true)
			settle()
			mu.Lock()
			defer mu.Unlock()
			if heads != 1 {
				t.Errorf("%s: %d heads after it has connected again, want one", role, heads)
			}
			if role == member.Both && handed() == before {
				t.Error("nothing is read after it has connected again")
			}
			sees("when it has connected again", 3)
		})
	}
}
