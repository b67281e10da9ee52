package manage

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/mesh"
)

// Invite implements [api.Pairing].
func (p *Peers) Invite(_ context.Context, in admin.NewInvitation) (admin.Invitation, error) {
	m, err := p.Mesh()
	if err != nil {
		return admin.Invitation{}, err
	}
	hubs := in.Hubs
	if len(hubs) == 0 {
		hub, err := hubAddress(p.member.Listen())
		if err != nil {
			return admin.Invitation{}, err
		}
		hubs = []string{hub}
	}
	line, s, err := m.Invite(mesh.NewInvitation{
		Name: in.Name, Weight: in.Weight, Uses: in.Uses, Accept: in.Accept, Group: in.Group,
		Lifetime: time.Duration(in.Seconds * float64(time.Second)), Hubs: hubs,
	})
	if err != nil {
		return admin.Invitation{}, err
	}
	out := invitationOf(s)
	out.Line, out.Hubs = line, hubs
	return out, nil
}

// hubAddress returns the address at which other nodes reach a hub that listens on an address. If
// that has no host, it is the name of the machine.
func hubAddress(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("%w: mesh.listen %.80q is not host:port", bulkhead.ErrMalformed, listen)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		if host, err = os.Hostname(); err != nil {
			return "", fmt.Errorf("%w: the name of this machine is not known; say where the hub is found: %v",
				bulkhead.ErrMalformed, err)
		}
	}
	return net.JoinHostPort(host, port), nil
}

func invitationOf(s mesh.InvitationStatus) admin.Invitation {
	out := admin.Invitation{ID: s.ID, Name: s.Name, Weight: s.Weight, Uses: s.Uses, Accept: s.Accept, Group: s.Group,
		Expires: s.Expires, Joiners: []admin.Joiner{}}
	for _, j := range s.Joined {
		out.Joiners = append(out.Joiners, admin.Joiner{Key: j.Key, Name: j.Name, At: j.At, State: j.State})
	}
	return out
}

// Invitations implements [api.Pairing].
func (p *Peers) Invitations(context.Context) (out []admin.Invitation, err error) {
	m, err := p.Mesh()
	if err != nil {
		return nil, err
	}
	for _, s := range m.Invitations() {
		out = append(out, invitationOf(s))
	}
	return out, nil
}

// Withdraw implements [api.Pairing].
func (p *Peers) Withdraw(_ context.Context, id string) error {
	m, err := p.Mesh()
	if err != nil {
		return err
	}
	return m.Withdraw(id)
}

// Decide implements [api.Pairing].
func (p *Peers) Decide(ctx context.Context, key string, accept bool) error {
	m, err := p.Mesh()
	if err != nil {
		return err
	}
	return m.Decide(ctx, key, accept)
}

// Join implements [api.Pairing].
func (p *Peers) Join(ctx context.Context, in admin.Join) (admin.Joining, error) {
	v, err := mesh.ParseInvitation(in.Line)
	if err != nil {
		return admin.Joining{}, err
	}
	return p.member.Join(ctx, v, in.Weight, in.Dry)
}

// Leave implements [api.Pairing].
func (p *Peers) Leave(ctx context.Context) (admin.Left, error) { return p.member.Leave(ctx) }

// ChangeSecret implements [api.Pairing].
func (p *Peers) ChangeSecret(_ context.Context, in admin.NewSecret) (admin.SecretChange, error) {
	m, err := p.Mesh()
	if err != nil {
		return admin.SecretChange{}, err
	}
	n := mesh.NewRotation{After: time.Duration(in.Seconds * float64(time.Second)), Anyway: in.Anyway}
	var other filter.Secret // any but the node's present and former secrets
	if in.Secret != "" {
		raw, err := hex.DecodeString(in.Secret)
		if err != nil || len(raw) != len(other) {
			return admin.SecretChange{}, fmt.Errorf("%w: a secret is %d hexadecimal digits", bulkhead.ErrMalformed,
				2*len(other))
		}
		other = filter.Secret(raw)
		n.Secret = &other
	}
	if err := p.member.CanRekey(other); err != nil {
		return admin.SecretChange{}, err
	}
	s, err := m.Rotate(n)
	return secretChange(&s), err
}

// KeepSecret implements [api.Pairing].
func (p *Peers) KeepSecret(context.Context) (admin.SecretChange, error) {
	m, err := p.Mesh()
	if err != nil {
		return admin.SecretChange{}, err
	}
	s, err := m.CancelRotation()
	return secretChange(&s), err
}

func secretChange(s *mesh.RotationStatus) admin.SecretChange {
	return admin.SecretChange{From: s.From, To: s.To, At: s.At, By: s.By, Done: s.Done,
		Fetched: append([]string{}, s.Fetched...), Through: append([]string{}, s.Through...),
		Missing: append([]string{}, s.Missing...), Unable: s.Unable}
}
