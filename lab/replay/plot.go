package replay

import (
	"fmt"
	"image/color"
	"io"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The colours of the replay's picture.
var (
	replayCaught = color.RGBA{R: 0x1b, G: 0x6c, B: 0xa8, A: 0xff}
	replayMissed = color.RGBA{R: 0xd9, G: 0xd9, B: 0xd9, A: 0xff}
	replayLine   = color.RGBA{R: 0x10, G: 0x3a, B: 0x5c, A: 0xff}
	replayHam    = color.RGBA{R: 0xc0, G: 0x39, B: 0x2b, A: 0xff}
)

// PlotSVG draws the catch rate over time as SVG: below, the spam that was caught and missed
// in each slice of time; above, the share caught so far, and the share of ham that was
// called spam so far.
func (r *Result) PlotSVG(w io.Writer) error {
	c := vgsvg.New(replayWidth, replayHeight)
	if err := r.draw(draw.New(c)); err != nil {
		return err
	}
	_, err := c.WriteTo(w)
	return err
}

// PlotPNG is [Result.PlotSVG] as PNG.
func (r *Result) PlotPNG(w io.Writer) error {
	c := vgimg.New(replayWidth, replayHeight)
	if err := r.draw(draw.New(c)); err != nil {
		return err
	}
	_, err := vgimg.PngCanvas{Canvas: c}.WriteTo(w)
	return err
}

const (
	replayWidth  = 9 * vg.Inch
	replayHeight = 5.5 * vg.Inch
)

func (r *Result) draw(c draw.Canvas) error {
	rates, err := r.ratePlot()
	if err != nil {
		return err
	}
	bars, err := r.barPlot()
	if err != nil {
		return err
	}
	canvases := plot.Align([][]*plot.Plot{{rates}, {bars}}, draw.Tiles{Rows: 2, Cols: 1, PadY: vg.Points(10),
		PadX:   vg.Points(4),
		PadTop: vg.Points(6), PadBottom: vg.Points(6), PadLeft: vg.Points(6), PadRight: vg.Points(14)}, c)
	rates.Draw(canvases[0][0])
	bars.Draw(canvases[1][0])
	return nil
}

func (r *Result) ratePlot() (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = fmt.Sprintf("Spam caught: %.1f %% of %d; ham called spam: %d of %d", 100*r.CatchRate(), r.Spam,
		r.Filters.HamFlagged, r.Ham)
	p.Y.Label.Text = "share so far, %"
	p.Y.Min, p.Y.Max = 0, 130 // room for the legend
	p.Y.Tick.Marker = plot.ConstantTicks{{Value: 0, Label: "0"}, {Value: 25}, {Value: 50, Label: "50"}, {Value: 75},
		{Value: 100, Label: "100"}}
	p.Add(plotter.NewGrid())
	r.timeAxis(p)
	var caught, flagged plotter.XYs
	var spam, got, ham, wrong int
	for _, point := range r.Series {
		spam, got, ham, wrong = spam+point.Spam, got+point.Caught, ham+point.Ham, wrong+point.HamFlagged
		x := float64(point.Start.Unix())
		if spam > 0 {
			caught = append(caught, plotter.XY{X: x, Y: 100 * rate(got, spam)})
		}
		if ham > 0 {
			flagged = append(flagged, plotter.XY{X: x, Y: 100 * rate(wrong, ham)})
		}
	}
	for _, line := range []struct {
		name  string
		xys   plotter.XYs
		color color.Color
	}{{"spam caught", caught, replayLine}, {"ham called spam", flagged, replayHam}} {
		if len(line.xys) == 0 {
			continue
		}
		l, err := plotter.NewLine(line.xys)
		if err != nil {
			return nil, err
		}
		l.Color, l.Width = line.color, vg.Points(2)
		p.Add(l)
		p.Legend.Add(line.name, l)
	}
	p.Legend.Top, p.Legend.Left = true, true
	return p, nil
}

func (r *Result) barPlot() (*plot.Plot, error) {
	p := plot.New()
	p.Y.Label.Text = "spam " + r.sliceName()
	most := 1
	for _, point := range r.Series {
		most = max(most, point.Spam)
	}
	p.Y.Min, p.Y.Max = 0, 1.3*float64(most) // likewise
	r.timeAxis(p)
	if len(r.Series) == 0 {
		return p, nil
	}
	slice := r.sliceSeconds()
	for _, part := range []struct {
		name   string
		height func(Point) (from, to int)
		color  color.Color
	}{
		{"caught", func(q Point) (int, int) { return 0, q.Caught }, replayCaught},
		{"missed", func(q Point) (int, int) { return q.Caught, q.Spam }, replayMissed},
	} {
		var legend *plotter.Polygon
		for _, point := range r.Series {
			from, to := part.height(point)
			if from == to && legend != nil {
				continue
			}
			x := float64(point.Start.Unix())
			left, right := x+0.08*slice, x+0.92*slice
			box, err := plotter.NewPolygon(plotter.XYs{{X: left, Y: float64(from)}, {X: left, Y: float64(to)},
				{X: right, Y: float64(to)}, {X: right, Y: float64(from)}})
			if err != nil {
				return nil, err
			}
			box.Color, box.LineStyle.Width = part.color, 0
			p.Add(box)
			legend = box
		}
		p.Legend.Add(part.name, legend)
	}
	p.Legend.Top, p.Legend.Left = true, true
	return p, nil
}

// sliceName returns the length of a slice of time, in words.
func (r *Result) sliceName() string {
	switch hours := int(r.sliceSeconds() / 3600); {
	case hours == 1:
		return "an hour"
	case hours == 24:
		return "a day"
	case hours == 7*24:
		return "a week"
	case hours%24 == 0:
		return fmt.Sprintf("in %d days", hours/24)
	default:
		return fmt.Sprintf("in %d hours", hours)
	}
}

func (r *Result) sliceSeconds() float64 {
	if len(r.Series) < 2 {
		return 3600
	}
	return r.Series[1].Start.Sub(r.Series[0].Start).Seconds()
}

// timeAxis gives both plots the same time axis.
func (r *Result) timeAxis(p *plot.Plot) {
	first, last := r.First, r.Last
	if n := len(r.Series); n > 0 {
		first, last = r.Series[0].Start, r.Series[n-1].Start.Add(time.Duration(r.sliceSeconds())*time.Second)
	}
	format := "2006-01-02"
	if last.Sub(first) < 4*24*time.Hour {
		format = "01-02 15:04"
	}
	p.X.Min, p.X.Max = float64(first.Unix()), float64(last.Unix())
	var ticks plot.ConstantTicks
	every := max(1, (len(r.Series)+5)/6)
	for i := 0; i < len(r.Series); i += every {
		start := r.Series[i].Start
		ticks = append(ticks, plot.Tick{Value: float64(start.Unix()), Label: start.UTC().Format(format)})
	}
	p.X.Tick.Marker = ticks
}
