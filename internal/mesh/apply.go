package mesh

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// jitter returns a random duration from d/2 to d, so that nodes that miss the same message do not
// ask for it at the same moment.
func jitter(d time.Duration) time.Duration {
	return d/2 + time.Duration(rand.Int64N(int64(max(d/2, 1))))
}

// maxGenerations is the most arrays of one kind that are kept for a peer, because every check reads
// all of them. An honest peer has as many as this node keeps itself, and a few more where a full
// array made it begin the next one early.
const maxGenerations = 64

// fits reports whether there is memory for the needs of a peer's array; held has the peer's present
// arrays. If there is none now, but will be once other arrays have been merged, waits is true.
// Otherwise fits counts a refusal.
func (r *receiver) fits(p *peer, t *track, held map[ref]engine.ArrayState, n engine.Need) (now, waits bool) {
	at := ref{n.Array, n.Start}
	if _, ok := held[at]; !ok && generations(held, n.Array) >= maxGenerations {
		if !t.full {
			t.full = true
			r.refuse(p.key.hint(), reasonLimit,
				fmt.Sprintf("more than %d generations of one peer: they are too short for how long this node keeps them",
					maxGenerations))
		}
		return false, false
	}
	now, waits = r.m.opts.Engine.Room(p.ID, n)
	if now {
		delete(t.cramped, at)
		return true, false
	}
	t.cramped[at] = true
	if !waits && !t.full {
		t.full = true
		r.refuse(p.key.hint(), reasonMemory,
			fmt.Sprintf("%s of generation %d exceeds the peer's share of mesh.memory_bytes, %d bytes", n.Array, n.Start,
				r.m.opts.Engine.RemoteMemory().Limit))
	}
	return false, waits
}

// generations returns the number of held arrays of one kind.
func generations(held map[ref]engine.ArrayState, a engine.Array) (n int) {
	for x := range held {
		if x.array == a {
			n++
		}
	}
	return n
}

// A batch holds rounds of different arrays of one origin that are applied with one journal entry.
type batch struct {
	rounds []round
	parts  []engine.Parsed // the decoded rounds, in the same order
}

func (b *batch) has(x ref) bool {
	return slices.ContainsFunc(b.rounds, func(r round) bool { return r.ref == x })
}

// delta applies the rounds that continue the replica. It holds rounds that will continue it once
// earlier ones arrive, and ignores rounds that were applied before.
func (r *receiver) delta(ctx context.Context, p *peer, t *track, m *message) {
	if t.suspect {
		r.refuse(p.key.hint(), reasonSuspect, "")
		return
	}
	for i := range m.rounds {
		m.rounds[i].boot, m.rounds[i].said = m.stamp.boot, m.said
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
		if part, ok := r.admit(p, t, held, &x); ok {
			if len(b.parts) > 0 && b.parts[0].Geometry.KeyID != part.Geometry.KeyID {
				r.apply(ctx, p, t, held, &b) // all parts of a journal entry have the same secret
			}
			b.rounds = append(b.rounds, x)
			b.parts = append(b.parts, part)
		}
	}
	r.apply(ctx, p, t, held, &b)
}

// admit decides how a round is handled, and returns it decoded if it is to be applied now.
func (r *receiver) admit(p *peer, t *track, held map[ref]engine.ArrayState, x *round) (part engine.Parsed, now bool) {
	a, ok := held[x.ref]
	geometry := x.geometry
	if ok {
		geometry = a.Geometry
	}
	switch {
	case !r.m.opts.Engine.Keeps(x.array, x.start):
		r.early(p, x.ref)
		return part, false // expired on this node
	case p.refuses(x.start):
		r.refuse(p.key.hint(), reasonRollback, "")
		return part, false
	case x.announce && x.geometry != geometry:
		r.refuse(p.key.hint(), reasonGeometry, fmt.Sprintf("round of %v for a replica of %v", x.geometry, geometry))
		return part, false
	case ok && x.to <= a.Version && a.Partial == 0:
		return part, false // already applied
	case a.Partial != 0 || x.from != a.Version || !ok && !x.announce:
		r.hold(p, t, x)
		return part, false
	}
	if !r.continues(p, t, a, x) {
		return part, false
	}
	part, err := r.m.opts.Engine.ParsePart(engine.Part{
		Array: x.array, Start: x.start, Geometry: geometry, Round: x.data, From: x.from, To: x.to, Boot: x.boot,
	})
	if err != nil {
		r.refuseError(p, err)
		return part, false
	}
	now, waits := r.fits(p, t, held, engine.Need{Array: x.array, Start: x.start, Geometry: geometry, Round: part.Adds()})
	if waits {
		r.hold(p, t, x)
	}
	return part, now
}

// continues reports whether a round that begins at the version of a replica was recorded on the
// same content. A round of a process whose lineage has not arrived yet waits for it.
func (r *receiver) continues(p *peer, t *track, a engine.ArrayState, x *round) bool {
	if a.Version == 0 || x.boot == a.Boot {
		return true
	}
	l, boot := x.lineage, x.boot
	if h, ok := t.heads[x.ref]; l == nil && ok && t.next == 0 && h.boot >= x.boot {
		l, boot = h.lineage, h.boot
	}
	switch {
	case x.boot < a.Boot: // from a past that was rolled back
	case l == nil:
		r.hold(p, t, x)
	case l.contains(a, boot):
		return true
	default:
		r.doubt(p, t)
	}
	return false
}

// early counts a refusal of a generation that is not kept because it begins in the future: a clock
// is wrong, or was. Expired generations are ignored without a refusal.
func (r *receiver) early(p *peer, x ref) {
	if x.start >= r.m.opts.Engine.Horizon(x.array) {
		r.refuse(p.key.hint(), reasonEarly,
			fmt.Sprintf("its generation of %s starts at %s: its clock is or was ahead, or this node's is behind",
				x.array, time.Unix(int64(min(x.start, 1<<40)), 0).UTC().Format(time.RFC3339)))
	}
}

// doubt stops accepting a peer's rounds until the peer has learnt that it went back in time.
func (r *receiver) doubt(p *peer, t *track) {
	if !t.suspect {
		t.suspect = true
		if t.doubted.IsZero() {
			t.doubted = time.Now()
		}
		r.refuse(p.key.hint(), reasonSuspect, "its earlier counts are missing from its arrays")
	}
}

// grow charges a peer for an applied round. It quarantines the peer if the peer adds too much, or
// if the array reports too many keys that were never added.
func (r *receiver) grow(ctx context.Context, p *peer, t *track, a engine.ArrayState, parsed *arrays.Round) {
	var why string
	r.figures(p.key.hint(), func(s *stats) { why = s.growth.charge(&r.m.opts, time.Now(), a.Array, parsed) })
	r.suspend(ctx, p, cmp.Or(why, r.showsTooMuch(p, t, a)))
}

// suspend quarantines a peer if why is not empty.
func (r *receiver) suspend(ctx context.Context, p *peer, why string) {
	if why != "" && p.Quarantine == "" {
		p.Quarantine = why
		r.m.quarantine(ctx, p.key.hint(), why)
	}
}

// apply passes a batch to the engine and empties it.
func (r *receiver) apply(ctx context.Context, p *peer, t *track, held map[ref]engine.ArrayState, b *batch) {
	if len(b.parts) == 0 {
		return
	}
	err := r.m.opts.Engine.ApplyRemote(ctx, p.ID, b.parts)
	if err != nil && len(b.parts) > 1 {
		// One bad part must not keep the other parts out.
		for i := range b.parts {
			r.apply(ctx, p, t, held, &batch{b.rounds[i : i+1 : i+1], b.parts[i : i+1 : i+1]})
		}
		*b = batch{}
		return
	}
	if err != nil {
		if errors.Is(err, engine.ErrGap) {
			r.hold(p, t, &b.rounds[0])
		}
		r.refuseError(p, err)
		*b = batch{}
		return
	}
	for i, x := range b.rounds {
		a := held[x.ref]
		a.Array, a.Start, a.Geometry, a.Version, a.Boot = x.array, x.start, b.parts[i].Geometry, x.to, x.boot
		a.Keys += uint64(b.parts[i].Adds().Len())
		held[x.ref] = a
		t.said.keep(x.ref, x.said)
		// Charge only after the round is applied: a round that a full disk refuses comes again.
		r.grow(ctx, p, t, a, b.parts[i].Adds())
	}
	n := uint64(len(b.rounds))
	r.figures(p.key.hint(), func(s *stats) { s.applied += n })
	*b = batch{}
}

// roundCost is the memory in bytes that a waiting round is charged in addition to its data. It
// bounds the number of waiting rounds, and so the time to search them.
const roundCost = 512

func (x *round) cost() int { return roundCost + len(x.data) + len(x.said) }

// hold keeps a round until the rounds before it arrive. A round beyond the limit is dropped,
// counted as a refusal of its sender, and requested again later.
func (r *receiver) hold(p *peer, t *track, x *round) {
	if !t.hold(x) {
		r.refuse(p.key.hint(), reasonWaiting, fmt.Sprintf("rounds of more than %d bytes wait for those before", maxPending))
	}
}

// hold reports whether the round is held: there was room for it, or it was held already.
func (t *track) hold(x *round) bool {
	list := t.pending[x.ref]
	i, found := slices.BinarySearchFunc(list, x, func(a round, b *round) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
	if found {
		return true
	}
	if t.waiting+x.cost() > maxPending {
		return false
	}
	t.waiting += x.cost()
	kept := *x
	kept.data = bytes.Clone(x.data) // a copy, so that the message can be freed
	t.pending[x.ref] = slices.Insert(list, i, kept)
	return true
}

// prune drops the waiting rounds that have been applied or are no longer wanted.
func (t *track) prune(r *receiver, p *peer, held map[ref]engine.ArrayState) {
	for x := range t.pending {
		t.pruneArray(r, p, held, x)
	}
}

func (t *track) pruneArray(r *receiver, p *peer, held map[ref]engine.ArrayState, x ref) {
	a, ok := held[x]
	unwanted := !r.m.opts.Engine.Keeps(x.array, x.start) || p.refuses(x.start)
	list := slices.DeleteFunc(t.pending[x], func(y round) bool {
		gone := unwanted || ok && (y.boot < a.Boot || a.Partial == 0 && y.to <= a.Version)
		if gone {
			t.waiting -= y.cost()
		}
		return gone
	})
	if t.pending[x] = list; len(list) == 0 {
		delete(t.pending, x)
	}
}

// drain applies the waiting rounds that now continue the replica.
func (r *receiver) drain(ctx context.Context, p *peer, t *track, held map[ref]engine.ArrayState) {
	for x := range t.pending {
		for {
			a, ok := held[x]
			t.pruneArray(r, p, held, x)
			list := t.pending[x]
			if len(list) == 0 || a.Partial != 0 || list[0].from != a.Version || !ok && !list[0].announce {
				break
			}
			next := list[0]
			t.pending[x] = list[1:]
			t.waiting -= next.cost()
			r.rounds(ctx, p, t, held, []round{next})
			if held[x].Version == a.Version {
				break // refused: the gap will be asked for
			}
		}
	}
}

// image loads some pages of an array into the replica.
func (r *receiver) image(ctx context.Context, p *peer, t *track, m *message) {
	x := &m.image
	held := r.replica(p.ID)
	a, ok := held[x.ref]
	switch {
	case !r.m.opts.Engine.Keeps(x.array, x.start):
		r.early(p, x.ref)
		return
	case p.refuses(x.start):
		r.refuse(p.key.hint(), reasonRollback, "")
		return
	case ok && a.Partial == 0 && x.at <= a.Version, a.Partial > x.at:
		return // older than the replica
	case m.stamp.boot < a.Boot:
		return // from a past that may have been rolled back
	case !x.lineage.contains(a, m.stamp.boot):
		r.doubt(p, t)
		return
	}
	if now, _ := r.fits(p, t, held,
		engine.Need{Array: x.array, Start: x.start, Geometry: x.geometry, Pages: len(x.pages)}); !now {
		return // if there will be room, the image is asked for again
	}
	parts := make([]engine.Parsed, len(x.pages))
	for i, page := range x.pages {
		var err error
		parts[i], err = r.m.opts.Engine.ParsePart(engine.Part{Array: x.array, Start: x.start, Geometry: x.geometry,
			Image: page, At: x.at, Boot: m.stamp.boot})
		if err != nil {
			r.refuseError(p, err)
			return
		}
	}
	r.supersedeBy(ctx, p, x) // first, or both would count
	if err := r.m.opts.Engine.ApplyRemote(ctx, p.ID, parts); err != nil {
		r.refuseError(p, err)
		return
	}
	t.said.keep(x.ref, m.said)
	n := uint64(len(parts))
	r.figures(p.key.hint(), func(s *stats) { s.pages += n })
	held = r.replica(p.ID)
	a = held[x.ref]
	// The pages received so far count, even if some images are missing.
	r.suspend(ctx, p, cmp.Or(tooFull(&r.m.opts, r.m.opts.Now(), a), r.showsTooMuch(p, t, a)))
	if a.Partial != 0 {
		return // more to come
	}
	r.drain(ctx, p, t, held)
}
