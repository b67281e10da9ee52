package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
)

// keysOf returns how many shared arrays were made with each secret.
func keysOf(states []ArrayState) map[uint64]int {
	n := make(map[uint64]int)
	for _, a := range states {
		n[a.Geometry.KeyID]++
	}
	return n
}

// TestRekeyAll: the members of a network change its secret at different times, crash, and
// let generations expire. Each shows the sum of what all have counted, as a plain map does,
// from beginning to end; what a member counted before it joined is shared at no time.
func TestRekeyAll(t *testing.T) {
	seeds := uint64(4)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { rekeyAll(t, rand.New(rand.NewPCG(seed, 17))) })
	}
}

// A changer is a member in TestRekeyAll.
type changer struct {
	*Engine
	opts Options
	stop func() error
}

func (c *changer) open(t *testing.T, dir string) {
	e, st := openDurable(t, dir, c.opts, nil)
	c.Engine, c.stop = e, st.Close
}

func rekeyAll(t *testing.T, rng *rand.Rand) {
	ctx, c := t.Context(), newClock()
	const day = 24 * time.Hour
	opts := Options{
		Now:   c.Now,
		Tally: BookOptions{Generation: day, Keep: 5, Capacity: 5_000, Error: 1e-6},
		Block: BookOptions{Generation: 7 * day, Keep: 1, Capacity: 5_000, Error: 1e-9},
	}
	own := filter.Secret{99} // of the first member, before it joined
	private := sig(bulkhead.Exact, 1_000_000)
	names := []string{"a", "b", "c"}
	all := make([]*changer, len(names))
	dirs := make([]string, len(names))
	var origins []Origin
	for _, name := range names {
		origins = append(origins, Origin{ID: name, Weight: 1})
	}
	for i := range all {
		all[i], dirs[i] = &changer{opts: opts}, filepath.Join(t.TempDir(), "data")
		if i == 0 {
			all[i].opts.Secret = own
			all[i].open(t, dirs[i])
			report(t, all[i].Engine, bulkhead.Report{Signatures: []bulkhead.Signature{private}, Count: 5})
			if err := all[i].Rekey(ctx, testSecret); err != nil {
				t.Fatal(err)
			}
			all[i].opts.Past, all[i].opts.Secret = []filter.Secret{own}, testSecret
		} else {
			all[i].open(t, dirs[i])
		}
		others := slices.DeleteFunc(slices.Clone(origins), func(o Origin) bool { return o.ID == names[i] })
		if err := errors.Join(all[i].SetOrigins(ctx, others), all[i].Record(ctx, true)); err != nil {
			t.Fatal(err)
		}
	}
	exchange := func(from int) {
		for to := range all {
			if to != from {
				transfer(t, all[from].Engine, all[to].Engine, names[from])
			}
		}
	}
	counted := make(map[int]uint32) // by all
	compare := func(what string) {
		t.Helper()
		for i, e := range all {
			for n, want := range counted {
				if got := verdictOf(t, e.Engine, sig(bulkhead.Exact, n)).Findings[0].Sightings; got != want {
					t.Fatalf("%s: member %s shows %d sightings of %d, want %d", what, names[i], got, n, want)
				}
			}
			if got := verdictOf(t, e.Engine, private).Findings[0].Sightings; got != map[bool]uint32{true: 5, false: 0}[i == 0] {
				t.Fatalf("%s: member %s shows %d sightings of what the first had counted alone", what, names[i], got)
			}
		}
	}
	next := filter.Secret{7}
	for step := range 30 {
		for i, e := range all {
			if step == 10+i { // each one step later than the one before
				had := e.Secrets()
				if err := e.RekeyAll(ctx, next); err != nil {
					t.Fatal(err)
				}
				e.opts.Past, e.opts.Former, e.opts.Secret = had, []filter.Secret{testSecret}, next
				if got := e.Former(); !slices.Equal(got, []filter.Secret{testSecret}) {
					t.Fatalf("former secrets %v", got)
				}
			}
			if rng.IntN(8) == 0 { // it is killed, or stopped
				if rng.IntN(2) == 0 {
					if err := e.Close(ctx); err != nil {
						t.Fatal(err)
					}
				}
				e.stop()
				e.Close(context.Background())
				e.open(t, dirs[i])
				if err := e.Record(ctx, true); err != nil {
					t.Fatal(err)
				}
			}
			n, count := rng.IntN(40), uint32(1+rng.IntN(5))
			report(t, e.Engine, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, n)}, Count: count})
			counted[n] += count
		}
		// Of a secret that a member does not have yet it can take nothing.
		if step < 10 || step >= 12 {
			for i := range all {
				exchange(i)
			}
			if step%3 == 0 || step == 14 {
				compare(fmt.Sprint("step ", step))
			}
		}
	}
	if got := keysOf(all[0].Own()); got[own.ID()] != 0 || got[testSecret.ID()] == 0 || got[next.ID()] == 0 {
		t.Errorf("shared arrays by secret %v: want those of both secrets of the network", got)
	}
	// Everything from before expires, and the secrets with it.
	for range 20 {
		c.Advance(day)
		for _, e := range all {
			report(t, e.Engine, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 77)}})
		}
	}
	for i, e := range all {
		if got := e.Secrets(); len(got) != 1 || len(e.Former()) != 0 || e.Knows(testSecret.ID()) || !e.Knows(next.ID()) {
			t.Errorf("member %s still has %d secrets", names[i], len(got))
		}
		if err := errors.Join(e.Close(ctx), e.stop()); err != nil {
			t.Error(err)
		}
	}
}

// TestRekeyAllRefused: a member takes no array of a secret that it does not have, nor an
// entry of two secrets; a change to the secret of another network ends what is shared.
func TestRekeyAllRefused(t *testing.T) {
	ctx := t.Context()
	a, b := pair(t, 1)
	report(t, a, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 1)}, Count: 3})
	if err := a.RekeyAll(ctx, filter.Secret{7}); err != nil {
		t.Fatal(err)
	}
	report(t, a, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 1)}, Count: 4})
	parts, states, err := a.TakeRounds(ctx)
	if err != nil || len(parts) != 2 {
		t.Fatalf("%d parts, %v: want the round of each secret", len(parts), err)
	}
	if got := keysOf(states); len(got) != 2 {
		t.Errorf("states by secret %v", got)
	}
	for _, p := range parts {
		err := applyParts(b, "a", []Part{p})
		if known := p.Geometry.KeyID == testSecret.ID(); known != (err == nil) || !known &&
			!errors.Is(err, bulkhead.ErrGeometry) {
			t.Errorf("a part of secret %016x: %v", p.Geometry.KeyID, err)
		}
	}
	if got := verdictOf(t, b, sig(bulkhead.Exact, 1)).Findings[0].Sightings; got != 3 {
		t.Errorf("%d sightings, want those under the secret that it has, 3", got)
	}
	if err := b.RekeyAll(ctx, filter.Secret{7}); err != nil {
		t.Fatal(err)
	}
	if err := applyParts(b, "a", parts); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Errorf("an entry of two secrets: %v", err)
	}
	for _, p := range parts {
		if p.Geometry.KeyID != testSecret.ID() {
			if err := applyParts(b, "a", []Part{p}); err != nil {
				t.Error(err)
			}
		}
	}
	if got := verdictOf(t, b, sig(bulkhead.Exact, 1)).Findings[0].Sightings; got != 7 {
		t.Errorf("%d sightings, want 7", got)
	}
	if _, _, err := a.Images(ctx, ArrayCounts, parts[0].Start); err != nil {
		t.Errorf("images of a former secret: %v", err)
	}
	old := a.Own()
	if err := a.Rekey(ctx, filter.Secret{8}); err != nil {
		t.Fatal(err)
	}
	for _, x := range old {
		if _, _, err := a.Images(ctx, x.Array, x.Start); !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("images for the members of another network: %v", err)
		}
	}
	if got := keysOf(a.Own()); len(got) != 1 || got[filter.Secret{8}.ID()] == 0 || len(a.Former()) != 0 {
		t.Errorf("shared after the change to another network: %v", got)
	}
}
