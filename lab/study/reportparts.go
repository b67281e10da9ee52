package study

import (
	"fmt"
	"math"
	"strings"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/lab/paper"
	"github.com/bulkhead-mail/bulkhead/lab/study/arrays"
	"github.com/bulkhead-mail/bulkhead/lab/study/experiment"
)

func growthSection(g *experiment.GrowthResult, d *document) {
	d.heading(3, "Where the errors come from")
	d.p("The paper observes that Experiment 1 gains a few errors in its second pass and none later. Experiment 3 gains "+
		"errors all the time. Measured at 80K, k = 6, %d rounds: %s after the first pass, %s after the second, %s after "+
		"the last; shuffled, %s after a twentieth of the insertions and %s in the end.",
		g.Rounds, experiment.Sci(g.Sequential[0]), experiment.Sci(g.Sequential[1]), experiment.Sci(g.Sequential[19]),
		experiment.Sci(g.Shuffled[0]), experiment.Sci(g.Shuffled[19]))
	d.figure("growth")
}

func membershipSection(m *arrays.MembershipResult, d *document) {
	d.heading(2, "Table I: the classic filter")
	d.p("Computed by Eq. 1, and measured on 20 filters of 10,000 elements for each line, with the exact 95 %% interval. " +
		"\"From fill\" is the rate computed from the bits set.")
	var lines [][]string
	for _, r := range m.TableI {
		lines = append(lines, []string{
			fmt.Sprintf("%d, %d", r.Bits, r.K), fixed(paper.CompressionRate(float64(r.Bits)), 0), r.Printed,
			experiment.Scientific(paper.FalsePositiveRateApprox(float64(r.Bits), r.K)), experiment.Interval(r.Found, r.Asked),
			fmt.Sprintf("%d of %.1e", r.Found, float64(r.Asked)), experiment.Scientific(r.FromFill),
		})
	}
	d.table([]string{"m/n, k", "CR", "printed", "Eq. 1", "measured", "found", "from fill"}, lines)
	d.heading(3, "Hash families and unreachable bits")
	d.figure("reach-1")
	d.figure("reach-2")
	d.p("k = 8, 10,000 elements. A chunk of 16 bits reaches 65,536 positions, so a larger filter under MD5 in 8 chunks " +
		"is no better than one of 65,536 bits; `paper.NewBloom` refuses to build it. Partitioned, the same chunks reach " +
		"eight times as many.")
	lines = nil
	for _, r := range m.Families {
		lines = append(lines, []string{r.Family, fmt.Sprint(r.Bits), fmt.Sprintf("%d of %d", r.Utilisable, r.Bits*10_000),
			rate(r.Found, r.Asked), experiment.Sci(r.Reachable), experiment.Sci(r.Equation)})
	}
	d.table([]string{"family", "m/n", "utilisable bits", "measured", "Eq. 1, utilisable bits", "Eq. 1, all bits"}, lines)
}

func twoPartSection(t *arrays.TwoPartResult, d *document) {
	d.heading(2, "Jiang & Zhao: the two-part filter")
	d.figure("jiang-zhao-1")
	d.figure("jiang-zhao-2")
	d.figure("jiang-zhao-3")
	ten, best := paper.FalsePositiveRateApprox(32, 10), paper.FalsePositiveRateApprox(32, 22)
	d.p("By formula 2, 22 functions are best at 32 bits an element, as the paper says. Its claim that more than 10 gain "+
		"little is generous, since the rate still falls from %s to %s. The paper sees no use in 32 functions instead of 8 "+
		"below 30 bits an element; the formula puts that point at 25.", experiment.Sci(ten), experiment.Sci(best))
	d.p("The paper adds a second section for an eigenvalue of the element, and multiplies the error rates of the "+
		"sections (formula 5). Measured: k = %d and d = %d functions, d/k = 1/3. %s made-up elements are inserted, "+
		"whatever the rounds, or a real list. One list has the senders and links of the spam among the mail; other senders "+
		"and links of other mail are asked for. The other list is a random half of a list of domains, of which the other "+
		"half is asked for. First at the same size: sections 3 to 1, against a classic filter with the same bits and %d "+
		"functions. In parentheses: times the classic rate.", arrays.TwoPartK, arrays.TwoPartD,
		thousandsOf(arrays.TwoPartMembers), arrays.TwoPartK+arrays.TwoPartD)
	for _, bits := range []int{8, 16} {
		twoPartTable(t, d, bits, false)
	}
	d.figure("two-part")
	d.p("The second section adds nothing: an address like the members has an eigenvalue that they have. Its bits are " +
		"lost to the first section, which decides alone. The claim that similar elements raise the error of a classic " +
		"filter is also wrong, if its hash functions are good: the classic column does not depend on the kind of " +
		"addresses. Only an eigenvalue that separates spam from other mail by itself (row F, domain) wins. That is a " +
		"domain block list in front of the filter. With an independent hash the two sections are one partitioned Bloom " +
		"filter, equal to the classic one; bulkhead's lists use that.")
	d.p("\"If d/k = 1/3, then increase the bit array size by about 1/3\": the first section now has all the bits of a "+
		"classic filter with %d functions (\"without\"), and the second a third of them on top. In parentheses: times the "+
		"rate of a classic filter that has the third too, and %d functions.", arrays.TwoPartK,
		arrays.TwoPartK+arrays.TwoPartD)
	for _, bits := range []int{8, 16} {
		twoPartTable(t, d, bits, true)
	}
	d.p("The larger filter errs less often than the one without the third, by the share of the others whose eigenvalue " +
		"no member has; but what the third is worth in a classic filter it only reaches with an independent hash, or with " +
		"an eigenvalue that separates by itself.")
}

// twoPartTable writes the two-part filters of a size: as large as the classic one, or with a
// third on top.
func twoPartTable(t *arrays.TwoPartResult, d *document, bits int, third bool) {
	head := []string{fmt.Sprintf("%d bits an element", bits), "members, asked for"}
	if third {
		head[0] = fmt.Sprintf("%d bits and a third", bits)
		head = append(head, "without")
	}
	head = append(head, "classic")
	for _, e := range arrays.TwoPartEigenvalues() {
		head = append(head, e.String())
	}
	head = append(head, "formula 5")
	var lines [][]string
	for _, r := range t.Rows {
		if r.Bits != bits || r.Third != third {
			continue
		}
		if r.Eigen == arrays.TwoPartEigenvalues()[0].String() {
			letter := string(rune('A' + len(lines)))
			line := []string{letter + ". " + r.Case, fmt.Sprintf("%d, %d", r.Members, r.Asked)}
			if third {
				line = append(line, rate(r.Plain, r.Asked))
			}
			lines = append(lines, append(line, rate(r.Classic, r.Asked)))
		}
		last := &lines[len(lines)-1]
		text := rate(r.TwoPart, r.Asked)
		if r.Classic > 0 && r.TwoPart >= experiment.RareEvents {
			text += fmt.Sprintf(" (%.2g)", float64(r.TwoPart)/float64(r.Classic))
		}
		*last = append(*last, text)
		if r.Eigen == filter.EigenHash.String() {
			*last = append(*last, experiment.Sci(r.Formula))
		}
	}
	d.table(head, lines)
}

// thousandsOf spells a whole number of thousands.
func thousandsOf(n int) string { return fmt.Sprintf("%d,%03d", n/1000, n%1000) }

func rateSection(r *arrays.RateResult, d *document) {
	d.heading(2, "Finch: the unique-rate filter")
	d.p("16 bits for each unit of the limit, 8 hash functions. False positives are counted after a sender has reached " +
		"the given number of different recipients within one period. Beside them is the limiter's count of different " +
		"recipients, relative to the true number.")
	var lines [][]string
	for _, e := range paper.UniqueRateErrors() {
		line := []string{fixed(e.Relative, 1), arrays.FinchPrinted()[e.Relative], oneIn(e.Rate)}
		counted := []string{}
		for _, row := range r.Rows {
			if row.Relative == e.Relative {
				text := oneIn(experiment.Share(row.Found, row.Asked))
				if row.Found < experiment.RareEvents {
					low, high := experiment.ClopperPearson(row.Found, row.Asked)
					text += fmt.Sprintf(" (%d found: %s to %s)", row.Found, oneIn(high), oneIn(low))
				}
				line = append(line, text)
				counted = append(counted, fixed(row.Measured, 3))
			}
		}
		lines = append(lines, append(line, strings.Join(counted, ", ")))
	}
	d.table([]string{"rate / limit", "printed", "formula", "limit 10", "limit 100", "limit 1000", "counted / true"}, lines)
	d.figure("unique-rate")
	d.p("Small filters agree with the formula because their positions are independent of each other; double hashing has " +
		"an error floor of its own at such sizes.")
}

func (p *plan) mergeSection(d *document) {
	d.heading(2, "Merging the paper's arrays")
	rows, trials := p.mergeRows(), p.merge[0].Rounds
	of := trials * arrays.MergeKeys
	rate := func(share float64) string { return rate(int(math.Round(share*float64(of))), of) }
	d.p("Cells of an element anywhere in the array, as in the paper. %d networks for each line, each of %d elements, "+
		"report counts with P(C >= c) = c^-1.2, spread over the servers at random; 11 cells an element, k = %d. The share "+
		"of elements with a wrong count is given for the number of servers and of synchronisations. It has the exact 95 %% "+
		"interval if fewer than %d errors are behind it.", trials, arrays.MergeKeys, arrays.MergeK, experiment.RareEvents)
	var lines [][]string
	under := false
	for _, r := range rows {
		under = under || r.SumUnder > 0
		lines = append(lines, []string{
			fmt.Sprintf("%d, %d", r.Servers, r.Syncs), fmt.Sprintf("**%s** (%s, worst %d)", rate(r.MergedUnder),
				rate(r.MergedMissed), r.MergedWorst),
			rate(r.MinOfSum), rate(r.OwnAndOthers), rate(r.SumOfMin), rate(r.PeriodOver), rate(r.IntuitiveOver), rate(r.OneOver),
			rate(r.GhostMinOfSum), rate(r.GhostSumOfMin),
		})
	}
	d.table([]string{"servers, rounds", "H1 on the merged array: too low (by 20 and more)", "minimum of the sum",
		"own + others", "sum of the minima", "new array each period", "intuitive", "one array sees all",
		"ghosts, minimum of the sum", "ghosts, sum of the minima"}, lines)
	never := "never"
	if under {
		never = "**sometimes, which must not be**"
	}
	d.list("*H1 on the merged array*: a server inserts into what it has merged, and ships the difference. Cells that " +
		"others have raised hide its own reports: the counts of many elements are too low, some by much.")
	d.list("*Minimum of the sum*: each server inserts into its own array, and ships that; the arrays are added. Such a "+
		"count is %s too low. H1's gain is kept in part. *Own + others* adds the minimum in the own array to that in the "+
		"sum of the others; *sum of the minima* keeps the arrays of all servers apart, and is better the more servers "+
		"there are, at as many times the memory.", never)
	d.list("*New array each period* ships a fresh refined array every time: safe, but most of H1's gain is lost.")
	d.end()
	d.figure("merge")
}

func deletionSection(r *arrays.DeletionResult, d *document) {
	d.heading(3, "Deletion")
	of := r.Rounds * arrays.MergeKeys
	rate := func(share float64) string { return rate(int(math.Round(share*float64(of))), of) }
	d.p("A share of the elements is deleted completely, in %d arrays of %d. Share of all elements that are then counted "+
		"too low:", r.Rounds, arrays.MergeKeys)
	var lines [][]string
	for _, row := range r.Rows {
		lines = append(lines, []string{percent(row.Share), rate(row.Intuitive), rate(row.AllCells), rate(row.MinimaOnly),
			rate(row.OneCell), rate(row.Revocation), rate(row.Revocation8)})
	}
	d.table([]string{"deleted", "intuitive", "refined, all cells", "refined, cells at the minimum",
		"refined, one cell at the minimum", "refined less a filter of revocations", "the same, 1/8 of the size"}, lines)
	d.p("Hence `paper.Refined` has no deletion. Revocations go into a structure of their own, and old counts leave with " +
		"their generation.")
}

func splitSection(r *arrays.SplitResult, d *document) {
	d.heading(2, "Split storage")
	d.p("A refined filter of %d cells an element, k = %d, in tables for 65,536 cells. Bits per cell, everything "+
		"included. No code can beat \"entropy\". Fixed widths are exact only up to their largest count: in parentheses, "+
		"the share of elements above it. The paper's form has a flag beside the s bits; the escape form uses the largest "+
		"value of the base instead, computed from the same cells.", arrays.SplitCells, arrays.SplitK)
	head := []string{"counts", "entropy", "split, best s", "escape, best base"}
	widths := []int{4, 5, 8, 16}
	for _, w := range widths {
		head = append(head, fmt.Sprintf("%d bits", w))
	}
	var lines [][]string
	for _, name := range r.Names() {
		split, _ := r.Best(name, func(row arrays.SplitRow) bool { return strings.HasSuffix(row.Layout, "+1 bits") })
		escape, _ := r.Best(name, func(row arrays.SplitRow) bool { return strings.HasSuffix(row.Layout, "escape") })
		line := []string{name, fixed(split.Entropy, 2), fmt.Sprintf("%.2f (%s)", split.Bits, split.Layout),
			fmt.Sprintf("%.2f (%s)", escape.Bits, strings.TrimSuffix(escape.Layout, ", escape"))}
		for _, w := range widths {
			fixedRow, _ := r.Best(name, func(row arrays.SplitRow) bool { return row.Layout == fmt.Sprintf("%d bits", w) })
			line = append(line, fmt.Sprintf("%.2f (%s)", fixedRow.Bits, experiment.Sci(fixedRow.Capped)))
		}
		lines = append(lines, line)
	}
	d.table(head, lines)
	d.figure("split")
	d.p("The idea holds: counts up to 100,000 take a half to little more than a quarter of the memory of 16-bit cells. " +
		"The heavier the tail, the wider the best base. For real mail, where nearly every message is reported once, the " +
		"narrowest is best. The form with an escape value is always smaller. The production array uses it with 4 bits.")
}

func dccSection(r *arrays.DCCResult, d *document) {
	d.heading(2, "f_dcc on real mail")
	if r == nil {
		d.p("Left out: no corpus was given (`--corpus`).")
		return
	}
	d.p("The authors could not get data from a DCC server. Here the signatures of a corpus of real mail (ham and spam "+
		"of 2001 to 2024) go through both extensions in time order. Each message is one report; every signature is looked "+
		"up before it is counted. f_dcc is the share of look-ups below the threshold that are shown at or above it. These "+
		"arrays have unrelated cells, as the paper's do; a node's arrays follow below. The collections are named by their "+
		"checksums in the appendix. \"Unseen\" are %d signatures that are not of the stream, asked for at its end; they "+
		"are counted like the columns before. The four columns after them are computed: the same by the share of cells "+
		"that have reached the threshold, and two formulas.", r.Rows[0].AskedUnseen)
	var lines [][]string
	for _, s := range r.Summaries {
		lines = append(lines, []string{s.Scheme, fmt.Sprint(s.Messages), fmt.Sprint(s.Reports), fmt.Sprint(s.Different),
			fmt.Sprint(s.Repeated), fmt.Sprint(s.Reach20), fmt.Sprint(s.Largest)})
	}
	d.table([]string{"signatures", "messages", "reports", "different", "reported twice or more", "20 times or more",
		"largest count"}, lines)
	for _, s := range r.Summaries {
		dccScheme(r, d, s.Scheme)
	}
	d.figure("dcc")
	d.list("Most wrong look-ups are of signatures one or two reports below the threshold: a message reported 19 times " +
		"is shown as 20. That is an error of the count, and hardly one of the verdict. Signatures never reported before " +
		"are shown at the threshold much less often, especially in the refined extension. Where that was never observed, " +
		"the rate for unseen signatures gives the order of magnitude. It is computed from the share of cells that have " +
		"reached the threshold.")
	d.list("Equation 4 supposes that reports fall on cells one by one. It is near the intuitive extension where many " +
		"small counts crowd the cells (one cell a signature and less, low thresholds). At larger sizes and thresholds a " +
		"cell gets there because of one frequent message, and the equation is too low. At t = 20 it is too low by ten and " +
		"more orders of magnitude.")
	d.list("In the formula (1 - exp(-k n P(C >= t) / m))^k only messages that have reached the threshold count. It " +
		"agrees with the refined extension from about two cells a signature on. In smaller filters small counts pile up, " +
		"and the rate is higher than it says.")
	d.list("At 4 cells a signature (2 bytes with 4-bit cells) and t = 20, an unseen message is rarely shown as bulk. "+
		"The probability is %s at most: bulk verdicts need far fewer cells than exact counts.", experiment.Sci(
		dccWorst(r, 4, 20)))
	d.end()
}

// dccWorst returns the largest rate for unseen signatures, refined, k = 4, of any
// scheme.
func dccWorst(r *arrays.DCCResult, cells float64, threshold int) (worst float64) {
	for _, row := range r.Rows {
		if row.Cells == cells && row.Threshold == threshold && row.K == 4 {
			worst = max(worst, row.UnseenR)
		}
	}
	return worst
}

// dccScheme writes the table of one scheme, k = 4.
func dccScheme(r *arrays.DCCResult, d *document, scheme string) {
	var lines [][]string
	for _, row := range r.Rows {
		if row.Scheme != scheme || row.K != 4 || row.Threshold == 2 || row.Cells < 0.5 {
			continue
		}
		lines = append(lines, []string{
			fmt.Sprintf("%g, t = %d", row.Cells, row.Threshold), rate(row.WrongI, row.Asked), rate(row.WrongR, row.Asked),
			rate(row.WrongNewI, row.AskedNew), rate(row.WrongNewR, row.AskedNew), rate(row.WrongUnseenI, row.AskedUnseen),
			rate(row.WrongUnseenR, row.AskedUnseen), experiment.Sci(row.UnseenI), experiment.Sci(row.UnseenR), experiment.Sci(
				row.Skewed), tiny(row.Equation),
		})
	}
	d.table([]string{"cells a signature (" + scheme + ", k = 4)", "f_dcc, intuitive", "refined",
		"never reported before, intuitive", "refined", "unseen, intuitive", "refined", "computed: intuitive", "refined",
		"formula for skewed counts", "Eq. 4"}, lines)
}

// tiny spells a number that may be too small to be worth its digits.
func tiny(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 1e-30:
		return fmt.Sprintf("1e%.0f", math.Log10(v))
	}
	return experiment.Sci(v)
}

func speedSection(r *arrays.SpeedResult, d *document) {
	d.heading(2, "Speed of queries")
	d.p("Also left open by Yan & Cho. Nanoseconds for one look-up by the 20 bytes of a signature, including hashing " +
		"(SipHash-2-4-128; the cuckoo filter and the map bring functions of their own), one thread, one key at a time: the " +
		"least processor time of nine passes. performance.md has batches, larger arrays and other libraries. Other " +
		"programs used the machine and its caches: compare rows of this table only.")
	var lines [][]string
	for _, row := range r.Rows {
		bytes := "-"
		if row.Bytes > 0 {
			bytes = fixed(row.Bytes, 1)
		}
		lines = append(lines, []string{row.Structure, fmt.Sprint(row.Elements), bytes, fixed(row.Hit, 0), fixed(row.Miss, 0),
			rate(row.Found, row.Asked)})
	}
	d.table([]string{"structure", "elements", "bytes an element", "hit, ns", "miss, ns", "shown without being there"},
		lines)
	d.p("The order of look-ups in the spam filter (SBF) and the revocation filter (RBF), which Yan & Cho leave open: " +
		"nanoseconds for one look-up in both, 1 %% of the spam signatures revoked.")
	lines = nil
	for _, o := range r.Orders {
		lines = append(lines, []string{percent(o.Spam), fixed(o.SBFFirst, 0), fixed(o.RBFFirst, 0)})
	}
	d.table([]string{"look-ups that are spam", "SBF first", "RBF first"}, lines)
	d.p("SBF first is the right default: one look-up settles mail that was never called spam, which is most of it. RBF " +
		"first looks in both filters for everything that was not revoked. For spam, both orders look in both.")
}

// relatedSection names the relatives of the papers' structures.
func relatedSection(d *document) {
	d.heading(2, "Related work")
	d.p("Yan & Cho's structures have relatives that the paper does not name, some of them older. Their effect here " +
		"would be:")
	d.list("*H1* is the *conservative update* of Estan & Varghese (2002) and the *minimal increase* of Cohen & Matias " +
		"(spectral Bloom filters, 2003); the intuitive extension is the counting filter of Fan et al. (2000) with the " +
		"minimum read as its count, a count-min sketch (Cormode & Muthukrishnan, 2005) whose rows share one array. " +
		"[performance.md](performance.md) has BoomFilters' sketch beside a node's array: without H1 about 5 times as many " +
		"counts are wrong as with it, and its 64-bit cells take 12 times the memory. That conservative update cannot be " +
		"merged or deleted from without care is known of both; the sections on merging and deletion say how often it goes " +
		"wrong.")
	d.list("*One cache line for each key*, as a node's arrays have it, is the blocked Bloom filter of Putze, Sanders & " +
		"Singler (2007); split-block filters spread a key evenly within the line. Both pay with an error that is higher at " +
		"the same size, since lines fill unevenly: with 16 bits a key and a million keys bulkhead's bits err 8.6e-4 of the " +
		"time, parquet-go's split blocks 1.3e-3, bits-and-blooms' classic filter 6.0e-4; a hit took 4.6, 3.3 and 54 ns " +
		"(`go run . -subject NAME -n 1000000` in `bench`, on a loaded machine).")
	d.list("*Count sketches* (Charikar, Chen & Farach-Colton, 2002) err in both directions. A count that is too low " +
		"loses a report, which a node must not. No kept Go library has one (searched: pkg.go.dev, GitHub; what is called " +
		"sketch there is a count-min).")
	d.list("*Cuckoo and quotient filters* (Fan et al., 2014; Bender et al., 2012) delete, and take fewer bits than a " +
		"Bloom filter below an error of about 3 %%. But two of them are not merged by an OR, and a full one has to be " +
		"rebuilt. The table of speed has a library, of fingerprints of 8 bits: at a byte an element its error of some per " +
		"cent is above the error of a classic filter of equal size (Eq. 1: 1.8e-2 with 8.4 bits and 6 functions). The " +
		"quotient filter that is kept in Go, facebookincubator/go-qfext, stores whole hashes of 64 bits, and is rather a " +
		"map: 86 bits an element with 150,000, no error among as many others, and queries 2.5 to 3 times as long as of a " +
		"fuse filter.")
	d.list("*Xor, binary fuse and ribbon filters* (Graf & Lemire, 2020 and 2022; Dillinger & Walzer, 2021) are the " +
		"smallest, and never change. For lists they are the better choice: at 1e-6 a binary fuse filter takes 23.5 bits an " +
		"entry, the two-part filter 28.8 and the arrays of one line 41.9. The figures are from `go test -run " +
		"ListStructures -v ./filter -structures 150000`. [lists.md](lists.md#structures) offers them. A ribbon filter is " +
		"smaller yet: RibbonGo/ribbonGo (v1.0.8) takes 8.7 bits an element of 150,000 at an error of 2^-8 with ribbons of " +
		"128 and 9.5 with 64, fuse 9.4; it was built in 0.65 (middle five of nine turns: 0.49 to 0.82) and 0.32 (0.21 to " +
		"0.32) of the time, and asked in 2.4 and 1.1 to 1.2 times the time. It has fingerprints of 8 bits at most, so it " +
		"cannot make a list of 1e-6. Both libraries were measured once, in processor time and in turns, from a checkout: " +
		"no other module depends on them, and they are no part of the bench.")
	d.list("*Replication* works as for grow-only sets and counters, one for each origin (CRDTs; Shapiro et al., 2011): " +
		"a union of bits, a sum of arrays that only their origin changes. The refined counter adds one rule: its adds have " +
		"to be replayed in the origin's order.")
	d.list("*Without sharing*, a hash map is exact, and the table of speed has it beside the filters.")
	d.end()
}
