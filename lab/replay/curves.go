package replay

import (
	"fmt"
	"io"
	"math"

	"gonum.org/v1/plot"

	"github.com/bulkhead-mail/bulkhead/lab/figure"
)

// A Picture is one of the pictures of a [Result] that show its judges.
type Picture struct{ figure figure.Figure }

// PlotSVG draws it as SVG.
func (p Picture) PlotSVG(w io.Writer) error { return p.figure.Draw(w, "svg") }

// PlotPNG is [Picture.PlotSVG] as PNG.
func (p Picture) PlotPNG(w io.Writer) error { return p.figure.Draw(w, "png") }

// Curves shows what each judge would have caught, by how much ham it would have called spam,
// at every limit of its score ([Judge.Curve]), and as a point what it did with its own.
func (r *Result) Curves() Picture {
	p := Picture{figure.Figure{
		Name: "curves", Title: "Spam caught, by ham called spam", XLabel: "ham called spam, %", YLabel: "spam caught, %",
		YMax: 100, LegendBottom: true,
	}}
	f := &p.figure
	for i := range r.Judges {
		j := &r.Judges[i]
		line := figure.Series{Label: j.Name, Color: figure.Palette(i), Dashes: figure.Dashes(i), Xs: []float64{0},
			Ys: []float64{0}}
		for _, c := range j.Curve {
			if c.Score > 0 {
				line.Xs, line.Ys = append(line.Xs, 100*rate(c.Ham, r.Ham)), append(line.Ys, 100*rate(c.Spam, r.Spam))
			}
		}
		x := 100 * rate(j.HamFlagged, r.Ham)
		f.XMax = max(f.XMax, x)
		f.Series = append(f.Series, line,
			figure.Series{Color: figure.Palette(i), Shape: figure.Shapes(i), Bare: true, Xs: []float64{x},
				Ys: []float64{100 * rate(j.Caught, r.Spam)}})
	}
	// The useful range, and half of its width beyond.
	f.XMax = min(100, max(1, math.Ceil(1.5*f.XMax)))
	return p
}

// Delays shows how much of the spam with several deliveries was caught by one so long after
// the first ([Detection]).
func (r *Result) Delays() Picture {
	p := Picture{figure.Figure{
		Name: "delays", Title: "Spam with several deliveries: time until one is caught", XLabel: "since the first delivery",
		YLabel: "caught so far, %",
		LogX:   true, YMax: 100, LegendLeft: true,
		XTicks: []plot.Tick{{Value: 60, Label: "1 min"}, {Value: 600, Label: "10 min"}, {Value: 3600, Label: "1 h"},
			{Value: 6 * 3600, Label: "6 h"},
			{Value: 86400, Label: "1 day"}, {Value: 7 * 86400, Label: "1 week"}, {Value: 30 * 86400, Label: "30 days"}},
	}}
	f := &p.figure
	for i := range r.Judges {
		j := &r.Judges[i]
		s := figure.Series{Label: fmt.Sprintf("%s (%d of %d)", j.Name, j.Detection.Caught, j.Detection.Messages),
			Color: figure.Palette(i), Dashes: figure.Dashes(i), Shape: figure.Shapes(i)}
		for _, w := range j.Detection.Within {
			s.Xs, s.Ys = append(s.Xs, float64(w.Seconds)), append(s.Ys, 100*rate(w.Messages, j.Detection.Messages))
		}
		f.Series = append(f.Series, s)
	}
	return p
}
