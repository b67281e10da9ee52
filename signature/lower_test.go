package signature

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestLower: the minima are those of the definition, whatever way the processor takes, also of the
// least and the greatest numbers, and of a slice that begins anywhere.
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
		var got, plain, want [NearBands * nearRows]uint64
		for i := range want {
			want[i] = math.MaxUint64
			if random.IntN(8) == 0 {
				want[i] = edges[random.IntN(len(edges))]
			}
		}
		got, plain = want, want
		for i := range want {
			for _, x := range shingles {
				want[i] = min(want[i], x*k.mul[i]+k.add[i])
			}
		}
		k.lower(&got, shingles)
		k.lowerPlain(&plain, shingles)
		if got != want || plain != want {
			t.Fatalf("round %d, %d shingles: minima %v and %v, want %v", round, len(shingles), got, plain, want)
		}
	}
}

// BenchmarkLower is a block of shingles, and the same without wide instructions.
func BenchmarkLower(b *testing.B) {
	k := newNearKey([16]byte{})
	shingles := make([]uint64, nearBlock)
	for i := range shingles {
		shingles[i] = rand.Uint64()
	}
	for name, lower := range map[string]func(*[NearBands * nearRows]uint64, []uint64){"lower": k.lower, "plain": k.lowerPlain} {
		b.Run(name, func(b *testing.B) {
			var minima [NearBands * nearRows]uint64
			for b.Loop() {
				lower(&minima, shingles)
			}
		})
	}
}
