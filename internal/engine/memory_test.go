package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
)

// used returns the memory of the generations of the books.
func used(e *Engine) (tally, block uint64) {
	v := e.current.View()
	return v.Tally.Bytes(), v.Block.Bytes()
}

// flood counts n new signatures, from the number first on, in reports of a hundred.
func flood(t *testing.T, first, n int, engines ...*Engine) {
	t.Helper()
	for ; n > 0; first, n = first+100, n-100 {
		sigs, ones := make([]bulkhead.Signature, 100), make([]uint32, 100)
		for i := range sigs {
			sigs[i], ones[i] = sig(bulkhead.Exact, first+i), 1
		}
		for _, e := range engines {
			if err := e.Count(t.Context(), sigs, ones); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestFlood: an endless flood of new signatures makes a node with a memory limit forget sooner, and
// has no other effect: its arrays do not grow, are never fuller than they should be, and hold the
// latest counts. An exact twin agrees.
func TestFlood(t *testing.T) {
	if testing.Short() {
		t.Skip("a long flood of one goroutine")
	}
	c := newClock()
	shape := BookOptions{Generation: 24 * time.Hour, Keep: 7, Capacity: 2000, Error: 1e-3}
	first, err := TallyBytes(shape)
	if err != nil {
		t.Fatal(err)
	}
	free := open(t, Options{Now: c.Now, Tally: shape})
	shape.Memory = 16 * first
	e, exact := open(t, Options{Now: c.Now, Tally: shape}), open(t, Options{Now: c.Now, Tally: shape, Exact: true})
	const step, steps = 1000, 120
	for i := range steps {
		flood(t, i*step, step, e, exact, free)
		c.Advance(5 * time.Second)
		if tally, _ := used(e); tally > shape.Memory {
			t.Fatalf("after %d signatures: %d bytes, limit %d", (i+1)*step, tally, shape.Memory)
		}
		for _, g := range e.Info().Tally {
			if a := g.Arrays[0]; float64(a.Keys) > book.Early*float64(g.Capacity)+step || a.CountWrong > 5*shape.Error {
				t.Fatalf("after %d signatures: %d in a generation for %d, %.2g of the counts wrong", (i+1)*step, a.Keys,
					g.Capacity, a.CountWrong)
			}
		}
	}
	if tally, _ := used(free); tally < 2*shape.Memory {
		t.Errorf("without a bound the flood took %d bytes: it is none", tally)
	}
	forgotten := e.Info().Forgotten
	if forgotten == 0 || e.Info().Forgotten != exact.Info().Forgotten {
		t.Errorf("%d generations given up, %d by the exact twin", forgotten, exact.Info().Forgotten)
	}
	known, wrong := 0, 0
	for n := range steps * step {
		s := sig(bulkhead.Exact, n)
		got, want := verdictOf(t, e, s).Sightings, verdictOf(t, exact, s).Sightings
		if got < want {
			t.Fatalf("signature %d: %d sightings, exactly %d", n, got, want)
		}
		if got > want {
			wrong++
		}
		if want > 0 {
			known++
		} else if n >= (steps-20)*step {
			t.Fatalf("signature %d of %d is forgotten", n, steps*step)
		}
	}
	// A count is wrong if a live generation shows a key that it does not have.
	stated := 0.0
	for _, g := range e.Info().Tally {
		stated += g.Arrays[0].Ghost
	}
	if rate := float64(wrong) / (steps * step); known < steps*step/4 || known > steps*step*9/10 || rate > 1.2*stated {
		t.Errorf("%d of %d are known; %.3g of the counts are wrong, stated %.3g", known, steps*step, rate, stated)
	}

	// After the flood days pass as usual.
	for range 8 {
		c.Advance(24 * time.Hour)
		flood(t, 1<<30, 100, e, exact)
	}
	if n := verdictOf(t, e, sig(bulkhead.Exact, 1<<30)).Sightings; len(e.Info().Tally) != 7 || n != 7 {
		t.Errorf("after quiet days: %d generations, %d sightings of what came daily: want 7", len(e.Info().Tally), n)
	}
}

// TestFloodWithinASecond: generations that fill faster than seconds pass follow each
// other all the same, a little ahead of the clock. So reports are taken for known as rarely as
// the generations state, and what was counted on the days before is kept.
func TestFloodWithinASecond(t *testing.T) {
	if testing.Short() {
		t.Skip("a long flood of one goroutine")
	}
	c := newClock()
	shape := BookOptions{Generation: 24 * time.Hour, Keep: 3, Capacity: 1000, Error: 1e-3}
	e, exact := open(t, Options{Now: c.Now, Tally: shape}), open(t, Options{Now: c.Now, Tally: shape, Exact: true})
	for day := range 3 {
		flood(t, 1<<30+day, 1, e, exact)
		if day < 2 {
			c.Advance(24 * time.Hour)
		}
	}
	const n = 60_000
	taken := make(map[int]bool) // for known
	for i := range n {
		r := bulkhead.Report{ID: fmt.Sprint("message-", i), Signatures: []bulkhead.Signature{sig(bulkhead.Exact, i)}}
		if got := report(t, exact, r); got.Counted != 1 {
			t.Fatalf("report %d: %+v from the exact twin", i, got)
		}
		if got := report(t, e, r); got.Counted != 1 {
			taken[i] = true
		}
	}
	ghosts := 0.0 // of the reports: each is looked up in all generations
	for _, g := range e.Info().Tally {
		ghosts += g.Arrays[1].Ghost
	}
	if most := 3 + 2*ghosts*n; ghosts > 1e-4 || float64(len(taken)) > most {
		t.Errorf("%d of %d reports are taken for known, want %.1f at most", len(taken), n, most)
	}
	v := e.current.View()
	for _, g := range v.Tally.Live {
		if s := g.Fill(); s > book.Early+0.01 {
			t.Errorf("a generation is %.2f times as full as it is sized for", s)
		}
	}
	if ahead := int64(v.Tally.Live[0].Start) - c.Now().Unix(); len(v.Tally.Live) > 20 || ahead < 1 || ahead > 20 {
		t.Errorf("%d generations, the open one %d seconds ahead of the clock", len(v.Tally.Live), ahead)
	}
	for day := range 3 {
		if got := verdictOf(t, e, sig(bulkhead.Exact, 1<<30+day)).Sightings; got < 1 {
			t.Errorf("what was counted on day %d is gone", day)
		}
	}
	for i := range n {
		if !taken[i] && verdictOf(t, e, sig(bulkhead.Exact, i)).Sightings < 1 {
			t.Fatalf("report %d is gone", i)
		}
	}

	// The next day is an ordinary one.
	c.Advance(24 * time.Hour)
	flood(t, 1<<30, 1, e, exact)
	if v := e.current.View(); int64(v.Tally.Live[0].Start) > c.Now().Unix() ||
		len(v.Tally.Live) != len(exact.current.View().Tally.Live) {
		t.Errorf("on the next day the open generation starts at %d, now is %d", v.Tally.Live[0].Start, c.Now().Unix())
	}
}

// TestFloodOfListings: the blocklist has a bound of its own.
func TestFloodOfListings(t *testing.T) {
	c := newClock()
	shape := BookOptions{Generation: 7 * 24 * time.Hour, Keep: 8, Capacity: 1000, Error: 1e-4}
	first, err := BlocklistBytes(shape)
	if err != nil {
		t.Fatal(err)
	}
	shape.Memory = 8 * first
	e := open(t, Options{Now: c.Now, Block: shape})
	for i := range 300 {
		var sigs []bulkhead.Signature
		for j := range 100 {
			sigs = append(sigs, sig(bulkhead.Exact, 100*i+j))
		}
		if got := report(t, e, bulkhead.Report{Signatures: sigs, Vote: bulkhead.Spam}); got.Listed == 0 {
			t.Fatalf("report %d: %+v, want it listed", i, got)
		}
		c.Advance(time.Minute)
		if _, block := used(e); block > shape.Memory {
			t.Fatalf("after %d listings: %d bytes, limit %d", 100*(i+1), block, shape.Memory)
		}
		if v := verdictOf(t, e, sigs[0]); !v.Spam() {
			t.Fatalf("listing %d is forgotten at once", 100*i)
		}
	}
	if v := verdictOf(t, e, sig(bulkhead.Exact, 0)); v.Spam() || e.Info().Forgotten == 0 {
		t.Errorf("the first listing is still there; %d generations given up", e.Info().Forgotten)
	}
}

// TestFloor: generations that were given up stay given up after a replay of the journal and after a
// checkpoint, and peers see the start of the oldest remaining one.
func TestFloor(t *testing.T) {
	c := newClock()
	shape := BookOptions{Generation: 24 * time.Hour, Keep: 7, Capacity: 1000, Error: 1e-3}
	first, err := TallyBytes(shape)
	if err != nil {
		t.Fatal(err)
	}
	shape.Memory = 6 * first
	o := Options{Now: c.Now, Tally: shape, CheckpointEvery: time.Hour}
	dir := filepath.Join(t.TempDir(), "data")
	e, st := openDurable(t, dir, o, nil)
	if got, want := e.Floor(ArrayCounts), e.Horizon(ArrayCounts); got != want {
		t.Errorf("floor %d before anything was given up, want %d", got, want)
	}
	for i := range 30 {
		flood(t, i*1000, 1000, e)
		c.Advance(5 * time.Second)
	}
	state := func() string {
		v := e.current.View()
		return fmt.Sprint(e.Floor(ArrayCounts), e.Floor(ArraySpam), len(v.Tally.Live),
			v.Tally.Live[len(v.Tally.Live)-1].Start)
	}
	want := state()
	if oldest := e.current.View().Tally.Live; e.Floor(ArrayCounts) <= e.Horizon(ArrayCounts) ||
		e.Floor(ArrayCounts) > oldest[len(oldest)-1].Start {
		t.Fatalf("floor %d, horizon %d, oldest generation %d", e.Floor(ArrayCounts), e.Horizon(ArrayCounts),
			oldest[len(oldest)-1].Start)
	}
	copied := filepath.Join(t.TempDir(), "copied") // as after a kill
	if err := errors.Join(os.Mkdir(copied, 0o700), os.CopyFS(copied, os.DirFS(dir))); err != nil {
		t.Fatal(err)
	}
	shut := func() {
		if err := errors.Join(e.Close(context.Background()), st.Close()); err != nil {
			t.Fatal(err)
		}
	}
	shut() // which writes a checkpoint
	for how, dir := range map[string]string{"journal": copied, "checkpoint": dir} {
		e, st = openDurable(t, dir, o, nil)
		if got := state(); got != want {
			t.Errorf("from the %s: %s, was %s", how, got, want)
		}
		shut()
	}
}
