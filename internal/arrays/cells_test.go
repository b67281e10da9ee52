package arrays

import (
	"math"
	"testing"

	"github.com/bulkhead-mail/bulkhead/filter/shape"
)

func TestWithKeepsTheLine(t *testing.T) {
	k := Key{Hi: 1, Lo: 2}
	seen := map[uint64]bool{k.Lo: true}
	for kind := range 256 {
		w := k.With(uint8(kind))
		if w.Hi != k.Hi {
			t.Fatalf("With(%d) is on another line", kind)
		}
		if seen[w.Lo] {
			t.Fatalf("With(%d) repeats the cells of another kind", kind)
		}
		seen[w.Lo] = true
	}
}

// TestWithIsIndependent checks that the cells of two kinds of one signature coincide no more often
// than those of two signatures.
func TestWithIsIndependent(t *testing.T) {
	const n, k = 100_000, 6
	keep, fill := cellMasks(k)
	keys, _ := seeded(8, n)
	shared := 0
	for _, key := range keys {
		a := pick(key.With(0).Lo, keep, fill).set(k)
		b := pick(key.With(1).Lo, keep, fill).set(k)
		shared += a.and(b).len()
	}
	mean := float64(k*k) / lineCells
	got := float64(shared) / n
	if sigma := math.Sqrt(mean / n); math.Abs(got-mean) > 5*sigma {
		t.Errorf("two kinds share %.4f cells in the mean, want %.4f +- %.4f", got, mean, sigma)
	}
}

// TestPickIsUniform checks that all cells occur equally often at every position, and that there are
// always k distinct ones, for every k (H2).
func TestPickIsUniform(t *testing.T) {
	keys, _ := seeded(7, 128*600)
	for k := uint8(2); k <= 8; k++ {
		keep, fill := cellMasks(k)
		var seen [lineCells]int
		for i, key := range keys {
			lo := key.Lo
			if i < 4 {
				lo = []uint64{0, 1<<64 - 1, lanes, shape.Weyl}[i] // all cells equal
			}
			set := pick(lo, keep, fill).set(k)
			if set.len() != int(k) {
				t.Fatalf("k=%d: %d distinct cells", k, set.len())
			}
			for m := set; !m.empty(); {
				var c uint64
				c, m = m.pop()
				seen[c]++
			}
		}
		chi, want := 0.0, float64(len(keys))*float64(k)/lineCells
		for _, n := range seen {
			chi += (float64(n) - want) * (float64(n) - want) / want
		}
		// Mean 127, standard deviation 16.
		if chi > 127+6*16 {
			t.Errorf("k=%d: chi-square %.0f over 128 cells", k, chi)
		}
	}
}

func TestDistinctAgainstDefinition(t *testing.T) {
	keys, _ := seeded(6, 50_000)
	for i, key := range keys {
		x := key.Lo
		if i%2 == 0 {
			x &= 0x0f0f0f0f0f0f0f0f // many equal bytes
		}
		want := true
		for a := range 8 {
			for b := range a {
				want = want && byte(x>>(8*a)) != byte(x>>(8*b))
			}
		}
		if distinct(x) != want {
			t.Fatalf("distinct(%016x) = %v", x, !want)
		}
	}
}
