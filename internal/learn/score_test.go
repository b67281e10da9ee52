package learn

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestTail compares the chi-square tail with published critical values.
//
// Source: NIST/SEMATECH e-Handbook of Statistical Methods, section 1.3.6.7.4, upper-tail critical
// values of the chi-square distribution.
func TestTail(t *testing.T) {
	for _, tt := range []struct {
		freedom     int
		value, tail float64
	}{
		{2, 4.605, 0.10}, {2, 5.991, 0.05}, {2, 9.210, 0.01}, {2, 13.816, 0.001},
		{4, 9.488, 0.05}, {10, 18.307, 0.05}, {10, 29.588, 0.001}, {20, 31.410, 0.05},
		{20, 37.566, 0.01}, {40, 55.758, 0.05}, {60, 79.082, 0.05}, {100, 124.342, 0.05}, {100, 149.449, 0.001},
	} {
		if got := tail(tt.value/2, tt.freedom/2); math.Abs(got-tt.tail) > 0.002*tt.tail {
			t.Errorf("%d degrees of freedom, %v: tail %v, want %v", tt.freedom, tt.value, got, tt.tail)
		}
	}
}

// TestTailOfLargeValues checks that both ways to compute the tail agree where they meet, and that the
// tail falls with the value and rises with the degrees of freedom.
func TestTailOfLargeValues(t *testing.T) {
	for k := 500; k <= 900; k += 50 {
		below, above := tail(699.999, k), tail(700.001, k)
		if below < above-1e-9 || below-above > 1e-4 {
			t.Errorf("k %d: %v below, %v above", k, below, above)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		m, k := rapid.Float64Range(0, 2000).Draw(t, "m"), rapid.IntRange(1, MaxTokens).Draw(t, "k")
		p := tail(m, k)
		if p < 0 || p > 1 || math.IsNaN(p) || tail(m+1, k) > p+1e-9 || tail(m, k+1) < p-1e-9 {
			t.Fatalf("tail %v, next %v and %v", p, tail(m+1, k), tail(m, k+1))
		}
	})
}

func drawCounts(t *rapid.T, name string, most int) Counts {
	return Counts{float64(rapid.IntRange(0, most).Draw(t, name+" reported")),
		float64(rapid.IntRange(0, most).Draw(t, name+" delivered"))}
}

func drawTotals(t *rapid.T) Totals {
	return Totals{Counts: Counts{float64(rapid.IntRange(1, 1000).Draw(t, "nS")),
		float64(rapid.IntRange(1, 10_000).Draw(t, "nD"))}, Share: rapid.Float64Range(0, 1).Draw(t, "share")}
}

// TestProbability checks the bounds of the probability, and that reports raise it and deliveries
// lower it.
func TestProbability(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		totals := drawTotals(t)
		c, judge := drawCounts(t, "feature", 500), totals.Judge()
		p := judge.Probability(c)
		if p <= 0 || p >= 1 || math.IsNaN(p) {
			t.Fatalf("probability %v of %v", p, c)
		}
		next := judge.Probability(Counts{c.Reported, c.Delivered + 1 + 1/totals.share()})
		if c.Reported > 0 && next > p+1e-9 {
			t.Fatalf("with additional deliveries %v rises from %v to %v", c, p, next)
		}
	})
}

// TestScore compares the score with the formula of docs/learning.md, feature by feature.
func TestScore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		totals := drawTotals(t)
		totals.Reported += LeastReports
		counts := make([]Counts, rapid.IntRange(1, MaxTokens).Draw(t, "features"))
		alike := drawCounts(t, "all", 2000)
		for i := range counts {
			if counts[i] = alike; i%3 > 0 {
				counts[i] = drawCounts(t, "feature", 60)
			}
		}
		var spam, ham float64
		used, judge := 0, totals.Judge()
		for _, c := range counts {
			share := max(totals.Share, 0.02)
			wanted := max(totals.Delivered-totals.Reported/share, 0.1*totals.Delivered)
			h := max(0, c.Delivered-(c.Reported-math.Sqrt(c.Reported))/share)
			f := 0.5
			if c.Reported+h > 0 {
				p := c.Reported / totals.Reported / (c.Reported/totals.Reported + h/wanted)
				n := c.Reported + h*min(1, totals.Reported/wanted)
				f = (0.5 + n*p) / (1 + n)
			}
			if got := judge.Probability(c); math.Abs(got-f) > 1e-12 {
				t.Fatalf("%v has probability %v, want %v", c, got, f)
			}
			if math.Abs(math.Abs(f-0.5)-0.1) < 1e-12 {
				t.Skip("rounding decides")
			}
			if math.Abs(f-0.5) >= 0.1 {
				used++
				spam, ham = spam+math.Log(1-f), ham+math.Log(f)
			}
		}
		want := Result{}
		if used > 0 {
			want = Result{tail(-ham, used) - tail(-spam, used), used}
		}
		if want.Score > 0 && 2*used < len(counts) {
			want = Result{}
		}
		if got := Score(&totals, counts); got.Used != want.Used || math.Abs(got.Score-want.Score) > 1e-9 {
			t.Fatalf("%+v, want %+v", got, want)
		}
	})
}

// TestUnknown checks that a message without known features, and a network without enough reports,
// have no score.
func TestUnknown(t *testing.T) {
	enough := Totals{Counts: Counts{LeastReports, 1000}, Share: 0.1}
	few := enough
	few.Reported--
	undelivered := enough
	undelivered.Delivered = 0
	known := []Counts{{LeastReports, 0}, {LeastReports, 0}, {LeastReports, 0}}
	for _, tt := range []struct {
		name   string
		totals Totals
		counts []Counts
		scored bool
	}{
		{"nothing known", enough, make([]Counts, 50), false},
		{"too few reports", few, known, false},
		{"nothing delivered", undelivered, known, false},
		{"no feature", enough, nil, false},
		{"enough", enough, known, true},
	} {
		if got := Score(&tt.totals, tt.counts); (got.Score != 0) != tt.scored || (got.Used != 0) != tt.scored {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// TestScoreOfCopies checks that features seen in reported mail alone give a score near 1, and
// features seen in delivered mail alone a score near -1.
func TestScoreOfCopies(t *testing.T) {
	totals := Totals{Counts: Counts{100, 5000}, Share: 0.1}
	var spam, ham, both []Counts
	for range 20 {
		spam, ham = append(spam, Counts{30, 300}), append(ham, Counts{0, 400})
	}
	both = append(append(both, spam...), ham...)
	if s := Score(&totals, spam).Score; s < 0.999 {
		t.Errorf("score of reported features %v", s)
	}
	if s := Score(&totals, ham).Score; s > -0.999 {
		t.Errorf("score of delivered features %v", s)
	}
	if s := Score(&totals, both).Score; math.Abs(s) > 0.5 {
		t.Errorf("score of both kinds %v", s)
	}
}

// TestScoreBounds checks that a score is from -1 to 1 and does not depend on the order of features.
func TestScoreBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		totals := drawTotals(t)
		totals.Reported += LeastReports
		counts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Counts { return drawCounts(t, "a", 300) }), 0,
			MaxTokens).Draw(t, "counts")
		got := Score(&totals, counts)
		if math.IsNaN(got.Score) || got.Score < -1 || got.Score > 1 || got.Used > len(counts) {
			t.Fatalf("%+v", got)
		}
		again := Score(&totals, rapid.Permutation(counts).Draw(t, "order"))
		if math.Abs(got.Score-again.Score) > 1e-9 || got.Used != again.Used {
			t.Fatalf("%+v became %+v in another order", got, again)
		}
	})
}

// TestShare checks that the share is found of reports that are drawn at random.
func TestShare(t *testing.T) {
	if _, ok := Shown([]Counts{{3, 10}}); ok {
		t.Error("three reports show a share")
	}
	share, n := 0.0, uint64(0)
	for range 200 {
		shown, ok := Shown([]Counts{{4, 40}, {10, 100}, {5, 5000}, {8, 80}})
		if !ok {
			t.Fatal("nothing shown")
		}
		n++
		share = Averaged(share, shown, n)
	}
	if math.Abs(share-0.1) > 0.001 {
		t.Errorf("share %v, want 0.1", share)
	}
	for range 500 {
		n++
		share = Averaged(share, 0, n)
	}
	if share != LeastShare {
		t.Errorf("share %v, want the floor", share)
	}
}

// TestUnfamiliar checks that a message with few known features is never like reported mail, and that it may be
// like other mail.
func TestUnfamiliar(t *testing.T) {
	totals := Totals{Counts: Counts{Reported: 100, Delivered: 1000}, Share: 0.5}
	for known := range 21 {
		spam, ham := make([]Counts, 20), make([]Counts, 20)
		for i := range known {
			spam[i], ham[i] = Counts{Reported: 40, Delivered: 80}, Counts{Delivered: 300}
		}
		if got := Score(&totals, spam); (got.Score > 0.5) != (known >= 10) || got.Score < 0 {
			t.Errorf("%d of 20 features known from spam: %+v", known, got)
		}
		if got := Score(&totals, ham); known > 5 && got.Score > -0.9 {
			t.Errorf("%d of 20 features known from delivered mail: %+v", known, got)
		}
	}
}
