package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// passwordUsers are accounts of which one has a password.
type passwordUsers struct{ *fakeUsers }

func (passwordUsers) AuthenticatePassword(_ context.Context, name, password string) (string, error) {
	if name == "alice" && password == "ecila" {
		return name, nil
	}
	return "", fmt.Errorf("%w: wrong password", bulkhead.ErrUnauthorised)
}

const formType = "application/x-www-form-urlencoded"

// TestLogin checks which forms begin a session, and that wrong passwords alone count as guesses.
func TestLogin(t *testing.T) {
	users := passwordUsers{newFakeUsers()}
	s := newServer(t, &prototest.House{}, func(o *Options) {
		o.Accounts, o.Users, o.Page = users, users.fakeUsers, http.NotFoundHandler()
	})
	link := linked(t, s.sessions, "bob", time.Now())
	for _, tt := range []struct{ what, form, account string }{
		{"a token", "token=token-bob", "bob"},
		{"a token under another name", "name=alice&token=token-bob", "bob"},
		{"a password", "name=alice&token=ecila", "alice"},
		{"a wrong password", "name=alice&token=alice", ""},
		{"a wrong token", "token=ecila", ""},
		{"a link", "link=" + url.QueryEscape(link), "bob"},
		{"a used link", "link=" + url.QueryEscape(link), ""},
		{"nothing", "", ""},
		{"no form", "%zz", ""},
	} {
		w := send(s, remote, "POST", "/login", formType, tt.form)
		cookies := w.Result().Cookies()
		if tt.account == "" {
			if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/login?refused" || len(cookies) > 0 {
				t.Errorf("%s: %d to %q, %d cookies", tt.what, w.Code, w.Header().Get("Location"), len(cookies))
			}
			continue
		}
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/" || len(cookies) != 1 {
			t.Errorf("%s: %d to %q, %d cookies", tt.what, w.Code, w.Header().Get("Location"), len(cookies))
			continue
		}
		if c := cookies[0]; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode {
			t.Errorf("%s: %v", tt.what, c)
		}
		if got, ok := s.sessions.account(cookies[0].Value, time.Now()); !ok || got != tt.account {
			t.Errorf("%s: a session of %q, %v, want %q", tt.what, got, ok, tt.account)
		}
		shown := send(s, remote, "GET", "/v1/whoami", "", "", "Cookie", cookies[0].Name+"="+cookies[0].Value).Body.String()
		if !strings.Contains(shown, `"account":"`+tt.account+`"`) {
			t.Errorf("%s: the client of the session is %s", tt.what, shown)
		}
	}
	if n := s.passwords.accounts["alice"].failures; n != 1 {
		t.Errorf("%d wrong passwords are counted, want 1", n)
	}
	from := door.NetworkOf(netip.MustParseAddrPort(remote).Addr())
	for account, want := range map[string]bool{"alice": true, "bob": false} {
		if lane := s.passwords.lane(account, from, time.Now()); (lane == &s.passwords.lanes[0]) != want {
			t.Errorf("%s is known to log in from there: %v, want %v", account, !want, want)
		}
	}
}

// TestPages checks what a client without the right to see pages gets: a browser the form to log in, a program the
// reason.
func TestPages(t *testing.T) {
	s := newServer(t, &prototest.House{}, func(o *Options) {
		o.Access = Access{AnonymousCheck: Nobody}
		o.Access.MaxBody = 10
		o.Page = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); err != nil {
				w.WriteHeader(http.StatusRequestEntityTooLarge)
			}
			fmt.Fprint(w, "a page")
		})
	})
	for form, want := range map[string]int{"0123456789": 200, "0123456789a": 413} {
		w := send(s, remote, "POST", "/", formType, form, "Authorization", "Bearer token-bob")
		if w.Code != want {
			t.Errorf("a form of %d bytes: %d, want %d", len(form), w.Code, want)
		}
	}
	const html = "text/html,application/xhtml+xml"
	for _, tt := range []struct {
		method, path, accept, token string
		code                        int
	}{
		{"GET", "/", html, "", http.StatusSeeOther},
		{"GET", "/login", html, "", http.StatusOK},
		{"GET", "/", html, "token-bob", http.StatusOK},
		{"GET", "/", html, "wrong", http.StatusUnauthorized},
		{"GET", "/", "application/json", "", http.StatusUnauthorized},
		{"POST", "/", html, "", http.StatusUnauthorized},
		{"HEAD", "/", html, "", http.StatusUnauthorized},
		{"PUT", "/", html, "", http.StatusMethodNotAllowed},
		{"GET", "/v1/nothing", html, "", http.StatusNotFound},
	} {
		headers := []string{"Accept", tt.accept}
		if tt.token != "" {
			headers = append(headers, "Authorization", "Bearer "+tt.token)
		}
		w := send(s, remote, tt.method, tt.path, "", "", headers...)
		if w.Code != tt.code || w.Code == http.StatusOK && w.Body.String() != "a page" ||
			w.Code == http.StatusSeeOther && w.Header().Get("Location") != "/login" {
			t.Errorf("%s %s of %s with token %q: %d, %s", tt.method, tt.path, tt.accept, tt.token, w.Code, w.Body)
		}
	}
}

// TestWhoAmI checks which clients a node calls administrators.
func TestWhoAmI(t *testing.T) {
	s := newServer(t, &prototest.House{}, func(o *Options) {
		o.Access = Access{AnonymousCheck: Everyone, AnonymousReport: Nobody}
		o.LocalAdmin = "gone"
	})
	for _, tt := range []struct {
		what, token string
		peer        *Peer
		admin       bool
	}{
		{"a stranger", "", nil, false},
		{"a reporter", "token-bob", nil, false},
		{"an administrator", "token-alice", nil, true},
		{"an administrator of the machine", "", &Peer{Admin: true}, true},
		{"an administrator of the machine with the token of a reporter", "token-bob", &Peer{Admin: true}, false},
		{"a user of the machine", "", &Peer{UID: 1000}, false},
	} {
		r := httptest.NewRequest("GET", "/v1/whoami", strings.NewReader(""))
		r.RemoteAddr, r.Host = remote, "bulkhead.example.com"
		if tt.peer != nil {
			r.RemoteAddr, r.Host = "@", "localhost"
			r = r.WithContext(WithPeer(r.Context(), *tt.peer))
		}
		if tt.token != "" {
			r.Header.Set("Authorization", "Bearer "+tt.token)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		var got admin.Viewer
		local, account := tt.peer != nil, map[string]string{"token-bob": "bob", "token-alice": "alice"}[tt.token]
		if tt.peer != nil && tt.peer.Admin && tt.token == "" {
			account = "gone"
		}
		want := admin.Viewer{Account: account, Local: local, Check: true, Report: account != "", Admin: tt.admin}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK || got != want {
			t.Errorf("%s: %d, %s", tt.what, w.Code, w.Body)
		}
	}
}

// TestFailuresAreNoted checks which requests count as guesses of a secret, for which their network waits.
func TestFailuresAreNoted(t *testing.T) {
	for _, tt := range []struct {
		path, form, token string
		want              int
	}{
		{"/login", "token=wrong", "", 1},
		{"/login", "token=token-bob", "", 0},
		{"/v1/look", "", "wrong", 1},
		{"/v1/look", "", "token-bob", 0},
		{"/v1/look", "", "", 0},
	} {
		noted := 0
		failures := door.NewFailures(slog.New(slog.DiscardHandler))
		failures.OnLog = func(name string, network netip.Addr, n int) {
			if noted += n; name != doorName || network != door.NetworkOf(netip.MustParseAddrPort(remote).Addr()) {
				t.Errorf("%+v: noted for %s at %s", tt, network, name)
			}
		}
		s := newServer(t, &prototest.House{}, func(o *Options) { o.Failures, o.Page = failures, http.NotFoundHandler() })
		var headers []string
		if tt.token != "" {
			headers = []string{"Authorization", "Bearer " + tt.token}
		}
		send(s, remote, "POST", tt.path, formType, tt.form, headers...)
		if noted != tt.want {
			t.Errorf("%+v: %d failures are noted", tt, noted)
		}
	}
}

// TestFormMemory checks that a form takes memory while its page is made, and is refused while there is none; and that
// the page may pass a message on that needs most of the memory.
func TestFormMemory(t *testing.T) {
	const limit, size = 1 << 20, 200 << 10
	memory := door.NewMemory(limit)
	var held int64
	var failed error
	var s *Server
	var asked *httptest.ResponseRecorder
	s = newServer(t, &prototest.House{}, func(o *Options) {
		o.Memory = memory
		o.Page = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			var form []byte
			form, failed = io.ReadAll(r.Body)
			_, held, _ = memory.Usage()
			in := httptest.NewRequestWithContext(r.Context(), "POST", "/v1/check", bytes.NewReader(form))
			in.RemoteAddr, in.Host = local, "localhost"
			in.Header.Set("Content-Type", mailType)
			asked = httptest.NewRecorder()
			s.ServeHTTP(asked, in)
		})
	})
	post := func() { send(s, local, "POST", "/lookup", formType, sample+strings.Repeat("x", size)) }
	if post(); failed != nil || held < formCost*size || asked.Code != http.StatusOK {
		t.Errorf("a form of %d bytes: %v, takes %d bytes, answer %d %s", size, failed, held, asked.Code, asked.Body)
	}
	if _, held, _ := memory.Usage(); held != 0 {
		t.Errorf("%d bytes are held after the page", held)
	}
	others := memory.Hold()
	if err := others.Take(t.Context(), limit-size, 0); err != nil {
		t.Fatal(err)
	}
	var p *client.Problem
	if post(); !errors.As(failed, &p) || p.Status != http.StatusServiceUnavailable {
		t.Errorf("without memory: %v", failed)
	}
	if _, held, _ := memory.Usage(); held != limit-size {
		t.Errorf("%d bytes are held, and the others have %d", held, limit-size)
	}
}
