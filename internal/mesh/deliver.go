package mesh

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// maxLifeAhead is how far ahead of this node's clock an incarnation may have begun. Clocks that are
// wrong by days are reported with the generations that they begin. No incarnation might ever follow
// one that began further ahead.
const maxLifeAhead = 366 * 24 * time.Hour

// deliver queues a message from a bus for the receiver, after checking that it is authentic; other
// messages take no memory. If the sender's share of the queue is full, deliver blocks if wait is
// true, and drops the message otherwise.
func (r *receiver) deliver(ctx context.Context, b bus, a arrival, wait bool) {
	if a.network != "" {
		r.foreign(ctx, a)
		return
	}
	x, ok := r.open(b, a)
	if !ok {
		return
	}
	if err := r.in.put(ctx, x, wait); errors.Is(err, errShare) {
		r.refuse(x.from, reasonShare, "")
	}
}

// open checks a message against its topic, verifies its signature and parses it, in this order.
func (r *receiver) open(b bus, a arrival) (x incoming, ok bool) {
	sender, ok := a.topic.sender()
	// Until the signature has been verified, only the broker can prove the sender. Without that
	// proof, any client could have refusals counted against another node.
	suspect := func(reason, detail string) {
		if b.proves() {
			r.refuse(sender, reason, detail)
		} else {
			r.reject(reason, detail)
		}
	}
	var from hint
	switch {
	case !ok || len(a.msg) < 2+len(from):
		suspect(reasonMalformed, fmt.Sprintf("%d bytes", len(a.msg)))
		return x, false
	case len(a.msg) > maxMessage, a.topic.kind == kindAsk && len(a.msg) > maxAsk:
		suspect(reasonLimit, fmt.Sprintf("a message of %d bytes", len(a.msg)))
		return x, false
	}
	if copy(from[:], a.msg[2:]); from != sender {
		suspect(reasonSubject, "the message names another sender than its subject")
		return x, false
	}
	key, known := r.m.opts.Identity.public, from == r.m.opts.Identity.public.hint()
	if !known {
		var p peer
		p, known = r.m.find(from)
		key = p.key
	}
	if !known {
		return r.newcomer(from, a)
	}
	e, err := openEnvelope(a.msg)
	if err != nil {
		suspect(reasonOf(err), err.Error())
		return x, false
	}
	if !e.signedBy(&key) {
		suspect(reasonForged, "the signature is not of the key it names")
		return x, false
	}
	m, err := e.parse(r.m.opts.KeyID)
	switch {
	case err != nil:
		r.refuse(from, reasonOf(err), err.Error())
		return x, false
	case m.kind.topic() != a.topic.kind:
		r.refuse(from, reasonSubject,
			fmt.Sprintf("a message of kind %q under the subject of %q", byte(m.kind), byte(a.topic.kind)))
		return x, false
	case from != r.m.opts.Identity.public.hint() && m.stamp.ahead(r.m.opts.Now()):
		r.refuse(from, reasonClock,
			fmt.Sprintf("its clock, %s, is ahead, or this node's is behind",
				time.UnixMilli(int64(m.stamp.at)).UTC().Format(time.RFC3339)))
		return x, false
	}
	m.said = e.statement()
	if from != r.m.opts.Identity.public.hint() && !m.keep(r.m.opts.Engine.Knows) {
		return x, false
	}
	return incoming{from: from, m: m, size: len(a.msg), stored: !a.stored.IsZero(), bus: b}, true
}

// keep drops from a message the arrays made with a secret that this node never had, because it
// joined later. It reports whether the message has any content left.
func (m *message) keep(known func(keyID uint64) bool) bool {
	if m.kind == kindImage {
		return known(m.image.geometry.KeyID)
	}
	m.heads = slices.DeleteFunc(m.heads, func(h arrayHead) bool { return !known(h.geometry.KeyID) })
	had := len(m.rounds)
	m.rounds = slices.DeleteFunc(m.rounds, func(x round) bool { return x.announce && !known(x.geometry.KeyID) })
	return had == 0 || len(m.rounds) > 0
}

// foreign handles a head from another network. If a peer has sent it, one of the two nodes has the
// wrong secret and neither would receive the other's messages. Both report it.
func (r *receiver) foreign(ctx context.Context, a arrival) {
	p, ok := r.m.find(a.topic.origin)
	if !ok {
		return
	}
	e, err := openEnvelope(a.msg)
	if err != nil || e.from != a.topic.origin || e.kind != kindHead || !e.signedBy(&p.key) {
		return
	}
	m, err := e.parse(0) // the other network may have this network's secret as a former one
	if now := r.m.opts.Now(); err != nil || m.stamp.time().Sub(now).Abs() > networkRest {
		return // replayed, or sent with an unusable clock
	}
	former := r.m.formerNetwork(a.network)
	if r.m.hasten(a.network) || former && time.Since(r.m.began) < lateBeats*r.m.opts.Heartbeat {
		return // one of the two nodes is taking the network's new secret at this moment
	}
	first := false
	r.figures(a.topic.origin, func(s *stats) {
		first = s.network != a.network
		s.network, s.networkAt = a.network, r.m.opts.Now()
	})
	if first && former {
		r.m.opts.Log.Error("ALERT: peer has missed that the network has another secret, so nothing is shared with it: it takes that from a hub, or it must leave and join anew",
			"peer", p.label(), "its_network", a.network, "this_network", newNames(r.m.opts.KeyID).net)
	} else if first {
		r.m.opts.Log.Error("ALERT: peer has another network secret, so nothing is shared: one of the two nodes must leave its network and join that of the other by invitation",
			"peer", p.label(), "its_network", a.network, "this_network", newNames(r.m.opts.KeyID).net)
	}
	if first {
		r.m.sender.greet(ctx) // so that the peer notices at once
	}
}

// networkRest is how long a head from another network is evidence of the peer's network.
const networkRest = time.Hour

const strange = "its key is not on the list of peers"

func reasonOf(err error) string {
	if errors.Is(err, errNewer) {
		return reasonVersion
	}
	return reasonMalformed
}

// ahead reports whether the clock of a stamp is far ahead of now.
func (s stamp) ahead(now time.Time) bool {
	limit := uint64(max(now.Add(maxLifeAhead).UnixMilli(), 0))
	return s.incarnation > limit || s.boot > limit || s.at > limit
}

// newcomer accepts from an unlisted key only a head that proves which peer the key succeeds. All
// unlisted keys together have one share of the queue.
func (r *receiver) newcomer(from hint, a arrival) (x incoming, ok bool) {
	if a.topic.kind == kindHead {
		if e, err := openEnvelope(a.msg); err == nil && e.kind == kindHead {
			m, err := e.parse(r.m.opts.KeyID)
			if err == nil && r.succeeds(e, m) {
				m.said = e.statement()
				return incoming{m: m, size: len(a.msg)}, true
			}
		}
	}
	r.refuse(from, reasonStranger, strange)
	return x, false
}

// succeeds reports whether a head proves that a peer chose its key.
func (r *receiver) succeeds(e *envelope, m *message) bool {
	if m.proof == nil || m.key.hint() != m.from || m.stamp.ahead(r.m.opts.Now()) {
		return false
	}
	_, known := r.m.find(m.proof.old.hint())
	return known && m.proof.names(&m.key) && e.signedBy(&m.key)
}

// refuse counts a refused message of a peer, and logs the first one for each reason.
func (r *receiver) refuse(h hint, reason, detail string) {
	r.m.mu.Lock()
	mem := r.m.members[h]
	var first bool
	name := h.String()
	if mem != nil {
		first = mem.refusals.add(reason, detail)
		name = mem.label()
	} else {
		r.m.strange.add(reason, detail)
		first = !r.strangers[h] && len(r.strangers) < maxStrangers
		r.strangers[h] = r.strangers[h] || first
	}
	r.m.mu.Unlock()
	if first {
		r.m.opts.Log.Warn("message refused; others like it are only counted", "from", name, "reason", reason,
			"detail", detail)
	}
}

// reject counts a refused message whose sender is not proven.
func (r *receiver) reject(reason, detail string) {
	r.m.mu.Lock()
	first := r.m.strange.add(reason, detail)
	r.m.mu.Unlock()
	if first {
		r.m.opts.Log.Warn("message of an unknown sender refused; others like it are only counted", "reason", reason,
			"detail", detail)
	}
}

// Reasons for refusals. They are values of a metric's label, so there are few.
const (
	reasonVersion   = "other version"
	reasonMalformed = "malformed"
	reasonStranger  = "unknown key"
	reasonForged    = "forged"
	reasonSubject   = "subject of another"
	reasonShare     = "over its share of the queue"
	reasonWaiting   = "over its share of what waits"
	reasonClock     = "clock ahead"
	reasonOld       = "old incarnation"
	reasonAbsurd    = "absurd part"
	reasonGeometry  = "wrong geometry"
	reasonLimit     = "over limit"
	reasonMemory    = "over mesh.memory"
	reasonRollback  = "rolled back"
	reasonAsks      = "asks for too much"
	reasonSuspect   = "went back in time"
	reasonEarly     = "in the future"
)
