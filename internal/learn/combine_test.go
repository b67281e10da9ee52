package learn

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// cappedPlain is the oracle of what counts add together: each number is compared with all others.
func cappedPlain(counts []float64, t int) (sum float64) {
	for _, c := range counts {
		for c > 0 {
			agree := 0
			for _, other := range counts {
				if other >= c {
					agree++
				}
			}
			if agree >= t {
				break
			}
			below := 0.0
			for _, other := range counts {
				if other < c {
					below = max(below, other)
				}
			}
			c = below
		}
		sum += c
	}
	return sum
}

// factors returns n factors of 1.
func factors(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = 1
	}
	return out
}

// TestBeside compares what an origin and others know with the oracle. The origin's own reports agree with reports of
// the others, its deliveries do not, and both count in full.
func TestBeside(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.Map(rapid.IntRange(-5, 50), func(n int) float64 { return float64(n) })
		both := rapid.Custom(func(t *rapid.T) Counts { return Counts{count.Draw(t, "reported"), count.Draw(t, "delivered")} })
		own := both.Draw(t, "own")
		own.Reported, own.Delivered = max(0, own.Reported), max(0, own.Delivered)
		others := rapid.SliceOfN(both, 0, 25).Draw(t, "others")
		agree := Agreeing(len(others))
		reported, delivered := []float64{own.Reported}, []float64{}
		for _, c := range others {
			reported, delivered = append(reported, max(0, c.Reported)), append(delivered, max(0, c.Delivered))
		}
		want := Counts{own.Reported, own.Delivered + cappedPlain(delivered, agree)}
		limit := 0.0 // what t of all, the origin included, have
		for _, c := range reported {
			n := 0
			for _, other := range reported {
				if other >= c {
					n++
				}
			}
			if n >= agree {
				limit = max(limit, c)
			}
		}
		for _, c := range reported[1:] {
			want.Reported += min(c, limit)
		}
		known := Together(others, factors(len(others)), factors(len(others)))
		if got := Beside(own, known, len(others)); got != want {
			t.Fatalf("%v beside %v: %v, want %v", own, others, got, want)
		}
	})
}

// TestLiars checks that fewer liars than must agree add nothing that no other origin has, and with an origin's own
// reports at most as many each.
func TestLiars(t *testing.T) {
	for _, m := range []int{1, 2, 4, 10, 11, 20, 30} {
		liars := make([]Counts, m)
		for i := range Agreeing(m) - 1 {
			liars[i] = Counts{1e6, 1e6}
		}
		known := Together(liars, factors(m), factors(m))
		if got := Beside(Counts{0, 7}, known, m); got != (Counts{0, 7}) {
			t.Errorf("liars of %d add %v", m, got)
		}
		want := Counts{3 * float64(Agreeing(m)), 7}
		if got := Beside(Counts{3, 7}, known, m); got != want {
			t.Errorf("liars of %d add up to %v, want %v", m, got, want)
		}
	}
}

// TestScales checks that no origin has more than twice the median afterwards, and that no origin
// gains.
func TestScales(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		totals := rapid.SliceOfN(rapid.Map(rapid.IntRange(0, 5000), func(n int) float64 { return float64(n) }), 1, 25).
			Draw(t, "totals")
		sorted := slices.Sorted(slices.Values(totals))
		median := sorted[(len(sorted)-1)/2]
		for i, f := range Scales(totals) {
			if f < 0 || f > 1 || totals[i]*f > 2*median+1e-6 {
				t.Fatalf("factor %v of %v", f, totals)
			}
		}
	})
}

// TestAgreeing checks the number of origins that must agree.
func TestAgreeing(t *testing.T) {
	for m, want := range map[int]int{1: 2, 10: 2, 11: 2, 12: 3, 18: 4, 20: 4, 500: 4} {
		if got := Agreeing(m); got != want {
			t.Errorf("of %d origins %d must agree, want %d", m, got, want)
		}
	}
}
