package mesh

import (
	"context"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// succeed replaces an old key on the peer list with a new one. The proof has been verified.
func (b *Book) succeed(ctx context.Context, proof *wire.Succession, to wire.Public) error {
	p, ok := b.find(proof.Old.Hint())
	if !ok || p.key != proof.Old {
		return unknownPeer(proof.Old.ID())
	}
	if b.opts.Role != Publish {
		if err := b.opts.Engine.RenameOrigin(context.WithoutCancel(ctx), p.ID, to.ID()); err != nil {
			return err
		}
	}
	b.opts.Log.Info("peer has a new key, signed by its old one", "peer", p.label(), "old", p.ID, "new", to.ID())
	return b.changePeers(ctx, func(list map[wire.Hint]*member) error {
		mem := list[proof.Old.Hint()]
		if mem == nil || list[to.Hint()] != nil {
			return unknownPeer(p.ID)
		}
		delete(list, proof.Old.Hint())
		mem.ID, mem.key = to.ID(), to
		list[to.Hint()] = mem
		return nil
	})
}

// known reports whether the holder of a key is a peer, or the successor of one. A successor takes
// the peer's place.
func (b *Book) known(key wire.Public, proof string) bool {
	if p, ok := b.find(key.Hint()); ok {
		return p.key == key
	}
	s := wire.ParseSuccession(proof)
	if s == nil || !s.Names(key) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), brokerWait)
	defer cancel()
	return b.succeed(ctx, s, key) == nil
}
