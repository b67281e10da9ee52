package paper

import (
	"math"
	"math/big"
	"testing"

	"github.com/bulkhead-mail/bulkhead/filter"
)

func near(got, want, relative float64) bool { return math.Abs(got-want) <= relative*math.Abs(want) }

// TestTableI checks Yan & Cho, Table I, all rows to the printed digits.
func TestTableI(t *testing.T) {
	for _, row := range []struct {
		c  float64
		k  int
		cr float64
		f  float64
	}{{16, 4, 10, 2.394e-3}, {10, 8, 16, 8.455e-3}, {16, 8, 10, 5.745e-4}, {40, 8, 4, 1.166e-6}, {40, 16, 4, 1.948e-8}} {
		if got := FalsePositiveRateApprox(row.c, row.k); !near(got, row.f, 3e-4) {
			t.Errorf("m/n = %g, k = %d: %.4g, printed %.4g", row.c, row.k, got, row.f)
		}
		if got := FalsePositiveRate(uint64(row.c*1e8), 1e8, row.k); !near(got, row.f, 3e-4) {
			t.Errorf("m/n = %g, k = %d: exact form %.4g, printed %.4g", row.c, row.k, got, row.f)
		}
		if got := CompressionRate(row.c); got != row.cr {
			t.Errorf("m/n = %g: compression %g, printed %g", row.c, got, row.cr)
		}
	}
}

func TestOptimalHashes(t *testing.T) {
	for _, c := range []float64{2, 8, 10, 16, 32} {
		best := OptimalHashes(c)
		least := math.Inf(1)
		for k := 1; k < 60; k++ {
			least = math.Min(least, FalsePositiveRateApprox(c, k))
		}
		if got := MinFalsePositiveRate(c); got > least || !near(got, least, 0.03) {
			t.Errorf("m/n = %g: f_min %g at k = %g, least over whole k %g", c, got, best, least)
		}
		if !near(MinFalsePositiveRate(c), math.Pow(0.6185, c), 0.01) {
			t.Errorf("m/n = %g: f_min %g is not 0.6185^(m/n)", c, MinFalsePositiveRate(c))
		}
	}
	// Jiang & Zhao, Fig. 1: 22 functions are best at m/n = 32.
	if k := math.Round(OptimalHashes(32)); k != 22 {
		t.Errorf("best k at m/n = 32 is %g, the paper says 22", k)
	}
}

func TestBitsPerElement(t *testing.T) {
	for _, k := range []int{1, 4, 8, 22} {
		for _, p := range []float64{0.5, 1e-2, 1e-6, 1e-12} {
			if got := FalsePositiveRateApprox(filter.BitsPerElement(k, p), k); !near(got, p, 1e-9) {
				t.Errorf("formula 2 of formula 3 (k = %d, p = %g) = %g", k, p, got)
			}
		}
	}
	if got, want := TwoPartRate(16, 6, 2), FalsePositiveRateApprox(16, 6)*EigenvalueRate(16, 2); got != want ||
		got > 1.3e-4 {
		t.Errorf("formula 5 = %g, want the product %g", got, want)
	}
}

// TestCellCount compares Eq. 3 with exact arithmetic.
func TestCellCount(t *testing.T) {
	const m, n, k = 50, 20, 3
	p, q := big.NewRat(1, m), big.NewRat(m-1, m)
	var total float64
	for j := uint64(0); j <= n*k; j++ {
		want := new(big.Rat).SetInt(new(big.Int).Binomial(n*k, int64(j)))
		for range j {
			want.Mul(want, p)
		}
		for range n*k - j {
			want.Mul(want, q)
		}
		exact, _ := want.Float64()
		if got := CellCount(m, n, k, j); !near(got, exact, 1e-10) {
			t.Errorf("P(c = %d) = %g, want %g", j, got, exact)
		}
		total += CellCount(m, n, k, j)
	}
	if !near(total, 1, 1e-10) {
		t.Errorf("probabilities sum to %g", total)
	}
	if CellCount(m, n, k, n*k+1) != 0 || CellCount(1, n, k, n*k) != 1 || CellCount(1, n, k, 3) != 0 {
		t.Error("impossible counts have a probability")
	}
}

func TestDCCFalsePositive(t *testing.T) {
	const m, n, k = 1000, 2000, 3 // 6 increases a cell
	var tail float64
	for j := uint64(12); j <= 6000; j++ {
		tail += CellCount(m, n, k, j)
	}
	if got, want := DCCFalsePositive(m, n, k, 12, 0), math.Pow(tail, k); !near(got, want, 1e-9) {
		t.Errorf("Eq. 4 = %g, want %g", got, want)
	}
	var cells float64
	for j := uint64(12); j <= 14; j++ {
		cells += CellCount(m, n, k, j)
	}
	if got, want := DCCFalsePositive(m, n, k, 12, 14), math.Pow(cells, k); !near(got, want, 1e-9) {
		t.Errorf("Eq. 4 up to 14 = %g, want %g", got, want)
	}
	if got := DCCFalsePositive(m, n, k, 0, 0); !near(got, 1, 1e-9) {
		t.Errorf("threshold 0: %g, want 1", got)
	}
}

// TestBulkFalsePositive measures the formula for skewed counts: unseen elements that a refined
// filter shows at or above the threshold.
func TestBulkFalsePositive(t *testing.T) {
	const n, k, threshold = 20_000, 3, 20
	m := uint64(n) // one cell per element
	r := must(NewRefined(testFamily(t, m, k), FixedCells(5)))(t)
	rnd := testRandom()
	heavy := 0
	var stream []int
	for i := range n {
		// P(C >= c) = c^-1.2
		c := int(math.Pow(1-rnd.Float64(), -1/1.2))
		if c >= threshold {
			heavy++
		}
		for range min(c, 1000) {
			stream = append(stream, i)
		}
	}
	rnd.Shuffle(len(stream), func(i, j int) { stream[i], stream[j] = stream[j], stream[i] })
	for _, i := range stream {
		r.Insert(item(i), 1)
	}
	hits, asked := 0, 300_000
	for i := range asked {
		if r.Count(item(n+i)) >= threshold {
			hits++
		}
	}
	got, want := float64(hits)/float64(asked), BulkFalsePositive(m, n, k, float64(heavy)/n)
	if got < want*0.75-4*math.Sqrt(want/float64(asked)) || got > want*1.25+4*math.Sqrt(want/float64(asked)) {
		t.Errorf("measured %g (%d), formula says %g", got, hits, want)
	}
	if eq4 := DCCFalsePositive(m, uint64(len(stream)), k, threshold, 0); eq4 > want/10 && eq4 < want*10 {
		t.Errorf("Eq. 4 says %g, near %g: the doc comment is wrong", eq4, want)
	}
	if BulkFalsePositive(0, 1, 1, 1) != 1 {
		t.Error("a filter without cells makes no errors")
	}
}

func TestFalsePositiveRateEdges(t *testing.T) {
	if FalsePositiveRate(1, 0, 3) != 0 || FalsePositiveRate(1, 1, 3) != 1 || FalsePositiveRate(100, 0, 3) != 0 {
		t.Error("empty and full filters have rates 0 and 1")
	}
}

// TestUniqueRateErrors compares with Finch's table of false positives, as printed.
func TestUniqueRateErrors(t *testing.T) {
	printed := []float64{170000, 1700, 40, 10.7, 3.2}
	for i, row := range UniqueRateErrors() {
		if got := 1 / row.Rate; math.Abs(got-printed[i]) > 0.03*printed[i] {
			t.Errorf("rate %.3g: formula says 1 in %.4g, printed 1 in %g", row.Relative, got, printed[i])
		}
	}
}
