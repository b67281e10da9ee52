package experiment

import (
	"context"
	"fmt"
	"math"
)

// An equalRow is the error of both extensions in a filter of m cells and k functions.
type equalRow struct {
	Experiment int     `json:"experiment"`
	M          int     `json:"m"`
	K          int     `json:"k"`
	Intuitive  float64 `json:"intuitive"`
	Refined    float64 `json:"refined"`
}

// An EqualResult holds the errors of one experiment over a fine grid of m and k. It shows with how
// much less of either the refined extension has the intuitive one's error.
type EqualResult struct {
	Rounds int        `json:"rounds"`
	Rows   []equalRow `json:"rows"`
}

// EqualSizes are thousands of cells, each a tenth to a seventh above the last.
func EqualSizes() []int {
	return []int{40, 44, 50, 56, 64, 72, 80, 92, 104, 120, 140, 160, 184, 208, 240, 280, 320}
}

// EqualHashes returns the numbers of hash functions that are compared.
func EqualHashes() []int { return []int{2, 3, 4, 5, 6, 7, 8} }

// equalExperiments are the orders: rounds, uniform counts shuffled, Poisson counts.
func (c *Config) equalExperiments() []int { return []int{1, 4, 6}[:c.Less(3, 1)] }

// EqualUnits returns the work of finding equal errors with less m or k.
func (c *Config) EqualUnits() (units []*Unit, results []*EqualResult) {
	n := max(1, c.Rounds/20)
	for _, number := range c.equalExperiments() {
		e := Experiments()[number-1]
		r := &EqualResult{}
		results = append(results, r)
		units = append(units, &Unit{
			Name: fmt.Sprintf("equal-%d", number), Cost: 0.6 * float64(n), Result: r,
			Have: func() bool { return r.Rounds >= n },
			Run: func(ctx context.Context, s *Simulator, tick func(float64)) error {
				*r = EqualResult{}
				counts := e.drawCounts(c.Seed, c.Draw, 0)
				for _, m := range EqualSizes() {
					for _, k := range EqualHashes() {
						row := equalRow{Experiment: number, M: 1000 * m, K: k}
						for round := range n {
							if err := ctx.Err(); err != nil {
								return err
							}
							got := s.run(&e, c.Seed, c.Draw, row.M, k, round, counts)
							row.Intuitive += rateOf(&e, &got, false) / float64(n)
							row.Refined += rateOf(&e, &got, true) / float64(n)
						}
						r.Rows = append(r.Rows, row)
					}
					tick(float64(len(r.Rows)) / float64(len(EqualSizes())*len(EqualHashes())))
				}
				r.Rounds = n
				return nil
			},
		})
	}
	return units, results
}

// At returns the rates of a configuration.
func (r *EqualResult) At(m, k int) (row equalRow, ok bool) {
	for _, x := range r.Rows {
		if x.M == m && x.K == k {
			return x, true
		}
	}
	return row, false
}

// LessCells returns the number of cells at which the refined extension has the error
// that the intuitive one has with m cells and as many functions: between the grid's
// sizes on a line through the logarithms.
func (r *EqualResult) LessCells(m, k int) (cells float64, ok bool) {
	want, ok := r.At(m, k)
	if !ok || want.Intuitive == 0 {
		return 0, false
	}
	sizes := EqualSizes()
	for i := range sizes[1:] {
		a, _ := r.At(1000*sizes[i], k)
		b, _ := r.At(1000*sizes[i+1], k)
		if a.Refined >= want.Intuitive && b.Refined < want.Intuitive && b.Refined > 0 {
			along := math.Log(a.Refined/want.Intuitive) / math.Log(a.Refined/b.Refined)
			return float64(a.M) * math.Pow(float64(b.M)/float64(a.M), along), true
		}
	}
	return 0, false
}

// FewerHashes returns the least number of functions with which the refined extension
// errs no more often than the intuitive one with k, both with m cells.
func (r *EqualResult) FewerHashes(m, k int) (hashes int, ok bool) {
	want, ok := r.At(m, k)
	if !ok {
		return 0, false
	}
	for _, h := range EqualHashes() {
		if row, _ := r.At(m, h); h < k && row.Refined <= want.Intuitive {
			return h, true
		}
	}
	return 0, false
}
