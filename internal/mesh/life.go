package mesh

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
func (r *receiver) alive(ctx context.Context, p *member.Peer, t *track, m *wire.Message) bool {
	held := r.opts.Engine.Incarnation(p.ID)
	old := m.Stamp.Incarnation < held || m.Stamp.Incarnation < t.last.Incarnation ||
		m.Stamp.Incarnation == t.last.Incarnation && m.Stamp.Boot < t.last.Boot
	if m.Kind == wire.KindHead && !old {
		t.lives = true
	}
	if old && m.Kind == wire.KindHead {
		r.conflict(ctx, p, t, m)
	}
	if old && m.Kind == wire.KindHead && time.Since(t.told) > conflictRest {
		// The peer's folder was copied back, with its knowledge of its last incarnation.
		t.told = time.Now()
		r.requests.Want(&wire.Message{To: p.Key.Hint(), Incarnation: max(held, t.last.Incarnation), Boot: t.last.Boot,
			Proofs: t.said.About(nil)})
	}
	if m.Stamp.Incarnation < held {
		r.book.Refuse(p.Key.Hint(), member.ReasonOld, "")
		return false
	}
	if m.Stamp.Incarnation > held {
		return r.renew(ctx, p, t, m)
	}
	if m.Stamp.Newer(t.last) || m.Stamp.Incarnation > t.last.Incarnation {
		if m.Stamp.Boot != t.last.Boot {
			t.begun = time.Now()
			t.hurry()
			// A peer that rolled back past this process's start is ignored until it has seen proof of what it
			// lost.
			if t.said.Began = nil; len(m.Statement) <= wire.MaxStatement {
				t.said.Began = m.Statement
			}
		}
		t.last = m.Stamp
	}
	return true
}

// conflict handles the head of an older incarnation of an origin. Heads are not stored, so its
// sender is running. A few such heads may have been in flight when the newer incarnation began.
// After that, two incarnations that send alternately are two servers with one key. If the newer one
// is silent, the machine was set back to a time before it.
func (r *receiver) conflict(ctx context.Context, p *member.Peer, t *track, m *wire.Message) {
	if !t.lives || time.Since(t.begun) < conflictRest || time.Since(t.oldAt) < conflictRest ||
		t.old.Boot == m.Stamp.Boot && !m.Stamp.Newer(t.old) {
		return
	}
	again := t.old.Boot == m.Stamp.Boot
	t.old, t.oldAt, t.lives = m.Stamp, time.Now(), false
	conflicts := 0
	r.book.Figures(p.Key.Hint(), func(s *member.Stats) {
		if !again {
			s.Conflicts = 0
		}
		s.Conflicts++
		conflicts = s.Conflicts
	})
	if conflicts >= maxConflicts && p.Quarantine == "" {
		r.book.Quarantine(ctx, p.Key.Hint(), "two servers use its key")
	}
}

// renew records a new incarnation of an origin. Until its first images or rounds arrive, the
// replica of the previous incarnation stays in use. That replica then becomes a former one, and
// still counts.
func (r *receiver) renew(ctx context.Context, p *member.Peer, t *track, m *wire.Message) bool {
	nothing := m.Kind == wire.KindHead && len(m.Heads) == 0
	// Rounds from version 0 on are equivalent to images.
	whole := m.Kind == wire.KindImage || slices.ContainsFunc(m.Rounds, func(x wire.Round) bool { return x.From == 0 })
	if len(r.opts.Engine.Replica(p.ID)) > 0 && !whole && !nothing {
		if m.Kind == wire.KindHead && m.Stamp.Incarnation >= t.next {
			t.next, t.said.Head = m.Stamp.Incarnation, m.Statement
			t.setHeads(m)
		}
		return false
	}
	// If the origin forgets this incarnation, only its own signature can convince it that it had
	// one. That proof must survive a restart of this node.
	if len(m.Statement) <= wire.MaxStatement || m.Kind == wire.KindHead {
		t.said.Head = m.Statement
	}
	if err := r.saveHeard(); err != nil {
		r.opts.Log.Debug("last messages of peers not saved", "err", err)
	}
	if err := r.opts.Engine.Renew(ctx, p.ID, m.Stamp.Incarnation); err != nil {
		r.refuseError(p, err)
		return false
	}
	r.opts.Log.Info("incarnation of a peer noted", "peer", p.Label(), "incarnation", m.Stamp.Incarnation)
	if t.next != m.Stamp.Incarnation {
		t.heads = make(map[wire.Ref]wire.ArrayHead)
	}
	t.next, t.last, t.head, t.old, t.suspect, t.gone = 0, m.Stamp, wire.Stamp{}, wire.Stamp{}, false, nil
	r.supersede(ctx, p, t)
	r.lostIncarnation(p, m.Stamp.Incarnation)
	t.begun = time.Now()
	t.said.Began, t.said.Led, t.doubted = nil, nil, time.Time{}
	t.pending, t.waiting, t.looked = make(map[wire.Ref][]wire.Round), 0, make(look)
	return true
}

func (t *track) setHeads(m *wire.Message) {
	t.heads = make(map[wire.Ref]wire.ArrayHead)
	for _, h := range m.Heads {
		h.Boot = m.Stamp.Boot
		t.heads[h.Ref] = h
	}
}

// lost drops rounds of an older boot that lead to versions that the origin never reached. The
// origin has gone back, so they will never continue an array.
func (t *track) lost(m *wire.Message) {
	versions := make(map[wire.Ref]uint64)
	for _, h := range m.Heads {
		versions[h.Ref] = h.Version
	}
	for x, list := range t.pending {
		t.pending[x] = slices.DeleteFunc(list, func(y wire.Round) bool {
			gone := y.Boot < m.Stamp.Boot && y.To > versions[x]
			if gone {
				t.waiting -= y.Cost()
			}
			return gone
		})
		if len(t.pending[x]) == 0 {
			delete(t.pending, x)
		}
	}
}

// head records the origin's versions.
func (r *receiver) head(ctx context.Context, p *member.Peer, t *track, m *wire.Message) {
	if !m.Stamp.Newer(t.head) || m.Stamp.Boot < t.last.Boot {
		return // a repetition, or from a process that has ended
	}
	t.lost(m)
	if t.head = m.Stamp; m.Stamp.Incarnation >= t.next { // otherwise keep the newer incarnation's head as proof
		t.said.Head = m.Statement
	}
	t.setHeads(m)
	r.supersede(ctx, p, t)
	t.suspect, t.full, t.gone = false, false, nil
	maps.DeleteFunc(t.looked, func(x wire.Ref, _ uint64) bool { return !r.opts.Engine.Keeps(x.Array, x.Start) })
	for _, a := range r.opts.Engine.Replica(p.ID) {
		x := wire.Ref{Array: a.Array, Start: a.Start}
		h, ok := t.heads[x]
		switch {
		case max(a.Version, a.Partial) == 0, p.Refuses(a.Start), !r.opts.Engine.Keeps(a.Array, a.Start):
		case !ok && a.Start >= m.Floors[wire.FloorIndex(a.Array)]:
			if m.Stamp == t.last { // otherwise a round that overtook this head may have begun the array
				t.gone = append(t.gone, x)
				r.doubt(p, t)
			}
		case !ok: // it has expired at the origin
		case !h.Lineage.Contains(a, h.Boot), h.Version < a.Version && m.Stamp == t.last: // if not, a delta overtook the head
			r.doubt(p, t)
		}
	}
	if !t.suspect {
		t.doubted = time.Time{}
	}
	maps.DeleteFunc(t.said.Led, func(x wire.Ref, _ []byte) bool { return !r.opts.Engine.Keeps(x.Array, x.Start) })
	if m.Name != "" && p.Name == "" && member.CheckPeer(m.Name, 0) == nil {
		r.book.Figures(p.Key.Hint(), func(s *member.Stats) { s.OwnName = m.Name })
	}
}

// successor replaces an old key with the new key that it has signed. [receiver.newcomer] has
// verified the signature.
func (r *receiver) successor(ctx context.Context, m *wire.Message) (member.Peer, bool) {
	if m.Kind != wire.KindHead || m.Proof == nil {
		return member.Peer{}, false // the peer was evicted while the message waited
	}
	if err := r.book.Succeed(ctx, m.Proof, m.Key); err != nil {
		return member.Peer{}, false
	}
	old := m.Proof.Old.Hint()
	if t := r.origins[old]; t != nil {
		r.forget(old)
		t.stop = nil
		r.origins[m.From] = t
	}
	return r.book.Find(m.From)
}
