package paper

import (
	"math"

	"github.com/bulkhead-mail/bulkhead/filter"
)

// FalsePositiveRate returns Eq. 1 of Yan & Cho in its exact form, (1-(1-1/m)^(kn))^k: the expected
// false-positive rate of a classic Bloom filter of m bits and k functions after n different
// elements. It is an estimate, since the bits are not independent of each other, but it agrees with
// measured rates. m and k must be at least 1; n may be 0.
func FalsePositiveRate(m, n uint64, k int) float64 {
	if m <= 1 {
		if n == 0 {
			return 0
		}
		return 1
	}
	filled := -math.Expm1(float64(k) * float64(n) * math.Log1p(-1/float64(m)))
	return math.Pow(filled, float64(k))
}

// FalsePositiveRateApprox returns Eq. 1 in its limiting form, (1-e^(-k/c))^k, for c = m/n bits per
// element, c > 0 (formula 2 of Jiang & Zhao).
func FalsePositiveRateApprox(bitsPerElement float64, k int) float64 {
	return math.Pow(-math.Expm1(-float64(k)/bitsPerElement), float64(k))
}

// OptimalHashes returns ln 2 x m/n, the real number of hash functions that minimises Eq. 1.
func OptimalHashes(bitsPerElement float64) float64 { return math.Ln2 * bitsPerElement }

// MinFalsePositiveRate returns f_min = (1/2)^k at the best k, which is about 0.6185^(m/n).
func MinFalsePositiveRate(bitsPerElement float64) float64 {
	return math.Exp2(-OptimalHashes(bitsPerElement))
}

// CompressionRate returns CR = 160 n/m of Yan & Cho's Table I: how many times smaller the filter is
// than the SHA-1 signatures alone.
func CompressionRate(bitsPerElement float64) float64 { return 160 / bitsPerElement }

// EigenvalueRate returns formula 4 of Jiang & Zhao, P* = (1-e^(-dn/m))^d, for m/n bits per element
// and d functions.
func EigenvalueRate(bitsPerElement float64, d int) float64 {
	return FalsePositiveRateApprox(bitsPerElement, d)
}

// TwoPartRate returns formula 5 of Jiang & Zhao, p_err x P*, with the full m/n for both factors as
// the paper prints it. The paper's closed form below it, with the logarithms multiplied in the
// exponent, does not follow from it and is not computed here. The formula assumes that the two
// sections fail independently and that each has all m bits. Both assumptions are wrong: measured
// rates are 50 to 300 times higher.
func TwoPartRate(bitsPerElement float64, k, d int) float64 {
	return FalsePositiveRateApprox(bitsPerElement, k) * EigenvalueRate(bitsPerElement, d)
}

// CellCount returns Eq. 3 of Yan & Cho, P(c_i = j): the probability that one of m cells was
// increased exactly j times by n insertions with k hash functions.
func CellCount(m, n uint64, k int, j uint64) float64 {
	trials := float64(n) * float64(k)
	x := float64(j)
	switch {
	case x > trials:
		return 0
	case m <= 1:
		if x == trials {
			return 1
		}
		return 0
	}
	a, _ := math.Lgamma(trials + 1)
	b, _ := math.Lgamma(x + 1)
	c, _ := math.Lgamma(trials - x + 1)
	p := 1 / float64(m)
	return math.Exp(a - b - c + x*math.Log(p) + (trials-x)*math.Log1p(-p))
}

// DCCFalsePositive returns Eq. 4 of Yan & Cho, f_dcc: the probability that all k cells of a message
// reach the threshold t, where maxJ is the largest number of times that any message has occurred
// (0: no bound, n x k). n is the number of insertions. The equation assumes that insertions fall on
// cells one by one. Real counts are skewed, and then the result is too low by many orders of
// magnitude; see [BulkFalsePositive].
func DCCFalsePositive(m, n uint64, k int, t, maxJ uint64) float64 {
	if maxJ == 0 || maxJ > n*uint64(k) {
		maxJ = n * uint64(k)
	}
	var sum float64
	mode := uint64(float64(n) * float64(k) / float64(max(m, 1)))
	for j := t; j <= maxJ; j++ {
		p := CellCount(m, n, k, j)
		sum += p
		// Beyond the mode the terms fall faster than geometrically.
		if j > mode && p < sum*1e-17 {
			break
		}
	}
	return math.Pow(math.Min(sum, 1), float64(k))
}

// BulkFalsePositive returns the probability that a refined filter shows a message that was never
// reported at or above the threshold: (1-e^(-k n tail/m))^k. n is the number of different messages,
// and tail the share of them that were reported at least threshold times. Only these messages can
// raise a cell that far, so the filter acts as a Bloom filter that holds them alone. The result
// agrees with simulation within 20 % from 1e-3 down to 1e-5.
func BulkFalsePositive(m, n uint64, k int, tail float64) float64 {
	if m == 0 {
		return 1
	}
	return math.Pow(-math.Expm1(-float64(k)*float64(n)*tail/float64(m)), float64(k))
}

// A RateError is one line of Finch's table of false positives.
type RateError struct {
	Relative float64 // sending rate over limit
	Rate     float64 // false positives, as a fraction
}

// UniqueRateErrors returns Finch's table computed from the formula: the false-positive rate of a
// filter of 16 bits for each unit of the limit and 8 hash functions that holds r x limit different
// items.
func UniqueRateErrors() []RateError {
	var table []RateError
	for _, r := range []float64{0.5, 1, 2, math.E, 4} {
		table = append(table, RateError{r, FalsePositiveRateApprox(filter.DefaultRateBits/r, filter.DefaultRateHashes)})
	}
	return table
}
