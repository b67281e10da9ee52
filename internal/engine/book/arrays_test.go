package book

import (
	"math/rand/v2"
	"testing"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
)

// TestExact checks that the arrays of an exact generation are maps.
func TestExact(t *testing.T) {
	k := NewTally(tallyOptions, 10, 7, true, nil)
	g, err := k.Make(TallySpec{Start: 1})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	counts, set := make(map[filter.Key]uint32), make(map[filter.Key]bool)
	for range 200 {
		keys, n := make([]filter.Key, 1+rng.IntN(5)), make([]uint32, 5)
		for i := range keys {
			keys[i] = filter.Key{Hi: rng.Uint64N(50), Lo: rng.Uint64N(2)}
			n[i] = rng.Uint32N(filter.Many / 3)
		}
		before, was := make([]uint32, len(keys)), make([]bool, len(keys))
		if rng.IntN(2) == 0 {
			before, was = nil, nil
		}
		g.Counts.AddBatch(1, keys, n, before)
		g.Unique.SetBatch(1, keys, was)
		for i, key := range keys {
			if before != nil && (before[i] != counts[key] || was[i] != set[key]) {
				t.Fatalf("before: %d, %v, want %d, %v", before[i], was[i], counts[key], set[key])
			}
			counts[key], set[key] = min(counts[key]+n[i], filter.Many), true
		}
	}
	for hi := range uint64(60) {
		keys := []filter.Key{{Hi: hi}, {Hi: hi, Lo: 1}}
		got, has := make([]uint32, 2), make([]bool, 2)
		g.Counts.CountBatch(keys, got)
		g.Unique.HasBatch(keys, has)
		for i, key := range keys {
			if got[i] != counts[key] || has[i] != set[key] {
				t.Errorf("%v: %d, %v, want %d, %v", key, got[i], has[i], counts[key], set[key])
			}
		}
	}
	for _, s := range []arrays.Stats{g.Counts.Stats(), g.Unique.Stats()} {
		if n := uint64(len(set)); s.Keys != n || s.Bytes < 16*n || s.Bytes > 100*n {
			t.Errorf("%+v of %d keys", s, n)
		}
	}
	if g.Counts.Keys() != uint64(len(set)) || g.Unique.Keys() != uint64(len(set)) {
		t.Errorf("%d and %d keys, want %d", g.Counts.Keys(), g.Unique.Keys(), len(set))
	}
}
