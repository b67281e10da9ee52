package replica

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// alive reports whether a message belongs to the present incarnation of its origin. It begins a new
// incarnation if the message does.
func (o *origin) alive(ctx context.Context, m *wire.Message) bool {
	held := o.engine.Incarnation(o.peer.ID)
	old := m.Stamp.Incarnation < held || m.Stamp.Incarnation < o.last.Incarnation ||
		m.Stamp.Incarnation == o.last.Incarnation && m.Stamp.Boot < o.last.Boot
	if m.Kind == wire.KindHead {
		o.conflict(ctx, m)
		o.figures(func(s *member.Stats) { s.Clock, s.ClockAt = m.Stamp.Time(), time.Now() })
	}
	if old && m.Kind == wire.KindHead && time.Since(o.notified) > conflictRest {
		// The peer's folder was copied back, with its knowledge of its last incarnation.
		o.notified = time.Now()
		o.r.requests.Want(&wire.Message{To: o.peer.Key.Hint(), Incarnation: max(held, o.last.Incarnation), Boot: o.last.Boot,
			Proofs: o.evidence.About(nil)})
	}
	if m.Stamp.Incarnation < held {
		o.refuse(member.ReasonOld, "")
		return false
	}
	if m.Stamp.Incarnation > held {
		return o.renew(ctx, m)
	}
	if m.Stamp.Newer(o.last) || m.Stamp.Incarnation > o.last.Incarnation {
		if m.Stamp.Boot != o.last.Boot {
			o.hurry()
			// A peer that rolled back past this process's start is ignored until it has seen proof of what it
			// lost.
			if o.evidence.Began = nil; len(m.Statement) <= wire.MaxStatement {
				o.evidence.Began = m.Statement
			}
		}
		o.last = m.Stamp
	}
	return true
}

// signRest returns the least time between two signs.
func (r *Receiver) signRest() time.Duration { return min(conflictRest, r.opts.Heartbeat/4) }

// conflict quarantines a peer whose key two running servers use. After a sign, it asks for other
// heads.
func (o *origin) conflict(ctx context.Context, m *wire.Message) {
	r, h := o.r, o.peer.Key.Hint()
	if o.peer.Quarantine != "" || !o.twins.Note(m.Stamp, r.opts.Now(), r.signRest(), member.TwinRest*r.opts.Heartbeat) {
		return
	}
	if o.twins.Certain() {
		o.twins = member.Twins{}
		r.book.Quarantine(ctx, h, "two servers use its key")
		return
	}
	// Twice, since the older process may answer before the newer one.
	for _, pause := range []time.Duration{r.signRest() / 2, r.signRest() + member.HeadRest} {
		time.AfterFunc(pause, func() { r.requests.Want(&wire.Message{To: h}) })
	}
}

// renew records a new incarnation of an origin. Until its first images or rounds arrive, the
// replica of the previous incarnation stays in use. That replica then becomes a former one, and
// still counts.
func (o *origin) renew(ctx context.Context, m *wire.Message) bool {
	nothing := m.Kind == wire.KindHead && len(m.Heads) == 0
	// Rounds from version 0 on are equivalent to images.
	whole := m.Kind == wire.KindImage || slices.ContainsFunc(m.Rounds, func(x wire.Round) bool { return x.From == 0 })
	if len(o.engine.Replica(o.peer.ID)) > 0 && !whole && !nothing {
		if m.Kind == wire.KindHead && m.Stamp.Incarnation >= o.next {
			o.next, o.evidence.Head = m.Stamp.Incarnation, m.Statement
			o.setHeads(m)
		}
		return false
	}
	// If the origin forgets this incarnation, only its own signature can convince it that it had
	// one. That proof must survive a restart of this node.
	if len(m.Statement) <= wire.MaxStatement || m.Kind == wire.KindHead {
		o.evidence.Head = m.Statement
	}
	if err := o.r.Save(); err != nil {
		o.r.opts.Log.Debug("last messages of peers not saved", "err", err)
	}
	if err := o.engine.Renew(ctx, o.peer.ID, m.Stamp.Incarnation); err != nil {
		o.refuseError(err)
		return false
	}
	o.r.opts.Log.Info("incarnation of a peer noted", "peer", o.peer.Label(), "incarnation", m.Stamp.Incarnation)
	if o.next != m.Stamp.Incarnation {
		o.heads = make(map[wire.Ref]wire.ArrayHead)
	}
	o.next, o.last, o.head, o.suspect, o.gone = 0, m.Stamp, wire.Stamp{}, false, nil
	o.supersede(ctx)
	o.lostIncarnation(m.Stamp.Incarnation)
	o.evidence.Began, o.evidence.Led, o.doubted = nil, nil, time.Time{}
	o.pending, o.waiting, o.inspected = make(map[wire.Ref][]wire.Round), 0, make(look)
	return true
}

func (o *origin) setHeads(m *wire.Message) {
	o.heads = make(map[wire.Ref]wire.ArrayHead)
	for _, h := range m.Heads {
		h.Boot = m.Stamp.Boot
		o.heads[h.Ref] = h
	}
}

// lost drops rounds of an older boot that lead to versions that the origin never reached. The
// origin has gone back, so they will never continue an array.
func (o *origin) lost(m *wire.Message) {
	versions := make(map[wire.Ref]uint64)
	for _, h := range m.Heads {
		versions[h.Ref] = h.Version
	}
	for x, list := range o.pending {
		o.pending[x] = slices.DeleteFunc(list, func(y wire.Round) bool {
			gone := y.Boot < m.Stamp.Boot && y.To > versions[x]
			if gone {
				o.waiting -= y.Cost()
			}
			return gone
		})
		if len(o.pending[x]) == 0 {
			delete(o.pending, x)
		}
	}
}

// applyHead records the origin's versions.
func (o *origin) applyHead(ctx context.Context, m *wire.Message) {
	if !m.Stamp.Newer(o.head) || m.Stamp.Boot < o.last.Boot {
		return // a repetition, or from a process that has ended
	}
	o.lost(m)
	if o.head = m.Stamp; m.Stamp.Incarnation >= o.next { // otherwise keep the newer incarnation's head as proof
		o.evidence.Head = m.Statement
	}
	o.setHeads(m)
	o.supersede(ctx)
	o.suspect, o.full, o.gone = false, false, nil
	maps.DeleteFunc(o.inspected, func(x wire.Ref, _ uint64) bool { return !o.engine.Keeps(x.Array, x.Start) })
	for _, a := range o.engine.Replica(o.peer.ID) {
		x := wire.Ref{Array: a.Array, Start: a.Start}
		h, ok := o.heads[x]
		switch {
		case max(a.Version, a.Partial) == 0, o.peer.Refuses(a.Start), !o.engine.Keeps(a.Array, a.Start):
		case !ok && a.Start >= m.Floors[wire.FloorIndex(a.Array)]:
			if m.Stamp == o.last { // otherwise a round that overtook this head may have begun the array
				o.gone = append(o.gone, x)
				o.doubt()
			}
		case !ok: // it has expired at the origin
		case !h.Lineage.Contains(a, h.Boot), h.Version < a.Version && m.Stamp == o.last: // if not, a delta overtook the head
			o.doubt()
		}
	}
	if !o.suspect {
		o.doubted = time.Time{}
	}
	maps.DeleteFunc(o.evidence.Led, func(x wire.Ref, _ []byte) bool { return !o.engine.Keeps(x.Array, x.Start) })
	if m.Name != "" && o.peer.Name == "" && member.CheckPeer(m.Name, 0) == nil {
		o.figures(func(s *member.Stats) { s.OwnName = m.Name })
	}
}
