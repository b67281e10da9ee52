package member

import (
	"context"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// Succeed replaces an old key on the peer list with a new one. The proof has been verified.
func (b *Book) Succeed(ctx context.Context, proof *wire.Succession, to wire.Public) error {
	p, ok := b.Find(proof.Old.Hint())
	if !ok || p.Key != proof.Old {
		return unknownPeer(proof.Old.ID())
	}
	if b.opts.Role != Publish {
		if err := b.opts.Engine.RenameOrigin(context.WithoutCancel(ctx), p.ID, to.ID()); err != nil {
			return err
		}
	}
	b.opts.Log.Info("peer has a new key, signed by its old one", "peer", p.Label(), "old", p.ID, "new", to.ID())
	err := b.changePeers(ctx, func(list map[wire.Hint]*Entry) error {
		mem := list[proof.Old.Hint()]
		if mem == nil || list[to.Hint()] != nil {
			return unknownPeer(p.ID)
		}
		delete(list, proof.Old.Hint())
		mem.ID, mem.Key = to.ID(), to
		list[to.Hint()] = mem
		return nil
	})
	if b.opts.Lessons != nil && err == nil {
		b.opts.Lessons.Rename(p.ID, to.ID())
	}
	return err
}

// Known reports whether the holder of a key is a peer, or the successor of one. A successor takes
// the peer's place.
func (b *Book) Known(key wire.Public, proof string) bool {
	if p, ok := b.Find(key.Hint()); ok {
		return p.Key == key
	}
	s := wire.ParseSuccession(proof)
	if s == nil || !s.Names(key) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), succeedWait)
	defer cancel()
	return b.Succeed(ctx, s, key) == nil
}

// succeedWait is the longest wait for the engine to take a peer's new key, while a connection waits.
const succeedWait = 10 * time.Second
