package study

import (
	"fmt"
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg/draw"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/filter/paper"
)

// figures returns the pictures of all parts that were run.
func (p *plan) figures(experiments [][]row) (all []*figure, err error) {
	for _, rows := range experiments {
		all = append(all, experimentFigure(rows))
	}
	if p.growth != nil {
		all = append(all, p.growth.figure())
	}
	if p.twoPart != nil {
		all = append(all, jiangZhaoFigures()...)
		all = append(all, p.twoPart.figure())
	}
	if p.rate != nil {
		all = append(all, p.rate.figure())
	}
	if p.merge != nil {
		all = append(all, mergeFigure(p.mergeRows()))
	}
	if p.split != nil {
		all = append(all, p.split.figure())
	}
	if p.dcc != nil {
		all = append(all, p.dcc.figure())
	}
	return all, nil
}

// experimentFigure is one of the paper's Figures 3 to 10.
func experimentFigure(rows []row) *figure {
	e := rows[0].experiment
	f := &figure{
		name: fmt.Sprintf("experiment-%d", e.number), title: fmt.Sprintf("Experiment %d", e.number),
		caption: fmt.Sprintf("Figure %d of the paper: false-positive rates of both extensions in Experiment %d.", e.number+2, e.number),
		xLabel:  "filter size m (cells)", yLabel: "false-positive rate", logX: true, logY: true,
	}
	for _, m := range e.sizes {
		f.xTicks = append(f.xTicks, plot.Tick{Value: float64(m), Label: strconv.Itoa(m) + "K"})
	}
	printed := map[string]cell{}
	for _, c := range printedCells() {
		printed[c.id()] = c
	}
	paper := series{label: "as printed", color: color.Black, shape: draw.CrossGlyph{}, bare: true}
	for _, refined := range []bool{false, true} {
		for i, k := range hashCounts() {
			s := series{label: fmt.Sprintf("intuitive, k = %d", k), color: palette(i), shape: shapes(i), dashed: true}
			if refined {
				s.label, s.dashed = fmt.Sprintf("refined, k = %d", k), false
			}
			for _, r := range rows {
				if r.k != k {
					continue
				}
				x := float64(r.m) / 1000 * math.Pow(1.05, float64(i-1)) // side by side
				value, extension, number := r.intuitive, "intuitive", e.intuitiveOf()
				if refined {
					value, extension, number = r.refined, "refined", e.number
				}
				s.xs, s.ys, s.errs = append(s.xs, x), append(s.ys, value.mean), append(s.errs, 3*value.se())
				c := printed[cell{experiment: number, extension: extension, m: thousands(r.m), k: k}.id()]
				paper.xs, paper.ys = append(paper.xs, x), append(paper.ys, c.stat().mean)
			}
			f.series = append(f.series, s)
		}
	}
	f.series = append(f.series, paper)
	return f
}

func (g *growthResult) figure() *figure {
	f := &figure{
		name: "growth", title: "Errors over time, refined, 80K cells, k = 6",
		caption: "Share of wrong counts after each twentieth of the insertions: in rounds (Experiment 1) all errors arise in the first two, in random order (Experiment 3) more arise all the time.",
		xTicks:  numberTicks(1, 5, 10, 15, 20),
		xLabel:  "insertions (twentieths)", yLabel: "share of elements counted wrong", legendLeft: true,
	}
	a := series{label: "Experiment 3, shuffled", color: palette(1), shape: shapes(1)}
	b := series{label: "Experiment 1, in rounds", color: palette(0), shape: shapes(0)}
	for i := range g.Sequential {
		x := float64(i + 1)
		a.xs, a.ys = append(a.xs, x), append(a.ys, g.Shuffled[i])
		b.xs, b.ys = append(b.xs, x), append(b.ys, g.Sequential[i])
	}
	f.series = []series{a, b}
	f.yMax = 1.35 * g.Shuffled[len(g.Shuffled)-1]
	return f
}

// jiangZhaoFigures computes the curves of Jiang & Zhao's Figures 1 to 3.
func jiangZhaoFigures() []*figure {
	one := &figure{
		name: "jiang-zhao-1", title: "False positives against hash functions, m/n = 32",
		caption: "Figure 1 of Jiang & Zhao: the false-positive rate by formula 2 at 32 bits an element.",
		xTicks:  numberTicks(1, 4, 8, 10, 16, 22, 32),
		xLabel:  "hash functions k", yLabel: "false-positive rate", logY: true,
	}
	s := series{label: "formula 2", color: palette(0), shape: shapes(0)}
	for k := 1; k <= 32; k++ {
		s.xs, s.ys = append(s.xs, float64(k)), append(s.ys, paper.FalsePositiveRateApprox(32, k))
	}
	one.series = []series{s}
	two := &figure{
		name: "jiang-zhao-2", title: "False positives against size",
		caption: "Figure 2 of Jiang & Zhao: the false-positive rate by formula 2 against the size, for several numbers of hash functions.",
		xLabel:  "bits an element, m/n", yLabel: "false-positive rate", logY: true, legendBottom: true, legendLeft: true,
	}
	three := &figure{
		name: "jiang-zhao-3", title: "Memory against false positives, a million elements",
		caption: "Figure 3 of Jiang & Zhao: memory by formula 3.",
		xLabel:  "false-positive rate", yLabel: "memory, MB", logX: true, logY: true,
	}
	for i, k := range []int{4, 8, 16, 32} {
		a := series{label: fmt.Sprintf("k = %d", k), color: palette(i)}
		b := a
		for c := 2.0; c <= 64; c++ {
			a.xs, a.ys = append(a.xs, c), append(a.ys, paper.FalsePositiveRateApprox(c, k))
		}
		for e := 1.0; e <= 9; e += 0.25 {
			rate := math.Pow(10, -e)
			b.xs, b.ys = append(b.xs, rate), append(b.ys, filter.BitsPerElement(k, rate)/8)
		}
		two.series, three.series = append(two.series, a), append(three.series, b)
	}
	return []*figure{one, two, three}
}

// figure shows the two-part filter beside the classic one, 16 bits an element.
func (t *twoPartResult) figure() *figure {
	f := &figure{
		name: "two-part", title: "Two-part filter, 16 bits an element",
		caption: "False positives of the two-part filter by eigenvalue, and of a classic filter of the same size and number of hash functions, on seven kinds of addresses. The dashed line is formula 5 as printed.",
		xLabel:  "kind of addresses (see the table)", yLabel: "false-positive rate", logY: true, xMin: 0.5, xMax: 7.5, yMin: 5e-6, yMax: 0.3,
	}
	var cases []string
	lines := map[string]*series{}
	classic := series{label: "classic", color: color.Black, shape: draw.CrossGlyph{}, bare: true}
	formula := series{label: "formula 5", color: palette(5), dashed: true}
	for _, e := range twoPartEigenvalues() {
		i := len(lines)
		lines[e.String()] = &series{label: "two-part, " + e.String(), color: palette(i), shape: shapes(i), bare: true}
	}
	for _, r := range t.Rows {
		if r.Bits != 16 {
			continue
		}
		if len(cases) == 0 || cases[len(cases)-1] != r.Case {
			cases = append(cases, r.Case)
			x := float64(len(cases))
			classic.xs, classic.ys = append(classic.xs, x), append(classic.ys, share(r.Classic, r.Asked))
			formula.xs, formula.ys = append(formula.xs, x), append(formula.ys, r.Formula)
			f.xTicks = append(f.xTicks, plot.Tick{Value: x, Label: string(rune('A' + len(cases) - 1))})
		}
		s := lines[r.Eigen]
		x := float64(len(cases)) + 0.07*(float64(eigenIndex(r.Eigen))-2.5)
		s.xs, s.ys = append(s.xs, x), append(s.ys, share(r.TwoPart, r.Asked))
	}
	for _, e := range twoPartEigenvalues() {
		f.series = append(f.series, *lines[e.String()])
	}
	f.series = append(f.series, classic, formula)
	return f
}

func eigenIndex(name string) int {
	for i, e := range twoPartEigenvalues() {
		if e.String() == name {
			return i
		}
	}
	return 0
}

func share(n, of int) float64 { return float64(n) / float64(max(of, 1)) }

func (r *rateResult) figure() *figure {
	f := &figure{
		name: "unique-rate", title: "Unique-rate filter, 16 bits x limit, 8 functions",
		caption: "Finch's table: false positives against the sending rate. The line is the formula, points are measured.",
		xLabel:  "sending rate / limit", yLabel: "false-positive rate", logY: true, legendBottom: true,
	}
	line := series{label: "formula", color: palette(5)}
	for x := 0.3; x <= 4.2; x += 0.05 {
		line.xs, line.ys = append(line.xs, x), append(line.ys, paper.FalsePositiveRateApprox(filter.DefaultRateBits/x, filter.DefaultRateHashes))
	}
	f.series = []series{line}
	for i, limit := range []int{10, 100, 1000} {
		s := series{label: fmt.Sprintf("limit %d", limit), color: palette(i), shape: shapes(i), bare: true}
		for _, row := range r.Rows {
			if row.Limit == limit {
				s.xs, s.ys = append(s.xs, row.Relative), append(s.ys, share(row.Found, row.Asked))
				s.errs = append(s.errs, 3*math.Sqrt(float64(row.Found))/float64(max(row.Asked, 1)))
			}
		}
		f.series = append(f.series, s)
	}
	return f
}

func mergeFigure(rows []mergeRow) *figure {
	f := &figure{
		name: "merge", title: "Merging refined filters, 20 synchronisations",
		caption: "Share of wrong counts after merging, against the number of servers. Only H1 on the merged array counts too low; all other methods can only count too high.",
		xLabel:  "servers", yLabel: "share of elements counted wrong", logX: true, logY: true, legendBottom: true, legendLeft: true,
	}
	methods := []struct {
		label string
		value func(mergeRow) float64
	}{
		{"H1 on the merged array: too low", func(r mergeRow) float64 { return r.MergedUnder }},
		{"intuitive extension", func(r mergeRow) float64 { return r.IntuitiveOver }},
		{"new array each period, summed", func(r mergeRow) float64 { return r.PeriodOver }},
		{"minimum of the sum", func(r mergeRow) float64 { return r.MinOfSum }},
		{"own + others", func(r mergeRow) float64 { return r.OwnAndOthers }},
		{"sum of the minima", func(r mergeRow) float64 { return r.SumOfMin }},
		{"one array sees all", func(r mergeRow) float64 { return r.OneOver }},
	}
	for i, m := range methods {
		s := series{label: m.label, color: palette(i), shape: shapes(i)}
		for _, r := range rows {
			if r.Syncs == 20 {
				s.xs, s.ys = append(s.xs, float64(r.Servers)), append(s.ys, m.value(r))
			}
		}
		f.series = append(f.series, s)
	}
	f.xTicks = numberTicks(2, 4, 8, 16, 32)
	f.yMin, f.yMax = 1e-7, 0.1
	return f
}

// figure shows the memory of split storage against the base width.
func (r *splitResult) figure() *figure {
	f := &figure{
		name: "split", title: "Split storage, exact counts",
		caption: "Memory of the paper's split storage (s bits, a flag and tables) against the base width s, for report counts of different tails and for real mail.",
		xLabel:  "base width s, bits", yLabel: "bits a cell, tables included", yMin: 2, yMax: 20,
	}
	for i, name := range r.names() {
		s := series{label: name, color: palette(i), shape: shapes(i)}
		for base := 1; base <= 8; base++ {
			for _, row := range r.Rows {
				if row.Counts == name && row.Layout == itoa(base)+"+1 bits" {
					s.xs, s.ys = append(s.xs, float64(base)), append(s.ys, row.Bits)
				}
			}
		}
		f.series = append(f.series, s)
	}
	return f
}

func (r *dccResult) figure() *figure {
	f := &figure{
		name: "dcc", title: "f_dcc on real mail (dcc/fuz1, k = 4)",
		caption: "Probability that an unseen message is shown at or above the threshold, on the signatures of real mail, against the size of the filter: measured, and dashed the formula for skewed counts.",
		xLabel:  "cells for each different signature", yLabel: "probability", logX: true, logY: true, legendBottom: true, legendLeft: true,
	}
	for i, t := range dccThresholds() {
		measured := series{label: fmt.Sprintf("refined, t = %d", t), color: palette(i), shape: shapes(i)}
		formula := series{color: palette(i), dashed: true}
		for _, row := range r.Rows {
			if row.Scheme == "dcc/fuz1" && row.K == 4 && row.Threshold == t {
				measured.xs, measured.ys = append(measured.xs, row.Cells), append(measured.ys, row.UnseenR)
				formula.xs, formula.ys = append(formula.xs, row.Cells), append(formula.ys, row.Skewed)
			}
		}
		f.series = append(f.series, measured, formula)
	}
	f.xTicks = numberTicks(dccCells()...)
	return f
}

func numberTicks(values ...float64) (ticks []plot.Tick) {
	for _, v := range values {
		ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', -1, 64)})
	}
	return ticks
}
