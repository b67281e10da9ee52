package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// Pairing brings nodes into networks. Errors wrap the sentinels of package bulkhead, or
// are a [client.Problem]; changes are durable when a method returns. Methods may be called
// concurrently.
type Pairing interface {
	// Invite makes an invitation. It returns an error that wraps [ErrNoMesh] if the
	// node shares nothing.
	Invite(ctx context.Context, n admin.NewInvitation) (admin.Invitation, error)
	// Invitations returns the stored invitations, without their lines.
	Invitations(ctx context.Context) ([]admin.Invitation, error)
	// Withdraw makes an invitation void.
	Withdraw(ctx context.Context, id string) error
	// Decide accepts or refuses a waiting node that has presented an invitation.
	Decide(ctx context.Context, key string, accept bool) error
	// Join joins the network of an invitation.
	Join(ctx context.Context, j admin.Join) (admin.Joining, error)
	// Leave leaves the network.
	Leave(ctx context.Context) (admin.Left, error)
	// ChangeSecret announces a new secret of the network.
	ChangeSecret(ctx context.Context, n admin.NewSecret) (admin.SecretChange, error)
	// KeepSecret withdraws an announced secret.
	KeepSecret(ctx context.Context) (admin.SecretChange, error)
}

// noMesh returns the error that clients of a node without a mesh receive.
func noMesh(err error) error {
	if errors.Is(err, ErrNoMesh) {
		return newProblem(http.StatusNotFound, ErrNoMesh.Error())
	}
	return err
}

// pairs returns the node's Pairing, or an error if it has none.
func (s *Server) pairs() (Pairing, error) {
	if s.opts.Pairing == nil {
		return nil, noMesh(ErrNoMesh)
	}
	return s.opts.Pairing, nil
}

func (s *Server) invite(r *request) (any, error) {
	n, err := one[admin.NewInvitation](r)
	if err != nil {
		return nil, err
	}
	p, err := s.pairs()
	if err != nil {
		return nil, err
	}
	v, err := p.Invite(r.Context(), n)
	if err != nil {
		return nil, noMesh(err)
	}
	r.did = []any{"invitation", v.ID, "name", v.Name, "weight", v.Weight, "uses", v.Uses}
	return &v, nil
}

func (s *Server) invitations(r *request) (any, error) {
	p, err := s.pairs()
	if err != nil {
		return nil, err
	}
	list, err := p.Invitations(r.Context())
	if list == nil {
		list = []admin.Invitation{}
	}
	return list, noMesh(err)
}

func (s *Server) withdraw(r *request) (any, error) {
	p, err := s.pairs()
	if err != nil {
		return nil, err
	}
	r.did = []any{"invitation", r.PathValue("id")}
	return nil, noMesh(p.Withdraw(r.Context(), r.PathValue("id")))
}

func (s *Server) acceptPeer(r *request) (any, error) {
	if err := s.decidePeer(r, true); err != nil {
		return nil, err
	}
	return s.peer(r, r.PathValue("key"))
}

func (s *Server) refusePeer(r *request) (any, error) { return nil, s.decidePeer(r, false) }

func (s *Server) decidePeer(r *request, accept bool) error {
	p, err := s.pairs()
	if err != nil {
		return err
	}
	r.did = []any{"peer", r.PathValue("key")}
	return noMesh(p.Decide(r.Context(), r.PathValue("key"), accept))
}

func (s *Server) join(r *request) (any, error) {
	j, err := one[admin.Join](r)
	if err != nil {
		return nil, err
	}
	p, err := s.pairs()
	if err != nil {
		return nil, err
	}
	out, err := p.Join(r.Context(), j)
	if err != nil {
		return nil, err
	}
	r.did = []any{"network", out.Network, "inviter", out.Inviter, "state", out.State}
	// The command asks every second until the inviter accepts. The record has no room for that.
	var waiting *string
	if out.State == "waiting" {
		text := fmt.Sprint(r.who.Account, r.did)
		waiting = &text
	}
	before := s.waiting.Swap(waiting)
	r.again = waiting != nil && before != nil && *before == *waiting
	return &out, nil
}

func (s *Server) leave(r *request) (any, error) {
	p, err := s.pairs()
	if err != nil {
		return nil, err
	}
	out, err := p.Leave(r.Context())
	if err != nil {
		return nil, noMesh(err)
	}
	r.did = []any{"network", out.Network}
	return &out, nil
}

func (s *Server) changeSecret(r *request) (any, error) {
	n, err := one[admin.NewSecret](r)
	if err != nil {
		return nil, err
	}
	p, err := s.pairs()
	if err != nil {
		return nil, err
	}
	return secretChange(r)(p.ChangeSecret(r.Context(), n))
}

func (s *Server) keepSecret(r *request) (any, error) {
	p, err := s.pairs()
	if err != nil {
		return nil, err
	}
	return secretChange(r)(p.KeepSecret(r.Context()))
}

// secretChange returns a function that records a change of the secret and answers the request.
func secretChange(r *request) func(admin.SecretChange, error) (any, error) {
	return func(c admin.SecretChange, err error) (any, error) {
		if err != nil {
			return nil, noMesh(err)
		}
		r.did = []any{"network", c.To, "before", c.From, "at", c.At}
		return &c, nil
	}
}
