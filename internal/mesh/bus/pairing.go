package bus

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

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
		nats.NoReconnect(), nats.Timeout(connectWait), nats.CustomInboxPrefix(Inbox(from)),
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
	return b.answer("bh.pair.*.*", func(part []string, from wire.Hint, box []byte) []byte {
		return handle(part[2], from, box)
	})
}
