package mesh

import (
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/bus"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// TestHeadsLinear checks that each member of a hub receives as many messages a heartbeat with 24 idle members
// as with 6: an idle hub does not pass on each head to each member.
func TestHeadsLinear(t *testing.T) {
	const beat = time.Second
	address := freePort(t)
	dir, id := meshtest.Folder(t)
	hub, _ := start(t, member.Options{Dir: dir, Identity: id, Engine: enginetest.Small(t, nil), Mode: member.Hub,
		Listen: address, Heartbeat: beat, Interval: beat / 10})
	e := enginetest.Small(t, nil)
	var members []*light
	perMember := func(n int) float64 {
		t.Helper()
		for len(members) < n {
			d, i := meshtest.Folder(t)
			if err := hub.AddPeer(t.Context(), i.ID(), "", 1); err != nil {
				t.Fatal(err)
			}
			m := newLight(t, address, i, d, e, beat)
			t.Cleanup(func() { m.client.Close() })
			enginetest.Eventually(t, time.Minute, "connected", m.client.Connected)
			if err := m.count(t, hub.opts.Engine.Own()[0].Start); err != nil {
				t.Fatal(err)
			}
			members = append(members, m)
		}
		received := func() (n uint64) {
			for _, m := range members {
				n += m.client.Conn.Stats().InMsgs
			}
			return n
		}
		const beats = 6
		before, tick := uint64(0), time.NewTicker(beat)
		defer tick.Stop()
		for i := range beats + 3 {
			if i == 3 {
				before = received()
			}
			for _, m := range members {
				if err := m.head(); err != nil {
					t.Fatal(err)
				}
			}
			<-tick.C
		}
		return float64(received()-before) / float64(n) / beats
	}
	few, many := perMember(6), perMember(24)
	t.Logf("messages to a member in a heartbeat: %.1f with 6 members, %.1f with 24", few, many)
	if many > few+3 || many > 12 {
		t.Errorf("a member receives %.1f messages a heartbeat with 24 members, and %.1f with 6", many, few)
	}
}

// TestHeadsMissed checks that a node that has not heard a head asks for it when the hub's bundles show it,
// that a head that is still the same counts as a sign of life, and that a node without bundles hears all heads.
func TestHeadsMissed(t *testing.T) {
	address := freePort(t)
	hubDir, hubID := meshtest.Folder(t)
	hub, _ := start(t, quick(member.Options{Dir: hubDir, Identity: hubID, Engine: enginetest.Small(t, nil),
		Mode: member.Hub, Listen: address}))
	var sites []*Mesh
	for range 2 {
		dir, id := meshtest.Folder(t)
		m, _ := start(t, quick(member.Options{Dir: dir, Identity: id, Engine: enginetest.Small(t, nil), Mode: member.Join,
			Servers: []string{address}}))
		sites = append(sites, m)
	}
	// An earlier version of the program.
	dir, id := meshtest.Folder(t)
	befriend(t, hub, sites[0])
	befriend(t, hub, sites[1])
	if err := hub.AddPeer(t.Context(), id.ID(), "", 1); err != nil {
		t.Fatal(err)
	}
	old := newLight(t, address, id, dir, enginetest.Small(t, nil), time.Second)
	defer old.client.Close()
	sub, err := old.client.Conn.SubscribeSync(bus.NewNames(enginetest.Secret.ID()).All(wire.KindHead))
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	enginetest.Eventually(t, time.Minute, "heads without bundles", func() bool {
		if m, err := sub.NextMsg(time.Second); err == nil {
			seen[m.Subject] = true
		}
		return len(seen) == 3
	})
	// Each site becomes a peer of the other after its head was in a bundle.
	enginetest.Report(t, sites[1].opts.Engine.(*engine.Engine), 1, 0, 3)
	befriend(t, sites...)
	agree(t, []*engine.Engine{sites[0].opts.Engine.(*engine.Engine)}, 1, 3)
	last := func() time.Time { return peerOf(t, sites[0], sites[1]).Heard }
	for range 3 {
		before := last()
		enginetest.Eventually(t, time.Minute, "a sign of life", func() bool { return last().After(before) })
	}
	if got := peerOf(t, sites[0], sites[1]); got.Missing != 0 || got.Silent != 0 {
		t.Errorf("%+v", got)
	}
}

// peerOf returns the state of one node at another.
func peerOf(t *testing.T, at, of *Mesh) PeerStatus {
	t.Helper()
	for _, p := range at.Status().Peers {
		if p.ID == of.opts.Identity.ID() {
			return p
		}
	}
	t.Fatal("no such peer")
	return PeerStatus{}
}
