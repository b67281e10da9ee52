package replica

import (
	"context"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// lostIncarnation logs that the replica of a peer's former incarnation is kept.
func (o *origin) lostIncarnation(incarnation uint64) {
	former := o.engine.FormerIncarnations(o.peer.ID)
	if len(former) == 0 {
		return
	}
	keys := uint64(0)
	for _, a := range o.engine.Replica(former[len(former)-1].ID) {
		keys += a.Keys
	}
	o.r.opts.Log.Warn("peer has lost its store or was restored from a backup, and counts anew",
		"peer", o.peer.Label(), "key", o.peer.ID, "incarnation", incarnation, "keys_before", keys,
		"consequence", "what it counted before is kept here and counts until it ages out, except what the peer still has",
		"hint", "to drop it, run \"bulkhead peer forget\" with the peer's name or key")
}

// supersede drops arrays of a peer's former incarnations that the present one was restored with: by
// the lineage in the head, its first process found counts in them. All other arrays were begun
// anew, so both count. A former incarnation of an aggregate is dropped.
func (o *origin) supersede(ctx context.Context) {
	former := o.engine.FormerIncarnations(o.peer.ID)
	if len(former) == 0 {
		return
	}
	aggregate := false
	o.figures(func(s *member.Stats) { aggregate = len(s.Organisations) > 0 })
	if aggregate {
		// A sum is made anew from all its members at each start, so none of it is lost.
		if err := o.engine.ForgetFormer(ctx, o.peer.ID); err != nil {
			o.refuseError(err)
		}
		return
	}
	restored := make(map[engine.ArrayKey]bool)
	for x, h := range o.heads {
		restored[engine.ArrayKey{Array: x.Array, Start: x.Start}] = h.Lineage.Restored()
	}
	o.drop(ctx, former, restored)
}

// supersedeBy is [origin.supersede] for an array whose image came before a head.
func (o *origin) supersedeBy(ctx context.Context, x *wire.Image) {
	if former := o.engine.FormerIncarnations(o.peer.ID); len(former) > 0 && x.Lineage.Restored() {
		o.drop(ctx, former, map[engine.ArrayKey]bool{{Array: x.Array, Start: x.Start}: true})
	}
}

// drop drops those arrays of former incarnations that were restored.
func (o *origin) drop(ctx context.Context, former []engine.FormerIncarnation, restored map[engine.ArrayKey]bool) {
	var found []engine.ArrayKey
	for _, f := range former {
		for _, a := range o.engine.Replica(f.ID) {
			if key := (engine.ArrayKey{Array: a.Array, Start: a.Start}); restored[key] {
				found = append(found, key)
			}
		}
	}
	if len(found) == 0 {
		return
	}
	if err := o.engine.Supersede(ctx, o.peer.ID, found); err != nil {
		o.refuseError(err)
		return
	}
	o.r.opts.Log.Info("arrays of a peer's former incarnation replaced by restored ones", "peer", o.peer.Label(),
		"arrays", len(found))
}
