package experiment

import (
	"math"
	"slices"
	"testing"
)

// TestCompareRare: numbers with few errors are compared by an exact test, numbers with none
// on both sides not at all, and the spread between draws widens the others.
func TestCompareRare(t *testing.T) {
	byID := map[string]Comparison{}
	var all [][]Row
	for _, e := range Experiments() {
		// Rows that are what was printed.
		var rows []Row
		for _, m := range e.Sizes {
			for _, k := range HashCounts() {
				r := Row{Experiment: &e, M: 1000 * m, K: k, Reduction: math.NaN()}
				for _, c := range PrintedCells() {
					if c.M != Thousands(r.M) || c.K != k {
						continue
					}
					if c.Experiment == e.IntuitiveOf() && c.Extension == "intuitive" {
						r.Intuitive = c.Stat()
					}
					if c.Experiment == e.Number && c.Extension == "refined" {
						r.Refined = c.Stat()
					}
				}
				if r.Refined.Mean > 0 {
					r.Reduction, r.reductionSE = r.Intuitive.Mean/r.Refined.Mean, ratioSE(r.Intuitive, r.Refined, 0)
				}
				rows = append(rows, r)
			}
		}
		all = append(all, rows)
	}
	for _, c := range Compare(all, map[int]float64{4: 0.01}) {
		byID[c.ID()] = c
		if !c.Empty() && math.Abs(c.Z) > 0.3 {
			t.Errorf("%v: print deviates from itself by %g", c.Cell, c.Z)
		}
	}
	cs := Compare(all, nil)
	if n := Empties(cs); n != 3 {
		t.Errorf("%d numbers say nothing, want the 3 of Experiment 8, 640K, k = 8", n)
	}
	if c := byID[Cell{Experiment: 4, Extension: "refined", M: "320K", K: 8}.ID()]; !c.Rare() {
		t.Errorf("%v is not rare: %g events", c.Cell, c.events)
	}
	// 0.3 % above print: 1 standard error and more, less with the draws.
	all[3][0].Refined.Mean *= 1.02
	for _, c := range Compare(all, map[int]float64{4: 0.01}) {
		if c.Experiment == 4 && c.Extension == "refined" && c.M == "80K" && c.K == 4 && !(c.Drawn > 0 && c.Drawn < 0.95*c.Z) {
			t.Errorf("deviation %g, with draws %g", c.Z, c.Drawn)
		}
	}
}

// TestPool: the combined offset of runs that agree is theirs, with an error that contains print's;
// Q shows the others.
func TestPool(t *testing.T) {
	e := Experiments()[5]
	run := func(by float64) (rows []Row) {
		for _, k := range HashCounts() {
			for _, c := range PrintedCells() {
				if c.Experiment == 6 && c.Extension == "refined" && c.M == "80K" && c.K == k {
					s := c.Stat()
					rows = append(rows, Row{Experiment: &e, M: 80_000, K: k, Refined: Stat{s.N, s.Mean * (1 + by), s.SD}})
				}
			}
		}
		return rows
	}
	same := Pool([][]Row{run(0.01), run(0.01), run(0.01)}, 0)
	_, ours, theirs := Offset(run(0.01))
	near(t, "mean", same.Mean, 0.01, 1e-9)
	near(t, "error", same.SE, math.Sqrt(ours*ours/3+theirs*theirs), 1e-6)
	if same.Heterogeneity > 1e-9 {
		t.Errorf("Q = %g of equal runs", same.Heterogeneity)
	}
	if apart := Pool([][]Row{run(0.05), run(-0.05)}, 0); apart.Heterogeneity < 50 {
		t.Errorf("Q = %g of runs ten per cent apart", apart.Heterogeneity)
	}
	if wide := Pool([][]Row{run(0.01)}, 0.1); wide.SE < 0.14 {
		t.Errorf("error %g does not contain the draws of both", wide.SE)
	}
}

// TestAgainstEachOther: a run agrees with itself, and not with one twice as high.
func TestAgainstEachOther(t *testing.T) {
	e := Experiments()[0]
	rows := func(f float64) [][]Row {
		return [][]Row{{cellStat{80_000, 4, 1000, 0.02, 0.001, 0.005 * f, 0.0007, 0.3}.Row(&e),
			cellStat{320_000, 8, 1000, 4e-6, 2e-5, 0, 0, 0}.Row(&e)}}
	}
	if n, out, _ := AgainstEachOther(rows(1), rows(1), nil); n != 4 || out != 0 {
		t.Errorf("%d numbers, %d outside, want 4 and 0", n, out)
	}
	if _, out, drawn := AgainstEachOther(rows(1), rows(2), nil); out != 2 || drawn != 2 {
		t.Errorf("%d and %d outside, want the rate and the reduction", out, drawn)
	}
	if _, out, drawn := AgainstEachOther(rows(1), rows(1.05), map[int]float64{1: 0.1}); out != 2 || drawn != 0 {
		t.Errorf("%d outside, %d with draws, want 2 and 0", out, drawn)
	}
}

// TestSuppositions: a shuffle of any kind keeps what is inserted, and the last supposition
// divides by what was expected.
func TestSuppositions(t *testing.T) {
	s := NewSimulator(1)
	e := Experiments()[5]
	counts := e.drawCounts(1, DrawFixed, 0)
	s.Shuffle(counts, nil)
	unshuffled := slices.Clone(s.Sequence)
	s.exchange(Stream(1, "exchange"))
	if slices.Equal(unshuffled, s.Sequence) {
		t.Error("nothing was exchanged")
	}
	slices.Sort(s.Sequence)
	if !slices.Equal(unshuffled, s.Sequence) {
		t.Error("the exchange lost insertions")
	}
	for _, n := range []int{6, 8} {
		e := Experiments()[n-1]
		zeros, total := 0, 0
		for _, c := range tilted(&e, 1) {
			zeros += Bit(c == 0)
			total += int(c)
		}
		if total != e.Total || e.zeros != 0 && zeros != e.zeros {
			t.Errorf("experiment %d: %d zeros, total %d, want %d and %d", n, zeros, total, e.zeros, e.Total)
		}
	}
	c := Config{Rounds: 2, Seed: 1, Draw: DrawPrinted, Family: FamilyUniversal}
	rates := map[string]float64{}
	for _, sup := range Suppositions(10) {
		row, err := c.suppose(t.Context(), s, &e, &sup, func(float64) {})
		if err != nil || len(row.Cells) != 3 {
			t.Fatalf("%s: %+v, %v", sup.Name, row, err)
		}
		rates[sup.Name] = row.Cells[0].MeanR
	}
	var plain float64
	for round := range 2 {
		r := s.run(&e, 1, DrawPrinted, DrawsM, 4, round, e.drawCounts(1, DrawPrinted, 0))
		plain += rateOf(&e, &r, true) / 2
	}
	near(t, "over the insertions expected", rates[supposeMixed], plain*99_563/100_000, 1e-9)
	for name, rate := range rates {
		if rate < 0.8*plain || rate > 1.4*plain || name != supposeMixed && rate == plain {
			t.Errorf("%s: %g, as in the tables %g", name, rate, plain)
		}
	}
	if a, of := WholeRates(8, 198_053); a != of || of < 5 {
		t.Errorf("%d of %d rates of Experiment 8 are whole over 198,053", a, of)
	}
	if b, of := WholeRates(8, 200_000); 2*b > of {
		t.Errorf("%d of %d are whole over 200,000 too", b, of)
	}
}

func TestEqual(t *testing.T) {
	r := &EqualResult{}
	for _, m := range EqualSizes() {
		for _, k := range EqualHashes() {
			// The refined extension has the rate of an intuitive one of twice the size.
			rate := func(m float64) float64 { return math.Pow(m, -2) / float64(k) }
			r.Rows = append(r.Rows, equalRow{1, 1000 * m, k, rate(float64(m)), rate(2 * float64(m))})
		}
	}
	cells, ok := r.LessCells(160_000, 6)
	if !ok {
		t.Fatal("no size found")
	}
	near(t, "cells", cells, 80_000, 1e-9)
	if k, ok := r.FewerHashes(160_000, 8); !ok || k != 2 {
		t.Errorf("least k %d, %v, want 2", k, ok)
	}
	if _, ok := r.FewerHashes(160_000, 2); ok {
		t.Error("fewer than the least k")
	}
	if _, ok := r.LessCells(44_000, 6); ok {
		t.Error("a size below the grid")
	}
}
