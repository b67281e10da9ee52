package evidence

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
)

// origins returns the sources in indexed counts of some origins of each weight, and the arrays.
func origins(t *testing.T, of int, weights ...float64) (*Sources, []*arrays.Counting) {
	t.Helper()
	g, err := filter.SizeFor(filter.Target{Kind: filter.Cells, Signatures: 2000, Rate: 1e-9})
	if err != nil {
		t.Fatal(err)
	}
	x, err := arrays.NewSlicedExact(g, of*len(weights))
	if err != nil {
		t.Fatal(err)
	}
	v := &replica.View{Indexes: []*replica.Index{{Sliced: x}}}
	var counting []*arrays.Counting
	for i := range of * len(weights) {
		a, err := arrays.NewCounting(g)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Attach(x, i); err != nil {
			t.Fatal(err)
		}
		counting = append(counting, a)
		v.Origins = append(v.Origins, &replica.Held{
			Origin: replica.Origin{ID: fmt.Sprint(i), Weight: weights[i%len(weights)]},
			Tally:  []*replica.Tally{{Start: today - uint64(i%2)*day, Counts: a}},
		})
	}
	return NewSources(View{Remote: v}, 1), counting
}

// TestSumsFollow: the counts of many origins are added up once, and again after one of them has
// counted the key once more.
func TestSumsFollow(t *testing.T) {
	for _, first := range []uint32{1, 3, 9} {
		t.Run(fmt.Sprint(first), func(t *testing.T) { testSumsFollow(t, first) })
	}
}

func testSumsFollow(t *testing.T, first uint32) {
	s, counting := origins(t, 20, 1, 0.5)
	rng := rand.New(rand.NewPCG(1, uint64(first)))
	n := make([]uint32, len(counting))
	r, other := &Reader{Keys: plainKeys{}, Day: day}, &Reader{Keys: plainKeys{}, Day: day, Threshold: 100}
	r.Begin(s)
	other.Begin(s)
	k := spread(1)
	for step := range 2000 {
		if step < len(counting) || rng.IntN(100/int(first)) == 0 {
			i, by := rng.IntN(len(counting)), uint32(1+rng.IntN(9))
			if step < len(counting) {
				i, by = step, first
			}
			counting[i].Add(k.With(Sighting), by)
			n[i] += by
		}
		if rng.IntN(4) == 0 {
			counting[rng.IntN(len(counting))].Add(spread(2+rng.IntN(200)).With(Sighting), 1)
		}
		var seen, bounded, half, old, now uint32
		for i, by := range n {
			weighed := by
			if i%2 == 1 { // of weight 0.5
				weighed = (by + 1) / 2
				half += min(weighed, 50)
			} else {
				bounded += by
				now += by // and all of today
			}
			seen += weighed
		}
		bounded += half
		if got := read(r, k, Counts); got.Sightings != seen || got.New != now || got.Old != old {
			t.Fatalf("step %d: %+v, want %d sightings, %d and %d deliveries", step, got, seen, now, old)
		}
		if got := read(other, k, Counts); got.Sightings != bounded {
			t.Fatalf("step %d: %d sightings, want %d", step, got.Sightings, bounded)
		}
		if step%10 > 0 {
			continue // what is kept is for one kind of question
		}
		if got := read(r, k, Counts|Standing|Names); got.Sightings != seen || got.Good != 0 {
			t.Fatalf("step %d: %+v", step, got)
		}
	}
}

// TestSumsAreKept: sums of keys that many origins know are cached, regardless of their counts, in
// exact and inexact indexes.
func TestSumsAreKept(t *testing.T) {
	s, counting := origins(t, 20, 1)
	kept := func() (n int) {
		for i := range s.indexes[0].sums {
			if x := s.indexes[0].sums[i].Load(); x != nil && x.watched.Valid(x.grown) {
				n++
			}
		}
		return n
	}
	r := &Reader{Keys: plainKeys{}, Day: day}
	for n := range 100 {
		for i, a := range counting {
			if n < 80 || i < few {
				a.Add(spread(n).With(Sighting), uint32(1+n%12))
			}
		}
	}
	for round := range 4 {
		if round == 2 {
			s.indexes[0].DropExact()
		}
		r.Begin(s)
		for n := range 100 {
			if got, want := read(r, spread(n), Counts).Sightings, uint32((1+n%12)*len(counting)); n < 80 && got != want {
				t.Fatalf("%d sightings, want %d", got, want)
			}
		}
		if got := kept(); got < 80 || got > 82 { // others by chance
			t.Fatalf("%d sums are kept, want 80", got)
		}
	}
	r.End()
}

// TestSumsOfTheMorning: a sum that was cached in the first half of a day is not used in the second, when
// yesterday's deliveries are no longer late.
func TestSumsOfTheMorning(t *testing.T) {
	s, counting := origins(t, 20, 1)
	for _, a := range counting {
		a.Add(spread(1).With(Sighting), 1)
	}
	var now int64
	r := &Reader{Keys: plainKeys{}, Day: day, Now: func() time.Time { return time.Unix(now, 0) }}
	s.today = today
	for _, tt := range []struct {
		second int64
		late   uint32
	}{{1, 10}, {day/2 - 1, 10}, {day / 2, 0}, {day - 1, 0}, {0, 10}} {
		now = today + tt.second
		r.Begin(s)
		for range 2 {
			if got := read(r, spread(1), Counts); got.Old != 10 || got.New != 10 || got.Late != tt.late {
				t.Errorf("second %d: %+v, want %d late", tt.second, got.Evidence, tt.late)
			}
		}
	}
	r.End()
}

// TestTranspose compares transpose with its definition.
func TestTranspose(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var a, b [64]uint64
	for i := range a {
		a[i] = rng.Uint64()
	}
	b = a
	transpose(&b)
	for i := range a {
		for j := range b {
			if a[i]>>j&1 != b[j]>>i&1 {
				t.Fatalf("bit %d of word %d", j, i)
			}
		}
	}
}

// TestSumsWhileWritten: a reader sees at least the counts from before it began, and at most the
// counts in progress when it ended.
func TestSumsWhileWritten(t *testing.T) {
	for _, exact := range []bool{true, false} {
		for _, first := range []uint32{1, 9} {
			t.Run(fmt.Sprint(exact, first), func(t *testing.T) { testSumsWhileWritten(t, exact, first) })
		}
	}
}

func testSumsWhileWritten(t *testing.T, exact bool, first uint32) {
	s, counting := origins(t, 20, 1)
	if !exact {
		s.indexes[0].DropExact()
	}
	k := spread(1)
	var begun, done atomic.Uint32
	for _, a := range counting {
		a.Add(k.With(Sighting), first)
	}
	begun.Store(first * uint32(len(counting)))
	done.Store(begun.Load())
	var writers, readers sync.WaitGroup
	var over atomic.Bool
	for part := range 2 {
		writers.Go(func() {
			for n := range 300 {
				begun.Add(1)
				counting[(2*n+part)%len(counting)].Add(k.With(Sighting), 1)
				done.Add(1)
			}
		})
	}
	for range 2 {
		readers.Go(func() {
			r := &Reader{Keys: plainKeys{}, Day: day}
			r.Begin(s)
			for !over.Load() {
				least := done.Load()
				got := read(r, k, Counts).Sightings
				if most := begun.Load(); got < least || got > most {
					t.Errorf("%d sightings, want %d to %d", got, least, most)
					return
				}
			}
		})
	}
	writers.Wait()
	over.Store(true)
	readers.Wait()
}
