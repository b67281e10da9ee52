package wire

import (
	"math"
	"slices"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// MaxEpochs bounds a lineage; older epochs are joined into its first one.
const MaxEpochs = 8

// An Epoch is a process of an origin, and the version at which it found one of the origin's arrays.
type Epoch struct {
	Boot uint64 `json:"boot"`
	Base uint64 `json:"base"`
}

// A Lineage is the epochs of one array, oldest first. A version number alone does not identify the
// changes that led to it: an origin whose folder was copied back continues from an older version,
// and reaches the former versions again with other changes. The lineage shows this: a process that
// found the array at version 5 has none of the adds that earlier processes made above version 5.
//
// Both numbers ascend: an epoch whose base is no lower than a later base is superfluous. A lineage
// does not reveal one case: a store that was set back once and then replaced by hand, without the
// rest of the folder, by a copy of its older history that is longer than the present one.
type Lineage []Epoch

// upTo returns the version up to which the adds of a process are part of the array.
func (l Lineage) upTo(boot uint64) uint64 {
	for _, e := range l {
		if e.Boot > boot {
			return e.Base
		}
	}
	return math.MaxUint64
}

// With returns the lineage after one more epoch. If it becomes too long, the oldest epochs are
// joined into one with the base of the first of them. A peer that holds later adds of a process
// among them then asks for images needlessly.
func (l Lineage) With(e Epoch) Lineage {
	out := slices.DeleteFunc(slices.Clone(l), func(x Epoch) bool { return x.Base >= e.Base })
	out = append(out, e)
	for len(out) > MaxEpochs {
		out[1].Base = out[0].Base
		out = out[1:]
	}
	return out
}

// Contains reports whether everything in the replica of an array is part of the array of an origin
// whose running process is boot.
func (l Lineage) Contains(a engine.ArrayState, boot uint64) bool {
	return a.Boot <= boot && max(a.Version, a.Partial) <= l.upTo(a.Boot)
}

// Restored reports whether the first process of the incarnation found counts in the array.
func (l Lineage) Restored() bool { return len(l) == 0 || l[0].Base > 0 }
