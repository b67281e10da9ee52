package experiment

import (
	"math"
	"testing"
)

func TestScientific(t *testing.T) {
	for v, want := range map[float64]string{
		0.0239: "2.390E-2", 0.0015564: "1.556E-3", 0: "0.000E+0", 1: "1.000E+0", 6.564e-8: "6.564E-8",
		1.23456e-10: "1.235E-10",
	} {
		if got := Scientific(v); got != want {
			t.Errorf("scientific(%g) = %s, want %s", v, got, want)
		}
	}
}

func TestRatio(t *testing.T) {
	// Perfectly correlated values: the ratio has no error at all.
	as, bs := []float64{2, 4, 6, 8}, []float64{1, 2, 3, 4}
	r, se, corr := ratio(as, bs, StatOf(as), StatOf(bs))
	if r != 2 || math.Abs(corr-1) > 1e-12 || se > 1e-7 {
		t.Errorf("ratio %g ± %g, correlation %g, want 2 ± 0, 1", r, se, corr)
	}
	if r, _, _ := ratio(as, []float64{0, 0, 0, 0}, StatOf(as), Stat{}); !math.IsNaN(r) {
		t.Errorf("x/0 = %g", r)
	}
	if d := deviation(math.NaN(), math.NaN(), 0); d != 0 {
		t.Errorf("none against none deviates by %g", d)
	}
	if d := deviation(1, 2, 0); !math.IsInf(d, 1) {
		t.Errorf("a difference without error deviates by %g", d)
	}
}

// TestRecoveredDraw repeats the inference of docs/study.md: what the paper's own
// draw of the numbers of insertions was, from the numbers that it prints.
func TestRecoveredDraw(t *testing.T) {
	draws := map[int]Experiment{}
	for _, e := range Experiments() {
		draws[e.Number] = e
	}
	for _, c := range PrintedCells() {
		e := draws[c.Experiment]
		if e.Total == 0 || c.Extension == "reduction" {
			continue
		}
		mean := c.Stat().Mean
		// The intuitive rate depends on the number of elements alone.
		if e.zeros != 0 && c.Extension == "intuitive" && c.M == "80K" {
			cells := 80_000.0
			share := math.Pow(mean, 1/float64(c.K))
			n := -math.Log1p(-share) * cells / float64(c.K)
			if want := float64(NumKeys - e.zeros); math.Abs(n-want) > 20 {
				t.Errorf("experiment %d, k = %d: rate %s is that of %.0f elements, want %.0f", c.Experiment, c.K, c.Mean, n, want)
			}
		}
		// A mean of 1000 rounds is a whole number of wrong insertions over 1000 l. Small means
		// determine it.
		if wrong := mean * PaperRounds * float64(e.Total); mean > 0 && wrong < 400 {
			half := wrong * 0.0005 / leading(mean)
			if wide := math.Abs(wrong - math.Round(wrong)); wide > half+0.002 {
				t.Errorf("experiment %d, %s, %s, k = %d: %s x 1000 x %d = %.3f insertions, not a whole number",
					c.Experiment, c.Extension, c.M, c.K, c.Mean, e.Total, wrong)
			}
		}
	}
}
