package study

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/bulkhead-mail/bulkhead/lab/study/experiment"
)

// chance3 is the probability that a normal deviate lies outside 3.
var chance3 = math.Erfc(3 / math.Sqrt2)

// outside counts the comparisons outside 3 standard errors, without and with the
// spread between draws, and those that rest on few errors.
func outside(cs []experiment.Comparison) (numbers, plain, drawn, few int) {
	for _, c := range cs {
		if c.Empty() {
			continue
		}
		numbers++
		plain += experiment.Bit(math.Abs(c.Z) > 3)
		drawn += experiment.Bit(math.Abs(c.Drawn) > 3)
		few += experiment.Bit(c.Rare())
	}
	return numbers, plain, drawn, few
}

// agreementSection writes how well the tables agree with the printed ones, how far chance explains the
// differences, and which differences remain.
func (p *plan) agreementSection(d *document, experiments [][]experiment.Row, compared []experiment.Comparison) {
	d.heading(3, "How well they agree")
	spreads := p.spreads()
	numbers, plain, drawn, few := outside(compared)
	d.p("Of %d printed numbers %d say nothing: no error in 1,000 rounds, there and here. Of the other %d, %d rest on "+
		"fewer than %d errors on one side; for them a standard error is no measure, and the deviation comes from an exact "+
		"test: given both numbers of errors together, one is binomial (marked †; errors that weigh c_i count as the number "+
		"of equal ones that would have their variance, and of a reduction the refined errors are tested).", len(compared),
		experiment.Empties(compared), numbers, few, experiment.RareEvents)
	d.p("All 1,000 rounds of each of Experiments 4 to 8 share one draw of the c_i, in the paper and here. So no "+
		"standard error over rounds includes the variation between draws. Measured with %d draws that meet the same hash "+
		"functions (80K, refined, all k), the standard deviation between draws is %s of the mean. It is added, once for "+
		"the paper's draw and once for ours, to the errors of the refined rates and reductions of these experiments; the "+
		"deviation with it stands in parentheses in the tables.", p.config.DrawsCompared(), spreadText(spreads,
		p.config.DrawsCompared()))
	chance := p.chance(spreads)
	lines := [][]string{{"this run", fmt.Sprint(p.config.Rounds), fmt.Sprint(numbers), fmt.Sprint(plain),
		fmt.Sprint(drawn), fixed(chance3*float64(numbers), 1)}}
	d.p("Numbers outside 3 standard errors:")
	for i := range uint64(p.config.MoreSeeds()) {
		cs := experiment.Compare(experiment.RowsOf(p.seeds, func(r *experiment.RepeatResult) bool {
			return r.Seed == p.config.Seed+i+1
		}), spreads)
		if len(cs) == 0 {
			continue
		}
		n, a, b, _ := outside(cs)
		lines = append(lines, []string{fmt.Sprintf("seed %d", p.config.Seed+i+1), fmt.Sprint(p.seeds[0].Rounds),
			fmt.Sprint(n), fmt.Sprint(a), fmt.Sprint(b), fixed(chance3*float64(n), 1)})
	}
	lines = append(lines, chance...)
	byExperiment := p.outsideByExperiment(compared, spreads)
	d.table([]string{"compared", "rounds", "numbers", "outside", "with draws", "expected by chance"}, lines)
	d.p("The expectation is that of as many independent normal deviates. The numbers are not independent: the same hash "+
		"functions are behind all eight experiments, and a reduction is the ratio of two other numbers, so they come "+
		"outside in groups. The last line shows the effect of chance: our seeds are compared with each other in the same "+
		"way as with print. Numbers outside with draws, over all seeds against print: %s.", byExperiment)
	p.outsideTable(d, compared)
	deviationsSection(d, experiments)
	p.offsetSection(d, experiments)
	p.familiesSection(d, experiments)
}

// outsideByExperiment lists how many numbers of each experiment lie outside with draws, this run
// and the other seeds taken together.
func (p *plan) outsideByExperiment(compared []experiment.Comparison, spreads map[int]float64) string {
	all := slices.Clone(compared)
	for i := range uint64(p.config.MoreSeeds()) {
		all = append(all, experiment.Compare(experiment.RowsOf(p.seeds, func(r *experiment.RepeatResult) bool {
			return r.Seed == p.config.Seed+i+1
		}), spreads)...)
	}
	var parts []string
	for n := 1; n <= 8; n++ {
		out := 0
		for _, c := range all {
			out += experiment.Bit(c.Experiment == n && math.Abs(c.Drawn) > 3)
		}
		parts = append(parts, fmt.Sprintf("%d of Experiment %d", out, n))
	}
	return strings.Join(parts, "; ")
}

// chance compares the seeds with each other, and returns a line of the table.
func (p *plan) chance(spreads map[int]float64) [][]string {
	if len(p.seeds) == 0 {
		return nil
	}
	var numbers, plain, drawn, pairs int
	for i := range uint64(p.config.MoreSeeds()) {
		for j := range i {
			a := experiment.RowsOf(p.seeds, func(r *experiment.RepeatResult) bool { return r.Seed == p.config.Seed+i+1 })
			b := experiment.RowsOf(p.seeds, func(r *experiment.RepeatResult) bool { return r.Seed == p.config.Seed+j+1 })
			n, x, y := experiment.AgainstEachOther(a, b, spreads)
			numbers, plain, drawn, pairs = numbers+n, plain+x, drawn+y, pairs+1
		}
	}
	mean := func(n int) string { return fixed(float64(n)/float64(pairs), 1) }
	return [][]string{{fmt.Sprintf("these %d seeds with each other, mean of %d pairs", p.config.MoreSeeds(), pairs),
		fmt.Sprint(p.seeds[0].Rounds), mean(numbers), mean(plain), mean(drawn), fixed(chance3*float64(numbers)/float64(pairs),
			1)}}
}

func (p *plan) outsideTable(d *document, compared []experiment.Comparison) {
	var lines [][]string
	for _, c := range compared {
		if !(math.Abs(c.Z) > 3) {
			continue
		}
		ours := experiment.Scientific(c.Ours)
		if c.Extension == "reduction" {
			ours = ratioText(c.Ours, c.OursSE)
		}
		lines = append(lines, []string{fmt.Sprintf("Experiment %d, %s, %s, k = %d", c.Experiment, c.Extension, c.M, c.K),
			c.Mean, ours, signed(c.Z), signed(c.Drawn)})
	}
	if lines == nil {
		d.p("No number of this run lies outside.")
		return
	}
	d.p("Those of this run:")
	d.table([]string{"number", "printed", "measured", "deviation", "with draws"}, lines)
}

// spreadText spells the standard deviations between draws with their 95 % intervals.
func spreadText(spreads map[int]float64, draws int) string {
	chi := distuv.ChiSquared{K: float64(draws - 1)}
	low, high := math.Sqrt(chi.K/chi.Quantile(0.975)), math.Sqrt(chi.K/chi.Quantile(0.025))
	var parts []string
	for n := 4; n <= 8; n++ {
		s := spreads[n]
		parts = append(parts, fmt.Sprintf("%s (Experiment %d; 95 %% interval %s to %s)", percent(s), n, percent(s*low),
			percent(s*high)))
	}
	return strings.Join(parts, ", ")
}

// deviationsSection compares the printed standard deviations with ours.
func deviationsSection(d *document, experiments [][]experiment.Row) {
	printed := map[string]experiment.Cell{}
	for _, c := range experiment.PrintedCells() {
		printed[c.ID()] = c
	}
	numbers, out := 0, 0
	var worst [][]string
	ratios := map[int][]float64{}
	for _, rows := range experiments {
		for _, r := range rows {
			for _, extension := range []string{"intuitive", "refined"} {
				ours, spread := r.Intuitive, r.SpreadI
				if extension == "refined" {
					ours, spread = r.Refined, r.SpreadR
				}
				c, ok := printed[experiment.Cell{Experiment: r.Experiment.Number, Extension: extension,
					M: experiment.Thousands(r.M), K: r.K}.ID()]
				if !ok || math.Min(ours.Events(), c.Stat().Events()) < experiment.RareEvents {
					continue
				}
				// Their error is not printed; it is about ours, of as many rounds as theirs.
				se := spread * math.Sqrt(1+float64(ours.N)/experiment.PaperRounds)
				z := math.Log(ours.SD/c.Stat().SD) / se
				numbers++
				ratios[r.Experiment.Number] = append(ratios[r.Experiment.Number], ours.SD/c.Stat().SD)
				if math.Abs(z) > 3 {
					out++
					worst = append(worst, []string{fmt.Sprintf("Experiment %d, %s, %s, k = %d", c.Experiment, c.Extension, c.M, c.K),
						c.SD, experiment.Scientific(ours.SD), signed(z)})
				}
			}
		}
	}
	var means []string
	for _, rows := range experiments {
		n := rows[0].Experiment.Number
		if s := experiment.StatOf(ratios[n]); s.N > 1 {
			means = append(means, fmt.Sprintf("%s ± %s (%d)", fixed(s.Mean, 3), fixed(s.SE(), 3), n))
		}
	}
	d.heading(4, "Standard deviations")
	d.p("The printed standard deviations of at least %d errors are compared as well: %d numbers. %d lie outside 3 "+
		"standard errors of the logarithm of their ratio, by the fourth moment of our rounds; %s are expected by chance. "+
		"Ours over print, mean over the cells of each experiment: %s. With a draw for each round instead of one for all, "+
		"Experiments 4 to 8 would have the variance between draws in them.", experiment.RareEvents, numbers, out,
		fixed(chance3*float64(numbers), 1), strings.Join(means, "; "))
	if worst != nil {
		d.table([]string{"standard deviation", "printed", "measured", "deviation"}, worst)
	}
}

// runs returns an experiment's rows of this run and of the other seeds.
func (p *plan) runs(experiments [][]experiment.Row, n int) (all [][]experiment.Row) {
	all = append(all, rowsOfExperiment(experiments, n))
	for i := range uint64(p.config.MoreSeeds()) {
		others := experiment.RowsOf(p.seeds, func(r *experiment.RepeatResult) bool {
			return r.Seed == p.config.Seed+i+1 && r.Experiment == n
		})
		all = append(all, others...)
	}
	return all
}

func rowsOfExperiment(all [][]experiment.Row, n int) []experiment.Row {
	for _, rows := range all {
		if rows[0].Experiment.Number == n {
			return rows
		}
	}
	return nil
}

// offsetSection writes how far the refined rates at 80K differ from the printed ones. It tests
// explanations for the higher rates of Experiments 6 and 8.
func (p *plan) offsetSection(d *document, experiments [][]experiment.Row) {
	d.heading(4, "The offset of Experiments 6 and 8")
	spreads := p.spreads()
	d.p("At 80K, where errors are many, rates are known to fractions of a per cent. Refined rates, measured less "+
		"printed, in per cent, k = 4, 6 and 8 together, for each seed, each with a draw of its own; combined with weights "+
		"by their variances over rounds and draws (random effects). The error contains the rounds and the draw of the "+
		"paper. Q is Cochran's measure of how much the seeds differ among themselves, %d expected.", p.config.MoreSeeds())
	head := []string{"experiment"}
	for i := range uint64(p.config.MoreSeeds() + 1) {
		head = append(head, fmt.Sprintf("seed %d", p.config.Seed+i))
	}
	var lines [][]string
	chi := 0.0
	for n := 1; n <= 8; n++ {
		all := experiment.Pool(p.runs(experiments, n), spreads[n])
		line := []string{fmt.Sprint(n)}
		for i := range p.config.MoreSeeds() + 1 {
			text := ""
			if i < len(all.Offsets) {
				text = fmt.Sprintf("%+.2f", 100*all.Offsets[i])
			}
			line = append(line, text)
		}
		if len(all.Offsets) == 0 {
			continue
		}
		chi += all.Mean * all.Mean / (all.SE * all.SE)
		lines = append(lines, append(line, fmt.Sprintf("%+.2f ± %.2f", 100*all.Mean, 100*all.SE), signed(all.Mean/all.SE),
			fixed(all.Heterogeneity, 1)))
	}
	d.table(append(head, "combined", "deviation", "Q"), lines)
	d.p("The squares of the eight deviations add up to %s, where 8 are expected: a probability of %s. (They share hash "+
		"functions in the paper, and Experiments 4 and 5 a draw, so it is a rough one.)", fixed(chi, 1), experiment.Sci(
		1-distuv.ChiSquared{K: 8}.CDF(chi)))
	d.p("Four explanations of the offset of Experiments 6 and 8 are tested: the draw of the c_i, the hash functions, " +
		"the order and the definition of the rate. The seed of the tables; with one standard error over the rounds of " +
		"both, and in parentheses with the draws of both.")
	p.offsetTable(d, experiments, spreads)
	d.list("%s", p.offsetVerdict(experiments, spreads))
	p.ordersText(d, experiments, spreads)
	for _, n := range []int{6, 8} {
		e := allExperiments(n)
		expected := experiment.NumKeys * experiment.OffsetExperiments()[n]
		a, of := experiment.WholeRates(n, float64(e.Total))
		b, ofB := experiment.WholeRates(n, expected)
		d.list("Over %.0f insertions, the number expected, instead of those drawn, the rates of Experiment %d would be "+
			"lower by %s. But print speaks against it: its rates of few errors are whole numbers over 1,000 x %d in %d of %d "+
			"cases. They are whole numbers over 1,000 x %.0f in %d of %d.", expected, n, percent(1-float64(e.Total)/expected),
			e.Total, a, of, expected, b, ofB)
	}
	d.end()
}

// ordersText writes what difference one order for all rounds of the paper would make.
func (p *plan) ordersText(d *document, experiments [][]experiment.Row, spreads map[int]float64) {
	orders := experiment.SpreadsOf(p.orders)
	if len(orders) == 0 {
		return
	}
	var parts, with []string
	fits := true
	for _, n := range []int{3, 4, 6, 7, 8} {
		parts = append(parts, fmt.Sprintf("%s (Experiment %d)", percent(orders[n]), n))
		all := experiment.Pool(p.runs(experiments, n), spreads[n])
		if len(all.Offsets) > 0 {
			z := all.Mean / math.Hypot(all.SE, orders[n])
			fits = fits && math.Abs(z) < 2
			with = append(with, fmt.Sprintf("%+.1f (%d)", z, n))
		}
	}
	verdict := "Not even that explains all of them."
	if fits {
		verdict = "So one order for all rounds fits all of them, as no other explanation does; nothing in print proves it."
	}
	d.list("If the paper shuffled once, and not for each round, its rates have the variation between orders in them. It "+
		"was measured with %d orders that meet the same hash functions. Standard deviations: %s of the mean. With it, "+
		"once, in the error the combined deviations of the shuffled experiments are %s. %s", p.config.DrawsCompared(),
		strings.Join(parts, ", "), strings.Join(with, ", "), verdict)
}

// allExperiments returns experiment n.
func allExperiments(n int) experiment.Experiment { return experiment.Experiments()[n-1] }

func (p *plan) offsetTable(d *document, experiments [][]experiment.Row, spreads map[int]float64) {
	var lines [][]string
	add := func(what string, get func(n int) []experiment.Row) {
		line := []string{what}
		for _, n := range []int{6, 8} {
			rows := get(n)
			if rows == nil {
				return
			}
			mean, ours, theirs := experiment.Offset(rows)
			se := math.Hypot(ours, theirs)
			line = append(line, fmt.Sprintf("%+.2f ± %.2f (%.2f)", 100*mean, 100*se,
				100*math.Sqrt(se*se+2*spreads[n]*spreads[n])))
		}
		lines = append(lines, line)
	}
	add(fmt.Sprintf("as in the tables, seed %d", p.config.Seed), func(n int) []experiment.Row {
		return rowsOfExperiment(experiments, n)
	})
	for _, f := range experiment.HashFamilies() {
		add("hash functions: "+string(f), func(n int) []experiment.Row {
			return rowsOfExperiment(experiment.RowsOf(p.families, func(r *experiment.RepeatResult) bool {
				return r.Family == f
			}), n)
		})
	}
	for _, sup := range experiment.Suppositions(0) {
		add(sup.Kind+": "+sup.Name, func(n int) []experiment.Row { return p.supposed(n, sup.Name) })
	}
	d.table([]string{"explanation", "Experiment 6, %", "Experiment 8, %"}, lines)
}

// supposed returns the rows of an experiment under a supposition.
func (p *plan) supposed(n int, name string) []experiment.Row {
	for _, r := range p.offset {
		for _, o := range r.Rows {
			if o.Experiment == n && o.Supposition == name {
				e := experiment.Experiments()[n-1]
				var rows []experiment.Row
				for _, c := range o.Cells {
					rows = append(rows, c.Row(&e))
				}
				return rows
			}
		}
	}
	return nil
}

// offsetVerdict says, by the numbers, which explanations bring both experiments nearer to
// print and within two errors with draws.
func (p *plan) offsetVerdict(experiments [][]experiment.Row, spreads map[int]float64) string {
	if p.offset == nil || len(experiments) < 8 {
		return "Not tested in this run."
	}
	var bring, not []string
	for _, sup := range experiment.Suppositions(0) {
		if sup.Name == experiment.SupposeOneOrder {
			continue // one order is one of many: see ordersText
		}
		fits := true
		for _, n := range []int{6, 8} {
			base, _, _ := experiment.Offset(experiments[n-1])
			mean, ours, theirs := experiment.Offset(p.supposed(n, sup.Name))
			fits = fits && math.Abs(mean) < 2*math.Sqrt(ours*ours+theirs*theirs+2*spreads[n]*spreads[n]) &&
				math.Abs(mean) < math.Abs(base)
		}
		if fits {
			bring = append(bring, sup.Kind+", "+sup.Name)
		} else {
			not = append(not, sup.Kind+", "+sup.Name)
		}
	}
	if bring == nil {
		bring = []string{"none"}
	}
	return "Nearer to print in both experiments, and within two errors with draws: " + strings.Join(bring, "; ") +
		". Not so: " + strings.Join(not, "; ") + "."
}

// familiesSection compares the hash families: the paper's future work.
func (p *plan) familiesSection(d *document, experiments [][]experiment.Row) {
	d.heading(3, "Other hash functions")
	if len(p.families) == 0 {
		d.p("Left out of this run.")
		return
	}
	d.p("The paper means to repeat its experiments with independent hash functions. All eight, every m and k, with "+
		"other families (`--family` runs everything with one), %d rounds each, against this run's %s functions: how many "+
		"of the rates and reductions differ by more than 3 standard errors; and the refined rates at 80K, all k together, "+
		"relative to it. Keys and draws are the same; so the draws are not in the errors.", p.families[0].Rounds,
		p.config.Family)
	head := []string{"family", "numbers", "differ", "expected"}
	for n := 1; n <= 8; n++ {
		head = append(head, fmt.Sprintf("Exp. %d, %%", n))
	}
	var lines [][]string
	for _, f := range experiment.HashFamilies() {
		rows := experiment.RowsOf(p.families, func(r *experiment.RepeatResult) bool { return r.Family == f })
		if len(rows) != len(experiments) || len(rows) == 0 {
			continue
		}
		numbers, out, _ := experiment.AgainstEachOther(rows, experiments, nil)
		line := []string{string(f), fmt.Sprint(numbers), fmt.Sprint(out), fixed(chance3*float64(numbers), 1)}
		for i := range rows {
			mean, se := relative(rows[i], experiments[i])
			line = append(line, fmt.Sprintf("%+.1f ± %.1f", 100*mean, 100*se))
		}
		lines = append(lines, line)
	}
	d.table(head, lines)
	d.p("Families whose functions reach every cell give the same numbers: nothing new is found with independent "+
		"functions. MD5 in 8 chunks of 16 bits reaches %d cells of 80,000 and of more alike, and errs as an array of that "+
		"size does: much more often, in the larger arrays by orders of magnitude.", experiment.FamilyMD5.Reach(80_000, 8))
}

// relative returns by how much the refined rates of a lie above those of b at 80K, as a
// share, all k together, with its standard error.
func relative(a, b []experiment.Row) (mean, se float64) {
	n := 0.0
	for i := range a {
		if a[i].M != experiment.DrawsM {
			continue
		}
		x, y := a[i].Refined, b[i].Refined
		mean += x.Mean/y.Mean - 1
		se += math.Pow(math.Hypot(x.SE(), y.SE())/y.Mean, 2)
		n++
	}
	return mean / n, math.Sqrt(se) / n
}

// equalSection says with how much less m or k the refined extension does.
func (p *plan) equalSection(d *document) {
	d.heading(3, "Less m or k for the same error")
	if len(p.equal) == 0 {
		d.p("Left out of this run.")
		return
	}
	d.p("\"With less storage requirement (smaller m) or less computation (smaller k)\" the refined extension has the "+
		"same rate, says the paper. Measured on a grid of %d sizes and %d numbers of functions, %d rounds each; between "+
		"sizes by a line through the logarithms.", len(experiment.EqualSizes()), len(experiment.EqualHashes()),
		p.equal[0].Rounds)
	var lines [][]string
	for _, r := range p.equal {
		for _, m := range []int{80, 160} {
			for _, k := range experiment.HashCounts() {
				row, _ := r.At(1000*m, k)
				cells, ok := r.LessCells(1000*m, k)
				less, fewer := "-", "none"
				if ok {
					less = fmt.Sprintf("%.0f (%s)", cells, percent(cells/float64(1000*m)))
				}
				if h, ok := r.FewerHashes(1000*m, k); ok {
					fewer = fmt.Sprint(h)
				}
				lines = append(lines, []string{fmt.Sprintf("Experiment %d: %dK, %d", row.Experiment, m, k),
					experiment.Sci(row.Intuitive), less, fewer})
			}
		}
	}
	d.table([]string{"intuitive extension: m, k", "its rate", "refined, same k: cells for that rate",
		"refined, same m: least k for no more"}, lines)
	d.figure("equal")
}

// equalCurve returns the rates of one extension against thousands of cells.
func equalCurve(r *experiment.EqualResult, k int, refined bool) (xs, ys []float64) {
	for _, m := range experiment.EqualSizes() {
		row, ok := r.At(1000*m, k)
		if !ok {
			continue
		}
		y := row.Intuitive
		if refined {
			y = row.Refined
		}
		if y*float64(r.Rounds)*experiment.NumKeys < experiment.RareEvents {
			continue
		}
		xs, ys = append(xs, float64(m)), append(ys, y)
	}
	return xs, ys
}

// spreads returns, for each experiment, the standard deviation between draws as a
// share of the mean: of all k together, since one draw acts on all.
func (p *plan) spreads() map[int]float64 { return experiment.SpreadsOf(p.draws) }
