package study

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bulkhead-mail/bulkhead/lab/figure"
	"github.com/bulkhead-mail/bulkhead/lab/study/experiment"
)

// A document is Markdown under construction.
type document struct {
	strings.Builder
	figures map[string]*figure.Figure
}

// p writes a paragraph.
func (d *document) p(format string, args ...any) {
	d.WriteString(wrap(fmt.Sprintf(format, args...)) + "\n\n")
}

// list writes one item of a list.
func (d *document) list(format string, args ...any) {
	d.WriteString(wrap("- "+fmt.Sprintf(format, args...)) + "\n")
}

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

// lineWidth is the largest number of characters in a line of running text, unless a word is longer.
const lineWidth = 100

// wrap breaks the lines of running text. Code, headings and pictures stay as they are.
func wrap(text string) string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case strings.HasPrefix(line, "#"), strings.HasPrefix(line, "    "), strings.HasPrefix(line, "!["):
			out = append(out, line)
		case strings.HasPrefix(line, "- "):
			out = append(out, fill(line[2:], "- ", "  ")...)
		default:
			out = append(out, fill(line, "", "")...)
		}
	}
	return strings.Join(out, "\n")
}

// mark matches a word that Markdown takes for the mark of a list or heading at the start of a line.
var mark = regexp.MustCompile(`^([-+*>#]|[0-9]+[.)])( |$)`)

// fill divides text into lines, with first before the first line and rest before the others. A
// line does not begin with a word that Markdown takes for a mark.
func fill(text, first, rest string) []string {
	lines := []string{first}
	empty := true
	for _, w := range words(text) {
		last := &lines[len(lines)-1]
		switch {
		case empty:
			*last += w
		case utf8.RuneCountInString(*last)+1+utf8.RuneCountInString(w) > lineWidth:
			lines = append(lines, rest+w)
		default:
			*last += " " + w
		}
		empty = false
	}
	for i := 1; i < len(lines); i++ {
		if s := strings.TrimSpace(lines[i]); mark.MatchString(s) {
			at := strings.LastIndexByte(lines[i-1], ' ')
			lines[i] = rest + lines[i-1][at+1:] + " " + s
			lines[i-1] = lines[i-1][:at]
		}
	}
	return lines
}

// words divides text at blanks, but not inside code.
func words(text string) []string {
	code := false
	return strings.FieldsFunc(text, func(r rune) bool {
		if r == '`' {
			code = !code
		}
		return r == ' ' && !code
	})
}

// Numbers as the report spells them.

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
func (p *plan) report(ctx context.Context, experiments [][]experiment.Row, compared []experiment.Comparison,
	figures []*figure.Figure) error {
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
	p.introduction(d, experiments, compared)
	tablesSection(d, experiments, compared)
	p.agreementSection(d, experiments, compared)
	p.claimsSection(d, experiments, compared)
	growthSection(p.growth, d)
	p.equalSection(d)
	membershipSection(p.membership, d)
	workedSection(d)
	twoPartSection(p.twoPart, d)
	rateSection(p.rate, d)
	p.linesSection(d)
	p.nodeMergeSection(d)
	p.mergeSection(d)
	deletionSection(p.deletion, d)
	splitSection(p.split, d)
	dccSection(p.dcc, d)
	p.nodeDCCSection(d)
	revocationSection(p.revocation, d, p.config)
	speedSection(p.speed, d)
	relatedSection(d)
	if err := p.appendix(ctx, d); err != nil {
		return err
	}
	return experiment.WriteFile(filepath.Join(p.config.Report, "study.md"),
		[]byte(strings.TrimRight(d.String(), "\n")+"\n"))
}

func (p *plan) introduction(d *document, rows [][]experiment.Row, compared []experiment.Comparison) {
	c := p.config
	var seconds float64
	for _, u := range p.units {
		seconds += u.Seconds
	}
	d.heading(1, "The papers, repeated")
	d.p("This page is written by `bulkhead-lab study`; do not edit it. It repeats the measurements of three papers on " +
		"the filters that bulkhead uses, and adds those that they left open:")
	d.list("**Yan & Cho**: J. Yan, P. L. Cho, \"Enhancing Collaborative Spam Detection with Bloom Filters\", ACSAC " +
		"2006, and technical report CS-TR-973 of the University of Newcastle;")
	d.list("**Jiang & Zhao**: M. Jiang, C. Zhao, \"A Study of Spam Determination Based on Improved Bloom Filter\";")
	d.list("**Finch**: T. Finch, \"What use are Bloom filters, anyway?\", 2008, on Exim's rate limiter.")
	d.end()
	command := fmt.Sprintf("bulkhead-lab study --rounds %d --seed %d --out DIR --report docs", c.Rounds, c.Seed)
	if c.Family != experiment.FamilyUniversal {
		command += " --family " + string(c.Family)
	}
	if c.Corpus != "" {
		command += " --corpus MAIL"
	}
	d.p("    %s", command)
	d.p("%d rounds of each configuration, seed %d, draw `%s`, hash family `%s`: %.0f seconds of processor time in all. "+
		"The same seed gives the same numbers on any number of processors, except for times. `--artefact DIR` makes a "+
		"folder of all results with the checksums of files and mail, and `--check DIR` compares it and repeats parts of it.",
		c.Rounds, c.Seed, c.Draw, c.Family, seconds)
	d.p("*Measured and computed.* In the figures points are measured, with 95 %% intervals (thin lines only lead the "+
		"eye), and lines without points are computed. A zero on a logarithmic axis is a triangle on its lower edge. In the "+
		"tables, columns that are computed say so: theory, formula, equation. A rate with fewer than %d events behind it "+
		"is given with its exact 95 %% interval (Garwood's, or Clopper & Pearson's).", experiment.RareEvents)
	d.heading(2, "In short")
	numbers, plain, drawn, _ := outside(compared)
	d.list("Tables III to X have %d numbers with errors. Of these %d are reproduced within 3 standard errors. They are "+
		"%d if the errors contain that all rounds share one draw of the insertions; %s are expected outside by chance. "+
		"Other seeds, hash families, orders and definitions are compared below.", numbers, numbers-plain, numbers-drawn,
		fixed(chance3*float64(numbers), 1))
	if all := experiment.Pool(p.runs(rows, 8), p.spreads()[8]); len(p.seeds) > 0 && len(p.orders) > 0 &&
		math.Abs(all.Mean) > 3*all.SE {
		d.list("One group of numbers lies off: the refined rates of Experiment 8, %+.2f ± %.2f %% over %d seeds. The draw, "+
			"the hash functions and the definition of the rate do not explain it; that the paper shuffled once for all its "+
			"rounds would, whose orders differ by %s.", 100*all.Mean, 100*all.SE, len(all.Offsets),
			percent(experiment.SpreadsOf(p.orders)[8]))
	}
	d.list("The arrays that a node runs, all cells of a key in one cache line, have a theory that holds where it was " +
		"measured: ghosts, wrong counts and bulk verdicts over six decades, merged or not.")
	d.list("Independent hash functions, which the paper leaves to future work, change nothing; what matters is that " +
		"every cell can be reached.")
	d.list("The refined extension (H1 and H2) does what the paper claims: it is never worse than the intuitive one, and " +
		"several times better unless all counts are equal and shuffled.")
	d.list("Merging works if every server inserts into its own array. H1 on a merged array, whose differences are then " +
		"shipped, counts too low. This is the only trap in the paper.")
	d.list("Equation 4 for false bulk verdicts does not hold on real, skewed counts; a formula that does, from two " +
		"cells a signature on, is given and checked.")
	d.list("The two-part filter is worse than a classic filter of the same size wherever members and others share " +
		"eigenvalues. It was designed for that case. With an independent hash as eigenvalue it is as good.")
	d.list("A revocation filter hides spam by chance, as often as it shows a key that was never revoked: it must be " +
		"sized for all revocations, of which there are few.")
	d.list("Finch's table is right, and his filter's counts of different items stay within a few per cent of the truth " +
		"far beyond the limit.")
	d.end()
}

func tablesSection(d *document, experiments [][]experiment.Row, compared []experiment.Comparison) {
	d.heading(2, "Tables III to X: errors of the counting extensions")
	d.p("10,000 elements, k hash functions of the universal family with p = 2,100,000,011, m cells. An element is wrong " +
		"if its count is not what was inserted. \"Deviation\" is our mean less the printed one, in standard errors of that " +
		"difference, with † by an exact test (see below); ours after the sign ± is one standard error of the mean. " +
		"Reduction is the intuitive rate over the refined one.")
	d.p("The paper does not say this, but its numbers show it:")
	d.list("K is 1,000: \"80K\" is 80,000 cells. With 1,024 every rate would be 7 to 16 %% lower.")
	d.list("Experiments 4 to 8 divide by the number of *insertions*, l = sum of the c_i, although the text says \"l " +
		"non-zero elements\": an error of an element inserted c_i times counts c_i. Divided by the number of different " +
		"elements, or counted without weight, the rates differ by half and more (column \"different\" below).")
	d.list("The numbers of insertions c_i were drawn *once* for each experiment, not once a round, and Experiments 4 " +
		"and 5 share one draw. The intuitive rate of Experiment 4 depends only on how many elements are inserted at all; " +
		"its three values for 80K give 9,463, 9,463 and 9,464 of 10,000, where 9,524 ± 21 are expected. Experiment 8 gives " +
		"9,747 (expected 9,756). Rates that are the result of a few errors in 1,000 rounds are whole numbers divided by " +
		"1000 l. This gives l = 99,909 ± 3 for Experiments 4 and 5, and 99,563 for 6; it gives 200,000 ± 21 for 7 and " +
		"198,053 ± 7 for 8. The draw used here (--draw printed) is a random one among those with these numbers; with " +
		"--draw fixed or fresh, Experiments 4 and 5 come out 1 to 4 %% higher than printed.")
	d.list("The same sets of hash functions were used for all experiments: Experiments 1 and 2 agree to the last digit " +
		"at 320K.")
	d.end()
	for _, rows := range experiments {
		experimentSection(d, rows, compared)
	}
}

func experimentSection(d *document, rows []experiment.Row, compared []experiment.Comparison) {
	e := rows[0].Experiment
	d.heading(3, fmt.Sprintf("Experiment %d (Table %s)", e.Number,
		[]string{"III", "IV", "V", "VI", "VII", "VIII", "IX", "X"}[e.Number-1]))
	d.p("%s", experimentText(e.Number))
	byCell := map[string]experiment.Comparison{}
	for _, c := range compared {
		byCell[c.ID()] = c
	}
	head := []string{"m, k", "intuitive, printed", "measured", "deviation", "refined, printed", "measured", "deviation",
		"reduction, printed", "measured", "deviation", "different, refined"}
	var lines [][]string
	for _, r := range rows {
		line := []string{fmt.Sprintf("%s, %d", experiment.Thousands(r.M), r.K)}
		for _, extension := range []string{"intuitive", "refined", "reduction"} {
			c, ok := byCell[experiment.Cell{Experiment: e.Number, Extension: extension, M: experiment.Thousands(r.M),
				K: r.K}.ID()]
			switch {
			case !ok:
				line = append(line, "", experiment.Scientific(r.Intuitive.Mean), "")
			case extension == "reduction":
				line = append(line, c.Mean, ratioText(c.Ours, c.OursSE), comparisonDeviation(c))
			default:
				line = append(line, c.Mean, fmt.Sprintf("%s ± %s", experiment.Scientific(c.Ours), experiment.Sci(c.OursSE)),
					comparisonDeviation(c))
			}
		}
		lines = append(lines, append(line, experiment.Sci(r.DistinctR)))
	}
	d.table(head, lines)
	d.figure(fmt.Sprintf("experiment-%d", e.Number))
}

// comparisonDeviation spells z, and that with the draws beside it if it is another.
func comparisonDeviation(c experiment.Comparison) string {
	switch {
	case c.Empty():
		return "-"
	case c.Rare():
		return signed(c.Z) + " †"
	case math.Abs(c.Z-c.Drawn) >= 0.05:
		return fmt.Sprintf("%s (%s)", signed(c.Z), signed(c.Drawn))
	}
	return signed(c.Z)
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
