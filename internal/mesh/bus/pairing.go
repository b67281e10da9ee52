package bus

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/natsdial"
)

// TokenInvitation is the prefix of the token that a joining node presents to a hub.
const TokenInvitation = "invitation "

// PairSubject returns the subject of a request to join by the invitation with an ID.
func PairSubject(id string, from wire.Hint) string { return "bh.pair." + id + "." + from.String() }

// AskToJoin presents the invitation with an ID to a hub that holds the key of the inviter, with the key
// pair of the joining node, and returns the hub's reply to the request. known is false if the hub does
// not know the invitation.
func AskToJoin(ctx context.Context, self wire.Signer, hub, id string, inviter wire.Public,
	request []byte) (reply []byte, known bool, err error) {
	from := self.Public().Hint()
	conn, err := nats.Connect("tls://"+hub,
		nats.NoReconnect(), nats.Timeout(BrokerWait/2), nats.CustomInboxPrefix(Inbox(from)),
		nats.Secure(&tls.Config{
			MinVersion: tls.VersionTLS13,
			// The inviter is identified by its key and not by its name.
			InsecureSkipVerify: true,
			VerifyConnection: func(c tls.ConnectionState) error {
				key, err := keyOf(c)
				if err == nil && key != inviter {
					err = fmt.Errorf("it has the key %s, and the invitation is from %s", key.ID(), inviter.ID())
				}
				return err
			},
		}), SignIn(self, TokenInvitation+id))
	if errors.Is(err, nats.ErrAuthorization) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, natsdial.Cleared(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, BrokerWait)
	defer cancel()
	msg, err := conn.RequestWithContext(ctx, PairSubject(id, from), request)
	if err != nil {
		return nil, false, natsdial.Cleared(err)
	}
	return msg.Data, true, nil
}

// ServePairing answers requests to join that arrive at this node's broker.
func (b *Client) ServePairing(handle func(id string, from wire.Hint, box []byte) []byte) error {
	_, err := b.Conn.Subscribe("bh.pair.*.*", func(msg *nats.Msg) {
		part := strings.Split(msg.Subject, ".")
		from, ok := wire.Topic{Kind: wire.KindAsk, Key: part[3]}.Sender()
		// Reply only to the sender of the request: the broker lets a node subscribe to its own
		// inbox alone.
		if !ok || !strings.HasPrefix(msg.Reply, Inbox(from)+".") {
			return
		}
		if reply := handle(part[2], from, msg.Data); reply != nil {
			_ = msg.Respond(reply) // a node that misses the reply asks again
		}
	})
	if err != nil {
		return fmt.Errorf("broker %s: %w", b.Server, natsdial.Cleared(err))
	}
	return nil
}
