package engine

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/pages"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// vote makes the node's own voice list signatures, or take them off again. If peers see a listing
// only from two voters on, a second voice does the same.
func vote(t *testing.T, e *Engine, vote bulkhead.Vote, sigs ...int) {
	t.Helper()
	voices := []bulkhead.Reporter{{}}
	if e.opts.Block.Floor > 1 {
		voices = append(voices, bulkhead.Reporter{Account: "second"})
		if err := e.PutAccount(t.Context(), trust.Account{Name: "second", Role: trust.Trusted, Weight: 1}); err != nil {
			t.Fatal(err)
		}
	}
	for _, i := range sigs {
		for _, by := range voices {
			r := bulkhead.Report{Signatures: []bulkhead.Signature{countSignature(t, bulkhead.DCCBody, i)}, Vote: vote,
				Reporter: by}
			if _, err := e.Report(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A place is a page of an own array.
type place struct {
	replica.Key
	page int
}

// allSums returns the sums of all pages of an engine's shared arrays.
func (e *Engine) allSums(t *testing.T) map[place]pages.Sum {
	t.Helper()
	out := make(map[place]pages.Sum)
	for _, a := range e.Own() {
		key := replica.Key{Array: a.Array, Start: a.Start}
		own := e.current.Books().Shared(key)
		for p := range own.Pages() {
			s := pages.SumOf(own.Image(p))
			s.Index = 0
			out[place{key, p}] = s
		}
	}
	return out
}

// images returns all pages of an engine's shared arrays, as replicas hold them.
func (e *Engine) images(t *testing.T) (out []Part) {
	t.Helper()
	for _, a := range e.Own() {
		_, parts, err := e.Images(t.Context(), a.Array, a.Start)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, parts...)
	}
	return out
}

// damage destroys checkpoint files whose names begin with one of the kinds: all of each, or
// what is behind its first half.
func damage(t *testing.T, dir string, half bool, kinds ...string) {
	t.Helper()
	names, err := os.ReadDir(filepath.Join(dir, "files"))
	if err != nil {
		t.Fatal(err)
	}
	hit := 0
	for _, name := range names {
		if !slices.ContainsFunc(kinds, func(kind string) bool { return strings.HasPrefix(name.Name(), kind+"-") }) {
			continue
		}
		hit++
		path := filepath.Join(dir, "files", name.Name())
		b, err := os.ReadFile(path)
		if err == nil && half {
			copy(b[len(b)/2:], bytes.Repeat([]byte("gone "), len(b)/10))
			err = os.WriteFile(path, b, 0o600)
		} else if err == nil {
			err = os.Remove(path)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if hit < len(kinds) {
		t.Fatalf("%d files of %v", hit, kinds)
	}
}

// TestHeal: a page that peers have is whole again, with all that was counted since the
// checkpoint and since the salvage, cell by cell and with the same version, though the
// process is killed in the middle of it. Nothing else is taken for it.
//
// With a number of voters from which peers see listings, the sums cover the part that peers see.
func TestHeal(t *testing.T) {
	for n := range 3 {
		half := n > 0
		p := &patient{votesFrom: uint32(n), dir: filepath.Join(t.TempDir(), "store"), counts: make([]uint32, 3000)}
		st := p.store(t, nil)
		e := p.engine(t, st, nil)
		p.count(t, e, rand.New(rand.NewPCG(1, 2)), 60)
		vote(t, e, bulkhead.Spam, 1, 2, 3, 4, 5, 6, 7)
		vote(t, e, bulkhead.Ham, 2, 4)
		if err := e.checkpoint(t.Context(), e.queue.between); err != nil {
			t.Fatal(err)
		}
		replicas := e.images(t)
		p.count(t, e, rand.New(rand.NewPCG(3, 4)), 30)
		vote(t, e, bulkhead.Spam, 8, 9)
		later := e.images(t)
		if err := st.Close(); err != nil { // it was killed
			t.Fatal(err)
		}
		hurt := p.copy(t)
		damage(t, hurt.dir, half, "counts", "spam", "revoked")

		st = p.store(t, nil)
		sound := p.engine(t, st, nil)
		st = hurt.store(t, &store.Salvage{Aside: filepath.Join(t.TempDir(), "aside")})
		e = hurt.engine(t, st, nil)
		lost, err := e.Wounds(t.Context())
		if err != nil || !lost.Whole || lost.Store == "" || lost.Store == st.Manifest().Incarnation || len(lost.Pages) == 0 {
			t.Fatalf("lost: %+v, %v", lost, err)
		}
		low := hurt.low(t, e, "salvaged")
		if low == 0 || len(e.Doubts()) == 0 {
			t.Fatalf("%d counts are low, doubts %v: this test sees nothing", low, e.Doubts())
		}
		both := func(f func(e *Engine)) { f(sound); f(e) }
		counted := slices.Clone(p.counts)
		both(func(e *Engine) {
			hurt.counts = slices.Clone(counted)
			hurt.count(t, e, rand.New(rand.NewPCG(5, 6)), 10)
			vote(t, e, bulkhead.Spam, 10, 11)
		})
		again := func() {
			if err := st.Close(); err != nil {
				t.Fatal(err)
			}
			st = hurt.store(t, nil)
			e = hurt.engine(t, st, nil)
		}
		// A page that has more, one of another array, one with a bit too many, and no page.
		doubts := len(e.Doubts())
		for i, part := range replicas {
			m, err := arrays.ParseImage(part.Image, part.Geometry)
			if err != nil {
				t.Fatal(err)
			}
			before := m.Info.Version
			m.Info.Version++
			lies := [][]byte{m.Append(nil)}
			m.Info.Version, m.Info.Keys = before, m.Info.Keys+1
			lies = append(lies, m.Append(nil))
			if l, err := arrays.ParseImage(later[i].Image, part.Geometry); err == nil && l.Info.Version > before {
				lies = append(lies, later[i].Image)
			}
			for _, lie := range lies {
				if err := e.Heal(t.Context(), "liar", part.Array, part.Start, lie); !errors.Is(err, ErrOtherPage) {
					t.Fatalf("%s: a page that was never there: %v", part.Array, err)
				}
			}
			if err := e.Heal(t.Context(), "liar", part.Array, part.Start, part.Image[1:]); !errors.Is(err,
				bulkhead.ErrMalformed) {
				t.Fatalf("no page: %v", err)
			}
			if err := e.Heal(t.Context(), "liar", part.Array, part.Start+1, part.Image); !errors.Is(err, ErrOtherPage) {
				t.Fatalf("no generation: %v", err)
			}
		}
		if len(e.Doubts()) != doubts || len(e.Healings()) != 0 {
			t.Fatalf("lies were taken: %v, %v", e.Doubts(), e.Healings())
		}
		again()
		healed := uint64(0)
		for i, part := range replicas {
			switch i {
			case len(replicas) / 3:
				again() // and the pages that are back are in the journal alone
				healed = 0
			case len(replicas) / 2:
				if err := e.checkpoint(t.Context(), e.queue.between); err != nil {
					t.Fatal(err)
				}
				again()
				healed = 0
			}
			err := e.Heal(t.Context(), "peer", part.Array, part.Start, part.Image)
			if err == nil {
				healed++
			} else if !errors.Is(err, ErrOtherPage) {
				t.Fatal(err)
			}
		}
		if got := e.Healings(); !reflect.DeepEqual(got, []Healing{{Peer: "peer", Pages: healed}}) {
			t.Errorf("healed %v, want %d pages", got, healed)
		}
		counted = slices.Clone(hurt.counts)
		both(func(e *Engine) {
			hurt.counts = slices.Clone(counted)
			hurt.count(t, e, rand.New(rand.NewPCG(7, 8)), 10)
		})
		for range 2 {
			if low := hurt.low(t, e, "healed"); low != 0 || len(e.Doubts()) != 0 {
				t.Errorf("%d counts are low; doubts %v", low, e.Doubts())
			}
			if got, want := e.allSums(t), sound.allSums(t); !reflect.DeepEqual(got, want) {
				t.Errorf("healed pages differ from those of a node that lost nothing")
			}
			if lost, err := e.Wounds(t.Context()); err != nil || len(lost.Pages) != 0 || !lost.Whole {
				t.Errorf("still lost: %+v, %v", lost, err)
			}
			again()
		}
		if err := e.EndHealing(t.Context()); err != nil {
			t.Fatal(err)
		}
		again()
		if lost, err := e.Wounds(t.Context()); err != nil || !reflect.DeepEqual(lost, Wounds{}) {
			t.Errorf("after the end: %+v, %v", lost, err)
		}
	}
}

// TestHealNot: a salvage reports whether the shared arrays can be what they were. They cannot
// without the sums of the pages or with a hole in the journal; other arrays are not shared.
func TestHealNot(t *testing.T) {
	whole := newPatient(t)
	for name, tt := range map[string]struct {
		damage  func(t *testing.T, dir string)
		whole   bool
		missing bool
	}{
		"a page": {func(t *testing.T, dir string) { damage(t, dir, false, "counts") }, true, true},
		"a page and its sum": {func(t *testing.T, dir string) { damage(t, dir, false, "counts", "sums-counts") }, false,
			false},
		"sums alone": {func(t *testing.T, dir string) { damage(t, dir, false, "sums-counts") }, true, false},
		"arrays of this node": {func(t *testing.T, dir string) {
			damage(t, dir, false, "weights", "unique", "votes",
				"names")
		}, true, false},
		"lists that are empty": {func(t *testing.T, dir string) { damage(t, dir, false, "spam", "revoked") }, true, false},
		"a page and the journal": {func(t *testing.T, dir string) {
			damage(t, dir, false, "counts")
			names, err := os.ReadDir(filepath.Join(dir, "journal"))
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "journal", names[len(names)-1].Name())
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			copy(b[len(b)*4/5:], "not what was written") // behind the checkpoint
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := whole.copy(t)
			tt.damage(t, p.dir)
			st := p.store(t, &store.Salvage{Aside: filepath.Join(t.TempDir(), "aside")})
			e := p.engine(t, st, nil)
			lost, err := e.Wounds(t.Context())
			if err != nil || lost.Whole != tt.whole || len(lost.Pages) > 0 != tt.missing {
				t.Errorf("whole %v, %d pages missing, %v; want whole %v, missing %v; doubts %v", lost.Whole, len(lost.Pages), err,
					tt.whole, tt.missing, e.Doubts())
			}
			if err := e.EndHealing(t.Context()); err != nil {
				t.Fatal(err)
			}
			if lost, err := e.Wounds(t.Context()); err != nil || !reflect.DeepEqual(lost, Wounds{}) {
				t.Errorf("given up, and still %+v, %v", lost, err)
			}
		})
	}
}

// TestHealAgain: if the file with the later adds of lost pages is also damaged, the pages are lost,
// and no peer's page is accepted for them.
func TestHealAgain(t *testing.T) {
	p := newPatient(t)
	damage(t, p.dir, false, "counts")
	st := p.store(t, &store.Salvage{Aside: filepath.Join(t.TempDir(), "aside")})
	e := p.engine(t, st, nil)
	if lost, err := e.Wounds(t.Context()); err != nil || len(lost.Pages) == 0 {
		t.Fatalf("%+v, %v", lost, err)
	}
	st.Close()
	damageFile(t, p.dir, "wounds.")
	st = p.store(t, &store.Salvage{Aside: filepath.Join(t.TempDir(), "aside")})
	e = p.engine(t, st, nil)
	lost, err := e.Wounds(t.Context())
	if err != nil || len(lost.Pages) != 0 || lost.Store == "" {
		t.Errorf("%+v, %v", lost, err)
	}
	if len(e.Doubts()) == 0 {
		t.Error("nothing is in doubt")
	}
}

func damageFile(t *testing.T, dir, prefix string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "files", prefix+"*"))
	if err != nil || len(names) != 1 {
		t.Fatalf("%v, %v", names, err)
	}
	if err := os.Remove(names[0]); err != nil {
		t.Fatal(err)
	}
}

// TestHealAboveFloor: peers give back the visible part of an array with a floor. Counts below the
// floor stay lost and in doubt, and the arrays are reported as not whole.
func TestHealAboveFloor(t *testing.T) {
	p := &patient{floor: 8, dir: filepath.Join(t.TempDir(), "store"), counts: make([]uint32, 3000)}
	st := p.store(t, nil)
	e := p.engine(t, st, nil)
	p.count(t, e, rand.New(rand.NewPCG(1, 2)), 60)
	if err := e.checkpoint(t.Context(), e.queue.between); err != nil {
		t.Fatal(err)
	}
	replicas, before := e.images(t), slices.Clone(p.counts)
	p.count(t, e, rand.New(rand.NewPCG(3, 4)), 20)
	if err := st.Close(); err != nil { // it was killed
		t.Fatal(err)
	}
	damage(t, p.dir, false, "counts")
	st = p.store(t, &store.Salvage{Aside: filepath.Join(t.TempDir(), "aside")})
	e = p.engine(t, st, nil)
	lost, err := e.Wounds(t.Context())
	if err != nil || lost.Whole || len(lost.Pages) == 0 {
		t.Fatalf("lost: %+v, %v", lost, err)
	}
	doubts := e.Doubts()
	for _, part := range replicas {
		m, err := arrays.ParseImage(part.Image, part.Geometry)
		if err != nil {
			t.Fatal(err)
		}
		err = e.Heal(t.Context(), "a", part.Array, part.Start, part.Image)
		if asked := part.Array == ArrayCounts && m.Info.Version > 0; asked != (err == nil) || !asked &&
			!errors.Is(err, ErrOtherPage) {
			t.Fatalf("page %d of %s: %v", m.Page, part.Array, err)
		}
	}
	for _, state := range []string{"healed", "started again"} {
		here, missing := 0, 0
		for i, had := range before {
			got := verdictOf(t, e, countSignature(t, bulkhead.DCCBody, i)).Findings[0].Sightings
			want := p.counts[i]
			if had < p.floor {
				want -= had // it was lost
			}
			if got != want {
				t.Fatalf("%s: %d sightings of %d, want %d, of which %d were known to peers", state, got, i, want, had)
			}
			if had >= p.floor {
				here++
			} else if had > 0 {
				missing++
			}
		}
		if here < 100 || missing < 100 || !reflect.DeepEqual(e.Doubts(), doubts) {
			t.Fatalf("%s: %d counts came back, %d did not; doubts %v, want %v", state, here, missing, e.Doubts(), doubts)
		}
		if lost, err := e.Wounds(t.Context()); err != nil || lost.Whole || len(lost.Pages) > 0 {
			t.Fatalf("%s: still lost: %+v, %v", state, lost, err)
		}
		if err := errors.Join(e.Close(t.Context()), st.Close()); err != nil {
			t.Fatal(err)
		}
		st = p.store(t, nil)
		e = p.engine(t, st, nil)
	}
	e.Close(t.Context())
}

// TestHealPublished: messages that the node published after its last checkpoint also heal its pages:
// images from that time, or older images and rounds. Messages from before the checkpoint do not.
func TestHealPublished(t *testing.T) {
	p := &patient{dir: filepath.Join(t.TempDir(), "store"), counts: make([]uint32, 3000)}
	st := p.store(t, nil)
	e := p.engine(t, st, nil)
	if err := e.Record(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	published := func(rounds ...int) (parts []Part) {
		for _, n := range rounds {
			p.count(t, e, rand.New(rand.NewPCG(uint64(n), 2)), n)
			vote(t, e, bulkhead.Spam, n, n+1, n+2)
			vote(t, e, bulkhead.Ham, n+1)
			taken, _, err := e.TakeRounds(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			parts = append(parts, taken...)
		}
		return parts
	}
	rounds := published(20, 10)
	early := e.images(t)
	rounds = append(rounds, published(5)...)
	if err := e.checkpoint(t.Context(), e.queue.between); err != nil {
		t.Fatal(err)
	}
	rounds = append(rounds, published(7, 3)...)
	late := e.images(t)
	p.count(t, e, rand.New(rand.NewPCG(3, 4)), 4) // that were never published
	vote(t, e, bulkhead.Spam, 100)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	st = p.store(t, nil)
	want := p.engine(t, st, nil).allSums(t)
	st.Close()

	of := func(parts []Part, a ArrayState, from uint64) (out []Part, images [][]byte) {
		for _, x := range parts {
			if x.Array != a.Array || x.Start != a.Start {
				continue
			}
			if x.Image != nil {
				images = append(images, x.Image)
			} else if x.From >= from {
				out = append(out, x)
			}
		}
		return out, images
	}
	for name, tt := range map[string]struct {
		images []Part
		rounds bool
		whole  bool
	}{
		"rounds":                  {nil, true, true},
		"early images and rounds": {early, true, true},
		"late images":             {late, false, true},
		"early images":            {early, false, false},
		"nothing":                 {nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			hurt := p.copy(t)
			damage(t, hurt.dir, false, "counts", "spam", "revoked")
			st := hurt.store(t, &store.Salvage{Aside: filepath.Join(t.TempDir(), "aside")})
			e := hurt.engine(t, st, nil)
			low := hurt.low(t, e, name)
			if low == 0 {
				t.Fatal("nothing is lost: this test sees nothing")
			}
			for _, a := range e.Own() {
				_, images := of(tt.images, a, 0)
				at := uint64(0)
				for _, x := range tt.images {
					if x.Array == a.Array && x.Start == a.Start {
						at = x.At
					}
				}
				list, _ := of(rounds, a, at)
				if !tt.rounds {
					list = nil
				}
				if _, err := e.HealPublished(t.Context(), a.Array, a.Start, images, list); err != nil {
					t.Fatal(err)
				}
				if len(list) > 1 {
					_, err := e.HealPublished(t.Context(), a.Array, a.Start, images, list[1:])
					if !errors.Is(err, bulkhead.ErrMalformed) {
						t.Errorf("rounds with a gap: %v", err)
					}
				}
			}
			got := e.allSums(t)
			if whole := reflect.DeepEqual(got, want); whole != tt.whole || (len(e.Doubts()) == 0) != tt.whole ||
				(hurt.low(t, e, name) == 0) != tt.whole {
				t.Errorf("%s: whole %v, doubts %v, %d counts are low; want whole %v", name, whole, e.Doubts(),
					hurt.low(t, e, name), tt.whole)
			}
		})
	}
}

// TestHealPublishedAboveFloor: a page of an array with a floor is healed from its published messages and
// from the adds since its checkpoint: no count is lower than either, or higher than the truth.
func TestHealPublishedAboveFloor(t *testing.T) {
	p := &patient{floor: 4, dir: filepath.Join(t.TempDir(), "store"), counts: make([]uint32, 3000)}
	st := p.store(t, nil)
	e := p.engine(t, st, nil)
	p.count(t, e, rand.New(rand.NewPCG(1, 2)), 30)
	if err := e.checkpoint(t.Context(), e.queue.between); err != nil {
		t.Fatal(err)
	}
	before := slices.Clone(p.counts)
	p.count(t, e, rand.New(rand.NewPCG(3, 4)), 20)
	replicas, published := e.images(t), slices.Clone(p.counts)
	p.count(t, e, rand.New(rand.NewPCG(5, 6)), 10)
	if err := st.Close(); err != nil { // it was killed
		t.Fatal(err)
	}
	damage(t, p.dir, false, "counts")
	st = p.store(t, &store.Salvage{Aside: filepath.Join(t.TempDir(), "aside")})
	e = p.engine(t, st, nil)
	start := e.Own()[0].Start
	var images [][]byte
	for _, part := range replicas {
		if part.Array == ArrayCounts {
			images = append(images, part.Image)
		}
	}
	if n, err := e.HealPublished(t.Context(), ArrayCounts, start, images, nil); err != nil || n == 0 {
		t.Fatalf("%d pages, %v", n, err)
	}
	raised := 0
	for i, truth := range p.counts {
		least := truth - before[i]
		if published[i] >= p.floor {
			least = max(least, published[i])
		}
		got := verdictOf(t, e, countSignature(t, bulkhead.DCCBody, i)).Findings[0].Sightings
		if got < least || got > truth {
			t.Fatalf("signature %d counts %d, want %d to %d", i, got, least, truth)
		}
		if got > published[i] {
			raised++
		}
	}
	if lost, err := e.Wounds(t.Context()); err != nil || lost.Whole || len(lost.Pages) > 0 || len(e.Doubts()) == 0 ||
		raised == 0 {
		t.Errorf("lost: %+v, %v; doubts %v; %d raised", lost, err, e.Doubts(), raised)
	}
}
