package book

import (
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
)

// A Plan is the memory and the error rates of a book in the long run, when every generation is as
// full as the last.
type Plan struct {
	Generation time.Duration
	Keep       int
	Signatures uint64 // in a generation
	Capacity   uint64 // signatures that a generation is sized for if the one before had as many as Signatures
	// Array is the memory of one generation. All is the memory of all live generations and the one
	// made ahead of time. Both are in bytes, without overflow tables.
	Array, All uint64
	// Unseen is the probability that a signature appears that was never counted (tally: in one
	// generation) or never listed (blocklist: in any generation).
	Unseen float64
	// Wrong is the probability that a count is too high. Tally only.
	Wrong float64
	// Bulk is the probability that a signature that was never counted appears as bulk. Tally only.
	Bulk float64
	// Hidden is the probability that a listed signature without a revocation is taken for revoked.
	// Blocklist only.
	Hidden float64
}

// steady returns the arrays of a generation that follows one with used keys.
func (k *Keeper[S, G]) steady(used keys) (S, error) {
	return k.within(0, used.after(k.least), k.sizes.size)
}

// all returns the memory in bytes of the live generations and the one made ahead.
func (o Options) all(generation uint64) uint64 {
	all := generation * uint64(o.Keep+1)
	if o.Memory > 0 {
		all = min(all, max(o.Memory, generation))
	}
	return all
}

// PlanTally plans a tally. Each generation has the given numbers of signatures and of unique keys,
// which stand for reports and recipients. least is the smallest number of unique keys that a
// generation is sized for. threshold is the count at which a message is bulk. An error wraps
// [filter.ErrGeometry]. It allocates no array.
func PlanTally(o Options, signatures, unique, least uint64, threshold uint32) (Plan, error) {
	s, err := NewTally(o, least, 0, false, nil).steady(keys{signatures, unique})
	if err != nil {
		return Plan{}, err
	}
	g := s.CountsGeometry
	return Plan{
		Generation: o.Generation, Keep: o.Keep, Signatures: signatures, Capacity: s.Capacity, Array: s.bytes(),
		All:    o.all(s.bytes()),
		Unseen: g.GhostError(signatures), Wrong: g.CountError(signatures),
		Bulk: g.BulkError(signatures, threshold, filter.DefaultTail),
	}, nil
}

// PlanBlocklist plans a blocklist. Each generation has the given numbers of listed signatures, keys
// of votes, and named facets; least holds the smallest numbers of keys of votes and of named facets
// that a generation is sized for. An error wraps [filter.ErrGeometry]. It allocates no array.
func PlanBlocklist(o Options, signatures, votes, named uint64, least [2]uint64) (Plan, error) {
	s, err := NewBlocklist(o, least[0], least[1], 0, false, nil).steady(keys{signatures, votes, named})
	if err != nil {
		return Plan{}, err
	}
	keep := float64(o.Keep)
	return Plan{
		Generation: o.Generation, Keep: o.Keep, Signatures: signatures, Capacity: s.Capacity, Array: s.bytes(),
		All:    o.all(s.bytes()),
		Unseen: keep * s.SpamGeometry.GhostError(signatures),
		Hidden: keep * s.RevokedGeometry.GhostError(signatures/fewRevoked),
	}, nil
}
