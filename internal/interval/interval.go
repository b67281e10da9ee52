// Package interval computes confidence intervals of measured proportions.
package interval

import "math"

// Wilson returns the 95 % confidence interval of a share of which k of n cases were seen; it
// is 0 to 1 if there were no cases.
//
// Source: Wilson, "Probable inference, the law of succession, and statistical inference" (1927).
func Wilson(k, n int) (low, high float64) {
	if n == 0 {
		return 0, 1
	}
	const z = 1.959964
	p, m := float64(k)/float64(n), float64(n)
	middle, half := p+z*z/(2*m), z*math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return max(0, (middle-half)/(1+z*z/m)), min(1, (middle+half)/(1+z*z/m))
}

// Exact returns the two-sided confidence interval of a proportion of which k of n cases were
// seen, for an error probability alpha in total; it is 0 to 1 if there were no cases. It takes
// time proportional to n.
//
// Source: Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the
// case of the binomial" (1934).
func Exact(k, n int, alpha float64) (low, high float64) {
	high = 1
	if k > 0 { // the p at which k or more are seen with probability alpha/2
		low = bisect(func(p float64) bool { return 1-binomial(k-1, n, p) < alpha/2 })
	}
	if k < n { // the p at which k or fewer are seen with probability alpha/2
		high = bisect(func(p float64) bool { return binomial(k, n, p) > alpha/2 })
	}
	return low, high
}

// bisect returns the point in (0, 1) at which below turns from true to false.
func bisect(below func(p float64) bool) float64 {
	low, high := 0.0, 1.0
	for range 50 {
		middle := (low + high) / 2
		if below(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return (low + high) / 2
}

// binomial returns the probability of at most k successes in n trials of probability p, for
// 0 < p < 1.
func binomial(k, n int, p float64) float64 {
	all, _ := math.Lgamma(float64(n) + 1)
	sum := 0.0
	for i := range k + 1 {
		seen, _ := math.Lgamma(float64(i) + 1)
		unseen, _ := math.Lgamma(float64(n-i) + 1)
		sum += math.Exp(all - seen - unseen + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return sum
}
