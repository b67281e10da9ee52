package mesh

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// claims returns asks with false statements about a node's past.
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

// TestClaimedPast checks that a peer's claims about a node's own past change nothing without the
// node's own signature.
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

// TestOwnWord checks that statements that a node has signed and forgotten are believed, whichever
// peer sends them.
func TestOwnWord(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		home := newSite(t, k, nil)
		defer home.stop()
		f := newForger(t, k, home, 0)
		settle()
		s := home.Status()
		e, err := openEnvelope(appendMessage(nil,
			&message{kind: kindHead, stamp: stamp{s.Incarnation + 50, s.Incarnation + 9000, 3, s.Incarnation + 9000}}, home.id))
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

// TestStateLost checks that a node that lost the state of its mesh, while its clock is behind,
// learns of its former incarnation from its peer, even if the peer was restarted.
func TestStateLost(t *testing.T) {
	for name, restart := range map[string]bool{"the peer goes on": false, "the peer is restarted": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, k *memBroker) {
				dir, peerDir := memoryDir(t), memoryDir(t)
				time.Sleep(20 * 24 * time.Hour)
				memory := smallEngine(t, nil) // only now: it reads its clock every second
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

// TestBrokerRemembers checks that a node discovers by itself, from messages stored by a broker,
// what it has forgotten.
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

// TestCopiedBackUnseen checks the case that a node's folder was copied back while its peer was
// restarted as well, so that no proof is left: the peer accepts the node's present state.
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
		home = newSite(t, k, func(o *Options) { o.Dir = dir }) // its engine is empty
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

// TestCopiedBackSoon checks that a peer that accepts a node's present state for want of proof takes
// all of it at once, a minute after the first doubt, although it had asked in vain at growing
// intervals. The same holds where the node began its last process with a clock that was ahead, and
// now has a lower number, once the clock has passed that.
func TestCopiedBackSoon(t *testing.T) {
	for _, ahead := range []time.Duration{0, 90 * time.Second} {
		inBubble(t, func(t *testing.T, k *memBroker) {
			dir, memory, peerDir := t.TempDir(), smallEngine(t, nil), t.TempDir()
			home := newSite(t, k, func(o *Options) { o.Dir = dir })
			home.stop()
			before, err := os.ReadFile(filepath.Join(dir, stateFile))
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			home = newSite(t, k, func(o *Options) {
				o.Dir, o.Now = dir, func() time.Time { return time.Now().Add(ahead) }
			})
			peer := newSite(t, k, func(o *Options) { o.Dir, o.Engine = peerDir, memory })
			trust(t, peer, 1, home)
			report(t, home.engine, 1, bulkhead.Sighting, 3)
			time.Sleep(10 * time.Second)
			if got := check(t, memory, 1).Sightings; got != 3 {
				t.Fatalf("%d sightings, want 3", got)
			}
			home.stop()
			peer.stop()
			k.wipe()
			if err := errors.Join(os.Remove(filepath.Join(peerDir, heardFile)),
				os.WriteFile(filepath.Join(dir, stateFile), before, 0o600)); err != nil {
				t.Fatal(err)
			}
			home = newSite(t, k, func(o *Options) { o.Dir = dir })
			defer home.stop()
			peer = newSite(t, k, func(o *Options) { o.Dir, o.Engine = peerDir, memory })
			defer peer.stop()
			report(t, home.engine, 2, bulkhead.Sighting, 7)
			limit := resetAfter + ahead + home.opts.Heartbeat + 5*time.Second
			for began := time.Now(); ; time.Sleep(time.Second) {
				a, b := check(t, memory, 1).Sightings, check(t, memory, 2).Sightings
				if a == 0 && b == 7 {
					break
				}
				if time.Since(began) > limit {
					t.Fatalf("a clock %v ahead: after %v the peer counts %d of before and %d of after, want 0 and 7: %+v", ahead,
						limit, a, b, peer.peer(t, home))
				}
			}
		})
	}
}

// TestNewestProcessShown checks the proof from a peer that has seen no more of a process than a
// delta that waits for others. A node that goes back to before that process receives it, and begins
// a new incarnation.
func TestNewestProcessShown(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		r := newRig(t, k, nil)
		r.e.life = 20
		said := func(boot uint64) *message {
			x := roundOf(t, ref{engine.ArrayCounts, 7}, 5, 1)
			x.lineage = lineage{{boot, 0}}
			m := &message{kind: kindDelta, stamp: stamp{incarnation: 20, boot: boot, seq: 1, at: boot},
				keyID: testSecret.ID(), from: r.peer.public.hint(), rounds: []round{x}}
			e, err := openEnvelope(appendMessage(nil, m, r.peer))
			if err != nil {
				t.Fatal(err)
			}
			m.said = e.statement()
			return m
		}
		r.t.said.head = []byte{1}
		for _, boot := range []uint64{25, 30} {
			r.t.backoff = maxBackoff
			if m := said(boot); !r.receiver.alive(t.Context(), &r.p, r.t, m) || !bytes.Equal(r.t.said.began, m.said) ||
				r.t.backoff != 2*gapWait {
				t.Fatalf("of process %d: %+v", boot, r.t)
			}
		}
		r.receiver.alive(t.Context(), &r.p, r.t, said(25)) // late
		time.Sleep(time.Hour)
		r.receiver.alive(t.Context(), &r.p, r.t, &message{kind: kindHead, stamp: stamp{20, 27, 1, 27}})
		if len(r.sender.wants) != 1 {
			t.Fatal("nobody is told")
		}
		w := <-r.sender.wants
		if len(w.proofs) != 2 || !bytes.Equal(w.proofs[1], said(30).said) {
			t.Fatalf("told %d proofs, want the head and what began the process", len(w.proofs))
		}
		home := closed(t, func(o *Options) { o.Identity = r.peer })
		home.state.Incarnation, home.state.Boot = 20, 27
		if p, ok := home.sender.proven(w.proofs[1]); !ok || !home.sender.forgot(&p, nil) {
			t.Errorf("it has forgotten nothing: %+v, %v", p, ok)
		}
		// A statement that is too long is not kept, and neither is the former one.
		m := said(40)
		m.said = make([]byte, maxSaid+1)
		if r.receiver.alive(t.Context(), &r.p, r.t, m); r.t.said.began != nil {
			t.Error("a long statement is kept")
		}
	})
}

// TestSilent checks that a peer that has been silent for long is reported as such, with the time of
// its last message, also after a restart.
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

// announced returns rounds that begin arrays of the given number of lines: one each, that adds the
// given number of keys.
func announced(t *testing.T, f *forger, count int, lines uint64, keys int) []*message {
	t.Helper()
	now := uint64(time.Now().Unix())
	var out []*message
	for i := range count {
		small := filter.Geometry{Kind: filter.Bitmap, Lines: lines, K: 8, KeyID: testSecret.ID()}
		b, err := arrays.NewSparseBits(small)
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

// TestClaimedMemory checks that arrays of maximum claimed size, and arrays that a peer fills
// sparsely, cost no more than its share, and leave the other peers theirs.
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

// TestMillionsOfSignatures checks a peer of full weight that counts ten million signatures of its
// own. Its array is made for twice as many, for which there is no memory, or for a tenth of them,
// so that it reports nearly everything. The peer has its share of the memory and no more, and is
// refused or quarantined by name. An honest peer's counts are never missing, and exact once the
// other peer is evicted, by one command, which frees its memory.
func TestMillionsOfSignatures(t *testing.T) {
	millions := uint64(10_000_000)
	if testing.Short() {
		millions = 200_000
	}
	t.Run("no memory", func(t *testing.T) { tellMillions(t, millions, 20_000_000, reasonMemory) })
	t.Run("too full", func(t *testing.T) { tellMillions(t, millions, millions/10, "quarantined") })
}

// tellMillions makes a peer count the given millions of signatures in an array of a size, and wants
// word in the log.
func tellMillions(t *testing.T, millions, size uint64, word string) {
	const batch = 1 << 12
	inBubble(t, func(t *testing.T, k *memBroker) {
		const limit, honest = 32 << 20, 60
		home, peer := newSiteOf(t, k, engine.Options{RemoteBytes: limit}, nil), newSite(t, k, nil)
		defer home.stop()
		defer peer.stop()
		trust(t, home, 1, peer)
		f := newForger(t, k, home, 1)
		large, err := filter.SizeFor(filter.Target{Kind: filter.Cells, Signatures: size, Rate: 1e-3})
		if err != nil {
			t.Fatal(err)
		}
		large.KeyID = testSecret.ID()
		theirs, err := arrays.NewSparseCounting(large)
		if err != nil {
			t.Fatal(err)
		}
		start := uint64(time.Now().Truncate(24 * time.Hour).Unix())
		theirs.SetGeneration(start)
		told := 0
		tell := func() {
			for range honest / 3 {
				report(t, peer.engine, told, bulkhead.Sighting, uint32(1+told%7))
				told++
			}
			settle()
			for n := range told {
				if got := check(t, home.engine, n).Sightings; got < uint32(1+n%7) {
					t.Fatalf("signature %d of an honest peer: %d sightings, want %d or more", n, got, 1+n%7)
				}
			}
		}
		tell()
		ones, before := slices.Repeat([]uint32{1}, batch), make([]uint32, batch)
		rng := rand.New(rand.NewPCG(9, 9))
		most := uint64(0)
		n := uint64(16) // the first that fits: each key needs a page of its own
		for sent := uint64(0); sent < millions; sent += n {
			n = min(2*n, batch)
			if sent < millions/2 && sent+n >= millions/2 {
				tell()
			}
			r := theirs.NewRound()
			keys := make([]filter.Key, n)
			for i := range keys {
				keys[i] = filter.Key{Hi: rng.Uint64(), Lo: rng.Uint64()}
			}
			theirs.AddBatch(0, keys, ones[:n], before[:n])
			r.Record(keys, ones[:n], before[:n])
			r.Close()
			f.say(t, home, &message{kind: kindDelta, keyID: testSecret.ID(), rounds: []round{{
				ref: ref{engine.ArrayCounts, start}, from: r.From, to: r.To, geometry: large, announce: true,
				lineage: lineage{{f.at.boot, 0}}, data: r.AppendBody(nil),
			}}})
			if sent/batch%64 < 2 {
				synctest.Wait()
			}
			most = max(most, home.Status().Memory.Bytes)
		}
		tell()
		p := home.peerOf(t, f.id)
		if most > limit || p.Keys == 0 || (p.Refusals[reasonMemory] > 0) != (p.Quarantine == "") ||
			!strings.Contains(home.log.String(), word) {
			t.Errorf("at most %d bytes of %d; the peer is shown as %+v", most, limit, p)
		}
		t.Logf(
			"%d signatures: %d bytes at most, limit %d; %d keys and %d bytes of the peer at the end, refusals %v, quarantine %q",
			millions, most, limit, p.Keys, p.Memory, p.Refusals, p.Quarantine)
		if err := home.EvictPeer(t.Context(), f.id.ID()); err != nil {
			t.Fatal(err)
		}
		settle()
		for n := range told {
			if got := check(t, home.engine, n).Sightings; got != uint32(1+n%7) {
				t.Errorf("signature %d after the eviction: %d sightings, want %d", n, got, 1+n%7)
			}
		}
		if left := home.Status().Memory.Bytes; left > home.peer(t, peer).Memory+1<<20 {
			t.Errorf("%d bytes after the eviction, of which the honest peer has %d", left, home.peer(t, peer).Memory)
		}
	})
}

// TestTinyGenerations checks that only a limited number of a peer's endless generations is kept,
// and read in a check.
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

// TestAsksWithoutEnd checks that a peer that requests everything again and again gets it twice, and
// then as often as allowed. The bytes are counted, and another peer still gets answers.
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

// TestOlderImage checks that the image of an earlier process of an origin is ignored, and raises no
// doubt.
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

// TestOwnHead checks that a node that receives its own head does not report two servers with one
// key.
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

// TestNothingWaits checks that waiting rounds that have arrived by other ways are dropped, and make
// room for others.
func TestNothingWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		home := newSite(t, k, nil)
		defer home.stop()
		f := newForger(t, k, home, 1)
		start := home.engine.Own()[0].Start
		f.say(t, home, &message{kind: kindDelta,
			rounds: []round{{ref: ref{engine.ArrayCounts, start}, from: 7, to: 9, data: make([]byte, 100)}}})
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
