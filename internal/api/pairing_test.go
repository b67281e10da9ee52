package api

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// fakePairing is a Pairing for tests.
type fakePairing struct {
	*fakePeers
	list []admin.Invitation
}

func (f *fakePairing) Invite(_ context.Context, n admin.NewInvitation) (admin.Invitation, error) {
	if f.disabled {
		return admin.Invitation{}, ErrNoMesh
	}
	v := admin.Invitation{ID: fmt.Sprint(len(f.list)), Name: n.Name, Weight: n.Weight, Uses: max(1, n.Uses),
		Accept: n.Accept, Joiners: []admin.Joiner{}}
	f.list = append(f.list, v)
	v.Line = "a line"
	return v, nil
}

func (f *fakePairing) Invitations(context.Context) ([]admin.Invitation, error) { return f.list, nil }

func (f *fakePairing) Withdraw(_ context.Context, id string) error {
	if id != "0" {
		return fmt.Errorf("%w: no invitation %q", bulkhead.ErrMalformed, id)
	}
	f.list = nil
	return nil
}

func (f *fakePairing) Decide(ctx context.Context, key string, accept bool) error {
	if !accept {
		return nil
	}
	return f.AddPeer(ctx, admin.NewPeer{Key: key, Weight: 1})
}

func (f *fakePairing) Join(_ context.Context, j admin.Join) (admin.Joining, error) {
	if j.Line == "not accepted" {
		return admin.Joining{State: "waiting", Network: "n"}, nil
	}
	if j.Line != "a line" {
		return admin.Joining{}, &client.Problem{Status: 502, Detail: "no hub"}
	}
	return admin.Joining{State: "joined", Network: "n"}, nil
}

func (f *fakePairing) ChangeSecret(_ context.Context, n admin.NewSecret) (admin.SecretChange, error) {
	if f.disabled {
		return admin.SecretChange{}, ErrNoMesh
	}
	return admin.SecretChange{From: "a", To: n.Secret, At: time.Unix(int64(n.Seconds), 0).UTC(), By: "k",
		Fetched: []string{}, Through: []string{}, Missing: []string{"x"}}, nil
}

func (f *fakePairing) KeepSecret(context.Context) (admin.SecretChange, error) {
	return admin.SecretChange{}, fmt.Errorf("%w: none is to come", bulkhead.ErrMalformed)
}

func (f *fakePairing) Leave(context.Context) (admin.Left, error) { return admin.Left{Peers: 2}, nil }

// TestPairing: what an administrator asks through the client reaches the node, and other clients
// are refused.
func TestPairing(t *testing.T) {
	f := &fakePairing{fakePeers: new(fakePeers)}
	users := newFakeUsers()
	serve := func(set func(*Options)) func(token string) *admin.Client {
		srv := httptest.NewServer(newServer(t, &prototest.House{}, func(o *Options) {
			o.Accounts, o.Users = users, users
			set(o)
		}))
		t.Cleanup(srv.Close)
		return func(token string) *admin.Client {
			return &admin.Client{Client: client.Client{Server: srv.URL, HTTP: srv.Client(), Token: token}}
		}
	}
	with := serve(func(o *Options) { o.Peers, o.Pairing = f, f })
	c, ctx := with("token-alice"), t.Context()
	v, err := c.Invite(ctx, admin.NewInvitation{Name: "bob", Weight: 0.5, Uses: 3})
	if err != nil || v.Line != "a line" || v.Name != "bob" || v.Uses != 3 || v.Weight != 0.5 {
		t.Fatalf("%+v, %v", v, err)
	}
	if list, err := c.Invitations(ctx); err != nil || len(list) != 1 || list[0].Line != "" {
		t.Errorf("%+v, %v", list, err)
	}
	if p, err := c.AcceptPeer(ctx, testKey('B')); err != nil || p.Key != testKey('B') {
		t.Errorf("%+v, %v", p, err)
	}
	if err := c.RefusePeer(ctx, testKey('C')); err != nil {
		t.Error(err)
	}
	if j, err := c.Join(ctx, admin.Join{Line: "a line", Weight: 1}); err != nil || j.State != "joined" {
		t.Errorf("%+v, %v", j, err)
	}
	var problem *client.Problem
	if _, err := c.Join(ctx, admin.Join{Line: "another"}); !errors.As(err, &problem) || problem.Status != 502 ||
		problem.Detail != "no hub" {
		t.Errorf("%v", err)
	}
	if err := c.Withdraw(ctx, "7"); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Error(err)
	}
	if err := c.Withdraw(ctx, "0"); err != nil {
		t.Error(err)
	}
	if l, err := c.Leave(ctx); err != nil || l.Peers != 2 {
		t.Errorf("%+v, %v", l, err)
	}
	digits := strings.Repeat("0a", 16)
	if s, err := c.ChangeSecret(ctx, admin.NewSecret{Seconds: 7, Secret: digits}); err != nil || s.To != digits ||
		s.At.Unix() != 7 || len(s.Missing) != 1 || s.Done {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := c.KeepSecret(ctx); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"in the past":   second(c.ChangeSecret(ctx, admin.NewSecret{Seconds: -1})),
		"in a year":     second(c.ChangeSecret(ctx, admin.NewSecret{Seconds: 365 * 86400})),
		"short secret":  second(c.ChangeSecret(ctx, admin.NewSecret{Secret: digits[1:]})),
		"no secret":     second(c.ChangeSecret(ctx, admin.NewSecret{Secret: "x" + digits[1:]})),
		"weight 2":      second(c.Invite(ctx, admin.NewInvitation{Weight: 2})),
		"2000 uses":     second(c.Invite(ctx, admin.NewInvitation{Uses: 2000})),
		"nine hubs":     second(c.Invite(ctx, admin.NewInvitation{Hubs: make([]string, 9)})),
		"for ever":      second(c.Invite(ctx, admin.NewInvitation{Seconds: 1e9})),
		"join with 1.5": second(c.Join(ctx, admin.Join{Line: "a line", Weight: 1.5})),
	} {
		if !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	other := with("token-bob")
	for what, err := range map[string]error{
		"invite": second(other.Invite(ctx, admin.NewInvitation{})), "list": second(other.Invitations(ctx)),
		"withdraw": other.Withdraw(ctx, "0"),
		"accept":   second(other.AcceptPeer(ctx, testKey('B'))), "refuse": other.RefusePeer(ctx, testKey('B')),
		"join": second(other.Join(ctx, admin.Join{Line: "a line"})), "leave": second(other.Leave(ctx)),
		"change the secret": second(other.ChangeSecret(ctx, admin.NewSecret{})), "keep it": second(other.KeepSecret(ctx)),
	} {
		if !errors.Is(err, bulkhead.ErrForbidden) {
			t.Errorf("%s by no administrator: %v", what, err)
		}
	}
	f.disabled = true
	if _, err := c.Invite(ctx, admin.NewInvitation{}); !errors.As(err, &problem) || problem.Status != 404 {
		t.Errorf("a node that shares with nobody invites: %v", err)
	}
	alone := serve(func(*Options) {})("token-alice")
	if _, err := alone.Invitations(ctx); !errors.As(err, &problem) || problem.Status != 404 {
		t.Errorf("a server without it: %v", err)
	}
}
