package member

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// TestLineage runs histories of an origin that is started, adds, and is set back at random to a
// moment of its history. It compares every prefix that a process had with the history of the last
// process. Content that the lineage declares part of the history is part of it. In a history that
// was never set back, all content is.
func TestLineage(t *testing.T) {
	type held struct {
		history []int // numbers of the changes
		boot    uint64
	}
	doubted := 0
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 3))
		setBack, machine := seed%4 > 0, seed%4 == 1
		s := Record{Boot: 1}
		x := wire.Ref{Array: engine.ArrayCounts, Start: 7}
		var now []int
		var replicas []held
		type moment struct {
			history []int
			state   Record
		}
		var saved []moment
		boots := uint64(1)
		for change := 0; change < 60; {
			if setBack && len(saved) > 0 && rng.IntN(4) == 0 {
				at := rng.IntN(len(saved))
				m := saved[at]
				saved = saved[:at+1]
				now = slices.Clone(m.history)
				if machine {
					s = m.state
				}
			}
			before := s.Boot
			boots += 1 + rng.Uint64N(3) // the clock advances
			s.Boot = boots
			s.Arrays = slices.Clone(s.Arrays)
			s.found([]engine.ArrayState{{Array: x.Array, Start: x.Start, Version: uint64(len(now))}}, before)
			for range rng.IntN(8) {
				now = append(now, change)
				change++
				if rng.IntN(2) == 0 {
					replicas = append(replicas, held{slices.Clone(now), s.Boot})
				}
			}
			if rng.IntN(3) == 0 {
				saved = append(saved, moment{slices.Clone(now), s})
			}
			for _, h := range replicas {
				is := len(h.history) <= len(now) && slices.Equal(h.history, now[:len(h.history)])
				got := s.LineageOf(x).Contains(engine.ArrayState{Version: uint64(len(h.history)), Boot: h.boot}, s.Boot)
				// A longer history is detected by its version.
				if got && !is && len(h.history) <= len(now) {
					t.Fatalf("seed %d: lineage %v of process %d takes %d changes of process %d for a part of its own", seed,
						s.LineageOf(x), s.Boot, len(h.history), h.boot)
				}
				if !got && is {
					doubted++
					if !setBack && s.LineageOf(x)[0].Boot < h.boot {
						t.Fatalf("seed %d: lineage %v of process %d doubts %d changes of process %d", seed, s.LineageOf(x), s.Boot,
							len(h.history), h.boot)
					}
				}
			}
			if len(s.LineageOf(x)) > wire.MaxEpochs {
				t.Fatalf("seed %d: lineage of %d epochs", seed, len(s.LineageOf(x)))
			}
		}
	}
	t.Logf("%d replicas doubted without need", doubted)
}
