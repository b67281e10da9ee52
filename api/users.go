package api

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// Users manages the accounts of a node. Errors wrap the sentinels of package
// bulkhead; changes are durable when a method returns. Methods may be called
// concurrently.
type Users interface {
	// IsAdmin reports whether the open account may manage accounts.
	IsAdmin(ctx context.Context, account string) bool
	// Users returns every account in the order of their names.
	Users(ctx context.Context) ([]User, error)
	// User returns the account called name; ok is false if there is none.
	User(ctx context.Context, name string) (u User, ok bool, err error)
	// AddUser creates an account, and returns its bearer token.
	AddUser(ctx context.Context, u NewUser) (token string, err error)
	// ChangeUser changes what the change names.
	ChangeUser(ctx context.Context, name string, c UserChange) error
	// RemoveUser removes an account.
	RemoveUser(ctx context.Context, name string) error
	// NewToken replaces the bearer token of an account.
	NewToken(ctx context.Context, name string) (token string, err error)
	// SetSecret sets the secret that an account shares with the clients of a
	// protocol ("razor2", "pyzor", "dcc"); "" removes it.
	SetSecret(ctx context.Context, name, protocol, secret string) error
}

// A User is an account as administrators see it.
type User struct {
	Name      string     `json:"name"`
	Role      string     `json:"role" enum:"anonymous,reporter,trusted,admin"`
	Weight    float64    `json:"weight" minimum:"0" maximum:"1" doc:"What an administrator gave, or what a reporter started with."`
	Worth     float64    `json:"worth" minimum:"0" maximum:"1" doc:"What a report weighs at present."`
	Created   time.Time  `json:"created"`
	From      netip.Addr `json:"from,omitzero" doc:"Address that registered the account, if it registered itself."`
	Closed    bool       `json:"closed" doc:"A closed account keeps its name and may do nothing."`
	Confirmed uint32     `json:"confirmed" doc:"Reports that others confirmed."`
	Reverted  uint32     `json:"reverted" doc:"Reports that were revoked."`
	Token     bool       `json:"token" doc:"Whether it has a bearer token."`
	Protocols []string   `json:"protocols" doc:"Protocols that it has a secret for."`
}

// A NewUser is an account to create.
type NewUser struct {
	Name   string   `json:"name" minLength:"1" maxLength:"128"`
	Role   string   `json:"role,omitempty" enum:"anonymous,reporter,trusted,admin" default:"reporter"`
	Weight *float64 `json:"weight,omitempty" minimum:"0" maximum:"1" doc:"Absent: what the configuration gives to the role."`
}

// A UserChange is what to change of an account; absent fields stay.
type UserChange struct {
	Role   *string  `json:"role,omitempty" enum:"anonymous,reporter,trusted,admin"`
	Weight *float64 `json:"weight,omitempty" minimum:"0" maximum:"1"`
	Closed *bool    `json:"closed,omitempty"`
}

// A Token is a bearer token. It is told once; the node keeps only its hash.
type Token struct {
	Name  string `json:"name"`
	Token string `json:"token"`
}

// A Secret is what an account shares with the clients of a protocol.
type Secret struct {
	Secret string `json:"secret" maxLength:"1024" doc:"\"\" removes it."`
}

// maxSecret is the largest number of bytes in a Secret.
const maxSecret = 1024

func unknownUser(name string) error {
	return newProblem(http.StatusNotFound, fmt.Sprintf("no account is called %.128q", name))
}

func (s *Server) listUsers(r *request) (any, error) {
	users, err := s.users.Users(r.Context())
	if users == nil {
		users = []User{}
	}
	return users, err
}

func (s *Server) showUser(r *request) (any, error) { return s.user(r, r.PathValue("name")) }

func (s *Server) user(r *request, name string) (any, error) {
	u, ok, err := s.users.User(r.Context(), name)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, unknownUser(name)
	}
	return &u, nil
}

func (s *Server) addUser(r *request) (any, error) {
	u, err := one[NewUser](r)
	if err != nil {
		return nil, err
	}
	r.did = []any{"account", u.Name, "role", u.Role}
	if u.Weight != nil {
		r.did = append(r.did, "weight", *u.Weight)
	}
	_, taken, err := s.users.User(r.Context(), u.Name)
	if err != nil {
		return nil, err
	}
	if taken {
		return nil, newProblem(http.StatusConflict, fmt.Sprintf("account %.128q exists", u.Name))
	}
	token, err := s.users.AddUser(r.Context(), u)
	if err != nil {
		return nil, err
	}
	return &Token{Name: u.Name, Token: token}, nil
}

func (s *Server) changeUser(r *request) (any, error) {
	c, err := one[UserChange](r)
	if err != nil {
		return nil, err
	}
	name := r.PathValue("name")
	r.did = []any{"account", name}
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
	if err := s.users.ChangeUser(r.Context(), name, c); err != nil {
		return nil, err
	}
	return s.user(r, name)
}

func (s *Server) removeUser(r *request) (any, error) {
	name := r.PathValue("name")
	r.did = []any{"account", name}
	if _, err := s.user(r, name); err != nil {
		return nil, err
	}
	return nil, s.users.RemoveUser(r.Context(), name)
}

func (s *Server) newToken(r *request) (any, error) {
	name := r.PathValue("name")
	r.did = []any{"account", name}
	if _, err := s.user(r, name); err != nil {
		return nil, err
	}
	token, err := s.users.NewToken(r.Context(), name)
	if err != nil {
		return nil, err
	}
	return &Token{Name: name, Token: token}, nil
}

func (s *Server) setSecret(r *request) (any, error) {
	secret, err := one[Secret](r)
	if err != nil {
		return nil, err
	}
	if len(secret.Secret) > maxSecret {
		return nil, fmt.Errorf("%w: secret of %d bytes, limit %d", bulkhead.ErrMalformed, len(secret.Secret), maxSecret)
	}
	name, protocol := r.PathValue("name"), r.PathValue("protocol")
	r.did = []any{"account", name, "protocol", protocol}
	if _, err := s.user(r, name); err != nil {
		return nil, err
	}
	return nil, s.users.SetSecret(r.Context(), name, protocol, secret.Secret)
}
