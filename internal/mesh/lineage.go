package mesh

import (
	"slices"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// An ownLineage is the lineage of an array of this node, as it is kept on disk.
type ownLineage struct {
	Array  engine.Array `json:"array"`
	Start  uint64       `json:"start"`
	Epochs wire.Lineage `json:"epochs"`
}

// found records the versions at which a new process finds the node's arrays. before is the boot
// number of the previous process, 0 if unknown.
func (s *state) found(own []engine.ArrayState, before uint64) {
	old := s.Arrays
	s.Arrays = nil
	for _, a := range own {
		var l wire.Lineage
		if i := slices.IndexFunc(old, func(o ownLineage) bool {
			return o.Array == a.Array && o.Start == a.Start
		}); before != 0 && i >= 0 {
			l = old[i].Epochs
		} else if before != 0 {
			l = wire.Lineage{{Boot: before, Base: 0}} // made since the last call
		}
		s.Arrays = append(s.Arrays, ownLineage{a.Array, a.Start, l.With(wire.Epoch{Boot: s.Boot, Base: a.Version})})
	}
}

// lineage returns the lineage of one of this node's arrays.
func (s *state) lineage(r wire.Ref) wire.Lineage {
	for _, a := range s.Arrays {
		if a.Array == r.Array && a.Start == r.Start {
			return a.Epochs
		}
	}
	return wire.Lineage{{Boot: s.Boot, Base: 0}} // made by this process
}
