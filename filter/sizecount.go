package filter

import "math"

// countWrong returns the expected share of keys whose count is too high, with a
// mean of perLine keys per line whose counts have the given tail.
func (g Geometry) countWrong(perLine, tail float64) float64 {
	if perLine <= 0 {
		return 0
	}
	sum, rest := 0.0, 1.0
	for c := 1; c <= 64; c++ {
		share := rest - math.Pow(float64(c+1), -tail)
		rest -= share
		sum += share * g.wrongAt(c, perLine, tail)
	}
	return min(sum, 1)
}

// wrongAt returns the probability that a key of count c is counted too high.
func (g Geometry) wrongAt(c int, perLine, tail float64) float64 {
	return g.ghost(perLine * math.Pow(float64(c), -tail))
}
