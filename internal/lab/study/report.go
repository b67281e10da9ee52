package study

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bulkhead-mail/bulkhead/internal/lab/figure"
)

// A document is Markdown under construction.
type document struct {
	strings.Builder
	figures map[string]*figure.Figure
}

// p writes a paragraph.
func (d *document) p(format string, args ...any) {
	fmt.Fprintf(d, format+"\n\n", args...)
}

// list writes one item of a list.
func (d *document) list(format string, args ...any) { fmt.Fprintf(d, "- "+format+"\n", args...) }

// end ends a list.
func (d *document) end() { fmt.Fprintln(d) }

func (d *document) heading(level int, text string) {
	d.p("%s %s", strings.Repeat("#", level), text)
}

// table writes a table. The first column is text, the others numbers.
func (d *document) table(head []string, rows [][]string) {
	fmt.Fprintf(d, "| %s |\n|---|%s\n", strings.Join(head, " | "), strings.Repeat("---:|", len(head)-1))
	for _, r := range rows {
		fmt.Fprintf(d, "| %s |\n", strings.Join(r, " | "))
	}
	fmt.Fprintln(d)
}

// figure writes a picture with its caption.
func (d *document) figure(name string) {
	if f := d.figures[name]; f != nil {
		d.p("![%s](study/%s.svg)", f.Title, name)
		d.p("*%s*", f.Caption)
	}
}

// Numbers as the report spells them.

func sci(v float64) string {
	if v == 0 || math.IsNaN(v) {
		return map[bool]string{true: "0", false: "-"}[v == 0]
	}
	return strings.Replace(strconv.FormatFloat(v, 'e', 2, 64), "e-0", "e-", 1)
}

func percent(v float64) string { return strconv.FormatFloat(100*v, 'g', 3, 64) + " %" }

func fixed(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }

// oneIn spells a probability as its inverse.
func oneIn(v float64) string {
	if v == 0 {
		return "never"
	}
	n := 1 / v
	if n >= 100 {
		return "1 in " + strconv.FormatFloat(math.Round(n), 'f', 0, 64)
	}
	return "1 in " + strconv.FormatFloat(n, 'f', 1, 64)
}

// report writes the report in Markdown and the figures as SVG into the report's folder.
func (p *plan) report(experiments [][]row, compared []comparison, figures []*figure.Figure) error {
	if p.config.Report == "" {
		return nil
	}
	d := &document{figures: map[string]*figure.Figure{}}
	for _, f := range figures {
		d.figures[f.Name] = f
		if err := writeFigure(f, filepath.Join(p.config.Report, "study"), "svg"); err != nil {
			return err
		}
	}
	p.introduction(d, compared)
	tablesSection(d, experiments, compared)
	outsideSection(d, compared, p.spreads(), p.config.drawsCompared())
	claimsSection(d, experiments)
	p.growth.section(d)
	p.membership.section(d)
	p.twoPart.section(d)
	p.rate.section(d)
	mergeSection(d, p.mergeRows())
	p.deletion.section(d)
	p.split.section(d)
	p.dcc.section(d)
	p.speed.section(d)
	relatedSection(d)
	return writeFile(filepath.Join(p.config.Report, "study.md"), []byte(strings.TrimRight(d.String(), "\n")+"\n"))
}

func (p *plan) introduction(d *document, compared []comparison) {
	c := p.config
	var seconds float64
	for _, u := range p.units {
		seconds += u.seconds
	}
	d.heading(1, "The papers, repeated")
	d.p("This page is written by `bulkhead-lab study`; do not edit it. It repeats the measurements of three papers on the filters that bulkhead uses, and adds those that they left open:")
	d.p(`- **Yan & Cho**: J. Yan, P. L. Cho, "Enhancing Collaborative Spam Detection with Bloom Filters", ACSAC 2006, and technical report CS-TR-973 of the University of Newcastle;
- **Jiang & Zhao**: M. Jiang, C. Zhao, "A Study of Spam Determination Based on Improved Bloom Filter";
- **Finch**: T. Finch, "What use are Bloom filters, anyway?", 2008, on Exim's rate limiter.`)
	command := fmt.Sprintf("bulkhead-lab study --rounds %d --seed %d --out DIR --report docs", c.Rounds, c.Seed)
	if c.Corpus != "" {
		command += " --corpus MAIL"
	}
	d.p("    %s", command)
	d.p("%d rounds of each configuration, seed %d, draw `%s`: %.0f seconds of processor time in all. The same seed gives the same numbers on any number of processors, except for times. Everything before the tables of speed is counted on simulated or real data, but for the columns that say that they are computed: formulas, and rates for unseen signatures. `--artefact DIR` makes a folder of all results with the checksums of files and mail, and `--check DIR` compares it and repeats parts of it.", c.Rounds, c.Seed, c.Draw, seconds)
	d.heading(2, "In short")
	n := len(compared)
	d.list("%d of the %d numbers of Tables III to X (%s) are reproduced within 3 standard errors. The figures below show both.", within(compared, 3), n, percent(share(within(compared, 3), n)))
	d.list("The refined extension (H1 and H2) does what the paper claims: it is never worse than the intuitive one, and several times better unless all counts are equal and shuffled.")
	d.list("Merging works if every server inserts into its own array. H1 on a merged array, whose differences are then shipped, counts too low. This is the only trap in the paper.")
	d.list("Equation 4 for false bulk verdicts does not hold on real, skewed counts; a formula that does, from two cells a signature on, is given and checked.")
	d.list("The two-part filter is worse than a classic filter of the same size wherever members and others share eigenvalues, which is the case that it was designed for. With an independent hash as eigenvalue it is as good.")
	d.list("Finch's table is right, and his filter's counts of different items stay within a few per cent of the truth far beyond the limit.")
	d.end()
}

func tablesSection(d *document, experiments [][]row, compared []comparison) {
	d.heading(2, "Tables III to X: errors of the counting extensions")
	d.p("10,000 elements, k hash functions of the universal family with p = 2,100,000,011, m cells. An element is wrong if its count is not what was inserted. \"Deviation\" is our mean less the printed one, in standard errors of that difference; ours after the sign ± is one standard error of the mean. Reduction is the intuitive rate over the refined one. Error bars in the figures are 3 standard errors.")
	d.p("The paper does not say this, but its numbers show it:")
	d.p(`- K is 1,000: "80K" is 80,000 cells. With 1,024 every rate would be 7 to 16 %% lower.
- Experiments 4 to 8 divide by the number of *insertions*, l = sum of the c_i, although the text says "l non-zero elements": an error of an element inserted c_i times counts c_i. Divided by the number of different elements, or counted without weight, the rates differ by half and more (column "different" below).
- The numbers of insertions c_i were drawn *once* for each experiment, not once a round, and Experiments 4 and 5 share one draw. The intuitive rate of Experiment 4 depends only on how many elements are inserted at all; its three values for 80K give 9,463, 9,463 and 9,464 of 10,000, where 9,524 ± 21 are expected. Experiment 8 gives 9,747 (expected 9,756). Rates that are the result of a few errors in 1,000 rounds are whole numbers divided by 1000 l, which gives l = 99,909 ± 3 for Experiments 4 and 5, 99,563 for 6, 200,000 ± 21 for 7 and 198,053 ± 7 for 8. The draw used here (--draw printed) is a random one among those with these numbers; with --draw fixed or fresh, Experiments 4 and 5 come out 1 to 4 %% higher than printed.
- The same sets of hash functions were used for all experiments: Experiments 1 and 2 agree to the last digit at 320K.`)
	for _, rows := range experiments {
		experimentSection(d, rows, compared)
	}
}

// outsideSection lists the numbers that are not reproduced within 3 standard errors, and
// says how much of that the single draw of insertions explains.
func outsideSection(d *document, compared []comparison, spreads map[int]float64, draws int) {
	d.heading(3, "Numbers outside 3 standard errors")
	d.p("All 1,000 rounds of each of Experiments 4 to 8 share one draw of the c_i, in the paper and here. So no standard error over rounds includes the variation between draws. Measured with %d draws that meet the same hash functions (80K, refined, all k), the standard deviation between draws is %s of the mean.", draws, spreadText(spreads))
	var lines [][]string
	for _, c := range compared {
		if math.Abs(c.z) <= 3 {
			continue
		}
		why := "one of the sides has no error in all its rounds"
		if !math.IsNaN(c.z) {
			why = fmt.Sprintf("with both draws in the error: %+.1f", c.withDraw(spreads))
		}
		ours := scientific(c.ours)
		if c.extension == "reduction" {
			ours = ratioText(c.ours, c.oursSE)
		}
		lines = append(lines, []string{fmt.Sprintf("Experiment %d, %s, %s, k = %d", c.experiment, c.extension, c.m, c.k), c.mean, ours, signed(c.z), why})
	}
	if lines == nil {
		d.p("No number lies outside.")
		return
	}
	d.table([]string{"number", "printed", "measured", "deviation", "explanation"}, lines)
	d.p("Of %d numbers, about one is to be expected outside 3 standard errors by chance. The rates and reductions of one configuration are not independent of each other.", len(compared))
}

func experimentSection(d *document, rows []row, compared []comparison) {
	e := rows[0].experiment
	d.heading(3, fmt.Sprintf("Experiment %d (Table %s)", e.number, []string{"III", "IV", "V", "VI", "VII", "VIII", "IX", "X"}[e.number-1]))
	d.p("%s", experimentText(e.number))
	byCell := map[string]comparison{}
	for _, c := range compared {
		byCell[c.id()] = c
	}
	head := []string{"m, k", "intuitive, printed", "measured", "deviation", "refined, printed", "measured", "deviation", "reduction, printed", "measured", "deviation", "different, refined"}
	var lines [][]string
	for _, r := range rows {
		line := []string{fmt.Sprintf("%s, %d", thousands(r.m), r.k)}
		for _, extension := range []string{"intuitive", "refined", "reduction"} {
			c, ok := byCell[cell{experiment: e.number, extension: extension, m: thousands(r.m), k: r.k}.id()]
			switch {
			case !ok:
				line = append(line, "", scientific(r.intuitive.mean), "")
			case extension == "reduction":
				line = append(line, c.mean, ratioText(c.ours, c.oursSE), signed(c.z))
			default:
				line = append(line, c.mean, fmt.Sprintf("%s ± %s", scientific(c.ours), sci(c.oursSE)), signed(c.z))
			}
		}
		lines = append(lines, append(line, sci(r.distinctR)))
	}
	d.table(head, lines)
	d.figure(fmt.Sprintf("experiment-%d", e.number))
}

func ratioText(v, se float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return fixed(v, 3) + " ± " + fixed(se, 3)
}

func signed(z float64) string {
	if math.IsNaN(z) {
		return "-"
	}
	if math.Abs(z) > 3 {
		return fmt.Sprintf("**%+.1f**", z)
	}
	return fmt.Sprintf("%+.1f", z)
}

func experimentText(n int) string {
	return []string{
		"All elements in order, 20 times over.",
		"Each element 20 times in a row. The intuitive extension does not depend on the order.",
		"Each element 20 times, all insertions shuffled.",
		"Each element c times, c uniform on 0 to 20, shuffled.",
		"The insertions of Experiment 4, unshuffled.",
		"c drawn from a Poisson distribution of mean 10, shuffled.",
		"c drawn from a Poisson distribution of mean 20, shuffled.",
		"c uniform on 0 to 40, shuffled.",
	}[n-1]
}

func spreadText(spreads map[int]float64) string {
	var parts []string
	for n := 4; n <= 8; n++ {
		parts = append(parts, fmt.Sprintf("%s (Experiment %d)", percent(spreads[n]), n))
	}
	return strings.Join(parts, ", ")
}

// A claim is a sentence of the paper, and whether our numbers bear it out.
type claim struct {
	text  string
	holds bool
	note  string
}

func claimsSection(d *document, experiments [][]row) {
	d.heading(3, "What the paper concludes from them")
	var lines [][]string
	for _, c := range claims(experiments) {
		verdict := "holds"
		if !c.holds {
			verdict = "**does not hold**"
		}
		lines = append(lines, []string{c.text, verdict, c.note})
	}
	d.table([]string{"claim", "here", "numbers"}, lines)
}

// find returns the row of a configuration.
func find(rows []row, m, k int) row {
	i := slices.IndexFunc(rows, func(r row) bool { return r.m == m*1000 && r.k == k })
	if i < 0 {
		return row{}
	}
	return rows[i]
}

// claims checks the paper's observations (section V.B) on all eight experiments.
func claims(experiments [][]row) (out []claim) {
	never, smaller := true, true
	kUp, kAll, mUp, mAll := 0, 0, 0, 0
	for _, rows := range experiments {
		for _, r := range rows {
			never = never && r.refined.mean <= r.intuitive.mean
		}
		for _, k := range hashCounts() {
			for i, m := range rows[0].experiment.sizes[1:] {
				a, b := find(rows, rows[0].experiment.sizes[i], k), find(rows, m, k)
				smaller = smaller && b.intuitive.mean <= a.intuitive.mean && b.refined.mean <= a.refined.mean
				if !math.IsNaN(a.reduction) && !math.IsNaN(b.reduction) {
					mAll++
					if b.reduction > a.reduction {
						mUp++
					}
				}
			}
		}
		for _, m := range rows[0].experiment.sizes {
			for i, k := range hashCounts()[1:] {
				a, b := find(rows, m, hashCounts()[i]), find(rows, m, k)
				if !math.IsNaN(a.reduction) && !math.IsNaN(b.reduction) {
					kAll++
					if b.reduction > a.reduction {
						kUp++
					}
				}
			}
		}
	}
	out = append(out,
		claim{"The refined extension never has more false positives than the intuitive one", never, "all configurations"},
		claim{"With k fixed, errors fall as m grows", smaller, "all configurations"},
		claim{"Mostly, the reduction grows with k", 2*kUp > kAll, fmt.Sprintf("%d of %d steps", kUp, kAll)},
		claim{"Mostly, the reduction grows with m", 2*mUp > mAll, fmt.Sprintf("%d of %d steps", mUp, mAll)})
	return append(out, orderClaims(experiments)...)
}

// orderClaims checks what the paper says of single experiments.
func orderClaims(experiments [][]row) (out []claim) {
	at := func(n, m, k int) row { return find(experiments[n-1], m, k) }
	order, best := true, 0.0
	where := ""
	for _, k := range hashCounts() {
		for _, m := range []int{80, 160, 320} {
			order = order && at(2, m, k).refined.mean <= at(1, m, k).refined.mean && at(1, m, k).refined.mean <= at(3, m, k).refined.mean
		}
	}
	var ratios [2]float64 // largest and second largest of cells with small errors
	for _, rows := range experiments {
		for _, r := range rows {
			if r.m == 80_000 && r.reduction > best {
				best, where = r.reduction, fmt.Sprintf("Experiment %d, k = %d: %.2f", r.experiment.number, r.k, r.reduction)
			}
		}
	}
	ratios[0], ratios[1] = at(4, 80, 8).reduction, at(8, 80, 8).reduction
	b := at(1, 80, 8).growth
	clean := math.Min(at(1, 320, 4).cleanR, math.Min(at(1, 320, 6).cleanR, at(1, 320, 8).cleanR))
	full, none := 0.0, true
	above := 0.0
	for _, rows := range experiments {
		for _, r := range rows {
			full += r.growth.fullI
			none = none && r.growth.largestR < cellLimit
			if r.growth.above20R > 0 {
				above = math.Max(above, r.growth.above20I/r.growth.above20R)
			}
		}
	}
	return append(out,
		claim{"Refined errors: Experiment 2 <= 1 <= 3", order, fmt.Sprintf("80K, k = 6: %s, %s, %s", sci(at(2, 80, 6).refined.mean), sci(at(1, 80, 6).refined.mean), sci(at(3, 80, 6).refined.mean))},
		claim{"The largest reductions: uniform counts, random order (Experiment 4, and 8)", ratios[0] > 6 && best == math.Max(ratios[0], ratios[1]), "at 80K, " + where},
		claim{"The distribution of counts matters: Experiment 4 against 6, 8 against 7", at(4, 80, 6).reduction > 1.5*at(6, 80, 6).reduction && at(8, 80, 6).reduction > 1.5*at(7, 80, 6).reduction,
			fmt.Sprintf("80K, k = 6: %.2f against %.2f, %.2f against %.2f", at(4, 80, 6).reduction, at(6, 80, 6).reduction, at(8, 80, 6).reduction, at(7, 80, 6).reduction)},
		claim{"No refined cell reaches 63, many intuitive ones do", none && full > 0, fmt.Sprintf("80K, k = 8, Experiment 1: %.0f intuitive cells of 80,000 at 63; largest refined cell %d", b.fullI, b.largestR)},
		claim{"Where the standard deviation exceeds the mean, most rounds have no error at all (Experiment 1, refined, 320K)", clean > 0.5,
			fmt.Sprintf("%s, %s and %s of the rounds for k = 4, 6, 8", percent(at(1, 320, 4).cleanR), percent(at(1, 320, 6).cleanR), percent(at(1, 320, 8).cleanR))},
		claim{"Cells above 20: more than 200 times as many in the intuitive extension", above > 200, fmt.Sprintf("up to %.0f times", above)})
}
