package engine

import (
	"errors"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// TestLostIncarnationCounts: an origin that has lost its store begins a new incarnation. Its peer
// continues to count the old one exactly, over checkpoints and restarts, until an administrator
// forgets it or evicts the peer.
func TestLostIncarnationCounts(t *testing.T) {
	ctx := t.Context()
	c := newClock()
	dir := filepath.Join(t.TempDir(), "data")
	var b *Engine
	var st *store.Store
	start := func() {
		t.Helper()
		var err error
		if st, err = store.Open(dir, store.Options{}); err != nil {
			t.Fatal(err)
		}
		if b, err = Open(ctx, small(Options{Store: st, Now: c.Now})); err != nil {
			t.Fatal(err)
		}
	}
	stop := func() {
		t.Helper()
		if err := errors.Join(b.Close(ctx), st.Close()); err != nil {
			t.Fatal(err)
		}
	}
	start()
	if err := errors.Join(b.SetOrigins(ctx, []Origin{{ID: "a", Weight: 1}}), b.Renew(ctx, "a", 5)); err != nil {
		t.Fatal(err)
	}
	want := make([]uint32, 500)
	life := func(first, last int) {
		t.Helper()
		a := open(t, Options{Now: c.Now})
		if err := a.Record(ctx, true); err != nil {
			t.Fatal(err)
		}
		for i := first; i < last; i++ {
			n := 1 + uint32(i%4)
			if err := a.Count(ctx, []bulkhead.Signature{sig(bulkhead.Exact, i)}, []uint32{n}); err != nil {
				t.Fatal(err)
			}
			want[i] += n
		}
		for i := range 20 {
			report(t, a, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 1000+first+i)},
				Vote: bulkhead.Spam, Reporter: bulkhead.Reporter{Addr: netip.MustParseAddr("127.0.0.1")}})
		}
		pass(t, a, b, "a")
	}
	exact := func(when string, listed ...int) {
		t.Helper()
		wrong, missing := 0, 0
		for i, n := range want {
			if verdictOf(t, b, sig(bulkhead.Exact, i)).Sightings != n {
				wrong++
			}
		}
		for _, first := range listed {
			for i := range 20 {
				if verdictOf(t, b, sig(bulkhead.Exact, 1000+first+i)).Judged != bulkhead.JudgedSpam {
					missing++
				}
			}
		}
		if wrong+missing > 0 {
			t.Errorf("%s: %d of %d counts are wrong, %d listings are gone", when, wrong, len(want), missing)
		}
	}
	life(0, 400)
	exact("before", 0)
	if err := b.Renew(ctx, "a", 6); err != nil {
		t.Fatal(err)
	}
	exact("renewed", 0)
	life(300, 500)
	exact("new incarnation has shared", 0, 300)
	if got := len(b.FormerIncarnations("a")); got != 1 || len(b.Origins()) != 1 {
		t.Errorf("%d former incarnations and origins %v, want 1 and a", got, b.Origins())
	}
	stop()
	start()
	exact("restart", 0, 300)
	if err := errors.Join(b.SetOrigins(ctx, []Origin{{ID: "a", Weight: 0.9}}),
		b.SetOrigins(ctx, []Origin{{ID: "a", Weight: 1}}), b.RenameOrigin(ctx, "a", "x")); err != nil {
		t.Fatal(err)
	}
	exact("weighed and renamed", 0, 300)
	// Journal alone: the entries are replayed.
	if err := errors.Join(b.ForgetFormer(ctx, "x")); err != nil {
		t.Fatal(err)
	}
	clear(want)
	for i := 300; i < 500; i++ {
		want[i] = 1 + uint32(i%4)
	}
	exact("forgotten", 300)
	if v := verdictOf(t, b, sig(bulkhead.Exact, 1000)); v.Judged == bulkhead.JudgedSpam ||
		len(b.FormerIncarnations("x")) != 0 {
		t.Errorf("forgotten: %v, %v", v.Judged, b.FormerIncarnations("x"))
	}
	stop()
	start()
	exact("forgotten, restart", 300)
	stop()
}

// TestLostIncarnationIsOneVoice: a peer that cannot list alone cannot do so by losing its store and
// listing the same again, and adds no more to a count than one voice may.
func TestLostIncarnationIsOneVoice(t *testing.T) {
	ctx := t.Context()
	b := open(t, Options{})
	if err := b.SetOrigins(ctx, []Origin{{ID: "a", Weight: 0.5}}); err != nil {
		t.Fatal(err)
	}
	s := sig(bulkhead.Exact, 1)
	for life := range uint64(4) {
		if err := b.Renew(ctx, "a", life+1); err != nil {
			t.Fatal(err)
		}
		a := open(t, Options{})
		if err := a.Record(ctx, true); err != nil {
			t.Fatal(err)
		}
		report(t, a, bulkhead.Report{Signatures: []bulkhead.Signature{s}, Vote: bulkhead.Spam,
			Reporter: bulkhead.Reporter{Addr: netip.MustParseAddr("127.0.0.1")}})
		if err := a.Count(ctx, []bulkhead.Signature{s}, []uint32{1000}); err != nil {
			t.Fatal(err)
		}
		pass(t, a, b, "a")
		if v := verdictOf(t, b, s); v.Judged == bulkhead.JudgedSpam || v.Sightings >= b.checker.Threshold() {
			t.Fatalf("life %d: %v with %d sightings", life, v.Judged, v.Sightings)
		}
	}
	if got := len(b.FormerIncarnations("a")); got != 3 {
		t.Errorf("%d former incarnations, want 3", got)
	}
}

// TestLostIncarnationAges: former incarnations expire with their generations, are replaced
// where the new one was restored with their counts, and are evicted with their owner.
func TestLostIncarnationAges(t *testing.T) {
	ctx := t.Context()
	c := newClock()
	a, b := open(t, Options{Now: c.Now}), open(t, Options{Now: c.Now})
	if err := errors.Join(a.Record(ctx, true), b.SetOrigins(ctx, []Origin{{ID: "a", Weight: 1}})); err != nil {
		t.Fatal(err)
	}
	s := sig(bulkhead.Exact, 1)
	if err := a.Count(ctx, []bulkhead.Signature{s}, []uint32{3}); err != nil {
		t.Fatal(err)
	}
	pass(t, a, b, "a")
	if err := b.Renew(ctx, "a", 2); err != nil {
		t.Fatal(err)
	}
	transfer(t, a, b, "a") // as after a restore: the same counts again
	var keys []ArrayKey
	for _, x := range a.Own() {
		keys = append(keys, ArrayKey{Array: x.Array, Start: x.Start})
	}
	if err := b.Supersede(ctx, "a", keys); err != nil {
		t.Fatal(err)
	}
	if got := verdictOf(t, b, s).Sightings; got != 3 || len(b.FormerIncarnations("a")) != 0 {
		t.Errorf("restored: %d sightings, want 3; %v", got, b.FormerIncarnations("a"))
	}
	if err := b.Renew(ctx, "a", 3); err != nil {
		t.Fatal(err)
	}
	for range 30 {
		c.Advance(24 * time.Hour)
		report(t, b, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 2)}})
	}
	if got := b.FormerIncarnations("a"); len(got) != 0 {
		t.Errorf("thirty days later: %v", got)
	}
}
