package replica

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

// A room is whether there is memory for an array of a peer.
type room int

const (
	noRoom    room = iota // for as long as the peer's arrays are as they are
	roomLater             // once other arrays have been merged
	roomNow
)

// roomOf returns the engine's answer whether there is memory now, or will be later.
func roomOf(now, later bool) room {
	switch {
	case now:
		return roomNow
	case later:
		return roomLater
	}
	return noRoom
}

// A disposition is what becomes of a round.
type disposition int

const (
	roundIgnored disposition = iota // applied before, expired or refused
	roundHeld                       // kept until earlier rounds or memory are here
	roundDue                        // to be applied now
)

// fits returns whether there is memory for the needs of a peer's array; replica has the peer's present
// arrays. It counts a refusal if there is none.
func (o *origin) fits(replica map[wire.Ref]engine.ArrayState, n engine.Need) room {
	at := wire.Ref{Array: n.Array, Start: n.Start}
	if _, ok := replica[at]; !ok && generations(replica, n.Array) >= maxGenerations {
		if !o.full {
			o.full = true
			o.refuse(member.ReasonLimit,
				fmt.Sprintf("more than %d generations of one peer: they are too short for how long this node keeps them",
					maxGenerations))
		}
		return noRoom
	}
	found := roomOf(o.engine.Room(o.peer.ID, n))
	if found == roomNow {
		delete(o.cramped, at)
		return found
	}
	o.cramped[at] = true
	if found == noRoom && !o.full {
		o.full = true
		o.refuse(member.ReasonMemory,
			fmt.Sprintf("%s of generation %d exceeds the peer's share of mesh.memory_bytes, %d bytes", n.Array, n.Start,
				o.engine.RemoteMemory().Limit))
	}
	return found
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
func (o *origin) delta(ctx context.Context, m *wire.Message) {
	if o.suspect {
		o.refuse(member.ReasonSuspect, "")
		return
	}
	for i := range m.Rounds {
		m.Rounds[i].Boot, m.Rounds[i].Statement = m.Stamp.Boot, m.Statement
	}
	held := o.replica()
	before := len(held)
	o.rounds(ctx, held, m.Rounds)
	o.figures(func(s *member.Stats) { s.Lag = max(0, o.r.opts.Now().Sub(m.Stamp.Time())) })
	if len(held) > before || len(o.pending) > 0 {
		o.drain(ctx, held)
	}
}

func (o *origin) rounds(ctx context.Context, held map[wire.Ref]engine.ArrayState, rounds []wire.Round) {
	var b batch
	for _, x := range rounds {
		if b.has(x.Ref) {
			o.apply(ctx, held, &b)
		}
		if part, d := o.admit(held, &x); d == roundDue {
			if len(b.parts) > 0 && b.parts[0].Geometry.KeyID != part.Geometry.KeyID {
				o.apply(ctx, held, &b) // all parts of a journal entry have the same secret
			}
			b.rounds = append(b.rounds, x)
			b.parts = append(b.parts, part)
		}
	}
	o.apply(ctx, held, &b)
}

// admit decides how a round is handled, and returns it decoded if it is to be applied now.
func (o *origin) admit(replica map[wire.Ref]engine.ArrayState,
	x *wire.Round) (part engine.Parsed, d disposition) {
	a, ok := replica[x.Ref]
	geometry := x.Geometry
	if ok {
		geometry = a.Geometry
	}
	switch {
	case !o.engine.Keeps(x.Array, x.Start):
		o.early(x.Ref)
		return part, roundIgnored // expired on this node
	case o.peer.Refuses(x.Start):
		o.refuse(member.ReasonRollback, "")
		return part, roundIgnored
	case x.Announce && x.Geometry != geometry:
		o.refuse(member.ReasonGeometry, fmt.Sprintf("round of %v for a replica of %v", x.Geometry,
			geometry))
		return part, roundIgnored
	case ok && x.To <= a.Version && a.Partial == 0:
		return part, roundIgnored // already applied
	case a.Partial != 0 || x.From != a.Version || !ok && !x.Announce:
		o.hold(x)
		return part, roundHeld
	}
	if d := o.continues(a, x); d != roundDue {
		return part, d
	}
	part, err := o.engine.ParsePart(engine.Part{
		Array: x.Array, Start: x.Start, Geometry: geometry, Round: x.Data, From: x.From, To: x.To, Boot: x.Boot,
	})
	if err != nil {
		o.refuseError(err)
		return part, roundIgnored
	}
	switch o.fits(replica, engine.Need{Array: x.Array, Start: x.Start, Geometry: geometry, Round: part.Adds()}) {
	case roomNow:
		return part, roundDue
	case roomLater:
		o.hold(x)
		return part, roundHeld
	}
	return part, roundIgnored
}

// continues returns roundDue if a round that begins at the version of a replica was recorded on the same
// content. A round of a process whose lineage has not arrived yet is held until then.
func (o *origin) continues(a engine.ArrayState, x *wire.Round) disposition {
	if a.Version == 0 || x.Boot == a.Boot {
		return roundDue
	}
	l, boot := x.Lineage, x.Boot
	if h, ok := o.heads[x.Ref]; l == nil && ok && o.next == 0 && h.Boot >= x.Boot {
		l, boot = h.Lineage, h.Boot
	}
	switch {
	case x.Boot < a.Boot: // from a past that was rolled back
	case l == nil:
		o.hold(x)
		return roundHeld
	case l.Contains(a, boot):
		return roundDue
	default:
		o.doubt()
	}
	return roundIgnored
}

// early counts a refusal of a generation that is not kept because it begins in the future: a clock
// is wrong, or was. Expired generations are ignored without a refusal.
func (o *origin) early(x wire.Ref) {
	if x.Start >= o.engine.Horizon(x.Array) {
		o.refuse(member.ReasonEarly,
			fmt.Sprintf("its generation of %s starts at %s: its clock is or was ahead, or this node's is behind",
				x.Array, time.Unix(int64(min(x.Start, 1<<40)), 0).UTC().Format(time.RFC3339)))
	}
}

// doubt stops accepting a peer's rounds until the peer has learnt that it went back in time.
func (o *origin) doubt() {
	if !o.suspect {
		o.suspect = true
		if o.doubted.IsZero() {
			o.doubted = time.Now()
		}
		o.refuse(member.ReasonSuspect, "its earlier counts are missing from its arrays")
	}
}

// grow charges a peer for an applied round. It quarantines the peer if the peer adds too much, or
// if the array reports too many keys that were never added.
func (o *origin) grow(ctx context.Context, a engine.ArrayState, parsed *arrays.Round) {
	var why string
	o.figures(func(s *member.Stats) {
		why = s.Growth.Charge(o.r.opts, time.Now(), a.Array,
			parsed)
	})
	o.suspend(ctx, cmp.Or(why, o.showsTooMuch(a)))
}

// suspend quarantines a peer if why is not empty.
func (o *origin) suspend(ctx context.Context, why string) {
	if why != "" && o.peer.Quarantine == "" {
		o.peer.Quarantine = why
		o.r.book.Quarantine(ctx, o.peer.Key.Hint(), why)
	}
}

// apply passes a batch to the engine and empties it.
func (o *origin) apply(ctx context.Context, held map[wire.Ref]engine.ArrayState, b *batch) {
	if len(b.parts) == 0 {
		return
	}
	err := o.engine.ApplyRemote(ctx, o.peer.ID, b.parts)
	if err != nil && len(b.parts) > 1 {
		// One bad part must not keep the other parts out.
		for i := range b.parts {
			o.apply(ctx, held, &batch{b.rounds[i : i+1 : i+1], b.parts[i : i+1 : i+1]})
		}
		*b = batch{}
		return
	}
	if err != nil {
		if errors.Is(err, engine.ErrGap) {
			o.hold(&b.rounds[0])
		}
		o.refuseError(err)
		*b = batch{}
		return
	}
	for i, x := range b.rounds {
		a := held[x.Ref]
		a.Array, a.Start, a.Geometry, a.Version, a.Boot = x.Array, x.Start, b.parts[i].Geometry, x.To, x.Boot
		a.Keys += uint64(b.parts[i].Adds().Len())
		held[x.Ref] = a
		o.evidence.Keep(x.Ref, x.Statement)
		// Charge only after the round is applied: a round that a full disk refuses comes again.
		o.grow(ctx, a, b.parts[i].Adds())
	}
	n := uint64(len(b.rounds))
	o.figures(func(s *member.Stats) { s.Applied += n })
	*b = batch{}
}

// hold keeps a round until the rounds before it arrive. A round beyond the limit is dropped,
// counted as a refusal of its sender, and requested again later.
func (o *origin) hold(x *wire.Round) {
	if !o.add(x) {
		o.refuse(member.ReasonWaiting,
			fmt.Sprintf("rounds of more than %d bytes wait for those before", maxPending))
	}
}

// hold reports whether the round is held: there was room for it, or it was held already.
func (q *queue) add(x *wire.Round) bool {
	list := q.pending[x.Ref]
	i, found := slices.BinarySearchFunc(list, x, func(a wire.Round, b *wire.Round) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	if found {
		return true
	}
	if q.waiting+x.Cost() > maxPending {
		return false
	}
	q.waiting += x.Cost()
	kept := *x
	kept.Data = bytes.Clone(x.Data) // a copy, so that the message can be freed
	q.pending[x.Ref] = slices.Insert(list, i, kept)
	return true
}

// prune drops the waiting rounds that have been applied or are no longer wanted.
func (o *origin) prune(held map[wire.Ref]engine.ArrayState) {
	for x := range o.pending {
		o.pruneArray(held, x)
	}
}

func (o *origin) pruneArray(held map[wire.Ref]engine.ArrayState, x wire.Ref) {
	a, ok := held[x]
	unwanted := !o.engine.Keeps(x.Array, x.Start) || o.peer.Refuses(x.Start)
	list := slices.DeleteFunc(o.pending[x], func(y wire.Round) bool {
		gone := unwanted || ok && (y.Boot < a.Boot || a.Partial == 0 && y.To <= a.Version)
		if gone {
			o.waiting -= y.Cost()
		}
		return gone
	})
	if o.pending[x] = list; len(list) == 0 {
		delete(o.pending, x)
	}
}

// drain applies the waiting rounds that now continue the replica.
func (o *origin) drain(ctx context.Context, held map[wire.Ref]engine.ArrayState) {
	for x := range o.pending {
		for {
			a, ok := held[x]
			o.pruneArray(held, x)
			list := o.pending[x]
			if len(list) == 0 || a.Partial != 0 || list[0].From != a.Version || !ok && !list[0].Announce {
				break
			}
			next := list[0]
			o.pending[x] = list[1:]
			o.waiting -= next.Cost()
			o.rounds(ctx, held, []wire.Round{next})
			if held[x].Version == a.Version {
				break // refused: the gap will be asked for
			}
		}
	}
}

// image loads some pages of an array into the replica.
func (o *origin) image(ctx context.Context, m *wire.Message) {
	x := &m.Image
	held := o.replica()
	a, ok := held[x.Ref]
	switch {
	case !o.engine.Keeps(x.Array, x.Start):
		o.early(x.Ref)
		return
	case o.peer.Refuses(x.Start):
		o.refuse(member.ReasonRollback, "")
		return
	case ok && a.Partial == 0 && x.At <= a.Version, a.Partial > x.At:
		return // older than the replica
	case m.Stamp.Boot < a.Boot:
		return // from a past that may have been rolled back
	case !x.Lineage.Contains(a, m.Stamp.Boot):
		o.doubt()
		return
	}
	if o.fits(held,
		engine.Need{Array: x.Array, Start: x.Start, Geometry: x.Geometry, Pages: len(x.Pages)}) != roomNow {
		return // if there will be room, the image is asked for again
	}
	parts := make([]engine.Parsed, len(x.Pages))
	for i, page := range x.Pages {
		var err error
		parts[i], err = o.engine.ParsePart(engine.Part{Array: x.Array, Start: x.Start, Geometry: x.Geometry,
			Image: page, At: x.At, Boot: m.Stamp.Boot})
		if err != nil {
			o.refuseError(err)
			return
		}
	}
	o.supersedeBy(ctx, x) // first, or both would count
	if err := o.engine.ApplyRemote(ctx, o.peer.ID, parts); err != nil {
		o.refuseError(err)
		return
	}
	o.evidence.Keep(x.Ref, m.Statement)
	n := uint64(len(parts))
	o.figures(func(s *member.Stats) { s.Pages += n })
	held = o.replica()
	a = held[x.Ref]
	// The pages received so far count, even if some images are missing.
	o.suspend(ctx, cmp.Or(tooFull(o.r.opts, o.r.opts.Now(), a), o.showsTooMuch(a)))
	if a.Partial != 0 {
		return // more to come
	}
	o.drain(ctx, held)
}
