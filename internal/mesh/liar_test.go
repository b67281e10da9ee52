package mesh

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// claims returns asks that say of a node's past what is not true.
func claims(home *site) []*message {
	life := home.Status().Incarnation
	var more []arrayHead
	for _, a := range home.engine.Own() {
		more = append(more, arrayHead{ref: ref{a.Array, a.Start}, version: 1 << 40, boot: life})
	}
	to := home.id.public.hint()
	return []*message{
		{kind: kindAsk, to: to, life: 1<<61 - 2, boot: 1<<61 - 2},
		{kind: kindAsk, to: to, life: life + 1000, boot: life + 1000, wants: more},
		{kind: kindAsk, to: to, life: life, boot: life + 1<<40},
		{kind: kindAsk, to: to, life: life, boot: life, wants: more},
	}
}

// TestClaimedPast: what a peer says of a node's own past changes nothing, with
// anything but the node's own signature.
func TestClaimedPast(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		home := newSite(t, k, nil)
		defer home.stop()
		f := newForger(t, k, home, 0)
		report(t, home.engine, 1, bulkhead.Sighting, 3)
		settle()
		before := home.Status()
		far := stamp{incarnation: 1<<61 - 2, boot: 1<<61 - 2, seq: 1, at: 1<<61 - 2}
		statement := func(m *message, id *Identity, name *Identity) []byte {
			raw := appendMessage(nil, m, id)
			h := name.public.hint()
			copy(raw[2:], h[:])
			e, err := openEnvelope(raw)
			if err != nil {
				t.Fatal(err)
			}
			return e.statement()
		}
		for _, m := range claims(home) {
			f.say(t, home, m)
			for _, proof := range [][]byte{
				nil, {messageVersion},
				statement(&message{kind: kindHead, stamp: far}, f.id, f.id),       // its own
				statement(&message{kind: kindHead, stamp: far}, f.id, home.id),    // forged
				statement(&message{kind: kindHead, stamp: far}, home.id, home.id), // beyond the clock
			} {
				m.proofs = [][]byte{proof}
				f.say(t, home, m)
			}
		}
		settle()
		after := home.Status()
		if after.Incarnation != before.Incarnation {
			t.Errorf("incarnation %d became %d by the word of a peer", before.Incarnation, after.Incarnation)
		}
		if after.Images > before.Images {
			t.Errorf("%d images were sent for claims of holding more", after.Images-before.Images)
		}
	})
}

// TestOwnWord: what a node has signed and forgotten is believed, whoever shows it.
func TestOwnWord(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		home := newSite(t, k, nil)
		defer home.stop()
		f := newForger(t, k, home, 0)
		settle()
		s := home.Status()
		e, err := openEnvelope(appendMessage(nil, &message{kind: kindHead, stamp: stamp{s.Incarnation + 50, s.Incarnation + 9000, 3, s.Incarnation + 9000}}, home.id))
		if err != nil {
			t.Fatal(err)
		}
		f.say(t, home, &message{kind: kindAsk, to: home.id.public.hint(), proofs: [][]byte{e.statement()}})
		settle()
		if got := home.Status().Incarnation; got <= s.Incarnation+9000 {
			t.Errorf("incarnation %d after one up to %d was shown", got, s.Incarnation+9000)
		}
	})
}

// TestStateLost: a node that lost what its mesh remembers, while its clock is behind,
// is told by its peer of the life that it had, also if the peer was restarted.
func TestStateLost(t *testing.T) {
	for name, restart := range map[string]bool{"the peer goes on": false, "the peer is restarted": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, k *memBroker) {
				dir, peerDir, memory := t.TempDir(), t.TempDir(), smallEngine(t, nil)
				time.Sleep(20 * 24 * time.Hour)
				home := newSite(t, k, func(o *Options) { o.Dir = dir })
				peer := newSite(t, k, func(o *Options) { o.Dir, o.Engine = peerDir, memory })
				trust(t, peer, 1, home)
				report(t, home.engine, 1, bulkhead.Sighting, 3)
				time.Sleep(5 * time.Minute)
				home.stop()
				if restart {
					peer.stop()
					peer = newSite(t, k, func(o *Options) { o.Dir, o.Engine = peerDir, memory })
				}
				defer func() { peer.stop() }()
				if err := os.Remove(filepath.Join(dir, stateFile)); err != nil {
					t.Fatal(err)
				}
				k.wipe() // the broker does not know either
				late := func() time.Time { return time.Now().Add(-2 * time.Hour) }
				home = newSite(t, k, func(o *Options) { o.Dir, o.Now = dir, late })
				defer home.stop()
				report(t, home.engine, 2, bulkhead.Sighting, 7)
				time.Sleep(5 * time.Minute)
				if a, b := check(t, memory, 1).Sightings, check(t, memory, 2).Sightings; a != 0 || b != 7 {
					t.Errorf("the peer counts %d of before the loss and %d of after, want 0 and 7: %+v", a, b, peer.peer(t, home))
				}
			})
		})
	}
}

// TestBrokerRemembers: with what a broker has stored a node finds out by itself what it
// has forgotten.
func TestBrokerRemembers(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		dir := t.TempDir()
		home := newSite(t, k, func(o *Options) { o.Dir = dir })
		report(t, home.engine, 1, bulkhead.Sighting, 3)
		settle()
		life := home.Status().Incarnation
		home.stop()
		if err := os.Remove(filepath.Join(dir, stateFile)); err != nil {
			t.Fatal(err)
		}
		late := func() time.Time { return time.Now().Add(-2 * time.Hour) }
		home = newSite(t, k, func(o *Options) { o.Dir, o.Now = dir, late })
		defer home.stop()
		settle()
		if got := home.Status().Incarnation; got <= life {
			t.Errorf("incarnation %d after one of %d that the broker has messages of", got, life)
		}
	})
}

// TestCopiedBackUnseen: the folder of a node was copied back while its peer, too, was
// restarted, so that nobody can prove anything: the peer takes what the node says now.
func TestCopiedBackUnseen(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		dir, memory := t.TempDir(), smallEngine(t, nil)
		home := newSite(t, k, func(o *Options) { o.Dir = dir })
		peerDir := t.TempDir()
		peer := newSite(t, k, func(o *Options) { o.Dir, o.Engine = peerDir, memory })
		trust(t, peer, 1, home)
		report(t, home.engine, 1, bulkhead.Sighting, 3)
		time.Sleep(5 * time.Minute)
		home.stop()
		peer.stop()
		if err := os.Remove(filepath.Join(peerDir, heardFile)); err != nil {
			t.Fatal(err)
		}
		k.wipe()
		home = newSite(t, k, func(o *Options) { o.Dir = dir }) // its engine holds nothing
		defer home.stop()
		peer = newSite(t, k, func(o *Options) { o.Dir, o.Engine = peerDir, memory })
		defer peer.stop()
		report(t, home.engine, 2, bulkhead.Sighting, 7)
		time.Sleep(10 * time.Minute)
		if a, b := check(t, memory, 1).Sightings, check(t, memory, 2).Sightings; a != 0 || b != 7 {
			t.Errorf("the peer counts %d of before and %d of after, want 0 and 7: %+v", a, b, peer.peer(t, home))
		}
	})
}

// TestSilent: a peer that has not been heard for long is shown so, with when it was
// heard, also after a restart.
func TestSilent(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		dir := t.TempDir()
		home, peer := newSite(t, k, func(o *Options) { o.Dir = dir }), newSite(t, k, nil)
		trust(t, home, 1, peer)
		time.Sleep(time.Minute)
		if p := home.peer(t, peer); p.Silent != 0 || p.Heard.IsZero() {
			t.Errorf("heard: %+v", p)
		}
		peer.stop()
		settle()
		heard := home.peer(t, peer).Heard
		time.Sleep(time.Hour)
		if p := home.peer(t, peer); !p.Heard.Equal(heard) || p.Silent != time.Since(heard) {
			t.Errorf("silent for an hour: %+v", p)
		}
		home.stop()
		home = newSite(t, k, func(o *Options) { o.Dir = dir })
		defer home.stop()
		if p := home.peer(t, peer); !p.Heard.Equal(heard) || p.Silent < time.Hour {
			t.Errorf("after a restart: %+v, want heard %v", p, heard)
		}
	})
}
