package learn

import "slices"

// Agreeing returns how many of m other origins must agree before a feature counts beyond the counts
// of the rest: 2 up to 10 origins, 4 from 20 on.
func Agreeing(m int) int {
	switch {
	case m <= 10:
		return 2
	case m >= 20:
		return 4
	}
	return 1 + m/6
}

// Scales returns a factor of at most 1 for each other origin, from its number of messages. No origin
// then has more than twice the median.
func Scales(totals []float64) []float64 {
	out := make([]float64, len(totals))
	if len(totals) == 0 {
		return out
	}
	sorted := slices.Sorted(slices.Values(totals))
	median := sorted[(len(sorted)-1)/2]
	for i, n := range totals {
		out[i] = 1
		if n > 2*median {
			out[i] = 2 * median / n
		}
	}
	return out
}

// Known is what several origins know of a feature, or of all mail, together.
type Known struct {
	// Counts are the sums of their counts. Each adds at most what the t-th largest of them has.
	Counts
	// Low and High are the t-th largest number of reports and the one before it. An origin that has more than
	// Low reports itself is one of those that agree.
	Low, High float64
}

// Together returns what origins know together, of whose counts [Agreeing] must agree. reported and delivered have a
// factor for each of them, see [Scales].
func Together(origins []Counts, reported, delivered []float64) (out Known) {
	t := Agreeing(len(origins))
	each := make([]float64, max(len(origins), t))
	for i, c := range origins {
		each[i] = max(0, c.Delivered) * delivered[i]
	}
	out.Delivered, _, _ = capped(each, t)
	clear(each)
	for i, c := range origins {
		each[i] = max(0, c.Reported) * reported[i]
	}
	out.Reported, out.Low, out.High = capped(each, t)
	return out
}

// capped returns the sum of counts, of which each adds at most the t-th largest, low, and the one before it. Fewer
// than t origins that agree therefore add nothing. It changes counts.
func capped(counts []float64, t int) (sum, low, high float64) {
	slices.Sort(counts)
	low, high = counts[len(counts)-t], counts[len(counts)-t+1]
	for _, c := range counts {
		sum += min(c, low)
	}
	return sum, low, high
}

// Beside returns what an origin and m others know: its own counts in full, and what the others know together. The
// origin's own reports agree with reports of the others. So t-1 others add up to as many reports each as the origin
// has. To a feature that the origin has no report of, fewer than t others add nothing.
func Beside(own Counts, others Known, m int) Counts {
	limit := min(max(own.Reported, others.Low), others.High)
	own.Reported += others.Reported + float64(Agreeing(m)-1)*(limit-others.Low)
	own.Delivered += others.Delivered
	return own
}

// Others are what all other origins know together: of all mail, and of each token that enough of them have counted.
// They are never changed, only replaced.
type Others struct {
	Totals Known
	Of     map[Token]Known
	Number int // of the other origins
}
