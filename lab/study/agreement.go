package study

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"
)

// chance3 is the probability that a normal deviate lies outside 3.
var chance3 = math.Erfc(3 / math.Sqrt2)

// outside counts the comparisons outside 3 standard errors, without and with the
// spread between draws, and those that rest on few errors.
func outside(cs []comparison) (numbers, plain, drawn, few int) {
	for _, c := range cs {
		if c.empty() {
			continue
		}
		numbers++
		plain += bit(math.Abs(c.z) > 3)
		drawn += bit(math.Abs(c.drawn) > 3)
		few += bit(c.rare())
	}
	return numbers, plain, drawn, few
}

// agreementSection says how well the tables agree with print, what chance would do, and
// what is not chance.
func (p *plan) agreementSection(d *document, experiments [][]row, compared []comparison) {
	d.heading(3, "How well they agree")
	spreads := p.spreads()
	numbers, plain, drawn, few := outside(compared)
	d.p("Of %d printed numbers %d say nothing: no error in 1,000 rounds, there and here. Of the other %d, %d rest on fewer than %d errors on one side; for them a standard error is no measure, and the deviation is that of an exact test: given both numbers of errors together, one is binomial (marked †; errors that weigh c_i count as the number of equal ones that would have their variance, and of a reduction the refined errors are tested).", len(compared), empties(compared), numbers, few, rareEvents)
	d.p("All 1,000 rounds of each of Experiments 4 to 8 share one draw of the c_i, in the paper and here. So no standard error over rounds includes the variation between draws. Measured with %d draws that meet the same hash functions (80K, refined, all k), the standard deviation between draws is %s of the mean. It is added, once for the paper's draw and once for ours, to the errors of the refined rates and reductions of these experiments; the deviation with it stands in parentheses in the tables.", p.config.drawsCompared(), spreadText(spreads, p.config.drawsCompared()))
	chance := p.chance(spreads)
	lines := [][]string{{"this run", fmt.Sprint(p.config.Rounds), fmt.Sprint(numbers), fmt.Sprint(plain), fmt.Sprint(drawn), fixed(chance3*float64(numbers), 1)}}
	d.p("Numbers outside 3 standard errors:")
	for i := range uint64(p.config.moreSeeds()) {
		cs := compare(rowsOf(p.seeds, func(r *repeatResult) bool { return r.Seed == p.config.Seed+i+1 }), spreads)
		if len(cs) == 0 {
			continue
		}
		n, a, b, _ := outside(cs)
		lines = append(lines, []string{fmt.Sprintf("seed %d", p.config.Seed+i+1), fmt.Sprint(p.seeds[0].Rounds), fmt.Sprint(n), fmt.Sprint(a), fmt.Sprint(b), fixed(chance3*float64(n), 1)})
	}
	lines = append(lines, chance...)
	byExperiment := p.outsideByExperiment(compared, spreads)
	d.table([]string{"compared", "rounds", "numbers", "outside", "with draws", "expected by chance"}, lines)
	d.p("The expectation is that of as many independent normal deviates. The numbers are not independent: the same hash functions are behind all eight experiments, and a reduction is the ratio of two other numbers, so they come outside in groups. What chance does with that shows in the last line, where our seeds are compared with each other in the same way as with print. Of the numbers outside with draws, over all seeds against print, there are %s.", byExperiment)
	p.outsideTable(d, compared)
	deviationsSection(d, experiments)
	p.offsetSection(d, experiments)
	p.familiesSection(d, experiments)
}

// outsideByExperiment says in which experiments numbers lie outside with draws, this run
// and the other seeds taken together.
func (p *plan) outsideByExperiment(compared []comparison, spreads map[int]float64) string {
	all := slices.Clone(compared)
	for i := range uint64(p.config.moreSeeds()) {
		all = append(all, compare(rowsOf(p.seeds, func(r *repeatResult) bool { return r.Seed == p.config.Seed+i+1 }), spreads)...)
	}
	var parts []string
	for n := 1; n <= 8; n++ {
		out := 0
		for _, c := range all {
			out += bit(c.experiment == n && math.Abs(c.drawn) > 3)
		}
		parts = append(parts, fmt.Sprintf("%d of Experiment %d", out, n))
	}
	return strings.Join(parts, ", ")
}

// chance compares the seeds with each other, and returns a line of the table.
func (p *plan) chance(spreads map[int]float64) [][]string {
	if len(p.seeds) == 0 {
		return nil
	}
	var numbers, plain, drawn, pairs int
	for i := range uint64(p.config.moreSeeds()) {
		for j := range i {
			a := rowsOf(p.seeds, func(r *repeatResult) bool { return r.Seed == p.config.Seed+i+1 })
			b := rowsOf(p.seeds, func(r *repeatResult) bool { return r.Seed == p.config.Seed+j+1 })
			n, x, y := againstEachOther(a, b, spreads)
			numbers, plain, drawn, pairs = numbers+n, plain+x, drawn+y, pairs+1
		}
	}
	mean := func(n int) string { return fixed(float64(n)/float64(pairs), 1) }
	return [][]string{{fmt.Sprintf("these %d seeds with each other, mean of %d pairs", p.config.moreSeeds(), pairs), fmt.Sprint(p.seeds[0].Rounds), mean(numbers), mean(plain), mean(drawn), fixed(chance3*float64(numbers)/float64(pairs), 1)}}
}

func (p *plan) outsideTable(d *document, compared []comparison) {
	var lines [][]string
	for _, c := range compared {
		if !(math.Abs(c.z) > 3) {
			continue
		}
		ours := scientific(c.ours)
		if c.extension == "reduction" {
			ours = ratioText(c.ours, c.oursSE)
		}
		lines = append(lines, []string{fmt.Sprintf("Experiment %d, %s, %s, k = %d", c.experiment, c.extension, c.m, c.k), c.mean, ours, signed(c.z), signed(c.drawn)})
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
		parts = append(parts, fmt.Sprintf("%s (Experiment %d; 95 %% interval %s to %s)", percent(s), n, percent(s*low), percent(s*high)))
	}
	return strings.Join(parts, ", ")
}

// deviationsSection compares the printed standard deviations with ours.
func deviationsSection(d *document, experiments [][]row) {
	printed := map[string]cell{}
	for _, c := range printedCells() {
		printed[c.id()] = c
	}
	numbers, out := 0, 0
	var worst [][]string
	ratios := map[int][]float64{}
	for _, rows := range experiments {
		for _, r := range rows {
			for _, extension := range []string{"intuitive", "refined"} {
				ours, spread := r.intuitive, r.spreadI
				if extension == "refined" {
					ours, spread = r.refined, r.spreadR
				}
				c, ok := printed[cell{experiment: r.experiment.number, extension: extension, m: thousands(r.m), k: r.k}.id()]
				if !ok || math.Min(ours.events(), c.stat().events()) < rareEvents {
					continue
				}
				// Their error is not printed; it is about ours, of as many rounds as theirs.
				se := spread * math.Sqrt(1+float64(ours.n)/paperRounds)
				z := math.Log(ours.sd/c.stat().sd) / se
				numbers++
				ratios[r.experiment.number] = append(ratios[r.experiment.number], ours.sd/c.stat().sd)
				if math.Abs(z) > 3 {
					out++
					worst = append(worst, []string{fmt.Sprintf("Experiment %d, %s, %s, k = %d", c.experiment, c.extension, c.m, c.k), c.sd, scientific(ours.sd), signed(z)})
				}
			}
		}
	}
	var means []string
	for _, rows := range experiments {
		n := rows[0].experiment.number
		if s := statOf(ratios[n]); s.n > 1 {
			means = append(means, fmt.Sprintf("%s ± %s (%d)", fixed(s.mean, 3), fixed(s.se(), 3), n))
		}
	}
	d.heading(4, "Standard deviations")
	d.p("The printed standard deviations are compared as well, those of at least %d errors: %d numbers, %d outside 3 standard errors of the logarithm of their ratio (by the fourth moment of our rounds), where %s are expected by chance. Ours over print, mean over the cells of each experiment: %s. With a draw for each round instead of one for all, those of Experiments 4 to 8 would have the variance between draws in them.", rareEvents, numbers, out, fixed(chance3*float64(numbers), 1), strings.Join(means, ", "))
	if worst != nil {
		d.table([]string{"standard deviation", "printed", "measured", "deviation"}, worst)
	}
}

// runs returns an experiment's rows of this run and of the other seeds.
func (p *plan) runs(experiments [][]row, n int) (all [][]row) {
	all = append(all, rowsOfExperiment(experiments, n))
	for i := range uint64(p.config.moreSeeds()) {
		more := rowsOf(p.seeds, func(r *repeatResult) bool { return r.Seed == p.config.Seed+i+1 && r.Experiment == n })
		all = append(all, more...)
	}
	return all
}

func rowsOfExperiment(all [][]row, n int) []row {
	for _, rows := range all {
		if rows[0].experiment.number == n {
			return rows
		}
	}
	return nil
}

// offsetSection says how far the refined rates at 80K lie from print, and tests what may
// explain that those of Experiments 6 and 8 lie above it.
func (p *plan) offsetSection(d *document, experiments [][]row) {
	d.heading(4, "The offset of Experiments 6 and 8")
	spreads := p.spreads()
	d.p("At 80K, where errors are many, rates can be told to fractions of a per cent. Refined rates, measured less printed, in per cent, k = 4, 6 and 8 together, for each seed, each with a draw of its own; combined with weights by their variances over rounds and draws (random effects). The error contains the rounds and the draw of the paper. Q is Cochran's measure of how much the seeds differ among themselves, %d expected.", p.config.moreSeeds())
	head := []string{"experiment"}
	for i := range uint64(p.config.moreSeeds() + 1) {
		head = append(head, fmt.Sprintf("seed %d", p.config.Seed+i))
	}
	var lines [][]string
	chi := 0.0
	for n := 1; n <= 8; n++ {
		all := pool(p.runs(experiments, n), spreads[n])
		line := []string{fmt.Sprint(n)}
		for i := range p.config.moreSeeds() + 1 {
			text := ""
			if i < len(all.offsets) {
				text = fmt.Sprintf("%+.2f", 100*all.offsets[i])
			}
			line = append(line, text)
		}
		if len(all.offsets) == 0 {
			continue
		}
		chi += all.mean * all.mean / (all.se * all.se)
		lines = append(lines, append(line, fmt.Sprintf("%+.2f ± %.2f", 100*all.mean, 100*all.se), signed(all.mean/all.se), fixed(all.heterogeneity, 1)))
	}
	d.table(append(head, "combined", "deviation", "Q"), lines)
	d.p("The squares of the eight deviations add up to %s, where 8 are expected: a probability of %s. (They share hash functions in the paper, and Experiments 4 and 5 a draw, so it is a rough one.)", fixed(chi, 1), sci(1-distuv.ChiSquared{K: 8}.CDF(chi)))
	d.p("Four explanations of the offset of Experiments 6 and 8 are tested: the draw of the c_i, the hash functions, the order and the definition of the rate. The seed of the tables; with one standard error over the rounds of both, and in parentheses with the draws of both.")
	p.offsetTable(d, experiments, spreads)
	d.list("%s", p.offsetVerdict(experiments, spreads))
	p.ordersText(d, experiments, spreads)
	for _, n := range []int{6, 8} {
		e := allExperiments(n)
		expected := numKeys * offsetExperiments()[n]
		a, of := wholeRates(n, float64(e.total))
		b, ofB := wholeRates(n, expected)
		d.list("Over %.0f insertions, the number expected, instead of those drawn, the rates of Experiment %d would be lower by %s. But print speaks against it: its rates of few errors are whole numbers over 1,000 x %d in %d of %d cases, and over 1,000 x %.0f in %d of %d.", expected, n, percent(1-float64(e.total)/expected), e.total, a, of, expected, b, ofB)
	}
	d.end()
}

// ordersText says what it would matter if all rounds of the paper had one order.
func (p *plan) ordersText(d *document, experiments [][]row, spreads map[int]float64) {
	orders := spreadsOf(p.orders)
	if len(orders) == 0 {
		return
	}
	var parts, with []string
	fits := true
	for _, n := range []int{3, 4, 6, 7, 8} {
		parts = append(parts, fmt.Sprintf("%s (Experiment %d)", percent(orders[n]), n))
		all := pool(p.runs(experiments, n), spreads[n])
		if len(all.offsets) > 0 {
			z := all.mean / math.Hypot(all.se, orders[n])
			fits = fits && math.Abs(z) < 2
			with = append(with, fmt.Sprintf("%+.1f (%d)", z, n))
		}
	}
	verdict := "Not even that explains all of them."
	if fits {
		verdict = "So one order for all rounds fits all of them, as no other explanation does; nothing in print proves it."
	}
	d.list("If the paper shuffled once, and not for each round, its rates have the variation between orders in them. Measured with %d orders that meet the same hash functions, its standard deviation is %s of the mean. With it, once, in the error the combined deviations of the shuffled experiments are %s. %s", p.config.drawsCompared(), strings.Join(parts, ", "), strings.Join(with, ", "), verdict)
}

// allExperiments returns experiment n.
func allExperiments(n int) experiment { return experiments()[n-1] }

func (p *plan) offsetTable(d *document, experiments [][]row, spreads map[int]float64) {
	var lines [][]string
	add := func(what string, get func(n int) []row) {
		line := []string{what}
		for _, n := range []int{6, 8} {
			rows := get(n)
			if rows == nil {
				return
			}
			mean, ours, theirs := offset(rows)
			se := math.Hypot(ours, theirs)
			line = append(line, fmt.Sprintf("%+.2f ± %.2f (%.2f)", 100*mean, 100*se, 100*math.Sqrt(se*se+2*spreads[n]*spreads[n])))
		}
		lines = append(lines, line)
	}
	add(fmt.Sprintf("as in the tables, seed %d", p.config.Seed), func(n int) []row { return rowsOfExperiment(experiments, n) })
	for _, f := range HashFamilies() {
		add("hash functions: "+string(f), func(n int) []row {
			return rowsOfExperiment(rowsOf(p.families, func(r *repeatResult) bool { return r.Family == f }), n)
		})
	}
	for _, sup := range suppositions(0) {
		add(sup.kind+": "+sup.name, func(n int) []row { return p.supposed(n, sup.name) })
	}
	d.table([]string{"explanation", "Experiment 6, %", "Experiment 8, %"}, lines)
}

// supposed returns the rows of an experiment under a supposition.
func (p *plan) supposed(n int, name string) []row {
	for _, r := range p.offset {
		for _, o := range r.Rows {
			if o.Experiment == n && o.Supposition == name {
				e := experiments()[n-1]
				var rows []row
				for _, c := range o.Cells {
					rows = append(rows, c.row(&e))
				}
				return rows
			}
		}
	}
	return nil
}

// offsetVerdict says, by the numbers, which explanations bring both experiments nearer to
// print and within two errors with draws.
func (p *plan) offsetVerdict(experiments [][]row, spreads map[int]float64) string {
	if p.offset == nil || len(experiments) < 8 {
		return "Not tested in this run."
	}
	var bring, not []string
	for _, sup := range suppositions(0) {
		if sup.name == supposeOneOrder {
			continue // one order is one of many: see ordersText
		}
		fits := true
		for _, n := range []int{6, 8} {
			base, _, _ := offset(experiments[n-1])
			mean, ours, theirs := offset(p.supposed(n, sup.name))
			fits = fits && math.Abs(mean) < 2*math.Sqrt(ours*ours+theirs*theirs+2*spreads[n]*spreads[n]) && math.Abs(mean) < math.Abs(base)
		}
		if fits {
			bring = append(bring, sup.kind+", "+sup.name)
		} else {
			not = append(not, sup.kind+", "+sup.name)
		}
	}
	if bring == nil {
		bring = []string{"none"}
	}
	return "Nearer to print in both experiments, and within two errors with draws: " + strings.Join(bring, "; ") + ". Not so: " + strings.Join(not, "; ") + "."
}

// familiesSection compares the hash families: the paper's future work.
func (p *plan) familiesSection(d *document, experiments [][]row) {
	d.heading(3, "Other hash functions")
	if len(p.families) == 0 {
		d.p("Left out of this run.")
		return
	}
	d.p("The paper means to repeat its experiments with independent hash functions. All eight, every m and k, with other families (`--family` runs everything with one), %d rounds each, against this run's %s functions: how many of the rates and reductions differ by more than 3 standard errors, and the refined rates at 80K, all k together, relative to it. Keys and draws are the same; so the draws are not in the errors.", p.families[0].Rounds, p.config.Family)
	head := []string{"family", "numbers", "differ", "expected"}
	for n := 1; n <= 8; n++ {
		head = append(head, fmt.Sprintf("Exp. %d, %%", n))
	}
	var lines [][]string
	for _, f := range HashFamilies() {
		rows := rowsOf(p.families, func(r *repeatResult) bool { return r.Family == f })
		if len(rows) != len(experiments) || len(rows) == 0 {
			continue
		}
		numbers, out, _ := againstEachOther(rows, experiments, nil)
		line := []string{string(f), fmt.Sprint(numbers), fmt.Sprint(out), fixed(chance3*float64(numbers), 1)}
		for i := range rows {
			mean, se := relative(rows[i], experiments[i])
			line = append(line, fmt.Sprintf("%+.1f ± %.1f", 100*mean, 100*se))
		}
		lines = append(lines, line)
	}
	d.table(head, lines)
	d.p("Families whose functions reach every cell give the same numbers: nothing new is found with independent functions. MD5 in 8 chunks of 16 bits reaches %d cells of 80,000 and of more alike, and errs as an array of that size does: much more often, in the larger arrays by orders of magnitude.", FamilyMD5.reach(80_000, 8))
}

// relative returns by how much the refined rates of a lie above those of b at 80K, as a
// share, all k together, with its standard error.
func relative(a, b []row) (mean, se float64) {
	n := 0.0
	for i := range a {
		if a[i].m != drawsM {
			continue
		}
		x, y := a[i].refined, b[i].refined
		mean += x.mean/y.mean - 1
		se += math.Pow(math.Hypot(x.se(), y.se())/y.mean, 2)
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
	d.p("\"With less storage requirement (smaller m) or less computation (smaller k)\" the refined extension has the same rate, says the paper. Measured on a grid of %d sizes and %d numbers of functions, %d rounds each; between sizes by a line through the logarithms.", len(equalSizes()), len(equalHashes()), p.equal[0].Rounds)
	var lines [][]string
	for _, r := range p.equal {
		for _, m := range []int{80, 160} {
			for _, k := range hashCounts() {
				row, _ := r.at(1000*m, k)
				cells, ok := r.lessCells(1000*m, k)
				less, fewer := "-", "none"
				if ok {
					less = fmt.Sprintf("%.0f (%s)", cells, percent(cells/float64(1000*m)))
				}
				if h, ok := r.fewerHashes(1000*m, k); ok {
					fewer = fmt.Sprint(h)
				}
				lines = append(lines, []string{fmt.Sprintf("Experiment %d: %dK, %d", row.Experiment, m, k), sci(row.Intuitive), less, fewer})
			}
		}
	}
	d.table([]string{"intuitive extension: m, k", "its rate", "refined, same k: cells for that rate", "refined, same m: least k for no more"}, lines)
	d.figure("equal")
}

// curve returns the rates of one extension against thousands of cells.
func (r *equalResult) curve(k int, refined bool) (xs, ys []float64) {
	for _, m := range equalSizes() {
		row, ok := r.at(1000*m, k)
		if !ok {
			continue
		}
		y := row.Intuitive
		if refined {
			y = row.Refined
		}
		if y*float64(r.Rounds)*numKeys < rareEvents {
			continue
		}
		xs, ys = append(xs, float64(m)), append(ys, y)
	}
	return xs, ys
}
