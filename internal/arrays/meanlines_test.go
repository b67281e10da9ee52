package arrays

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// share returns the probability that k of the places, drawn without repetition, are all among the
// first n.
func share(n, places, k int) float64 {
	p, _ := new(big.Rat).SetFrac(new(big.Int).Binomial(int64(n), int64(k)), new(big.Int).Binomial(int64(places),
		int64(k))).Float64()
	return p
}

// TestMeanOfCells compares Tail and Shown with their definition: the mean over lines of the
// probability that all cells of a key are high enough.
func TestMeanOfCells(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 2))
	counts := []uint32{1, 2, 5, 14, 15, 16, 20, 50, 5000, Many}
	for _, lines := range []uint64{1, 3, 700, 5 * PageLines} {
		if testing.Short() && lines > 1000 {
			continue // for long under the race detector, in one goroutine
		}
		for k := uint8(2); k <= 8; k++ {
			g := Geometry{Kind: Cells, Lines: lines, K: k}
			c := mustCounting(t, g)
			// A quarter of the lines gets most keys, so that lines differ.
			for range lines * 12 {
				key := Key{Hi: rng.Uint64() >> (2 * rng.IntN(2)), Lo: rng.Uint64()}
				c.Add(key, uint32(min(math.Pow(rng.Float64(), -1/0.7), 2*Many)))
			}
			want := make([]float64, len(counts))
			cells := logical(c)
			var likely [lineCells + 1]float64
			for n := range likely {
				likely[n] = share(n, lineCells, int(k))
			}
			for at := uint64(0); at < lines; at++ {
				for i, n := range counts {
					high := 0
					for _, v := range cells[at*lineCells : (at+1)*lineCells] {
						if v >= n {
							high++
						}
					}
					want[i] += likely[high] / float64(lines)
				}
			}
			for i, got := range c.Tail(counts) {
				if math.Abs(got-want[i]) > 1e-9*want[i] {
					t.Errorf("%v: %g have %d or more, want %g", g, got, counts[i], want[i])
				}
			}
			if got := c.Shown(rng.Uint64()); math.Abs(got-want[0]) > 1e-9*want[0] {
				t.Errorf("%v: %g are shown, want %g", g, got, want[0])
			}
		}
	}
}

// TestTailOfSample checks that Tail samples 32 or more evenly spread pages of a large array.
func TestTailOfSample(t *testing.T) {
	c, err := NewSparseCounting(Geometry{Kind: Cells, Lines: 100 * PageLines, K: 2})
	if err != nil {
		t.Fatal(err)
	}
	pairs := float64(lineCells) * (lineCells - 1) / 2
	seen := 0
	for p := range uint64(100) {
		before := c.Tail([]uint32{1})[0]
		c.Add(Key{Hi: (2*p + 1) * (math.MaxUint64 / 200), Lo: 0x0102030405060708}, 1)
		if d := c.Tail([]uint32{1})[0] - before; d > 0 {
			seen++
			if want := 1 / pairs / (34 * PageLines); math.Abs(d-want) > 1e-6*want {
				t.Errorf("a key on page %d adds %g, want %g", p, d, want)
			}
		}
	}
	if seen != 34 {
		t.Errorf("%d of 100 pages are looked at, want every third", seen)
	}
}

// TestMeanOfBits checks that a line shows a key that was never set if each of the key's bits falls
// on a set bit.
func TestMeanOfBits(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 2))
	for _, lines := range []uint64{1, 3, 700, 5 * PageLines} {
		for _, k := range []uint8{8, 16} {
			b := mustBits(t, Geometry{Kind: Bitmap, Lines: lines, K: k})
			for range lines * 20 {
				b.Set(Key{Hi: rng.Uint64() >> (2 * rng.IntN(2)), Lo: rng.Uint64()})
			}
			part := lineBits / uint64(k)
			ones := make([]int, lines*uint64(k))
			for p := range b.Pages() {
				for _, at := range setBits(b.Image(p).lines).At {
					ones[(uint64(p)*(PageLines*lineBits)+uint64(at))/part]++
				}
			}
			want := 0.0
			for at := range lines {
				p := 1.0
				for _, n := range ones[at*uint64(k) : (at+1)*uint64(k)] {
					p *= float64(n) / float64(part)
				}
				want += p / float64(lines)
			}
			if got := b.Shown(rng.Uint64()); math.Abs(got-want) > 1e-9*want || want < 1e-9 {
				t.Errorf("k=%d, %d lines: %g are shown, want %g", k, lines, got, want)
			}
		}
	}
}
