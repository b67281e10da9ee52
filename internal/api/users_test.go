package api

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// fakeUsers is an account book in a map. Tokens are "token-NAME-N" with N the
// number of renewals, and without N at first.
type fakeUsers struct {
	mu      sync.Mutex
	users   map[string]*admin.User
	tokens  map[string]string // by token
	secrets map[string]string
	renewed int
}

func newFakeUsers() *fakeUsers {
	return &fakeUsers{
		users: map[string]*admin.User{
			"alice": {Name: "alice", Role: "admin", Weight: 1, Worth: 1},
			"bob":   {Name: "bob", Role: "reporter", Weight: 0.5, Worth: 0.5},
		},
		tokens:  map[string]string{"token-alice": "alice", "token-bob": "bob"},
		secrets: map[string]string{},
	}
}

func (f *fakeUsers) Authenticate(_ context.Context, token string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name, ok := f.tokens[token]
	if !ok || f.users[name].Closed {
		return "", fmt.Errorf("%w: unknown token", bulkhead.ErrUnauthorised)
	}
	return name, nil
}

func (f *fakeUsers) IsAdmin(_ context.Context, name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.users[name] != nil && f.users[name].Role == "admin"
}

func (f *fakeUsers) IsTrusted(_ context.Context, name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.users[name] != nil && (f.users[name].Role == "admin" || f.users[name].Role == "trusted")
}

func (f *fakeUsers) Weights(context.Context) []admin.Weights { return nil }

func (f *fakeUsers) Users(context.Context) ([]admin.User, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []admin.User
	for _, u := range f.users {
		all = append(all, *u)
	}
	slices.SortFunc(all, func(a, b admin.User) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

func (f *fakeUsers) User(_ context.Context, name string) (admin.User, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	u := f.users[name]
	if u == nil {
		return admin.User{}, false, nil
	}
	return *u, true, nil
}

func (f *fakeUsers) AddUser(_ context.Context, u admin.NewUser) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if u.Name == "" {
		return "", fmt.Errorf("%w: empty name", bulkhead.ErrMalformed)
	}
	f.users[u.Name] = &admin.User{Name: u.Name, Role: u.Role, Protocols: []string{}}
	f.tokens["token-"+u.Name] = u.Name
	return "token-" + u.Name, nil
}

func (f *fakeUsers) ChangeUser(_ context.Context, name string, c admin.UserChange) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	u := f.users[name]
	if c.Weight != nil {
		if *c.Weight > 1 {
			return fmt.Errorf("%w: weight %v", bulkhead.ErrMalformed, *c.Weight)
		}
		u.Weight = *c.Weight
	}
	if c.Role != nil {
		u.Role = *c.Role
	}
	if c.Closed != nil {
		u.Closed = *c.Closed
	}
	return nil
}

func (f *fakeUsers) RemoveUser(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.users, name)
	return nil
}

func (f *fakeUsers) NewToken(_ context.Context, name string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for token, owner := range f.tokens {
		if owner == name {
			delete(f.tokens, token)
		}
	}
	f.renewed++
	token := fmt.Sprintf("token-%s-%d", name, f.renewed)
	f.tokens[token] = name
	return token, nil
}

func (f *fakeUsers) UndoVotes(_ context.Context, name string, since time.Time) (admin.Undone, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users[name] == nil {
		return admin.Undone{}, nil
	}
	return admin.Undone{Votes: 7, Off: 2, On: 1, Oldest: since.Add(time.Hour)}, nil
}

func (f *fakeUsers) PreviewUndo(ctx context.Context, name string, since time.Time) (admin.Undone, error) {
	return f.UndoVotes(ctx, name, since)
}

func (f *fakeUsers) PreviewClose(_ context.Context, name string) (admin.Closing, error) {
	if name == "alice" {
		return admin.Closing{}, fmt.Errorf("%w: last administrator", bulkhead.ErrForbidden)
	}
	return admin.Closing{Votes: 7}, nil
}

func (f *fakeUsers) SetSecret(_ context.Context, name, protocol, secret string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.secrets[name+"/"+protocol] = secret
	return nil
}

func TestUsers(t *testing.T) {
	users := newFakeUsers()
	srv := httptest.NewServer(newServer(t, &prototest.House{}, func(o *Options) { o.Accounts, o.Users = users, users }))
	defer srv.Close()
	c := &admin.Client{Client: client.Client{Server: srv.URL, HTTP: srv.Client(), Token: "token-alice"}}
	ctx := t.Context()

	// A name with all characters that are special in a path.
	const name = "carol/../x y%2Fé?#"
	token, err := c.AddUser(ctx, admin.NewUser{Name: name, Role: "reporter"})
	if err != nil || token.Name != name || token.Token != "token-"+name {
		t.Fatalf("AddUser = %+v, %v", token, err)
	}
	if _, err := c.AddUser(ctx, admin.NewUser{Name: name}); statusOf(err) != 409 {
		t.Errorf("AddUser again = %v, want status 409", err)
	}
	weight, closed := 0.25, true
	u, err := c.ChangeUser(ctx, name, admin.UserChange{Weight: &weight})
	if err != nil || u.Weight != 0.25 || u.Role != "reporter" {
		t.Errorf("ChangeUser = %+v, %v", u, err)
	}
	if u, err = c.User(ctx, name); err != nil || u.Weight != 0.25 {
		t.Errorf("User = %+v, %v", u, err)
	}
	tooMuch := 1.5
	if _, err := c.ChangeUser(ctx, name, admin.UserChange{Weight: &tooMuch}); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Errorf("ChangeUser(weight 1.5) = %v, want ErrMalformed", err)
	}
	if err := c.SetSecret(ctx, name, "pyzor", "s3cret"); err != nil || users.secrets[name+"/pyzor"] != "s3cret" {
		t.Errorf("SetSecret = %v, secrets %v", err, users.secrets)
	}
	renewed, err := c.NewToken(ctx, name)
	if err != nil || renewed.Token == token.Token {
		t.Errorf("NewToken = %+v, %v; want another token", renewed, err)
	}
	own := &admin.Client{Client: client.Client{Server: srv.URL, HTTP: srv.Client(), Token: renewed.Token}}
	if _, err := own.Node(ctx); err != nil {
		t.Errorf("Node with the new token: %v", err)
	}
	if _, err := c.ChangeUser(ctx, name, admin.UserChange{Closed: &closed}); err != nil {
		t.Error(err)
	}
	if _, err := own.Node(ctx); !errors.Is(err, bulkhead.ErrUnauthorised) {
		t.Errorf("Node with the token of a closed account = %v, want ErrUnauthorised", err)
	}
	all, err := c.Users(ctx)
	if err != nil || len(all) != 3 {
		t.Errorf("Users = %+v, %v; want three", all, err)
	}
	if err := c.RemoveUser(ctx, name); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"RemoveUser": c.RemoveUser(ctx, name),
		"SetSecret":  c.SetSecret(ctx, name, "pyzor", "x"),
	} {
		if statusOf(err) != 404 {
			t.Errorf("%s of an unknown account = %v, want status 404", what, err)
		}
	}
}

// TestUndoVotes: the time is required, and the answer says what was undone.
func TestUndoVotes(t *testing.T) {
	users := newFakeUsers()
	srv := httptest.NewServer(newServer(t, &prototest.House{}, func(o *Options) { o.Accounts, o.Users = users, users }))
	defer srv.Close()
	c := &admin.Client{Client: client.Client{Server: srv.URL, HTTP: srv.Client(), Token: "token-alice"}}
	since := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	got, err := c.UndoVotes(t.Context(), "bob", since)
	if want := (admin.Undone{Votes: 7, Off: 2, On: 1, Oldest: since.Add(time.Hour)}); err != nil || *got != want {
		t.Errorf("undone %+v, %v, want %+v", got, err, want)
	}
	// A user need not have an account.
	if got, err := c.UndoVotes(t.Context(), "service=ann", since); err != nil || *got != (admin.Undone{}) {
		t.Errorf("of a person without votes: %+v, %v", got, err)
	}
	if _, err := c.UndoVotes(t.Context(), "bob", time.Time{}); statusOf(err) != 400 && statusOf(err) != 422 {
		t.Errorf("without a time: %v", err)
	}
	c.Token = "token-bob"
	if _, err := c.UndoVotes(t.Context(), "bob", since); statusOf(err) != 403 {
		t.Errorf("by a reporter: %v", err)
	}
}

// TestPreviews: administrators alone can preview the effects of undoing votes and of closing an
// account, and nothing changes.
func TestPreviews(t *testing.T) {
	users := newFakeUsers()
	s := newServer(t, &prototest.House{}, func(o *Options) { o.Accounts, o.Users = users, users })
	srv := httptest.NewServer(s)
	defer srv.Close()
	c := &admin.Client{Client: client.Client{Server: srv.URL, HTTP: srv.Client(), Token: "token-alice"}}
	ctx := t.Context()
	since := time.Date(2026, 3, 1, 10, 0, 0, 500, time.FixedZone("", 3600))
	undone, err := c.PreviewUndo(ctx, "bob", since)
	if err != nil || undone.Votes != 7 || undone.Off != 2 || !undone.Oldest.Equal(since.Add(time.Hour)) {
		t.Errorf("PreviewUndo = %+v, %v", undone, err)
	}
	now := time.Now()
	begun(t, s.sessions, "bob", now)
	linked(t, s.sessions, "bob", now)
	begun(t, s.sessions, "bob", now.Add(-sessionLife)) // has ended
	begun(t, s.sessions, "alice", now)
	closing, err := c.PreviewClose(ctx, "bob")
	if err != nil || closing.Votes != 7 || closing.Sessions != 2 || closing.AnswersFor == nil ||
		len(closing.AnswersFor) != 0 {
		t.Errorf("PreviewClose = %+v, %v", closing, err)
	}
	if u, err := c.User(ctx, "bob"); err != nil || u.Closed {
		t.Errorf("after the preview: %+v, %v", u, err)
	}
	for what, tt := range map[string]struct {
		err    error
		status int
	}{
		"no account":         {second(c.PreviewClose(ctx, "nobody")), 404},
		"last administrator": {second(c.PreviewClose(ctx, "alice")), 403},
		"no time":            {second(c.PreviewUndo(ctx, "bob", time.Time{})), 400},
	} {
		if got := statusOf(tt.err); got != tt.status {
			t.Errorf("%s: %v, want status %d", what, tt.err, tt.status)
		}
	}
	for query, want := range map[string]int{"": 400, "?since=": 400, "?since=soon": 400,
		"?since=2026-01-01T00:00:00Z&x=1": 400, "?since=2026-01-01T00:00:00Z": 200} {
		if got := send(s, "127.0.0.1:1", "GET", "/v1/users/bob/undo"+query, "", "", "Authorization",
			"Bearer token-alice").Code; got != want {
			t.Errorf("preview%s answers %d, want %d", query, got, want)
		}
	}
	c.Token = "token-bob"
	for what, err := range map[string]error{"PreviewUndo": second(c.PreviewUndo(ctx, "bob", since)),
		"PreviewClose": second(c.PreviewClose(ctx, "bob"))} {
		if statusOf(err) != 403 {
			t.Errorf("%s by a reporter: %v", what, err)
		}
	}
}

// TestUsersNamedLikeFolders: an account with a name that path cleaning would remove is managed like
// any other. A client that registers itself may choose such a name.
func TestUsersNamedLikeFolders(t *testing.T) {
	users := newFakeUsers()
	srv := httptest.NewServer(newServer(t, &prototest.House{}, func(o *Options) { o.Accounts, o.Users = users, users }))
	defer srv.Close()
	c := &admin.Client{Client: client.Client{Server: srv.URL, HTTP: srv.Client(), Token: "token-alice"}}
	ctx, closed := t.Context(), true
	for _, name := range []string{".", "..", "...", "%2E%2E"} {
		if _, err := c.AddUser(ctx, admin.NewUser{Name: name}); err != nil {
			t.Fatal(err)
		}
		if u, err := c.ChangeUser(ctx, name, admin.UserChange{Closed: &closed}); err != nil || u.Name != name || !u.Closed {
			t.Errorf("ChangeUser(%q) = %+v, %v", name, u, err)
		}
		if _, err := c.NewToken(ctx, name); err != nil {
			t.Errorf("NewToken(%q): %v", name, err)
		}
		if err := c.SetSecret(ctx, name, "pyzor", "s3cret"); err != nil || users.secrets[name+"/pyzor"] != "s3cret" {
			t.Errorf("SetSecret(%q) = %v, secrets %v", name, err, users.secrets)
		}
		if err := c.RemoveUser(ctx, name); err != nil || users.users[name] != nil {
			t.Errorf("RemoveUser(%q) = %v", name, err)
		}
	}
}

func statusOf(err error) int {
	var p *client.Problem
	if errors.As(err, &p) {
		return p.Status
	}
	return 0
}
