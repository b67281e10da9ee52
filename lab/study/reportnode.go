package study

import (
	"context"
	"fmt"
	"math"
	"runtime"

	"github.com/bulkhead-mail/bulkhead/lab/study/arrays"
	"github.com/bulkhead-mail/bulkhead/lab/study/experiment"
)

// rate formats n/of, with its exact interval if n is small.
func rate(n, of int) string {
	if n < experiment.RareEvents {
		return experiment.Interval(n, of)
	}
	return experiment.Sci(experiment.Share(n, of))
}

// workedSection is the paper's worked example of section IV with its Table II.
func workedSection(d *document) {
	d.heading(2, "The worked example and Table II")
	w := workedExample()
	d.p("Section IV of Yan & Cho lets servers a and b hold the cells (2, 5, 8) and (4, 4, 3) for a message: %d and %d "+
		"reports. Their sum, cell by cell, counts %d, not 5. If both see the message once more, the intuitive extension "+
		"counts %d after merging, the refined one %d. Printed: 6, 8 and 7.", w.a, w.b, w.merged, w.intuitive, w.refined)
	var lines [][]string
	for i, r := range w.growth {
		lines = append(lines, append([]string{fmt.Sprint(len(w.growth) - 1 - i)}, r...))
	}
	d.table([]string{"occurrence of x", "intuitive c[h1]", "c[h2]", "c[h3]", "refined c[h1]", "c[h2]", "c[h3]"}, lines)
	d.p("That is Table II, cell by cell as printed: the growth of the cells at server b, on which others have left (1, " +
		"1, 0).")
}

// A worked is what becomes of the paper's example.
type worked struct {
	a, b, merged, intuitive, refined uint32
	growth                           [][]string // of Table II, the last line first
}

func workedExample() (w worked) {
	x := []uint32{0, 1, 2}
	a, b := experiment.CellArray{2, 5, 8}, experiment.CellArray{4, 4, 3}
	sum := func(a, b experiment.CellArray) uint32 {
		s := append(experiment.CellArray(nil), a...)
		s.Add(b)
		return s.Count(x)
	}
	bump := func(c experiment.CellArray) experiment.CellArray {
		return experiment.CellArray{c[0] + 1, c[1] + 1, c[2] + 1}
	}
	raised := func(c experiment.CellArray) experiment.CellArray {
		c = append(experiment.CellArray(nil), c...)
		c.Raise(x, 1)
		return c
	}
	w.a, w.b, w.merged = a.Count(x), b.Count(x), sum(a, b)
	w.intuitive, w.refined = sum(bump(a), bump(b)), sum(raised(a), raised(b))
	plain, refined := experiment.CellArray{1, 1, 0}, experiment.CellArray{1, 1, 0}
	for range 5 {
		var line []string
		for _, c := range append(append(experiment.CellArray(nil), plain...), refined...) {
			line = append(line, fmt.Sprint(c))
		}
		w.growth = append([][]string{line}, w.growth...)
		plain, refined = bump(plain), raised(refined)
	}
	return w
}

// linesSection writes down the theory of a node's arrays and holds it to measurement.
func (p *plan) linesSection(d *document) {
	d.heading(2, "A node's arrays: cells of one cache line")
	d.p("The paper's cells of a message lie anywhere in the array. A node's cells, `filter.Counting`, lie in one line " +
		"of 128 cells of 4 bits; a count of 15 and more is in a table of the line's page. That costs one cache miss " +
		"instead of k, and errors: a line takes more keys than its share as often as the Poisson distribution says.")
	d.p("*Ghost*: a key that was never added has a count. Let n keys lie in L lines, λ = n/L. A line has N keys, " +
		"Poisson with mean λ. One key misses i given cells of the 128 with the probability q(i) = C(128-i, k) / C(128, k). " +
		"All keys of the line do with exp(-λ (1 - q(i))). By inclusion and exclusion over the cells that are missed, all k " +
		"cells of a key are hit with the probability")
	d.p("    G(λ) = Σ (-1)^i C(k, i) exp(-λ (1 - q(i))), i = 0 to k.")
	d.p("For small λ it tends to (λ k/128)^k + λ / C(128, k): k keys that hit one cell each, or a key in the same cells.")
	d.p("*Bulk*: a key that was never added is counted t times or more. Only keys that were reported t times lift a " +
		"cell so far (as long as small counts do not pile up: no cell is lifted above the least count of a key's cells and " +
		"one). So it is G(λ P(C >= t)), with P(C >= c) = c^-a here, a = 1.2.")
	d.p("*Count*: the count of a key that was added is too high. A key counted j times is wrong when others have lifted " +
		"all its cells above j at one of its reports, or at the end. Let u, 0 to 1, be the " +
		"time, all reports in random order; another key has lifted a cell above j by then if more than j of its reports " +
		"lie before u. That holds for a share s(j, u) of the keys, a sum of binomial distributions over P(C = c). So the " +
		"share of wrong counts is at most")
	d.p("    E(λ) = Σ_c P(C = c) ( Σ_j ∫ G(λ s(j, u)) f(j+1, c, u) du + G(λ P(C > c)) ), at most G(λ),")
	d.p("where f(j+1, c, u) is the density of the time of report j+1 of c. It is a bound since the moments are added up " +
		"as if they excluded each other. These are `GhostError`, `BulkError` and `CountErrorTail` of `filter.Geometry`, by " +
		"which a node is sized.")
	d.p("*Over servers.* A node reads its own array, and one that takes the rounds of all others in their order: one " +
		"refined array of their reports. A count is too high if it is in either, the sum of two E for thinned counts. " +
		"Where arrays are added cell by cell, a key y may lift a cell of x. It does so if y was reported more often than x " +
		"to at least one server: G(λ P(y above x somewhere)), beside the errors in each array before. It is computed by " +
		"sampling pairs of keys.")
	if len(p.lines) == 0 {
		d.p("Not measured in this run.")
		return
	}
	d.p("Measured on arrays of %d lines: keys never added that are looked up, and keys that were added. \"By the "+
		"cells\" is the probability of a ghost or a bulk verdict given the arrays as they are: it is counted in their "+
		"cells and not computed from λ. The first number of each pair is measured, with its exact 95 %% interval if fewer "+
		"than %d errors are behind it. The second is the theory's.", arrays.LinesCount(p.config), experiment.RareEvents)
	under, worst := 0, [3]float64{}
	var reach [4]spanned // of what was measured: ghosts, wrong counts, 5 and 20 and more
	for i := range reach {
		reach[i].low = math.Inf(1)
	}
	for _, r := range p.lines {
		var lines [][]string
		for _, row := range r.Rows {
			under += row.Under
			lines = append(lines, []string{
				fmt.Sprintf("%g (%s)", row.Keys, fixed(128/row.Keys, 1)),
				rate(row.Shown[0], row.Asked), experiment.Sci(row.Theory[0]), rate(row.Wrong, row.Added), experiment.Sci(
					row.TheoryWrong),
				rate(row.Shown[1], row.Asked), experiment.Sci(row.Given[1]), experiment.Sci(row.Theory[1]), rate(row.Shown[2],
					row.Asked), experiment.Sci(row.Given[2]), experiment.Sci(row.Theory[2]),
			})
			reach[0].add(row.Shown[0], row.Asked)
			reach[1].add(row.Wrong, row.Added)
			reach[2].add(row.Shown[1], row.Asked)
			reach[3].add(row.Shown[2], row.Asked)
			if row.Shown[0] >= 1000 {
				worst[0] = math.Max(worst[0], math.Abs(experiment.Share(row.Shown[0], row.Asked)/row.Theory[0]-1))
			}
			if row.Wrong >= 100 {
				worst[1] = math.Max(worst[1], experiment.Share(row.Wrong, row.Added)/row.TheoryWrong-1)
				worst[2] = math.Max(worst[2], 1-experiment.Share(row.Wrong, row.Added)/row.TheoryWrong)
			}
		}
		if len(r.Rows) > 0 {
			d.table([]string{fmt.Sprintf("k = %d: keys a line (cells a key)", r.Rows[0].K), "ghost", "theory", "count wrong",
				"theory", "5 and more", "by the cells", "theory", "20 and more", "by the cells", "theory"}, lines)
		}
	}
	d.figure("lines")
	d.list("Ghosts, %s, differ from the theory by %s at most wherever 1,000 and more were found.", reach[0],
		percent(worst[0]))
	d.list("Wrong counts go %s. Where 100 and more were found, they are at most %s above the theory and at most %s "+
		"below it. The theory is the bound that it should be but for lines with two cells a key, and not a loose one.",
		reach[1], percent(math.Max(0, worst[1])), percent(worst[2]))
	d.list("Verdicts at 5 reports were counted %s, at 20 %s.", reach[2], reach[3])
	five, far5 := p.byCells(1)
	twenty, far20 := p.byCells(2)
	d.list("By the cells verdicts reach further: every report fell into the arrays as on a node, and only the last step "+
		"is computed: if c cells of a line have reached the threshold, all k of a key are among them with probability C(c, "+
		"k) / C(128, k). With %d cells a key and more they go %s at 5 reports. At 20 reports they go %s, "+
		"and both differ from the theory by less than %d %%.", theoryCells, five, twenty,
		int(math.Ceil(20*math.Max(far5, far20)))*5)
	d.list("Bulk verdicts follow the theory down from the largest arrays to about 3 cells a key; in smaller ones small " +
		"counts pile up, and the rate is higher than it says, at 5 before 20. \"By the cells\", which a node measures " +
		"(`Tail`), holds there too.")
	d.list("%d counts of all were too low.", under)
	d.end()
}

// theoryCells is from how many cells a key on small counts do not pile up.
const theoryCells = 5

// byCells returns from where to where the rates by the cells go where small counts do not
// pile up, and how far they are from the theory at most, of the i'th of [linesCounts].
func (p *plan) byCells(i int) (reach spanned, worst float64) {
	reach.low = math.Inf(1)
	for _, r := range p.lines {
		for _, row := range r.Rows {
			if 128/row.Keys >= theoryCells && row.Given[i] > 0 {
				reach.low, reach.high = math.Min(reach.low, row.Given[i]), math.Max(reach.high, row.Given[i])
				worst = math.Max(worst, math.Abs(row.Given[i]/row.Theory[i]-1))
			}
		}
	}
	return reach, worst
}

// A spanned is the least and the largest rate with enough events behind it.
type spanned struct{ low, high float64 }

func (s *spanned) add(n, of int) {
	if n >= experiment.RareEvents {
		s.low, s.high = math.Min(s.low, experiment.Share(n, of)), math.Max(s.high, experiment.Share(n, of))
	}
}

// String returns, for example, "from 2.50e-7 to 0.74 (6.5 decades)".
func (s spanned) String() string {
	if s.high == 0 {
		return "too few for a range"
	}
	return fmt.Sprintf("from %s to %s (%.1f decades)", experiment.Sci(s.low), experiment.Sci(s.high),
		math.Log10(s.high/s.low))
}

func (p *plan) nodeResult(have func(*arrays.NodeResult) bool) *arrays.NodeResult {
	for _, r := range p.node {
		if have(r) {
			return r
		}
	}
	return nil
}

// nodeMergeSection is merging and deletion on nodes' arrays.
func (p *plan) nodeMergeSection(d *document) {
	d.heading(3, "Merging and deletion on nodes' arrays")
	var lines [][]string
	under, keys := 0, 0
	for _, r := range p.node {
		for _, m := range r.Merge {
			under, keys = under+m.Under, keys+m.Keys
			lines = append(lines, []string{
				fmt.Sprint(m.Servers), rate(m.Node, m.Keys), experiment.Sci(m.NodeTheory), rate(m.Sum, m.Keys), experiment.Sci(
					m.SumTheory), rate(m.One, m.Keys), experiment.Sci(m.OneTheory),
				rate(m.Idealised, m.Keys), rate(m.NodeGhost, m.Asked), experiment.Sci(m.NodeGhostTheory), rate(m.SumGhost, m.Asked),
				experiment.Sci(m.GhostTheory),
			})
		}
	}
	if lines == nil {
		d.p("Not measured in this run.")
		return
	}
	d.p("%d keys in a page of %d lines, %d cells a key, k = %d. Reports are spread over the servers at random, which "+
		"synchronise 20 times. Share of counts that are too high, measured and by theory: as a node reads (its own array "+
		"and the array of the others' rounds), and in the sum of all arrays (`Merge`); also in one array that saw all, and "+
		"in the paper's arrays of as many unrelated cells, summed. Then the same for keys that were never reported.",
		arrays.NodeKeys, arrays.NodeLines, arrays.NodeCells, arrays.NodeK)
	d.table([]string{"servers", "as a node reads", "theory", "sum of all", "theory", "one array", "theory",
		"paper's arrays, sum", "ghosts, node", "theory", "ghosts, sum", "theory"}, lines)
	d.p("%d of %d counts are too low. A node that takes rounds keeps the error of one array however many servers there "+
		"are; the sum of finished arrays, which it makes of images alone, tends to the error of the intuitive extension.",
		under, keys)
	d.figure("node-merge")
	r := p.nodeResult(func(r *arrays.NodeResult) bool { return len(r.Delete) > 0 })
	if r == nil {
		return
	}
	lines = nil
	for _, x := range r.Delete {
		lines = append(lines, []string{percent(x.Share), rate(x.Under, x.Kept), experiment.Sci(x.Theory),
			rate(x.Under8, x.Kept), experiment.Sci(x.Theory8), rate(x.Left, x.Gone),
			fmt.Sprint(x.DropUnder), rate(x.DropOver, x.Kept+x.Gone), experiment.Sci(x.DropTheory)})
	}
	d.p("A counting array cannot be deleted from. A share of the keys is taken back by a second array, whose counts are " +
		"subtracted: of the same size, and of an eighth. A key that was kept is then counted too low if the second array " +
		"shows it, by theory G of its own keys at most. And a generation, a quarter of the reports in random order, is " +
		"dropped whole, which is how a node deletes counts: what is left is the sum of three arrays.")
	d.table([]string{"taken back", "kept, too low", "theory", "1/8: too low", "theory", "taken back, still counted",
		"generation dropped: too low", "too high", "theory"}, lines)
}

// nodeDCCSection is f_dcc on real mail in nodes' arrays.
func (p *plan) nodeDCCSection(d *document) {
	d.heading(3, "f_dcc of a node's array")
	r := p.nodeResult(func(r *arrays.NodeResult) bool { return len(r.DCC) > 0 })
	if r == nil {
		d.p("Left out: no corpus was given (`--corpus`).")
		return
	}
	d.p("The same streams in `filter.Counting`: all cells of a signature in one line, 15 and more in the page's table. "+
		"Measured are look-ups below the threshold that are shown at or above it, and the same of signatures never "+
		"reported before. At the end of the stream %d keys that are no signature of it are asked for. \"By the cells\" is "+
		"the rate of the latter given the arrays; the theory is G of the signatures that have reached the threshold. The "+
		"last column is the same formula for unrelated cells, the paper's array: one line costs the difference.",
		r.DCC[0].AskedUnseen)
	for _, scheme := range schemesOf(r.DCC) {
		var lines [][]string
		for _, x := range r.DCC {
			if x.Scheme != scheme || x.K != 4 || x.Threshold == 2 {
				continue
			}
			lines = append(lines, []string{fmt.Sprintf("%.2g, t = %d", x.Cells, x.Threshold), rate(x.Wrong, x.Asked),
				rate(x.WrongNew, x.AskedNew), rate(x.WrongUnseen, x.AskedUnseen), experiment.Sci(x.Given), experiment.Sci(x.Theory),
				tiny(x.Idealised)})
		}
		d.table([]string{"cells a signature (" + scheme + ", k = 4)", "f_dcc", "never reported before", "unseen",
			"by the cells", "theory", "unrelated cells"}, lines)
	}
	d.figure("node-dcc")
	d.p("The theory holds from about two cells a signature on, within the scatter of a few frequent signatures falling "+
		"into one line or not: on these streams no more than %d reach 20 reports. Where thresholds are low and cells few, "+
		"small counts pile up, as in the paper's array.", p.most20())
}

// most20 returns the largest number of signatures of a stream that reach 20 reports.
func (p *plan) most20() (most int) {
	if p.dcc != nil {
		for _, s := range p.dcc.Summaries {
			most = max(most, s.Reach20)
		}
	}
	return most
}

func schemesOf(rows []arrays.NodeDCCRow) (names []string) {
	for _, r := range rows {
		if len(names) == 0 || names[len(names)-1] != r.Scheme {
			names = append(names, r.Scheme)
		}
	}
	return names
}

func revocationSection(r *arrays.RevocationResult, d *document, c *experiment.Config) {
	d.heading(2, "Spam that revocations hide")
	d.p("\"The Revocation Bloom Filter can also introduce false negatives\" (Yan & Cho, III): spam that was never "+
		"revoked and is in the RBF by chance is taken for revoked. %d signatures of spam; both filters sized for an error "+
		"of %s, the RBF for a share of the spam (second number) of which a share is revoked (first). Look-ups of spam that "+
		"is not revoked, and of signatures that were never reported.", arrays.RevocationSpam(c), experiment.Sci(
		arrays.RevocationRate))
	var lines [][]string
	for _, x := range r.Rows {
		lines = append(lines, []string{fmt.Sprintf("%s: %s of %s", x.Filters, percent(x.Share), percent(x.Sized)),
			rate(x.Hidden, x.Spam), experiment.Sci(x.Theory), rate(x.Taken, x.Ham), experiment.Sci(x.HamTheory), fixed(x.Bytes,
				2)})
	}
	d.table([]string{"revoked", "spam hidden", "theory", "others taken for spam", "theory", "bytes a signature"}, lines)
	d.p("Spam is hidden with the probability of a ghost in the RBF, whatever the SBF's size: an RBF that is filled to " +
		"five times what it was sized for hides half of all spam. It is small beside the SBF and must not be saved on.")
}

// appendix says of what the report was made.
func (p *plan) appendix(ctx context.Context, d *document) error {
	c := p.config
	d.heading(2, "Appendix: of what this was made")
	d.p("Rounds %d, seed %d (and %d to %d for comparison), draw `%s`, hash family `%s`; %s, %s/%s. `--artefact` records "+
		"the checksums of all modules beside the results.", c.Rounds, c.Seed, c.Seed+1, c.Seed+uint64(c.MoreSeeds()), c.Draw,
		c.Family, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if c.Corpus == "" {
		d.p("No mail was read.")
		return nil
	}
	corpora, err := hashCorpora(ctx, c.Corpus)
	if err != nil {
		return err
	}
	var lines [][]string
	for _, x := range corpora {
		lines = append(lines, []string{x.Name, fmt.Sprint(x.Messages), "`" + x.SHA256 + "`"})
	}
	d.p("The mail, by what it holds: the SHA-256 of a line for each message, in the order of their names, as sha256sum " +
		"prints it.")
	d.table([]string{"collection", "messages", "SHA-256"}, lines)
	lists, err := arrays.HashLists(c.Corpus)
	if err != nil {
		return err
	}
	lines = nil
	for _, x := range lists {
		lines = append(lines, []string{x.Name, fmt.Sprint(x.Bytes), "`" + x.SHA256 + "`"})
	}
	if lines != nil {
		d.p("Lists beside it:")
		d.table([]string{"list", "bytes", "SHA-256"}, lines)
	}
	return nil
}
