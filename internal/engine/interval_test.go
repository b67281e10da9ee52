package engine

import (
	"math"
	"testing"
)

// exactInterval returns the two-sided confidence interval of a proportion of which k of n cases were
// seen, for an error probability alpha in total; it is 0 to 1 if there were no cases. It takes
// time proportional to n.
//
// Source: Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the
// case of the binomial" (1934).
func exactInterval(k, n int, alpha float64) (low, high float64) {
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

// TestExactInterval compares the interval with published values (Newcombe 1998, table I, method 5).
func TestExactInterval(t *testing.T) {
	for _, tt := range []struct {
		k, n      int
		low, high float64
	}{
		{81, 263, 0.2527, 0.3676}, {15, 148, 0.0578, 0.1617}, {0, 20, 0, 0.1684},
		{1, 29, 0.0009, 0.1776}, {20, 20, 0.8316, 1}, {0, 0, 0, 1},
	} {
		low, high := exactInterval(tt.k, tt.n, 0.05)
		if math.Abs(low-tt.low) > 5e-5 || math.Abs(high-tt.high) > 5e-5 {
			t.Errorf("%d of %d: %.4f to %.4f, want %.4f to %.4f", tt.k, tt.n, low, high, tt.low, tt.high)
		}
	}
}
