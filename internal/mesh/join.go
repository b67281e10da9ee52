package mesh

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// Joined is an inviter's answer.
type Joined struct {
	Waiting bool          // an administrator there has to accept first; all other fields are empty
	Secret  filter.Secret // the network's
	Name    string        // the inviter's
}

// tokenInvitation is the prefix of the token that a joining node presents to a hub.
const tokenInvitation = "invitation "

func pairSubject(id string, from wire.Hint) string { return "bh.pair." + id + "." + from.String() }

// JoinBy presents an invitation to its inviter, at one hub after the other. An error that wraps
// [bulkhead.ErrForbidden] has the inviter's reason for a refusal. Any other error means that the
// inviter could not be reached.
func JoinBy(ctx context.Context, v *Invitation, id *Identity, name string, now func() time.Time) (Joined, error) {
	if t := now(); t.After(v.Expires) {
		return Joined{}, fmt.Errorf("%w: mesh: the invitation expired at %s; it is %s by this node's clock",
			bulkhead.ErrForbidden, v.Expires.Format(time.RFC3339), t.UTC().Format(time.RFC3339))
	}
	if v.Inviter == id.ID() {
		return Joined{}, fmt.Errorf("%w: mesh: the invitation is this node's own", bulkhead.ErrMalformed)
	}
	var errs []error
	for _, hub := range v.Hubs {
		r, err := askHub(ctx, hub, v, id, name, now())
		if err != nil {
			errs = append(errs, fmt.Errorf("hub %s: %w", hub, err))
			continue
		}
		switch r.State {
		case pairAccepted:
			return Joined{Secret: filter.Secret(r.Secret), Name: r.Name}, nil
		case pairWaiting:
			return Joined{Waiting: true, Name: r.Name}, nil
		}
		return Joined{}, fmt.Errorf("%w: mesh: the inviter refuses: %.400s", bulkhead.ErrForbidden, r.Why)
	}
	return Joined{}, errors.Join(errs...)
}

// askHub makes one request.
func askHub(ctx context.Context, hub string, v *Invitation, id *Identity, name string,
	now time.Time) (r pairReply, err error) {
	inviter, err := wire.ParsePublic(v.Inviter)
	if err != nil {
		return r, err
	}
	self := id.Hint()
	conn, err := nats.Connect("tls://"+hub,
		nats.NoReconnect(), nats.Timeout(brokerWait/2), nats.CustomInboxPrefix(inbox(self)),
		nats.Secure(&tls.Config{
			MinVersion: tls.VersionTLS13,
			// The inviter is identified by its key and not by its name.
			InsecureSkipVerify: true,
			VerifyConnection: func(c tls.ConnectionState) error {
				raw, ok := ed25519.PublicKey(nil), false
				if len(c.PeerCertificates) > 0 {
					raw, ok = c.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
				}
				if !ok || len(raw) != len(inviter) {
					return errors.New("that is no hub of a network")
				}
				if key := wire.Public(raw); key != inviter {
					return fmt.Errorf("it has the key %s, and the invitation is from %s", key.ID(), v.Inviter)
				}
				return nil
			},
		}), signIn(id, tokenInvitation+v.id()))
	if errors.Is(err, nats.ErrAuthorization) {
		return pairReply{State: pairRefused,
			Why: "it does not know the invitation: it was withdrawn, or expired long ago"}, nil
	}
	if err != nil {
		return r, cleared(err)
	}
	defer conn.Close()
	box, private, err := sealRequest(v, id, name, now)
	if err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeout(ctx, brokerWait)
	defer cancel()
	reply, err := conn.RequestWithContext(ctx, pairSubject(v.id(), self), box)
	if err != nil {
		return r, cleared(err)
	}
	return openReply(v, private, id.ID(), reply.Data)
}

// servePairing answers requests to join that arrive at this node's broker.
func (b *natsBus) servePairing(handle func(id string, from wire.Hint, box []byte) []byte) error {
	_, err := b.conn.Subscribe("bh.pair.*.*", func(msg *nats.Msg) {
		part := strings.Split(msg.Subject, ".")
		from, ok := wire.Topic{Kind: wire.KindAsk, Key: part[3]}.Sender()
		// Reply only to the sender of the request: the broker lets a node subscribe to its own
		// inbox alone.
		if !ok || !strings.HasPrefix(msg.Reply, inbox(from)+".") {
			return
		}
		if reply := handle(part[2], from, msg.Data); reply != nil {
			_ = msg.Respond(reply) // a node that misses the reply asks again
		}
	})
	if err != nil {
		return fmt.Errorf("broker %s: %w", b.server, cleared(err))
	}
	return nil
}
