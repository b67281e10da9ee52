package signature

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestLower compares the minima with the definition, also for the least and the greatest numbers.
func TestLower(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	edges := []uint64{0, 1, math.MaxInt64, 1 << 63, math.MaxUint64}
	for round := range 2000 {
		k := newNearKey([16]byte{byte(round), byte(round >> 8)})
		for i := range 8 {
			k.mul[random.IntN(len(k.mul))], k.add[random.IntN(len(k.add))] = edges[i%len(edges)], edges[random.IntN(len(edges))]
		}
		all := make([]uint64, random.IntN(nearBlock+1))
		for i := range all {
			all[i] = random.Uint64()
			if random.IntN(4) == 0 {
				all[i] = edges[random.IntN(len(edges))]
			}
		}
		shingles := all[min(len(all), random.IntN(9)):]
		var got, want [NearBands * nearRows]uint64
		for i := range want {
			want[i] = math.MaxUint64
			if random.IntN(8) == 0 {
				want[i] = edges[random.IntN(len(edges))]
			}
		}
		got = want
		for i := range want {
			for _, x := range shingles {
				want[i] = min(want[i], x*k.mul[i]+k.add[i])
			}
		}
		k.lower(&got, shingles)
		if got != want {
			t.Fatalf("round %d, %d shingles: minima %v, want %v", round, len(shingles), got, want)
		}
	}
}
