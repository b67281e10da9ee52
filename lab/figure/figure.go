// Package figure draws points and lines over two axes, as SVG and PNG, to be read in
// print and without colours: series differ in the shape of their points and in their
// dashes.
package figure

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// A Figure is a picture of lines over two axes.
type Figure struct {
	Name         string // of the file
	Title        string
	Caption      string // for the report
	XLabel       string
	YLabel       string
	LogX, LogY   bool
	XTicks       []plot.Tick // nil: the axis chooses
	XMin, XMax   float64     // both 0: from the data
	YMin, YMax   float64     // likewise
	YTop         float64     // a logarithmic axis has no marks above; 0: no limit
	Series       []Series
	LegendBottom bool
	LegendLeft   bool
	Dots         int // width of a PNG; 0 for 1,600
}

// A Series is one line of a figure.
type Series struct {
	Label  string
	Color  color.Color
	Shape  draw.GlyphDrawer // nil: a line without points
	Dashed bool             // as Dashes(1)
	Dashes []vg.Length      // nil: solid
	Thin   bool             // a line that only leads the eye from point to point
	Bare   bool             // points without a line
	Xs, Ys []float64
	Errs   []float64 // half the length of the error bars; nil for none
	// Below and Above are the lengths of error bars that are not the same on both
	// sides, instead of Errs. On a logarithmic axis a zero lies on the lower edge, as a
	// small triangle, with its bar above it.
	Below, Above []float64
}

// Dashes returns the dashes of line i; nil, a solid line, of the first.
func Dashes(i int) []vg.Length {
	all := [][]vg.Length{nil, {4, 3}, {1, 2}, {7, 2, 1, 2}, {9, 3}, {3, 1}, {7, 2, 1, 2, 1, 2}}
	return all[i%len(all)]
}

// bar returns how far the error bar of point i reaches below and above it.
func (s *Series) bar(i int) (below, above float64, ok bool) {
	switch {
	case s.Errs != nil:
		return s.Errs[i], s.Errs[i], true
	case s.Above != nil:
		return s.Below[i], s.Above[i], true
	}
	return 0, 0, false
}

// Palette returns the colour of line i. The colours also differ in brightness, for print and for
// readers with colour blindness.
func Palette(i int) color.Color {
	all := []color.RGBA{
		{0x1b, 0x4f, 0x8f, 0xff}, {0xc8, 0x55, 0x1a, 0xff}, {0x2a, 0x8a, 0x4a, 0xff}, {0x7b, 0x3f, 0x9d, 0xff},
		{0xb0, 0x1e, 0x3c, 0xff}, {0x5a, 0x5a, 0x5a, 0xff}, {0xa0, 0x80, 0x10, 0xff}, {0x10, 0x90, 0xa0, 0xff},
	}
	return all[i%len(all)]
}

// Shapes returns the shape of the points of line i.
func Shapes(i int) draw.GlyphDrawer {
	all := []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.SquareGlyph{},
		draw.TriangleGlyph{}, draw.RingGlyph{}, draw.CrossGlyph{}, draw.PlusGlyph{}}
	return all[i%len(all)]
}

const (
	figureWidth, figureHeight = 6.4 * vg.Inch, 4.2 * vg.Inch
	figureDots                = 1600
)

// Hollow returns the outline of the shape of the points of line i, the first three.
func Hollow(i int) draw.GlyphDrawer {
	all := []draw.GlyphDrawer{draw.RingGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}}
	return all[i%len(all)]
}

// zeroGlyph marks a zero on the lower edge of a logarithmic axis: a triangle that
// points down.
type zeroGlyph struct{}

// DrawGlyph implements [draw.GlyphDrawer].
func (zeroGlyph) DrawGlyph(c *draw.Canvas, style draw.GlyphStyle, at vg.Point) {
	r := style.Radius
	var p vg.Path
	p.Move(at)
	p.Line(vg.Point{X: at.X - 1.1*r, Y: at.Y + 1.9*r})
	p.Line(vg.Point{X: at.X + 1.1*r, Y: at.Y + 1.9*r})
	p.Close()
	c.SetLineStyle(draw.LineStyle{Color: style.Color, Width: vg.Points(0.9)})
	c.Stroke(p)
}

// Draw draws f in a format ("svg" or "png").
func (f *Figure) Draw(w io.Writer, format string) error {
	p, err := f.plot()
	if err != nil {
		return fmt.Errorf("figure %s: %w", f.Name, err)
	}
	c, err := canvas(format, f.Dots)
	if err != nil {
		return fmt.Errorf("figure %s: %w", f.Name, err)
	}
	drawPlot(p, f.YLabel, draw.New(c))
	var out bytes.Buffer
	if _, err := c.WriteTo(&out); err != nil {
		return fmt.Errorf("figure %s: %w", f.Name, err)
	}
	drawn := out.Bytes()
	if format == "svg" {
		// Machines without this font have one of the same widths.
		drawn = bytes.ReplaceAll(drawn, []byte("font-family:Liberation Serif;"),
			[]byte("font-family:'Liberation Serif','Times New Roman',Times,serif;"))
	}
	if _, err := w.Write(drawn); err != nil {
		return fmt.Errorf("figure %s: %w", f.Name, err)
	}
	return nil
}

func canvas(format string, dots int) (vg.CanvasWriterTo, error) {
	if format == "png" {
		if dots == 0 {
			dots = figureDots
		}
		dpi := int(math.Round(float64(dots) / float64(figureWidth/vg.Inch)))
		return vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(figureWidth, figureHeight), vgimg.UseDPI(dpi))}, nil
	}
	return draw.NewFormattedCanvas(figureWidth, figureHeight, format)
}

// drawPlot draws p with margins, and its vertical label, for which gonum reserves room as if
// the scale were linear.
func drawPlot(p *plot.Plot, label string, c draw.Canvas) {
	style := p.Y.Label.TextStyle
	style.Rotation, style.XAlign, style.YAlign = math.Pi/2, draw.XCenter, draw.YTop
	c.FillText(style, vg.Point{X: c.Min.X + vg.Points(4), Y: c.Center().Y}, label)
	c = draw.Crop(c, vg.Points(8)+style.Height(label), vg.Points(-14), vg.Points(4), vg.Points(-4))
	if !p.Legend.Left {
		// The legend stands on the right with its marks before the text, and room for a
		// font that is a quarter wider than was reckoned with.
		data := p.DataCanvas(c)
		width := p.Legend.Rectangle(data).Size().X
		p.Legend.Left, p.Legend.XOffs = true, c.Max.X-data.Min.X-width-(width-p.Legend.ThumbnailWidth)/4
	}
	p.Draw(c)
}

func (f *Figure) plot() (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text = f.Title, f.XLabel
	p.Title.Padding = vg.Points(6)
	p.Legend.Top, p.Legend.Left = !f.LegendBottom, f.LegendLeft
	p.Legend.Padding = vg.Points(1)
	p.Legend.TextStyle.Font.Size = vg.Points(9)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{0xe4}, color.Gray{0xe4}
	p.Add(grid)
	lowest, zeros := f.lowest(), false
	for i := range f.Series {
		zero, err := f.Series[i].add(p, f, lowest)
		if err != nil {
			return nil, err
		}
		zeros = zeros || zero
	}
	if zeros {
		mark := &plotter.Scatter{GlyphStyle: draw.GlyphStyle{Color: color.Black, Radius: vg.Points(2.4), Shape: zeroGlyph{}}}
		p.Legend.Add("on the edge: zero", mark)
	}
	f.axes(p)
	return p, nil
}

// lowest returns where error bars end that would reach 0 or less on a log scale.
func (f *Figure) lowest() float64 {
	if f.YMin > 0 {
		return f.YMin
	}
	least := math.Inf(1)
	for _, s := range f.Series {
		for i, y := range s.Ys {
			if y > 0 {
				least = math.Min(least, y)
			} else if _, above, ok := s.bar(i); ok && above > 0 {
				least = math.Min(least, above)
			}
		}
	}
	if math.IsInf(least, 1) {
		return 1
	}
	return math.Pow(10, math.Floor(math.Log10(least)-0.05))
}

func (f *Figure) axes(p *plot.Plot) {
	if p.X.Min > p.X.Max { // nothing to draw
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 1, 10, 1, 10
	}
	if f.XMin != 0 || f.XMax != 0 {
		p.X.Min, p.X.Max = f.XMin, f.XMax
	}
	if f.YMin != 0 || f.YMax != 0 {
		p.Y.Min, p.Y.Max = f.YMin, f.YMax
	}
	if f.LogY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{f.YTop}
		if f.YMin == 0 && f.YMax == 0 {
			p.Y.Min = f.lowest()
			p.Y.Max = math.Max(10*p.Y.Min, math.Pow(10, math.Ceil(math.Log10(p.Y.Max)-1e-6)))
		}
	}
	if f.LogX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, decades{0}
		p.X.Min, p.X.Max = p.X.Min/1.12, p.X.Max*1.12
	}
	if f.XTicks != nil {
		p.X.Tick.Marker = plot.ConstantTicks(f.XTicks)
	}
}

// decades marks powers of ten, and their multiples without a label, up to top unless it
// is 0.
type decades struct{ top float64 }

// Ticks implements [plot.Ticker].
func (d decades) Ticks(low, high float64) (ticks []plot.Tick) {
	if d.top != 0 {
		high = math.Min(high, d.top)
	}
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		v := math.Pow(10, e)
		for i := 1.0; i < 10; i++ {
			t := plot.Tick{Value: i * v}
			if i == 1 {
				t.Label = tenTo(int(e))
			}
			if t.Value >= low*0.999 && t.Value <= high*1.001 {
				ticks = append(ticks, t)
			}
		}
	}
	return ticks
}

func tenTo(e int) string {
	if e >= -2 && e <= 4 {
		return strconv.FormatFloat(math.Pow(10, float64(e)), 'f', -1, 64)
	}
	return "1e" + strconv.Itoa(e)
}

// add draws s into p, and reports whether zeros were marked on the lower edge.
func (s *Series) add(p *plot.Plot, f *Figure, lowest float64) (zeros bool, err error) {
	var xys, none plotter.XYs
	var bars plotter.YErrors
	var barred plotter.XYs
	for i, x := range s.Xs {
		y := s.Ys[i]
		if math.IsNaN(y) || math.IsInf(y, 0) {
			continue
		}
		below, above, ok := s.bar(i)
		if f.LogY && !(y > 0) {
			if s.Shape == nil {
				continue // a line that has left the picture
			}
			none = append(none, plotter.XY{X: x, Y: lowest})
			below, above = 0, above-lowest
			ok = ok && above > 0
			y = lowest
		} else {
			xys = append(xys, plotter.XY{X: x, Y: y})
			if f.LogY {
				below = math.Min(below, math.Max(0, y-lowest))
			}
		}
		if ok {
			barred = append(barred, plotter.XY{X: x, Y: y})
			bars = append(bars, struct{ Low, High float64 }{below, above})
		}
	}
	thumbs := []plot.Thumbnailer{}
	if !s.Bare && len(xys) > 0 {
		line, err := plotter.NewLine(xys)
		if err != nil {
			return false, err
		}
		line.Color, line.Width, line.Dashes = s.Color, vg.Points(1.3), s.Dashes
		if s.Thin {
			line.Width = vg.Points(0.5)
		}
		if s.Dashed {
			line.Dashes = Dashes(1)
		}
		p.Add(line)
		thumbs = append(thumbs, line)
	}
	if len(barred) > 0 {
		eb, err := plotter.NewYErrorBars(struct {
			plotter.XYer
			plotter.YErrorer
		}{barred, bars})
		if err != nil {
			return false, err
		}
		eb.Color, eb.LineStyle.Width = s.Color, vg.Points(0.8)
		p.Add(eb)
	}
	if s.Shape != nil && len(xys) > 0 {
		points, err := plotter.NewScatter(xys)
		if err != nil {
			return false, err
		}
		points.Color, points.Shape, points.Radius = s.Color, s.Shape, vg.Points(2.8)
		p.Add(points)
		thumbs = append(thumbs, points)
	}
	if len(none) > 0 {
		points, err := plotter.NewScatter(none)
		if err != nil {
			return false, err
		}
		points.Color, points.Shape, points.Radius = s.Color, zeroGlyph{}, vg.Points(2.4)
		p.Add(points)
		if len(xys) == 0 {
			thumbs = append(thumbs, points)
		}
	}
	if s.Label != "" && len(thumbs) > 0 {
		p.Legend.Add(s.Label, thumbs...)
	}
	return len(none) > 0, nil
}
