package figure

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"strings"
	"testing"
)

func drawn(t *testing.T, f *Figure, format string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := f.Draw(&b, format); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// inked counts the dots of a picture that are darker than its grid.
func inked(m image.Image) (n int) {
	for y := m.Bounds().Min.Y; y < m.Bounds().Max.Y; y++ {
		for x := m.Bounds().Min.X; x < m.Bounds().Max.X; x++ {
			if color.GrayModel.Convert(m.At(x, y)).(color.Gray).Y < 0xc0 {
				n++
			}
		}
	}
	return n
}

// TestZerosAreMarked: a zero on a logarithmic axis is seen, with the bar above it, and
// the legend says what it is; a line without points has none.
func TestZerosAreMarked(t *testing.T) {
	f := &Figure{Name: "zeros", Title: "t", XLabel: "x", YLabel: "y", LogY: true}
	s := Series{Label: "measured", Color: Palette(0), Shape: Shapes(0), Bare: true,
		Xs: []float64{1, 2, 3}, Ys: []float64{1e-3, 1e-4, 0}, Below: []float64{1e-4, 1e-5, 0},
		Above: []float64{1e-4, 1e-5, 5e-5}}
	f.Series = []Series{s}
	if svg := string(drawn(t, f, "svg")); !strings.Contains(svg, "on the edge: zero") {
		t.Error("the legend does not say what a mark on the edge is")
	}
	f.Series[0].Shape, f.Series[0].Bare = nil, false
	if svg := string(drawn(t, f, "svg")); strings.Contains(svg, "on the edge: zero") {
		t.Error("a line has a mark for a zero")
	}
	only := &Figure{Name: "only", LogY: true, LogX: true,
		Series: []Series{{Shape: Shapes(0), Color: Palette(0), Xs: []float64{1, 2}, Ys: []float64{0, 0}}}}
	drawn(t, only, "png")
	drawn(t, &Figure{Name: "empty", LogY: true}, "svg")
}

func TestPicture(t *testing.T) {
	f := &Figure{Name: "lines", Title: "t", XLabel: "x", YLabel: "y"}
	for i := range 6 {
		f.Series = append(f.Series, Series{Label: "a", Color: color.Black, Dashes: Dashes(i), Xs: []float64{1, 9},
			Ys: []float64{float64(i), float64(i)}})
	}
	m, err := png.Decode(bytes.NewReader(drawn(t, f, "png")))
	if err != nil {
		t.Fatal(err)
	}
	if w := m.Bounds().Dx(); w != 1600 {
		t.Errorf("%d dots wide, want 1600", w)
	}
	f.Dots = 640
	if m, err = png.Decode(bytes.NewReader(drawn(t, f, "png"))); err != nil || m.Bounds().Dx() != 640 {
		t.Errorf("%v, %v, want 640 dots", m.Bounds(), err)
	}
	// Without colours each pattern leaves another amount of ink.
	seen := map[int]int{}
	for i := range 6 {
		f.Series = []Series{{Color: color.Black, Dashes: Dashes(i), Xs: []float64{1, 9}, Ys: []float64{1, 1}}}
		m, err := png.Decode(bytes.NewReader(drawn(t, f, "png")))
		if err != nil {
			t.Fatal(err)
		}
		n := inked(m)
		if j, ok := seen[n]; ok {
			t.Errorf("patterns %d and %d look alike", i, j)
		}
		seen[n] = i
	}
	if err := f.Draw(new(bytes.Buffer), "gif?"); err == nil {
		t.Error("an unknown format is drawn")
	}
}
