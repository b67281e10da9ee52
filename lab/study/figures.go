package study

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"path/filepath"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg/draw"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/lab/figure"
	"github.com/bulkhead-mail/bulkhead/lab/paper"
	"github.com/bulkhead-mail/bulkhead/lab/study/arrays"
	"github.com/bulkhead-mail/bulkhead/lab/study/experiment"
)

// figures returns the pictures of all parts that were run.
func (p *plan) figures(experiments [][]experiment.Row) (all []*figure.Figure, err error) {
	for _, rows := range experiments {
		all = append(all, experimentFigure(rows))
	}
	if p.growth != nil {
		all = append(all, growthFigure(p.growth))
	}
	if len(p.equal) > 0 {
		all = append(all, equalFigure(p.equal[0]))
	}
	if p.membership != nil {
		reach, err := reachFigures()
		if err != nil {
			return nil, err
		}
		all = append(all, reach...)
	}
	if f := linesFigure(p.lines); f != nil {
		all = append(all, f)
	}
	if f := nodeMergeFigure(p.node); f != nil {
		all = append(all, f)
	}
	if f := p.nodeDCCFigure(); f != nil {
		all = append(all, f)
	}
	if p.twoPart != nil {
		all = append(all, jiangZhaoFigures()...)
		all = append(all, twoPartFigure(p.twoPart))
	}
	if p.rate != nil {
		all = append(all, rateFigure(p.rate))
	}
	if p.merge != nil {
		all = append(all, mergeFigure(p.mergeRows(), p.merge[0].Rounds*arrays.MergeKeys))
	}
	if p.split != nil {
		all = append(all, splitFigure(p.split))
	}
	if p.dcc != nil {
		all = append(all, dccThresholdFigure(p.dcc))
	}
	return all, nil
}

// experimentFigure is one of the paper's Figures 3 to 10.
func experimentFigure(rows []experiment.Row) *figure.Figure {
	e := rows[0].Experiment
	f := &figure.Figure{
		Name: fmt.Sprintf("experiment-%d", e.Number), Title: fmt.Sprintf("Experiment %d", e.Number),
		Caption: fmt.Sprintf("Figure %d of the paper: false-positive rates of both extensions in Experiment %d. Points are "+
			"measured, crosses printed; bars are 95 %% intervals, exact where errors are few.", e.Number+2, e.Number),
		XLabel: "filter size m (cells)", YLabel: "false-positive rate", LogX: true, LogY: true,
	}
	for _, m := range e.Sizes {
		f.XTicks = append(f.XTicks, plot.Tick{Value: float64(m), Label: strconv.Itoa(m) + "K"})
	}
	printed := map[string]experiment.Cell{}
	for _, c := range experiment.PrintedCells() {
		printed[c.ID()] = c
	}
	paper := figure.Series{Label: "as printed", Color: color.Black, Shape: draw.CrossGlyph{}, Bare: true}
	for _, refined := range []bool{false, true} {
		for i, k := range experiment.HashCounts() {
			s := figure.Series{Label: fmt.Sprintf("intuitive, k = %d", k), Color: figure.Palette(i), Shape: figure.Hollow(i),
				Dashes: figure.Dashes(2), Thin: true}
			if refined {
				s.Label, s.Shape, s.Dashes = fmt.Sprintf("refined, k = %d", k), figure.Shapes(i), nil
			}
			for _, r := range rows {
				if r.K != k {
					continue
				}
				x := float64(r.M) / 1000 * math.Pow(1.05, float64(i-1)) // side by side
				value, extension, number := r.Intuitive, "intuitive", e.IntuitiveOf()
				if refined {
					value, extension, number = r.Refined, "refined", e.Number
				}
				below, above := statReach(value)
				s.Xs, s.Ys, s.Below, s.Above = append(s.Xs, x), append(s.Ys, value.Mean), append(s.Below, below),
					append(s.Above, above)
				c := printed[experiment.Cell{Experiment: number, Extension: extension, M: experiment.Thousands(r.M), K: k}.ID()]
				paper.Xs, paper.Ys = append(paper.Xs, x), append(paper.Ys, c.Stat().Mean)
			}
			f.Series = append(f.Series, s)
		}
	}
	f.Series = append(f.Series, paper)
	return f
}

func growthFigure(g *experiment.GrowthResult) *figure.Figure {
	f := &figure.Figure{
		Name: "growth", Title: "Errors over time, refined, 80K cells, k = 6",
		Caption: "Measured: share of wrong counts after each twentieth of the insertions: in rounds (Experiment 1) all " +
			"errors arise in the first two, in random order (Experiment 3) more arise all the time.",
		XTicks: numberTicks(1, 5, 10, 15, 20),
		XLabel: "insertions (twentieths)", YLabel: "share of elements counted wrong", LegendLeft: true,
	}
	a := figure.Series{Label: "Experiment 3, shuffled", Color: figure.Palette(1), Shape: figure.Shapes(1), Thin: true}
	b := figure.Series{Label: "Experiment 1, in rounds", Color: figure.Palette(0), Shape: figure.Hollow(0), Thin: true}
	for i := range g.Sequential {
		x := float64(i + 1)
		a.Xs, a.Ys = append(a.Xs, x), append(a.Ys, g.Shuffled[i])
		b.Xs, b.Ys = append(b.Xs, x), append(b.Ys, g.Sequential[i])
	}
	f.Series = []figure.Series{a, b}
	f.YMax = 1.35 * g.Shuffled[len(g.Shuffled)-1]
	return f
}

// jiangZhaoFigures computes the curves of Jiang & Zhao's Figures 1 to 3.
func jiangZhaoFigures() []*figure.Figure {
	one := &figure.Figure{
		Name: "jiang-zhao-1", Title: "False positives against hash functions, m/n = 32",
		Caption: "Figure 1 of Jiang & Zhao: the false-positive rate computed by formula 2 at 32 bits an element.",
		XTicks:  numberTicks(1, 4, 8, 10, 16, 22, 32),
		XLabel:  "hash functions k", YLabel: "false-positive rate", LogY: true,
	}
	s := figure.Series{Label: "formula 2, computed", Color: figure.Palette(0)}
	for k := 1; k <= 32; k++ {
		s.Xs, s.Ys = append(s.Xs, float64(k)), append(s.Ys, paper.FalsePositiveRateApprox(32, k))
	}
	one.Series = []figure.Series{s}
	two := &figure.Figure{
		Name: "jiang-zhao-2", Title: "False positives against size",
		Caption: "Figure 2 of Jiang & Zhao: the false-positive rate, computed by formula 2, against the size, for several " +
			"numbers of hash functions.",
		XLabel: "bits an element, m/n", YLabel: "false-positive rate", LogY: true, LegendBottom: true, LegendLeft: true,
	}
	three := &figure.Figure{
		Name: "jiang-zhao-3", Title: "Memory against false positives, a million elements",
		Caption: "Figure 3 of Jiang & Zhao: memory, computed by formula 3.",
		XLabel:  "false-positive rate", YLabel: "memory, MB", LogX: true, LogY: true,
	}
	for i, k := range []int{4, 8, 16, 32} {
		a := figure.Series{Label: fmt.Sprintf("k = %d", k), Color: figure.Palette(i), Dashes: figure.Dashes(i)}
		b := a
		for c := 2.0; c <= 64; c++ {
			a.Xs, a.Ys = append(a.Xs, c), append(a.Ys, paper.FalsePositiveRateApprox(c, k))
		}
		for e := 1.0; e <= 9; e += 0.25 {
			rate := math.Pow(10, -e)
			b.Xs, b.Ys = append(b.Xs, rate), append(b.Ys, filter.BitsPerElement(k, rate)/8)
		}
		two.Series, three.Series = append(two.Series, a), append(three.Series, b)
	}
	return []*figure.Figure{one, two, three}
}

// twoPartFigure shows the two-part filter beside the classic one, 16 bits an element.
func twoPartFigure(t *arrays.TwoPartResult) *figure.Figure {
	f := &figure.Figure{
		Name: "two-part", Title: "Two-part filter, 16 bits an element",
		Caption: "False positives of the two-part filter by eigenvalue, and of a classic filter of the same size and " +
			"number of hash functions. Kinds of elements: A to G made up, the others real lists (see the table). Points are " +
			"measured, with exact 95 % intervals; the dashed line is formula 5 as printed, computed.",
		XLabel: "kind of elements (see the table)", YLabel: "false-positive rate", LogY: true, YMin: 5e-6, YMax: 30, YTop: 1,
	}
	var cases []string
	lines := map[string]*counted{}
	classic := counted{figure.Series{Label: "classic", Color: color.Black, Shape: draw.CrossGlyph{}, Bare: true}}
	formula := figure.Series{Label: "formula 5", Color: figure.Palette(5), Dashes: figure.Dashes(1)}
	for _, e := range arrays.TwoPartEigenvalues() {
		i := len(lines)
		lines[e.String()] = &counted{figure.Series{Label: "two-part, " + e.String(), Color: figure.Palette(i),
			Shape: figure.Shapes(i), Bare: true}}
	}
	for _, r := range t.Rows {
		if r.Bits != 16 || r.Third {
			continue
		}
		if len(cases) == 0 || cases[len(cases)-1] != r.Case {
			cases = append(cases, r.Case)
			x := float64(len(cases))
			classic.count(x+0.21, r.Classic, r.Asked)
			formula.Xs, formula.Ys = append(formula.Xs, x), append(formula.Ys, r.Formula)
			f.XTicks = append(f.XTicks, plot.Tick{Value: x, Label: string(rune('A' + len(cases) - 1))})
		}
		s := lines[r.Eigen]
		x := float64(len(cases)) + 0.07*(float64(eigenIndex(r.Eigen))-2.5)
		s.count(x, r.TwoPart, r.Asked)
	}
	for _, e := range arrays.TwoPartEigenvalues() {
		f.Series = append(f.Series, lines[e.String()].Series)
	}
	f.Series = append(f.Series, classic.Series, formula)
	f.XMin, f.XMax = 0.5, float64(len(cases))+0.5
	return f
}

func eigenIndex(name string) int {
	for i, e := range arrays.TwoPartEigenvalues() {
		if e.String() == name {
			return i
		}
	}
	return 0
}

// A counted is a series of rates that were counted, with their exact intervals.
type counted struct{ figure.Series }

func (s *counted) count(x float64, n, of int) {
	below, above := experiment.Bars(n, of)
	s.Xs, s.Ys, s.Below, s.Above = append(s.Xs, x), append(s.Ys, experiment.Share(n, of)), append(s.Below, below),
		append(s.Above, above)
}

// statReach returns the lengths of the 95 % interval of a mean, below and above: exact if few
// events are behind it.
func statReach(s experiment.Stat) (below, above float64) {
	n := s.Events()
	if n >= experiment.RareEvents {
		return 1.96 * s.SE(), 1.96 * s.SE()
	}
	if n == 0 {
		return 0, 0 // what an error would weigh is not known
	}
	low, high := experiment.Garwood(n)
	return s.Mean * (1 - low/n), s.Mean * (high/n - 1)
}

func rateFigure(r *arrays.RateResult) *figure.Figure {
	f := &figure.Figure{
		Name: "unique-rate", Title: "Unique-rate filter, 16 bits x limit, 8 functions",
		Caption: "Finch's table: false positives against the sending rate. The line is the formula, computed; points are " +
			"measured, with exact 95 % intervals.",
		XLabel: "sending rate / limit", YLabel: "false-positive rate", LogY: true, LegendBottom: true,
	}
	line := figure.Series{Label: "formula", Color: figure.Palette(5)}
	for x := 0.3; x <= 4.2; x += 0.05 {
		line.Xs, line.Ys = append(line.Xs, x), append(line.Ys, paper.FalsePositiveRateApprox(filter.DefaultRateBits/x,
			filter.DefaultRateHashes))
	}
	f.Series = []figure.Series{line}
	for i, limit := range []int{10, 100, 1000} {
		s := counted{figure.Series{Label: fmt.Sprintf("limit %d", limit), Color: figure.Palette(i), Shape: figure.Hollow(i),
			Bare: true}}
		for _, row := range r.Rows {
			if row.Limit == limit {
				s.count(row.Relative*(1+0.02*float64(i-1)), row.Found, row.Asked)
			}
		}
		f.Series = append(f.Series, s.Series)
	}
	return f
}

func mergeFigure(rows []arrays.MergeRow, of int) *figure.Figure {
	f := &figure.Figure{
		Name: "merge", Title: "Merging refined filters, 20 synchronisations",
		Caption: "Measured on arrays of unrelated cells, with exact 95 % intervals: share of wrong counts after merging, " +
			"against the number of servers. Only H1 on the merged array counts too low; all other methods can only count too " +
			"high.",
		XLabel: "servers", YLabel: "share of elements counted wrong", LogX: true, LogY: true, LegendBottom: true,
		LegendLeft: true,
	}
	methods := []struct {
		label string
		value func(arrays.MergeRow) float64
	}{
		{"H1 on the merged array: too low", func(r arrays.MergeRow) float64 { return r.MergedUnder }},
		{"intuitive extension", func(r arrays.MergeRow) float64 { return r.IntuitiveOver }},
		{"new array each period, summed", func(r arrays.MergeRow) float64 { return r.PeriodOver }},
		{"minimum of the sum", func(r arrays.MergeRow) float64 { return r.MinOfSum }},
		{"own + others", func(r arrays.MergeRow) float64 { return r.OwnAndOthers }},
		{"sum of the minima", func(r arrays.MergeRow) float64 { return r.SumOfMin }},
		{"one array sees all", func(r arrays.MergeRow) float64 { return r.OneOver }},
	}
	for i, m := range methods {
		s := counted{figure.Series{Label: m.label, Color: figure.Palette(i), Shape: figure.Shapes(i),
			Dashes: figure.Dashes(i), Thin: true}}
		for _, r := range rows {
			if r.Syncs == 20 {
				s.count(float64(r.Servers), int(math.Round(m.value(r)*float64(of))), of)
			}
		}
		f.Series = append(f.Series, s.Series)
	}
	f.XTicks = numberTicks(2, 4, 8, 16, 32)
	f.YMin, f.YMax = 1e-7, 0.1
	return f
}

// splitFigure shows the memory of split storage against the base width.
func splitFigure(r *arrays.SplitResult) *figure.Figure {
	f := &figure.Figure{
		Name: "split", Title: "Split storage, exact counts",
		Caption: "Measured: memory of the paper's split storage (s bits, a flag and tables) against the base width s. " +
			"Report counts have different tails, or are of real mail.",
		XLabel: "base width s, bits", YLabel: "bits a cell, tables included", YMin: 2, YMax: 20,
	}
	for i, name := range r.Names() {
		s := figure.Series{Label: name, Color: figure.Palette(i), Shape: figure.Shapes(i), Dashes: figure.Dashes(i),
			Thin: true}
		for base := 1; base <= 8; base++ {
			for _, row := range r.Rows {
				if row.Counts == name && row.Layout == strconv.Itoa(base)+"+1 bits" {
					s.Xs, s.Ys = append(s.Xs, float64(base)), append(s.Ys, row.Bits)
				}
			}
		}
		f.Series = append(f.Series, s)
	}
	return f
}

func dccThresholdFigure(r *arrays.DCCResult) *figure.Figure {
	f := dccFigure("dcc", "f_dcc on real mail, unrelated cells (dcc/fuz1, k = 4)",
		"Probability that a signature which was never reported is shown at or above the threshold, refined extension, "+
			"against the size of the filter.")
	for i, t := range arrays.DCCThresholds() {
		points, cells, formula := dccSeries(i, t)
		for _, row := range r.Rows {
			if row.Scheme == "dcc/fuz1" && row.K == 4 && row.Threshold == t {
				points.count(row.Cells*beside(i), row.WrongUnseenR, row.AskedUnseen)
				cells.Xs, cells.Ys = append(cells.Xs, row.Cells), append(cells.Ys, row.UnseenR)
				formula.Xs, formula.Ys = append(formula.Xs, row.Cells), append(formula.Ys, row.Skewed)
			}
		}
		f.Series = append(f.Series, points.Series, above(formula, f.YMin), above(cells, f.YMin))
	}
	f.XTicks = numberTicks(arrays.DCCCells()...)
	return f
}

// dccFigure is a figure of f_dcc without its series.
func dccFigure(name, title, caption string) *figure.Figure {
	return &figure.Figure{
		Name: name, Title: title,
		Caption: caption + " Points are counted, with exact 95 % intervals. Lines are computed: thick by the formula, thin " +
			"from the cells that have reached the threshold in the end.",
		XLabel: "cells for each different signature", YLabel: "probability", LogX: true, LogY: true, YMin: 1e-10, YMax: 1e5,
		YTop: 1,
	}
}

// dccSeries are what a figure of f_dcc shows for a threshold.
func dccSeries(i, t int) (points counted, cells, formula figure.Series) {
	points = counted{figure.Series{Label: fmt.Sprintf("t = %d, measured", t), Color: figure.Palette(i),
		Shape: figure.Shapes(i), Bare: true}}
	cells = figure.Series{Color: figure.Palette(i), Dashes: figure.Dashes(i), Thin: true}
	formula = figure.Series{Label: fmt.Sprintf("t = %d, formula", t), Color: figure.Palette(i), Dashes: figure.Dashes(i)}
	return points, cells, formula
}

// beside sets the points of several thresholds side by side.
func beside(i int) float64 { return 1 + 0.05*(float64(i)-1.5) }

// above returns s without the points below least.
func above(s figure.Series, least float64) figure.Series {
	out := s
	out.Xs, out.Ys = nil, nil
	for i, y := range s.Ys {
		if y >= least {
			out.Xs, out.Ys = append(out.Xs, s.Xs[i]), append(out.Ys, y)
		}
	}
	return out
}

func numberTicks(values ...float64) (ticks []plot.Tick) {
	for _, v := range values {
		ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', -1, 64)})
	}
	return ticks
}

// writeFigure draws f into files of the formats ("svg", "png") in dir.
func writeFigure(f *figure.Figure, dir string, formats ...string) error {
	for _, format := range formats {
		var buf bytes.Buffer
		if err := f.Draw(&buf, format); err != nil {
			return err
		}
		if err := experiment.WriteFile(filepath.Join(dir, f.Name+"."+format), buf.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
