// Package arrays measures what the papers of the study say about filters beyond Experiments 1 to 8:
// merging, deletion, split storage, revocation, membership, rates, speed and f_dcc, on the papers'
// arrays and on the arrays of a node.
package arrays

import (
	"context"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/lab/study/experiment"
)

// A MergeRow is one network: how many servers, and how often they synchronise. The other
// numbers are the shares of all elements whose count is wrong in the end.
type MergeRow struct {
	Servers int `json:"servers"`
	Syncs   int `json:"syncs"`
	// H1 applied to the merged array, differences of it shipped.
	MergedUnder  float64 `json:"merged_under"`
	MergedMissed float64 `json:"merged_missed"` // short by 20 and more
	MergedWorst  int     `json:"merged_worst"`  // largest deficit
	MergedOver   float64 `json:"merged_over"`
	// Each server's own refined array: asked in three ways.
	SumUnder     float64 `json:"sum_under"`      // must be 0
	MinOfSum     float64 `json:"min_of_sum"`     // minimum of the summed array
	OwnAndOthers float64 `json:"own_and_others"` // own minimum + minimum of the others' sum
	SumOfMin     float64 `json:"sum_of_min"`     // sum of all minima
	// Elements that were never reported and show a count.
	GhostMinOfSum float64 `json:"ghost_min_of_sum"`
	GhostSumOfMin float64 `json:"ghost_sum_of_min"`
	// A new refined array for each period, summed.
	PeriodOver float64 `json:"period_over"`
	// The intuitive extension, and one refined array that sees everything.
	IntuitiveOver float64 `json:"intuitive_over"`
	OneOver       float64 `json:"one_over"`
}

// A MergeResult compares the ways to merge the filters of one network of servers.
type MergeResult struct {
	Rounds int        `json:"rounds"`
	Rows   []MergeRow `json:"rows"`
}

const (
	MergeKeys  = 20_000
	mergeCells = 11 * MergeKeys
	MergeK     = 6
	// mergeTail is the exponent of the counts: a share c^-1.2 is reported c times or more.
	mergeTail = filter.DefaultTail
)

// mergeNetworks lists servers and synchronisations.
func mergeNetworks() [][2]int {
	return [][2]int{{2, 4}, {2, 20}, {4, 4}, {4, 20}, {8, 4}, {8, 20}, {16, 4}, {16, 20}, {32, 4}, {32, 20}}
}

// MergeUnits returns the work of comparing the ways to merge.
func MergeUnits(c *experiment.Config) (units []*experiment.Unit, results []*MergeResult) {
	for _, net := range mergeNetworks() {
		r := &MergeResult{}
		results = append(results, r)
		n := max(1, c.Rounds/50)
		units = append(units, &experiment.Unit{
			Name: "merge-" + strconv.Itoa(net[0]) + "-" + strconv.Itoa(net[1]), Cost: 0.15 * float64(n), Result: r,
			Have: func() bool { return r.Rounds >= n },
			Run: func(ctx context.Context, _ *experiment.Simulator, tick func(float64)) error {
				*r = MergeResult{Rounds: n, Rows: []MergeRow{{Servers: net[0], Syncs: net[1]}}}
				for i := range n {
					if err := ctx.Err(); err != nil {
						return err
					}
					newMergeTrial(c.Seed, net[0], net[1], i).run(&r.Rows[0], 1/float64(n))
					tick(float64(i+1) / float64(n))
				}
				return nil
			},
		})
	}
	return units, results
}

// A mergeTrial is one run of all methods on the same reports.
type mergeTrial struct {
	servers, syncs int
	index          []uint32   // cells of the elements, and of as many that are never reported
	reports        [][]uint16 // by server, in order
	truth          []uint32
}

// paretoCount draws a number of reports with P(C >= c) = c^-tail, at most most.
func paretoCount(r *rand.Rand, tail float64, most int) int {
	return int(math.Min(math.Pow(1-r.Float64(), -1/tail), float64(most)))
}

func newMergeTrial(seed uint64, servers, syncs, n int) *mergeTrial {
	r := experiment.Stream(seed, "merge", servers, syncs, n)
	t := &mergeTrial{servers: servers, syncs: syncs, truth: make([]uint32, MergeKeys), reports: make([][]uint16, servers)}
	for range 2 * MergeKeys {
		t.index = appendDistinct(t.index, r, mergeCells, MergeK)
	}
	for i := range t.truth {
		c := paretoCount(r, mergeTail, 10_000)
		t.truth[i] = uint32(c)
		for range c {
			s := r.IntN(servers)
			t.reports[s] = append(t.reports[s], uint16(i))
		}
	}
	for _, list := range t.reports {
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	return t
}

// appendDistinct appends k different cells below m.
func appendDistinct(dst []uint32, r *rand.Rand, m, k int) []uint32 {
	first := len(dst)
next:
	for len(dst) < first+k {
		p := uint32(r.IntN(m))
		for _, q := range dst[first:] {
			if p == q {
				continue next
			}
		}
		dst = append(dst, p)
	}
	return dst
}

func (t *mergeTrial) cells(i int) []uint32 { return t.index[i*MergeK : (i+1)*MergeK] }

// part returns the reports of a server between two synchronisations.
func (t *mergeTrial) part(server, sync int) []uint16 {
	list := t.reports[server]
	return list[len(list)*sync/t.syncs : len(list)*(sync+1)/t.syncs]
}

func (t *mergeTrial) run(row *MergeRow, weight float64) {
	locals, periods, intuitive, one := t.local()
	merged := t.merged()
	sum := make(experiment.CellArray, mergeCells)
	for _, a := range locals {
		sum.Add(a)
	}
	others := make(experiment.CellArray, mergeCells) // of server 0
	for _, a := range locals[1:] {
		others.Add(a)
	}
	share := weight / MergeKeys
	tally := func(dst *float64, wrong bool) {
		if wrong {
			*dst += share
		}
	}
	for i, want := range t.truth {
		ps := t.cells(i)
		var minima uint32
		for _, a := range locals {
			minima += a.Count(ps)
		}
		own := locals[0].Count(ps) + others.Count(ps)
		short := int(want) - int(merged.Count(ps))
		tally(&row.MergedUnder, short > 0)
		tally(&row.MergedMissed, short >= 20)
		tally(&row.MergedOver, short < 0)
		row.MergedWorst = max(row.MergedWorst, short)
		tally(&row.SumUnder, sum.Count(ps) < want || minima < want || own < want || periods.Count(ps) < want)
		tally(&row.MinOfSum, sum.Count(ps) > want)
		tally(&row.OwnAndOthers, own > want)
		tally(&row.SumOfMin, minima > want)
		tally(&row.PeriodOver, periods.Count(ps) > want)
		tally(&row.IntuitiveOver, intuitive.Count(ps) > want)
		tally(&row.OneOver, one.Count(ps) > want)
	}
	for i := MergeKeys; i < 2*MergeKeys; i++ {
		ps := t.cells(i)
		var minima uint32
		for _, a := range locals {
			minima += a.Count(ps)
		}
		tally(&row.GhostMinOfSum, sum.Count(ps) > 0)
		tally(&row.GhostSumOfMin, minima > 0)
	}
}

// local runs the methods whose arrays are each inserted into by one server
// alone: cumulative, new for each period, intuitive, and one for everybody.
func (t *mergeTrial) local() (locals []experiment.CellArray, periods, intuitive, one experiment.CellArray) {
	periods, intuitive, one = make(experiment.CellArray, mergeCells), make(experiment.CellArray, mergeCells),
		make(experiment.CellArray, mergeCells)
	for range t.servers {
		locals = append(locals, make(experiment.CellArray, mergeCells))
	}
	fresh := make(experiment.CellArray, mergeCells)
	for sync := range t.syncs {
		for s, a := range locals {
			for _, i := range t.part(s, sync) {
				ps := t.cells(int(i))
				a.Raise(ps, 1)
				one.Raise(ps, 1)
				fresh.Raise(ps, 1)
				for _, p := range ps {
					intuitive[p]++
				}
			}
			t.touched(s, sync, func(p uint32) {
				periods[p] += fresh[p]
				fresh[p] = 0
			})
		}
	}
	return locals, periods, intuitive, one
}

// touched calls do for every cell of the reports of a server between two
// synchronisations: once or several times.
func (t *mergeTrial) touched(server, sync int, do func(p uint32)) {
	for _, i := range t.part(server, sync) {
		for _, p := range t.cells(int(i)) {
			do(p)
		}
	}
}

// merged lets every server insert into the merged array under H1, and ships the
// differences: what the paper's text can be read to mean.
func (t *mergeTrial) merged() experiment.CellArray {
	common := make(experiment.CellArray, mergeCells)
	mine, next := make(experiment.CellArray, mergeCells), make(experiment.CellArray, mergeCells)
	for sync := range t.syncs {
		for s := range t.servers {
			// mine equals common here.
			for _, i := range t.part(s, sync) {
				mine.Raise(t.cells(int(i)), 1)
			}
			t.touched(s, sync, func(p uint32) {
				next[p] += mine[p] - common[p]
				mine[p] = common[p]
			})
		}
		copy(common, next)
		copy(mine, next)
	}
	return common
}
