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

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
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
func (r *receiver) fits(p *member.Peer, t *track, held map[wire.Ref]engine.ArrayState, n engine.Need) (now, waits bool) {
	at := wire.Ref{Array: n.Array, Start: n.Start}
	if _, ok := held[at]; !ok && generations(held, n.Array) >= maxGenerations {
		if !t.full {
			t.full = true
			r.book.Refuse(p.Key.Hint(), member.ReasonLimit,
				fmt.Sprintf("more than %d generations of one peer: they are too short for how long this node keeps them",
					maxGenerations))
		}
		return false, false
	}
	now, waits = r.opts.Engine.Room(p.ID, n)
	if now {
		delete(t.cramped, at)
		return true, false
	}
	t.cramped[at] = true
	if !waits && !t.full {
		t.full = true
		r.book.Refuse(p.Key.Hint(), member.ReasonMemory,
			fmt.Sprintf("%s of generation %d exceeds the peer's share of mesh.memory_bytes, %d bytes", n.Array, n.Start,
				r.opts.Engine.RemoteMemory().Limit))
	}
	return false, waits
}

// generations returns the number of held arrays of one kind.
func generations(held map[wire.Ref]engine.ArrayState, a engine.Array) (n int) {
	for x := range held {
		if x.Array == a {
			n++
		}
	}
	return n
}

// A batch holds rounds of different arrays of one origin that are applied with one journal entry.
type batch struct {
	rounds []wire.Round
	parts  []engine.Parsed // the decoded rounds, in the same order
}

func (b *batch) has(x wire.Ref) bool {
	return slices.ContainsFunc(b.rounds, func(r wire.Round) bool { return r.Ref == x })
}

// delta applies the rounds that continue the replica. It holds rounds that will continue it once
// earlier ones arrive, and ignores rounds that were applied before.
func (r *receiver) delta(ctx context.Context, p *member.Peer, t *track, m *wire.Message) {
	if t.suspect {
		r.book.Refuse(p.Key.Hint(), member.ReasonSuspect, "")
		return
	}
	for i := range m.Rounds {
		m.Rounds[i].Boot, m.Rounds[i].Statement = m.Stamp.Boot, m.Statement
	}
	held := r.replica(p.ID)
	before := len(held)
	r.rounds(ctx, p, t, held, m.Rounds)
	r.book.Figures(p.Key.Hint(), func(s *member.Stats) { s.Lag = max(0, r.opts.Now().Sub(m.Stamp.Time())) })
	if len(held) > before || len(t.pending) > 0 {
		r.drain(ctx, p, t, held)
	}
}

func (r *receiver) rounds(ctx context.Context, p *member.Peer, t *track, held map[wire.Ref]engine.ArrayState, rounds []wire.Round) {
	var b batch
	for _, x := range rounds {
		if b.has(x.Ref) {
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
func (r *receiver) admit(p *member.Peer, t *track, held map[wire.Ref]engine.ArrayState, x *wire.Round) (part engine.Parsed, now bool) {
	a, ok := held[x.Ref]
	geometry := x.Geometry
	if ok {
		geometry = a.Geometry
	}
	switch {
	case !r.opts.Engine.Keeps(x.Array, x.Start):
		r.early(p, x.Ref)
		return part, false // expired on this node
	case p.Refuses(x.Start):
		r.book.Refuse(p.Key.Hint(), member.ReasonRollback, "")
		return part, false
	case x.Announce && x.Geometry != geometry:
		r.book.Refuse(p.Key.Hint(), member.ReasonGeometry, fmt.Sprintf("round of %v for a replica of %v", x.Geometry, geometry))
		return part, false
	case ok && x.To <= a.Version && a.Partial == 0:
		return part, false // already applied
	case a.Partial != 0 || x.From != a.Version || !ok && !x.Announce:
		r.hold(p, t, x)
		return part, false
	}
	if !r.continues(p, t, a, x) {
		return part, false
	}
	part, err := r.opts.Engine.ParsePart(engine.Part{
		Array: x.Array, Start: x.Start, Geometry: geometry, Round: x.Data, From: x.From, To: x.To, Boot: x.Boot,
	})
	if err != nil {
		r.refuseError(p, err)
		return part, false
	}
	now, waits := r.fits(p, t, held, engine.Need{Array: x.Array, Start: x.Start, Geometry: geometry, Round: part.Adds()})
	if waits {
		r.hold(p, t, x)
	}
	return part, now
}

// continues reports whether a round that begins at the version of a replica was recorded on the
// same content. A round of a process whose lineage has not arrived yet waits for it.
func (r *receiver) continues(p *member.Peer, t *track, a engine.ArrayState, x *wire.Round) bool {
	if a.Version == 0 || x.Boot == a.Boot {
		return true
	}
	l, boot := x.Lineage, x.Boot
	if h, ok := t.heads[x.Ref]; l == nil && ok && t.next == 0 && h.Boot >= x.Boot {
		l, boot = h.Lineage, h.Boot
	}
	switch {
	case x.Boot < a.Boot: // from a past that was rolled back
	case l == nil:
		r.hold(p, t, x)
	case l.Contains(a, boot):
		return true
	default:
		r.doubt(p, t)
	}
	return false
}

// early counts a refusal of a generation that is not kept because it begins in the future: a clock
// is wrong, or was. Expired generations are ignored without a refusal.
func (r *receiver) early(p *member.Peer, x wire.Ref) {
	if x.Start >= r.opts.Engine.Horizon(x.Array) {
		r.book.Refuse(p.Key.Hint(), member.ReasonEarly,
			fmt.Sprintf("its generation of %s starts at %s: its clock is or was ahead, or this node's is behind",
				x.Array, time.Unix(int64(min(x.Start, 1<<40)), 0).UTC().Format(time.RFC3339)))
	}
}

// doubt stops accepting a peer's rounds until the peer has learnt that it went back in time.
func (r *receiver) doubt(p *member.Peer, t *track) {
	if !t.suspect {
		t.suspect = true
		if t.doubted.IsZero() {
			t.doubted = time.Now()
		}
		r.book.Refuse(p.Key.Hint(), member.ReasonSuspect, "its earlier counts are missing from its arrays")
	}
}

// grow charges a peer for an applied round. It quarantines the peer if the peer adds too much, or
// if the array reports too many keys that were never added.
func (r *receiver) grow(ctx context.Context, p *member.Peer, t *track, a engine.ArrayState, parsed *filter.Round) {
	var why string
	r.book.Figures(p.Key.Hint(), func(s *member.Stats) { why = s.Growth.Charge(r.opts, time.Now(), a.Array, parsed) })
	r.suspend(ctx, p, cmp.Or(why, r.showsTooMuch(p, t, a)))
}

// suspend quarantines a peer if why is not empty.
func (r *receiver) suspend(ctx context.Context, p *member.Peer, why string) {
	if why != "" && p.Quarantine == "" {
		p.Quarantine = why
		r.book.Quarantine(ctx, p.Key.Hint(), why)
	}
}

// apply passes a batch to the engine and empties it.
func (r *receiver) apply(ctx context.Context, p *member.Peer, t *track, held map[wire.Ref]engine.ArrayState, b *batch) {
	if len(b.parts) == 0 {
		return
	}
	err := r.opts.Engine.ApplyRemote(ctx, p.ID, b.parts)
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
		a := held[x.Ref]
		a.Array, a.Start, a.Geometry, a.Version, a.Boot = x.Array, x.Start, b.parts[i].Geometry, x.To, x.Boot
		a.Keys += uint64(b.parts[i].Adds().Len())
		held[x.Ref] = a
		t.said.Keep(x.Ref, x.Statement)
		// Charge only after the round is applied: a round that a full disk refuses comes again.
		r.grow(ctx, p, t, a, b.parts[i].Adds())
	}
	n := uint64(len(b.rounds))
	r.book.Figures(p.Key.Hint(), func(s *member.Stats) { s.Applied += n })
	*b = batch{}
}

// hold keeps a round until the rounds before it arrive. A round beyond the limit is dropped,
// counted as a refusal of its sender, and requested again later.
func (r *receiver) hold(p *member.Peer, t *track, x *wire.Round) {
	if !t.hold(x) {
		r.book.Refuse(p.Key.Hint(), member.ReasonWaiting, fmt.Sprintf("rounds of more than %d bytes wait for those before", maxPending))
	}
}

// hold reports whether the round is held: there was room for it, or it was held already.
func (t *track) hold(x *wire.Round) bool {
	list := t.pending[x.Ref]
	i, found := slices.BinarySearchFunc(list, x, func(a wire.Round, b *wire.Round) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	if found {
		return true
	}
	if t.waiting+x.Cost() > maxPending {
		return false
	}
	t.waiting += x.Cost()
	kept := *x
	kept.Data = bytes.Clone(x.Data) // a copy, so that the message can be freed
	t.pending[x.Ref] = slices.Insert(list, i, kept)
	return true
}

// prune drops the waiting rounds that have been applied or are no longer wanted.
func (t *track) prune(r *receiver, p *member.Peer, held map[wire.Ref]engine.ArrayState) {
	for x := range t.pending {
		t.pruneArray(r, p, held, x)
	}
}

func (t *track) pruneArray(r *receiver, p *member.Peer, held map[wire.Ref]engine.ArrayState, x wire.Ref) {
	a, ok := held[x]
	unwanted := !r.opts.Engine.Keeps(x.Array, x.Start) || p.Refuses(x.Start)
	list := slices.DeleteFunc(t.pending[x], func(y wire.Round) bool {
		gone := unwanted || ok && (y.Boot < a.Boot || a.Partial == 0 && y.To <= a.Version)
		if gone {
			t.waiting -= y.Cost()
		}
		return gone
	})
	if t.pending[x] = list; len(list) == 0 {
		delete(t.pending, x)
	}
}

// drain applies the waiting rounds that now continue the replica.
func (r *receiver) drain(ctx context.Context, p *member.Peer, t *track, held map[wire.Ref]engine.ArrayState) {
	for x := range t.pending {
		for {
			a, ok := held[x]
			t.pruneArray(r, p, held, x)
			list := t.pending[x]
			if len(list) == 0 || a.Partial != 0 || list[0].From != a.Version || !ok && !list[0].Announce {
				break
			}
			next := list[0]
			t.pending[x] = list[1:]
			t.waiting -= next.Cost()
			r.rounds(ctx, p, t, held, []wire.Round{next})
			if held[x].Version == a.Version {
				break // refused: the gap will be asked for
			}
		}
	}
}

// image loads some pages of an array into the replica.
func (r *receiver) image(ctx context.Context, p *member.Peer, t *track, m *wire.Message) {
	x := &m.Image
	held := r.replica(p.ID)
	a, ok := held[x.Ref]
	switch {
	case !r.opts.Engine.Keeps(x.Array, x.Start):
		r.early(p, x.Ref)
		return
	case p.Refuses(x.Start):
		r.book.Refuse(p.Key.Hint(), member.ReasonRollback, "")
		return
	case ok && a.Partial == 0 && x.At <= a.Version, a.Partial > x.At:
		return // older than the replica
	case m.Stamp.Boot < a.Boot:
		return // from a past that may have been rolled back
	case !x.Lineage.Contains(a, m.Stamp.Boot):
		r.doubt(p, t)
		return
	}
	if now, _ := r.fits(p, t, held,
		engine.Need{Array: x.Array, Start: x.Start, Geometry: x.Geometry, Pages: len(x.Pages)}); !now {
		return // if there will be room, the image is asked for again
	}
	parts := make([]engine.Parsed, len(x.Pages))
	for i, page := range x.Pages {
		var err error
		parts[i], err = r.opts.Engine.ParsePart(engine.Part{Array: x.Array, Start: x.Start, Geometry: x.Geometry,
			Image: page, At: x.At, Boot: m.Stamp.Boot})
		if err != nil {
			r.refuseError(p, err)
			return
		}
	}
	r.supersedeBy(ctx, p, x) // first, or both would count
	if err := r.opts.Engine.ApplyRemote(ctx, p.ID, parts); err != nil {
		r.refuseError(p, err)
		return
	}
	t.said.Keep(x.Ref, m.Statement)
	n := uint64(len(parts))
	r.book.Figures(p.Key.Hint(), func(s *member.Stats) { s.Pages += n })
	held = r.replica(p.ID)
	a = held[x.Ref]
	// The pages received so far count, even if some images are missing.
	r.suspend(ctx, p, cmp.Or(tooFull(r.opts, r.opts.Now(), a), r.showsTooMuch(p, t, a)))
	if a.Partial != 0 {
		return // more to come
	}
	r.drain(ctx, p, t, held)
}
