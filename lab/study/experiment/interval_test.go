package experiment

import (
	"math"
	"testing"
)

// TestIntervals: published limits, and that the limits are what they say: a mean at
// the limit gives as few, or as many, with a probability of 2.5 %.
func TestIntervals(t *testing.T) {
	for _, tt := range []struct{ n, low, high float64 }{ // tables of the Poisson distribution
		{0, 0, 3.6889}, {1, 0.025318, 5.5716}, {5, 1.6235, 11.6683}, {10, 4.7954, 18.3904}, {30, 20.2409, 42.8269},
	} {
		low, high := Garwood(tt.n)
		near(t, "Garwood, low", low, tt.low, 1e-4)
		near(t, "Garwood, high", high, tt.high, 1e-4)
	}
	poisson := func(n int, mean float64) (below float64) {
		term := math.Exp(-mean)
		for i := 0; i <= n; i++ {
			below += term
			term *= mean / float64(i+1)
		}
		return below
	}
	for n := 1; n < 60; n += 7 {
		low, high := Garwood(float64(n))
		near(t, "P(X <= n) at the high limit", poisson(n, high), 0.025, 1e-6)
		near(t, "P(X >= n) at the low limit", 1-poisson(n-1, low), 0.025, 1e-6)
	}
	for _, tt := range []struct {
		n, of     int
		low, high float64
	}{{0, 10, 0, 0.3085}, {1, 10, 0.002529, 0.44502}, {5, 10, 0.18709, 0.81291}, {10, 10, 0.69150, 1}, {8, 400, 0.0086755,
		0.039012}} {
		low, high := ClopperPearson(tt.n, tt.of)
		near(t, "Clopper-Pearson, low", low, tt.low, 1e-3)
		near(t, "Clopper-Pearson, high", high, tt.high, 1e-3)
	}
	// Both forms agree where one takes over from the other.
	a, b := ClopperPearson(20, 1_000_000)
	c, d := ClopperPearson(20, 1_000_001)
	near(t, "low, either form", a, c, 1e-3)
	near(t, "high, either form", b, d, 1e-3)
	if low, high := ClopperPearson(0, 0); low != 0 || high != 1 {
		t.Errorf("no tries: %g to %g", low, high)
	}
}

// TestRareDeviation: the deviate of an exact binomial test, by its own sum.
func TestRareDeviation(t *testing.T) {
	choose := func(n, k int) float64 {
		c := 1.0
		for i := range k {
			c = c * float64(n-i) / float64(i+1)
		}
		return c
	}
	for _, tt := range []struct {
		a, b   int
		ea, eb float64
	}{{1, 9, 1, 1}, {0, 12, 1, 2}, {15, 3, 1, 1}, {7, 7, 1, 1}, {20, 2, 3, 1}} {
		p, n := tt.ea/(tt.ea+tt.eb), tt.a+tt.b
		var below, above float64
		for i := 0; i <= n; i++ {
			term := choose(n, i) * math.Pow(p, float64(i)) * math.Pow(1-p, float64(n-i))
			if i <= tt.a {
				below += term
			}
			if i >= tt.a {
				above += term
			}
		}
		z := rareDeviation(float64(tt.a), tt.ea, float64(tt.b), tt.eb)
		tail := math.Min(0.5, math.Min(below, above))
		near(t, "tail", math.Erfc(math.Abs(z)/math.Sqrt2)/2, tail, 1e-6)
		if rate := float64(tt.a)/tt.ea - float64(tt.b)/tt.eb; rate*z < 0 {
			t.Errorf("%+v: deviate %g of the wrong sign", tt, z)
		}
	}
	if z := rareDeviation(0, 1, 0, 1); z != 0 {
		t.Errorf("nothing against nothing: %g", z)
	}
	// With many events it is the normal deviate.
	near(t, "1000 against 1100", rareDeviation(1000, 1, 1100, 1), -100/math.Sqrt(2100), 0.03)
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance*math.Abs(want)) && got != want {
		t.Errorf("%s: %.6g, want %.6g", what, got, want)
	}
}
