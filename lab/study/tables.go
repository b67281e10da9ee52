package study

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// A tableResult holds all rounds of one configuration of one experiment.
type tableResult struct {
	Experiment int           `json:"experiment"`
	M          int           `json:"m"`
	K          int           `json:"k"`
	Rounds     []roundResult `json:"rounds"`
}

// simulate adds the rounds that r lacks, up to n.
func (r *tableResult) simulate(ctx context.Context, s *simulator, e *experiment, c *Config, n int, tick func(float64)) error {
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
func rateOf(e *experiment, r *roundResult, refined bool) float64 {
	wrong, weight := r.WrongI, r.WeightI
	if refined {
		wrong, weight = r.WrongR, r.WeightR
	}
	if !e.weighted() {
		return float64(wrong) / numKeys
	}
	return float64(weight) / float64(r.Inserted)
}

// A stat is a mean over n values with its standard deviation.
type stat struct {
	n        int
	mean, sd float64
}

// se returns the standard error of the mean.
func (s stat) se() float64 { return s.sd / math.Sqrt(float64(max(s.n, 1))) }

func statOf(values []float64) stat {
	s := stat{n: len(values)}
	for _, v := range values {
		s.mean += v
	}
	s.mean /= float64(max(s.n, 1))
	for _, v := range values {
		s.sd += (v - s.mean) * (v - s.mean)
	}
	s.sd = math.Sqrt(s.sd / float64(max(s.n-1, 1)))
	return s
}

// events returns how many events of a Poisson distribution would give the mean with
// its standard error: of rare errors that weigh the same, how many there were.
func (s stat) events() float64 {
	if s.mean == 0 {
		return 0
	}
	return s.mean * s.mean / (s.se() * s.se())
}

// sdError returns the standard error of the standard deviation of the values, as a
// share of it, by their fourth moment.
func sdError(values []float64, s stat) float64 {
	if s.sd == 0 {
		return math.NaN()
	}
	var fourth float64
	for _, v := range values {
		d := (v - s.mean) / s.sd
		fourth += d * d * d * d
	}
	n := float64(s.n)
	return math.Sqrt(math.Max(0, fourth/n-1) / (4 * n))
}

// A row is one line of the tables: both extensions in one configuration.
type row struct {
	experiment         *experiment
	m, k               int
	intuitive, refined stat
	reduction          float64 // NaN for 0/0
	reductionSE        float64
	correlation        float64 // of both rates, over the rounds
	distinctI          float64 // share of different elements that are wrong
	distinctR          float64
	spreadI, spreadR   float64 // standard error of the standard deviation, as a share of it
	cleanI, cleanR     float64 // share of rounds without an error
	growth             growth
}

// growth is how large cells have become: means over the rounds looked at, but largestR the maximum.
type growth struct {
	above20I, above20R float64 // cells above 20
	fullI, fullR       float64 // cells at 63
	largestR           int
}

// row sums up the first n rounds.
func (r *tableResult) row(e *experiment, n int) row {
	out := row{experiment: e, m: r.M, k: r.K}
	all := r.Rounds[:min(n, len(r.Rounds))]
	var is, rs []float64
	cleanI, clean, elements := 0, 0, 0
	for i := range all {
		x := &all[i]
		is, rs = append(is, rateOf(e, x, false)), append(rs, rateOf(e, x, true))
		elements += x.Elements
		out.distinctI += float64(x.WrongI)
		out.distinctR += float64(x.WrongR)
		cleanI += bit(x.WrongI == 0)
		clean += bit(x.WrongR == 0)
	}
	out.distinctI /= float64(max(elements, 1))
	out.distinctR /= float64(max(elements, 1))
	out.cleanI = float64(cleanI) / float64(len(all))
	out.cleanR = float64(clean) / float64(len(all))
	out.intuitive, out.refined = statOf(is), statOf(rs)
	out.spreadI, out.spreadR = sdError(is, out.intuitive), sdError(rs, out.refined)
	out.reduction, out.reductionSE, out.correlation = ratio(is, rs, out.intuitive, out.refined)
	out.growth = growthOf(all)
	return out
}

func growthOf(rs []roundResult) (g growth) {
	rs = rs[:min(len(rs), growthRounds)]
	for _, x := range rs {
		g.above20I += float64(x.Above20I)
		g.above20R += float64(x.Above20R)
		g.fullI += float64(x.FullI)
		g.fullR += float64(x.FullR)
		g.largestR = max(g.largestR, x.LargestR)
	}
	n := float64(len(rs))
	g.above20I, g.above20R, g.fullI, g.fullR = g.above20I/n, g.above20R/n, g.fullI/n, g.fullR/n
	return g
}

// ratio returns the ratio of the means of a and b, its standard error (delta
// method) and their correlation. Both come from the same rounds.
func ratio(as, bs []float64, a, b stat) (r, se, corr float64) {
	if b.mean == 0 {
		return math.NaN(), math.NaN(), 0
	}
	var cov float64
	for i := range as {
		cov += (as[i] - a.mean) * (bs[i] - b.mean)
	}
	cov /= float64(max(len(as)-1, 1))
	if a.sd > 0 && b.sd > 0 {
		corr = cov / (a.sd * b.sd)
	}
	r = a.mean / b.mean
	return r, ratioSE(a, b, corr), corr
}

// ratioSE returns the standard error of a.mean/b.mean.
func ratioSE(a, b stat, corr float64) float64 {
	ra, rb := a.se()/a.mean, b.se()/b.mean
	return a.mean / b.mean * math.Sqrt(math.Max(0, ra*ra+rb*rb-2*corr*ra*rb))
}

// scientific spells v as the paper does: 2.390E-2.
func scientific(v float64) string {
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

func thousands(m int) string { return strconv.Itoa(m/1000) + "K" }

// cells returns the rows' numbers in the order and spelling of the paper's
// tables. Experiments 2, 3 and 5 have no lines of the intuitive extension.
func cells(rows []row) []cell {
	var out []cell
	for _, extension := range []string{"intuitive", "refined", "reduction"} {
		for _, r := range rows {
			c := cell{experiment: r.experiment.number, extension: extension, m: thousands(r.m), k: r.k}
			switch extension {
			case "intuitive":
				if r.experiment.intuitiveOf() != r.experiment.number {
					continue
				}
				c.mean, c.sd = scientific(r.intuitive.mean), scientific(r.intuitive.sd)
			case "refined":
				c.mean, c.sd = scientific(r.refined.mean), scientific(r.refined.sd)
			case "reduction":
				if c.mean = "-"; !math.IsNaN(r.reduction) {
					c.mean = strconv.FormatFloat(r.reduction, 'f', 3, 64)
				}
			}
			out = append(out, c)
		}
	}
	return out
}

// writeTables writes tables.csv.
func writeTables(w io.Writer, experiments [][]row) error {
	out := csv.NewWriter(w)
	out.Write([]string{"experiment", "extension", "m", "k", "mean", "stddev"})
	for _, rows := range experiments {
		for _, c := range cells(rows) {
			out.Write([]string{strconv.Itoa(c.experiment), c.extension, c.m, strconv.Itoa(c.k), c.mean, c.sd})
		}
	}
	out.Flush()
	return out.Error()
}

// A comparison is one printed number beside ours.
type comparison struct {
	cell           // as printed
	ours, oursSE   float64
	print, printSE float64
	// z is the difference in standard errors of it, or the normal deviate of an exact
	// test if there are fewer than rareEvents errors on a side. NaN if there is no
	// number on one side, or no error on both, which says nothing.
	z float64
	// drawn is z with what one draw of the insertions may matter, on both sides
	// (Experiments 4 to 8, refined and reduction).
	drawn  float64
	events float64 // errors on the side that has fewer
	// printEvents is how many errors the printed number rests on.
	printEvents float64
}

// rare reports whether z is that of an exact test.
func (c comparison) rare() bool { return c.events < rareEvents }

// empty reports whether there is nothing to compare.
func (c comparison) empty() bool { return math.IsNaN(c.z) }

// paperRounds is the number of rounds of which a printed number is the mean.
const paperRounds = 1000

// compare holds the rows against the printed cells. spreads is the standard
// deviation between draws of each experiment, as a share of the mean.
func compare(experiments [][]row, spreads map[int]float64) []comparison {
	rows := map[[3]int]row{}
	for _, rs := range experiments {
		for _, r := range rs {
			rows[[3]int{r.experiment.number, r.m / 1000, r.k}] = r
		}
	}
	printed := map[string]cell{}
	for _, c := range printedCells() {
		printed[c.id()] = c
	}
	var out []comparison
	for _, c := range printedCells() {
		m, _ := strconv.Atoi(strings.TrimSuffix(c.m, "K"))
		r, ok := rows[[3]int{c.experiment, m, c.k}]
		if !ok {
			continue
		}
		out = append(out, compareCell(c, r, printed, spreads[c.experiment]))
	}
	return out
}

func (c cell) id() string { return fmt.Sprint(c.experiment, c.extension, c.m, c.k) }

func (c cell) stat() stat {
	mean, _ := strconv.ParseFloat(c.mean, 64)
	sd, _ := strconv.ParseFloat(c.sd, 64)
	return stat{paperRounds, mean, sd}
}

func compareCell(c cell, r row, printed map[string]cell, spread float64) comparison {
	out := comparison{cell: c, ours: r.refined.mean, oursSE: r.refined.se(), print: c.stat().mean, printSE: c.stat().se()}
	i, rf := c, c
	i.experiment, i.extension, rf.extension = r.experiment.intuitiveOf(), "intuitive", "refined"
	theirsI, theirsR := printed[i.id()].stat(), printed[rf.id()].stat()
	ours, theirs, oursI, printI := r.refined, theirsR, 1.0, 1.0
	switch c.extension {
	case "intuitive":
		out.ours, out.oursSE = r.intuitive.mean, r.intuitive.se()
		ours, theirs, spread = r.intuitive, theirsI, 0
	case "reduction":
		out.ours, out.oursSE, out.printSE = r.reduction, r.reductionSE, ratioSE(theirsI, theirsR, r.correlation)
		if c.mean == "-" {
			out.print, out.printSE = math.NaN(), math.NaN()
		}
		oursI, printI = r.intuitive.mean, theirsI.mean
	}
	out.events, out.printEvents = math.Min(ours.events(), theirs.events()), theirs.events()
	se := math.Hypot(out.oursSE, out.printSE)
	out.z = deviation(out.ours, out.print, se)
	out.drawn = deviation(out.ours, out.print, math.Sqrt(se*se+2*spread*spread*out.print*out.print))
	if out.rare() {
		out.z = rare(ours, theirs, oursI, printI)
		if c.extension == "reduction" {
			out.z = -out.z // more errors are less of a reduction
		}
		out.drawn = out.z
	}
	return out
}

// rare compares two rates with few errors behind one of them; rates may be relative
// to others, whose own error is small beside theirs. Errors weigh what they do in
// Experiments 4 to 8, so their number is that which has the variance of the sums.
func rare(a, b stat, ia, ib float64) float64 {
	if a.mean+b.mean == 0 || ia == 0 || ib == 0 {
		return math.NaN()
	}
	weight := (a.se()*a.se()*float64(a.n) + b.se()*b.se()*float64(b.n)) / (a.mean + b.mean)
	na, nb := float64(a.n), float64(b.n)
	return rareDeviation(a.mean*na/weight, na*ia, b.mean*nb/weight, nb*ib)
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

// empties counts the comparisons that say nothing, since neither side has an error.
func empties(cs []comparison) (n int) {
	for _, c := range cs {
		if c.empty() {
			n++
		}
	}
	return n
}

// writeComparison writes comparison.csv.
func writeComparison(w io.Writer, cs []comparison) error {
	out := csv.NewWriter(w)
	out.Write([]string{"experiment", "extension", "m", "k", "printed", "printed_se", "measured", "measured_se", "deviation_se", "events", "deviation_se_with_draws"})
	g := func(v float64) string {
		if math.IsNaN(v) {
			return "-"
		}
		return strconv.FormatFloat(v, 'g', 5, 64)
	}
	for _, c := range cs {
		out.Write([]string{strconv.Itoa(c.experiment), c.extension, c.m, strconv.Itoa(c.k),
			c.mean, g(c.printSE), g(c.ours), g(c.oursSE), strconv.FormatFloat(c.z, 'f', 2, 64),
			g(math.Round(c.events)), strconv.FormatFloat(c.drawn, 'f', 2, 64)})
	}
	out.Flush()
	return out.Error()
}
