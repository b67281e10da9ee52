package book

import (
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
)

// A Plan is what a book takes, and how often it errs, in the long run: when every generation
// is as full as the last.
type Plan struct {
	Generation time.Duration
	Keep       int
	Signatures uint64 // in a generation
	Capacity   uint64 // that a generation is sized for after one with as many signatures
	// Array is the memory of one generation, and All that of all live generations and the
	// one made ahead of time, in bytes without their overflow tables.
	Array, All uint64
	// Unseen is the probability that a signature that was never counted (tally: in one
	// generation) or listed (blocklist: in any generation) is shown.
	Unseen float64
	// Wrong is the probability that a count is too high. Tally only.
	Wrong float64
	// Bulk is the probability that a signature that was never counted is shown as bulk. Tally
	// only.
	Bulk float64
	// Hidden is the probability that a listed signature that nobody has revoked is taken for
	// revoked. Blocklist only.
	Hidden float64
}

// steady returns the arrays of a generation that follows one with used keys.
func (k *Keeper[S, G]) steady(used keys) (S, error) {
	return k.within(0, used.after(1, k.least), k.sizes.size)
}

// all returns the memory of the generations that live and of the one made ahead.
func (o Options) all(generation uint64) uint64 {
	all := generation * uint64(o.Keep+1)
	if o.Memory > 0 {
		all = min(all, max(o.Memory, generation))
	}
	return all
}

// PlanTally plans a tally. Each generation has the given numbers of signatures and of unique
// keys, of reports and recipients; least is the smallest number of unique keys that it is
// sized for, and threshold the count at which a message is bulk. An error wraps
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

// PlanBlocklist plans a blocklist. Each generation has the given numbers of listed
// signatures, keys of votes, and named facets; least are the smallest numbers of the latter
// two that it is sized for. An error wraps [filter.ErrGeometry]. It allocates no array.
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
