package arrays

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/lab/study/experiment"
)

// A LinesRow is a node's counting array with a number of keys to a cache line: its three errors by
// the theory of lines, and as counted.
type LinesRow struct {
	K      int     `json:"k"`
	Keys   float64 `json:"keys"` // in the mean line
	Arrays int     `json:"arrays"`
	// Keys never added that were asked for, and how many had a count of 1 and more, of
	// 5 and more, and of 20 and more.
	Asked int    `json:"asked"`
	Shown [3]int `json:"shown"`
	// Keys that were added, and how many had too high a count. None may have one too low.
	Added int `json:"added"`
	Wrong int `json:"wrong"`
	Under int `json:"under"`
	// The same by theory: GhostError, BulkError at 5 and at 20, CountError.
	Theory      [3]float64 `json:"theory"`
	TheoryWrong float64    `json:"theory_wrong"`
	// Given is the probability of Shown for a key drawn at random, given the arrays as
	// they were: counted in their cells, without a key drawn.
	Given [3]float64 `json:"given"`
}

// A LinesResult compares the theory of a node's arrays with measurements, for one setting.
type LinesResult struct {
	Rounds int        `json:"rounds"`
	Rows   []LinesRow `json:"rows"`
}

// LinesCount is the number of lines of the arrays: 256 KiB, or 8 KiB.
func LinesCount(c *experiment.Config) int { return c.Less(4*filter.PageLines, 128) }

// linesCounts are the counts from which keys never added are looked for.
func linesCounts() [3]uint32 { return [3]uint32{1, 5, filter.DefaultThreshold} }

func linesHashes() []int { return []int{3, 4, 6} }

// linesKeys are the keys to a line: 1.4 give a ghost in 16 million look-ups of k = 6.
func linesKeys() []float64 { return []float64{0.35, 0.7, 1.4, 2, 3, 4.5, 7, 10, 16, 24, 40, 64} }

// linesEvents is about how many errors are waited for at 1000 rounds, and the rest
// what is spent at most on rare ones.
const (
	linesEvents   = 3000
	linesMostAsk  = 6e8
	linesMostKeys = 6e7
)

// LineUnits returns the work of measuring a node's arrays.
func LineUnits(c *experiment.Config) (units []*experiment.Unit, results []*LinesResult) {
	for _, k := range linesHashes() {
		r := &LinesResult{}
		results = append(results, r)
		units = append(units, &experiment.Unit{
			Name: fmt.Sprintf("lines-k%d", k), Cost: 0.2 * float64(c.Rounds), Result: r,
			Have: func() bool { return r.Rounds >= c.Rounds },
			Run: func(ctx context.Context, _ *experiment.Simulator, tick func(float64)) error {
				*r = LinesResult{}
				for i, keys := range linesKeys() {
					row := LinesRow{K: k, Keys: keys}
					if err := row.measure(ctx, c); err != nil {
						return err
					}
					r.Rows = append(r.Rows, row)
					tick(float64(i+1) / float64(len(linesKeys())))
				}
				r.Rounds = c.Rounds
				return nil
			},
		})
	}
	return units, results
}

// wanted returns how many tries give about the events that are waited for at the rate,
// at most most.
func wanted(c *experiment.Config, rate, most float64) int {
	return int(math.Min(most, linesEvents/rate)*float64(c.Rounds)/1000) / c.Less(1, 10)
}

func (row *LinesRow) measure(ctx context.Context, c *experiment.Config) error {
	g := filter.Geometry{Kind: filter.Cells, Lines: uint64(LinesCount(c)), K: uint8(row.K)}
	n := uint64(row.Keys * float64(g.Lines))
	counts := linesCounts()
	row.Theory[0] = g.GhostError(n)
	for i, t := range counts[1:] {
		row.Theory[i+1] = g.BulkError(n, t, filter.DefaultTail)
	}
	row.TheoryWrong = g.CountError(n)
	r := experiment.Stream(c.Seed, "lines", row.K, int(row.Keys*100))
	keys := max(int(n), wanted(c, row.TheoryWrong, linesMostKeys))
	// Bulk errors are the rarest that are looked for: those within reach.
	ask := max(20_000, wanted(c, math.Max(row.Theory[2], 1e-6), linesMostAsk))
	row.Arrays = max(1, keys/int(n))
	for range row.Arrays {
		if err := ctx.Err(); err != nil {
			return err
		}
		array, members, truth, err := fillLines(g, int(n), r)
		if err != nil {
			return err
		}
		for i, p := range array.Tail(counts[:]) {
			row.Given[i] += p / float64(row.Arrays)
		}
		got := make([]uint32, len(members))
		array.CountBatch(members, got)
		row.Added += len(members)
		for i, v := range got {
			if v > truth[i] {
				row.Wrong++
			}
			if v < truth[i] {
				row.Under++
			}
		}
		row.ask(array, ask/row.Arrays, r)
	}
	return nil
}

// fillLines returns an array of n keys and their counts, of which a share c^-1.2 is c
// or more, all reports in random order.
func fillLines(g filter.Geometry, n int, r *rand.Rand) (*arrays.Counting, []filter.Key, []uint32, error) {
	array, err := arrays.NewCounting(g)
	if err != nil {
		return nil, nil, nil, err
	}
	keys, truth := make([]filter.Key, n), make([]uint32, n)
	var order []uint32
	for i := range keys {
		keys[i] = randomKey(r)
		truth[i] = uint32(paretoCount(r, filter.DefaultTail, 10_000))
		for range truth[i] {
			order = append(order, uint32(i))
		}
	}
	shuffleWords(order, r)
	addInOrder(array, keys, order)
	return array, keys, truth, nil
}

// addInOrder reports the keys one after the other, in batches.
func addInOrder[I uint16 | uint32 | int32](array *arrays.Counting, keys []filter.Key, order []I) {
	var batch [256]filter.Key
	var one [256]uint32
	for i := range one {
		one[i] = 1
	}
	for len(order) > 0 {
		n := min(len(order), len(batch))
		for i, at := range order[:n] {
			batch[i] = keys[at]
		}
		array.AddBatch(0, batch[:n], one[:n], nil)
		order = order[n:]
	}
}

func shuffleWords(order []uint32, r *rand.Rand) {
	for i := len(order) - 1; i > 0; i-- {
		j := r.IntN(i + 1)
		order[i], order[j] = order[j], order[i]
	}
}

// ask looks n keys up that were never added.
func (row *LinesRow) ask(array *arrays.Counting, n int, r *rand.Rand) {
	var keys [512]filter.Key
	var got [512]uint32
	counts := linesCounts()
	for done := 0; done < n; done += len(keys) {
		for i := range keys {
			keys[i] = randomKey(r)
		}
		array.CountBatch(keys[:], got[:])
		row.Asked += len(keys)
		for _, v := range got {
			if v == 0 {
				continue
			}
			for i, t := range counts {
				if v >= t {
					row.Shown[i]++
				}
			}
		}
	}
}
