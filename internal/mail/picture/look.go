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
	side  = 64 // samples of a side that are transformed
	order = 14 // of the terms: the sum of their frequencies is at most this and 2
	terms = order * (order + 1) / 2

	// minLoud is how strong half of the terms are: noise of one grey level makes terms
	// of 1. Surfaces and shades with little on them have less.
	minLoud = 4
	// minMargin is the largest share of the area that what is inside a margin may have.
	minMargin = 0.96
)

// A Look is what a picture looks like. It may be read concurrently.
type Look struct {
	views []view
}

// A view is the terms of low frequency of a picture, or of what is inside of its
// margin.
type view [terms]float32

// lookOf returns what img looks like.
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

// loud reports whether there is enough to be seen.
func (v *view) loud() bool {
	var strength [terms]float32
	for i, c := range v {
		strength[i] = max(c, -c)
	}
	slices.Sort(strength[:])
	return strength[terms/2] >= minLoud
}

// view transforms a part of the grid: 64 by 64 samples, each the mean of what it covers.
//
// Here and below, a conversion rounds each product before it is added. Otherwise processors
// that can add it unrounded get other keys than those that cannot (the Go specification,
// "Floating-point operators").
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

// A span is the cells that a sample covers: the first and the last in part.
type span struct {
	first, last int
	head, tail  float32 // how much of the first and of the last; of one cell head is all
	cells       float32 // in all
}

// cover divides the cells from, up to to, among the samples.
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

// basis is the cosines of the frequencies from 1.
var basis = func() (b [order][side]float32) {
	for k := range b {
		for i := range side {
			b[k][i] = float32(math.Sqrt(2.0/side) * math.Cos(math.Pi/(2*side)*float64(k+1)*float64(2*i+1)))
		}
	}
	return b
}()

// transform returns the terms of the samples' discrete cosine transform (II,
// orthonormal) by rising vertical, then horizontal frequency, without those of
// frequency 0, which are the brightness and where it falls off.
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
