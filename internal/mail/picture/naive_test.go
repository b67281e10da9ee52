package picture

import (
	"image"
	"math/rand/v2"
	"slices"
	"testing"
)

// The functions below do cell by cell what the package does by rows. They add in the same
// order, so every bit of the sums is the same.

func (s span) naiveMean(cell func(int) float32) float32 {
	sum, n := s.head*cell(s.first), s.head
	for i := s.first + 1; i < s.last; i++ {
		sum += cell(i)
		n++
	}
	if s.last > s.first {
		sum += s.tail * cell(s.last)
		n += s.tail
	}
	return sum / n
}

func (g *grid) naiveView(box image.Rectangle) view {
	var samples [side][side]float32
	columns, rows := cover(box.Min.X, box.Max.X), cover(box.Min.Y, box.Max.Y)
	wide := make([][side]float32, g.h)
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x, c := range columns {
			wide[y][x] = c.naiveMean(func(i int) float32 { return g.at(i, y) })
		}
	}
	for y, c := range rows {
		for x := range side {
			samples[y][x] = c.naiveMean(func(i int) float32 { return wide[i][x] })
		}
	}
	return transform(&samples)
}

func (g *grid) naiveInside() image.Rectangle {
	box := g.whole()
	var edge []float32
	for x := range g.w {
		edge = append(edge, g.at(x, 0), g.at(x, g.h-1))
	}
	for y := range g.h {
		edge = append(edge, g.at(0, y), g.at(g.w-1, y))
	}
	slices.Sort(edge)
	if edge[len(edge)*9/10]-edge[len(edge)/10] > marginRange {
		return box
	}
	ground := edge[len(edge)/2]
	rows, columns := make([]float32, g.h), make([]float32, g.w)
	for y := range g.h {
		for x := range g.w {
			d := g.at(x, y) - ground
			rows[y] += d / float32(g.w)
			columns[x] += d / float32(g.h)
		}
	}
	box.Min.Y, box.Max.Y = trim(rows)
	box.Min.X, box.Max.X = trim(columns)
	if box.Dx() < g.w/4 || box.Dy() < g.h/4 {
		return g.whole()
	}
	return box
}

// TestFastAsNaive holds what is seen by rows to what is seen cell by cell.
func TestFastAsNaive(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	margins := 0
	for n := range 200 {
		g := &grid{w: minSide + r.IntN(maxGrid-minSide+1), h: minSide + r.IntN(maxGrid-minSide+1)}
		if n%3 == 0 {
			g.w, g.h = maxGrid, maxGrid
		}
		g.v = make([]float32, g.w*g.h)
		margin := r.IntN(20)
		for y := range g.h {
			for x := range g.w {
				v := float32(250)
				if x >= margin && y >= margin && x < g.w-margin && y < g.h-margin {
					v = r.Float32() * 255
				}
				g.v[y*g.w+x] = v
			}
		}
		box := g.inside()
		if want := g.naiveInside(); box != want {
			t.Fatalf("%d by %d, margin %d: inside is %v, want %v", g.w, g.h, margin, box, want)
		}
		if box != g.whole() {
			margins++
		}
		for _, b := range []image.Rectangle{box, g.whole()} {
			if g.view(b) != g.naiveView(b) {
				t.Fatalf("%d by %d: %v is seen otherwise", g.w, g.h, b)
			}
		}
	}
	if margins < 50 {
		t.Errorf("%d pictures with a margin", margins)
	}
}
