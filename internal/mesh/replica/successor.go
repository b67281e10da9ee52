package replica

import (
	"context"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// newcomer accepts from an unlisted key only a head that proves which peer the key succeeds. All
// unlisted keys together have one share of the queue.
func (r *Receiver) newcomer(from wire.Hint, a wire.Arrival) (x incoming, ok bool) {
	if a.Topic.Kind == wire.KindHead {
		if e, err := wire.OpenEnvelope(a.Data); err == nil && e.Kind == wire.KindHead {
			m, err := e.Parse(r.opts.KeyID)
			if err == nil && r.succeeds(e, m) {
				m.Statement = e.Statement()
				return incoming{m: m, size: len(a.Data)}, true
			}
		}
	}
	r.book.Refuse(from, member.ReasonStranger, strange)
	return x, false
}

// succeeds reports whether a head proves that a peer chose its key.
func (r *Receiver) succeeds(e *wire.Envelope, m *wire.Message) bool {
	if m.Proof == nil || m.Key.Hint() != m.From || m.Stamp.Ahead(r.opts.Now()) {
		return false
	}
	_, known := r.book.Find(m.Proof.Old.Hint())
	return known && m.Proof.Names(m.Key) && e.SignedBy(m.Key)
}

// successor replaces an old key with the new key that it has signed. [Receiver.newcomer] has
// verified the signature.
func (r *Receiver) successor(ctx context.Context, m *wire.Message) (member.Peer, bool) {
	if m.Kind != wire.KindHead || m.Proof == nil {
		return member.Peer{}, false // the peer was evicted while the message waited
	}
	if err := r.book.Succeed(ctx, m.Proof, m.Key); err != nil {
		return member.Peer{}, false
	}
	old := m.Proof.Old.Hint()
	if t := r.origins[old]; t != nil {
		r.Forget(old)
		t.stop = nil
		r.origins[m.From] = t
	}
	return r.book.Find(m.From)
}
