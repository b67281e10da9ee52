package arrays

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/lab/study/experiment"
)

// A lineModel predicts how many counts are too high where the reports of each key are
// spread over several refined arrays, which are then read together: filter's model of
// one array, carried on to sums of arrays.
//
// A key x that has been counted j times in an array is counted wrong there from the moment at which
// all its cells are above j because of others, if x is added again or never will be. Whether
// another key y has lifted a cell above j is a matter of its reports until then, N(y) > j: of all
// keys a share q. At that moment the error is the error of an array with only these, ghost(q n /
// lines); the model adds such errors up over the reports of x, which is an upper bound.
//
// Read as a sum, cell by cell, the count is too high in the end if each cell of x has
// been lifted in some array: a key y lifts it if N_s(y) > x_s in at least one array s.
// Read as a sum of minima, it is too high if it is in one of the arrays.
//
// Keys are sampled rather than summed over: the distribution of reports over arrays and
// time has no short form.
type lineModel struct {
	xs, ys []history
}

// A history is one key's reports: their times, ascending, in each array.
type history [][]float64

// modelMost is how many reports of a key are looked at, as in filter's model.
const modelMost = 128

// modelKeys is how many keys are drawn, and as many others.
func modelKeys(c *experiment.Config) int { return c.Less(1500, 300) }

// newLineModel draws histories of n keys and as many others, in which a report goes to
// array a with the probability shares[a].
func newLineModel(r *rand.Rand, n int, tail float64, shares []float64) *lineModel {
	draw := func() history {
		h := make(history, len(shares))
		for range paretoCount(r, tail, modelMost) {
			u, a := r.Float64(), 0
			for a < len(shares)-1 && u >= shares[a] {
				u -= shares[a]
				a++
			}
			h[a] = append(h[a], r.Float64())
		}
		for a := range h {
			slices.Sort(h[a])
		}
		return h
	}
	m := &lineModel{}
	for range n {
		m.xs = append(m.xs, draw())
	}
	for range n {
		m.ys = append(m.ys, draw())
	}
	return m
}

// above returns the share of other keys that were reported more than j times to array
// a until time u.
func (m *lineModel) above(a, j int, u float64) float64 {
	n := 0
	for _, y := range m.ys {
		if len(y[a]) > j && y[a][j] < u {
			n++
		}
	}
	return float64(n) / float64(len(m.ys))
}

// aboveAny returns the share of other keys that are in the end reported more often
// than x in at least one array.
func (m *lineModel) aboveAny(x history) float64 {
	n := 0
	for _, y := range m.ys {
		for a := range y {
			if len(y[a]) > len(x[a]) {
				n++
				break
			}
		}
	}
	return float64(n) / float64(len(m.ys))
}

// during returns the probability that array a counts x too high at one of its reports.
func (m *lineModel) during(g filter.Geometry, perLine float64, x history, a int) (sum float64) {
	for j, u := range x[a] {
		q := m.above(a, j, u)
		if q == 0 && j > 12 {
			break
		}
		sum += ghostOf(g, perLine*q)
	}
	return sum
}

// ghostOf is [filter.Geometry.GhostError] for a mean of perLine keys in a line.
func ghostOf(g filter.Geometry, perLine float64) float64 {
	// GhostError takes whole keys: with enough lines, rounding is nothing.
	g.Lines = filter.MaxLines
	return g.GhostError(uint64(math.Round(perLine * filter.MaxLines)))
}

// sumOfCells predicts the share of counts that are too high in the sum of the arrays.
func (m *lineModel) sumOfCells(g filter.Geometry, perLine float64) (mean float64) {
	most := ghostOf(g, perLine)
	for _, x := range m.xs {
		p := ghostOf(g, perLine*m.aboveAny(x))
		for a := range x {
			p += m.during(g, perLine, x, a)
		}
		mean += math.Min(p, most) / float64(len(m.xs))
	}
	return mean
}

// sumOfMinima predicts the share of counts that are too high in the sum of the own counts of the
// first arrays.
func (m *lineModel) sumOfMinima(g filter.Geometry, perLine float64, arrays int) (mean float64) {
	for _, x := range m.xs {
		p := 0.0
		for a := range arrays {
			here := m.during(g, perLine, x, a) + ghostOf(g, perLine*m.above(a, len(x[a]), 2))
			p += math.Min(here, ghostOf(g, perLine*m.above(a, 0, 2)))
		}
		mean += math.Min(p, 1) / float64(len(m.xs))
	}
	return mean
}
