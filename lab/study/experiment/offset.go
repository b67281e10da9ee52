package experiment

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
)

// An offsetRow is one experiment at 80,000 cells under a supposition of what the
// paper may have done: the refined rates, by number of hash functions.
type offsetRow struct {
	Experiment  int        `json:"experiment"`
	Supposition string     `json:"supposition"`
	Cells       []cellStat `json:"cells"`
}

// An OffsetResult holds the errors of one experiment under each supposition.
type OffsetResult struct {
	Rounds int         `json:"rounds"`
	Rows   []offsetRow `json:"rows"`
}

// A supposition is a way in which the paper's simulation may differ from ours.
type supposition struct {
	Kind   string
	Name   string
	family HashFamily // "" for the run's
	draw   Draw       // "" for the run's
	// counts replaces the draw, if it is not nil.
	counts func(e *Experiment, seed uint64) []uint8
	// order replaces the shuffle of a round, if it is not nil.
	order func(s *Simulator, counts []uint8, seed uint64, round int)
	// rate replaces the paper's rate, if it is not nil.
	rate func(r *roundResult) float64
}

// The suppositions: hash family, draw, order and definition.
const (
	supposeFamily   = "independent, as many rounds"
	supposeFixed    = "any draw, not one with the zeros and insertions of the paper's"
	supposeFresh    = "a draw for each round"
	supposeTilted   = "the paper's zeros and insertions come of a lower mean, not of single counts"
	SupposeOneOrder = "one order for all rounds"
	supposeNaive    = "a shuffle that exchanges every place with any other"
	supposeDistinct = "different elements wrong, over different elements"
	supposeMixed    = "over the number of insertions expected, not drawn"
)

// Suppositions returns what may explain the offset. mean is the expected number of insertions.
func Suppositions(mean float64) []supposition {
	return []supposition{
		{Kind: "hash functions", Name: supposeFamily, family: FamilyIndependent},
		{Kind: "draw", Name: supposeFixed, draw: DrawFixed},
		{Kind: "draw", Name: supposeFresh, draw: DrawFresh},
		{Kind: "draw", Name: supposeTilted, counts: tilted},
		{Kind: "order", Name: SupposeOneOrder, order: func(s *Simulator, counts []uint8, seed uint64, _ int) {
			s.Shuffle(counts, Stream(seed, "one order"))
		}},
		{Kind: "order", Name: supposeNaive, order: func(s *Simulator, counts []uint8, seed uint64, round int) {
			s.Shuffle(counts, nil)
			s.exchange(Stream(seed, "naive order", round))
		}},
		{Kind: "definition", Name: supposeDistinct,
			rate: func(r *roundResult) float64 { return Share(r.WrongR, r.Elements) }},
		{Kind: "definition", Name: supposeMixed,
			rate: func(r *roundResult) float64 { return float64(r.WeightR) / (NumKeys * mean) }},
	}
}

// tilted draws counts of the experiment's distribution tilted, p(c) exp(-θ c), so that their mean
// is the mean of the paper's draw: the most likely way to come by its total. The difference to the
// paper's zeros and total is then removed as in other draws.
func tilted(e *Experiment, seed uint64) []uint8 {
	r := Stream(seed, "tilted", e.Number)
	var weights [CellLimit + 1]float64
	for range 1_000_000 {
		weights[e.counts(r)]++
	}
	mean := func(theta float64) float64 {
		var sum, total float64
		for c, w := range weights {
			w *= math.Exp(-theta * float64(c))
			sum, total = sum+w*float64(c), total+w
		}
		return sum / total
	}
	low, high := -1.0, 1.0 // mean falls as theta grows
	for range 60 {
		if mid := (low + high) / 2; mean(mid) > float64(e.Total)/NumKeys {
			low = mid
		} else {
			high = mid
		}
	}
	counts := make([]uint8, NumKeys)
	for i := range counts {
		for {
			c := e.counts(r)
			if r.Float64() < math.Exp(-low*float64(c)+math.Min(0, low)*float64(e.most)) {
				counts[i] = uint8(c)
				break
			}
		}
	}
	e.condition(counts, r)
	return counts
}

// exchange shuffles the sequence in the wrong way that is often met: each place is
// exchanged with one chosen among all, by which not all orders are equally likely.
func (s *Simulator) exchange(r *rand.Rand) {
	for i := range s.Sequence {
		j := r.IntN(len(s.Sequence))
		s.Sequence[i], s.Sequence[j] = s.Sequence[j], s.Sequence[i]
	}
}

// OffsetExperiments are those whose refined rates at 80K lie above print.
func OffsetExperiments() map[int]float64 { return map[int]float64{6: 10, 8: 20} }

// OffsetUnits returns the work of simulating the suppositions.
func (c *Config) OffsetUnits() (units []*Unit, results []*OffsetResult) {
	for _, e := range Experiments() {
		mean, ok := OffsetExperiments()[e.Number]
		if !ok {
			continue
		}
		for i, sup := range Suppositions(mean) {
			r := &OffsetResult{}
			results = append(results, r)
			units = append(units, &Unit{
				Name: fmt.Sprintf("offset-%d-%d", e.Number, i+1), Cost: 0.015 * float64(c.Rounds), Result: r,
				Have: func() bool { return r.Rounds >= c.Rounds },
				Run: func(ctx context.Context, s *Simulator, tick func(float64)) error {
					row, err := c.suppose(ctx, s, &e, &sup, tick)
					if err != nil {
						return err
					}
					*r = OffsetResult{Rounds: c.Rounds, Rows: []offsetRow{row}}
					return nil
				},
			})
		}
	}
	return units, results
}

// suppose runs an experiment at 80,000 cells under a supposition.
func (c *Config) suppose(ctx context.Context, s *Simulator, e *Experiment, sup *supposition,
	tick func(float64)) (offsetRow, error) {
	out := offsetRow{Experiment: e.Number, Supposition: sup.Name}
	draw, family := c.Draw, c.Family
	if sup.draw != "" {
		draw = sup.draw
	}
	if sup.family != "" {
		family = sup.family
	}
	defer s.as(c.Seed, family)()
	s.reorder = sup.order
	defer func() { s.reorder = nil }()
	counts := e.drawCounts(c.Seed, draw, 0)
	if sup.counts != nil {
		counts = sup.counts(e, c.Seed)
	}
	for i, k := range HashCounts() {
		var is, rs []float64
		for round := range c.Rounds {
			if err := ctx.Err(); err != nil {
				return out, err
			}
			if draw == DrawFresh {
				counts = e.drawCounts(c.Seed, draw, round)
			}
			r := s.run(e, c.Seed, draw, DrawsM, k, round, counts)
			is = append(is, rateOf(e, &r, false))
			if sup.rate != nil {
				rs = append(rs, sup.rate(&r))
			} else {
				rs = append(rs, rateOf(e, &r, true))
			}
			tick((float64(i) + float64(round+1)/float64(c.Rounds)) / float64(len(HashCounts())))
		}
		a, b := StatOf(is), StatOf(rs)
		out.Cells = append(out.Cells, cellStat{M: DrawsM, K: k, Rounds: c.Rounds, MeanI: a.Mean, SDI: a.SD, MeanR: b.Mean,
			SDR: b.SD})
	}
	return out, nil
}

// WholeRates counts the printed rates of an experiment that are small enough for the test, and how
// many of them are whole numbers of wrong insertions over 1,000 x total.
func WholeRates(number int, total float64) (whole, of int) {
	for _, c := range PrintedCells() {
		mean := c.Stat().Mean
		wrong := mean * PaperRounds * total
		if c.Experiment != number || c.Extension == "reduction" || mean == 0 {
			continue
		}
		// The last of four digits is rounded.
		half := wrong * 0.0005 / leading(mean)
		if half > 0.2 {
			continue
		}
		of++
		whole += Bit(math.Abs(wrong-math.Round(wrong)) <= half+0.002)
	}
	return whole, of
}

// leading returns the mantissa of v in scientific notation.
func leading(v float64) float64 { return v / math.Pow(10, math.Floor(math.Log10(v))) }
