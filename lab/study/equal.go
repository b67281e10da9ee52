package study

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

// An equalResult holds the errors of one experiment over a fine grid of m and k, to
// tell with how much less of either the refined extension has the intuitive one's error.
type equalResult struct {
	Rounds int        `json:"rounds"`
	Rows   []equalRow `json:"rows"`
}

// equalSizes are thousands of cells, each a tenth to a seventh above the last.
func equalSizes() []int {
	return []int{40, 44, 50, 56, 64, 72, 80, 92, 104, 120, 140, 160, 184, 208, 240, 280, 320}
}

func equalHashes() []int { return []int{2, 3, 4, 5, 6, 7, 8} }

// equalExperiments are the orders: rounds, uniform counts shuffled, Poisson counts.
func (c *Config) equalExperiments() []int { return []int{1, 4, 6}[:c.less(3, 1)] }

func (c *Config) equalUnits() (units []*unit, results []*equalResult) {
	n := max(1, c.Rounds/20)
	for _, number := range c.equalExperiments() {
		e := experiments()[number-1]
		r := &equalResult{}
		results = append(results, r)
		units = append(units, &unit{
			name: fmt.Sprintf("equal-%d", number), cost: 0.6 * float64(n), result: r,
			have: func() bool { return r.Rounds >= n },
			run: func(ctx context.Context, s *simulator, tick func(float64)) error {
				*r = equalResult{}
				counts := e.drawCounts(c.Seed, c.Draw, 0)
				for _, m := range equalSizes() {
					for _, k := range equalHashes() {
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
					tick(float64(len(r.Rows)) / float64(len(equalSizes())*len(equalHashes())))
				}
				r.Rounds = n
				return nil
			},
		})
	}
	return units, results
}

// at returns the rates of a configuration.
func (r *equalResult) at(m, k int) (row equalRow, ok bool) {
	for _, x := range r.Rows {
		if x.M == m && x.K == k {
			return x, true
		}
	}
	return row, false
}

// lessCells returns the number of cells at which the refined extension has the error
// that the intuitive one has with m cells and as many functions: between the grid's
// sizes on a line through the logarithms.
func (r *equalResult) lessCells(m, k int) (cells float64, ok bool) {
	want, ok := r.at(m, k)
	if !ok || want.Intuitive == 0 {
		return 0, false
	}
	sizes := equalSizes()
	for i := range sizes[1:] {
		a, _ := r.at(1000*sizes[i], k)
		b, _ := r.at(1000*sizes[i+1], k)
		if a.Refined >= want.Intuitive && b.Refined < want.Intuitive && b.Refined > 0 {
			along := math.Log(a.Refined/want.Intuitive) / math.Log(a.Refined/b.Refined)
			return float64(a.M) * math.Pow(float64(b.M)/float64(a.M), along), true
		}
	}
	return 0, false
}

// fewerHashes returns the least number of functions with which the refined extension
// errs no more often than the intuitive one with k, both with m cells.
func (r *equalResult) fewerHashes(m, k int) (hashes int, ok bool) {
	want, ok := r.at(m, k)
	if !ok {
		return 0, false
	}
	for _, h := range equalHashes() {
		if row, _ := r.at(m, h); h < k && row.Refined <= want.Intuitive {
			return h, true
		}
	}
	return 0, false
}
