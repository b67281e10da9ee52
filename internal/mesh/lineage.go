package mesh

import (
	"math"
	"slices"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// maxEpochs bounds a lineage; older epochs are joined into its first one.
const maxEpochs = 8

// An epoch is a process of an origin, and the version at which it found one of the origin's arrays.
type epoch struct {
	Boot uint64 `json:"boot"`
	Base uint64 `json:"base"`
}

// A lineage is the epochs of one array, oldest first. A version number alone does not identify the
// changes that led to it: an origin whose folder was copied back continues from an older version,
// and reaches the former versions again with other changes. The lineage shows this: a process that
// found the array at version 5 has none of the adds that earlier processes made above version 5.
//
// Both numbers ascend: an epoch whose base is no lower than a later base is superfluous. A lineage
// does not reveal one case: a store that was set back once and then replaced by hand, without the
// rest of the folder, by a copy of its older history that is longer than the present one.
type lineage []epoch

// upTo returns the version up to which the adds of a process are part of the array.
func (l lineage) upTo(boot uint64) uint64 {
	for _, e := range l {
		if e.Boot > boot {
			return e.Base
		}
	}
	return math.MaxUint64
}

// with returns the lineage after one more epoch. If it becomes too long, the oldest epochs are
// joined into one with the base of the first of them. A peer that holds later adds of a process
// among them then asks for images needlessly.
func (l lineage) with(e epoch) lineage {
	out := slices.DeleteFunc(slices.Clone(l), func(x epoch) bool { return x.Base >= e.Base })
	out = append(out, e)
	for len(out) > maxEpochs {
		out[1].Base = out[0].Base
		out = out[1:]
	}
	return out
}

// contains reports whether everything in the replica of an array is part of the array of an origin
// whose running process is boot.
func (l lineage) contains(a engine.ArrayState, boot uint64) bool {
	return a.Boot <= boot && max(a.Version, a.Partial) <= l.upTo(a.Boot)
}

// restored reports whether the first process of the incarnation found counts in the array.
func (l lineage) restored() bool { return len(l) == 0 || l[0].Base > 0 }

// An ownLineage is the lineage of an array of this node, as it is kept on disk.
type ownLineage struct {
	Array  engine.Array `json:"array"`
	Start  uint64       `json:"start"`
	Epochs lineage      `json:"epochs"`
}

// found records the versions at which a new process finds the node's arrays. before is the boot
// number of the previous process, 0 if unknown.
func (s *state) found(own []engine.ArrayState, before uint64) {
	old := s.Arrays
	s.Arrays = nil
	for _, a := range own {
		var l lineage
		if i := slices.IndexFunc(old, func(o ownLineage) bool {
			return o.Array == a.Array && o.Start == a.Start
		}); before != 0 && i >= 0 {
			l = old[i].Epochs
		} else if before != 0 {
			l = lineage{{before, 0}} // made since the last call
		}
		s.Arrays = append(s.Arrays, ownLineage{a.Array, a.Start, l.with(epoch{s.Boot, a.Version})})
	}
}

// lineage returns the lineage of one of this node's arrays.
func (s *state) lineage(r ref) lineage {
	for _, a := range s.Arrays {
		if a.Array == r.array && a.Start == r.start {
			return a.Epochs
		}
	}
	return lineage{{s.Boot, 0}} // made by this process
}
