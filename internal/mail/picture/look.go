package picture

import (
	"fmt"
	"image"
	"math"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/pace"
)

const (
	side  = 64 // samples along each side
	order = 14 // number of frequencies along a side, from 1; the sum of both frequencies of a term is at most order+1
	terms = order * (order + 1) / 2

	// minLoud is the least median of the terms' absolute values. Noise of one grey level makes terms
	// of 1. Plain surfaces and gradients stay below minLoud.
	minLoud = 4
	// minMargin is the share of the area below which the part inside the margin has a view of its own.
	minMargin = 0.96
)

// A Look is the perceptual description of a picture. It may be read concurrently.
type Look struct {
	views []view
}

// A view is the low-frequency terms of a picture, or of the part inside its margin.
type view [terms]float32

// lookOf returns the look of img, or an error that wraps [bulkhead.ErrOverLimit] if it has too little detail.
func lookOf(img image.Image, p *pace.Pace) (*Look, error) {
	g := gridOf(img, p)
	whole, inside := g.whole(), g.inside()
	l := &Look{views: []view{g.view(whole)}}
	if !l.views[0].loud() {
		return nil, fmt.Errorf("picture: %w: too little detail", bulkhead.ErrOverLimit)
	}
	if area(inside) < minMargin*area(whole) {
		if v := g.view(inside); v.loud() {
			l.views = append(l.views, v)
		}
	}
	return l, nil
}

func area(r image.Rectangle) float64 { return float64(r.Dx()) * float64(r.Dy()) }

// loud reports whether the view has enough detail to recognise the picture by.
func (v *view) loud() bool {
	var strength [terms]float32
	for i, c := range v {
		strength[i] = max(c, -c)
	}
	slices.Sort(strength[:])
	return strength[terms/2] >= minLoud
}

// view returns the terms of a part of the grid, from 64 by 64 samples. Each sample is the mean of the
// cells that it covers.
//
// Here and below, a conversion rounds each product before it is added. Otherwise processors with a
// fused multiply-add would compute other keys (the Go specification, "Floating-point operators").
func (g *grid) view(box image.Rectangle) view {
	var samples [side][side]float32
	columns, rows := cover(box.Min.X, box.Max.X), cover(box.Min.Y, box.Max.Y)
	wide := make([][side]float32, g.h)
	for y := box.Min.Y; y < box.Max.Y; y++ {
		cells := g.row(y)
		for x := range columns {
			s := &columns[x]
			sum := float32(s.head * cells[s.first])
			for i := s.first + 1; i < s.last; i++ {
				sum += cells[i]
			}
			if s.last > s.first {
				sum += float32(s.tail * cells[s.last])
			}
			wide[y][x] = sum / s.cells
		}
	}
	for y := range rows {
		s, sum := &rows[y], &samples[y]
		for x, v := range &wide[s.first] {
			sum[x] = float32(s.head * v)
		}
		for i := s.first + 1; i < s.last; i++ {
			for x, v := range &wide[i] {
				sum[x] += v
			}
		}
		if s.last > s.first {
			for x, v := range &wide[s.last] {
				sum[x] += float32(s.tail * v)
			}
		}
		for x := range sum {
			sum[x] /= s.cells
		}
	}
	return transform(&samples)
}

// A span is the range of cells that a sample covers. It may cover a part of the first and the last.
type span struct {
	first, last int
	head, tail  float32 // covered shares of the first and the last cell; head alone, if they are one
	cells       float32 // sum of the covered shares
}

// cover divides the cells in [from, to) among the samples.
func cover(from, to int) (spans [side]span) {
	step := float64(to-from) / side
	for i := range spans {
		begin, end := float64(from)+float64(float64(i)*step), float64(from)+float64(float64(i+1)*step)
		s := span{first: int(begin), last: min(int(math.Ceil(end)), to) - 1}
		s.head = float32(min(float64(s.first+1), end) - begin)
		s.tail = float32(end - float64(s.last))
		s.cells = s.head
		for range s.last - s.first - 1 {
			s.cells++
		}
		if s.last > s.first {
			s.cells += s.tail
		}
		spans[i] = s
	}
	return spans
}

// basis has the cosines of the frequencies, from 1 on.
var basis = func() (b [order][side]float32) {
	for k := range b {
		for i := range side {
			b[k][i] = float32(math.Sqrt(2.0/side) * math.Cos(math.Pi/(2*side)*float64(k+1)*float64(2*i+1)))
		}
	}
	return b
}()

// transform returns the orthonormal discrete cosine transform (DCT-II) of the samples, by rising
// vertical and then horizontal frequency. Terms of frequency 0 are left out: they are the brightness
// and its gradients.
func transform(samples *[side][side]float32) (v view) {
	at := 0
	for k := range order {
		var row [side]float32
		for y := range side {
			for x := range side {
				row[x] += float32(basis[k][y] * samples[y][x])
			}
		}
		for l := range order - k {
			for x := range side {
				v[at] += float32(basis[l][x] * row[x])
			}
			at++
		}
	}
	return v
}
