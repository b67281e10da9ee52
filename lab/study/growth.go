package study

import "context"

// A growthResult is how the errors of the refined extension grow during Experiments 1
// and 3: the share of elements with a wrong count after each twentieth of the insertions.
type growthResult struct {
	Rounds     int         `json:"rounds"`
	Sequential [20]float64 `json:"sequential"` // Experiment 1, by pass
	Shuffled   [20]float64 `json:"shuffled"`   // Experiment 3, by chunk
}

// growthM and growthK are the configuration looked at: the paper's smallest.
const growthM, growthK = 80_000, 6

func (c *Config) growthUnit() (*unit, *growthResult) {
	g := &growthResult{}
	n := max(1, c.Rounds/10)
	return &unit{
		name: "growth", cost: 0.02 * float64(n), result: g,
		have: func() bool { return g.Rounds >= n },
		run: func(ctx context.Context, s *simulator, tick func(float64)) error {
			*g = growthResult{Rounds: n}
			for round := range n {
				if err := ctx.Err(); err != nil {
					return err
				}
				g.add(s, c.Seed, round)
				tick(float64(round+1) / float64(n))
			}
			for i := range g.Sequential {
				g.Sequential[i] /= float64(n) * numKeys
				g.Shuffled[i] /= float64(n) * numKeys
			}
			return nil
		},
	}, g
}

// add counts the wrong elements of one round.
func (g *growthResult) add(s *simulator, seed uint64, round int) {
	s.hash(growthM, growthK, stream(seed, "round", growthM, growthK, round))
	truth := make([]uint8, numKeys)
	clear(s.refined[:growthM])
	for pass := range g.Sequential {
		s.insertAll(growthK)
		for i := range truth {
			truth[i]++
		}
		g.Sequential[pass] += float64(s.wrong(growthK, truth))
	}
	clear(s.refined[:growthM])
	s.shuffle(truth, stream(seed, "shuffle", 3, growthM, growthK, round))
	clear(truth)
	for chunk := range g.Shuffled {
		n := len(s.sequence) / len(g.Shuffled)
		part := s.sequence[chunk*n : (chunk+1)*n]
		s.insertSequence(growthK, part)
		for _, i := range part {
			truth[i]++
		}
		g.Shuffled[chunk] += float64(s.wrong(growthK, truth))
	}
}

// wrong counts the elements that the refined array does not count as truth.
func (s *simulator) wrong(k int, truth []uint8) (n int) {
	for i, want := range truth {
		least := uint32(255)
		for _, p := range s.index[i*k : i*k+k] {
			least = min(least, uint32(s.refined[p&cellMask]))
		}
		if want != 0 && least != uint32(want) {
			n++
		}
	}
	return n
}
