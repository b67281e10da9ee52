package study

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

func (s cellStat) row(e *experiment) row {
	r := row{experiment: e, m: s.M, k: s.K, correlation: s.Correlation,
		intuitive: stat{s.Rounds, s.MeanI, s.SDI}, refined: stat{s.Rounds, s.MeanR, s.SDR}, reduction: math.NaN(), reductionSE: math.NaN()}
	if s.MeanR > 0 {
		r.reduction, r.reductionSE = s.MeanI/s.MeanR, ratioSE(r.intuitive, r.refined, s.Correlation)
	}
	return r
}

// A repeatResult is one experiment, all of its configurations, with another seed or
// hash family.
type repeatResult struct {
	Experiment int        `json:"experiment"`
	Seed       uint64     `json:"seed"`
	Family     HashFamily `json:"family"`
	Rounds     int        `json:"rounds"`
	Cells      []cellStat `json:"cells"`
}

// moreSeeds is how many seeds beside the run's own are compared.
func (c *Config) moreSeeds() int { return c.less(4, 2) }

// seedUnits repeats all experiments with the seeds that follow the run's own.
func (c *Config) seedUnits() (units []*unit, results []*repeatResult) {
	for i := range uint64(c.moreSeeds()) {
		for _, e := range experiments() {
			u, r := c.repeatUnit(&e, fmt.Sprintf("seed%d-experiment%d", i+1, e.number), c.Seed+i+1, c.Family, c.Rounds)
			units, results = append(units, u), append(results, r)
		}
	}
	return units, results
}

// familyUnits repeats all experiments with the hash families that are not the run's.
func (c *Config) familyUnits() (units []*unit, results []*repeatResult) {
	for _, f := range HashFamilies() {
		for _, e := range experiments() {
			if f == c.Family || c.small() && f != FamilyIndependent {
				continue
			}
			u, r := c.repeatUnit(&e, fmt.Sprintf("family-%s-experiment%d", f, e.number), c.Seed, f, max(1, c.Rounds/4))
			units, results = append(units, u), append(results, r)
		}
	}
	return units, results
}

func (c *Config) repeatUnit(e *experiment, name string, seed uint64, family HashFamily, n int) (*unit, *repeatResult) {
	r := &repeatResult{}
	ex := *e
	steps := float64(len(ex.sizes) * len(hashCounts()))
	return &unit{
		name: name, cost: 4e-3 * steps * float64(n), result: r,
		have: func() bool { return r.Rounds >= n },
		run: func(ctx context.Context, s *simulator, tick func(float64)) error {
			defer s.as(seed, family)()
			*r = repeatResult{Experiment: ex.number, Seed: seed, Family: family}
			counts := ex.drawCounts(seed, c.Draw, 0)
			for _, m := range ex.sizes {
				for _, k := range hashCounts() {
					t := &tableResult{Experiment: ex.number, M: m * 1000, K: k}
					for round := range n {
						if err := ctx.Err(); err != nil {
							return err
						}
						if c.Draw == DrawFresh {
							counts = ex.drawCounts(seed, c.Draw, round)
						}
						t.Rounds = append(t.Rounds, s.run(&ex, seed, c.Draw, t.M, k, round, counts))
					}
					sum := t.row(&ex, n)
					r.Cells = append(r.Cells, cellStat{t.M, k, n, sum.intuitive.mean, sum.intuitive.sd, sum.refined.mean, sum.refined.sd, sum.correlation})
					tick(float64(len(r.Cells)) / steps)
				}
			}
			r.Rounds = n
			return nil
		},
	}, r
}

// rowsOf returns the repetitions that want says, as rows of all their experiments.
func rowsOf(results []*repeatResult, want func(*repeatResult) bool) (all [][]row) {
	byNumber := map[int]experiment{}
	for _, e := range experiments() {
		byNumber[e.number] = e
	}
	for _, r := range results {
		if !want(r) {
			continue
		}
		e := byNumber[r.Experiment]
		var rows []row
		for _, c := range r.Cells {
			rows = append(rows, c.row(&e))
		}
		all = append(all, rows)
	}
	return all
}

// againstEachOther compares two runs with each other as they are with print: how many
// numbers there are, and how many lie outside 3 standard errors. Both runs are right,
// so that is what chance does.
func againstEachOther(as, bs [][]row, spreads map[int]float64) (numbers, outside, drawn int) {
	for i := range as {
		for j := range as[i] {
			a, b := as[i][j], bs[i][j]
			spread := spreads[a.experiment.number]
			pairs := []twoRates{{a.refined, b.refined, 1, 1, 0, spread, false}}
			if a.experiment.intuitiveOf() == a.experiment.number {
				pairs = append(pairs, twoRates{a.intuitive, b.intuitive, 1, 1, 0, 0, false})
			}
			pairs = append(pairs, twoRates{a.refined, b.refined, a.intuitive.mean, b.intuitive.mean, math.Hypot(a.reductionSE/a.reduction, b.reductionSE/b.reduction), spread, true})
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
	a, b   stat
	ia, ib float64 // what the rates are relative to
	se     float64 // of the difference of the ratios, as a share of them
	spread float64 // between draws, as a share
	ratio  bool
}

// compare returns the deviation without and with the spread of draws.
func (p twoRates) compare() (z, drawn float64) {
	if math.Min(p.a.events(), p.b.events()) < rareEvents {
		z = rare(p.a, p.b, p.ia, p.ib)
		return z, z
	}
	x, y := p.a.mean/p.ia, p.b.mean/p.ib
	se := math.Hypot(p.a.se(), p.b.se())
	if p.ratio {
		se = p.se * (x + y) / 2
	}
	return deviation(x, y, se), deviation(x, y, math.Sqrt(se*se+p.spread*p.spread*(x*x+y*y)))
}

// offset returns by how much the refined rates of 80K cells lie above print, as a share,
// all k together, with the standard errors over our rounds and over the paper's.
func offset(rows []row) (mean, ours, theirs float64) {
	printed := map[string]cell{}
	for _, c := range printedCells() {
		printed[c.id()] = c
	}
	n := 0.0
	for _, r := range rows {
		if r.m != drawsM {
			continue
		}
		p := printed[cell{experiment: r.experiment.number, extension: "refined", m: thousands(r.m), k: r.k}.id()].stat()
		mean += r.refined.mean/p.mean - 1
		ours += math.Pow(r.refined.se()/p.mean, 2)
		theirs += math.Pow(p.se()/p.mean, 2)
		n++
	}
	return mean / n, math.Sqrt(ours) / n, math.Sqrt(theirs) / n
}

// A pooled is the offset of an experiment over several seeds, each with a draw of its own.
type pooled struct {
	offsets       []float64
	mean, se      float64 // weighted by the inverse variances; with print's errors
	heterogeneity float64 // Cochran's Q over the seeds
}

// pool combines the offsets of several runs, whose draws differ by spread.
func pool(runs [][]row, spread float64) (p pooled) {
	var weights, weighted, theirs float64
	var all []float64
	for _, rows := range runs {
		mean, ours, printed := offset(rows)
		if ours == 0 {
			continue // a single round
		}
		w := 1 / (ours*ours + spread*spread)
		p.offsets, all = append(p.offsets, mean), append(all, w)
		weights, weighted, theirs = weights+w, weighted+w*mean, printed
	}
	p.mean = weighted / weights
	for i, mean := range p.offsets {
		p.heterogeneity += all[i] * (mean - p.mean) * (mean - p.mean)
	}
	// Print has errors over rounds and a draw of its own.
	p.se = math.Sqrt(1/weights + theirs*theirs + spread*spread)
	return p
}
