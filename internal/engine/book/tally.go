package book

import (
	"fmt"
	"log/slog"

	"github.com/bulkhead-mail/bulkhead/filter"
)

// A TallySpec says which arrays a generation of the tally has.
type TallySpec struct {
	Start           uint64          `json:"start"`    // Unix seconds
	Capacity        uint64          `json:"capacity"` // signatures it is sized for
	Votes           uint64          `json:"votes"`    // keys of votes of people, two each, likewise
	CountsGeometry  filter.Geometry `json:"counts"`
	WeightsGeometry filter.Geometry `json:"weights"`
	UniqueGeometry  filter.Geometry `json:"unique"`
}

// A Tally is a generation of the tally: how often signatures were seen and voted
// on, what the votes weigh, and who has voted on what.
type Tally struct {
	TallySpec
	Counts  Counter
	Weights Counter
	Unique  Bitset
}

func (s TallySpec) begin() uint64 { return s.Start }

func (s TallySpec) bytes() uint64 {
	return s.CountsGeometry.Bytes() + s.WeightsGeometry.Bytes() + s.UniqueGeometry.Bytes()
}

func (g *Tally) uses() keys {
	return keys{g.Counts.Keys(), max(g.Unique.Keys(), g.Weights.Keys())}
}

// Fill returns how many keys it has as a share of its capacity, of its fullest array.
func (g *Tally) Fill() float64 { return g.uses().share(keys{g.Capacity, g.Votes}) }

// A TallyKeeper keeps a tally.
type TallyKeeper = Keeper[TallySpec, *Tally]

// NewTally returns the keeper of a tally whose arrays take keys of the secret with
// the given ID. votes is how many keys of votes the first generation is sized for,
// and the least for any: at least 1. If exact, maps take the place of arrays. o is
// valid.
func NewTally(o Options, votes, keyID uint64, exact bool, log *slog.Logger) *TallyKeeper {
	return &TallyKeeper{
		opts: o, name: "tally", log: log, least: keys{o.Capacity, votes}, sizes: make(map[filter.Target]filter.Geometry),
		shape: func(start uint64, capacity keys, size sizer) (TallySpec, error) {
			return tallyFor(start, capacity, o.Error, keyID, size)
		},
		make: func(s TallySpec) (*Tally, error) {
			if exact {
				return &Tally{s, newExactCounter(), newExactCounter(), newExactBits()}, nil
			}
			return newTally(s)
		},
	}
}

func tallyFor(start uint64, capacity keys, wrong float64, keyID uint64, size sizer) (TallySpec, error) {
	s := TallySpec{Start: start, Capacity: capacity.signatures, Votes: capacity.votes}
	var err error
	s.CountsGeometry, err = size(filter.Target{Kind: filter.Cells, Signatures: s.Capacity, Error: filter.CountWrong, Rate: wrong, KeyID: keyID})
	if err != nil {
		return TallySpec{}, err
	}
	// A weight that is too high lists or blocks what it should not.
	s.WeightsGeometry, err = size(filter.Target{Kind: filter.Cells, Signatures: s.Votes, Error: filter.Ghost, Rate: 1e-5, KeyID: keyID})
	if err != nil {
		return TallySpec{}, err
	}
	// A false positive here loses a vote, so it is made rarer than any error
	// that the books show.
	s.UniqueGeometry, err = size(filter.Target{Kind: filter.Bitmap, Signatures: s.Votes, Error: filter.Ghost, Rate: 1e-6, KeyID: keyID})
	if err != nil {
		return TallySpec{}, err
	}
	return s, nil
}

func newTally(s TallySpec) (*Tally, error) {
	counts, err := filter.NewCounting(s.CountsGeometry)
	if err != nil {
		return nil, fmt.Errorf("book: tally generation %d: %w", s.Start, err)
	}
	weights, err := filter.NewCounting(s.WeightsGeometry)
	if err != nil {
		return nil, fmt.Errorf("book: tally generation %d: %w", s.Start, err)
	}
	unique, err := filter.NewBits(s.UniqueGeometry)
	if err != nil {
		return nil, fmt.Errorf("book: tally generation %d: %w", s.Start, err)
	}
	counts.SetGeneration(s.Start)
	weights.SetGeneration(s.Start)
	unique.SetGeneration(s.Start)
	return &Tally{s, counts, weights, unique}, nil
}
