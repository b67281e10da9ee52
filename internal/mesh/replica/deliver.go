package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// Deliver queues a message from a bus for the receiver, after checking that it is authentic; other
// messages take no memory. If the sender's share of the queue is full, Deliver blocks if wait is
// true, and drops the message otherwise.
func (r *Receiver) Deliver(ctx context.Context, b wire.Transport, a wire.Arrival, wait bool) {
	if a.Network != "" {
		r.foreign(ctx, a)
		return
	}
	x, ok := incoming{from: a.Topic.Origin, bus: b, sum: a.Still}, true
	if len(a.Data) > 0 || a.Still == (wire.HeadSum{}) {
		x, ok = r.open(b, a)
	}
	if !ok {
		return
	}
	if err := r.in.put(ctx, x, wait); errors.Is(err, errShare) {
		r.book.Refuse(x.from, member.ReasonShare, "")
	}
}

// open checks a message against its topic, verifies its signature and parses it, in this order.
func (r *Receiver) open(b wire.Transport, a wire.Arrival) (x incoming, ok bool) {
	sender, ok := a.Topic.Sender()
	// Until the signature has been verified, only the broker can prove the sender. Without that
	// proof, any client could have refusals counted against another node.
	suspect := func(reason, detail string) {
		if b.Proves() {
			r.book.Refuse(sender, reason, detail)
		} else {
			r.book.Reject(reason, detail)
		}
	}
	var from wire.Hint
	switch {
	case !ok || len(a.Data) < 2+len(from):
		suspect(member.ReasonMalformed, fmt.Sprintf("%d bytes", len(a.Data)))
		return x, false
	case len(a.Data) > wire.MaxMessage, a.Topic.Kind == wire.KindAsk && len(a.Data) > wire.MaxAsk:
		suspect(member.ReasonLimit, fmt.Sprintf("a message of %d bytes", len(a.Data)))
		return x, false
	}
	if copy(from[:], a.Data[2:]); from != sender {
		suspect(member.ReasonSubject, "the message names another sender than its subject")
		return x, false
	}
	key, known := r.opts.Identity.Public(), from == r.opts.Identity.Hint()
	if !known {
		var p member.Peer
		p, known = r.book.Find(from)
		key = p.Key
	}
	if !known {
		return r.newcomer(from, a)
	}
	e, err := wire.OpenEnvelope(a.Data)
	if err != nil {
		suspect(reasonOf(err), err.Error())
		return x, false
	}
	if !e.SignedBy(key) {
		suspect(member.ReasonForged, "the signature is not of the key it names")
		return x, false
	}
	m, err := e.Parse(r.opts.KeyID)
	switch {
	case err != nil:
		r.book.Refuse(from, reasonOf(err), err.Error())
		return x, false
	case m.Kind.Topic() != a.Topic.Kind:
		r.book.Refuse(from, member.ReasonSubject,
			fmt.Sprintf("a message of kind %q under the subject of %q", byte(m.Kind), byte(a.Topic.Kind)))
		return x, false
	case from != r.opts.Identity.Hint() && m.Stamp.Ahead(r.opts.Now()):
		r.book.Refuse(from, member.ReasonClock,
			fmt.Sprintf("its clock, %s, is ahead, or this node's is behind",
				time.UnixMilli(int64(m.Stamp.At)).UTC().Format(time.RFC3339)))
		return x, false
	}
	m.Statement = e.Statement()
	var sum wire.HeadSum
	if m.Kind == wire.KindHead {
		_, sum, _ = e.Content()
	}
	if from != r.opts.Identity.Hint() && !m.KeepKnown(r.opts.Engine.Knows) {
		return x, false
	}
	return incoming{from: from, m: m, sum: sum, size: len(a.Data), stored: !a.Stored.IsZero(), bus: b}, true
}

// foreign handles a head from another network. If a peer has sent it, one of the two nodes has the
// wrong secret and neither would receive the other's messages. Both report it.
func (r *Receiver) foreign(ctx context.Context, a wire.Arrival) {
	p, ok := r.book.Find(a.Topic.Origin)
	if !ok {
		return
	}
	e, err := wire.OpenEnvelope(a.Data)
	if err != nil || e.From != a.Topic.Origin || e.Kind != wire.KindHead || !e.SignedBy(p.Key) {
		return
	}
	m, err := e.Parse(0) // the other network may have this network's secret as a former one
	if now := r.opts.Now(); err != nil || m.Stamp.Time().Sub(now).Abs() > NetworkRest {
		return // replayed, or sent with an unusable clock
	}
	former := r.secrets.FormerNetwork(a.Network)
	if r.secrets.Hasten(a.Network) || former && r.secrets.Recent() {
		return // one of the two nodes is taking the network's new secret at this moment
	}
	first := false
	r.book.Figures(a.Topic.Origin, func(s *member.Stats) {
		first = s.Network != a.Network
		s.Network, s.NetworkAt = a.Network, r.opts.Now()
	})
	if !first {
		return
	}
	what := "peer has another network secret"
	hint := "one of the two nodes must run \"bulkhead leave\", and join the network of the other by invitation"
	if former {
		what = "peer still has a former secret of the network"
		hint = "it gets the new one from a hub, or it must leave and join again"
	}
	r.opts.Log.Error(what, "peer", p.Label(), "its_network", a.Network, "this_network", wire.NetworkName(r.opts.KeyID),
		"consequence", "nothing is shared with it", "hint", hint)
	r.requests.Greet() // so that the peer notices at once
}

const strange = "its key is not on the list of peers"

func reasonOf(err error) string {
	if errors.Is(err, wire.ErrNewer) {
		return member.ReasonVersion
	}
	return member.ReasonMalformed
}

// NetworkRest is how long a head from another network is evidence of the peer's network.
const NetworkRest = time.Hour
