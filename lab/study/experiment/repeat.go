package experiment

import (
	"context"
	"fmt"
	"math"
)

// A cellStat is one configuration of an experiment, summed up.
type cellStat struct {
	M           int     `json:"m"`
	K           int     `json:"k"`
	Rounds      int     `json:"rounds"`
	MeanI       float64 `json:"mean_i"`
	SDI         float64 `json:"sd_i"`
	MeanR       float64 `json:"mean_r"`
	SDR         float64 `json:"sd_r"`
	Correlation float64 `json:"correlation"`
}

// Row returns s as a row of the tables of e.
func (s cellStat) Row(e *Experiment) Row {
	r := Row{Experiment: e, M: s.M, K: s.K, correlation: s.Correlation,
		Intuitive: Stat{s.Rounds, s.MeanI, s.SDI}, Refined: Stat{s.Rounds, s.MeanR, s.SDR}, Reduction: math.NaN(),
		reductionSE: math.NaN()}
	if s.MeanR > 0 {
		r.Reduction, r.reductionSE = s.MeanI/s.MeanR, ratioSE(r.Intuitive, r.Refined, s.Correlation)
	}
	return r
}

// A RepeatResult is one experiment, all of its configurations, with another seed or
// hash family.
type RepeatResult struct {
	Experiment int        `json:"experiment"`
	Seed       uint64     `json:"seed"`
	Family     HashFamily `json:"family"`
	Rounds     int        `json:"rounds"`
	Cells      []cellStat `json:"cells"`
}

// MoreSeeds is how many seeds beside the run's own are compared.
func (c *Config) MoreSeeds() int { return c.Less(4, 2) }

// SeedUnits repeats all experiments with the seeds that follow the run's own.
func (c *Config) SeedUnits() (units []*Unit, results []*RepeatResult) {
	for i := range uint64(c.MoreSeeds()) {
		for _, e := range Experiments() {
			u, r := c.repeatUnit(&e, fmt.Sprintf("seed%d-experiment%d", i+1, e.Number), c.Seed+i+1, c.Family, c.Rounds)
			units, results = append(units, u), append(results, r)
		}
	}
	return units, results
}

// FamilyUnits repeats all experiments with the hash families that are not the run's.
func (c *Config) FamilyUnits() (units []*Unit, results []*RepeatResult) {
	for _, f := range HashFamilies() {
		for _, e := range Experiments() {
			if f == c.Family || c.Small() && f != FamilyIndependent {
				continue
			}
			u, r := c.repeatUnit(&e, fmt.Sprintf("family-%s-experiment%d", f, e.Number), c.Seed, f, max(1, c.Rounds/4))
			units, results = append(units, u), append(results, r)
		}
	}
	return units, results
}

func (c *Config) repeatUnit(e *Experiment, name string, seed uint64, family HashFamily, n int) (*Unit, *RepeatResult) {
	r := &RepeatResult{}
	ex := *e
	steps := float64(len(ex.Sizes) * len(HashCounts()))
	return &Unit{
		Name: name, Cost: 4e-3 * steps * float64(n), Result: r,
		Have: func() bool { return r.Rounds >= n },
		Run: func(ctx context.Context, s *Simulator, tick func(float64)) error {
			defer s.as(seed, family)()
			*r = RepeatResult{Experiment: ex.Number, Seed: seed, Family: family}
			counts := ex.drawCounts(seed, c.Draw, 0)
			for _, m := range ex.Sizes {
				for _, k := range HashCounts() {
					t := &TableResult{Experiment: ex.Number, M: m * 1000, K: k}
					for round := range n {
						if err := ctx.Err(); err != nil {
							return err
						}
						if c.Draw == DrawFresh {
							counts = ex.drawCounts(seed, c.Draw, round)
						}
						t.Rounds = append(t.Rounds, s.run(&ex, seed, c.Draw, t.M, k, round, counts))
					}
					sum := t.Row(&ex, n)
					r.Cells = append(r.Cells, cellStat{t.M, k, n, sum.Intuitive.Mean, sum.Intuitive.SD, sum.Refined.Mean,
						sum.Refined.SD, sum.correlation})
					tick(float64(len(r.Cells)) / steps)
				}
			}
			r.Rounds = n
			return nil
		},
	}, r
}

// RowsOf returns the repetitions that want says, as rows of all their experiments.
func RowsOf(results []*RepeatResult, want func(*RepeatResult) bool) (all [][]Row) {
	byNumber := map[int]Experiment{}
	for _, e := range Experiments() {
		byNumber[e.Number] = e
	}
	for _, r := range results {
		if !want(r) {
			continue
		}
		e := byNumber[r.Experiment]
		var rows []Row
		for _, c := range r.Cells {
			rows = append(rows, c.Row(&e))
		}
		all = append(all, rows)
	}
	return all
}

// AgainstEachOther compares two runs with each other as they are with print: how many
// numbers there are, and how many lie outside 3 standard errors. Both runs are right,
// so that is what chance does.
func AgainstEachOther(as, bs [][]Row, spreads map[int]float64) (numbers, outside, drawn int) {
	for i := range as {
		for j := range as[i] {
			a, b := as[i][j], bs[i][j]
			spread := spreads[a.Experiment.Number]
			pairs := []twoRates{{a.Refined, b.Refined, 1, 1, 0, spread, false}}
			if a.Experiment.IntuitiveOf() == a.Experiment.Number {
				pairs = append(pairs, twoRates{a.Intuitive, b.Intuitive, 1, 1, 0, 0, false})
			}
			pairs = append(pairs, twoRates{a.Refined, b.Refined, a.Intuitive.Mean, b.Intuitive.Mean,
				math.Hypot(a.reductionSE/a.Reduction, b.reductionSE/b.Reduction), spread, true})
			for _, p := range pairs {
				z, d := p.compare()
				if math.IsNaN(z) {
					continue
				}
				numbers++
				if math.Abs(z) > 3 {
					outside++
				}
				if math.Abs(d) > 3 {
					drawn++
				}
			}
		}
	}
	return numbers, outside, drawn
}

// twoRates are two measurements of one rate, or of one ratio of rates.
type twoRates struct {
	a, b   Stat
	ia, ib float64 // what the rates are relative to
	se     float64 // of the difference of the ratios, as a share of them
	spread float64 // between draws, as a share
	ratio  bool
}

// compare returns the deviation without and with the spread of draws.
func (p twoRates) compare() (z, drawn float64) {
	if math.Min(p.a.Events(), p.b.Events()) < RareEvents {
		z = rare(p.a, p.b, p.ia, p.ib)
		return z, z
	}
	x, y := p.a.Mean/p.ia, p.b.Mean/p.ib
	se := math.Hypot(p.a.SE(), p.b.SE())
	if p.ratio {
		se = p.se * (x + y) / 2
	}
	return deviation(x, y, se), deviation(x, y, math.Sqrt(se*se+p.spread*p.spread*(x*x+y*y)))
}

// Offset returns by how much the refined rates of 80K cells lie above print, as a share,
// all k together, with the standard errors over our rounds and over the paper's.
func Offset(rows []Row) (mean, ours, theirs float64) {
	printed := map[string]Cell{}
	for _, c := range PrintedCells() {
		printed[c.ID()] = c
	}
	n := 0.0
	for _, r := range rows {
		if r.M != DrawsM {
			continue
		}
		p := printed[Cell{Experiment: r.Experiment.Number, Extension: "refined", M: Thousands(r.M), K: r.K}.ID()].Stat()
		mean += r.Refined.Mean/p.Mean - 1
		ours += math.Pow(r.Refined.SE()/p.Mean, 2)
		theirs += math.Pow(p.SE()/p.Mean, 2)
		n++
	}
	return mean / n, math.Sqrt(ours) / n, math.Sqrt(theirs) / n
}

// A pooled is the offset of an experiment over several seeds, each with a draw of its own.
type pooled struct {
	Offsets       []float64
	Mean, SE      float64 // weighted by the inverse variances; with print's errors
	Heterogeneity float64 // Cochran's Q over the seeds
}

// Pool combines the offsets of several runs, whose draws differ by spread.
func Pool(runs [][]Row, spread float64) (p pooled) {
	var weights, weighted, theirs float64
	var all []float64
	for _, rows := range runs {
		mean, ours, printed := Offset(rows)
		if ours == 0 {
			continue // a single round
		}
		w := 1 / (ours*ours + spread*spread)
		p.Offsets, all = append(p.Offsets, mean), append(all, w)
		weights, weighted, theirs = weights+w, weighted+w*mean, printed
	}
	p.Mean = weighted / weights
	for i, mean := range p.Offsets {
		p.Heterogeneity += all[i] * (mean - p.Mean) * (mean - p.Mean)
	}
	// Print has errors over rounds and a draw of its own.
	p.SE = math.Sqrt(1/weights + theirs*theirs + spread*spread)
	return p
}
