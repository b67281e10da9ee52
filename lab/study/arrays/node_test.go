package arrays

import (
	"math"
	"testing"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/lab/study/experiment"
)

// TestLineModel: of one array the sampled model is that by which arrays are sized, and
// sums are never better than what they are made of.
func TestLineModel(t *testing.T) {
	g := nodeGeometry(NodeLines)
	const perLine = float64(NodeKeys) / NodeLines
	one := newLineModel(experiment.Stream(1, "model"), 800, filter.DefaultTail, []float64{1})
	near(t, "one array", one.sumOfCells(g, perLine), g.CountError(NodeKeys), 0.12)
	near(t, "one array, as minima", one.sumOfMinima(g, perLine, 1), g.CountError(NodeKeys), 0.12)
	near(t, "ghost", ghostOf(g, perLine), g.GhostError(NodeKeys), 1e-2)
	four := newLineModel(experiment.Stream(2, "model"), 400, filter.DefaultTail, []float64{0.25, 0.25, 0.25, 0.25})
	cells, minima := four.sumOfCells(g, perLine), four.sumOfMinima(g, perLine, 4)
	if cells < 1.3*g.CountError(NodeKeys) || cells > g.GhostError(NodeKeys) {
		t.Errorf("the sum of four arrays: %g, one array %g, ghosts %g", cells, g.CountError(NodeKeys), g.GhostError(NodeKeys))
	}
	if minima > cells/2 {
		t.Errorf("sum of minima %g, of cells %g", minima, cells)
	}
}

// agrees reports whether n of the tries agree with a rate, by an interval four times as wide as the
// exact 95 % interval.
func agrees(n, of int, rate float64) bool {
	below, above := experiment.Bars(n, of)
	p := experiment.Share(n, of)
	return rate >= p-4*below && rate <= p+4*above
}

func TestNodeMerge(t *testing.T) {
	c := experiment.Config{Rounds: 40, Seed: 1}
	two, err := nodeMerge(&c, t.Context(), 2, 20, func(float64) {})
	if err != nil {
		t.Fatal(err)
	}
	eight, err := nodeMerge(&c, t.Context(), 8, 4, func(float64) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []NodeMergeRow{two, eight} {
		if r.Under != 0 {
			t.Errorf("%d servers: %d counts too low", r.Servers, r.Under)
		}
		for what, x := range map[string]struct {
			n, of  int
			theory float64
		}{
			"node": {r.Node, r.Keys, r.NodeTheory}, "sum": {r.Sum, r.Keys, r.SumTheory}, "one": {r.One, r.Keys, r.OneTheory},
			"ghosts, sum": {r.SumGhost, r.Asked, r.GhostTheory}, "ghosts, one": {r.OneGhost, r.Asked, r.GhostTheory},
			"ghosts, node": {r.NodeGhost, r.Asked, r.NodeGhostTheory},
		} {
			if !agrees(x.n, x.of, x.theory) {
				t.Errorf("%d servers, %s: %d of %d, theory %g", r.Servers, what, x.n, x.of, x.theory)
			}
		}
	}
	if eight.Sum <= eight.Node {
		t.Errorf("8 servers: the sum errs %d times, a node %d times", eight.Sum, eight.Node)
	}
}

func TestNodeDelete(t *testing.T) {
	c := experiment.Config{Rounds: 20, Seed: 2}
	rows, err := nodeDelete(&c, t.Context(), func(float64) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.DropUnder != 0 {
			t.Errorf("%g: %d counts too low after a generation was dropped", r.Share, r.DropUnder)
		}
		if !agrees(r.Under8, r.Kept, r.Theory8) || !agrees(r.Under, r.Kept, r.Theory) {
			t.Errorf("%g: %d and %d of %d too low, theory %g and %g", r.Share, r.Under, r.Under8, r.Kept, r.Theory, r.Theory8)
		}
		if !agrees(r.DropOver, r.Kept+r.Gone, r.DropTheory) {
			t.Errorf("%g: %d of %d too high, theory %g", r.Share, r.DropOver, r.Kept+r.Gone, r.DropTheory)
		}
	}
}

// TestLines: what is counted in small arrays agrees with the theory, over the decades that
// few look-ups reach.
func TestLines(t *testing.T) {
	c := experiment.Config{Rounds: 10, Seed: 3}
	for _, keys := range []float64{3, 10, 24} {
		row := LinesRow{K: 4, Keys: keys}
		if err := row.measure(t.Context(), &c); err != nil {
			t.Fatal(err)
		}
		if row.Under != 0 {
			t.Errorf("%g keys a line: %d counts too low", keys, row.Under)
		}
		if !agrees(row.Shown[0], row.Asked, row.Theory[0]) || !agrees(row.Wrong, row.Added, row.TheoryWrong*0.92) {
			t.Errorf("%g keys a line: %+v", keys, row)
		}
		for i, n := range row.Shown {
			if !agrees(n, row.Asked, row.Given[i]) {
				t.Errorf("%g keys a line, %d and more: %d of %d, by the cells %g", keys, linesCounts()[i], n, row.Asked,
					row.Given[i])
			}
		}
	}
}

// TestNodeReplay: a stream small enough to see through.
func TestNodeReplay(t *testing.T) {
	c := experiment.Config{Rounds: 1000, Seed: 1}
	reports := make([]int32, 0, 30)
	for range 25 {
		reports = append(reports, 0)
	}
	reports = append(reports, 1, 2, 1)
	rows, err := nodeReplay(&c, reports, []uint32{25, 2, 1}, 128*100, 6)
	if err != nil {
		t.Fatal(err)
	}
	if wholeLines(128*100*3) != 300 || wholeLines(128*1700) != 2048 || wholeLines(1) != 1 {
		t.Error("wrong numbers of lines")
	}
	want := map[int][2]int{2: {2 + 2 + 1, 3}, 5: {5 + 2 + 1, 3}, 10: {10 + 2 + 1, 3}, 20: {20 + 2 + 1, 3}}
	for _, r := range rows {
		draws := r.AskedNew / 3
		if r.Asked != draws*want[r.Threshold][0] || r.Wrong != 0 || r.WrongUnseen != 0 || r.Cells != 12_800 {
			t.Errorf("%+v over %d draws", r, draws)
		}
		if heavy := map[int]uint64{2: 2, 5: 1, 10: 1, 20: 1}[r.Threshold]; math.Abs(
			r.Theory-filter.Geometry{Kind: filter.Cells, Lines: 300, K: 6}.GhostError(heavy)) > 1e-15 {
			t.Errorf("theory %g", r.Theory)
		}
	}
}

func TestRevocation(t *testing.T) {
	c := experiment.Config{Rounds: 10, Seed: 1}
	for _, of := range []string{"a node's, one line", "the paper's, k = 10"} {
		row := revocationRow{Filters: of, Share: 0.02, Sized: 0.01}
		if err := row.measure(t.Context(), &c, 0); err != nil {
			t.Fatal(err)
		}
		if !agrees(row.Hidden, row.Spam, row.Theory) || !agrees(row.Taken, row.Ham, row.HamTheory) || row.Hidden == 0 ||
			row.Taken == 0 {
			t.Errorf("%+v", row)
		}
	}
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance*math.Abs(want)) && got != want {
		t.Errorf("%s: %.6g, want %.6g", what, got, want)
	}
}
