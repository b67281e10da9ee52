package learn

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// cappedPlain is the oracle of Capped: each number is compared with all others.
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

// TestCapped compares caps with the oracle, and checks that fewer liars than must agree add nothing to
// what no other origin has.
func TestCapped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(rapid.Map(rapid.IntRange(0, 50), func(n int) float64 { return float64(n) }), 0, 25).
			Draw(t, "counts")
		agree := rapid.IntRange(1, 5).Draw(t, "agree")
		want := cappedPlain(counts, agree)
		if len(counts) < agree {
			want = 0
		}
		if got := Capped(slices.Clone(counts), agree); got != want {
			t.Fatalf("%v capped at the %d. largest: %v, want %v", counts, agree, got, want)
		}
		liars := make([]float64, 20)
		for i := range agree - 1 {
			liars[i] = 1e6
		}
		if got := Capped(liars, agree); got != 0 {
			t.Fatalf("%d liars add %v", agree-1, got)
		}
	})
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

// TestOwnCountsInFull checks that caps and scales never touch an origin's own counts.
func TestOwnCountsInFull(t *testing.T) {
	own := Counts{7, 90}
	got := Combined(own, []Counts{{1000, 0}, {0, 5}, {2, 5}}, []float64{1, 1, 1}, []float64{1, 1, 1})
	if want := (Counts{7 + 4, 90 + 10}); got != want {
		t.Errorf("combined %v, want %v", got, want)
	}
	if got := Combined(own, nil, nil, nil); got != own {
		t.Errorf("alone %v, want %v", got, own)
	}
}

// TestAgreeing checks the number of origins that must agree.
func TestAgreeing(t *testing.T) {
	for m, want := range map[int]int{1: 2, 10: 2, 11: 2, 12: 3, 18: 4, 20: 4, 500: 4} {
		if got := Agreeing(m); got != want {
			t.Errorf("of %d origins %d must agree, want %d", m, got, want)
		}
	}
}

// TestBeside checks the bound on a single other origin: at most as many reports as the own ones, and no
// delivery, whatever it claims.
func TestBeside(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.Map(rapid.IntRange(-5, 1000), func(n int) float64 { return float64(n) })
		own := Counts{max(0, count.Draw(t, "reported")), max(0, count.Draw(t, "delivered"))}
		other := Counts{count.Draw(t, "other reported"), count.Draw(t, "other delivered")}
		got := Combined(own, []Counts{other}, []float64{1}, []float64{1})
		if got.Delivered != own.Delivered || got.Reported < own.Reported || got.Reported > 2*own.Reported ||
			got.Reported > own.Reported+max(0, other.Reported) {
			t.Fatalf("%v beside %v: %v", own, other, got)
		}
		for single, want := range map[bool]Counts{true: got, false: {own.Reported + other.Reported,
			own.Delivered + other.Delivered}} {
			if sum := (&Others{Single: single}).Add(own, other); sum != want {
				t.Fatalf("single %v: %v, want %v", single, sum, want)
			}
		}
	})
}
