package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// Users manages the accounts of a node. Errors wrap the sentinels of package
// bulkhead; changes are durable when a method returns. Methods may be called
// concurrently.
type Users interface {
	// IsAdmin reports whether the open account may manage accounts.
	IsAdmin(ctx context.Context, account string) bool
	// IsTrusted reports whether the open account is trusted or an administrator's. Such a client may
	// count sightings of others, and name the user for whom it reports.
	IsTrusted(ctx context.Context, account string) bool
	// Users returns every account in the order of names.
	Users(ctx context.Context) ([]admin.User, error)
	// Weights returns the weights of accounts' votes over time.
	Weights(ctx context.Context) []admin.Weights
	// User returns the account called name; ok is false if there is none.
	User(ctx context.Context, name string) (u admin.User, ok bool, err error)
	// AddUser creates an account, and returns its bearer token.
	AddUser(ctx context.Context, u admin.NewUser) (token string, err error)
	// ChangeUser applies the change.
	ChangeUser(ctx context.Context, name string, c admin.UserChange) error
	// RemoveUser removes an account.
	RemoveUser(ctx context.Context, name string) error
	// NewToken replaces the bearer token of an account.
	NewToken(ctx context.Context, name string) (token string, err error)
	// UndoVotes takes back the votes of a voter at or after a time. The voter is the account called
	// name, or the user of that name for whom a service reports; account:NAME, user:NAME and
	// user:SERVICE=NAME select one of these. If the name matches several voters with votes, the error
	// is a conflict.
	UndoVotes(ctx context.Context, name string, since time.Time) (admin.Undone, error)
	// PreviewUndo returns what UndoVotes would do now, and changes nothing.
	PreviewUndo(ctx context.Context, name string, since time.Time) (admin.Undone, error)
	// PreviewClose returns what closing an account would do now, except to its sessions, and changes
	// nothing. It returns the same error as the change would.
	PreviewClose(ctx context.Context, name string) (admin.Closing, error)
	// SetSecret sets the secret that an account shares with the clients of a
	// protocol ("razor2", "pyzor", "dcc"); "" removes it.
	SetSecret(ctx context.Context, name, protocol, secret string) error
}

func unknownUser(name string) error {
	return newProblem(http.StatusNotFound, fmt.Sprintf("no account is called %.128q", name))
}

func (s *Server) listUsers(r *request) (any, error) {
	users, err := s.opts.Users.Users(r.Context())
	if users == nil {
		users = []admin.User{}
	}
	return users, err
}

func (s *Server) showUser(r *request) (any, error) { return s.user(r, r.PathValue("name")) }

func (s *Server) user(r *request, name string) (any, error) {
	u, ok, err := s.opts.Users.User(r.Context(), name)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, unknownUser(name)
	}
	return &u, nil
}

func (s *Server) addUser(r *request) (any, error) {
	u, err := one[admin.NewUser](r)
	if err != nil {
		return nil, err
	}
	r.did = []any{"account", u.Name, "role", u.Role}
	if u.Weight != nil {
		r.did = append(r.did, "weight", *u.Weight)
	}
	_, taken, err := s.opts.Users.User(r.Context(), u.Name)
	if err != nil {
		return nil, err
	}
	if taken {
		return nil, newProblem(http.StatusConflict, fmt.Sprintf("account %.128q exists", u.Name))
	}
	token, err := s.opts.Users.AddUser(r.Context(), u)
	if err != nil {
		return nil, err
	}
	return &admin.Token{Name: u.Name, Token: token}, nil
}

func (s *Server) changeUser(r *request) (any, error) {
	c, err := one[admin.UserChange](r)
	if err != nil {
		return nil, err
	}
	name := r.PathValue("name")
	r.did = []any{"account", name}
	if c.Person != nil {
		r.did = append(r.did, "person", *c.Person)
	}
	if c.Parent != nil {
		r.did = append(r.did, "parent", *c.Parent)
	}
	if c.Role != nil {
		r.did = append(r.did, "role", *c.Role)
	}
	if c.Weight != nil {
		r.did = append(r.did, "weight", *c.Weight)
	}
	if c.Closed != nil {
		r.did = append(r.did, "closed", *c.Closed)
	}
	if _, err := s.user(r, name); err != nil {
		return nil, err
	}
	if err := s.opts.Users.ChangeUser(r.Context(), name, c); err != nil {
		return nil, err
	}
	if c.Closed != nil && *c.Closed {
		s.sessions.endAll(name)
	}
	return s.user(r, name)
}

func (s *Server) removeUser(r *request) (any, error) {
	name := r.PathValue("name")
	r.did = []any{"account", name}
	if _, err := s.user(r, name); err != nil {
		return nil, err
	}
	if err := s.opts.Users.RemoveUser(r.Context(), name); err != nil {
		return nil, err
	}
	s.sessions.endAll(name)
	return nil, nil
}

func (s *Server) newToken(r *request) (any, error) {
	name := r.PathValue("name")
	r.did = []any{"account", name}
	if _, err := s.user(r, name); err != nil {
		return nil, err
	}
	token, err := s.opts.Users.NewToken(r.Context(), name)
	if err != nil {
		return nil, err
	}
	s.sessions.endAll(name)
	return &admin.Token{Name: name, Token: token}, nil
}

func (s *Server) undoVotes(r *request) (any, error) {
	undo, err := one[admin.Undo](r)
	if err != nil {
		return nil, err
	}
	name := r.PathValue("name")
	r.did = []any{"account", name, "since", undo.Since}
	if undo.Since.IsZero() {
		return nil, fmt.Errorf("%w: no time", bulkhead.ErrMalformed)
	}
	undone, err := s.opts.Users.UndoVotes(r.Context(), name, undo.Since)
	if err != nil {
		return nil, err
	}
	r.did = append(r.did, "votes", undone.Votes, "off", undone.Off, "on", undone.On)
	return &undone, nil
}

func (s *Server) previewUndo(r *request) (any, error) {
	since, err := r.since()
	if err != nil {
		return nil, err
	}
	undone, err := s.opts.Users.PreviewUndo(r.Context(), r.PathValue("name"), since)
	return &undone, err
}

func (s *Server) previewClose(r *request) (any, error) {
	name := r.PathValue("name")
	if _, err := s.user(r, name); err != nil {
		return nil, err
	}
	closing, err := s.opts.Users.PreviewClose(r.Context(), name)
	if closing.AnswersFor == nil {
		closing.AnswersFor = []string{}
	}
	closing.Sessions = s.sessions.count(name, time.Now())
	return &closing, err
}

func (s *Server) setSecret(r *request) (any, error) {
	secret, err := one[admin.Secret](r)
	if err != nil {
		return nil, err
	}
	name, protocol := r.PathValue("name"), r.PathValue("protocol")
	r.did = []any{"account", name, "protocol", protocol}
	if _, err := s.user(r, name); err != nil {
		return nil, err
	}
	if err := s.opts.Users.SetSecret(r.Context(), name, protocol, secret.Secret); err != nil {
		return nil, err
	}
	if protocol == PagesSecret {
		s.sessions.endAll(name)
	}
	return nil, nil
}
