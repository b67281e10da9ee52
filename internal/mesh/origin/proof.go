package origin

import (
	"slices"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// proven returns the past state that a statement proves. ok is false if this node did not sign it,
// or if it is so far ahead of the clock that nothing may follow it.
func (s *Sender) proven(statement []byte) (p wire.Past, ok bool) {
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
func (s *Sender) forgot(p *wire.Past, own map[wire.Ref]engine.ArrayState) bool {
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
func (s *Sender) Recall(p wire.Past) {
	select {
	case s.pasts <- p:
	default:
	}
}

// recalled begins a new incarnation if a broker had stored a past that this node has forgotten.
func (s *Sender) recalled(p wire.Past) {
	own := make(map[wire.Ref]engine.ArrayState)
	for _, a := range s.opts.Engine.Own() {
		own[wire.Ref{Array: a.Array, Start: a.Start}] = a
	}
	if s.forgot(&p, own) {
		s.renew("a broker", max(p.Stamp.Incarnation, p.Stamp.Boot))
	}
}
