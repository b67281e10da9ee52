package mesh

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
func (r *receiver) repair(ctx context.Context) (busy bool) {
	r.mu.Lock()
	catching := r.catching > 0
	r.mu.Unlock()
	now := time.Now()
	for h, t := range maps.All(r.origins) {
		if !t.dirty {
			continue
		}
		p, ok := r.book.Find(h)
		if !ok {
			r.forget(h)
			continue
		}
		wants, missing, waits := r.missing(&p, t)
		r.book.Figures(h, func(s *member.Stats) {
			s.Missing = missing
			if len(wants) == 0 && !waits {
				s.Behind = time.Time{}
			} else if s.Behind.IsZero() {
				s.Behind = now
			}
		})
		if len(wants) == 0 && !waits {
			t.heal()
			t.dirty = false
			continue
		}
		busy = true
		if len(wants) == 0 {
			continue
		}
		if t.since.IsZero() {
			t.since = now
			t.hurry()
		}
		if !now.Before(t.nextTry) && (!catching || now.Sub(t.since) >= catchUpWait) {
			r.ask(ctx, &p, t, wants)
		}
		r.reset(ctx, &p, t)
	}
	return busy
}

// hurry schedules the next ask shortly, and ends the long pauses of an origin that has not answered
// for long.
func (t *track) hurry() { t.nextTry, t.backoff = time.Now().Add(jitter(gapWait)), 2*gapWait }

// ask asks an origin for the missing arrays.
func (r *receiver) ask(ctx context.Context, p *member.Peer, t *track, wants []wire.ArrayHead) {
	h := p.Key.Hint()
	if t.stop == nil {
		r.subscribe(ctx, h, t)
	}
	r.book.Figures(h, func(s *member.Stats) { s.Asked++ })
	life := t.next
	if life == 0 {
		life = r.opts.Engine.Incarnation(p.ID)
	}
	var proofs [][]byte
	if t.suspect || t.next != 0 { // it may have gone back to before its newest incarnation
		proofs = t.said.About(wants)
	}
	r.requests.Want(&wire.Message{To: h, Incarnation: life, Boot: t.last.Boot, Wants: wants, Proofs: proofs})
	t.nextTry = time.Now().Add(jitter(t.backoff))
	t.backoff = min(2*t.backoff, maxBackoff)
}

// subscribe listens for the images that an origin publishes from now on.
func (r *receiver) subscribe(ctx context.Context, h wire.Hint, t *track) {
	t.stop = []func(){}
	for _, b := range r.buses {
		stop, err := b.ListenImages(h, func(a wire.Arrival) { r.deliver(ctx, b, a, true) })
		if err == nil {
			t.stop = append(t.stop, stop)
		}
	}
}

// heal ends a repair once nothing is missing.
func (t *track) heal() {
	for _, stop := range t.stop {
		stop()
	}
	t.stop, t.since, t.backoff = nil, time.Time{}, 0
}

// roomier reports whether there may now be room for an array that had none.
func (r *receiver) roomier(p *member.Peer, t *track, x wire.Ref, g filter.Geometry, waits *bool) bool {
	now, later := r.opts.Engine.Room(p.ID, engine.Need{Array: x.Array, Start: x.Start, Geometry: g, Pages: 1})
	*waits = *waits || later
	if now {
		delete(t.cramped, x)
	}
	return now
}

// missing returns the arrays to ask an origin for, and how many changes they lack. waits is set if
// more is missing, for which there is no memory yet.
func (r *receiver) missing(p *member.Peer, t *track) (wants []wire.ArrayHead, changes uint64, waits bool) {
	if len(t.heads) == 0 && len(t.pending) == 0 && len(t.gone) == 0 {
		return nil, 0, false
	}
	held := r.replica(p.ID)
	fresh := t.next != 0 // everything of a new incarnation is missing
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
	for ref, h := range t.heads {
		a, ok := held[ref]
		switch {
		case !r.opts.Engine.Keeps(ref.Array, ref.Start) || p.Refuses(ref.Start):
		case !ok:
			now, later := r.fits(p, t, held, engine.Need{Array: ref.Array, Start: ref.Start, Geometry: h.Geometry, Pages: 1})
			if waits = waits || later; now {
				want(ref, h.Version)
			} else if later {
				changes += h.Version
			}
		case !fresh && t.cramped[ref] && !r.roomier(p, t, ref, a.Geometry, &waits):
		case fresh || a.Partial != 0 || t.suspect || a.Version < h.Version:
			want(ref, h.Version)
		}
	}
	for _, ref := range t.gone {
		if a, ok := held[ref]; ok && !fresh {
			want(ref, a.Version)
		}
	}
	t.prune(r, p, held)
	for ref, rounds := range t.pending {
		if _, ok := t.heads[ref]; !ok || !slices.ContainsFunc(wants, func(w wire.ArrayHead) bool { return w.Ref == ref }) {
			want(ref, rounds[len(rounds)-1].To)
		}
	}
	return wants, changes, waits
}
