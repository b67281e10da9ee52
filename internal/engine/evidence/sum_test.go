package evidence

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
)

// origins returns the sources in indexed counts of some origins of each weight, and the arrays.
func origins(t *testing.T, of int, weights ...float64) (*Sources, []*filter.Counting) {
	t.Helper()
	g, err := filter.SizeFor(filter.Target{Kind: filter.Cells, Signatures: 2000, Rate: 1e-9})
	if err != nil {
		t.Fatal(err)
	}
	x, err := filter.NewSlicedExact(g, of*len(weights))
	if err != nil {
		t.Fatal(err)
	}
	v := &replica.View{Indexes: []*replica.Index{{Sliced: x}}}
	var arrays []*filter.Counting
	for i := range of * len(weights) {
		a, err := filter.NewCounting(g)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Attach(x, i); err != nil {
			t.Fatal(err)
		}
		arrays = append(arrays, a)
		v.Origins = append(v.Origins, &replica.Held{
			Origin: replica.Origin{ID: fmt.Sprint(i), Weight: weights[i%len(weights)]},
			Tally:  []*replica.Tally{{Start: today - uint64(i%2)*day, Counts: a}},
		})
	}
	return NewSources(View{Remote: v}, 1), arrays
}

// TestSumsFollow: what many origins count more often than indexes know is added up once, and
// again after one of them has counted it once more.
func TestSumsFollow(t *testing.T) {
	s, arrays := origins(t, 20, 1, 0.5)
	rng := rand.New(rand.NewPCG(1, 2))
	n := make([]uint32, len(arrays))
	r, other := &Reader{Keys: plainKeys{}, Day: day}, &Reader{Keys: plainKeys{}, Day: day, Threshold: 100}
	r.Begin(s)
	other.Begin(s)
	k := spread(1)
	for step := range 2000 {
		if step < len(arrays) || rng.IntN(3) == 0 {
			i, by := rng.IntN(len(arrays)), uint32(1+rng.IntN(9))
			if step < len(arrays) {
				i, by = step, 9
			}
			arrays[i].Add(k.With(Sighting), by)
			n[i] += by
		}
		if rng.IntN(4) == 0 {
			arrays[rng.IntN(len(arrays))].Add(spread(2+rng.IntN(200)).With(Sighting), 1)
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

// TestSumsWhileWritten: a reader sees at least what was counted before it began, and at most
// what was being counted when it was done.
func TestSumsWhileWritten(t *testing.T) {
	s, arrays := origins(t, 20, 1)
	k := spread(1)
	var begun, done atomic.Uint32
	for _, a := range arrays {
		a.Add(k.With(Sighting), 9)
	}
	begun.Store(9 * uint32(len(arrays)))
	done.Store(begun.Load())
	var writers, readers sync.WaitGroup
	var over atomic.Bool
	for part := range 2 {
		writers.Go(func() {
			for n := range 300 {
				begun.Add(1)
				arrays[(2*n+part)%len(arrays)].Add(k.With(Sighting), 1)
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
