package member

import (
	"context"
	"slices"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// ForgetFormer drops the replicas of a peer's former incarnations.
func (b *Book) ForgetFormer(ctx context.Context, id string) error {
	key, err := wire.ParsePublic(id)
	if p, ok := b.Find(key.Hint()); err != nil || !ok || p.ID != id {
		return unknownPeer(id)
	}
	if b.opts.Role == Publish {
		return nil
	}
	return b.opts.Engine.ForgetFormer(ctx, id)
}

// arrays returns the arrays of all incarnations of a peer, the present one first.
func (b *Book) arrays(id string) []engine.ArrayState {
	all := [][]engine.ArrayState{b.opts.Engine.Replica(id)}
	for _, f := range b.opts.Engine.FormerIncarnations(id) {
		all = append(all, b.opts.Engine.Replica(f.ID))
	}
	return slices.Concat(all...)
}

// FormerStatus is the state of the replica of one former incarnation of a peer.
type FormerStatus struct {
	Incarnation uint64
	Arrays      int
	Keys        uint64 // in all its arrays
	Listed      uint64 // of them, those in its blocklist
	Memory      uint64 // bytes, without merged arrays
}

// Former returns the former incarnations of a peer, oldest first.
func (b *Book) Former(id string) (out []FormerStatus) {
	for _, f := range b.opts.Engine.FormerIncarnations(id) {
		s := FormerStatus{Incarnation: f.Incarnation}
		for _, a := range b.opts.Engine.Replica(f.ID) {
			s.Arrays, s.Keys, s.Memory = s.Arrays+1, s.Keys+a.Keys, s.Memory+a.Bytes
			if a.Array == engine.ArraySpam {
				s.Listed += a.Keys
			}
		}
		out = append(out, s)
	}
	return out
}
