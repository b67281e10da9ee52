package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
)

// TestAdopt checks that an engine whose store was lost takes its arrays back from a replica, page by
// page, beside what it has counted since, and keeps them through a restart.
func TestAdopt(t *testing.T) {
	for _, changed := range []bool{false, true} {
		t.Run(fmt.Sprint("another secret since: ", changed), func(t *testing.T) { adopt(t, changed) })
	}
}

func adopt(t *testing.T, changed bool) {
	ctx := t.Context()
	c := newClock()
	a, b := open(t, Options{Now: c.Now}), open(t, Options{Now: c.Now})
	if err := errors.Join(a.Record(ctx, true), b.SetOrigins(ctx, []Origin{{ID: "a", Weight: 1}})); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	const known = 300
	take := func(e *Engine, n int) {
		for range n {
			report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, rng.IntN(known))},
				Count: uint32(rng.IntN(40)), Vote: bulkhead.Vote(rng.IntN(2)), Reporter: bulkhead.Reporter{}})
		}
	}
	take(a, 900)
	pass(t, a, b, "a")
	opts := Options{Now: c.Now, Recover: func() bool { return true }}
	if changed {
		former := a.Secret()
		c.Advance(time.Minute) // no two generations begin at once
		opts.Secret, opts.Past, opts.Former = filter.Secret{9}, []filter.Secret{former}, []filter.Secret{former}
		if err := errors.Join(a.RekeyAll(ctx, opts.Secret), b.RekeyAll(ctx, opts.Secret)); err != nil {
			t.Fatal(err)
		}
		take(a, 300)
		pass(t, a, b, "a")
		c.Advance(time.Minute)
	}

	dir := filepath.Join(t.TempDir(), "data")
	again, st := openDurable(t, dir, opts, nil)
	for _, own := range again.Own() {
		for _, held := range b.Replica("a") {
			if own.Array == held.Array && own.Start == held.Start {
				t.Fatalf("%s of generation %d is open, and its counts were to come back", own.Array, own.Start)
			}
		}
	}
	take(again, 100)
	since := make([]bulkhead.Finding, known)
	for i := range since {
		since[i] = verdictOf(t, again, sig(bulkhead.Exact, i)).Findings[0]
	}
	type generation struct {
		tally bool
		start uint64
	}
	shapes := make(map[generation]map[Array]filter.Geometry)
	for _, x := range b.Replica("a") {
		of := generation{x.Array == ArrayCounts, x.Start}
		if shapes[of] == nil {
			shapes[of] = make(map[Array]filter.Geometry)
		}
		shapes[of][x.Array] = x.Geometry
	}
	for of, s := range shapes {
		for range 2 { // again: nothing changes
			if err := again.Adopt(ctx, of.start, s); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, x := range b.Replica("a") {
		var list []int
		for page := range x.Geometry.Pages() {
			list = append(list, page)
		}
		images, err := b.ReplicaPages(ctx, "a", x.Array, x.Start, x.Geometry, list)
		if err != nil {
			t.Fatal(err)
		}
		for _, image := range images {
			for range 2 {
				if err := again.TakeBack(ctx, "b", x.Array, x.Start, image); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := again.TakeBack(ctx, "b", x.Array, x.Start, images[0][:10]); !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("half a page: %v", err)
		}
	}
	same := func(e *Engine, when string) {
		t.Helper()
		for i := range known {
			had, got := verdictOf(t, a, sig(bulkhead.Exact, i)).Findings[0], verdictOf(t, e, sig(bulkhead.Exact, i)).Findings[0]
			if got.Sightings < had.Sightings+since[i].Sightings || got.Spam < had.Spam+since[i].Spam {
				t.Fatalf("%s: signature %d: %+v, want the counts of %+v and %+v", when, i, got, had, since[i])
			}
			if got.Sightings != had.Sightings+since[i].Sightings && had.Sightings > 0 {
				t.Logf("%s: signature %d is counted too high", when, i)
			}
		}
	}
	same(again, "taken back")

	start := b.Replica("a")[0].Start
	g := b.Replica("a")[0].Geometry
	other, far := g, start+1_000_000_000
	other.KeyID++
	for name, tt := range map[string]struct {
		start uint64
		g     filter.Geometry
		want  error
	}{
		"another secret": {start + 1, other, bulkhead.ErrGeometry},
		"another shape":  {start, filter.Geometry{Kind: g.Kind, Lines: 2 * g.Lines, KeyID: g.KeyID}, bulkhead.ErrGeometry},
		"in the future":  {far, g, bulkhead.ErrOverLimit},
		"expired":        {1, g, bulkhead.ErrOverLimit},
		"enormous": {start + 2, filter.Geometry{Kind: g.Kind, Lines: 1 << 30, KeyID: g.KeyID},
			bulkhead.ErrOverLimit},
	} {
		err := again.Adopt(ctx, tt.start, map[Array]filter.Geometry{b.Replica("a")[0].Array: tt.g})
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
	if err := st.Close(); err != nil { // as a crash: the journal alone has it
		t.Fatal(err)
	}
	again.Close(ctx)
	again, st = openDurable(t, dir, opts, nil)
	same(again, "after a restart")
	if err := errors.Join(again.Close(ctx), st.Close()); err != nil {
		t.Error(err)
	}
}
