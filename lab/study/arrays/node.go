package arrays

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/lab/paper"
	"github.com/bulkhead-mail/bulkhead/lab/study/experiment"
)

// A NodeResult is what Yan & Cho ask of their arrays, of those that a node runs: cells
// of one cache line for each key, counts from 15 on in the page's overflow table.
type NodeResult struct {
	Rounds int             `json:"rounds"`
	DCC    []NodeDCCRow    `json:"dcc,omitempty"`
	Merge  []NodeMergeRow  `json:"merge,omitempty"`
	Delete []nodeDeleteRow `json:"delete,omitempty"`
}

// A NodeDCCRow is [dccRow] for a node's array and its own formula.
type NodeDCCRow struct {
	Scheme    string  `json:"scheme"`
	Cells     float64 `json:"cells"` // for each different signature
	K         int     `json:"k"`
	Threshold int     `json:"threshold"`
	Asked     int     `json:"asked"` // look-ups of signatures below the threshold
	Wrong     int     `json:"wrong"`
	AskedNew  int     `json:"asked_new"` // of those never reported before
	WrongNew  int     `json:"wrong_new"`
	// Keys that are no signature of the stream, asked for at its end.
	AskedUnseen int     `json:"asked_unseen"`
	WrongUnseen int     `json:"wrong_unseen"`
	Given       float64 `json:"given"`     // their rate by the cells of the array
	Theory      float64 `json:"theory"`    // and by GhostError of the signatures that reached the threshold
	Idealised   float64 `json:"idealised"` // cells unrelated: the paper's array, formula for skewed counts
}

// A NodeMergeRow is a network of nodes: shares of the keys that were reported.
type NodeMergeRow struct {
	Servers int `json:"servers"`
	Syncs   int `json:"syncs"`
	Keys    int `json:"keys"`
	Asked   int `json:"asked"` // and as many that were not
	Under   int `json:"under"` // counted too low by any of the ways to read: must be 0
	// Too high: in the sum of all arrays, as a node reads them (its own array, and one
	// that took the rounds of the others), and in one array that saw all.
	Sum  int `json:"sum"`
	Node int `json:"node"`
	One  int `json:"one"`
	// Keys never reported that have a count.
	SumGhost  int `json:"sum_ghost"`
	NodeGhost int `json:"node_ghost"`
	OneGhost  int `json:"one_ghost"`
	// By theory.
	SumTheory   float64 `json:"sum_theory"`
	NodeTheory  float64 `json:"node_theory"`
	OneTheory   float64 `json:"one_theory"`
	GhostTheory float64 `json:"ghost_theory"` // of the sum, and of one array
	// Of a node's two arrays, either of which may show a key.
	NodeGhostTheory float64 `json:"node_ghost_theory"`
	// The paper's array of as many cells: the sum of all.
	Idealised int `json:"idealised"`
}

// A nodeDeleteRow takes a share of the keys back, in a second counting array whose
// counts are subtracted, of the same size and of 1/8.
type nodeDeleteRow struct {
	Share  float64 `json:"share"`
	Kept   int     `json:"kept"`  // keys that were not taken back
	Under  int     `json:"under"` // of them, counted too low
	Under8 int     `json:"under_8"`
	Gone   int     `json:"gone"` // keys taken back
	Left   int     `json:"left"` // of them, still counted
	// By theory: the chance that a key kept is seen among those taken back.
	Theory  float64 `json:"theory"`
	Theory8 float64 `json:"theory_8"`
	// Generations: as many reports in each of four arrays, the oldest dropped.
	DropUnder  int     `json:"drop_under"` // counts of what is left that are too low: must be 0
	DropOver   int     `json:"drop_over"`  // and too high
	DropTheory float64 `json:"drop_theory"`
}

const (
	NodeLines = filter.PageLines // one page, as large an array as has no round numbers
	NodeCells = 11               // for each key
	NodeK     = 6
)

// NodeKeys is the number of keys of which the page has 11 cells each.
const NodeKeys = NodeLines * 128 / NodeCells

// NodeUnits returns the work of merging, deleting and measuring f_dcc on a node's arrays.
func NodeUnits(c *experiment.Config, corpus func(context.Context) (*corpusResult, error)) (units []*experiment.Unit,
	results []*NodeResult) {
	add := func(name string, cost float64, run func(ctx context.Context, r *NodeResult, tick func(float64)) error) {
		r := &NodeResult{}
		results = append(results, r)
		units = append(units, &experiment.Unit{
			Name: "node-" + name, Cost: cost * float64(c.Rounds), Result: r,
			Have: func() bool { return r.Rounds >= c.Rounds },
			Run: func(ctx context.Context, _ *experiment.Simulator, tick func(float64)) error {
				*r = NodeResult{}
				if err := run(ctx, r, tick); err != nil {
					return err
				}
				r.Rounds = c.Rounds
				return nil
			},
		})
	}
	for _, net := range mergeNetworks() {
		if net[1] != 20 {
			continue
		}
		add(fmt.Sprintf("merge-%d", net[0]), 0.02, func(ctx context.Context, r *NodeResult, tick func(float64)) error {
			row, err := nodeMerge(c, ctx, net[0], net[1], tick)
			r.Merge = []NodeMergeRow{row}
			return err
		})
	}
	add("delete", 0.01, func(ctx context.Context, r *NodeResult, tick func(float64)) (err error) {
		r.Delete, err = nodeDelete(c, ctx, tick)
		return err
	})
	if c.Corpus != "" {
		add("dcc", 0.04, func(ctx context.Context, r *NodeResult, tick func(float64)) error {
			mail, err := corpus(ctx)
			if err != nil {
				return err
			}
			r.DCC, err = nodeDCC(c, ctx, mail, tick)
			return err
		})
	}
	return units, results
}

// nodeMerge lets servers report for themselves and send each other their rounds, and compares the
// ways to read what they have together.
func nodeMerge(c *experiment.Config, ctx context.Context, servers, syncs int,
	tick func(float64)) (NodeMergeRow, error) {
	row := NodeMergeRow{Servers: servers, Syncs: syncs}
	trials := max(1, c.Rounds/20)
	for i := range trials {
		if err := ctx.Err(); err != nil {
			return row, err
		}
		if err := row.trial(experiment.Stream(c.Seed, "node merge", servers, syncs, i)); err != nil {
			return row, err
		}
		tick(float64(i+1) / float64(trials+1))
	}
	g := nodeGeometry(NodeLines)
	perLine := float64(NodeKeys) / NodeLines
	even := make([]float64, servers)
	for i := range even {
		even[i] = 1 / float64(servers)
	}
	r := experiment.Stream(c.Seed, "node merge theory", servers)
	row.SumTheory = newLineModel(r, modelKeys(c), mergeTail, even).sumOfCells(g, perLine)
	node := newLineModel(r, modelKeys(c), mergeTail, []float64{even[0], 1 - even[0]})
	row.NodeTheory = node.sumOfMinima(g, perLine, 2)
	a, b := ghostOf(g, perLine*node.above(0, 0, 2)), ghostOf(g, perLine*node.above(1, 0, 2))
	row.NodeGhostTheory = a + b - a*b
	row.OneTheory = newLineModel(r, modelKeys(c), mergeTail, []float64{1}).sumOfCells(g, perLine)
	row.GhostTheory = g.GhostError(NodeKeys)
	return row, nil
}

func nodeGeometry(lines uint64) filter.Geometry {
	return filter.Geometry{Kind: filter.Cells, Lines: lines, K: NodeK}
}

// nodeArrays returns n empty arrays.
func nodeArrays(n int, lines uint64) ([]*arrays.Counting, error) {
	all := make([]*arrays.Counting, n)
	for i := range all {
		var err error
		if all[i], err = arrays.NewCounting(nodeGeometry(lines)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// drawKeysAndCounts returns n random keys and how often each is reported.
func drawKeysAndCounts(r *rand.Rand, n int) (keys []filter.Key, truth []uint32) {
	keys, truth = make([]filter.Key, n), make([]uint32, n)
	for i := range keys {
		keys[i], truth[i] = randomKey(r), uint32(paretoCount(r, mergeTail, 10_000))
	}
	return keys, truth
}

func (row *NodeMergeRow) trial(r *rand.Rand) error {
	own, err := nodeArrays(row.Servers, NodeLines)
	if err != nil {
		return err
	}
	replayed, err := nodeArrays(3, NodeLines)
	if err != nil {
		return err
	}
	others, one, sum := replayed[0], replayed[1], replayed[2]
	keys, truth := drawKeysAndCounts(r, NodeKeys)
	parts := dealReports(r, truth, row.Servers, row.Syncs)
	ideal := newIdealNetwork(r, NodeKeys, row.Servers)
	for sync := range row.Syncs {
		for s, a := range own {
			part := parts[s][sync]
			round := a.NewRound()
			recordInOrder(a, round, keys, part)
			addInOrder(one, keys, part)
			ideal.add(s, part)
			if s == 0 {
				continue
			}
			round.Close()
			if err := others.AddRound(round); err != nil {
				return err
			}
		}
	}
	for _, a := range own {
		if err := sum.Merge(a); err != nil {
			return err
		}
	}
	for i, k := range keys {
		want := truth[i]
		inSum, asNode, inOne := sum.Count(k), own[0].Count(k)+others.Count(k), one.Count(k)
		row.Keys++
		row.Under += experiment.Bit(inSum < want || asNode < want || inOne < want)
		row.Sum += experiment.Bit(inSum > want)
		row.Node += experiment.Bit(asNode > want)
		row.One += experiment.Bit(inOne > want)
		row.Idealised += experiment.Bit(ideal.count(i) > want)
		ghost := randomKey(r)
		row.Asked++
		row.SumGhost += experiment.Bit(sum.Count(ghost) > 0)
		row.NodeGhost += experiment.Bit(own[0].Count(ghost)+others.Count(ghost) > 0)
		row.OneGhost += experiment.Bit(one.Count(ghost) > 0)
	}
	return nil
}

// dealReports spreads the reports over servers, and each server's reports over its
// synchronisations, in random order.
func dealReports(r *rand.Rand, truth []uint32, servers, syncs int) [][][]uint16 {
	lists := make([][]uint16, servers)
	for i, n := range truth {
		for range n {
			s := r.IntN(servers)
			lists[s] = append(lists[s], uint16(i))
		}
	}
	parts := make([][][]uint16, servers)
	for s, list := range lists {
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		for sync := range syncs {
			parts[s] = append(parts[s], list[len(list)*sync/syncs:len(list)*(sync+1)/syncs])
		}
	}
	return parts
}

// recordInOrder is addInOrder for a node's own array, whose rounds others get.
func recordInOrder(a *arrays.Counting, round *arrays.Round, keys []filter.Key, order []uint16) {
	var batch [256]filter.Key
	var one, before [256]uint32
	for i := range one {
		one[i] = 1
	}
	for len(order) > 0 {
		n := min(len(order), len(batch))
		for i, at := range order[:n] {
			batch[i] = keys[at]
		}
		a.AddBatch(0, batch[:n], one[:n], before[:n])
		round.Record(batch[:n], one[:n], before[:n])
		order = order[n:]
	}
}

// An idealNetwork is the paper's array of as many cells as the nodes', one for each
// server, of which the cells of a key lie anywhere.
type idealNetwork struct {
	index []uint32
	own   []experiment.CellArray
}

func newIdealNetwork(r *rand.Rand, keys, servers int) *idealNetwork {
	n := &idealNetwork{}
	for range keys {
		n.index = appendDistinct(n.index, r, NodeLines*128, NodeK)
	}
	for range servers {
		n.own = append(n.own, make(experiment.CellArray, NodeLines*128))
	}
	return n
}

func (n *idealNetwork) cells(i int) []uint32 { return n.index[i*NodeK : (i+1)*NodeK] }

func (n *idealNetwork) add(server int, reports []uint16) {
	for _, i := range reports {
		n.own[server].Raise(n.cells(int(i)), 1)
	}
}

// count returns the least sum of the servers' cells.
func (n *idealNetwork) count(i int) uint32 {
	least := uint32(math.MaxUint32)
	for _, p := range n.cells(i) {
		var sum uint32
		for _, a := range n.own {
			sum += a[p]
		}
		least = min(least, sum)
	}
	return least
}

// nodeDelete takes keys back by a second array, and drops a generation.
func nodeDelete(c *experiment.Config, ctx context.Context, tick func(float64)) (rows []nodeDeleteRow, err error) {
	trials := max(1, c.Rounds/20)
	quarters := newLineModel(experiment.Stream(c.Seed, "node delete theory"), modelKeys(c), mergeTail,
		[]float64{0.25, 0.25, 0.25, 0.25})
	drop := quarters.sumOfMinima(nodeGeometry(NodeLines), float64(NodeKeys)/NodeLines, 3)
	for i, share := range []float64{0.01, 0.1, 0.3} {
		row := nodeDeleteRow{Share: share}
		for trial := range trials {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if err := row.trial(experiment.Stream(c.Seed, "node delete", i, trial)); err != nil {
				return nil, err
			}
			tick((float64(i) + float64(trial+1)/float64(trials)) / 3)
		}
		gone := uint64(float64(NodeKeys) * share)
		row.Theory, row.Theory8 = nodeGeometry(NodeLines).GhostError(gone), nodeGeometry(NodeLines/8).GhostError(gone)
		row.DropTheory = drop
		rows = append(rows, row)
	}
	return rows, nil
}

func (row *nodeDeleteRow) trial(r *rand.Rand) error {
	six, err := nodeArrays(6, NodeLines)
	if err != nil {
		return err
	}
	small, err := nodeArrays(1, NodeLines/8)
	if err != nil {
		return err
	}
	all, back, generations := six[0], six[1], six[2:]
	keys, truth := drawKeysAndCounts(r, NodeKeys)
	var order []uint32
	left := make([]uint32, len(keys)) // reports after the first generation
	for i, n := range truth {
		for range n {
			order = append(order, uint32(i))
		}
	}
	shuffleWords(order, r)
	addInOrder(all, keys, order)
	for g, a := range generations {
		part := order[len(order)*g/len(generations) : len(order)*(g+1)/len(generations)]
		addInOrder(a, keys, part)
		for _, i := range part {
			left[i] += uint32(experiment.Bit(g > 0))
		}
	}
	gone := int(float64(len(keys)) * row.Share)
	for i, k := range keys[:gone] {
		back.Add(k, truth[i])
		small[0].Add(k, truth[i])
	}
	for i, k := range keys {
		have := all.Count(k)
		now, now8 := have-min(have, back.Count(k)), have-min(have, small[0].Count(k))
		if i < gone {
			row.Gone++
			row.Left += experiment.Bit(now > 0)
		} else {
			row.Kept++
			row.Under += experiment.Bit(now < truth[i])
			row.Under8 += experiment.Bit(now8 < truth[i])
		}
		var sum uint32
		for _, a := range generations[1:] {
			sum += a.Count(k)
		}
		row.DropUnder += experiment.Bit(sum < left[i])
		row.DropOver += experiment.Bit(sum > left[i])
	}
	return nil
}

// nodeDCC replays the streams of real mail into nodes' arrays.
func nodeDCC(c *experiment.Config, ctx context.Context, mail *corpusResult,
	tick func(float64)) (rows []NodeDCCRow, err error) {
	names := mail.schemes()
	for i, scheme := range names {
		for j, cells := range NodeDCCCells() {
			for _, k := range []int{4, 6} {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				replayed, err := nodeReplay(c, mail.Streams[scheme], mail.counts(scheme), cells, k)
				if err != nil {
					return nil, err
				}
				for r := range replayed {
					replayed[r].Scheme = scheme
				}
				rows = append(rows, replayed...)
			}
			tick((float64(i) + float64(j+1)/float64(len(NodeDCCCells()))) / float64(len(names)))
		}
	}
	return rows, nil
}

// NodeDCCCells returns the sizes of the arrays, in cells a key.
func NodeDCCCells() []float64 { return []float64{0.5, 1, 2, 4, 8} }

// wholeLines returns the number of lines of an array of about the given number of cells.
func wholeLines(cells float64) uint64 {
	lines := uint64(max(1, math.Round(cells/128)))
	if lines > filter.PageLines {
		lines = (lines + filter.PageLines/2) / filter.PageLines * filter.PageLines
	}
	return lines
}

func nodeReplay(c *experiment.Config, reports []int32, counts []uint32, cells float64, k int) ([]NodeDCCRow, error) {
	g := filter.Geometry{Kind: filter.Cells, Lines: wholeLines(cells * float64(len(counts))), K: uint8(k)}
	m := float64(g.Lines * 128)
	draws := max(1, min(20, 400_000/len(reports))*c.Rounds/1000)
	rows := make([]NodeDCCRow, len(DCCThresholds()))
	var thresholds []uint32
	for i, t := range DCCThresholds() {
		heavy := 0
		for _, n := range counts {
			heavy += experiment.Bit(int(n) >= t)
		}
		rows[i] = NodeDCCRow{
			Cells: m / float64(len(counts)), K: k, Threshold: t, Theory: g.GhostError(uint64(heavy)),
			Idealised: paper.BulkFalsePositive(uint64(m), uint64(len(counts)), k, float64(heavy)/float64(len(counts))),
		}
		thresholds = append(thresholds, uint32(t))
	}
	r := experiment.Stream(c.Seed, "node dcc", int(g.Lines), k)
	// Tail wants counts that begin with 1.
	tails := append([]uint32{1}, thresholds...)
	for range draws {
		array, err := arrays.NewCounting(g)
		if err != nil {
			return nil, err
		}
		replayNode(array, reports, len(counts), r, rows)
		for i, p := range array.Tail(tails)[1:] {
			rows[i].Given += p / float64(draws)
		}
		askUnseen(array, max(1000, 2000*c.Rounds/draws), r, rows)
	}
	return rows, nil
}

// replayNode looks every report up before it counts it.
func replayNode(array *arrays.Counting, reports []int32, different int, r *rand.Rand, rows []NodeDCCRow) {
	keys, truth := make([]filter.Key, different), make([]uint32, different)
	for i := range keys {
		keys[i] = randomKey(r)
	}
	for _, id := range reports {
		shown := array.Add(keys[id], 1) // the count before
		for i := range rows {
			t := uint32(rows[i].Threshold)
			if truth[id] >= t {
				continue
			}
			rows[i].Asked++
			rows[i].Wrong += experiment.Bit(shown >= t)
			rows[i].AskedNew += experiment.Bit(truth[id] == 0)
			rows[i].WrongNew += experiment.Bit(truth[id] == 0 && shown >= t)
		}
		truth[id]++
	}
}

func askUnseen(array *arrays.Counting, n int, r *rand.Rand, rows []NodeDCCRow) {
	for range n {
		v := array.Count(randomKey(r))
		for i := range rows {
			rows[i].AskedUnseen++
			rows[i].WrongUnseen += experiment.Bit(v >= uint32(rows[i].Threshold))
		}
	}
}
