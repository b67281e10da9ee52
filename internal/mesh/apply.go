package mesh

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// jitter returns a duration between half of d and d, so that those who miss the
// same do not ask at the same moment.
func jitter(d time.Duration) time.Duration {
	return d/2 + time.Duration(rand.Int64N(int64(max(d/2, 1))))
}

// fits reports whether one more array of the geometry is within the memory
// that replicas may take.
func (r *receiver) fits(g filter.Geometry) bool {
	total := g.Bytes()
	for _, p := range r.m.peerList() {
		for _, a := range r.m.opts.Engine.Replica(p.ID) {
			total += a.Bytes
		}
	}
	return total <= r.m.opts.Memory
}

// A batch is rounds of different arrays of one origin that are applied with one
// journal entry.
type batch struct {
	rounds []round
	parts  []engine.Part
}

func (b *batch) has(x ref) bool {
	return slices.ContainsFunc(b.rounds, func(r round) bool { return r.ref == x })
}

// delta takes the rounds that continue the replica, keeps those that will once
// others are here, and ignores those that it has.
func (r *receiver) delta(ctx context.Context, p *peer, t *track, m *message) {
	if t.suspect {
		r.refuse(p.key.hint(), reasonSuspect, "")
		return
	}
	for i := range m.rounds {
		m.rounds[i].boot = m.stamp.boot
	}
	held := r.replica(p.ID)
	before := len(held)
	r.rounds(ctx, p, t, held, m.rounds)
	r.figures(p.key.hint(), func(s *stats) { s.lag = max(0, r.m.opts.Now().Sub(m.stamp.time())) })
	if len(held) > before || len(t.pending) > 0 {
		r.drain(ctx, p, t, held)
	}
}

func (r *receiver) rounds(ctx context.Context, p *peer, t *track, held map[ref]engine.ArrayState, rounds []round) {
	var b batch
	for _, x := range rounds {
		if b.has(x.ref) {
			r.apply(ctx, p, t, held, &b)
		}
		part, ok := r.admit(ctx, p, t, held, &x)
		if ok {
			b.rounds = append(b.rounds, x)
			b.parts = append(b.parts, part)
		}
	}
	r.apply(ctx, p, t, held, &b)
}

// admit decides what to do with a round, and returns it as a part if it is to
// be applied now.
func (r *receiver) admit(ctx context.Context, p *peer, t *track, held map[ref]engine.ArrayState, x *round) (engine.Part, bool) {
	a, ok := held[x.ref]
	geometry := x.geometry
	if ok {
		geometry = a.Geometry
	}
	none := engine.Part{}
	switch {
	case !r.m.opts.Engine.Keeps(x.array, x.start):
		return none, false // expired here
	case p.refuses(x.start):
		r.refuse(p.key.hint(), reasonRollback, "")
		return none, false
	case x.announce && x.geometry != geometry:
		r.refuse(p.key.hint(), reasonGeometry, fmt.Sprintf("round of %v for a replica of %v", x.geometry, geometry))
		return none, false
	case ok && x.to <= a.Version && a.Partial == 0:
		return none, false // known
	case a.Partial != 0 || x.from != a.Version || !ok && !x.announce:
		t.hold(x)
		return none, false
	case !ok && !r.fits(geometry):
		if !t.full {
			t.full = true
			r.refuse(p.key.hint(), reasonMemory, fmt.Sprintf("an array of %d bytes more than mesh.memory allows, %d bytes", geometry.Bytes(), r.m.opts.Memory))
		}
		return none, false
	}
	if !r.continues(p, t, a, x) {
		return none, false
	}
	whole := x.whole(geometry)
	parsed, err := filter.ParseRound(whole, geometry)
	if err == nil && (parsed.From != x.from || parsed.To != x.to || parsed.Generation != x.start) {
		err = fmt.Errorf("round of generation %d from %d to %d where %d, %d, %d are announced", parsed.Generation, parsed.From, parsed.To, x.start, x.from, x.to)
	}
	if err != nil {
		r.refuse(p.key.hint(), reasonAbsurd, err.Error())
		return none, false
	}
	r.grow(ctx, p, x.array, parsed)
	return engine.Part{Array: x.array, Start: x.start, Geometry: geometry, Round: whole, Boot: x.boot}, true
}

// continues reports whether a round from the version of a replica on was also
// recorded on what the replica holds. A round of a process that has not told
// what it found waits until it does.
func (r *receiver) continues(p *peer, t *track, a engine.ArrayState, x *round) bool {
	if a.Version == 0 || x.boot == a.Boot {
		return true
	}
	l, boot := x.lineage, x.boot
	if h, ok := t.heads[x.ref]; l == nil && ok && t.next == 0 && h.boot >= x.boot {
		l, boot = h.lineage, h.boot
	}
	switch {
	case x.boot < a.Boot: // of a past that is no longer
	case l == nil:
		t.hold(x)
	case l.contains(a, boot):
		return true
	default:
		r.doubt(p, t)
	}
	return false
}

// doubt stops taking an origin's rounds, until it has been told that it has gone
// back in time.
func (r *receiver) doubt(p *peer, t *track) {
	if !t.suspect {
		t.suspect = true
		r.refuse(p.key.hint(), reasonSuspect, "what it had counted before is missing from its arrays")
	}
}

// grow charges the peer for a round, and quarantines it if it adds too much.
func (r *receiver) grow(ctx context.Context, p *peer, a engine.Array, parsed *filter.Round) {
	var why string
	r.figures(p.key.hint(), func(s *stats) { why = s.growth.charge(&r.m.opts, time.Now(), a, parsed) })
	if why != "" && p.Quarantine == "" {
		p.Quarantine = why
		r.m.quarantine(ctx, p.key.hint(), why)
	}
}

// apply gives a batch to the engine and empties it.
func (r *receiver) apply(ctx context.Context, p *peer, t *track, held map[ref]engine.ArrayState, b *batch) {
	if len(b.parts) == 0 {
		return
	}
	err := r.m.opts.Engine.ApplyRemote(ctx, p.ID, b.parts)
	if err != nil && len(b.parts) > 1 {
		// One bad part must not keep the others out.
		for i := range b.parts {
			r.apply(ctx, p, t, held, &batch{b.rounds[i : i+1 : i+1], b.parts[i : i+1 : i+1]})
		}
		*b = batch{}
		return
	}
	if err != nil {
		if errors.Is(err, engine.ErrGap) {
			t.hold(&b.rounds[0])
		}
		r.refuseError(p, err)
		*b = batch{}
		return
	}
	for i, x := range b.rounds {
		a := held[x.ref]
		a.Array, a.Start, a.Geometry, a.Version, a.Boot = x.array, x.start, b.parts[i].Geometry, x.to, x.boot
		held[x.ref] = a
	}
	n := uint64(len(b.rounds))
	r.figures(p.key.hint(), func(s *stats) { s.applied += n })
	*b = batch{}
}

// hold keeps a round until those before it are here. What is over the limit is
// forgotten; it is asked for again.
func (t *track) hold(x *round) {
	list := t.pending[x.ref]
	if slices.ContainsFunc(list, func(y round) bool { return y.from == x.from && y.to == x.to }) {
		return
	}
	if t.waiting+len(x.data) > maxPending {
		return
	}
	t.waiting += len(x.data)
	list = append(list, *x)
	slices.SortFunc(list, func(a, b round) int {
		switch {
		case a.from < b.from:
			return -1
		case a.from > b.from:
			return 1
		}
		return 0
	})
	t.pending[x.ref] = list
}

// prune forgets the rounds that wait and are known by now, or not wanted.
func (t *track) prune(r *receiver, p *peer, held map[ref]engine.ArrayState) {
	for x, list := range t.pending {
		a, ok := held[x]
		unwanted := !r.m.opts.Engine.Keeps(x.array, x.start) || p.refuses(x.start)
		list = slices.DeleteFunc(list, func(y round) bool {
			gone := unwanted || ok && (y.boot < a.Boot || a.Partial == 0 && y.to <= a.Version)
			if gone {
				t.waiting -= len(y.data)
			}
			return gone
		})
		if t.pending[x] = list; len(list) == 0 {
			delete(t.pending, x)
		}
	}
}

// drain applies what waits and now continues the replica.
func (r *receiver) drain(ctx context.Context, p *peer, t *track, held map[ref]engine.ArrayState) {
	for x := range t.pending {
		for {
			a, ok := held[x]
			t.prune(r, p, held)
			list := t.pending[x]
			if len(list) == 0 || a.Partial != 0 || list[0].from != a.Version || !ok && !list[0].announce {
				break
			}
			next := list[0]
			t.pending[x] = list[1:]
			t.waiting -= len(next.data)
			r.rounds(ctx, p, t, held, []round{next})
			if held[x].Version == a.Version {
				break // refused: the gap is asked for
			}
		}
	}
}

// image takes some pages of an array.
func (r *receiver) image(ctx context.Context, p *peer, t *track, m *message) {
	x := &m.image
	held := r.replica(p.ID)
	a, ok := held[x.ref]
	switch {
	case !r.m.opts.Engine.Keeps(x.array, x.start):
		return
	case p.refuses(x.start):
		r.refuse(p.key.hint(), reasonRollback, "")
		return
	case ok && a.Partial == 0 && x.at <= a.Version, a.Partial > x.at:
		return // older than what is here
	case ok && m.stamp.boot < a.Boot:
		return // of a past that may be no longer
	case ok && max(a.Version, a.Partial) > 0 && !x.lineage.contains(a, m.stamp.boot):
		r.doubt(p, t)
		return
	case !ok && !r.fits(x.geometry):
		if !t.full {
			t.full = true
			r.refuse(p.key.hint(), reasonMemory, fmt.Sprintf("an array of %d bytes more than mesh.memory allows, %d bytes", x.geometry.Bytes(), r.m.opts.Memory))
		}
		return
	}
	parts := make([]engine.Part, 0, len(x.pages))
	for _, page := range x.pages {
		parts = append(parts, engine.Part{Array: x.array, Start: x.start, Geometry: x.geometry, Image: page, At: x.at, Boot: m.stamp.boot})
	}
	if err := r.m.opts.Engine.ApplyRemote(ctx, p.ID, parts); err != nil {
		r.refuseError(p, err)
		return
	}
	n := uint64(len(parts))
	r.figures(p.key.hint(), func(s *stats) { s.pages += n })
	held = r.replica(p.ID)
	if a = held[x.ref]; a.Partial != 0 {
		return // more to come
	}
	if why := tooFull(&r.m.opts, r.m.opts.Now(), a); why != "" && p.Quarantine == "" {
		r.m.quarantine(ctx, p.key.hint(), why)
	}
	r.drain(ctx, p, t, held)
}
