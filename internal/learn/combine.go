package learn

import (
	"math"
	"slices"
)

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

// Capped returns the sum of what other origins counted, scaled already. Each adds at most what the
// t-th largest has, so that fewer than t origins that agree can add nothing. It changes counts.
func Capped(counts []float64, t int) float64 {
	if t < 1 || len(counts) < t {
		return 0
	}
	slices.Sort(counts)
	limit := counts[len(counts)-t]
	sum := 0.0
	for _, c := range counts {
		sum += min(c, limit)
	}
	return sum
}

// Combined returns what an origin and others know of a feature, or of all mail: its own counts in
// full, and the others' capped. reported and delivered have a factor for each of the
// others, see [Scales]. With one other, see [Beside].
func Combined(own Counts, others []Counts, reported, delivered []float64) Counts {
	if len(others) == 1 {
		return Beside(own, others[0])
	}
	t := Agreeing(len(others))
	each := make([]float64, len(others))
	for i, c := range others {
		each[i] = math.Max(0, c.Reported) * reported[i]
	}
	own.Reported += Capped(each, t)
	for i, c := range others {
		each[i] = math.Max(0, c.Delivered) * delivered[i]
	}
	own.Delivered += Capped(each, t)
	return own
}

// Beside returns what an origin and a single other one know. No third can agree, so the other one adds no
// deliveries, and at most as many reports as the own ones. It confirms what own users have reported, and can
// condemn nothing else.
func Beside(own, other Counts) Counts {
	own.Reported += min(max(0, other.Reported), own.Reported)
	return own
}

// Others are what all other origins know together, capped: of all mail, and of each token that enough of
// them have counted. They are never changed, only replaced.
type Others struct {
	Totals Counts
	Of     map[Token]Counts
	Single bool // they are one origin, whose counts are not capped yet
}

// Add returns own counts with what the others know of the same.
func (o *Others) Add(own, known Counts) Counts {
	if o.Single {
		return Beside(own, known)
	}
	return Counts{own.Reported + known.Reported, own.Delivered + known.Delivered}
}
