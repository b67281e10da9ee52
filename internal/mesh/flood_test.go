package mesh

import (
	"context"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/bus"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// TestStoredFlood checks that one peer's stored messages, however many, cannot make the hub lose
// its own connection, read the same messages again and again, or forget the messages of others. The
// peer is evicted and added again, so that all of them are read.
func TestStoredFlood(t *testing.T) {
	address := freePort(t)
	hubDir, hubID := meshtest.Folder(t)
	joinDir, joinID := meshtest.Folder(t)
	_, liar := meshtest.Folder(t)
	a, b := enginetest.Small(t, nil), enginetest.Small(t, nil)
	hub, _ := start(t, quick(member.Options{Dir: hubDir, Identity: hubID, Engine: a, Mode: member.Hub, Listen: address,
		Name: "hub"}))
	join, _ := start(t, quick(member.Options{Dir: joinDir, Identity: joinID, Engine: b, Mode: member.Join,
		Servers: []string{address},
		Name:    "join"}))
	befriend(t, hub, join)
	if err := hub.AddPeer(t.Context(), liar.ID(), "liar", 0); err != nil {
		t.Fatal(err)
	}
	n := 60
	if testing.Short() {
		n = 20
	}
	floodStream(t, address, hubID, liar, n, 4<<20)
	own := hub.buses[0].(*bus.Client)
	before := own.Conn.Stats().Reconnects
	if err := hub.EvictPeer(t.Context(), liar.ID()); err != nil {
		t.Fatal(err)
	}
	if err := hub.AddPeer(t.Context(), liar.ID(), "liar", 0); err != nil {
		t.Fatal(err)
	}
	enginetest.Report(t, b, 1, bulkhead.Sighting, 3)
	enginetest.Eventually(t, 5*time.Minute, "the hub counts what an honest peer says", func() bool {
		return enginetest.Check(t, a, 1).Sightings == 3
	})
	enginetest.Eventually(t, 5*time.Minute, "the hub has read the flood", func() bool {
		for _, p := range hub.Status().Peers {
			if p.ID == liar.ID() && p.Refusals[member.ReasonForged] >= uint64(n) {
				return true
			}
		}
		return false
	})
	if n := own.Conn.Stats().Reconnects - before; n > 0 {
		t.Errorf("the hub has lost the connection to its own broker %d times", n)
	}
}

// floodStream makes the broker of a hub store messages under the subject of a peer, with its name
// and without its signature.
func floodStream(t *testing.T, address string, hub, peer *member.Identity, n, size int) {
	t.Helper()
	dir, _ := meshtest.Folder(t)
	m, err := prepare(t.Context(),
		member.Options{Dir: dir, Identity: peer, Engine: enginetest.Small(t, nil), KeyID: enginetest.Secret.ID(),
			Mode:    member.Join,
			Servers: []string{address}})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.AddPeer(t.Context(), hub.ID(), "hub", 0); err != nil {
		t.Fatal(err)
	}
	if err := m.connect(context.Background()); err != nil {
		t.Fatal(err)
	}
	b := m.buses[0]
	enginetest.Eventually(t, time.Minute, "the liar is connected", func() bool { return b.Status().Connected })
	for range n {
		msg := append([]byte{2, byte(wire.KindDelta)}, hintBytes(peer)...)
		msg = append(msg, make([]byte, size)...) // an empty claim
		if err := b.Publish(wire.Topic{Kind: wire.KindDelta, Origin: peer.Hint()}, msg); err != nil {
			t.Fatal(err)
		}
		if err := b.(*bus.Client).Conn.FlushTimeout(time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSubjectOfAnother checks that a message under another node's subject, or without its sender's
// signature, is refused. The refusal is counted only against a proven sender.
func TestSubjectOfAnother(t *testing.T) {
	for name, open := range map[string]bool{"a broker that proves": false, "a broker that does not": true} {
		t.Run(name, func(t *testing.T) {
			meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
				home, peer := newSite(t, k, nil), newSite(t, k, nil)
				defer home.stop()
				defer peer.stop()
				trust(t, home, 1, peer)
				f := newForger(t, k, home, 1)
				f.bus.Anybody, home.bus.Anybody = open, open
				settle()
				victim := peer.id.Hint()
				genuine := func(id *member.Identity) []byte {
					return wire.AppendMessage(nil, &wire.Message{Kind: wire.KindDelta, Stamp: f.at}, id)
				}
				forged := genuine(f.id)
				copy(forged[2:], victim[:])
				for range 3 {
					f.bring(t, home, wire.Topic{Kind: wire.KindDelta, Origin: f.id.Hint()},
						genuine(peer.id)) // another node's message, replayed
					f.bring(t, home, wire.Topic{Kind: wire.KindDelta, Origin: f.id.Hint()}, forged)
					if open {
						f.bring(t, home, wire.Topic{Kind: wire.KindDelta, Origin: victim}, forged)
						f.bring(t, home, wire.Topic{Kind: wire.KindAsk, Origin: home.id.Hint(), Key: "nobody"}, forged)
					}
				}
				settle()
				if p := home.peer(t, peer); len(p.Refusals) > 0 {
					t.Errorf("refusals are booked on the peer that was named: %v", p.Refusals)
				}
				own, nobody := home.peerOf(t, f.id).Refusals, home.Status().Strangers
				if want := map[bool]uint64{false: 6}[open]; own[member.ReasonSubject] != want {
					t.Errorf("refusals of the sender: %v, want %d", own, want)
				}
				if open && (nobody[member.ReasonSubject] != 6 || nobody[member.ReasonForged] != 3 ||
					nobody[member.ReasonMalformed] != 3) {
					t.Errorf("refusals of nobody: %v", nobody)
				}
			})
		})
	}
}

// TestReadOn checks that a reading of stored messages continues where the connection dropped.
func TestReadOn(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		peer := newSite(t, k, func(o *member.Options) { o.Heartbeat = time.Hour })
		defer peer.stop()
		const n = 400
		for range n {
			enginetest.Report(t, peer.engine, 1, bulkhead.Sighting, 1)
			bubble.Advance(2 * time.Second)
		}
		k.Mu.Lock()
		stored := len(k.Deltas)
		k.Mu.Unlock()
		dir := t.TempDir()
		// It adds the peer before it has ever been connected.
		home := newSiteOn(t, nil, engine.Options{}, func(o *member.Options) { o.Dir, o.Heartbeat = dir, time.Hour })
		home.weigh(t, peer, 1)
		home.stop()
		k.Mu.Lock()
		k.Breaks, k.Drops = 50, 20
		k.Mu.Unlock()
		home = newSite(t, k, func(o *member.Options) { o.Dir, o.Heartbeat = dir, time.Hour })
		defer home.stop()
		settle()
		if got := enginetest.Check(t, home.engine, 1).Sightings; got != n {
			t.Errorf("%d sightings, want %d", got, n)
		}
		// Of the 50 messages that each attempt reads, at most two were read before.
		if home.bus.Handed < stored || home.bus.Handed > stored+2*(stored/48+1) {
			t.Errorf("%d messages were read where %d are stored", home.bus.Handed, stored)
		}
	})
}

// TestSeenMargin checks that a returning node also reads messages stored shortly before it was last
// connected, because they may not have reached it.
func TestSeenMargin(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		dir := t.TempDir()
		home, peer := newSite(t, k, func(o *member.Options) { o.Dir = dir }), newSite(t, k, nil)
		trust(t, home, 1, peer)
		settle()
		home.stop()
		enginetest.Report(t, peer.engine, 1, bulkhead.Sighting, 3)
		settle()
		peer.stop() // no peer can be asked
		bubble.Advance(time.Minute)
		s, err := member.LoadState(dir)
		if err != nil {
			t.Fatal(err)
		}
		s.Seen = map[string]time.Time{"memory 0": time.Now().UTC()}
		if err := s.Save(dir); err != nil {
			t.Fatal(err)
		}
		home = newSite(t, k, func(o *member.Options) { o.Dir = dir })
		defer home.stop()
		settle()
		if got := enginetest.Check(t, home.engine, 1).Sightings; got != 3 {
			t.Errorf("%d sightings, want 3", got)
		}
	})
}
