package mesh

import (
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
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/replica"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// claims returns asks with false statements about a node's past.
func claims(home *site) []*wire.Message {
	life := home.Status().Incarnation
	var extra []wire.ArrayHead
	for _, a := range home.engine.Own() {
		extra = append(extra, wire.ArrayHead{Ref: wire.Ref{Array: a.Array, Start: a.Start}, Version: 1 << 40, Boot: life})
	}
	to := home.id.Hint()
	return []*wire.Message{
		{Kind: wire.KindAsk, To: to, Incarnation: 1<<61 - 2, Boot: 1<<61 - 2},
		{Kind: wire.KindAsk, To: to, Incarnation: life + 1000, Boot: life + 1000, Wants: extra},
		{Kind: wire.KindAsk, To: to, Incarnation: life, Boot: life + 1<<40},
		{Kind: wire.KindAsk, To: to, Incarnation: life, Boot: life, Wants: extra},
	}
}

// TestClaimedPast checks that a peer's claims about a node's own past change nothing without the
// node's own signature.
func TestClaimedPast(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		home := newSite(t, k, nil)
		defer home.stop()
		f := newForger(t, k, home, 0)
		enginetest.Report(t, home.engine, 1, bulkhead.Sighting, 3)
		settle()
		before := home.Status()
		far := wire.Stamp{Incarnation: 1<<61 - 2, Boot: 1<<61 - 2, Seq: 1, At: 1<<61 - 2}
		statement := func(m *wire.Message, id *member.Identity, name *member.Identity) []byte {
			raw := wire.AppendMessage(nil, m, id)
			h := name.Hint()
			copy(raw[2:], h[:])
			e, err := wire.OpenEnvelope(raw)
			if err != nil {
				t.Fatal(err)
			}
			return e.Statement()
		}
		for _, m := range claims(home) {
			f.say(t, home, m)
			for _, proof := range [][]byte{
				nil, {2},
				statement(&wire.Message{Kind: wire.KindHead, Stamp: far}, f.id, f.id),       // its own
				statement(&wire.Message{Kind: wire.KindHead, Stamp: far}, f.id, home.id),    // forged
				statement(&wire.Message{Kind: wire.KindHead, Stamp: far}, home.id, home.id), // beyond the clock
			} {
				m.Proofs = [][]byte{proof}
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
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		home := newSite(t, k, nil)
		defer home.stop()
		f := newForger(t, k, home, 0)
		settle()
		s := home.Status()
		e, err := wire.OpenEnvelope(wire.AppendMessage(nil,
			&wire.Message{Kind: wire.KindHead, Stamp: wire.Stamp{Incarnation: s.Incarnation + 50, Boot: s.Incarnation + 9000,
				Seq: 3, At: s.Incarnation + 9000}}, home.id))
		if err != nil {
			t.Fatal(err)
		}
		f.say(t, home, &wire.Message{Kind: wire.KindAsk, To: home.id.Hint(), Proofs: [][]byte{e.Statement()}})
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
			meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
				dir, peerDir := memoryDir(t), memoryDir(t)
				bubble.Advance(20 * 24 * time.Hour)
				memory := enginetest.Small(t, nil) // only now: it reads its clock every second
				home := newSite(t, k, func(o *member.Options) { o.Dir = dir })
				peer := newSite(t, k, func(o *member.Options) { o.Dir, o.Engine = peerDir, memory })
				trust(t, peer, 1, home)
				enginetest.Report(t, home.engine, 1, bulkhead.Sighting, 3)
				bubble.Advance(5 * time.Minute)
				home.stop()
				if restart {
					peer.stop()
					peer = newSite(t, k, func(o *member.Options) { o.Dir, o.Engine = peerDir, memory })
				}
				defer func() { peer.stop() }()
				if err := os.Remove(filepath.Join(dir, member.StateFile)); err != nil {
					t.Fatal(err)
				}
				k.Wipe() // the broker does not know either
				late := func() time.Time { return time.Now().Add(-2 * time.Hour) }
				home = newSite(t, k, func(o *member.Options) { o.Dir, o.Now = dir, late })
				defer home.stop()
				enginetest.Report(t, home.engine, 2, bulkhead.Sighting, 7)
				bubble.Advance(5 * time.Minute)
				if a, b := enginetest.Check(t, memory, 1).Sightings, enginetest.Check(t, memory, 2).Sightings; a != 0 || b != 7 {
					t.Errorf("the peer counts %d of before the loss and %d of after, want 0 and 7: %+v", a, b, peer.peer(t, home))
				}
			})
		})
	}
}

// TestBrokerRemembers checks that a node discovers by itself, from messages stored by a broker,
// what it has forgotten.
func TestBrokerRemembers(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		dir := t.TempDir()
		home := newSite(t, k, func(o *member.Options) { o.Dir = dir })
		enginetest.Report(t, home.engine, 1, bulkhead.Sighting, 3)
		settle()
		life := home.Status().Incarnation
		home.stop()
		if err := os.Remove(filepath.Join(dir, member.StateFile)); err != nil {
			t.Fatal(err)
		}
		late := func() time.Time { return time.Now().Add(-2 * time.Hour) }
		home = newSite(t, k, func(o *member.Options) { o.Dir, o.Now = dir, late })
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
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		dir, memory := t.TempDir(), enginetest.Small(t, nil)
		home := newSite(t, k, func(o *member.Options) { o.Dir = dir })
		peerDir := t.TempDir()
		peer := newSite(t, k, func(o *member.Options) { o.Dir, o.Engine = peerDir, memory })
		trust(t, peer, 1, home)
		enginetest.Report(t, home.engine, 1, bulkhead.Sighting, 3)
		bubble.Advance(5 * time.Minute)
		home.stop()
		peer.stop()
		if err := os.Remove(filepath.Join(peerDir, replica.HeardFile)); err != nil {
			t.Fatal(err)
		}
		k.Wipe()
		home = newSite(t, k, func(o *member.Options) { o.Dir = dir }) // its engine is empty
		defer home.stop()
		peer = newSite(t, k, func(o *member.Options) { o.Dir, o.Engine = peerDir, memory })
		defer peer.stop()
		enginetest.Report(t, home.engine, 2, bulkhead.Sighting, 7)
		bubble.Advance(10 * time.Minute)
		if a, b := enginetest.Check(t, memory, 1).Sightings, enginetest.Check(t, memory, 2).Sightings; a != 0 || b != 7 {
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
		meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
			dir, memory, peerDir := t.TempDir(), enginetest.Small(t, nil), t.TempDir()
			home := newSite(t, k, func(o *member.Options) { o.Dir = dir })
			home.stop()
			before, err := os.ReadFile(filepath.Join(dir, member.StateFile))
			if err != nil {
				t.Fatal(err)
			}
			bubble.Advance(time.Minute)
			home = newSite(t, k, func(o *member.Options) {
				o.Dir, o.Now = dir, func() time.Time { return time.Now().Add(ahead) }
			})
			peer := newSite(t, k, func(o *member.Options) { o.Dir, o.Engine = peerDir, memory })
			trust(t, peer, 1, home)
			enginetest.Report(t, home.engine, 1, bulkhead.Sighting, 3)
			bubble.Advance(10 * time.Second)
			if got := enginetest.Check(t, memory, 1).Sightings; got != 3 {
				t.Fatalf("%d sightings, want 3", got)
			}
			home.stop()
			peer.stop()
			k.Wipe()
			if err := errors.Join(os.Remove(filepath.Join(peerDir, replica.HeardFile)),
				os.WriteFile(filepath.Join(dir, member.StateFile), before, 0o600)); err != nil {
				t.Fatal(err)
			}
			home = newSite(t, k, func(o *member.Options) { o.Dir = dir })
			defer home.stop()
			peer = newSite(t, k, func(o *member.Options) { o.Dir, o.Engine = peerDir, memory })
			defer peer.stop()
			enginetest.Report(t, home.engine, 2, bulkhead.Sighting, 7)
			limit := time.Minute + ahead + home.opts.Heartbeat + 5*time.Second
			for began := time.Now(); ; bubble.Advance(time.Second) {
				a, b := enginetest.Check(t, memory, 1).Sightings, enginetest.Check(t, memory, 2).Sightings
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

// TestSilent checks that a peer that has been silent for long is reported as such, with the time of
// its last message, also after a restart.
func TestSilent(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		dir := t.TempDir()
		home, peer := newSite(t, k, func(o *member.Options) { o.Dir = dir }), newSite(t, k, nil)
		trust(t, home, 1, peer)
		bubble.Advance(time.Minute)
		if p := home.peer(t, peer); p.Silent != 0 || p.Heard.IsZero() {
			t.Errorf("heard: %+v", p)
		}
		peer.stop()
		settle()
		received := home.peer(t, peer).Heard
		bubble.Advance(time.Hour)
		if p := home.peer(t, peer); !p.Heard.Equal(received) || p.Silent != time.Since(received) {
			t.Errorf("silent for an hour: %+v", p)
		}
		home.stop()
		home = newSite(t, k, func(o *member.Options) { o.Dir = dir })
		defer home.stop()
		if p := home.peer(t, peer); !p.Heard.Equal(received) || p.Silent < time.Hour {
			t.Errorf("after a restart: %+v, want heard %v", p, received)
		}
	})
}

// announced returns rounds that begin arrays of the given number of lines: one each, that adds the
// given number of keys.
func announced(t *testing.T, f *forger, number int, lines uint64, keys int) []*wire.Message {
	t.Helper()
	now := uint64(time.Now().Unix())
	var out []*wire.Message
	for i := range number {
		small := filter.Geometry{Kind: filter.Bitmap, Lines: lines, K: 8, KeyID: enginetest.Secret.ID()}
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
		out = append(out, &wire.Message{Kind: wire.KindDelta, Rounds: []wire.Round{{
			Ref: wire.Ref{Array: engine.ArraySpam, Start: start}, To: r.To, Geometry: small, Announce: true,
			Lineage: wire.Lineage{{Boot: f.at.Boot, Base: 0}}, Data: r.AppendBody(nil),
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
			meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
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
				if p.Refusals[member.ReasonMemory] == 0 || p.Memory > limit {
					t.Errorf("%d bytes of %d: %+v", p.Memory, limit, p)
				}
				if sure := uint64(limit / 4 / 2); tt.weight == 0 && p.Memory > sure {
					t.Errorf("one that does not count takes %d bytes, its share is %d", p.Memory, sure)
				}
				enginetest.Report(t, peer.engine, 1, bulkhead.Sighting, 9)
				settle()
				if got := enginetest.Check(t, home.engine, 1).Sightings; got != 9 {
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
	t.Run("no memory", func(t *testing.T) { tellMillions(t, millions, 20_000_000, member.ReasonMemory) })
	t.Run("too full", func(t *testing.T) { tellMillions(t, millions, millions/10, "quarantined") })
}

// tellMillions makes a peer count the given millions of signatures in an array of a size, and wants
// word in the log.
func tellMillions(t *testing.T, millions, size uint64, word string) {
	const batch = 1 << 12
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
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
		large.KeyID = enginetest.Secret.ID()
		theirs, err := arrays.NewSparseCounting(large)
		if err != nil {
			t.Fatal(err)
		}
		start := uint64(time.Now().Truncate(24 * time.Hour).Unix())
		theirs.SetGeneration(start)
		notified := 0
		tell := func() {
			for range honest / 3 {
				enginetest.Report(t, peer.engine, notified, bulkhead.Sighting, uint32(1+notified%7))
				notified++
			}
			settle()
			for n := range notified {
				if got := enginetest.Check(t, home.engine, n).Sightings; got < uint32(1+n%7) {
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
			f.say(t, home, &wire.Message{Kind: wire.KindDelta, KeyID: enginetest.Secret.ID(), Rounds: []wire.Round{{
				Ref: wire.Ref{Array: engine.ArrayCounts, Start: start}, From: r.From, To: r.To, Geometry: large, Announce: true,
				Lineage: wire.Lineage{{Boot: f.at.Boot, Base: 0}}, Data: r.AppendBody(nil),
			}}})
			if sent/batch%64 < 2 {
				synctest.Wait()
			}
			most = max(most, home.Status().Memory.Bytes)
		}
		tell()
		p := home.peerOf(t, f.id)
		if most > limit || p.Keys == 0 || (p.Refusals[member.ReasonMemory] > 0) != (p.Quarantine == "") ||
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
		for n := range notified {
			if got := enginetest.Check(t, home.engine, n).Sightings; got != uint32(1+n%7) {
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
	const maxGenerations = 64
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
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
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		home, late := newSite(t, k, nil), newSite(t, k, nil)
		defer home.stop()
		defer late.stop()
		f := newForger(t, k, home, 0)
		home.weigh(t, late, 0)
		for n := range 50_000 { // images of a third of a megabyte: one rests for 30 s
			enginetest.Report(t, home.engine, n, bulkhead.Sighting, 1)
		}
		settle()
		k.Wipe()
		before := home.Status()
		const asks = 100
		for range asks {
			var wants []wire.ArrayHead
			for _, a := range home.engine.Own() {
				wants = append(wants, wire.ArrayHead{Ref: wire.Ref{Array: a.Array, Start: a.Start}, Partial: true})
			}
			f.say(t, home, &wire.Message{Kind: wire.KindAsk, To: home.id.Hint(), Incarnation: before.Incarnation, Wants: wants})
			bubble.Advance(3 * time.Second)
		}
		k.Wipe()
		p := home.peerOf(t, f.id)
		sent := home.Status().Bytes - before.Bytes
		if p.Served == 0 || p.Refusals[member.ReasonAsks] == 0 || sent > 3<<20 {
			t.Errorf("%d bytes were sent for %d asks: %+v", sent, asks, p)
		}
		late.weigh(t, home, 1)
		bubble.Advance(time.Minute)
		if got := enginetest.Check(t, late.engine, 77).Sightings; got != 1 {
			t.Errorf("who asks for the first time is not answered: %+v", late.peer(t, home))
		}
	})
}

// TestOlderImage checks that the image of an earlier process of an origin is ignored, and raises no
// doubt.
func TestOlderImage(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		home := newSite(t, k, nil)
		defer home.stop()
		f := newForger(t, k, home, 1)
		start := home.engine.Own()[0].Start
		f.at.Boot, f.at.At = f.at.Boot+10, f.at.At+20
		f.say(t, home, imagesOf(t, f, start, 50, 0, nil))
		settle()
		held := home.engine.Replica(f.id.ID())
		f.at.Boot -= 5
		f.say(t, home, imagesOf(t, f, start, 90, 0, nil))
		settle()
		if got := home.engine.Replica(f.id.ID()); len(got) != 1 || got[0] != held[0] {
			t.Errorf("held %+v, then %+v", held, got)
		}
		if p := home.peerOf(t, f.id); p.Refusals[member.ReasonSuspect] != 0 {
			t.Errorf("the origin is doubted: %v", p.Refusals)
		}
	})
}

// TestOwnHead checks that a node that receives its own head does not report two servers with one
// key.
func TestOwnHead(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		home := newSite(t, k, nil)
		defer home.stop()
		settle()
		home.state.Mu.Lock()
		s := home.state.Record
		home.state.Mu.Unlock()
		own := wire.Topic{Kind: wire.KindHead, Origin: home.id.Hint()}
		for later, want := range []uint64{0, 1} {
			m := &wire.Message{Kind: wire.KindHead, Stamp: wire.Stamp{Incarnation: s.Incarnation, Boot: s.Boot + uint64(later),
				Seq: 9, At: s.Boot + uint64(later)}}
			home.replicas.Deliver(t.Context(), home.bus, wire.Arrival{Topic: own, Data: wire.AppendMessage(nil, m, home.id)},
				true)
			settle()
			if n := home.Status().Strangers["own key elsewhere"]; n != want {
				t.Errorf("a head of a process that began %d ms later: %d alerts, want %d", later, n, want)
			}
		}
	})
}
