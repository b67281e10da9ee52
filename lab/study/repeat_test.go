package study

import (
	"math"
	"slices"
	"testing"
)

// TestCompareRare: numbers with few errors are compared by an exact test, numbers with none
// on both sides not at all, and the spread between draws widens the others.
func TestCompareRare(t *testing.T) {
	byID := map[string]comparison{}
	var all [][]row
	for _, e := range experiments() {
		// Rows that are what was printed.
		var rows []row
		for _, m := range e.sizes {
			for _, k := range hashCounts() {
				r := row{experiment: &e, m: 1000 * m, k: k, reduction: math.NaN()}
				for _, c := range printedCells() {
					if c.m != thousands(r.m) || c.k != k {
						continue
					}
					if c.experiment == e.intuitiveOf() && c.extension == "intuitive" {
						r.intuitive = c.stat()
					}
					if c.experiment == e.number && c.extension == "refined" {
						r.refined = c.stat()
					}
				}
				if r.refined.mean > 0 {
					r.reduction, r.reductionSE = r.intuitive.mean/r.refined.mean, ratioSE(r.intuitive, r.refined, 0)
				}
				rows = append(rows, r)
			}
		}
		all = append(all, rows)
	}
	for _, c := range compare(all, map[int]float64{4: 0.01}) {
		byID[c.id()] = c
		if !c.empty() && math.Abs(c.z) > 0.3 {
			t.Errorf("%v: print deviates from itself by %g", c.cell, c.z)
		}
	}
	cs := compare(all, nil)
	if n := empties(cs); n != 3 {
		t.Errorf("%d numbers say nothing, want the 3 of Experiment 8, 640K, k = 8", n)
	}
	if c := byID[cell{experiment: 4, extension: "refined", m: "320K", k: 8}.id()]; !c.rare() {
		t.Errorf("%v is not rare: %g events", c.cell, c.events)
	}
	// 0.3 % above print: 1 standard error and more, less with the draws.
	all[3][0].refined.mean *= 1.02
	for _, c := range compare(all, map[int]float64{4: 0.01}) {
		if c.experiment == 4 && c.extension == "refined" && c.m == "80K" && c.k == 4 && !(c.drawn > 0 && c.drawn < 0.95*c.z) {
			t.Errorf("deviation %g, with draws %g", c.z, c.drawn)
		}
	}
}

// TestPool: the combined offset of runs that agree is theirs, with an error that contains
// print's; Q tells those that do not.
func TestPool(t *testing.T) {
	e := experiments()[5]
	run := func(by float64) (rows []row) {
		for _, k := range hashCounts() {
			for _, c := range printedCells() {
				if c.experiment == 6 && c.extension == "refined" && c.m == "80K" && c.k == k {
					s := c.stat()
					rows = append(rows, row{experiment: &e, m: 80_000, k: k, refined: stat{s.n, s.mean * (1 + by), s.sd}})
				}
			}
		}
		return rows
	}
	same := pool([][]row{run(0.01), run(0.01), run(0.01)}, 0)
	_, ours, theirs := offset(run(0.01))
	near(t, "mean", same.mean, 0.01, 1e-9)
	near(t, "error", same.se, math.Sqrt(ours*ours/3+theirs*theirs), 1e-6)
	if same.heterogeneity > 1e-9 {
		t.Errorf("Q = %g of equal runs", same.heterogeneity)
	}
	if apart := pool([][]row{run(0.05), run(-0.05)}, 0); apart.heterogeneity < 50 {
		t.Errorf("Q = %g of runs ten per cent apart", apart.heterogeneity)
	}
	if wide := pool([][]row{run(0.01)}, 0.1); wide.se < 0.14 {
		t.Errorf("error %g does not contain the draws of both", wide.se)
	}
}

// TestAgainstEachOther: a run agrees with itself, and not with one twice as high.
func TestAgainstEachOther(t *testing.T) {
	e := experiments()[0]
	rows := func(f float64) [][]row {
		return [][]row{{cellStat{80_000, 4, 1000, 0.02, 0.001, 0.005 * f, 0.0007, 0.3}.row(&e), cellStat{320_000, 8, 1000, 4e-6, 2e-5, 0, 0, 0}.row(&e)}}
	}
	if n, out, _ := againstEachOther(rows(1), rows(1), nil); n != 4 || out != 0 {
		t.Errorf("%d numbers, %d outside, want 4 and 0", n, out)
	}
	if _, out, drawn := againstEachOther(rows(1), rows(2), nil); out != 2 || drawn != 2 {
		t.Errorf("%d and %d outside, want the rate and the reduction", out, drawn)
	}
	if _, out, drawn := againstEachOther(rows(1), rows(1.05), map[int]float64{1: 0.1}); out != 2 || drawn != 0 {
		t.Errorf("%d outside, %d with draws, want 2 and 0", out, drawn)
	}
}

// TestSuppositions: a shuffle of any kind keeps what is inserted, and the last supposition
// divides by what was expected.
func TestSuppositions(t *testing.T) {
	s := newSimulator(1)
	e := experiments()[5]
	counts := e.drawCounts(1, DrawFixed, 0)
	s.shuffle(counts, nil)
	unshuffled := slices.Clone(s.sequence)
	s.exchange(stream(1, "exchange"))
	if slices.Equal(unshuffled, s.sequence) {
		t.Error("nothing was exchanged")
	}
	slices.Sort(s.sequence)
	if !slices.Equal(unshuffled, s.sequence) {
		t.Error("the exchange lost insertions")
	}
	for _, n := range []int{6, 8} {
		e := experiments()[n-1]
		zeros, total := 0, 0
		for _, c := range tilted(&e, 1) {
			zeros += bit(c == 0)
			total += int(c)
		}
		if total != e.total || e.zeros != 0 && zeros != e.zeros {
			t.Errorf("experiment %d: %d zeros, total %d, want %d and %d", n, zeros, total, e.zeros, e.total)
		}
	}
	c := Config{Rounds: 2, Seed: 1, Draw: DrawPrinted, Family: FamilyUniversal}
	rates := map[string]float64{}
	for _, sup := range suppositions(10) {
		row, err := c.suppose(t.Context(), s, &e, &sup, func(float64) {})
		if err != nil || len(row.Cells) != 3 {
			t.Fatalf("%s: %+v, %v", sup.name, row, err)
		}
		rates[sup.name] = row.Cells[0].MeanR
	}
	var plain float64
	for round := range 2 {
		r := s.run(&e, 1, DrawPrinted, drawsM, 4, round, e.drawCounts(1, DrawPrinted, 0))
		plain += rateOf(&e, &r, true) / 2
	}
	near(t, "over the insertions expected", rates[supposeMixed], plain*99_563/100_000, 1e-9)
	for name, rate := range rates {
		if rate < 0.8*plain || rate > 1.4*plain || name != supposeMixed && rate == plain {
			t.Errorf("%s: %g, as in the tables %g", name, rate, plain)
		}
	}
	if a, of := wholeRates(8, 198_053); a != of || of < 5 {
		t.Errorf("%d of %d rates of Experiment 8 are whole over 198,053", a, of)
	}
	if b, of := wholeRates(8, 200_000); 2*b > of {
		t.Errorf("%d of %d are whole over 200,000 too", b, of)
	}
}

func TestEqual(t *testing.T) {
	r := &equalResult{}
	for _, m := range equalSizes() {
		for _, k := range equalHashes() {
			// The refined extension has the rate of an intuitive one of twice the size.
			rate := func(m float64) float64 { return math.Pow(m, -2) / float64(k) }
			r.Rows = append(r.Rows, equalRow{1, 1000 * m, k, rate(float64(m)), rate(2 * float64(m))})
		}
	}
	cells, ok := r.lessCells(160_000, 6)
	if !ok {
		t.Fatal("no size found")
	}
	near(t, "cells", cells, 80_000, 1e-9)
	if k, ok := r.fewerHashes(160_000, 8); !ok || k != 2 {
		t.Errorf("least k %d, %v, want 2", k, ok)
	}
	if _, ok := r.fewerHashes(160_000, 2); ok {
		t.Error("fewer than the least k")
	}
	if _, ok := r.lessCells(44_000, 6); ok {
		t.Error("a size below the grid")
	}
}

func TestOrderMatters(t *testing.T) {
	if n := orderMatters(2); n != 0 {
		t.Errorf("%d intuitive cells depend on the order", n)
	}
}

// TestWorkedExample: the numbers that Yan & Cho print in section IV, and their Table II.
func TestWorkedExample(t *testing.T) {
	w := workedExample()
	if w.a != 2 || w.b != 3 || w.merged != 6 || w.intuitive != 8 || w.refined != 7 {
		t.Errorf("%+v", w)
	}
	want := [][]string{
		{"5", "5", "4", "4", "4", "4"}, {"4", "4", "3", "3", "3", "3"}, {"3", "3", "2", "2", "2", "2"},
		{"2", "2", "1", "1", "1", "1"}, {"1", "1", "0", "1", "1", "0"},
	}
	if !slices.EqualFunc(w.growth, want, slices.Equal) {
		t.Errorf("Table II: %v", w.growth)
	}
}
