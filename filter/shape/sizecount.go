package shape

import "math"

// A countModel computes the share of keys whose count is too high, for one distribution of counts:
// a share c^-tail of the keys is added c times or more, with all adds in random order.
//
// A key that has been added j times is counted correctly until some moment at which other keys have
// raised all of its cells above j. That moment is either the next add of the key (H1 then raises
// the wrong minimum) or the end. Whether another key y has raised a cell above j at time u, 0 to 1,
// depends on how many of its adds lie before u: N(u), binomial in y's count. At each such moment
// the error therefore equals the error of a plain Bloom filter that holds only the keys with N(u) >
// j. The model adds these errors up. The sum is an upper bound because the events overlap: it is 0
// to 15 % above simulation at errors below 1e-2 and tails from 1.2, and up to 30 % above it for the
// heavier tail 0.8.
type countModel struct {
	// shares[c] of the keys have count c, aboves[c] more than c.
	shares, aboves [modelCounts + 1]float64
	// moments[j][i]: the key is added for the (j+1)th time at time u_i.
	moments [modelAdds][modelTimes]struct {
		weight float64 // share of the keys to which this happens
		lifted float64 // share of the other keys that are above j at that time
	}
}

const (
	modelAdds   = 12  // adds of a key that are modelled; later ones hardly err
	modelTimes  = 16  // steps of time
	modelCounts = 128 // larger counts are treated as one
)

func newCountModel(tail float64) *countModel {
	m := new(countModel)
	atLeast := 1.0
	for c := 1; c <= modelCounts; c++ {
		m.aboves[c] = math.Pow(float64(c+1), -tail)
		m.shares[c] = atLeast - m.aboves[c]
		atLeast = m.aboves[c]
	}
	for i := range modelTimes {
		// Steps are finer in the beginning, when keys of high counts arrive.
		v := (float64(i) + 0.5) / modelTimes
		u, du := v*v, 2*v/modelTimes
		var above [modelAdds]float64
		var first [modelAdds]float64
		for c := 1; c <= modelCounts; c++ {
			share := m.shares[c]
			// pmf runs through the binomial distribution of c-1 adds before u.
			pmf, cum := math.Pow(1-u, float64(c-1)), 0.0
			for j := 0; j < modelAdds; j++ {
				if j < c {
					first[j] += share * float64(c) * pmf * du
					// N > j: j of the others and this one, or more than j.
					above[j] += share * max(0, 1-cum-pmf*(1-u))
				}
				cum += pmf
				pmf *= float64(c-1-j) / float64(j+1) * u / (1 - u)
			}
		}
		for j := range modelAdds {
			m.moments[j][i].weight = first[j]
			m.moments[j][i].lifted = above[j] + m.aboves[modelCounts]
		}
	}
	return m
}

// rate returns the share of keys counted too high with a mean of perLine keys in the lines of g.
func (m *countModel) rate(g Geometry, perLine float64) (sum float64) {
	for j := range m.moments {
		for _, at := range m.moments[j] {
			sum += at.weight * g.Ghost(perLine*at.lifted)
		}
	}
	for c := 1; c <= modelCounts; c++ {
		sum += m.shares[c] * g.Ghost(perLine*m.aboves[c])
	}
	return min(sum, g.Ghost(perLine), 1)
}
