package mesh

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// maxSaid bounds, in bytes, a statement that is kept to prove where a round led. Statements of
// heads are kept whatever their length.
const maxSaid = 16 << 10

// evidence holds signed statements of an origin. If the origin has forgotten its past, it believes
// nothing else.
type evidence struct {
	head  []byte         // the newest head of the newest incarnation, or the message that began it
	began []byte         // the first message of its newest process
	led   map[ref][]byte // the statement that led an array to the replica's version
}

// keep stores the statement that led to the present version of a replica.
func (e *evidence) keep(x ref, said []byte) {
	if len(said) == 0 || len(said) > maxSaid {
		return
	}
	if e.led == nil {
		e.led = make(map[ref][]byte)
	}
	e.led[x] = said
}

// about returns the proofs to send an origin with a question about arrays, or all proofs if arrays
// is empty. One proof that the origin cannot explain is enough.
func (e *evidence) about(arrays []arrayHead) (out [][]byte) {
	if len(arrays) == 0 {
		for x := range e.led {
			arrays = append(arrays, arrayHead{ref: x})
		}
	}
	if e.head != nil {
		out = append(out, e.head)
	}
	size := len(e.head)
	add := func(said []byte) {
		if said == nil || len(out) == maxProofs || size+len(said) > maxAsk/2 ||
			slices.ContainsFunc(out, func(x []byte) bool { return bytes.Equal(x, said) }) {
			return
		}
		out, size = append(out, said), size+len(said)
	}
	add(e.began)
	for _, a := range arrays {
		add(e.led[a.ref])
	}
	return out
}

// A past is a provable past state of this node.
type past struct {
	stamp  stamp
	arrays []arrayHead // versions that it had, with their boot
}

// proven returns the past state that a statement proves. ok is false if this node did not sign it,
// or if it is so far ahead of the clock that nothing may follow it.
func (s *sender) proven(said []byte) (p past, ok bool) {
	e, err := openStatement(said)
	if err != nil || !e.signedBy(&s.m.opts.Identity.public) {
		return past{}, false
	}
	m, _, err := e.parseClaim(s.m.opts.KeyID)
	if err != nil || m.stamp.ahead(s.m.opts.Now()) {
		return past{}, false
	}
	return m.past(), true
}

// past returns the state of the sender's arrays in a message.
func (m *message) past() past {
	p := past{stamp: m.stamp}
	add := func(x ref, version uint64) {
		p.arrays = append(p.arrays, arrayHead{ref: x, version: version, boot: m.stamp.boot})
	}
	for _, h := range m.heads {
		add(h.ref, h.version)
	}
	for i := range m.rounds {
		add(m.rounds[i].ref, m.rounds[i].to)
	}
	if m.kind == kindImage {
		add(m.image.ref, m.image.at)
	}
	return p
}

// forgot reports whether this node, whose arrays are own, has forgotten a part of the past p.
func (s *sender) forgot(p *past, own map[ref]engine.ArrayState) bool {
	s.m.mu.Lock()
	life, boot := s.m.state.Incarnation, s.m.state.Boot
	s.m.mu.Unlock()
	if p.stamp.incarnation != life {
		return p.stamp.incarnation > life
	}
	if p.stamp.boot > boot {
		return true
	}
	return slices.ContainsFunc(p.arrays, func(w arrayHead) bool {
		a, ok := own[w.ref]
		if !ok {
			return w.version > 0 && w.start >= s.m.opts.Engine.Floor(w.array)
		}
		held := engine.ArrayState{Version: w.version, Boot: w.boot}
		return w.version > a.Version || w.version > 0 && !s.lineage(w.ref).contains(held, boot)
	})
}

// recall makes the sender compare a stored message of this node with the node's state. If the
// sender is busy, the message is dropped; there are others like it.
func (s *sender) recall(p past) {
	select {
	case s.pasts <- p:
	default:
	}
}

// recalled begins a new incarnation if a broker had stored a past that this node has forgotten.
func (s *sender) recalled(p past) {
	own := make(map[ref]engine.ArrayState)
	for _, a := range s.m.opts.Engine.Own() {
		own[ref{a.Array, a.Start}] = a
	}
	if s.forgot(&p, own) {
		s.renew("a broker", max(p.stamp.incarnation, p.stamp.boot))
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
func (r *receiver) reset(ctx context.Context, p *peer, t *track) {
	if !t.suspect || t.next != 0 || time.Since(t.doubted) < resetAfter {
		return
	}
	for _, a := range r.m.opts.Engine.Replica(p.ID) {
		h, ok := t.heads[ref{a.Array, a.Start}]
		sound := ok && a.Version <= h.version && h.lineage.contains(a, h.boot)
		if !sound && (a.Boot == t.head.boot || a.Boot >= t.head.at) {
			return
		}
	}
	if err := r.m.opts.Engine.ForgetGenerations(ctx, p.ID, 0); err != nil {
		r.refuseError(p, err)
		return
	}
	r.m.opts.Log.Warn("replica does not match the peer's arrays; requesting them again", "peer", p.label())
	t.suspect, t.gone, t.said, t.doubted = false, nil, evidence{head: t.said.head}, time.Time{}
	t.pending, t.waiting, t.looked = make(map[ref][]round), 0, make(look)
	t.hurry()
}
