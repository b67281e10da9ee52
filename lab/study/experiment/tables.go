package experiment

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// A TableResult holds all rounds of one configuration of one experiment.
type TableResult struct {
	Experiment int           `json:"experiment"`
	M          int           `json:"m"`
	K          int           `json:"k"`
	Rounds     []roundResult `json:"rounds"`
}

// simulate adds the rounds that r lacks, up to n.
func (r *TableResult) simulate(ctx context.Context, s *Simulator, e *Experiment, c *Config, n int,
	tick func(float64)) error {
	var counts []uint8
	if c.Draw != DrawFresh || !e.weighted() {
		counts = e.drawCounts(c.Seed, c.Draw, 0)
	}
	for round := len(r.Rounds); round < n; round++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		r.Rounds = append(r.Rounds, s.run(e, c.Seed, c.Draw, r.M, r.K, round, counts))
		tick(float64(round+1) / float64(n))
	}
	return nil
}

// rateOf returns the paper's false-positive rate of one round.
func rateOf(e *Experiment, r *roundResult, refined bool) float64 {
	wrong, weight := r.WrongI, r.WeightI
	if refined {
		wrong, weight = r.WrongR, r.WeightR
	}
	if !e.weighted() {
		return float64(wrong) / NumKeys
	}
	return float64(weight) / float64(r.Inserted)
}

// A Stat is a mean over n values with its standard deviation.
type Stat struct {
	N        int
	Mean, SD float64
}

// SE returns the standard error of the mean.
func (s Stat) SE() float64 { return s.SD / math.Sqrt(float64(max(s.N, 1))) }

// StatOf returns the mean and standard deviation of values.
func StatOf(values []float64) Stat {
	s := Stat{N: len(values)}
	for _, v := range values {
		s.Mean += v
	}
	s.Mean /= float64(max(s.N, 1))
	for _, v := range values {
		s.SD += (v - s.Mean) * (v - s.Mean)
	}
	s.SD = math.Sqrt(s.SD / float64(max(s.N-1, 1)))
	return s
}

// Events returns how many events of a Poisson distribution would give the mean with
// its standard error: of rare errors that weigh the same, how many there were.
func (s Stat) Events() float64 {
	if s.Mean == 0 {
		return 0
	}
	return s.Mean * s.Mean / (s.SE() * s.SE())
}

// sdError returns the standard error of the standard deviation of the values, as a
// share of it, by their fourth moment.
func sdError(values []float64, s Stat) float64 {
	if s.SD == 0 {
		return math.NaN()
	}
	var fourth float64
	for _, v := range values {
		d := (v - s.Mean) / s.SD
		fourth += d * d * d * d
	}
	n := float64(s.N)
	return math.Sqrt(math.Max(0, fourth/n-1) / (4 * n))
}

// A Row is one line of the tables: both extensions in one configuration.
type Row struct {
	Experiment         *Experiment
	M, K               int
	Intuitive, Refined Stat
	Reduction          float64 // NaN for 0/0
	reductionSE        float64
	correlation        float64 // of both rates, over the rounds
	DistinctI          float64 // share of different elements that are wrong
	DistinctR          float64
	SpreadI, SpreadR   float64 // standard error of the standard deviation, as a share of it
	CleanI, CleanR     float64 // share of rounds without an error
	Growth             growth
}

// growth is how large cells have become: means over the rounds looked at, but largestR the maximum.
type growth struct {
	Above20I, Above20R float64 // cells above 20
	FullI, fullR       float64 // cells at 63
	LargestR           int
}

// Row sums up the first n rounds.
func (r *TableResult) Row(e *Experiment, n int) Row {
	out := Row{Experiment: e, M: r.M, K: r.K}
	all := r.Rounds[:min(n, len(r.Rounds))]
	var is, rs []float64
	cleanI, clean, elements := 0, 0, 0
	for i := range all {
		x := &all[i]
		is, rs = append(is, rateOf(e, x, false)), append(rs, rateOf(e, x, true))
		elements += x.Elements
		out.DistinctI += float64(x.WrongI)
		out.DistinctR += float64(x.WrongR)
		cleanI += Bit(x.WrongI == 0)
		clean += Bit(x.WrongR == 0)
	}
	out.DistinctI /= float64(max(elements, 1))
	out.DistinctR /= float64(max(elements, 1))
	out.CleanI = float64(cleanI) / float64(len(all))
	out.CleanR = float64(clean) / float64(len(all))
	out.Intuitive, out.Refined = StatOf(is), StatOf(rs)
	out.SpreadI, out.SpreadR = sdError(is, out.Intuitive), sdError(rs, out.Refined)
	out.Reduction, out.reductionSE, out.correlation = ratio(is, rs, out.Intuitive, out.Refined)
	out.Growth = growthOf(all)
	return out
}

func growthOf(rs []roundResult) (g growth) {
	rs = rs[:min(len(rs), growthRounds)]
	for _, x := range rs {
		g.Above20I += float64(x.Above20I)
		g.Above20R += float64(x.Above20R)
		g.FullI += float64(x.FullI)
		g.fullR += float64(x.FullR)
		g.LargestR = max(g.LargestR, x.LargestR)
	}
	n := float64(len(rs))
	g.Above20I, g.Above20R, g.FullI, g.fullR = g.Above20I/n, g.Above20R/n, g.FullI/n, g.fullR/n
	return g
}

// ratio returns the ratio of the means of a and b, its standard error (delta
// method) and their correlation. Both come from the same rounds.
func ratio(as, bs []float64, a, b Stat) (r, se, corr float64) {
	if b.Mean == 0 {
		return math.NaN(), math.NaN(), 0
	}
	var cov float64
	for i := range as {
		cov += (as[i] - a.Mean) * (bs[i] - b.Mean)
	}
	cov /= float64(max(len(as)-1, 1))
	if a.SD > 0 && b.SD > 0 {
		corr = cov / (a.SD * b.SD)
	}
	r = a.Mean / b.Mean
	return r, ratioSE(a, b, corr), corr
}

// ratioSE returns the standard error of a.mean/b.mean.
func ratioSE(a, b Stat, corr float64) float64 {
	ra, rb := a.SE()/a.Mean, b.SE()/b.Mean
	return a.Mean / b.Mean * math.Sqrt(math.Max(0, ra*ra+rb*rb-2*corr*ra*rb))
}

// Scientific spells v as the paper does: 2.390E-2.
func Scientific(v float64) string {
	s := strconv.FormatFloat(v, 'E', 3, 64)
	mantissa, exponent, _ := strings.Cut(s, "E")
	e, err := strconv.Atoi(exponent)
	if err != nil {
		return s
	}
	if e == 0 {
		return mantissa + "E+0"
	}
	return fmt.Sprintf("%sE%d", mantissa, e)
}

// Thousands formats a number of cells as in the paper: 80K.
func Thousands(m int) string { return strconv.Itoa(m/1000) + "K" }

// cells returns the rows' numbers in the order and spelling of the paper's
// tables. Experiments 2, 3 and 5 have no lines of the intuitive extension.
func cells(rows []Row) []Cell {
	var out []Cell
	for _, extension := range []string{"intuitive", "refined", "reduction"} {
		for _, r := range rows {
			c := Cell{Experiment: r.Experiment.Number, Extension: extension, M: Thousands(r.M), K: r.K}
			switch extension {
			case "intuitive":
				if r.Experiment.IntuitiveOf() != r.Experiment.Number {
					continue
				}
				c.Mean, c.SD = Scientific(r.Intuitive.Mean), Scientific(r.Intuitive.SD)
			case "refined":
				c.Mean, c.SD = Scientific(r.Refined.Mean), Scientific(r.Refined.SD)
			case "reduction":
				if c.Mean = "-"; !math.IsNaN(r.Reduction) {
					c.Mean = strconv.FormatFloat(r.Reduction, 'f', 3, 64)
				}
			}
			out = append(out, c)
		}
	}
	return out
}

// WriteTables writes tables.csv.
func WriteTables(w io.Writer, experiments [][]Row) error {
	out := csv.NewWriter(w)
	out.Write([]string{"experiment", "extension", "m", "k", "mean", "stddev"})
	for _, rows := range experiments {
		for _, c := range cells(rows) {
			out.Write([]string{strconv.Itoa(c.Experiment), c.Extension, c.M, strconv.Itoa(c.K), c.Mean, c.SD})
		}
	}
	out.Flush()
	return out.Error()
}

// A Comparison is one printed number beside ours.
type Comparison struct {
	Cell           // as printed
	Ours, OursSE   float64
	print, printSE float64
	// z is the difference in standard errors of it, or the normal deviate of an exact
	// test if there are fewer than rareEvents errors on a side. NaN if there is no
	// number on one side, or no error on both, which says nothing.
	Z float64
	// drawn is z with what one draw of the insertions may matter, on both sides
	// (Experiments 4 to 8, refined and reduction).
	Drawn  float64
	events float64 // errors on the side that has fewer
	// printEvents is how many errors the printed number rests on.
	PrintEvents float64
}

// Rare reports whether z comes from an exact test.
func (c Comparison) Rare() bool { return c.events < RareEvents }

// Empty reports whether there is nothing to compare.
func (c Comparison) Empty() bool { return math.IsNaN(c.Z) }

// PaperRounds is the number of rounds of which a printed number is the mean.
const PaperRounds = 1000

// Compare holds the rows against the printed cells. spreads is the standard
// deviation between draws of each experiment, as a share of the mean.
func Compare(experiments [][]Row, spreads map[int]float64) []Comparison {
	rows := map[[3]int]Row{}
	for _, rs := range experiments {
		for _, r := range rs {
			rows[[3]int{r.Experiment.Number, r.M / 1000, r.K}] = r
		}
	}
	printed := map[string]Cell{}
	for _, c := range PrintedCells() {
		printed[c.ID()] = c
	}
	var out []Comparison
	for _, c := range PrintedCells() {
		m, _ := strconv.Atoi(strings.TrimSuffix(c.M, "K"))
		r, ok := rows[[3]int{c.Experiment, m, c.K}]
		if !ok {
			continue
		}
		out = append(out, compareCell(c, r, printed, spreads[c.Experiment]))
	}
	return out
}

// ID returns a key that identifies the cell of the tables.
func (c Cell) ID() string { return fmt.Sprint(c.Experiment, c.Extension, c.M, c.K) }

// Stat returns the printed numbers of the cell.
func (c Cell) Stat() Stat {
	mean, _ := strconv.ParseFloat(c.Mean, 64)
	sd, _ := strconv.ParseFloat(c.SD, 64)
	return Stat{PaperRounds, mean, sd}
}

func compareCell(c Cell, r Row, printed map[string]Cell, spread float64) Comparison {
	out := Comparison{Cell: c, Ours: r.Refined.Mean, OursSE: r.Refined.SE(), print: c.Stat().Mean, printSE: c.Stat().SE()}
	i, rf := c, c
	i.Experiment, i.Extension, rf.Extension = r.Experiment.IntuitiveOf(), "intuitive", "refined"
	theirsI, theirsR := printed[i.ID()].Stat(), printed[rf.ID()].Stat()
	ours, theirs, oursI, printI := r.Refined, theirsR, 1.0, 1.0
	switch c.Extension {
	case "intuitive":
		out.Ours, out.OursSE = r.Intuitive.Mean, r.Intuitive.SE()
		ours, theirs, spread = r.Intuitive, theirsI, 0
	case "reduction":
		out.Ours, out.OursSE, out.printSE = r.Reduction, r.reductionSE, ratioSE(theirsI, theirsR, r.correlation)
		if c.Mean == "-" {
			out.print, out.printSE = math.NaN(), math.NaN()
		}
		oursI, printI = r.Intuitive.Mean, theirsI.Mean
	}
	out.events, out.PrintEvents = math.Min(ours.Events(), theirs.Events()), theirs.Events()
	se := math.Hypot(out.OursSE, out.printSE)
	out.Z = deviation(out.Ours, out.print, se)
	out.Drawn = deviation(out.Ours, out.print, math.Sqrt(se*se+2*spread*spread*out.print*out.print))
	if out.Rare() {
		out.Z = rare(ours, theirs, oursI, printI)
		if c.Extension == "reduction" {
			out.Z = -out.Z // more errors are less of a reduction
		}
		out.Drawn = out.Z
	}
	return out
}

// rare compares two rates with few errors behind one of them; rates may be relative
// to others, whose own error is small beside theirs. Errors weigh what they do in
// Experiments 4 to 8, so their number is that which has the variance of the sums.
func rare(a, b Stat, ia, ib float64) float64 {
	if a.Mean+b.Mean == 0 || ia == 0 || ib == 0 {
		return math.NaN()
	}
	weight := (a.SE()*a.SE()*float64(a.N) + b.SE()*b.SE()*float64(b.N)) / (a.Mean + b.Mean)
	na, nb := float64(a.N), float64(b.N)
	return rareDeviation(a.Mean*na/weight, na*ia, b.Mean*nb/weight, nb*ib)
}

// deviation returns (a-b)/se, 0 where both are equal (also 0/0 and 0/0), and
// NaN where one of them does not exist.
func deviation(a, b, se float64) float64 {
	switch {
	case a == b, math.IsNaN(a) && math.IsNaN(b):
		return 0
	case se == 0:
		return math.Inf(1)
	}
	return (a - b) / se
}

// Empties counts the comparisons that say nothing, since neither side has an error.
func Empties(cs []Comparison) (n int) {
	for _, c := range cs {
		if c.Empty() {
			n++
		}
	}
	return n
}

// WriteComparison writes comparison.csv.
func WriteComparison(w io.Writer, cs []Comparison) error {
	out := csv.NewWriter(w)
	out.Write([]string{"experiment", "extension", "m", "k", "printed", "printed_se", "measured", "measured_se",
		"deviation_se", "events", "deviation_se_with_draws"})
	g := func(v float64) string {
		if math.IsNaN(v) {
			return "-"
		}
		return strconv.FormatFloat(v, 'g', 5, 64)
	}
	for _, c := range cs {
		out.Write([]string{strconv.Itoa(c.Experiment), c.Extension, c.M, strconv.Itoa(c.K),
			c.Mean, g(c.printSE), g(c.Ours), g(c.OursSE), strconv.FormatFloat(c.Z, 'f', 2, 64),
			g(math.Round(c.events)), strconv.FormatFloat(c.Drawn, 'f', 2, 64)})
	}
	out.Flush()
	return out.Error()
}

// Bit returns 1 for true and 0 for false.
func Bit(is bool) int {
	if is {
		return 1
	}
	return 0
}
