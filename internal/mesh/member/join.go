package member

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// An Asker presents the invitation with an ID to a hub that holds the key of the inviter, and returns
// the hub's reply to a request. known is false if the hub does not know the invitation.
type Asker func(ctx context.Context, hub, id string, inviter wire.Public, request []byte) (reply []byte, known bool,
	err error)

// JoinBy presents an invitation to its inviter, at one hub after the other. An error that wraps
// [bulkhead.ErrForbidden] has the inviter's reason for a refusal. Any other error means that the
// inviter could not be reached.
func JoinBy(ctx context.Context, ask Asker, v *Invitation, id *Identity, name string,
	now func() time.Time) (Joined, error) {
	if t := now(); t.After(v.Expires) {
		return Joined{}, fmt.Errorf("%w: mesh: the invitation expired at %s; it is %s by this node's clock",
			bulkhead.ErrForbidden, v.Expires.Format(time.RFC3339), t.UTC().Format(time.RFC3339))
	}
	if v.Inviter == id.ID() {
		return Joined{}, fmt.Errorf("%w: mesh: the invitation is this node's own", bulkhead.ErrMalformed)
	}
	var errs []error
	for _, hub := range v.Hubs {
		r, err := askHub(ctx, ask, hub, v, id, name, now())
		if err != nil {
			errs = append(errs, fmt.Errorf("hub %s: %w", hub, err))
			continue
		}
		switch r.State {
		case PairAccepted:
			return Joined{Secret: filter.Secret(r.Secret), Name: r.Name}, nil
		case PairWaiting:
			return Joined{Waiting: true, Name: r.Name}, nil
		}
		return Joined{}, fmt.Errorf("%w: mesh: the inviter refuses: %.400s", bulkhead.ErrForbidden, r.Why)
	}
	return Joined{}, errors.Join(errs...)
}

// askHub makes one request.
func askHub(ctx context.Context, ask Asker, hub string, v *Invitation, id *Identity, name string,
	now time.Time) (r pairReply, err error) {
	inviter, err := wire.ParsePublic(v.Inviter)
	if err != nil {
		return r, err
	}
	box, private, err := SealRequest(v, id, name, now)
	if err != nil {
		return r, err
	}
	reply, known, err := ask(ctx, hub, v.ID(), inviter, box)
	switch {
	case err != nil:
		return r, err
	case !known:
		return pairReply{State: PairRefused,
			Why: "it does not know the invitation: it was withdrawn, or expired long ago"}, nil
	}
	return openReply(v, private, id.ID(), reply)
}
