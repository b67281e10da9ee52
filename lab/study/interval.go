package study

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mathext"
)

// rareEvents is below how many events a normal error is no error: then intervals
// are exact ones, and numbers are compared by an exact test.
const rareEvents = 30

// garwood returns the exact 95 % interval of the mean of a Poisson distribution
// of which n were seen (Garwood, "Fiducial limits for the Poisson distribution",
// 1936). n need not be whole: sums of weights are given as the number of events
// that would have their variance.
func garwood(n float64) (low, high float64) {
	if n > 0 {
		low = mathext.GammaIncRegInv(n, 0.025)
	}
	return low, mathext.GammaIncRegInv(n+1, 0.975)
}

// clopperPearson returns the exact 95 % interval of a probability by which n of so
// many tries came out (Clopper & Pearson, 1934). Of more than a million tries with
// a rate below a thousandth it is Garwood's, which is the same to three digits.
func clopperPearson(n, of int) (low, high float64) {
	switch {
	case of == 0:
		return 0, 1
	case of > 1_000_000 && n < of/1000:
		low, high = garwood(float64(n))
		return low / float64(of), high / float64(of)
	}
	high = 1
	if n > 0 {
		low = mathext.InvRegIncBeta(float64(n), float64(of-n+1), 0.025)
	}
	if n < of {
		high = mathext.InvRegIncBeta(float64(n+1), float64(of-n), 0.975)
	}
	return low, high
}

// rareDeviation compares two Poisson counts, a with the exposure ea and b with eb:
// given their sum, a is binomial with the share ea/(ea+eb) if the rates are equal.
// It returns the normal deviate that is as improbable as the counts are, two-sided,
// with the sign of the difference of the rates. Counts need not be whole.
func rareDeviation(a, ea, b, eb float64) float64 {
	n, p := a+b, ea/(ea+eb)
	if n == 0 || !(p > 0 && p < 1) {
		return 0
	}
	// P(X <= a) and P(X >= a) of the binomial, by the incomplete beta function.
	below, above := 1.0, 1.0
	if b > 0 {
		below = mathext.RegIncBeta(b, a+1, 1-p)
	}
	if a > 0 {
		above = mathext.RegIncBeta(a, b+1, p)
	}
	sign := 1.0
	if below < above {
		sign = -1
	}
	tail := math.Max(math.Min(below, above), 1e-300)
	return sign * math.Max(0, -mathext.NormalQuantile(tail))
}

// interval spells n of so many tries as a rate with its exact 95 % interval.
func interval(n, of int) string {
	low, high := clopperPearson(n, of)
	if n == 0 {
		return fmt.Sprintf("0 (to %s)", sci(high))
	}
	return fmt.Sprintf("%s (%s to %s)", sci(share(n, of)), sci(low), sci(high))
}

// bars returns how far the exact interval of n of so many tries reaches below and
// above their rate.
func bars(n, of int) (below, above float64) {
	low, high := clopperPearson(n, of)
	p := share(n, of)
	return p - low, high - p
}
