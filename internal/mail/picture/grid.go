package picture

import (
	"image"
	"image/color"
	"image/draw"
	"slices"

	"github.com/bulkhead-mail/bulkhead/internal/pace"
)

const (
	maxGrid = 256 // cells along a side
	strip   = 16  // rows that are converted at a time

	// A margin is uniform if four fifths of the outermost cells differ by at most marginRange. It ends
	// at the first row or column whose mean differs from it by marginStep. Both are in grey levels of 256.
	marginRange = 40
	marginStep  = 5
)

// A grid is the brightness of a picture: the mean of each cell, 0 to 255.
type grid struct {
	w, h int
	v    []float32 // row by row
}

func (g *grid) at(x, y int) float32 { return g.v[y*g.w+x] }

func (g *grid) row(y int) []float32 { return g.v[y*g.w:][:g.w] }

// gridOf returns the grid of a picture on a white background. A cell is a pixel if the picture is at
// most maxGrid pixels wide and high. Otherwise it is the mean of the pixels that fall into it.
func gridOf(img image.Image, p *pace.Pace) *grid {
	b := img.Bounds()
	w, h := b.Dx(), b.Dy()
	g := &grid{w: min(w, maxGrid), h: min(h, maxGrid)}
	g.v = make([]float32, g.w*g.h)
	column, count := make([]int, w), make([]int, g.w)
	for x := range column {
		column[x] = x * g.w / w
		count[column[x]]++
	}
	sums := make([]int, g.w)
	rows := 0 // rows in sums
	grey := newGreys(img)
	for y := range h {
		if p.Over(w) {
			return g
		}
		for x, v := range grey.row(y) {
			sums[column[x]] += int(v)
		}
		rows++
		at := y * g.h / h
		if (y+1)*g.h/h == at {
			continue
		}
		for x, sum := range sums {
			g.v[at*g.w+x] = float32(sum) / float32(rows*count[x])
		}
		clear(sums)
		rows = 0
	}
	return g
}

// greys converts a picture to grey levels, row by row.
type greys struct {
	img     image.Image
	palette []uint8 // grey levels of the colours, of a picture with a palette
	buf     []uint8
	strip   *image.RGBA // converted rows, of other coloured pictures
	first   int         // number of the first row in strip
}

func newGreys(img image.Image) *greys {
	g := &greys{img: img, buf: make([]uint8, img.Bounds().Dx()), first: -strip}
	switch img := img.(type) {
	case *image.Gray, *image.YCbCr:
	case *image.Paletted:
		g.palette = make([]uint8, 256)
		for i, c := range img.Palette {
			n := color.NRGBAModel.Convert(c).(color.NRGBA)
			on := func(v uint8) int { return (int(v)*int(n.A) + 255*(255-int(n.A)) + 127) / 255 }
			g.palette[i] = level(on(n.R), on(n.G), on(n.B))
		}
	default:
		g.strip = image.NewRGBA(image.Rect(0, 0, len(g.buf), strip))
	}
	return g
}

// level returns the brightness of a colour, as JPEG defines it.
func level(r, g, b int) uint8 { return uint8((299*r + 587*g + 114*b + 500) / 1000) }

// row returns row y, which is valid until the next call.
func (g *greys) row(y int) []uint8 {
	b := g.img.Bounds()
	switch img := g.img.(type) {
	case *image.Gray:
		return img.Pix[img.PixOffset(b.Min.X, b.Min.Y+y):][:len(g.buf)]
	case *image.YCbCr:
		return img.Y[img.YOffset(b.Min.X, b.Min.Y+y):][:len(g.buf)]
	case *image.Paletted:
		for x, i := range img.Pix[img.PixOffset(b.Min.X, b.Min.Y+y):][:len(g.buf)] {
			g.buf[x] = g.palette[i]
		}
		return g.buf
	}
	if y >= g.first+strip {
		g.first = y
		draw.Draw(g.strip, g.strip.Rect, image.White, image.Point{}, draw.Src)
		draw.Draw(g.strip, g.strip.Rect, g.img, b.Min.Add(image.Pt(0, y)), draw.Over)
	}
	pix := g.strip.Pix[(y-g.first)*g.strip.Stride:]
	for x := range g.buf {
		c := pix[4*x : 4*x+3]
		g.buf[x] = level(int(c[0]), int(c[1]), int(c[2]))
	}
	return g.buf
}

// whole returns the bounds of the grid.
func (g *grid) whole() image.Rectangle { return image.Rect(0, 0, g.w, g.h) }

// inside returns the part inside the margin. It returns the whole grid if the margin is not uniform, or
// if less than a quarter of a side is inside it.
func (g *grid) inside() image.Rectangle {
	box := g.whole()
	edge := make([]float32, 0, 2*(g.w+g.h))
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
	margin := edge[len(edge)/2]
	rows, columns := make([]float32, g.h), make([]float32, g.w)
	for y := range g.h {
		for x, v := range g.row(y) {
			d := v - margin
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

// trim returns the range of lines from the first to the last one that differs from the margin.
func trim(lines []float32) (from, to int) {
	to = len(lines)
	for from < to && max(lines[from], -lines[from]) < marginStep {
		from++
	}
	for to > from && max(lines[to-1], -lines[to-1]) < marginStep {
		to--
	}
	return from, to
}
