package filter

import (
	"errors"
	"math"
	"testing"
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
			if c.Count(Key{rng.Uint64(), rng.Uint64()}) >= DefaultThreshold {
				bulk++
			}
		}
		got, rate := float64(bulk)/probes, g.BulkError(uint64(n), DefaultThreshold, tt.tail)
		t.Logf("   bulk decisions wrong %.2e, formula %.2e", got, rate)
		if !within(got, rate, probes, 1.15) {
			t.Errorf("k=%d, %g cells a key, tail %g: wrong bulk decisions %.2e, formula %.2e", tt.k, tt.perKey, tt.tail, got,
				rate)
		}
	}
}

// TestSizeFor checks that the geometry meets the target, and that the next smaller one does not.
func TestSizeFor(t *testing.T) {
	for _, kind := range []Kind{Cells, Bitmap} {
		for e := Ghost; e <= BulkWrong; e++ {
			if kind == Bitmap && e != Ghost {
				continue
			}
			for _, n := range []uint64{1, 1000, 50_000, 1e6, 3e7} {
				for _, rate := range []float64{0.3, 1e-2, 1e-3, 1e-6} {
					g, err := SizeFor(Target{Kind: kind, Signatures: n, Error: e, Rate: rate, KeyID: 4})
					if err != nil {
						t.Fatal(err)
					}
					if err := g.Validate(); err != nil || g.Kind != kind || g.KeyID != 4 {
						t.Fatalf("%s, %d keys: %v: %v", e, n, g, err)
					}
					errorAt := func(g Geometry) float64 {
						switch e {
						case CountWrong:
							return g.CountError(n)
						case BulkWrong:
							return g.BulkError(n, DefaultThreshold, DefaultTail)
						}
						return g.GhostError(n)
					}
					if got := errorAt(g); got > rate*1.0001 {
						t.Errorf("%s, %d keys, rate %g: %v has %g", e, n, rate, g, got)
					}
					less := g
					if less.Lines--; g.Lines > PageLines {
						less.Lines = g.Lines - PageLines
					}
					floor := map[Kind]uint64{Cells: lineCells / minCells, Bitmap: lineBits}[kind] * less.Lines
					if less.Lines > 0 && errorAt(less) <= rate && n <= floor {
						t.Errorf("%s, %d keys, rate %g: %v would do, got %v", e, n, rate, less, g)
					}
				}
			}
		}
	}
}

func TestSizeForRefuses(t *testing.T) {
	ok := Target{Kind: Cells, Signatures: 1000, Rate: 0.01}
	if _, err := SizeFor(ok); err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*Target){
		"no kind":           func(t *Target) { t.Kind = 0 },
		"no signatures":     func(t *Target) { t.Signatures = 0 },
		"rate 0":            func(t *Target) { t.Rate = 0 },
		"rate 1":            func(t *Target) { t.Rate = 1 },
		"rate not a number": func(t *Target) { t.Rate = math.NaN() },
		"unknown error":     func(t *Target) { t.Error = 9 },
		"counts of bits":    func(t *Target) { t.Kind, t.Error = Bitmap, CountWrong },
		"negative tail":     func(t *Target) { t.Tail = -1 },
		"k of no layout":    func(t *Target) { t.K = 9 },
		"too many":          func(t *Target) { t.Signatures = 1 << 60 },
		"beyond all memory": func(t *Target) { t.Signatures, t.Rate = 1<<36, 1e-9 },
	} {
		bad := ok
		edit(&bad)
		if g, err := SizeFor(bad); !errors.Is(err, ErrGeometry) {
			t.Errorf("%s: %v, %v", name, g, err)
		}
	}
}

func TestGeometryValidate(t *testing.T) {
	for _, tt := range []struct {
		g  Geometry
		ok bool
	}{
		{Geometry{Kind: Cells, Lines: 1, K: 2}, true},
		{Geometry{Kind: Cells, Lines: 1024, K: 8}, true},
		{Geometry{Kind: Cells, Lines: 2048, K: 6}, true},
		{Geometry{Kind: Bitmap, Lines: MaxLines, K: 16}, true},
		{Geometry{Kind: Cells, Lines: 0, K: 6}, false},
		{Geometry{Kind: Cells, Lines: 1025, K: 6}, false},
		{Geometry{Kind: Cells, Lines: MaxLines + PageLines, K: 6}, false},
		{Geometry{Kind: Cells, Lines: 1, K: 1}, false},
		{Geometry{Kind: Cells, Lines: 1, K: 9}, false},
		{Geometry{Kind: Bitmap, Lines: 1, K: 9}, false},
		{Geometry{Kind: 3, Lines: 1, K: 8}, false},
		{Geometry{}, false},
	} {
		if err := tt.g.Validate(); (err == nil) != tt.ok || err != nil && !errors.Is(err, ErrGeometry) {
			t.Errorf("%v: %v", tt.g, err)
		}
		if tt.ok {
			continue
		}
		if _, err := NewCounting(tt.g); err == nil {
			t.Errorf("NewCounting(%v): no error", tt.g)
		}
		if _, err := NewBits(tt.g); err == nil {
			t.Errorf("NewBits(%v): no error", tt.g)
		}
	}
	if _, err := NewCounting(Geometry{Kind: Bitmap, Lines: 1, K: 8}); !errors.Is(err, ErrGeometry) {
		t.Errorf("a bit geometry as counting array: %v", err)
	}
	if _, err := NewBits(Geometry{Kind: Cells, Lines: 1, K: 8}); !errors.Is(err, ErrGeometry) {
		t.Errorf("a cell geometry as bit array: %v", err)
	}
	seen := map[uint64]bool{}
	base := Geometry{Kind: Cells, Lines: 8, K: 8, KeyID: 1}
	for _, g := range []Geometry{base, {Bitmap, 8, 8, 1}, {Cells, 9, 8, 1}, {Cells, 8, 7, 1}, {Cells, 8, 8, 2}} {
		if seen[g.ID()] {
			t.Errorf("%v has the fingerprint of another geometry", g)
		}
		seen[g.ID()] = true
	}
}
