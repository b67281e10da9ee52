package mesh

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// claims returns asks that make false statements about a node's past.
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
				dir, peerDir := memoryDir(t), memoryDir(t)
				time.Sleep(20 * 24 * time.Hour)
				memory := smallEngine(t, nil) // only now: it looks at its clock every second
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

// announced returns rounds that begin arrays of so many lines: one each, that adds so
// many keys.
func announced(t *testing.T, f *forger, arrays int, lines uint64, keys int) []*message {
	t.Helper()
	now := uint64(time.Now().Unix())
	var out []*message
	for i := range arrays {
		small := filter.Geometry{Kind: filter.Bitmap, Lines: lines, K: 8, KeyID: testSecret.ID()}
		b, err := filter.NewSparseBits(small)
		if err != nil {
			t.Fatal(err)
		}
		start := now + uint64(i)
		b.SetGeneration(start)
		r := b.NewRound()
		add, before := make([]filter.Key, keys), make([]bool, keys)
		for n := range add {
			add[n] = filter.Key{Hi: uint64(n+1) * 0x9e3779b97f4a7c15, Lo: uint64(n)}
		}
		b.SetBatch(0, add, before)
		r.RecordBits(add, before)
		r.Close()
		out = append(out, &message{kind: kindDelta, rounds: []round{{
			ref: ref{engine.ArraySpam, start}, to: r.To, geometry: small, announce: true,
			lineage: lineage{{f.at.boot, 0}}, data: r.AppendBody(nil),
		}}})
	}
	return out
}

// TestClaimedMemory: arrays that a peer claims to be as large as may be, and those that
// it fills here and there, cost what its share is, and leave the others theirs.
func TestClaimedMemory(t *testing.T) {
	for name, tt := range map[string]struct {
		weight float64
		arrays int
		keys   int
	}{
		"claimed by one that does not count": {0, 8, 1},
		"claimed":                            {1, 40, 1},
		"touched here and there":             {1, 4, 3000},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, k *memBroker) {
				const limit = 32 << 20
				home := newSiteOf(t, k, engine.Options{RemoteBytes: limit}, nil)
				peer := newSite(t, k, nil)
				defer home.stop()
				defer peer.stop()
				trust(t, home, 1, peer)
				f := newForger(t, k, home, tt.weight)
				for _, m := range announced(t, f, tt.arrays, 1<<24, tt.keys) {
					f.say(t, home, m)
				}
				settle()
				p := home.peerOf(t, f.id)
				if p.Refusals[reasonMemory] == 0 || p.Memory > limit {
					t.Errorf("%d bytes of %d: %+v", p.Memory, limit, p)
				}
				if sure := uint64(limit / 4 / 2); tt.weight == 0 && p.Memory > sure {
					t.Errorf("one that does not count takes %d bytes, its share is %d", p.Memory, sure)
				}
				report(t, peer.engine, 1, bulkhead.Sighting, 9)
				settle()
				if got := check(t, home.engine, 1).Sightings; got != 9 {
					t.Errorf("%d sightings of an honest peer, want 9; memory %+v", got, home.Status().Memory)
				}
				if m := home.Status().Memory; m.Bytes > limit {
					t.Errorf("%+v", m)
				}
			})
		})
	}
}

// TestTinyGenerations: of a peer's endless generations no more than a limited
// number is kept, and looked at in a check.
func TestTinyGenerations(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		home := newSite(t, k, nil)
		defer home.stop()
		f := newForger(t, k, home, 1)
		for _, m := range announced(t, f, 1000, 1, 1) {
			f.say(t, home, m)
		}
		settle()
		if n := len(home.engine.Replica(f.id.ID())); n == 0 || n > maxGenerations {
			t.Errorf("%d generations are kept, limit %d", n, maxGenerations)
		}
	})
}

// TestAsksWithoutEnd: who asks for all again and again is sent it twice, and then as
// often as may be; that is booked, and another who asks is still answered.
func TestAsksWithoutEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		home, late := newSite(t, k, nil), newSite(t, k, nil)
		defer home.stop()
		defer late.stop()
		f := newForger(t, k, home, 0)
		home.weigh(t, late, 0)
		for n := range 20_000 {
			report(t, home.engine, n, bulkhead.Sighting, 1)
		}
		settle()
		k.wipe()
		before := home.Status()
		const asks = 100
		for range asks {
			var wants []arrayHead
			for _, a := range home.engine.Own() {
				wants = append(wants, arrayHead{ref: ref{a.Array, a.Start}, partial: true})
			}
			f.say(t, home, &message{kind: kindAsk, to: home.id.public.hint(), life: before.Incarnation, wants: wants})
			time.Sleep(3 * time.Second)
		}
		k.wipe()
		p := home.peerOf(t, f.id)
		sent := home.Status().Bytes - before.Bytes
		if p.Served == 0 || p.Refusals[reasonAsks] == 0 || sent > 3<<20 {
			t.Errorf("%d bytes were sent for %d asks: %+v", sent, asks, p)
		}
		late.weigh(t, home, 1)
		time.Sleep(time.Minute)
		if got := check(t, late.engine, 77).Sightings; got != 1 {
			t.Errorf("who asks for the first time is not answered: %+v", late.peer(t, home))
		}
	})
}

// TestOlderImage: the image of an earlier process of an origin is passed over, and
// makes nobody doubt the origin.
func TestOlderImage(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		home := newSite(t, k, nil)
		defer home.stop()
		f := newForger(t, k, home, 1)
		start := home.engine.Own()[0].Start
		f.at.boot, f.at.at = f.at.boot+10, f.at.at+20
		f.say(t, home, imagesOf(t, f, start, 50, 0, nil))
		settle()
		held := home.engine.Replica(f.id.ID())
		f.at.boot -= 5
		f.say(t, home, imagesOf(t, f, start, 90, 0, nil))
		settle()
		if got := home.engine.Replica(f.id.ID()); len(got) != 1 || got[0] != held[0] {
			t.Errorf("held %+v, then %+v", held, got)
		}
		if p := home.peerOf(t, f.id); p.Refusals[reasonSuspect] != 0 {
			t.Errorf("the origin is doubted: %v", p.Refusals)
		}
	})
}

// TestOwnHead: a node that hears its own head is not two servers with one key.
func TestOwnHead(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		home := newSite(t, k, nil)
		defer home.stop()
		settle()
		home.Mesh.mu.Lock()
		s := home.state
		home.Mesh.mu.Unlock()
		own := topic{kind: kindHead, origin: home.id.public.hint()}
		for later, want := range []uint64{0, 1} {
			m := &message{kind: kindHead, stamp: stamp{s.Incarnation, s.Boot + uint64(later), 9, s.Boot + uint64(later)}}
			home.receiver.deliver(t.Context(), home.bus, arrival{topic: own, msg: appendMessage(nil, m, home.id)}, true)
			settle()
			if n := home.Status().Strangers["own key elsewhere"]; n != want {
				t.Errorf("a head of a process that began %d ms later: %d alerts, want %d", later, n, want)
			}
		}
	})
}

// TestNothingWaits: what waited and has come by other ways waits no more, and
// makes room for others.
func TestNothingWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		home := newSite(t, k, nil)
		defer home.stop()
		f := newForger(t, k, home, 1)
		start := home.engine.Own()[0].Start
		f.say(t, home, &message{kind: kindDelta, rounds: []round{{ref: ref{engine.ArrayCounts, start}, from: 7, to: 9, data: make([]byte, 100)}}})
		f.say(t, home, imagesOf(t, f, start, 50, 0, nil))
		settle()
		waiting := make(chan int)
		home.receiver.call(func(context.Context) {
			x := home.receiver.track(f.id.public.hint())
			waiting <- len(x.pending) + x.waiting
		})
		if n := <-waiting; n != 0 {
			t.Errorf("%d bytes are taken for waiting", n)
		}
	})
}
