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
