package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// begun begins a session.
func begun(t *testing.T, s *sessions, account string, now time.Time) string {
	t.Helper()
	secret, err := s.begin(account, s.era(), now)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// linked makes a link.
func linked(t *testing.T, s *sessions, account string, now time.Time) string {
	t.Helper()
	secret, _, err := s.link(account, s.era(), now)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// TestSessions: a link works once, until it expires, and a session works until it expires,
// regardless of other log-ins.
func TestSessions(t *testing.T) {
	s, now := newSessions(), time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	link, until, err := s.link("ann", s.era(), now)
	if err != nil {
		t.Fatal(err)
	}
	if want := now.Add(linkLife); !until.Equal(want) {
		t.Errorf("the link is good until %v, want %v", until, want)
	}
	if _, ok := s.redeem(link+"x", now); ok {
		t.Error("another link was taken")
	}
	late := linked(t, s, "ann", now)
	if _, ok := s.redeem(late, now.Add(linkLife)); ok {
		t.Error("an expired link was taken")
	}
	if got, ok := s.redeem(link, now.Add(linkLife-1)); got != "ann" || !ok {
		t.Errorf("the link is of %q, %v", got, ok)
	}
	if _, ok := s.redeem(link, now); ok {
		t.Error("the link was taken twice")
	}
	a, b := begun(t, s, "ann", now), begun(t, s, "bob", now)
	if got, ok := s.account(a, now.Add(sessionLife-1)); got != "ann" || !ok {
		t.Errorf("the session is of %q, %v", got, ok)
	}
	if _, ok := s.account(a, now.Add(sessionLife)); ok {
		t.Error("an expired session was taken")
	}
	if _, ok := s.account("", now); ok {
		t.Error("no session was taken for one")
	}
	s.end(b)
	if _, ok := s.account(b, now); ok {
		t.Error("a session goes on after its end")
	}
	link = linked(t, s, "ann", now)
	s.endAll("ann")
	_, session := s.account(a, now)
	if _, ok := s.redeem(link, now); ok || session {
		t.Errorf("a link %v or session %v goes on after the end of all", ok, session)
	}
}

// TestSessionsAreBounded: only the oldest make way for new ones.
func TestSessionsAreBounded(t *testing.T) {
	s, now := newSessions(), time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	var all []string
	for i := range maxSessions + 3 {
		all = append(all, begun(t, s, fmt.Sprint(i), now.Add(time.Duration(i))))
	}
	if len(s.open) != maxSessions {
		t.Errorf("%d sessions, want %d", len(s.open), maxSessions)
	}
	for i, secret := range all {
		if _, ok := s.account(secret, now); ok != (i >= 3) {
			t.Errorf("session %d: %v", i, ok)
		}
	}
	if begun(t, s, "late", now.Add(2*sessionLife)); len(s.open) != 1 {
		t.Errorf("%d sessions after all have expired and one began", len(s.open))
	}
}

// slowUsers are accounts for which something happens before a change of them, and after a token was found right.
type slowUsers struct {
	*fakeUsers
	before, after func()
}

func (u slowUsers) NewToken(ctx context.Context, name string) (string, error) {
	u.before()
	return u.fakeUsers.NewToken(ctx, name)
}

func (u slowUsers) RemoveUser(ctx context.Context, name string) error {
	u.before()
	return u.fakeUsers.RemoveUser(ctx, name)
}

func (u slowUsers) Authenticate(ctx context.Context, token string) (string, error) {
	account, err := u.fakeUsers.Authenticate(ctx, token)
	if token == "token-bob" {
		u.after()
	}
	return account, err
}

// TestSessionsOfVoidTokens checks that no session or link is left of a token that is replaced, or whose account is
// removed, while its holder logs in again and again.
func TestSessionsOfVoidTokens(t *testing.T) {
	const form = "token=token-bob"
	for _, change := range [][2]string{{"POST", "/v1/users/bob/token"}, {"DELETE", "/v1/users/bob"}} {
		users := slowUsers{newFakeUsers(), func() {}, func() {}}
		var s *Server
		var secrets []string
		during := func() {
			for _, c := range send(s, remote, "POST", "/login", formType, form).Result().Cookies() {
				secrets = append(secrets, c.Value)
			}
		}
		users.before = during
		s = newServer(t, &prototest.House{}, func(o *Options) {
			o.Accounts, o.Users, o.Page = users, users, http.NotFoundHandler()
		})
		alice := []string{"Authorization", "Bearer token-alice"}
		if w := send(s, remote, change[0], change[1], "", "", alice...); w.Code >= 300 || len(secrets) != 1 {
			t.Fatalf("%s: %d %s, %d sessions", change, w.Code, w.Body, len(secrets))
		}
		if account, ok := s.sessions.account(secrets[0], time.Now()); ok {
			t.Errorf("%s: a session of %s that began before is still good", change, account)
		}

		users = slowUsers{newFakeUsers(), func() {}, func() {}}
		users.after = func() { send(s, remote, change[0], change[1], "", "", alice...) }
		s = newServer(t, &prototest.House{}, func(o *Options) {
			o.Accounts, o.Users, o.Page = users, users, http.NotFoundHandler()
		})
		if w := send(s, remote, "POST", "/login", formType, form); len(w.Result().Cookies()) > 0 ||
			w.Code != http.StatusTooManyRequests {
			t.Errorf("%s: a log-in that began before: %d, %d cookies", change, w.Code, len(w.Result().Cookies()))
		}
		s = newServer(t, &prototest.House{}, func(o *Options) {
			o.Accounts, o.Users = slowUsers{newFakeUsers(), func() {}, users.after}, newFakeUsers()
		})
		w := send(s, remote, "POST", "/v1/login", "", "", "Authorization", "Bearer token-bob")
		if w.Code != http.StatusTooManyRequests || strings.Contains(w.Body.String(), "link=") {
			t.Errorf("%s: a link that was asked for before: %d %s", change, w.Code, w.Body)
		}
	}
}
