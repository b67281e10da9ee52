// Package chart draws numbers over time as SVG with axes. Each bar shows its numbers on hover, and a
// table under the chart has them for screen readers.
//
//	c := chart.Chart{Title: "Verdicts", Slot: time.Hour, Starts: starts, Series: series}
//	node := c.Draw()
package chart

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// A Series is one kind of numbers, one for each slot of its chart.
type Series struct {
	Class  string // part of the CSS classes class-CLASS of its bars and key-CLASS of its legend
	Name   string
	Values []uint64
}

// sum returns the sum of all values.
func (s *Series) sum() (n uint64) {
	for _, v := range s.Values {
		n += v
	}
	return n
}

// A Mark is an event on the time axis.
type Mark struct {
	At   time.Time
	Text string
}

// A Chart shows series of numbers as stacked bars over time.
type Chart struct {
	Title  string
	Starts []time.Time   // of the slots, the oldest first, with the same distance
	Slot   time.Duration // length of a slot
	Series []Series      // from the bottom
	Marks  []Mark        // events inside the chart; others are left out
}

// The size of a drawing, in its own units, which the browser stretches. minBar is the height of the
// smallest bar.
const (
	width, height = 1000, 100
	minBar        = 0.8
)

// maxEvents is the largest number of events that are listed under a chart.
const maxEvents = 6

// Draw returns the chart. It must have at least one slot.
func (c *Chart) Draw() g.Node {
	top := Top(c.most())
	step := width / float64(len(c.Starts))
	end := c.Starts[len(c.Starts)-1].Add(c.Slot)
	var drawn g.Group
	for _, y := range []int{0, height / 2, height} {
		drawn = append(drawn, g.El("line", h.Class("grid"), attr("x1", 0), attr("x2", width), attr("y1", float64(y)),
			attr("y2", float64(y))))
	}
	for i := range c.Starts {
		drawn = append(drawn, c.bars(i, step, top))
	}
	marks := c.marksUntil(end)
	for _, m := range marks {
		x := width * float64(m.At.Sub(c.Starts[0])) / float64(end.Sub(c.Starts[0]))
		drawn = append(drawn, g.El("line", h.Class("mark"), attr("x1", x), attr("x2", x), attr("y1", 0), attr("y2", height),
			g.El("title", g.Text(c.label(m.At)+" "+m.Text))))
	}
	return g.El("figure", h.Class("plot"),
		h.Div(h.Class("plotted"),
			h.Div(h.Class("yaxis"), h.Aria("hidden", "true"), h.Span(g.Text(Short(top))), h.Span(g.Text(Short(top/2))),
				h.Span(g.Text("0"))),
			h.SVG(h.Class("chart"), g.Attr("viewBox", fmt.Sprintf("0 0 %d %d", width, height)),
				g.Attr("preserveAspectRatio", "none"), h.Role("img"), h.Aria("label", c.Title+": "+c.words()), drawn)),
		h.P(h.Class("axis"), h.Aria("hidden", "true"), g.Map(c.ticks(), func(t time.Time) g.Node {
			return h.Span(g.Text(c.label(t)))
		})),
		c.legend(), listed(marks, c.label), c.table())
}

// bars returns the bars of a slot, with a title over its whole height.
func (c *Chart) bars(i int, step float64, top uint64) g.Node {
	x, y := float64(i)*step, float64(height)
	var all g.Group
	for _, s := range c.Series {
		if s.Values[i] == 0 {
			continue
		}
		tall := max(minBar, float64(s.Values[i])/float64(top)*height)
		y = max(0, y-tall)
		all = append(all, g.El("rect", h.Class("class-"+s.Class), attr("x", x+step*0.08), attr("y", y),
			h.Width(number(step*0.84)), h.Height(number(tall))))
	}
	return g.El("g", h.Class("slot"),
		g.El("title", g.Text(c.span(i)+": "+c.wordsAt(i))),
		g.El("rect", h.Class("hit"), attr("x", x), attr("y", 0), h.Width(number(step)), h.Height(strconv.Itoa(height))), all)
}

// most returns the largest sum of a slot.
func (c *Chart) most() (most uint64) {
	for i := range c.Starts {
		n := uint64(0)
		for _, s := range c.Series {
			n += s.Values[i]
		}
		most = max(most, n)
	}
	return most
}

// words returns the sums of the series.
func (c *Chart) words() string {
	var all []string
	for i := range c.Series {
		all = append(all, Grouped(c.Series[i].sum())+" "+c.Series[i].Name)
	}
	return strings.Join(all, ", ")
}

// wordsAt returns the numbers of a slot that are not 0.
func (c *Chart) wordsAt(i int) string {
	var all []string
	for _, s := range c.Series {
		if s.Values[i] > 0 {
			all = append(all, Grouped(s.Values[i])+" "+s.Name)
		}
	}
	if len(all) == 0 {
		return "nothing"
	}
	return strings.Join(all, ", ")
}

// label formats a time, to the precision of the slots.
func (c *Chart) label(t time.Time) string {
	t = t.UTC()
	switch whole := time.Duration(len(c.Starts)) * c.Slot; {
	case c.Slot >= 24*time.Hour:
		return t.Format("2 Jan")
	case whole > 24*time.Hour:
		return t.Format("2 Jan 15:04")
	}
	return t.Format("15:04")
}

// span formats the time of a slot.
func (c *Chart) span(i int) string {
	if c.Slot >= 24*time.Hour {
		return c.label(c.Starts[i])
	}
	return c.label(c.Starts[i]) + " to " + c.Starts[i].Add(c.Slot).UTC().Format("15:04")
}

// ticks returns the times under the chart.
func (c *Chart) ticks() []time.Time {
	n := len(c.Starts)
	if n < 4 {
		return c.Starts
	}
	return []time.Time{c.Starts[0], c.Starts[n/4], c.Starts[n/2], c.Starts[3*n/4]}
}

func (c *Chart) marksUntil(end time.Time) (inside []Mark) {
	for _, m := range c.Marks {
		if !m.At.Before(c.Starts[0]) && m.At.Before(end) {
			inside = append(inside, m)
		}
	}
	return inside
}

func (c *Chart) legend() g.Node {
	return h.P(h.Class("legend"), g.Map(c.Series, func(s Series) g.Node {
		return h.Span(h.Span(h.Class("key key-"+s.Class)), g.Text(Grouped(s.sum())+" "+s.Name))
	}))
}

// listed returns the latest events as a list, because a line in the drawing is easily missed.
func listed(marks []Mark, label func(time.Time) string) g.Node {
	if len(marks) == 0 {
		return nil
	}
	shown := marks[max(0, len(marks)-maxEvents):]
	return h.Ul(h.Class("events"), g.Map(shown, func(m Mark) g.Node { return h.Li(g.Text(label(m.At) + " " + m.Text)) }),
		g.If(len(shown) < len(marks), h.Li(g.Text(fmt.Sprintf("and %d earlier", len(marks)-len(shown))))))
}

// table returns the numbers of all slots in which there are numbers.
func (c *Chart) table() g.Node {
	var rows g.Group
	for i := range c.Starts {
		if c.wordsAt(i) == "nothing" {
			continue
		}
		rows = append(rows, h.Tr(h.Th(g.Attr("scope", "row"), g.Text(c.span(i))), g.Map(c.Series, func(s Series) g.Node {
			return h.Td(h.Class("num"), g.Text(Grouped(s.Values[i])))
		})))
	}
	if len(rows) == 0 {
		return nil
	}
	return h.Details(h.Summary(g.Text("The numbers as a table")), h.Div(h.Class("scroll"), g.Attr("tabindex", "0"),
		h.Table(
			h.THead(h.Tr(h.Th(g.Text("Time, UTC")), g.Map(c.Series, func(s Series) g.Node {
				return h.Th(h.Class("num"), g.Text(s.Name))
			}))), h.TBody(rows))))
}

// Top returns the number at the top of an axis that has to reach n: an even 1, 2, 4, 5, 6 or 8 times a
// power of ten, at least 2.
func Top(n uint64) uint64 {
	if n <= 2 {
		return 2
	}
	scale := math.Pow(10, math.Floor(math.Log10(float64(n))))
	for _, lead := range []float64{1, 2, 4, 5, 6, 8, 10} {
		if top := uint64(lead * scale); top >= n && top%2 == 0 {
			return top
		}
	}
	return n
}

// Short formats a number for an axis, for example 12k.
func Short(n uint64) string {
	for _, unit := range []struct {
		size uint64
		name string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if n >= unit.size {
			return strconv.FormatFloat(float64(n)/float64(unit.size), 'f', -1, 64) + unit.name
		}
	}
	return strconv.FormatUint(n, 10)
}

// Grouped formats a number with thin spaces between thousands.
func Grouped(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + "\u202f" + s[at:]
	}
	return s
}

// Spark draws values as small bars. label describes them to screen readers and on hover.
func Spark(class, label string, values []uint64) g.Node {
	most := uint64(1)
	for _, n := range values {
		most = max(most, n)
	}
	const least = 24 // a young row of values is not one broad bar
	step := 120 / float64(max(least, len(values)))
	var bars g.Group
	for i, n := range values {
		if n > 0 {
			tall := max(1, 22*float64(n)/float64(most))
			bars = append(bars, g.El("rect", h.Class("class-"+class), attr("x", float64(i)*step), attr("y", 23-tall),
				h.Width(number(max(0.8, step-0.4))), h.Height(number(tall))))
		}
	}
	return h.SVG(h.Class("spark"), g.Attr("viewBox", "0 0 120 24"), g.Attr("preserveAspectRatio", "none"), h.Role("img"),
		h.Aria("label", label), g.El("title", g.Text(label)),
		g.El("rect", h.Class("track"), attr("y", 23), h.Width("120"), h.Height("1")), bars)
}

// Balance draws where a number lies between two ends: x is -1 at the left end, "wanted", 0 if nothing is
// known, and 1 at the right end, "spam". label describes it.
func Balance(x float64, label string) g.Node {
	x = max(-1, min(1, x))
	class, from := "spam", 50.0
	long := 50 * math.Abs(x)
	if x < 0 {
		class, from = "good", 50-long
	}
	return h.SVG(h.Class("balance"), g.Attr("viewBox", "0 0 100 8"), g.Attr("preserveAspectRatio", "none"), h.Role("img"),
		h.Aria("label", label), g.El("title", g.Text(label)),
		g.El("rect", h.Class("track"), h.Width("100"), h.Height("8")),
		g.El("rect", h.Class("class-"+class), attr("x", from), h.Width(number(long)), h.Height("8")),
		g.El("rect", h.Class("middle"), attr("x", 49.75), h.Width("0.5"), h.Height("8")))
}

// Interval draws a share with its confidence interval. low, share and high are 0 to 1, and stand
// at the places of their square roots: small shares get more room. label describes them.
func Interval(low, share, high float64, label string) g.Node {
	at := func(x float64) float64 { return 100 * math.Sqrt(max(0, min(1, x))) }
	return h.SVG(h.Class("balance"), g.Attr("viewBox", "0 0 100 8"), g.Attr("preserveAspectRatio", "none"), h.Role("img"),
		h.Aria("label", label), g.El("title", g.Text(label)),
		g.El("rect", h.Class("track"), h.Width("100"), h.Height("8")),
		g.El("rect", h.Class("class-suspected"), attr("x", at(low)), h.Width(number(max(0.5, at(high)-at(low)))),
			h.Height("8")),
		g.El("rect", h.Class("middle"), attr("x", min(99, at(share))), h.Width("1"), h.Height("8")))
}

func attr(name string, x float64) g.Node { return g.Attr(name, number(x)) }

func number(x float64) string { return strconv.FormatFloat(math.Round(10*x)/10, 'f', -1, 64) }
