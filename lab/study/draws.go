package study

import (
	"context"
	"fmt"
	"math"
)

// A drawRow is how much a mean of Experiments 4 to 8 depends on the one draw of
// the numbers of insertions that all its rounds share. The standard error over
// rounds does not contain that.
type drawRow struct {
	Experiment int     `json:"experiment"`
	K          int     `json:"k"`
	Mean       float64 `json:"mean"` // refined rate
	// Variance of the mean between draws, as a share of its square, after what
	// the rounds contribute by themselves is taken off. An estimate: it may
	// come out below 0.
	Variance float64 `json:"variance"`
}

type drawResult struct {
	Rounds int       `json:"rounds"`
	Rows   []drawRow `json:"rows"`
}

// drawsM is the size of the filters that the draws are compared in.
const drawsM = 80_000

// drawsCompared returns the number of draws. Every draw meets the same hash
// functions.
func (c *Config) drawsCompared() int { return min(16, max(3, c.Rounds/10)) }

func (c *Config) drawUnits() (units []*unit, results []*drawResult) {
	for _, e := range experiments() {
		if !e.weighted() {
			continue
		}
		more, r := c.spreadUnits(&e, "draws", func(s *simulator, d int) []uint8 {
			return e.drawCounts(c.Seed+1+uint64(d), DrawPrinted, 0)
		})
		units, results = append(units, more...), append(results, r...)
	}
	return units, results
}

// orderUnits compares orders as drawUnits compares draws: what it would matter if all
// rounds had one order.
func (c *Config) orderUnits() (units []*unit, results []*drawResult) {
	for _, e := range experiments() {
		if e.order != shuffled {
			continue
		}
		more, r := c.spreadUnits(&e, "orders", func(s *simulator, d int) []uint8 {
			s.reorder = func(s *simulator, counts []uint8, seed uint64, _ int) {
				s.shuffle(counts, stream(seed, "one order", d))
			}
			return e.drawCounts(c.Seed, DrawPrinted, 0)
		})
		units, results = append(units, more...), append(results, r...)
	}
	return units, results
}

// spreadUnits runs an experiment in several ways that meet the same hash functions. with
// sets the simulator up for one of them, and returns how often elements are inserted.
func (c *Config) spreadUnits(e *experiment, name string, with func(s *simulator, d int) []uint8) (units []*unit, results []*drawResult) {
	n, ways := max(2, c.Rounds*6/100), c.drawsCompared()
	for _, k := range hashCounts() {
		r := &drawResult{}
		results = append(results, r)
		units = append(units, &unit{
			name: fmt.Sprintf("%s-%d-k%d", name, e.number, k), cost: 6e-4 * float64(k*n*ways), result: r,
			have: func() bool { return r.Rounds >= n },
			run: func(ctx context.Context, s *simulator, tick func(float64)) error {
				defer func() { s.reorder = nil }()
				rates := make([][]float64, ways)
				for d := range rates {
					counts := with(s, d)
					for round := range n {
						if err := ctx.Err(); err != nil {
							return err
						}
						result := s.run(e, c.Seed, DrawPrinted, drawsM, k, round, counts)
						rates[d] = append(rates[d], rateOf(e, &result, true))
					}
					tick(float64(d+1) / float64(ways))
				}
				mean, variance := between(rates)
				*r = drawResult{Rounds: n, Rows: []drawRow{{e.number, k, mean, variance / (mean * mean)}}}
				return nil
			},
		})
	}
	return units, results
}

// between returns the mean of a table of values, and the variance of the means of its
// lines beyond what the scatter of single values explains (two-way analysis of variance).
func between(values [][]float64) (mean, variance float64) {
	lines, columns := len(values), len(values[0])
	byLine, byColumn := make([]float64, lines), make([]float64, columns)
	for i, line := range values {
		for j, v := range line {
			byLine[i] += v / float64(columns)
			byColumn[j] += v / float64(lines)
			mean += v / float64(lines*columns)
		}
	}
	var effect, residual float64
	for i, line := range values {
		effect += (byLine[i] - mean) * (byLine[i] - mean)
		for j, v := range line {
			r := v - byLine[i] - byColumn[j] + mean
			residual += r * r
		}
	}
	effect /= float64(lines - 1)
	residual /= float64((lines - 1) * (columns - 1))
	return mean, effect - residual/float64(columns)
}

// spreads returns, for each experiment, the standard deviation between draws as a
// share of the mean: of all k together, since one draw acts on all.
func (p *plan) spreads() map[int]float64 { return spreadsOf(p.draws) }

func spreadsOf(results []*drawResult) map[int]float64 {
	all := map[int]float64{}
	for _, r := range results {
		for _, row := range r.Rows {
			all[row.Experiment] += row.Variance / float64(len(hashCounts()))
		}
	}
	for n, v := range all {
		all[n] = math.Sqrt(math.Max(0, v))
	}
	return all
}
