package aggregate

import (
	"context"
	"fmt"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// The following methods are the ones that a mesh needs to publish. See [engine.Engine].

// Own returns the arrays of the sum.
func (s *Sum) Own() []engine.ArrayState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state()
}

// Record does nothing: a sum records from the start.
func (s *Sum) Record(context.Context, bool) error { return nil }

// TakeRounds returns the adds to the sum since the last call.
func (s *Sum) TakeRounds(context.Context) ([]engine.Part, []engine.ArrayState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	parts := s.parts
	s.parts, s.adds = nil, 0
	return parts, s.state(), nil
}

// Images returns the pages of an array of the sum at one moment.
func (s *Sum) Images(_ context.Context, a engine.Array, start uint64) (version uint64, parts []engine.Part, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.slots {
		if t.array != a || t.start != start {
			continue
		}
		version, g := t.cells.Version(), t.cells.Geometry()
		for p := range g.Pages() {
			parts = append(parts, engine.Part{Array: a, Start: start, Geometry: g, Image: t.cells.Image(p).Append(nil),
				At: version})
		}
		return version, parts, nil
	}
	return 0, nil, fmt.Errorf("%w: no array %.20q of generation %d in the sum", bulkhead.ErrMalformed, a, start)
}

// Keeps is the node's [engine.Engine.Keeps].
func (s *Sum) Keeps(a engine.Array, start uint64) bool { return s.engine.Keeps(a, start) }

// Horizon is the node's [engine.Engine.Horizon].
func (s *Sum) Horizon(a engine.Array) uint64 { return s.engine.Horizon(a) }

// Floor is the node's horizon: members may keep generations that the node itself lacks.
func (s *Sum) Floor(a engine.Array) uint64 { return s.engine.Horizon(a) }

// Knows is the node's [engine.Engine.Knows].
func (s *Sum) Knows(keyID uint64) bool { return s.engine.Knows(keyID) }

// errPublishes refuses operations of a node that counts others.
var errPublishes = fmt.Errorf("%w: an aggregate counts no peers by itself", bulkhead.ErrForbidden)

// The following methods belong to a node that counts others. A sum counts none, so they return
// nothing and refuse changes.

// SetOrigins is refused.
func (s *Sum) SetOrigins(context.Context, []engine.Origin) error { return errPublishes }

// Origins returns none.
func (s *Sum) Origins() []engine.Origin { return nil }

// ParsePart is refused.
func (s *Sum) ParsePart(engine.Part) (engine.Parsed, error) { return engine.Parsed{}, errPublishes }

// ApplyRemote is refused.
func (s *Sum) ApplyRemote(context.Context, string, []engine.Parsed) error { return errPublishes }

// Replica returns none.
func (s *Sum) Replica(string) []engine.ArrayState { return nil }

// Shown returns 0.
func (s *Sum) Shown(string, engine.Array, uint64) float64 { return 0 }

// ForgetGenerations is refused.
func (s *Sum) ForgetGenerations(context.Context, string, uint64) error { return errPublishes }

// Renew is refused.
func (s *Sum) Renew(context.Context, string, uint64) error { return errPublishes }

// RenameOrigin is refused.
func (s *Sum) RenameOrigin(context.Context, string, string) error { return errPublishes }

// Incarnation returns 0.
func (s *Sum) Incarnation(string) uint64 { return 0 }

// FormerIncarnations returns none.
func (s *Sum) FormerIncarnations(string) []engine.FormerIncarnation { return nil }

// ForgetFormer is refused.
func (s *Sum) ForgetFormer(context.Context, string) error { return errPublishes }

// Supersede is refused.
func (s *Sum) Supersede(context.Context, string, []engine.ArrayKey) error { return errPublishes }

// Wounds returns none: a sum is not on disk.
func (s *Sum) Wounds(context.Context) (w engine.Wounds, err error) { return w, nil }

// Heal is refused.
func (s *Sum) Heal(context.Context, string, engine.Array, uint64, []byte) error { return errPublishes }

// HealPublished is refused.
func (s *Sum) HealPublished(context.Context, engine.Array, uint64, [][]byte, []engine.Part) (int, error) {
	return 0, errPublishes
}

// EndHealing does nothing.
func (s *Sum) EndHealing(context.Context) error { return nil }

// Adopt is refused.
func (s *Sum) Adopt(context.Context, uint64, map[engine.Array]filter.Geometry) error {
	return errPublishes
}

// TakeBack is refused.
func (s *Sum) TakeBack(context.Context, string, engine.Array, uint64, []byte) error {
	return errPublishes
}

// ReplicaPages is refused.
func (s *Sum) ReplicaPages(context.Context, string, engine.Array, uint64, filter.Geometry, []int) ([][]byte, error) {
	return nil, errPublishes
}

// Room reports that there is no room.
func (s *Sum) Room(string, engine.Need) (now, later bool) { return false, false }

// RemoteMemory returns the memory of the sum's arrays.
func (s *Sum) RemoteMemory() (m engine.RemoteMemory) {
	for _, a := range s.Own() {
		m.Bytes += a.Bytes
	}
	return m
}
