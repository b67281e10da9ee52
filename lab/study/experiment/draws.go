package experiment

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

// A DrawResult compares draws of the insertions of one experiment.
type DrawResult struct {
	Rounds int       `json:"rounds"`
	Rows   []drawRow `json:"rows"`
}

// DrawsM is the size of the filters that the draws are compared in.
const DrawsM = 80_000

// DrawsCompared returns the number of draws. Every draw meets the same hash
// functions.
func (c *Config) DrawsCompared() int { return min(16, max(3, c.Rounds/10)) }

// DrawUnits returns the work of comparing draws.
func (c *Config) DrawUnits() (units []*Unit, results []*DrawResult) {
	for _, e := range Experiments() {
		if !e.weighted() {
			continue
		}
		added, r := c.spreadUnits(&e, "draws", func(s *Simulator, d int) []uint8 {
			return e.drawCounts(c.Seed+1+uint64(d), DrawPrinted, 0)
		})
		units, results = append(units, added...), append(results, r...)
	}
	return units, results
}

// OrderUnits compares orders as DrawUnits compares draws: the effect of one order for all rounds.
func (c *Config) OrderUnits() (units []*Unit, results []*DrawResult) {
	for _, e := range Experiments() {
		if e.order != shuffled {
			continue
		}
		added, r := c.spreadUnits(&e, "orders", func(s *Simulator, d int) []uint8 {
			s.reorder = func(s *Simulator, counts []uint8, seed uint64, _ int) {
				s.Shuffle(counts, Stream(seed, "one order", d))
			}
			return e.drawCounts(c.Seed, DrawPrinted, 0)
		})
		units, results = append(units, added...), append(results, r...)
	}
	return units, results
}

// spreadUnits runs an experiment in several ways that meet the same hash functions. with
// sets the simulator up for one of them, and returns how often elements are inserted.
func (c *Config) spreadUnits(e *Experiment, name string, with func(s *Simulator,
	d int) []uint8) (units []*Unit, results []*DrawResult) {
	n, ways := max(2, c.Rounds*6/100), c.DrawsCompared()
	for _, k := range HashCounts() {
		r := &DrawResult{}
		results = append(results, r)
		units = append(units, &Unit{
			Name: fmt.Sprintf("%s-%d-k%d", name, e.Number, k), Cost: 6e-4 * float64(k*n*ways), Result: r,
			Have: func() bool { return r.Rounds >= n },
			Run: func(ctx context.Context, s *Simulator, tick func(float64)) error {
				defer func() { s.reorder = nil }()
				rates := make([][]float64, ways)
				for d := range rates {
					counts := with(s, d)
					for round := range n {
						if err := ctx.Err(); err != nil {
							return err
						}
						result := s.run(e, c.Seed, DrawPrinted, DrawsM, k, round, counts)
						rates[d] = append(rates[d], rateOf(e, &result, true))
					}
					tick(float64(d+1) / float64(ways))
				}
				mean, variance := between(rates)
				*r = DrawResult{Rounds: n, Rows: []drawRow{{e.Number, k, mean, variance / (mean * mean)}}}
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

// SpreadsOf returns the relative spread between draws, by the number of the experiment.
func SpreadsOf(results []*DrawResult) map[int]float64 {
	all := map[int]float64{}
	for _, r := range results {
		for _, row := range r.Rows {
			all[row.Experiment] += row.Variance / float64(len(HashCounts()))
		}
	}
	for n, v := range all {
		all[n] = math.Sqrt(math.Max(0, v))
	}
	return all
}
