package book

import (
	"log/slog"

	"github.com/bulkhead-mail/bulkhead/filter"
)

// A TallySpec describes the arrays of a generation of the tally.
type TallySpec struct {
	Start          uint64          `json:"start"`           // Unix seconds
	Capacity       uint64          `json:"capacity"`        // signatures it is sized for
	UniqueCapacity uint64          `json:"unique_capacity"` // reports and recipients it is sized for
	CountsGeometry filter.Geometry `json:"counts"`
	UniqueGeometry filter.Geometry `json:"unique"`
	Floor          uint32          `json:"floor,omitempty"` // see [Options]; 0: none
	// Aged is the time in Unix seconds from which the generation ages; 0: from its start on. It is later than the
	// start if the clock was wrong while the generation was open.
	Aged uint64 `json:"aged,omitempty"`
}

// A Tally is a generation of the tally. It counts how often signatures were seen and voted on, and
// remembers which sightings it has already counted for which recipients.
type Tally struct {
	TallySpec
	Counts Counter
	Unique Bitset
}

func (s TallySpec) begin() uint64 { return s.Start }

func (s TallySpec) ages() uint64 { return max(s.Start, s.Aged) }

func (s TallySpec) keyID() uint64 { return s.CountsGeometry.KeyID }

func (s TallySpec) floor() uint32 { return s.Floor }

func (s TallySpec) bytes() uint64 { return s.CountsGeometry.Bytes() + s.UniqueGeometry.Bytes() }

func (g *Tally) uses() keys { return keys{signatures: g.Counts.Keys(), marks: g.Unique.Keys()} }

func (g *Tally) touch() { touch(g.Counts, g.Unique) }

// Empty reports whether nothing was counted in the generation.
func (g *Tally) Empty() bool { return g.Counts.Keys() == 0 && g.Unique.Keys() == 0 }

// Fill returns the number of keys of its fullest array as a share of the capacity.
func (g *Tally) Fill() float64 {
	return g.uses().share(keys{signatures: g.Capacity, marks: g.UniqueCapacity})
}

// A TallyKeeper keeps a tally.
type TallyKeeper = Keeper[TallySpec, *Tally]

// NewTally returns the keeper of a tally whose arrays take keys of the secret with the given ID.
// unique is the number of keys of reports and recipients, 1 or more, that the first generation is
// sized for. If exact is set, maps take the place of arrays. o must
// be valid.
func NewTally(o Options, unique, keyID uint64, exact bool, log *slog.Logger) *TallyKeeper {
	k := &TallyKeeper{
		opts: o, name: "tally", log: log, first: keys{signatures: o.Capacity, marks: unique}, sizes: make(sizes),
		made: make(chan *ready[TallySpec, *Tally], 1),
		make: func(s TallySpec) (*Tally, error) {
			if exact {
				return &Tally{s, newExactCounter(), newExactBits()}, nil
			}
			return newTally(s)
		},
		age: func(g *Tally, from uint64) *Tally {
			c := *g
			c.Aged = from
			return &c
		},
		at: func(s TallySpec, start uint64) TallySpec {
			s.Start = start
			return s
		},
		begin: func(g *Tally, s TallySpec) {
			g.TallySpec = s
			begin(s.Start, g.Counts, g.Unique)
		},
	}
	if o.Floor > 1 {
		k.floor = o.Floor
	}
	k.least = k.first.least()
	k.key.Store(keyID)
	k.shape = func(start uint64, capacity keys, size sizer) (TallySpec, error) {
		s, err := tallyFor(start, capacity, o.Error, k.key.Load(), size)
		s.Floor = k.floor
		return s, err
	}
	return k
}

// uniqueGhost is the probability that a vote, a report with an ID or a recipient is wrongly taken
// for known, in each generation that is asked. It is lower than the error rates of counts, because an
// entry taken for known is lost.
const uniqueGhost = 1e-6

func tallyFor(start uint64, capacity keys, wrong float64, keyID uint64, size sizer) (TallySpec, error) {
	s := TallySpec{Start: start, Capacity: capacity[signatures], UniqueCapacity: capacity[marks]}
	var err error
	s.CountsGeometry, err = size(filter.Target{Kind: filter.Cells, Signatures: s.Capacity, Error: filter.CountWrong,
		Rate: wrong, KeyID: keyID})
	if err != nil {
		return TallySpec{}, err
	}
	s.UniqueGeometry, err = size(filter.Target{Kind: filter.Bitmap, Signatures: s.UniqueCapacity, Error: filter.Ghost,
		Rate: uniqueGhost, KeyID: keyID})
	if err != nil {
		return TallySpec{}, err
	}
	return s, nil
}

func newTally(s TallySpec) (*Tally, error) {
	g := &Tally{TallySpec: s}
	m := maker{start: s.Start}
	counts := m.counter(s.CountsGeometry)
	g.Counts, g.Unique = counts, m.bits(s.UniqueGeometry)
	if m.err == nil && s.Floor > 0 {
		m.err = counts.SetFloor(s.Floor)
	}
	if m.err != nil {
		return nil, m.error("tally")
	}
	return g, nil
}
