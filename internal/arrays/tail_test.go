package arrays

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestTail compares Tail with the counts that keys show that were never added.
func TestTail(t *testing.T) {
	c, err := NewCounting(Geometry{Kind: Cells, Lines: 2048, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	random := func() Key { return Key{Hi: rng.Uint64(), Lo: rng.Uint64()} }
	for range 60_000 {
		// A share c^-1.2 of the keys is counted c times or more.
		c.Add(random(), uint32(math.Pow(rng.Float64(), -1/1.2)))
	}
	counts := []uint32{1, 2, 5, 14, 15, 16, 20, 50}
	got := c.Tail(counts)
	const probes = 2_000_000
	seen := make([]int, len(counts))
	for range probes {
		n := c.Count(random())
		for i, at := range counts {
			if n >= at {
				seen[i]++
			}
		}
	}
	for i, at := range counts {
		want := float64(seen[i]) / probes
		if dev := 5*math.Sqrt(want/probes) + 2/float64(probes); math.Abs(got[i]-want) > dev+want/20 {
			t.Errorf("probability of %d or more: %.3g, measured %.3g on %d keys", at, got[i], want, probes)
		}
	}
	if got[0] < 0.1 || got[0] > 0.9 {
		t.Errorf("ghost probability %.3g: the array is too empty or too full to test anything", got[0])
	}
}

func TestTailOfEmpty(t *testing.T) {
	c, err := NewCounting(Geometry{Kind: Cells, Lines: 1, K: 6})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Tail([]uint32{1, 20}); got[0] != 0 || got[1] != 0 {
		t.Errorf("tail of an empty array = %v, want zeros", got)
	}
}
