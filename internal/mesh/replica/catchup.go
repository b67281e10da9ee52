package replica

import (
	"context"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// markEvery is the number of stored messages after which the receiver is notified of the reading
// position.
const markEvery = 64

// CatchUp reads the stored messages of a bus: images of the origins of which this node holds
// nothing, and all deltas since the node was last connected. If it fails or drops a message, the
// next attempt continues from there.
func (r *Receiver) CatchUp(ctx context.Context, b wire.Transport) {
	if r.in.put(ctx, incoming{bus: b, catches: true}, true) != nil {
		return
	}
	r.mu.Lock()
	r.catching++
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.catching--
		r.mu.Unlock()
	}()
	r.imagesOfNew(ctx, b)
	limited, cancel := context.WithTimeout(ctx, catchUpLimit)
	defer cancel()
	n := 0
	err := b.StoredDeltas(limited, nil, r.unread(b), func(a wire.Arrival) bool {
		r.Deliver(ctx, b, a, true)
		r.mu.Lock()
		r.read[b] = a.Stored
		r.mu.Unlock()
		if n++; n%markEvery == 0 {
			return r.in.put(ctx, incoming{bus: b, until: a.Stored}, true) == nil
		}
		return ctx.Err() == nil
	})
	if err != nil && ctx.Err() == nil {
		r.opts.Log.Warn("messages stored by the broker not read to the end", "err", err,
			"consequence", "they are requested from peers")
	}
	if ctx.Err() == nil && (err == nil || limited.Err() != nil) {
		_ = r.in.put(ctx, incoming{bus: b, caught: true}, true) // after all messages read; fails if ctx ends
	}
}

// unread returns the time since which the stored deltas of a bus have not been read.
func (r *Receiver) unread(b wire.Transport) time.Time {
	since, _ := r.state.LastSeen(b.Name())
	if !since.IsZero() {
		since = since.Add(-seenMargin)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := r.read[b]; at.After(since) {
		return at
	}
	return since
}

// passed records how far a bus has been read, if x reports that. It returns false if x is a
// message.
func (r *Receiver) passed(x *incoming) bool {
	switch {
	case x.m != nil:
		return false
	case x.caught:
		r.caught[x.bus] = true
	case x.catches:
		delete(r.caught, x.bus)
	default:
		r.upTo[x.bus] = x.until
	}
	return true
}

// imagesOfNew reads the stored images of the origins of which this node holds nothing. Each origin
// has an equal share of the time, so that none delays the others for longer.
func (r *Receiver) imagesOfNew(ctx context.Context, b wire.Transport) {
	var list []wire.Hint
	for _, p := range r.book.List() {
		if len(r.opts.Engine.Replica(p.ID)) == 0 {
			list = append(list, p.Key.Hint())
		}
	}
	for i, end := 0, time.Now().Add(catchUpLimit); i < len(list); i++ {
		left := time.Until(end) / time.Duration(len(list)-i)
		limited, cancel := context.WithTimeout(ctx, left)
		r.fetch(limited, b, list[i], false)
		cancel()
	}
}

// fetch reads the stored images of one origin, and its deltas if wanted, as long as the origin is a
// peer.
func (r *Receiver) fetch(ctx context.Context, b wire.Transport, origin wire.Hint, deltas bool) {
	handle := func(a wire.Arrival) bool {
		r.Deliver(ctx, b, a, true)
		_, ok := r.book.Find(origin)
		return ok && ctx.Err() == nil
	}
	err := b.StoredImages(ctx, origin, handle)
	if err == nil && deltas {
		err = b.StoredDeltas(ctx, &origin, time.Time{}, handle)
	}
	if err != nil {
		r.opts.Log.Debug("stored images were not read", "origin", origin, "err", err)
	}
}
