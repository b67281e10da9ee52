package shape

import (
	"errors"
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// TestMixIsSplitMix64 checks the first numbers of the published generator (Vigna, splitmix64.c) for
// the seed 1234567.
func TestMixIsSplitMix64(t *testing.T) {
	for i, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431,
		16408922859458223821} {
		if got := Mix(1234567 + uint64(i+1)*Weyl); got != want {
			t.Errorf("number %d is %d, want %d", i+1, got, want)
		}
	}
}

// poisson returns the probability of n events with the given mean.
func poisson(n int, mean float64) float64 {
	l, _ := math.Lgamma(float64(n + 1))
	return math.Exp(float64(n)*math.Log(mean) - mean - l)
}

// binomial returns the probability of n of m events of probability p each.
func binomial(n, m int, p float64) float64 {
	a, _ := math.Lgamma(float64(m + 1))
	b, _ := math.Lgamma(float64(n + 1))
	c, _ := math.Lgamma(float64(m - n + 1))
	return math.Exp(a - b - c + float64(n)*math.Log(p) + float64(m-n)*math.Log1p(-p))
}

// covered returns the probability that k cells of 128 are all hit by sets of k cells, the number of
// sets being Poisson distributed. It goes set by set, and tracks how many of the cells are still
// missed.
func covered(k int, mean float64) (p float64) {
	choose := func(n, m int) float64 {
		if m < 0 || m > n {
			return 0
		}
		c := 1.0
		for i := range m {
			c = c * float64(n-i) / float64(i+1)
		}
		return c
	}
	missed := make([]float64, k+1) // the probability that this many cells are missed
	missed[k] = 1
	for n := range int(mean+12*math.Sqrt(mean)) + 40 {
		p += poisson(n, mean) * missed[0]
		next := make([]float64, k+1)
		for left, share := range missed {
			for hit := 0; hit <= left; hit++ {
				next[left-hit] += share * choose(left, hit) * choose(LineCells-left, k-hit) / choose(LineCells, k)
			}
		}
		missed = next
	}
	return p
}

// TestGhostErrorIsExact compares the formula for a full line with sums of probabilities, for lines
// with hardly any keys up to full ones.
func TestGhostErrorIsExact(t *testing.T) {
	for _, mean := range []float64{1e-6, 1e-4, 1e-3, 0.01, 0.049, 0.051, 0.3, 1, 5, 20, 64} {
		for k := 2; k <= 8; k++ {
			g := Geometry{Kind: Cells, Lines: 1, K: uint8(k)}
			got, want := g.Ghost(mean), covered(k, mean)
			// Rounding leaves some 1e-14 of the terms, never less than the true value.
			if got < 0.96*want || got > 1.04*want+2e-14 {
				t.Errorf("%d cells, %g keys a line: %.6g, want %.6g", k, mean, got, want)
			}
		}
		for _, k := range []int{8, 16} {
			g := Geometry{Kind: Bitmap, Lines: 1, K: uint8(k)}
			want := 0.0
			for n := 1; n < 400; n++ {
				bit := 1 - math.Pow(1-float64(k)/LineBits, float64(n))
				want += poisson(n, mean) * math.Pow(bit, float64(k))
			}
			if got := g.Ghost(mean); math.Abs(got-want) > 1e-9*want {
				t.Errorf("%d bits, %g keys a line: %.9g, want %.9g", k, mean, got, want)
			}
		}
	}
	for _, g := range []Geometry{{Kind: Cells, Lines: 1, K: 4}, {Kind: Bitmap, Lines: 1, K: 8}} {
		if none, full := g.GhostError(0), g.GhostError(1e6); none != 0 || full != 1 {
			t.Errorf("%v: %g without keys and %g when full, want 0 and 1", g, none, full)
		}
	}
}

// wrongCounts computes the result of countModel with fine steps of time and with each binomial
// separately; see there.
func wrongCounts(g Geometry, perLine, tail float64) (sum float64) {
	const steps = 400
	atLeast := func(c int) float64 { return math.Pow(float64(c), -tail) }
	share := func(c int) float64 { return atLeast(c) - atLeast(c+1) }
	for i := range steps {
		u := (float64(i) + 0.5) / steps
		for j := range modelAdds {
			added, lifted := 0.0, atLeast(modelCounts+1)
			for c := 1; c <= modelCounts; c++ {
				if j < c {
					added += share(c) * float64(c) * binomial(j, c-1, u) / steps
				}
				// An add of another key lies before or after u.
				few := 0.0
				for n := 0; n <= min(j, c); n++ {
					few += binomial(n, c, u)
				}
				lifted += share(c) * max(0, 1-few)
			}
			sum += added * g.Ghost(perLine*lifted)
		}
	}
	for c := 1; c <= modelCounts; c++ {
		sum += share(c) * g.Ghost(perLine*atLeast(c+1))
	}
	return sum
}

func TestCountErrorIsTheModel(t *testing.T) {
	for _, tt := range []struct {
		k             uint8
		perLine, tail float64
	}{{6, 10, 1.2}, {4, 16, 1.2}, {5, 12, 0.8}, {8, 9, 2}} {
		g := Geometry{Kind: Cells, Lines: 1000, K: tt.k}
		got, want := g.CountErrorTail(uint64(1000*tt.perLine), tt.tail), wrongCounts(g, tt.perLine, tt.tail)
		t.Logf("k=%d, %g keys a line, tail %g: %.4g, model %.4g", tt.k, tt.perLine, tt.tail, got, want)
		if math.Abs(got-want) > 0.02*want {
			t.Errorf("k=%d, %g keys a line, tail %g: %.4g, want %.4g", tt.k, tt.perLine, tt.tail, got, want)
		}
	}
}

// TestSizeForChoosesK checks that no number of cells or bits per key takes less memory than the one
// that SizeFor chooses.
func TestSizeForChoosesK(t *testing.T) {
	chosen := make(map[uint8]bool)
	for _, tt := range []struct {
		kind Kind
		ks   []uint8
	}{{Cells, []uint8{3, 4, 5, 6, 7, 8}}, {Bitmap, []uint8{8, 16}}} {
		for rate := 0.3; rate > 1e-9; rate /= 2 {
			// Counts are so small that lines take all of the memory.
			target := Target{Kind: tt.kind, Signatures: 1_000_000, Rate: rate, Tail: 10}
			best, err := SizeFor(target)
			if err != nil {
				t.Fatal(err)
			}
			least := best.Lines
			for _, target.K = range tt.ks {
				g, err := SizeFor(target)
				if errors.Is(err, ErrGeometry) {
					continue // too few of them for such a rare error
				}
				if err != nil || g.K != target.K {
					t.Fatal(g, err)
				}
				least = min(least, g.Lines)
			}
			if best.Lines != least {
				t.Errorf("%v, error %g: %d lines with %d a key, %d would do", tt.kind, rate, best.Lines, best.K, least)
			}
			chosen[best.K] = true
		}
	}
	if len(chosen) < 5 {
		t.Errorf("chosen were %v, want many", chosen)
	}
}

func TestMixIsABijectionWithAvalanche(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for bit := range 64 {
		flips := 0
		const draws = 2000
		for range draws {
			x := rng.Uint64()
			flips += bits.OnesCount64(Mix(x) ^ Mix(x^1<<bit))
		}
		if mean := float64(flips) / draws; math.Abs(mean-32) > 1 {
			t.Errorf("bit %d changes %.1f bits in the mean, want 32", bit, mean)
		}
	}
}
