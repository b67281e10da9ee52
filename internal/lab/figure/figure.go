// Package figure draws lines over two axes, as SVG or PNG.
package figure

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
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
	Series       []Series
	LegendBottom bool
	LegendLeft   bool
}

// A Series is one line of a figure.
type Series struct {
	Label  string
	Color  color.Color
	Shape  draw.GlyphDrawer // nil: a line without points
	Dashed bool
	Bare   bool // points without a line
	Xs, Ys []float64
	Errs   []float64 // half the length of the error bars; nil for none
}

// Palette returns the colour of line i. The colours also differ in brightness, for print and
// for those who cannot tell colours apart.
func Palette(i int) color.Color {
	all := []color.RGBA{
		{0x1b, 0x4f, 0x8f, 0xff}, {0xc8, 0x55, 0x1a, 0xff}, {0x2a, 0x8a, 0x4a, 0xff}, {0x7b, 0x3f, 0x9d, 0xff},
		{0xb0, 0x1e, 0x3c, 0xff}, {0x5a, 0x5a, 0x5a, 0xff}, {0xa0, 0x80, 0x10, 0xff}, {0x10, 0x90, 0xa0, 0xff},
	}
	return all[i%len(all)]
}

// Shapes returns the shape of the points of line i.
func Shapes(i int) draw.GlyphDrawer {
	all := []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.RingGlyph{}}
	return all[i%len(all)]
}

const figureWidth, figureHeight = 6.4 * vg.Inch, 4.2 * vg.Inch

// Draw draws f in a format ("svg" or "png").
func (f *Figure) Draw(w io.Writer, format string) error {
	p, err := f.plot()
	if err != nil {
		return fmt.Errorf("figure %s: %w", f.Name, err)
	}
	c, err := draw.NewFormattedCanvas(figureWidth, figureHeight, format)
	if err != nil {
		return fmt.Errorf("figure %s: %w", f.Name, err)
	}
	drawPlot(p, f.YLabel, draw.New(c))
	if _, err := c.WriteTo(w); err != nil {
		return fmt.Errorf("figure %s: %w", f.Name, err)
	}
	return nil
}

// drawPlot draws p with margins, and its vertical label, for which gonum reserves room as if
// the scale were linear.
func drawPlot(p *plot.Plot, label string, c draw.Canvas) {
	style := p.Y.Label.TextStyle
	style.Rotation, style.XAlign, style.YAlign = math.Pi/2, draw.XCenter, draw.YTop
	c.FillText(style, vg.Point{X: c.Min.X + vg.Points(4), Y: c.Center().Y}, label)
	p.Draw(draw.Crop(c, vg.Points(8)+style.Height(label), vg.Points(-14), vg.Points(4), vg.Points(-4)))
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
	lowest := f.lowest()
	for i := range f.Series {
		if err := f.Series[i].add(p, f, lowest); err != nil {
			return nil, err
		}
	}
	f.axes(p)
	return p, nil
}

// lowest returns where error bars end that would reach 0 or less on a log scale.
func (f *Figure) lowest() float64 {
	least := math.Inf(1)
	for _, s := range f.Series {
		for _, y := range s.Ys {
			if y > 0 {
				least = math.Min(least, y)
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
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{}
		if f.YMin == 0 && f.YMax == 0 {
			p.Y.Min = f.lowest()
			p.Y.Max = math.Pow(10, math.Ceil(math.Log10(p.Y.Max)-1e-6))
		}
	}
	if f.LogX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, decades{}
		p.X.Min, p.X.Max = p.X.Min/1.12, p.X.Max*1.12
	}
	if f.XTicks != nil {
		p.X.Tick.Marker = plot.ConstantTicks(f.XTicks)
	}
}

// decades marks powers of ten, and their multiples without a label.
type decades struct{}

// Ticks implements [plot.Ticker].
func (decades) Ticks(low, high float64) (ticks []plot.Tick) {
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

func (s *Series) add(p *plot.Plot, f *Figure, lowest float64) error {
	var xys plotter.XYs
	var bars plotter.YErrors
	for i, x := range s.Xs {
		y := s.Ys[i]
		if f.LogY && !(y > 0) || math.IsNaN(y) || math.IsInf(y, 0) {
			continue
		}
		xys = append(xys, plotter.XY{X: x, Y: y})
		if s.Errs != nil {
			low, high := s.Errs[i], s.Errs[i]
			if f.LogY {
				low = math.Min(low, math.Max(0, y-lowest))
			}
			bars = append(bars, struct{ Low, High float64 }{low, high})
		}
	}
	if len(xys) == 0 {
		return nil
	}
	thumbs := []plot.Thumbnailer{}
	if !s.Bare {
		line, err := plotter.NewLine(xys)
		if err != nil {
			return err
		}
		line.Color, line.Width = s.Color, vg.Points(1.3)
		if s.Dashed {
			line.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
		}
		p.Add(line)
		thumbs = append(thumbs, line)
	}
	if s.Errs != nil {
		eb, err := plotter.NewYErrorBars(struct {
			plotter.XYer
			plotter.YErrorer
		}{xys, bars})
		if err != nil {
			return err
		}
		eb.Color, eb.LineStyle.Width = s.Color, vg.Points(0.8)
		p.Add(eb)
	}
	if s.Shape != nil {
		points, err := plotter.NewScatter(xys)
		if err != nil {
			return err
		}
		points.Color, points.Shape, points.Radius = s.Color, s.Shape, vg.Points(2.8)
		p.Add(points)
		thumbs = append(thumbs, points)
	}
	if s.Label != "" {
		p.Legend.Add(s.Label, thumbs...)
	}
	return nil
}
