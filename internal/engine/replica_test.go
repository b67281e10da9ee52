package engine

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// TestPartialImages: between the images of one array no round is taken, not
// even one that happens to continue the sum of the pages; a restart forgets
// nothing of that.
func TestPartialImages(t *testing.T) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "data")
	c := newClock()
	big := BookOptions{Generation: 24 * time.Hour, Keep: 3, Capacity: 100_000, Error: 1e-3}
	a := open(t, Options{Now: c.Now, Tally: big})
	b, st := openDurable(t, dir, Options{Now: c.Now}, nil)
	if err := errors.Join(a.Record(ctx, true), b.SetOrigins(ctx, []Origin{{ID: "a", Weight: 1}})); err != nil {
		t.Fatal(err)
	}
	add := func(from, to int) {
		for n := from; n < to; n++ {
			report(t, a, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, n)}})
		}
	}
	add(0, 300)
	start := a.Own()[0].Start
	version, images, err := a.Images(ctx, ArrayCounts, start)
	if err != nil || len(images) < 2 {
		t.Fatalf("%d images, %v: want an array of several pages", len(images), err)
	}
	if _, _, err := a.TakeRounds(ctx); err != nil {
		t.Fatal(err)
	}
	add(300, 310)
	rounds, _, err := a.TakeRounds(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := applyParts(b, "a", images[:1]); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := b.Replica("a")[0]; got.Partial != version {
			t.Fatalf("after one image of %d: %+v, want partial %d", len(images), got, version)
		}
		if err := applyParts(b, "a", rounds); !errors.Is(err, ErrGap) {
			t.Fatalf("round on a partial array: %v", err)
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		b.Close(ctx) // fails: its store is gone, as after a crash
		b, st = openDurable(t, dir, Options{Now: c.Now}, nil)
		writeCheckpoint(t, b)
	}
	if err := errors.Join(applyParts(b, "a", images[1:]), applyParts(b, "a", rounds)); err != nil {
		t.Fatal(err)
	}
	sameArrays(t, a, b, "a")
	if err := errors.Join(b.Close(ctx), st.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestRenewAndRename: a new incarnation drops what was held, an older one is
// refused, a new name keeps everything; all of it survives a crash.
func TestRenewAndRename(t *testing.T) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "data")
	c := newClock()
	a := open(t, Options{Now: c.Now})
	b, st := openDurable(t, dir, Options{Now: c.Now}, nil)
	if err := errors.Join(a.Record(ctx, true), b.SetOrigins(ctx, []Origin{{ID: "a", Weight: 1}})); err != nil {
		t.Fatal(err)
	}
	s := sig(bulkhead.Exact, 1)
	r := bulkhead.Report{Signatures: []bulkhead.Signature{s}}
	report(t, a, r)
	pass(t, a, b, "a")
	if err := b.RenameOrigin(ctx, "a", "b"); err != nil {
		t.Fatal(err)
	}
	report(t, a, r)
	pass(t, a, b, "b")
	if v := verdictOf(t, b, s); v.Sightings != 2 {
		t.Errorf("after a new name: %d sightings, want 2", v.Sightings)
	}
	for _, restarted := range []bool{false, true} {
		if restarted {
			if err := st.Close(); err != nil {
				t.Fatal(err)
			}
			b.Close(ctx) // fails: its store is gone, as after a crash
			b, st = openDurable(t, dir, Options{Now: c.Now}, nil)
		} else if err := b.Renew(ctx, "b", 7); err != nil {
			t.Fatal(err)
		}
		if n := len(b.Replica("b")); n != 0 || b.Incarnation("b") != 7 {
			t.Errorf("restarted %v: %d arrays of incarnation %d, want none of 7", restarted, n, b.Incarnation("b"))
		}
		for _, n := range []uint64{6, 7} {
			if err := b.Renew(ctx, "b", n); !errors.Is(err, bulkhead.ErrMalformed) {
				t.Errorf("incarnation %d after 7: %v", n, err)
			}
		}
	}
	if err := errors.Join(b.Renew(ctx, "a", 9), b.RenameOrigin(ctx, "a", "c")); !errors.Is(err, bulkhead.ErrForbidden) {
		t.Errorf("changes of an unknown origin: %v", err)
	}
	if err := errors.Join(b.Close(ctx), st.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestReplicaBoot: a replica remembers which process of its origin led to each
// array, through a crash and through a checkpoint, and forgets it with the array.
func TestReplicaBoot(t *testing.T) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "data")
	c := newClock()
	a := open(t, Options{Now: c.Now})
	b, st := openDurable(t, dir, Options{Now: c.Now}, nil)
	if err := errors.Join(a.Record(ctx, true), b.SetOrigins(ctx, []Origin{{ID: "a", Weight: 1}})); err != nil {
		t.Fatal(err)
	}
	r := bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 1)}}
	for boot := uint64(7); boot < 10; boot++ {
		report(t, a, r)
		parts, _, err := a.TakeRounds(ctx)
		if err != nil || len(parts) != 1 {
			t.Fatalf("%d parts, %v", len(parts), err)
		}
		parts[0].Boot = boot
		if err := applyParts(b, "a", parts); err != nil {
			t.Fatal(err)
		}
		if boot == 8 {
			writeCheckpoint(t, b)
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		b.Close(ctx) // fails: its store is gone, as after a crash
		b, st = openDurable(t, dir, Options{Now: c.Now}, nil)
		if got := b.Replica("a"); len(got) != 1 || got[0].Boot != boot {
			t.Fatalf("after boot %d of the origin: %+v", boot, got)
		}
	}
	start := b.Replica("a")[0].Start
	if err := b.ForgetGenerations(ctx, "a", start); err != nil {
		t.Fatal(err)
	}
	if got := b.Replica("a"); len(got) != 0 {
		t.Errorf("arrays that were forgotten: %+v", got)
	}
	if start < b.Horizon(ArrayCounts) || !b.Keeps(ArrayCounts, b.Horizon(ArrayCounts)) ||
		b.Keeps(ArrayCounts, b.Horizon(ArrayCounts)-1) {
		t.Errorf("horizon %d, generation %d: want the first start that the node keeps", b.Horizon(ArrayCounts), start)
	}
	if err := errors.Join(b.Close(ctx), st.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestTakeRoundsGivenUp: rounds whose taker gave up are taken the next time, and
// the states that come with rounds are those that they lead to.
func TestTakeRoundsGivenUp(t *testing.T) {
	e := open(t, Options{})
	if err := e.Record(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	var at uint64
	take := func(ctx context.Context) error {
		parts, own, err := e.TakeRounds(ctx)
		if err != nil {
			return err
		}
		for _, p := range parts {
			if p.Array != ArrayCounts {
				continue
			}
			if p.From != at {
				t.Fatalf("round from %d after one to %d", p.From, at)
			}
			at = p.To
		}
		if own[0].Version != at {
			t.Fatalf("rounds to %d of an array at %d", at, own[0].Version)
		}
		return nil
	}
	given := 0
	for n := range 2000 {
		report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, n)}})
		ctx, cancel := context.WithCancel(t.Context())
		if n%2 == 0 {
			cancel() // sometimes before the writer is asked, sometimes while it works
		} else {
			go cancel()
		}
		if take(ctx) != nil {
			given++
		}
		cancel()
	}
	if err := take(t.Context()); err != nil {
		t.Fatal(err)
	}
	if at == 0 || given == 0 {
		t.Fatalf("%d versions, given up %d times", at, given)
	}
	t.Logf("%d versions, given up %d times", at, given)
}
