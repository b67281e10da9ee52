package study

import (
	"fmt"
	"math"
	"slices"

	"github.com/bulkhead-mail/bulkhead/lab/study/experiment"
)

// A claim is a sentence of the paper, and whether our numbers bear it out.
type claim struct {
	text  string
	holds bool
	note  string
}

func (p *plan) claimsSection(d *document, experiments [][]experiment.Row, compared []experiment.Comparison) {
	d.heading(3, "The paper's conclusions from them")
	d.p("Every observation of its section V.B, and the bound that it gives f_dcc, checked on the numbers of this run.")
	var lines [][]string
	for _, c := range p.claims(experiments, compared) {
		verdict := "holds"
		if !c.holds {
			verdict = "**does not hold**"
		}
		lines = append(lines, []string{c.text, verdict, c.note})
	}
	d.table([]string{"claim", "here", "numbers"}, lines)
}

// find returns the row of a configuration.
func find(rows []experiment.Row, m, k int) experiment.Row {
	i := slices.IndexFunc(rows, func(r experiment.Row) bool { return r.M == m*1000 && r.K == k })
	if i < 0 {
		return experiment.Row{}
	}
	return rows[i]
}

// claims checks the paper's observations (section V.B) on all eight experiments.
func (p *plan) claims(experiments [][]experiment.Row, compared []experiment.Comparison) (out []claim) {
	out = append(out, rateClaims(experiments)...)
	out = append(out, p.lessClaims()...)
	out = append(out, stepClaims(experiments)...)
	out = append(out, bestClaims(experiments, compared)...)
	out = append(out, p.orderClaims(experiments)...)
	out = append(out, growthClaims(experiments)...)
	return append(out, p.verdictClaims()...)
}

// verdictClaims: f_dcc is bounded by the rate of wrong counts.
func (p *plan) verdictClaims() []claim {
	below, cases := 0, 0
	for _, r := range p.lines {
		for _, row := range r.Rows {
			below += experiment.Bit(experiment.Share(row.Shown[2], row.Asked) < experiment.Share(row.Wrong, row.Added) ||
				row.Wrong == 0 && row.Shown[2] == 0)
			cases++
		}
	}
	if cases == 0 {
		return nil
	}
	return []claim{{"f_dcc is below the rate of wrong counts, which is thus a bound of it", below == cases,
		fmt.Sprintf("%d of %d arrays of one line a key, t = 20: see below", below, cases)}}
}

// rateClaims: what is said of the rates themselves.
func rateClaims(experiments [][]experiment.Row) []claim {
	never, distinct, smaller := true, true, true
	equal, least, rising := "", math.Inf(1), 0
	for _, rows := range experiments {
		for _, r := range rows {
			never = never && r.Refined.Mean <= r.Intuitive.Mean
			distinct = distinct && r.DistinctR <= r.DistinctI
			if r.Refined.Mean == r.Intuitive.Mean {
				equal += fmt.Sprintf(" Experiment %d, %s, k = %d", r.Experiment.Number, experiment.Thousands(r.M), r.K)
			}
			if r.Refined.Mean > 0 {
				least = math.Min(least, r.Refined.Mean)
			}
		}
		for _, k := range experiment.HashCounts() {
			for i, m := range rows[0].Experiment.Sizes[1:] {
				a, b := find(rows, rows[0].Experiment.Sizes[i], k), find(rows, m, k)
				smaller = smaller && b.Intuitive.Mean <= a.Intuitive.Mean && b.Refined.Mean <= a.Refined.Mean
			}
		}
		for _, m := range rows[0].Experiment.Sizes {
			rising += experiment.Bit(find(rows, m, 8).Intuitive.Mean > find(rows, m, 6).Intuitive.Mean)
		}
	}
	return []claim{
		{"Rates can be made very small by the choice of m/n and k", least < 1e-6,
			"the least that is not 0: " + experiment.Sci(least)},
		{"The refined extension never has more false positives than the intuitive one", never, "all configurations"},
		{"Both have the same in one case only: Experiment 8, 640K, where there are none",
			equal == " Experiment 8, 640K, k = 8", "equal:" + equal},
		{"The same holds of different elements counted wrong over different elements", distinct, "all configurations"},
		{"With k fixed, errors fall as m grows", smaller, "all configurations"},
		{"With m fixed, errors do not always fall as k grows", rising > 0,
			fmt.Sprintf("from k = 6 to 8 they rise in %d of %d cases, intuitive", rising, 26)},
	}
}

// lessClaims: less m or k for the same error.
func (p *plan) lessClaims() []claim {
	if len(p.equal) == 0 {
		return nil
	}
	smaller, fewer := true, 0
	var low, high float64 = 1, 0
	cases, but := 0, ""
	for _, r := range p.equal {
		for _, m := range []int{80_000, 160_000} {
			for _, k := range experiment.HashCounts() {
				cells, ok := r.LessCells(m, k)
				smaller = smaller && ok && cells < float64(m)
				low, high = math.Min(low, cells/float64(m)), math.Max(high, cells/float64(m))
				_, ok = r.FewerHashes(m, k)
				fewer += experiment.Bit(ok)
				cases++
				if !ok {
					but += fmt.Sprintf("; not in Experiment %d with %s, k = %d", r.Rows[0].Experiment, experiment.Thousands(m), k)
				}
			}
		}
	}
	return []claim{
		{"The refined extension has the intuitive one's error with less m", smaller,
			fmt.Sprintf("with %s to %s of it, in %d cases", percent(low), percent(high), cases)},
		{"The refined extension has the intuitive one's error with smaller k", fewer == cases, fmt.Sprintf("%d of %d cases%s",
			fewer, cases, but)},
	}
}

// stepClaims: how the reduction goes with m and k.
func stepClaims(experiments [][]experiment.Row) []claim {
	kUp, kAll, mUp, mAll := 0, 0, 0, 0
	count := func(a, b experiment.Row, up, all *int) {
		if !math.IsNaN(a.Reduction) && !math.IsNaN(b.Reduction) {
			*all++
			*up += experiment.Bit(b.Reduction > a.Reduction)
		}
	}
	for _, rows := range experiments {
		sizes := rows[0].Experiment.Sizes
		for _, k := range experiment.HashCounts() {
			for i, m := range sizes[1:] {
				count(find(rows, sizes[i], k), find(rows, m, k), &mUp, &mAll)
			}
		}
		for _, m := range sizes {
			for i, k := range experiment.HashCounts()[1:] {
				count(find(rows, m, experiment.HashCounts()[i]), find(rows, m, k), &kUp, &kAll)
			}
		}
	}
	return []claim{
		{"Mostly, the reduction grows with k", 2*kUp > kAll, fmt.Sprintf("%d of %d steps", kUp, kAll)},
		{"Mostly, the reduction grows with m", 2*mUp > mAll, fmt.Sprintf("%d of %d steps", mUp, mAll)},
		{"Neither holds in general", kUp < kAll && mUp < mAll, fmt.Sprintf("%d and %d steps go down", kAll-kUp, mAll-mUp)},
	}
}

// bestClaims: where the reduction is largest.
func bestClaims(experiments [][]experiment.Row, compared []experiment.Comparison) []claim {
	at := func(n, m, k int) experiment.Row { return find(experiments[n-1], m, k) }
	best, where := 0.0, ""
	for _, rows := range experiments {
		for _, r := range rows {
			if r.M == 80_000 && r.Reduction > best {
				best, where = r.Reduction, fmt.Sprintf("Experiment %d, k = %d: %.2f", r.Experiment.Number, r.K, r.Reduction)
			}
		}
	}
	four, eight := at(4, 80, 8).Reduction, at(8, 80, 8).Reduction
	out := []claim{
		{"The largest reductions: uniform counts, random order (Experiment 4, and 8)",
			four > 6 && best == math.Max(four, eight), "at 80K, where errors are many, " + where},
		{"The distribution of counts matters: Experiment 4 against 6, 8 against 7",
			at(4, 80, 6).Reduction > 1.5*at(6, 80, 6).Reduction && at(8, 80, 6).Reduction > 1.5*at(7, 80, 6).Reduction,
			fmt.Sprintf("80K, k = 6: %.2f against %.2f, %.2f against %.2f", at(4, 80, 6).Reduction, at(6, 80, 6).Reduction,
				at(8, 80, 6).Reduction, at(7, 80, 6).Reduction)},
	}
	for _, c := range compared {
		if c.Experiment == 4 && c.Extension == "reduction" && c.M == "320K" && c.K == 8 {
			out = append(out, claim{"In the best case the reduction is about 18 (Experiment 4, 320K, k = 8)",
				!(math.Abs(c.Z) > 3),
				fmt.Sprintf("17.733 rests on about %.0f errors; measured %s, an exact test of both: %s", c.PrintEvents,
					ratioText(c.Ours, c.OursSE), comparisonDeviation(c))})
		}
	}
	return out
}

// orderClaims: what the order of insertions matters.
func (p *plan) orderClaims(experiments [][]experiment.Row) []claim {
	at := func(n, m, k int) experiment.Row { return find(experiments[n-1], m, k) }
	order := true
	for _, k := range experiment.HashCounts() {
		for _, m := range []int{80, 160, 320} {
			order = order && at(2, m, k).Refined.Mean <= at(1, m, k).Refined.Mean &&
				at(1, m, k).Refined.Mean <= at(3, m, k).Refined.Mean
		}
	}
	differ := orderMatters(p.config.Seed)
	out := []claim{
		{"The order matters much to the refined extension: Experiment 2 <= 1 <= 3", order,
			fmt.Sprintf("80K, k = 6: %s, %s, %s", experiment.Sci(at(2, 80, 6).Refined.Mean),
				experiment.Sci(at(1, 80, 6).Refined.Mean), experiment.Sci(at(3, 80, 6).Refined.Mean))},
		{"The order does not matter to the intuitive extension", differ == 0,
			fmt.Sprintf("one by one in three orders: %d of 80,000 cells differ", differ)},
	}
	if p.growth != nil && len(p.tables[2]) > 0 {
		second, n := 0.0, min(p.growth.Rounds, p.config.Rounds)
		for _, r := range p.tables[2] {
			for i := range min(n, len(r.Rounds)) {
				if r.M == experiment.GrowthM && r.K == experiment.GrowthK {
					second += float64(r.Rounds[i].WrongR)
				}
			}
		}
		second /= float64(n) * experiment.NumKeys
		g := p.growth
		flat := g.Sequential[1] == g.Sequential[19]
		rising := true
		for i := range g.Shuffled[1:] {
			rising = rising && g.Shuffled[i+1] > g.Shuffled[i]
		}
		out = append(out,
			claim{"Experiment 2 is effectively the first pass of Experiment 1", math.Abs(second-g.Sequential[0]) < 1e-12,
				fmt.Sprintf("the same %d rounds: %s and %s", n, experiment.Sci(second), experiment.Sci(g.Sequential[0]))},
			claim{"A few more errors come in the second pass of Experiment 1, none later",
				flat && g.Sequential[1] > g.Sequential[0], fmt.Sprintf("%s, %s, %s in the end", experiment.Sci(g.Sequential[0]),
					experiment.Sci(g.Sequential[1]), experiment.Sci(g.Sequential[19]))},
			claim{"In Experiment 3 every twentieth of the insertions brings new errors", rising,
				fmt.Sprintf("%s after the first, %s after the last", experiment.Sci(g.Shuffled[0]),
					experiment.Sci(g.Shuffled[19]))})
	}
	return out
}

// orderMatters inserts the elements of Experiment 3 into the intuitive extension one by
// one: in passes, in blocks and shuffled. It returns how many cells differ.
func orderMatters(seed uint64) (differ int) {
	const m, k = 80_000, 6
	s := experiment.NewSimulator(seed)
	s.Hash(m, k, experiment.Stream(seed, "order", m, k))
	counts := make([]uint8, experiment.NumKeys)
	for i := range counts {
		counts[i] = 20
	}
	add := func(a []uint8, i int) {
		ps := slices.Clone(s.Index[i*k : i*k+k])
		slices.Sort(ps)
		for _, p := range slices.Compact(ps) {
			a[p] = min(a[p]+1, experiment.CellLimit)
		}
	}
	passes, blocks, mixed := make([]uint8, m), make([]uint8, m), make([]uint8, m)
	for pass := range 20 * experiment.NumKeys {
		add(passes, pass%experiment.NumKeys)
		add(blocks, pass/20)
	}
	s.Shuffle(counts, experiment.Stream(seed, "order shuffle"))
	for _, i := range s.Sequence {
		add(mixed, int(i))
	}
	for i := range passes {
		differ += experiment.Bit(passes[i] != blocks[i] || passes[i] != mixed[i])
	}
	return differ
}

// growthClaims: how cells grow, and what large standard deviations mean.
func growthClaims(experiments [][]experiment.Row) []claim {
	at := func(n, m, k int) experiment.Row { return find(experiments[n-1], m, k) }
	b := at(1, 80, 8).Growth
	full, none, slower := 0.0, true, true
	above := 0.0
	for _, rows := range experiments {
		for _, r := range rows {
			full += r.Growth.FullI
			none = none && r.Growth.LargestR < experiment.CellLimit
			slower = slower && r.Growth.Above20R <= r.Growth.Above20I
			if r.Growth.Above20R > 0 {
				above = math.Max(above, r.Growth.Above20I/r.Growth.Above20R)
			}
		}
	}
	wide, clean := true, true
	note := ""
	for _, k := range experiment.HashCounts() {
		r := at(1, 320, k)
		wide = wide && r.Refined.SD > r.Refined.Mean
		clean = clean && r.CleanR > 0.5 && r.CleanI > 0.5
		note += fmt.Sprintf("%s and %s (k = %d), ", percent(r.CleanI), percent(r.CleanR), k)
	}
	return []claim{
		{"Cells grow more slowly in the refined extension, in every configuration", slower,
			"cells above 20, all configurations"},
		{"No refined cell reaches 63, many intuitive ones do", none && full > 0,
			fmt.Sprintf("80K, k = 8, Experiment 1: %.0f intuitive cells of 80,000 at 63; largest refined cell %d", b.FullI,
				b.LargestR)},
		{"Cells above 20: more than 200 times as many in the intuitive extension", above > 200,
			fmt.Sprintf("up to %.0f times", above)},
		{"Experiment 1, 320K: the standard deviation is above the mean, refined", wide, "k = 4, 6, 8"},
		{"because most rounds have no error at all, in all configurations of 320K", clean,
			"rounds without one, intuitive and refined: " + note + "so all but the intuitive one with k = 4"},
	}
}
