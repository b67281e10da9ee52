package mesh

import (
	"context"
	"slices"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// proven returns the past state that a statement proves. ok is false if this node did not sign it,
// or if it is so far ahead of the clock that nothing may follow it.
func (s *sender) proven(statement []byte) (p wire.Past, ok bool) {
	e, err := wire.OpenStatement(statement)
	if err != nil || !e.SignedBy(s.opts.Identity.Public()) {
		return wire.Past{}, false
	}
	m, _, err := e.ParseClaim(s.opts.KeyID)
	if err != nil || m.Stamp.Ahead(s.opts.Now()) {
		return wire.Past{}, false
	}
	return m.Past(), true
}

// forgot reports whether this node, whose arrays are own, has forgotten a part of the past p.
func (s *sender) forgot(p *wire.Past, own map[wire.Ref]engine.ArrayState) bool {
	life, boot := s.state.Life()
	if p.Stamp.Incarnation != life {
		return p.Stamp.Incarnation > life
	}
	if p.Stamp.Boot > boot {
		return true
	}
	return slices.ContainsFunc(p.Arrays, func(w wire.ArrayHead) bool {
		a, ok := own[w.Ref]
		if !ok {
			return w.Version > 0 && w.Start >= s.opts.Engine.Floor(w.Array)
		}
		held := engine.ArrayState{Version: w.Version, Boot: w.Boot}
		return w.Version > a.Version || w.Version > 0 && !s.state.Lineage(w.Ref).Contains(held, boot)
	})
}

// Recall makes the sender compare a stored message of this node with the node's state. If the
// sender is busy, the message is dropped; there are others like it.
func (s *sender) Recall(p wire.Past) {
	select {
	case s.pasts <- p:
	default:
	}
}

// recalled begins a new incarnation if a broker had stored a past that this node has forgotten.
func (s *sender) recalled(p wire.Past) {
	own := make(map[wire.Ref]engine.ArrayState)
	for _, a := range s.opts.Engine.Own() {
		own[wire.Ref{Array: a.Array, Start: a.Start}] = a
	}
	if s.forgot(&p, own) {
		s.renew("a broker", max(p.Stamp.Incarnation, p.Stamp.Boot))
	}
}

// resetAfter is how long an origin that has gone back may go on without a new incarnation. After
// that, its newly signed state is accepted all the same.
const resetAfter = time.Minute

// reset drops the replica of an origin that has gone back and has not explained it although it was
// asked for long enough. The origin cannot be sent proof, because this node was also restarted. The
// origin's head must be later than the start of every process in doubt, and of another process: a
// replayed old message is not enough. Its process may have a lower number than those: they ended
// within a second, or the clock was ahead.
func (o *origin) reset(ctx context.Context) {
	if !o.suspect || o.next != 0 || time.Since(o.doubted) < resetAfter {
		return
	}
	for _, a := range o.r.opts.Engine.Replica(o.peer.ID) {
		h, ok := o.heads[wire.Ref{Array: a.Array, Start: a.Start}]
		sound := ok && a.Version <= h.Version && h.Lineage.Contains(a, h.Boot)
		if !sound && (a.Boot == o.head.Boot || a.Boot >= o.head.At) {
			return
		}
	}
	if err := o.r.opts.Engine.ForgetGenerations(ctx, o.peer.ID, 0); err != nil {
		o.refuseError(err)
		return
	}
	o.r.opts.Log.Warn("replica does not match the peer's arrays; requesting them again", "peer", o.peer.Label())
	o.suspect, o.gone, o.evidence, o.doubted = false, nil, wire.Evidence{Head: o.evidence.Head}, time.Time{}
	o.pending, o.waiting, o.inspected = make(map[wire.Ref][]wire.Round), 0, make(look)
	o.hurry()
}
