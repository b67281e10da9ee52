// Package reliability measures how far the confidence of verdicts can be believed: of the
// messages that were answered with a confidence, how many were spam.
package reliability

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"gonum.org/v1/plot/vg/draw"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/interval"
	"github.com/bulkhead-mail/bulkhead/lab/figure"
)

// edges are the confidences at which bands begin. No band has two classes.
var edges = []int{0, 1, 10, 20, 30, 40, 50, 60, 70, 75, 80, 85, 90, 95, 98, 101}

// A Table counts answers by class and confidence. The zero value is empty.
type Table struct {
	answers, spam [bulkhead.NumClasses][101]int
}

// Add counts an answer to a message: its class and confidence, and whether it is spam.
// Confidences outside of 0 to 100 count as the next one inside.
func (t *Table) Add(class bulkhead.Class, confidence int, spam bool) {
	confidence = min(max(confidence, 0), 100)
	t.answers[class][confidence]++
	if spam {
		t.spam[class][confidence]++
	}
}

// Merge adds what o has counted.
func (t *Table) Merge(o *Table) {
	for class := range t.answers {
		for c := range t.answers[class] {
			t.answers[class][c] += o.answers[class][c]
			t.spam[class][c] += o.spam[class][c]
		}
	}
}

// A Band is the answers of one class whose confidence is in a range.
type Band struct {
	Class string `json:"class"`
	From  int    `json:"from"` // the least confidence
	To    int    `json:"to"`   // the largest
	// Answers is how many there were, Spam how many of the messages were spam, and Sum how
	// many would be by the confidences: their sum, in messages.
	Answers int     `json:"answers"`
	Spam    int     `json:"spam"`
	Sum     float64 `json:"sum"`
	// Low and High are the 95 % interval (Wilson) of the share of spam, as if answers were
	// independent. Copies of one mailing are not.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Promised is the mean confidence of the answers, 0 to 1.
func (b *Band) Promised() float64 { return b.Sum / float64(b.Answers) }

// Observed is the share of spam among them.
func (b *Band) Observed() float64 { return float64(b.Spam) / float64(b.Answers) }

// Bands returns all ranges of confidence that have answers, the surest class first.
func (t *Table) Bands() (bands []Band) {
	for class := bulkhead.NumClasses; class > 0; {
		class--
		for i := len(edges) - 1; i > 0; i-- {
			if b := t.band(class, edges[i-1], edges[i]-1); b.Answers > 0 {
				bands = append(bands, b)
			}
		}
	}
	return bands
}

func (t *Table) band(class bulkhead.Class, from, to int) Band {
	b := Band{Class: class.String(), From: from, To: to}
	for c := from; c <= to; c++ {
		b.Answers += t.answers[class][c]
		b.Spam += t.spam[class][c]
		b.Sum += float64(c*t.answers[class][c]) / 100
	}
	b.Low, b.High = interval.Wilson(b.Spam, b.Answers)
	return b
}

// MarshalJSON returns the bands.
func (t *Table) MarshalJSON() ([]byte, error) { return json.Marshal(t.Bands()) }

// Print writes the bands as a table.
func (t *Table) Print(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "class\tconfidence\tmean\tanswers\tof them spam\t95 % interval\t")
	for _, b := range t.Bands() {
		fmt.Fprintf(out, "%s\t%s\t%.1f\t%d\t%.2f %%\t%.2f to %.2f\t\n", b.Class, b.span(), 100*b.Promised(), b.Answers,
			100*b.Observed(), 100*b.Low, 100*b.High)
	}
	return out.Flush()
}

func (b *Band) span() string {
	if b.From == b.To {
		return fmt.Sprint(b.From)
	}
	return fmt.Sprintf("%d to %d", b.From, b.To)
}

// Named is a table with what it was measured on.
type Named struct {
	Name  string
	Table *Table
}

// A Picture shows tables side by side.
type Picture []Named

// least is how many answers a band needs to be a point of a picture.
const least = 20

// PlotSVG draws, as SVG, the share of spam against the confidence, with the
// intervals. Points above the diagonal were surer to be spam than the node said.
func (p Picture) PlotSVG(w io.Writer) error { return p.figure().Draw(w, "svg") }

// PlotPNG is [Picture.PlotSVG] as PNG.
func (p Picture) PlotPNG(w io.Writer) error { return p.figure().Draw(w, "png") }

func (p Picture) figure() *figure.Figure {
	f := &figure.Figure{
		Name: "reliability", Title: "Of messages answered with a confidence, how many were spam",
		XLabel: "confidence", YLabel: "spam, %", XMin: 0, XMax: 101, YMin: 0, YMax: 105, LegendBottom: true,
	}
	for i, n := range p {
		s := figure.Series{Label: n.Name, Color: figure.Palette(i), Shape: figure.Shapes(i), Bare: true}
		for _, b := range n.Table.Bands() {
			if b.Answers < least {
				continue
			}
			s.Xs, s.Ys = append(s.Xs, 100*b.Promised()), append(s.Ys, 100*b.Observed())
			s.Below, s.Above = append(s.Below, 100*(b.Observed()-b.Low)), append(s.Above, 100*(b.High-b.Observed()))
		}
		f.Series = append(f.Series, s)
	}
	f.Series = append(f.Series, figure.Series{
		Label: "as promised", Color: figure.Palette(5), Dashed: true, Shape: draw.GlyphDrawer(nil), Xs: []float64{0, 100},
		Ys: []float64{0, 100},
	})
	return f
}
