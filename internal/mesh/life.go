package mesh

import (
	"context"
	"maps"
	"slices"
	"time"
)

// alive reports whether a message belongs to the present incarnation of its origin. It begins a new
// incarnation if the message does.
func (r *receiver) alive(ctx context.Context, p *peer, t *track, m *message) bool {
	held := r.m.opts.Engine.Incarnation(p.ID)
	old := m.stamp.incarnation < held || m.stamp.incarnation < t.last.incarnation ||
		m.stamp.incarnation == t.last.incarnation && m.stamp.boot < t.last.boot
	if m.kind == kindHead && !old {
		t.lives = true
	}
	if old && m.kind == kindHead {
		r.conflict(ctx, p, t, m)
	}
	if old && m.kind == kindHead && time.Since(t.told) > conflictRest {
		// The peer's folder was copied back, with its knowledge of its last incarnation.
		t.told = time.Now()
		r.m.sender.want(wish{p.key.hint(), max(held, t.last.incarnation), t.last.boot, nil, t.said.about(nil)})
	}
	if m.stamp.incarnation < held {
		r.refuse(p.key.hint(), reasonOld, "")
		return false
	}
	if m.stamp.incarnation > held {
		return r.renew(ctx, p, t, m)
	}
	if m.stamp.newer(t.last) || m.stamp.incarnation > t.last.incarnation {
		if m.stamp.boot != t.last.boot {
			t.begun = time.Now()
			t.hurry()
			// A peer that rolled back past this process's start is ignored until it has seen proof of what it
			// lost.
			if t.said.began = nil; len(m.said) <= maxSaid {
				t.said.began = m.said
			}
		}
		t.last = m.stamp
	}
	return true
}

// conflict handles the head of an older incarnation of an origin. Heads are not stored, so its
// sender is running. A few such heads may have been in flight when the newer incarnation began.
// After that, two incarnations that send alternately are two servers with one key. If the newer one
// is silent, the machine was set back to a time before it.
func (r *receiver) conflict(ctx context.Context, p *peer, t *track, m *message) {
	if !t.lives || time.Since(t.begun) < conflictRest || time.Since(t.oldAt) < conflictRest ||
		t.old.boot == m.stamp.boot && !m.stamp.newer(t.old) {
		return
	}
	again := t.old.boot == m.stamp.boot
	t.old, t.oldAt, t.lives = m.stamp, time.Now(), false
	conflicts := 0
	r.figures(p.key.hint(), func(s *stats) {
		if !again {
			s.conflicts = 0
		}
		s.conflicts++
		conflicts = s.conflicts
	})
	if conflicts >= maxConflicts && p.Quarantine == "" {
		r.m.quarantine(ctx, p.key.hint(), "two servers use its key")
	}
}

// renew records a new incarnation of an origin. Until its first images or rounds arrive, the
// replica of the previous incarnation stays in use. That replica then becomes a former one, and
// still counts.
func (r *receiver) renew(ctx context.Context, p *peer, t *track, m *message) bool {
	nothing := m.kind == kindHead && len(m.heads) == 0
	// Rounds from version 0 on are equivalent to images.
	whole := m.kind == kindImage || slices.ContainsFunc(m.rounds, func(x round) bool { return x.from == 0 })
	if len(r.m.opts.Engine.Replica(p.ID)) > 0 && !whole && !nothing {
		if m.kind == kindHead && m.stamp.incarnation >= t.next {
			t.next, t.said.head = m.stamp.incarnation, m.said
			t.setHeads(m)
		}
		return false
	}
	// If the origin forgets this incarnation, only its own signature can convince it that it had
	// one. That proof must survive a restart of this node.
	if len(m.said) <= maxSaid || m.kind == kindHead {
		t.said.head = m.said
	}
	if err := r.saveHeard(); err != nil {
		r.m.opts.Log.Debug("last messages of peers not saved", "err", err)
	}
	if err := r.m.opts.Engine.Renew(ctx, p.ID, m.stamp.incarnation); err != nil {
		r.refuseError(p, err)
		return false
	}
	r.m.opts.Log.Info("incarnation of a peer noted", "peer", p.label(), "incarnation", m.stamp.incarnation)
	if t.next != m.stamp.incarnation {
		t.heads = make(map[ref]arrayHead)
	}
	t.next, t.last, t.head, t.old, t.suspect, t.gone = 0, m.stamp, stamp{}, stamp{}, false, nil
	r.supersede(ctx, p, t)
	r.lostIncarnation(p, m.stamp.incarnation)
	t.begun = time.Now()
	t.said.began, t.said.led, t.doubted = nil, nil, time.Time{}
	t.pending, t.waiting, t.looked = make(map[ref][]round), 0, make(look)
	return true
}

func (t *track) setHeads(m *message) {
	t.heads = make(map[ref]arrayHead)
	for _, h := range m.heads {
		h.boot = m.stamp.boot
		t.heads[h.ref] = h
	}
}

// lost drops rounds of an older boot that lead to versions that the origin never reached. The
// origin has gone back, so they will never continue an array.
func (t *track) lost(m *message) {
	versions := make(map[ref]uint64)
	for _, h := range m.heads {
		versions[h.ref] = h.version
	}
	for x, list := range t.pending {
		t.pending[x] = slices.DeleteFunc(list, func(y round) bool {
			gone := y.boot < m.stamp.boot && y.to > versions[x]
			if gone {
				t.waiting -= y.cost()
			}
			return gone
		})
		if len(t.pending[x]) == 0 {
			delete(t.pending, x)
		}
	}
}

// head records the origin's versions.
func (r *receiver) head(ctx context.Context, p *peer, t *track, m *message) {
	if !m.stamp.newer(t.head) || m.stamp.boot < t.last.boot {
		return // a repetition, or from a process that has ended
	}
	t.lost(m)
	if t.head = m.stamp; m.stamp.incarnation >= t.next { // otherwise keep the newer incarnation's head as proof
		t.said.head = m.said
	}
	t.setHeads(m)
	r.supersede(ctx, p, t)
	t.suspect, t.full, t.gone = false, false, nil
	maps.DeleteFunc(t.looked, func(x ref, _ uint64) bool { return !r.m.opts.Engine.Keeps(x.array, x.start) })
	for _, a := range r.m.opts.Engine.Replica(p.ID) {
		x := ref{a.Array, a.Start}
		h, ok := t.heads[x]
		switch {
		case max(a.Version, a.Partial) == 0, p.refuses(a.Start), !r.m.opts.Engine.Keeps(a.Array, a.Start):
		case !ok && a.Start >= m.floors[floorOf(a.Array)]:
			if m.stamp == t.last { // otherwise a round that overtook this head may have begun the array
				t.gone = append(t.gone, x)
				r.doubt(p, t)
			}
		case !ok: // it has expired at the origin
		case !h.lineage.contains(a, h.boot), h.version < a.Version && m.stamp == t.last: // if not, a delta overtook the head
			r.doubt(p, t)
		}
	}
	if !t.suspect {
		t.doubted = time.Time{}
	}
	maps.DeleteFunc(t.said.led, func(x ref, _ []byte) bool { return !r.m.opts.Engine.Keeps(x.array, x.start) })
	if m.name != "" && p.Name == "" {
		r.m.mu.Lock()
		if mem := r.m.members[p.key.hint()]; mem != nil && checkPeer(m.name, 0) == nil {
			mem.told = m.name
		}
		r.m.mu.Unlock()
	}
}

// successor replaces an old key with the new key that it has signed. [receiver.newcomer] has
// verified the signature.
func (r *receiver) successor(ctx context.Context, m *message) (peer, bool) {
	if m.kind != kindHead || m.proof == nil {
		return peer{}, false // the peer was evicted while the message waited
	}
	if err := r.m.succeed(ctx, m.proof, m.key); err != nil {
		return peer{}, false
	}
	old := m.proof.old.hint()
	if t := r.origins[old]; t != nil {
		r.forget(old)
		t.stop = nil
		r.origins[m.from] = t
	}
	return r.m.find(m.from)
}

// succeed replaces an old key on the peer list with a new one. The proof has been verified.
func (m *Mesh) succeed(ctx context.Context, proof *succession, to public) error {
	p, ok := m.find(proof.old.hint())
	if !ok || p.key != proof.old {
		return unknownPeer(proof.old.id())
	}
	if m.opts.Role != Publish {
		if err := m.opts.Engine.RenameOrigin(context.WithoutCancel(ctx), p.ID, to.id()); err != nil {
			return err
		}
	}
	m.opts.Log.Info("peer has a new key, signed by its old one", "peer", p.label(), "old", p.ID, "new", to.id())
	return m.changePeers(ctx, func(list map[hint]*member) error {
		mem := list[proof.old.hint()]
		if mem == nil || list[to.hint()] != nil {
			return unknownPeer(p.ID)
		}
		delete(list, proof.old.hint())
		mem.ID, mem.key = to.id(), to
		list[to.hint()] = mem
		return nil
	})
}
