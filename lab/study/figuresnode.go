package study

import (
	"encoding/binary"
	"fmt"
	"image/color"

	"github.com/bulkhead-mail/bulkhead/lab/figure"
	"github.com/bulkhead-mail/bulkhead/lab/paper"
	"github.com/bulkhead-mail/bulkhead/lab/study/arrays"
	"github.com/bulkhead-mail/bulkhead/lab/study/experiment"
)

// equalFigure shows both extensions over the size of the filter.
func equalFigure(r *experiment.EqualResult) *figure.Figure {
	f := &figure.Figure{
		Name: "equal", Title: "Equal error at less m (Experiment 1)",
		Caption: "Measured: rates of both extensions against the size. A level line from an intuitive point to the refined " +
			"line of the same shape says how many cells less do. Points of fewer than 30 errors are left out.",
		XLabel: "filter size m (thousands of cells)", YLabel: "false-positive rate", LogX: true, LogY: true,
		XTicks: numberTicks(40, 56, 80, 120, 160, 240, 320),
	}
	for i, k := range experiment.HashCounts() {
		a := figure.Series{Label: fmt.Sprintf("intuitive, k = %d", k), Color: figure.Palette(i), Shape: figure.Hollow(i),
			Dashes: figure.Dashes(2), Thin: true}
		b := figure.Series{Label: fmt.Sprintf("refined, k = %d", k), Color: figure.Palette(i), Shape: figure.Shapes(i),
			Thin: true}
		a.Xs, a.Ys = equalCurve(r, k, false)
		b.Xs, b.Ys = equalCurve(r, k, true)
		f.Series = append(f.Series, a, b)
	}
	return f
}

// reachFigures are Figures 1 and 2 of Yan & Cho, counted: which parts of an array the
// chunks of MD5 reach.
func reachFigures() ([]*figure.Figure, error) {
	one := &figure.Figure{
		Name: "reach-1", Title: "MD5 in k chunks, 160,000 bits",
		Caption: "Figure 1 of Yan & Cho, measured: share of the bits of each fiftieth of the array that 200,000 elements " +
			"have set. With k = 4 all are utilisable; with k = 8 a chunk has 16 bits, and all above 65,536 are unreachable.",
		XLabel: "position in the array, thousands of bits", YLabel: "share of bits set", YMin: -0.05, YMax: 1.4,
	}
	two := &figure.Figure{
		Name: "reach-2", Title: "MD5 in 8 chunks, a part of 1,000,000 bits for each",
		Caption: "Figure 2 of Yan & Cho, measured: each function has its own eighth of the array, and leaves what lies " +
			"above 65,536 of it unreached.",
		XLabel: "position in the array, thousands of bits", YLabel: "share of bits set", YMin: -0.05, YMax: 1.4,
	}
	for i, k := range []int{4, 8} {
		family, err := paper.ChunkedMD5(160_000, k)
		if err != nil {
			return nil, err
		}
		s := figure.Series{Label: fmt.Sprintf("k = %d", k), Color: figure.Palette(i), Shape: figure.Hollow(i),
			Dashes: figure.Dashes(i), Thin: true}
		s.Xs, s.Ys = reached(family, 50, 200_000)
		one.Series = append(one.Series, s)
	}
	family, err := arrays.Partitioned(paper.ChunkedMD5(1_000_000, 8))
	if err != nil {
		return nil, err
	}
	s := figure.Series{Label: "k = 8, partitioned", Color: color.Black, Shape: figure.Hollow(0), Thin: true}
	s.Xs, s.Ys = reached(family, 80, 400_000)
	two.Series = []figure.Series{s}
	return []*figure.Figure{one, two}, nil
}

// reached returns the share of the positions in each of the parts of the array that n elements hit,
// and the middle of the part in thousands.
func reached(f paper.Family, parts, n int) (xs, ys []float64) {
	hit := make([]bool, f.M())
	var at []uint64
	var x [8]byte
	for i := range n {
		binary.LittleEndian.PutUint64(x[:], uint64(i))
		at = f.Append(at[:0], x[:])
		for _, p := range at {
			hit[p] = true
		}
	}
	for part := range parts {
		from, to := len(hit)*part/parts, len(hit)*(part+1)/parts
		set := 0
		for _, h := range hit[from:to] {
			set += experiment.Bit(h)
		}
		xs, ys = append(xs, float64(from+to)/2000), append(ys, experiment.Share(set, to-from))
	}
	return xs, ys
}

// linesFigure is the theory of a node's arrays beside what was counted, k = 6.
func linesFigure(results []*arrays.LinesResult) *figure.Figure {
	f := &figure.Figure{
		Name: "lines", Title: "A node's array, k = 6: theory and measurement",
		Caption: "Errors against the keys in a line of 128 cells. Lines are computed by the theory; points are counted, " +
			"with exact 95 % intervals.",
		XLabel: "keys for each cache line", YLabel: "probability", LogX: true, LogY: true, LegendLeft: true,
		XTicks: numberTicks(0.35, 0.7, 1.4, 3, 7, 16, 40), YMin: 1e-10, YMax: 3, YTop: 1,
	}
	for _, r := range results {
		if len(r.Rows) == 0 || r.Rows[0].K != arrays.NodeK {
			continue
		}
		kinds := []struct {
			label  string
			n, of  func(arrays.LinesRow) int
			theory func(arrays.LinesRow) float64
		}{
			{"ghost", func(x arrays.LinesRow) int { return x.Shown[0] }, func(x arrays.LinesRow) int { return x.Asked },
				func(x arrays.LinesRow) float64 { return x.Theory[0] }},
			{"count wrong", func(x arrays.LinesRow) int { return x.Wrong }, func(x arrays.LinesRow) int { return x.Added },
				func(x arrays.LinesRow) float64 { return x.TheoryWrong }},
			{"bulk, t = 5", func(x arrays.LinesRow) int { return x.Shown[1] }, func(x arrays.LinesRow) int { return x.Asked },
				func(x arrays.LinesRow) float64 { return x.Theory[1] }},
			{"bulk, t = 20", func(x arrays.LinesRow) int { return x.Shown[2] }, func(x arrays.LinesRow) int { return x.Asked },
				func(x arrays.LinesRow) float64 { return x.Theory[2] }},
		}
		for i, kind := range kinds {
			points := counted{figure.Series{Label: kind.label + ", measured", Color: figure.Palette(i), Shape: figure.Shapes(i),
				Bare: true}}
			line := figure.Series{Label: kind.label + ", theory", Color: figure.Palette(i), Dashes: figure.Dashes(i)}
			for _, x := range r.Rows {
				if n := kind.n(x); n > 0 {
					points.count(x.Keys, n, kind.of(x))
				}
				line.Xs, line.Ys = append(line.Xs, x.Keys), append(line.Ys, kind.theory(x))
			}
			f.Series = append(f.Series, points.Series, above(line, f.YMin))
		}
		return f
	}
	return nil
}

// nodeMergeFigure shows the counts that are too high over the number of servers.
func nodeMergeFigure(results []*arrays.NodeResult) *figure.Figure {
	f := &figure.Figure{
		Name: "node-merge", Title: "Merging nodes' arrays",
		Caption: "Share of counts that are too high against the number of servers. Lines are computed by the theory; " +
			"points are counted, with exact 95 % intervals.",
		XLabel: "servers", YLabel: "share of keys counted too high", LogX: true, LogY: true, XTicks: numberTicks(2, 4, 8, 16,
			32), YMin: 1e-4, YMax: 0.1,
	}
	kinds := []struct {
		label  string
		n      func(arrays.NodeMergeRow) int
		theory func(arrays.NodeMergeRow) float64
	}{
		{"sum of all arrays", func(r arrays.NodeMergeRow) int { return r.Sum },
			func(r arrays.NodeMergeRow) float64 { return r.SumTheory }},
		{"as a node reads", func(r arrays.NodeMergeRow) int { return r.Node },
			func(r arrays.NodeMergeRow) float64 { return r.NodeTheory }},
		{"one array sees all", func(r arrays.NodeMergeRow) int { return r.One },
			func(r arrays.NodeMergeRow) float64 { return r.OneTheory }},
		{"unrelated cells, sum", func(r arrays.NodeMergeRow) int { return r.Idealised }, nil},
	}
	for i, kind := range kinds {
		points := counted{figure.Series{Label: kind.label + ", measured", Color: figure.Palette(i), Shape: figure.Shapes(i),
			Bare: true}}
		line := figure.Series{Label: kind.label + ", theory", Color: figure.Palette(i), Dashes: figure.Dashes(i)}
		for _, r := range results {
			for _, row := range r.Merge {
				points.count(float64(row.Servers)*(1+0.03*(float64(i)-1.5)), kind.n(row), row.Keys)
				if kind.theory != nil {
					line.Xs, line.Ys = append(line.Xs, float64(row.Servers)), append(line.Ys, kind.theory(row))
				}
			}
		}
		if len(points.Xs) == 0 {
			return nil
		}
		f.Series = append(f.Series, points.Series, line)
	}
	return f
}

// nodeDCCFigure is f_dcc of nodes' arrays.
func (p *plan) nodeDCCFigure() *figure.Figure {
	r := p.nodeResult(func(r *arrays.NodeResult) bool { return len(r.DCC) > 0 })
	if r == nil {
		return nil
	}
	f := dccFigure("node-dcc", "f_dcc of a node's array on real mail (bulkhead/near, k = 4)",
		"Probability that a key which was never reported is shown at or above the threshold, against the size of the "+
			"array; the formula is the theory of lines.")
	f.XTicks = numberTicks(arrays.NodeDCCCells()...)
	for i, t := range arrays.DCCThresholds() {
		points, cells, theory := dccSeries(i, t)
		for _, row := range r.DCC {
			if row.Scheme == "bulkhead/near" && row.K == 4 && row.Threshold == t {
				points.count(row.Cells*beside(i), row.WrongUnseen, row.AskedUnseen)
				cells.Xs, cells.Ys = append(cells.Xs, row.Cells), append(cells.Ys, row.Given)
				theory.Xs, theory.Ys = append(theory.Xs, row.Cells), append(theory.Ys, row.Theory)
			}
		}
		f.Series = append(f.Series, points.Series, above(theory, f.YMin), above(cells, f.YMin))
	}
	return f
}
