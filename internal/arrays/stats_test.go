package arrays

import (
	"math"
	"testing"

	"github.com/bulkhead-mail/bulkhead/filter/shape"
)

// within reports whether a measured share of n trials agrees with a rate up to a factor, plus four
// standard deviations of the trials.
func within(measured, rate, n, factor float64) bool {
	slack := 4 * math.Sqrt(rate/n)
	return measured < rate*factor+slack && measured > rate/factor-slack
}

// TestGhostError compares the formulas of both kinds with arrays filled at random.
func TestGhostError(t *testing.T) {
	if testing.Short() {
		t.Skip("measures rates, for minutes under the race detector, in one goroutine")
	}
	const probes = 400_000
	unseen, _ := seeded(1001, probes)
	for _, tt := range []struct {
		kind   Kind
		k      uint8
		perKey float64 // cells or bits per key
	}{
		{Cells, 2, 6}, {Cells, 3, 2}, {Cells, 4, 8}, {Cells, 6, 13}, {Cells, 8, 20},
		{Bitmap, 8, 4}, {Bitmap, 8, 10}, {Bitmap, 8, 16}, {Bitmap, 16, 10}, {Bitmap, 16, 18},
	} {
		g := Geometry{Kind: tt.kind, Lines: 4 * PageLines, K: tt.k}
		per := map[Kind]float64{Cells: lineCells, Bitmap: lineBits}[tt.kind]
		n := int(float64(g.Lines) * per / tt.perKey)
		keys, _ := seeded(uint64(n), n)
		seen := 0
		if tt.kind == Cells {
			c := mustCounting(t, g)
			for _, k := range keys {
				c.Add(k, 1)
			}
			for _, k := range unseen {
				if c.Count(k) > 0 {
					seen++
				}
			}
			s := c.Stats()
			if math.Abs(s.Effective/float64(n)-1) > 0.02 {
				t.Errorf("%v with %d keys: Effective = %.0f", g, n, s.Effective)
			}
		} else {
			b := mustBits(t, g)
			b.SetBatch(0, keys, nil)
			for _, k := range unseen {
				if b.Has(k) {
					seen++
				}
			}
		}
		got, want := float64(seen)/probes, g.GhostError(uint64(n))
		t.Logf("%s k=%d, %g per key: ghosts %.3e, formula %.3e", tt.kind, tt.k, tt.perKey, got, want)
		if !within(got, want, probes, 1.04) {
			t.Errorf("%v with %d keys: ghosts %.3e, formula %.3e", g, n, got, want)
		}
	}
}

// TestCountAndBulkError uses skewed counts in random order, one add at a time.
func TestCountAndBulkError(t *testing.T) {
	if testing.Short() {
		t.Skip("measures rates, for minutes under the race detector, in one goroutine")
	}
	const probes = 2_000_000
	for _, tt := range []struct {
		k           uint8
		perKey      float64
		tail        float64
		under, over float64 // how far the formula may be below and above the measurement
	}{
		{6, 13, 1.2, 1.05, 1.3}, {4, 8, 1.2, 1.05, 1.3}, {5, 3, 1.2, 1.2, 1.3}, {6, 8, 0.8, 1.05, 1.5}, {6, 8, 2, 1.15, 1.1},
	} {
		g := Geometry{Kind: Cells, Lines: 8 * PageLines, K: tt.k}
		n := int(float64(g.Lines) * lineCells / tt.perKey)
		keys, rng := seeded(uint64(n), n)
		counts, adds := skew(rng, n, tt.tail)
		c := mustCounting(t, g)
		for _, i := range adds {
			c.Add(keys[i], 1)
		}
		wrong := 0
		for i, k := range keys {
			switch got := c.Count(k); {
			case got < counts[i]:
				t.Fatalf("key %d: count %d after %d adds", i, got, counts[i])
			case got > counts[i]:
				wrong++
			}
		}
		measured, want := float64(wrong)/float64(n), g.CountErrorTail(uint64(n), tt.tail)
		sigma := 4 * math.Sqrt(measured/float64(n))
		t.Logf("k=%d, %g cells a key, tail %g: wrong counts %.3e, formula %.3e", tt.k, tt.perKey, tt.tail, measured, want)
		if want < measured/tt.under-sigma || want > measured*tt.over+sigma {
			t.Errorf("k=%d, %g cells a key, tail %g: wrong counts %.3e, formula %.3e", tt.k, tt.perKey, tt.tail, measured, want)
		}
		bulk := 0
		for range probes {
			if c.Count(Key{Hi: rng.Uint64(), Lo: rng.Uint64()}) >= shape.DefaultThreshold {
				bulk++
			}
		}
		got, rate := float64(bulk)/probes, g.BulkError(uint64(n), shape.DefaultThreshold, tt.tail)
		t.Logf("   bulk decisions wrong %.2e, formula %.2e", got, rate)
		if !within(got, rate, probes, 1.15) {
			t.Errorf("k=%d, %g cells a key, tail %g: wrong bulk decisions %.2e, formula %.2e", tt.k, tt.perKey, tt.tail, got,
				rate)
		}
	}
}

// TestShownOfSample checks that every n-th line of a large array is sampled, starting from the
// given line.
func TestShownOfSample(t *testing.T) {
	const lines = 3 * shownLines
	c, err := NewSparseCounting(Geometry{Kind: Cells, Lines: lines, K: 2})
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewSparseBits(Geometry{Kind: Bitmap, Lines: lines, K: 8})
	if err != nil {
		t.Fatal(err)
	}
	// One key in each of the lines 3, 6, 9.
	for _, n := range []uint64{3, 6, 9} {
		k := Key{Hi: (2*n + 1) * (math.MaxUint64 / (2 * lines)), Lo: 0x0102030405060708}
		c.Add(k, 1)
		b.Set(k)
		if !b.Has(k) || line(k.Hi, lines) != n {
			t.Fatalf("a key is in line %d, want %d", line(k.Hi, lines), n)
		}
	}
	pairs := float64(lineCells) * (lineCells - 1) / 2 // a key has hit one of these pairs
	for from := range uint64(6) {
		cells, bit := 0.0, 0.0
		if from%3 == 0 {
			cells, bit = 3/pairs/shownLines, 3*math.Pow(1./64, 8)/shownLines
		}
		if got := c.Shown(from); math.Abs(got-cells) > 1e-9*cells {
			t.Errorf("cells, from line %d: %g, want %g", from, got, cells)
		}
		if got := b.Shown(from); math.Abs(got-bit) > 1e-9*bit {
			t.Errorf("bits, from line %d: %g, want %g", from, got, bit)
		}
	}
}

// TestEffective checks that the fill of an array gives the number of its keys to within some
// percent, and a large but finite number for a full array.
func TestEffective(t *testing.T) {
	const lines = 512
	for _, n := range []int{100, 5000, 20_000, 60_000} {
		c := mustCounting(t, Geometry{Kind: Cells, Lines: lines, K: 4})
		b := mustBits(t, Geometry{Kind: Bitmap, Lines: lines, K: 8})
		keys, _ := seeded(uint64(n), n)
		for _, k := range keys {
			c.Add(k, 1)
		}
		b.SetBatch(0, keys, nil)
		for kind, got := range map[string]float64{"cells": c.Stats().Effective, "bits": b.Stats().Effective} {
			if math.Abs(got-float64(n)) > 0.06*float64(n) {
				t.Errorf("%s: %d keys are taken for %.0f", kind, n, got)
			}
		}
	}
	b := mustBits(t, Geometry{Kind: Bitmap, Lines: lines, K: 8})
	for i := range b.lines {
		for j := range b.lines[i] {
			b.lines[i][j] = math.MaxUint64
		}
	}
	if s := b.Stats(); s.Fill != 1 || s.Effective < 5*lines*lineBits/8 || math.IsInf(s.Effective, 0) || s.Ghost < 0.99 {
		t.Errorf("a full array: %+v", s)
	}
}
