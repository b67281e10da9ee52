package experiment

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/mathext"
)

// RareEvents is below how many events a normal error is no error: then intervals
// are exact ones, and numbers are compared by an exact test.
const RareEvents = 30

// Garwood returns the exact 95 % interval of the mean of a Poisson distribution
// of which n were seen (Garwood, "Fiducial limits for the Poisson distribution",
// 1936). n need not be whole: sums of weights are given as the number of events
// that would have their variance.
func Garwood(n float64) (low, high float64) {
	if n > 0 {
		low = mathext.GammaIncRegInv(n, 0.025)
	}
	return low, mathext.GammaIncRegInv(n+1, 0.975)
}

// ClopperPearson returns the exact 95 % interval of a probability by which n tries of a number came
// out (Clopper & Pearson, 1934). Of more than a million tries with a rate below a thousandth it is
// Garwood's, which is the same to three digits.
func ClopperPearson(n, of int) (low, high float64) {
	switch {
	case of == 0:
		return 0, 1
	case of > 1_000_000 && n < of/1000:
		low, high = Garwood(float64(n))
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

// Interval formats n/of as a rate with its exact 95 % interval.
func Interval(n, of int) string {
	low, high := ClopperPearson(n, of)
	if n == 0 {
		return fmt.Sprintf("0 (to %s)", Sci(high))
	}
	return fmt.Sprintf("%s (%s to %s)", Sci(Share(n, of)), Sci(low), Sci(high))
}

// Bars returns how far the exact interval of n/of reaches below and above their rate.
func Bars(n, of int) (below, above float64) {
	low, high := ClopperPearson(n, of)
	p := Share(n, of)
	return p - low, high - p
}

// Share returns n/of, or 0 if of is 0.
func Share(n, of int) float64 { return float64(n) / float64(max(of, 1)) }

// Sci formats a number with three digits and an exponent, for example 1.23e-4.
func Sci(v float64) string {
	if v == 0 || math.IsNaN(v) {
		return map[bool]string{true: "0", false: "-"}[v == 0]
	}
	return strings.Replace(strconv.FormatFloat(v, 'e', 2, 64), "e-0", "e-", 1)
}
