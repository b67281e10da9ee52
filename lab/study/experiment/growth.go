package experiment

import "context"

// A GrowthResult is how the errors of the refined extension grow during Experiments 1
// and 3: the share of elements with a wrong count after each twentieth of the insertions.
type GrowthResult struct {
	Rounds     int         `json:"rounds"`
	Sequential [20]float64 `json:"sequential"` // Experiment 1, by pass
	Shuffled   [20]float64 `json:"shuffled"`   // Experiment 3, by chunk
}

// GrowthM and growthK are the configuration looked at: the paper's smallest.
const GrowthM, GrowthK = 80_000, 6

// GrowthUnit returns the work of measuring errors over time.
func (c *Config) GrowthUnit() (*Unit, *GrowthResult) {
	g := &GrowthResult{}
	n := max(1, c.Rounds/10)
	return &Unit{
		Name: "growth", Cost: 0.02 * float64(n), Result: g,
		Have: func() bool { return g.Rounds >= n },
		Run: func(ctx context.Context, s *Simulator, tick func(float64)) error {
			*g = GrowthResult{Rounds: n}
			for round := range n {
				if err := ctx.Err(); err != nil {
					return err
				}
				g.add(s, c.Seed, round)
				tick(float64(round+1) / float64(n))
			}
			for i := range g.Sequential {
				g.Sequential[i] /= float64(n) * NumKeys
				g.Shuffled[i] /= float64(n) * NumKeys
			}
			return nil
		},
	}, g
}

// add counts the wrong elements of one round.
func (g *GrowthResult) add(s *Simulator, seed uint64, round int) {
	s.Hash(GrowthM, GrowthK, Stream(seed, "round", GrowthM, GrowthK, round))
	truth := make([]uint8, NumKeys)
	clear(s.refined[:GrowthM])
	for pass := range g.Sequential {
		s.insertAll(GrowthK)
		for i := range truth {
			truth[i]++
		}
		g.Sequential[pass] += float64(s.wrong(GrowthK, truth))
	}
	clear(s.refined[:GrowthM])
	s.Shuffle(truth, Stream(seed, "shuffle", 3, GrowthM, GrowthK, round))
	clear(truth)
	for chunk := range g.Shuffled {
		n := len(s.Sequence) / len(g.Shuffled)
		part := s.Sequence[chunk*n : (chunk+1)*n]
		s.insertSequence(GrowthK, part)
		for _, i := range part {
			truth[i]++
		}
		g.Shuffled[chunk] += float64(s.wrong(GrowthK, truth))
	}
}

// wrong counts the elements that the refined array does not count as truth.
func (s *Simulator) wrong(k int, truth []uint8) (n int) {
	for i, want := range truth {
		least := uint32(255)
		for _, p := range s.Index[i*k : i*k+k] {
			least = min(least, uint32(s.refined[p&cellMask]))
		}
		if want != 0 && least != uint32(want) {
			n++
		}
	}
	return n
}
