package mesh

import (
	"context"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// lostIncarnation logs that the replica of a peer's former incarnation is kept.
func (r *receiver) lostIncarnation(p *member.Peer, incarnation uint64) {
	former := r.opts.Engine.FormerIncarnations(p.ID)
	if len(former) == 0 {
		return
	}
	keys := uint64(0)
	for _, a := range r.opts.Engine.Replica(former[len(former)-1].ID) {
		keys += a.Keys
	}
	r.opts.Log.Warn("peer has lost its store or was restored from a backup, and counts anew",
		"peer", p.Label(), "key", p.ID, "incarnation", incarnation, "keys_before", keys,
		"consequence", "what it counted before is kept here and counts until it ages out, except what the peer still has",
		"remedy", "to drop it, run \"bulkhead peer forget\" with the peer's name or key")
}

// supersede drops arrays of a peer's former incarnations that the present one was restored with: by
// the lineage in the head, its first process found counts in them. All other arrays were begun
// anew, so both count. A former incarnation of an aggregate is dropped.
func (r *receiver) supersede(ctx context.Context, p *member.Peer, t *track) {
	former := r.opts.Engine.FormerIncarnations(p.ID)
	if len(former) == 0 {
		return
	}
	aggregate := false
	r.book.Figures(p.Key.Hint(), func(s *member.Stats) { aggregate = len(s.Organisations) > 0 })
	if aggregate {
		// A sum is made anew from all its members at each start, so none of it is lost.
		if err := r.opts.Engine.ForgetFormer(ctx, p.ID); err != nil {
			r.refuseError(p, err)
		}
		return
	}
	restored := make(map[engine.ArrayKey]bool)
	for x, h := range t.heads {
		restored[engine.ArrayKey{Array: x.Array, Start: x.Start}] = h.Lineage.Restored()
	}
	r.drop(ctx, p, former, restored)
}

// supersedeBy is [receiver.supersede] for an array whose image came before a head.
func (r *receiver) supersedeBy(ctx context.Context, p *member.Peer, x *wire.Image) {
	if former := r.opts.Engine.FormerIncarnations(p.ID); len(former) > 0 && x.Lineage.Restored() {
		r.drop(ctx, p, former, map[engine.ArrayKey]bool{{Array: x.Array, Start: x.Start}: true})
	}
}

// drop drops those arrays of former incarnations that were restored.
func (r *receiver) drop(ctx context.Context, p *member.Peer, former []engine.FormerIncarnation, restored map[engine.ArrayKey]bool) {
	var found []engine.ArrayKey
	for _, f := range former {
		for _, a := range r.opts.Engine.Replica(f.ID) {
			if key := (engine.ArrayKey{Array: a.Array, Start: a.Start}); restored[key] {
				found = append(found, key)
			}
		}
	}
	if len(found) == 0 {
		return
	}
	if err := r.opts.Engine.Supersede(ctx, p.ID, found); err != nil {
		r.refuseError(p, err)
		return
	}
	r.opts.Log.Info("arrays of a peer's former incarnation replaced by restored ones", "peer", p.Label(),
		"arrays", len(found))
}
