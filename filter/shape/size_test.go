package shape

import (
	"errors"
	"math"
	"testing"
)

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
					floor := map[Kind]uint64{Cells: LineCells / minCells, Bitmap: LineBits}[kind] * less.Lines
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
