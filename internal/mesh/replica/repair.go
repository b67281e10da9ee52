package replica

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// repair asks each origin whose rounds or arrays are incomplete here. It reports whether there are
// any.
func (r *Receiver) repair(ctx context.Context) (busy bool) {
	r.mu.Lock()
	catching := r.catching > 0
	r.mu.Unlock()
	now := time.Now()
	for h, o := range maps.All(r.origins) {
		if !o.dirty {
			continue
		}
		p, ok := r.book.Find(h)
		if !ok {
			r.Forget(h)
			continue
		}
		o.peer = p
		wants, missing, waits := o.missing()
		r.book.Figures(h, func(s *member.Stats) {
			s.Missing = missing
			if len(wants) == 0 && !waits {
				s.Behind = time.Time{}
			} else if s.Behind.IsZero() {
				s.Behind = now
			}
		})
		if len(wants) == 0 && !waits {
			o.heal()
			o.dirty = false
			continue
		}
		busy = true
		if len(wants) == 0 {
			continue
		}
		if o.since.IsZero() {
			o.since = now
			o.hurry()
		}
		if !now.Before(o.nextTry) && (!catching || now.Sub(o.since) >= catchUpWait) {
			o.ask(ctx, wants)
		}
		o.reset(ctx)
	}
	return busy
}

// hurry schedules the next ask shortly, and ends the long pauses of an origin that has not answered
// for long.
func (o *origin) hurry() { o.nextTry, o.backoff = time.Now().Add(jitter(gapWait)), 2*gapWait }

// ask asks an origin for the missing arrays.
func (o *origin) ask(ctx context.Context, wants []wire.ArrayHead) {
	h := o.peer.Key.Hint()
	if o.stop == nil {
		o.subscribe(ctx, h)
	}
	o.figures(func(s *member.Stats) { s.Asked++ })
	life := o.next
	if life == 0 {
		life = o.engine.Incarnation(o.peer.ID)
	}
	var proofs [][]byte
	if o.suspect || o.next != 0 { // it may have gone back to before its newest incarnation
		proofs = o.evidence.About(wants)
	}
	o.r.requests.Want(&wire.Message{To: h, Incarnation: life, Boot: o.last.Boot, Wants: wants, Proofs: proofs})
	o.nextTry = time.Now().Add(jitter(o.backoff))
	o.backoff = min(2*o.backoff, maxBackoff)
}

// subscribe listens for the images that an origin publishes from now on.
func (o *origin) subscribe(ctx context.Context, h wire.Hint) {
	for _, b := range o.r.buses {
		stop, err := b.ListenImages(h, func(a wire.Arrival) { o.r.Deliver(ctx, b, a, true) })
		if err == nil {
			o.stop = append(o.stop, stop)
		}
	}
}

// heal ends a repair once nothing is missing.
func (o *origin) heal() {
	for _, stop := range o.stop {
		stop()
	}
	o.stop, o.since, o.backoff = nil, time.Time{}, 0
}

// roomier reports whether there may now be room for an array that had none.
func (o *origin) roomier(x wire.Ref, g filter.Geometry, waits *bool) bool {
	found := roomOf(o.engine.Room(o.peer.ID, engine.Need{Array: x.Array, Start: x.Start, Geometry: g, Pages: 1}))
	*waits = *waits || found == roomLater
	if found == roomNow {
		delete(o.cramped, x)
	}
	return found == roomNow
}

// missing returns the arrays to ask an origin for, and how many changes they lack. waits is set if
// more is missing, for which there is no memory yet.
func (o *origin) missing() (wants []wire.ArrayHead, changes uint64, waits bool) {
	if len(o.heads) == 0 && len(o.pending) == 0 && len(o.gone) == 0 {
		return nil, 0, false
	}
	held := o.replica()
	fresh := o.next != 0 // everything of a new incarnation is missing
	want := func(r wire.Ref, version uint64) {
		w := wire.ArrayHead{Ref: r}
		have := uint64(0)
		if a, ok := held[r]; ok && !fresh {
			w.Version, w.Boot, w.Partial = max(a.Version, a.Partial), a.Boot, a.Partial != 0
			have = a.Version
		}
		if len(wants) < wire.MaxParts/2 {
			wants = append(wants, w)
		}
		changes += max(version, have) - have
	}
	for ref, h := range o.heads {
		a, ok := held[ref]
		switch {
		case !o.engine.Keeps(ref.Array, ref.Start) || o.peer.Refuses(ref.Start):
		case !ok:
			need := engine.Need{Array: ref.Array, Start: ref.Start, Geometry: h.Geometry, Pages: 1}
			switch o.fits(held, need) {
			case roomNow:
				want(ref, h.Version)
			case roomLater:
				waits = true
				changes += h.Version
			}
		case !fresh && o.cramped[ref] && !o.roomier(ref, a.Geometry, &waits):
		case fresh || a.Partial != 0 || o.suspect || a.Version < h.Version:
			want(ref, h.Version)
		}
	}
	for _, ref := range o.gone {
		if a, ok := held[ref]; ok && !fresh {
			want(ref, a.Version)
		}
	}
	o.prune(held)
	for ref, rounds := range o.pending {
		if _, ok := o.heads[ref]; !ok || !slices.ContainsFunc(wants, func(w wire.ArrayHead) bool { return w.Ref == ref }) {
			want(ref, rounds[len(rounds)-1].To)
		}
	}
	return wants, changes, waits
}
