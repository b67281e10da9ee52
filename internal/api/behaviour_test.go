package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/logtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestReadyz checks what a load balancer and an administrator learn from a node that is ready or not.
func TestReadyz(t *testing.T) {
	for _, tt := range []struct {
		query string
		state *admin.NodeState
		ready error
		code  int
		want  string
	}{
		{"", &admin.NodeState{ReadOnly: "disk full"}, nil, 200, "ready\n"},
		{"?verbose", nil, nil, 200, "ready\n"},
		{"?verbose", new(admin.NodeState), nil, 200, "ready\nreports are taken\n"},
		{"?verbose", &admin.NodeState{ReadOnly: "disk full"}, nil, 200, "ready\nreports are refused\n"},
		{"?verbose", &admin.NodeState{ReadOnly: "x", Journal: new(admin.Journal)}, nil, 200, "ready\nreports are refused\n"},
		{"?verbose", &admin.NodeState{ReadOnly: "x", Journal: &admin.Journal{Problem: "full"}}, nil, 200,
			"ready\nreports are refused: the stream of the journal takes none\n"},
		{"?verbose", new(admin.NodeState), errors.New("starting"), 503, `"detail":"starting"`},
	} {
		s := newServer(t, &prototest.House{}, func(o *Options) {
			o.Node = nil
			if tt.state != nil {
				o.Node = &described{state: *tt.state}
			}
			o.Ready = func() error { return tt.ready }
		})
		w := send(s, remote, "GET", "/readyz"+tt.query, "", "")
		got := w.Body.String()
		if w.Code != tt.code || got != tt.want && (tt.ready == nil || !strings.Contains(got, tt.want)) {
			t.Errorf("%s of %+v: %d %q, want %d %q", tt.query, tt.state, w.Code, got, tt.code, tt.want)
		}
	}
}

// TestClockMoves checks by how much each parameter moves the clock.
func TestClockMoves(t *testing.T) {
	for _, tt := range []struct {
		query, want string
		code        int
	}{
		{"advance=1h", "1h0m0s false", 200}, {"advance=1ns", "1ns false", 200},
		{"back=1h", "-1h0m0s false", 200}, {"jump=1h", "1h0m0s true", 200},
		{"back=-1h", "", 400}, {"jump=x", "", 400}, {"advance=1h&back=1h", "", 400}, {"advance=1h&jump=1h", "", 400},
		{"advance=2h", "2h0m0s false", 500},
	} {
		got := ""
		s := newServer(t, &prototest.House{}, func(o *Options) {
			o.Advance = func(ctx context.Context, d time.Duration, jump bool) (time.Time, error) {
				if got = fmt.Sprint(d, jump); d == 2*time.Hour {
					return time.Time{}, errDisk
				}
				return time.Unix(1e9, 0).UTC(), nil
			}
		})
		w := send(s, local, "POST", "/v1/clock?"+tt.query, "", "")
		const now = "{\"now\":\"2001-09-09T01:46:40Z\"}\n"
		if w.Code != tt.code || got != tt.want || tt.code == 200 && w.Body.String() != now {
			t.Errorf("%s: %d %s, moved by %q; want %d, %q", tt.query, w.Code, w.Body, got, tt.code, tt.want)
		}
	}
}

// TestBodyFaults checks the answers to bodies that end too late, with an error, or not at all.
func TestBodyFaults(t *testing.T) {
	s := newServer(t, &prototest.House{}, func(o *Options) { o.Access.MaxBody = 100 })
	for _, tt := range []struct {
		name string
		body io.Reader
		code int
	}{
		{"of unstated length", strings.NewReader(sample), 200},
		{"too long, of unstated length", strings.NewReader(strings.Repeat("x", 101)), 413},
		{"late", failing{os.ErrDeadlineExceeded}, 408},
		{"torn", failing{io.ErrUnexpectedEOF}, 400},
	} {
		for _, path := range []string{"/v1/check", "/v1/report"} {
			for _, kind := range []string{mailType, requestType} {
				if tt.code == 200 && kind == requestType {
					continue
				}
				if seeker, ok := tt.body.(io.Seeker); ok {
					seeker.Seek(0, io.SeekStart)
				}
				r := httptest.NewRequest("POST", path, io.NopCloser(tt.body))
				r.RemoteAddr, r.Host, r.ContentLength = local, "localhost", -1
				r.Header.Set("Content-Type", kind)
				w := httptest.NewRecorder()
				s.ServeHTTP(w, r)
				if w.Code != tt.code {
					t.Errorf("a body %s to %s: %d %s, want %d", tt.name, path, w.Code, w.Body, tt.code)
				}
			}
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestLoginRefused checks the log-ins that the server refuses before it looks at a secret, and log-ins at a node
// without accounts or passwords.
func TestLoginRefused(t *testing.T) {
	users := passwordUsers{newFakeUsers()}
	with := func(a Accounts) *Server {
		return newServer(t, &prototest.House{}, func(o *Options) { o.Accounts, o.Page = a, http.NotFoundHandler() })
	}
	s := with(users)
	for _, path := range []string{"/login", "/logout"} {
		if w := send(s, remote, "POST", path, formType, "token=token-bob", "Sec-Fetch-Site", "cross-site"); w.Code != 403 {
			t.Errorf("%s from another page: %d to %q", path, w.Code, w.Header().Get("Location"))
		}
	}
	for i := range s.passwords.lanes {
		s.passwords.lanes[i].waiting = maxWaiting
	}
	if w := send(s, remote, "POST", "/login", formType, "name=alice&token=ecila"); w.Code != 429 {
		t.Errorf("too many log-ins: %d to %q", w.Code, w.Header().Get("Location"))
	}
	if w := send(s, remote, "POST", "/login", formType, "token=token-bob"+strings.Repeat("x", maxForm)); w.Code != 303 ||
		w.Header().Get("Location") != "/login?refused" {
		t.Errorf("a long form: %d to %q", w.Code, w.Header().Get("Location"))
	}
	for name, s := range map[string]*Server{"accounts": with(nil), "passwords": with(users.fakeUsers)} {
		link := linked(t, s.sessions, "alice", time.Now())
		for form, want := range map[string]string{"name=alice&token=ecila": "/login?refused", "link=" + link: "/"} {
			w := send(s, remote, "POST", "/login", formType, form)
			if got := w.Header().Get("Location"); w.Code != 303 || got != want {
				t.Errorf("%s at a node without %s: %d to %q, want %q", form, name, w.Code, got, want)
			}
		}
	}
}

// TestLogout checks that a log-out ends the session and takes back the cookie, and that both are recorded.
func TestLogout(t *testing.T) {
	record, users := &fakeAudit{}, newFakeUsers()
	s := newServer(t, &prototest.House{}, func(o *Options) {
		o.Accounts, o.Users, o.Audit, o.Page = users, users, record, http.NotFoundHandler()
	})
	send(s, remote, "POST", "/logout", "", "") // without a session
	cookie := send(s, remote, "POST", "/login", formType, "token=token-bob").Result().Cookies()[0]
	if cookie.Path != "/" || cookie.MaxAge != int(sessionLife/time.Second) || cookie.Secure {
		t.Errorf("the cookie is %v", cookie)
	}
	w := send(s, remote, "POST", "/logout", "", "", "Cookie", cookie.Name+"="+cookie.Value)
	gone := w.Result().Cookies()
	if w.Code != 303 || w.Header().Get("Location") != "/login" || len(gone) != 1 || gone[0].Name != cookie.Name ||
		gone[0].MaxAge != -1 || gone[0].Path != "/" || !gone[0].HttpOnly {
		t.Errorf("%d to %q, cookies %v", w.Code, w.Header().Get("Location"), gone)
	}
	if account, ok := s.sessions.account(cookie.Value, time.Now()); ok {
		t.Errorf("the session of %s goes on", account)
	}
	var acts []string
	for _, e := range record.take() {
		acts = append(acts, e.Account+" "+e.Action+" "+e.From+" "+e.Door)
	}
	if want := []string{"bob login 203.0.113.9 http", "bob logout 203.0.113.9 http"}; !slices.Equal(acts, want) {
		t.Errorf("recorded %q, want %q", acts, want)
	}
}

// TestSecure checks which cookies a browser may send over HTTPS alone.
func TestSecure(t *testing.T) {
	set := newSettings(Access{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	for _, tt := range []struct {
		from   string
		tls    bool
		protos []string
		want   bool
	}{
		{remote, true, nil, true},
		{remote, false, nil, false},
		{remote, false, []string{"https"}, false},
		{"10.0.0.1:5", false, nil, false},
		{"10.0.0.1:5", false, []string{"https"}, true},
		{"10.0.0.1:5", false, []string{"http, HTTPS "}, true},
		{"10.0.0.1:5", false, []string{"https,http"}, false},
		{"10.0.0.1:5", false, []string{"https", "http"}, false},
		{"10.0.0.1:5", false, []string{"http", "https"}, true},
		{"[::ffff:10.0.0.1]:5", false, []string{"https"}, true},
		{"@", false, []string{"https"}, false},
	} {
		r := httptest.NewRequest("POST", "/login", nil)
		r.RemoteAddr, r.Header["X-Forwarded-Proto"] = tt.from, tt.protos
		if tt.tls {
			r.TLS = new(tls.ConnectionState)
		}
		if got := set.secure(r); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

// TestStrangerAddress checks that no client from elsewhere has an address with rights.
func TestStrangerAddress(t *testing.T) {
	for text, want := range map[string]string{"": "0.0.0.0", "127.0.0.1": "0.0.0.0", "::1": "0.0.0.0",
		"192.0.2.1": "192.0.2.1"} {
		addr, _ := netip.ParseAddr(text)
		if got := stranger(addr); got.String() != want {
			t.Errorf("%q: %v, want %s", text, got, want)
		}
	}
}

// TestSessionsEnd checks which changes of an account end its sessions, and what the record has of each change.
func TestSessionsEnd(t *testing.T) {
	const bob = "/v1/users/bob"
	for _, tt := range []struct {
		method, path, body string
		ends               bool
		about              string
	}{
		{"PATCH", bob, `{"closed":true}`, true, "map[account:bob closed:true]"},
		{"PATCH", bob, `{"closed":false}`, false, "map[account:bob closed:false]"},
		{"PATCH", bob, `{"role":"trusted","weight":0.5,"person":"p","parent":"q"}`, false,
			"map[account:bob parent:q person:p role:trusted weight:0.5]"},
		{"DELETE", bob, "", true, "map[account:bob]"},
		{"POST", bob + "/token", "", true, "map[account:bob]"},
		{"PUT", bob + "/secrets/pages", `{"secret":"s"}`, true, "map[account:bob protocol:pages]"},
		{"PUT", bob + "/secrets/dcc", `{"secret":"s"}`, false, "map[account:bob protocol:dcc]"},
		{"POST", bob + "/undo", `{"since":"2001-09-09T01:46:40Z"}`, false,
			"map[account:bob off:2 on:1 since:2001-09-09T01:46:40Z votes:7]"},
		{"POST", "/v1/users", `{"name":"carol","role":"trusted","weight":0.5}`, false,
			"map[account:carol role:trusted weight:0.5]"},
		{"POST", "/v1/users", `{"name":"bob"}`, false, "map[account:bob role:]"},
	} {
		record, users := &fakeAudit{}, newFakeUsers()
		s := newServer(t, &prototest.House{}, func(o *Options) { o.Accounts, o.Users, o.Audit = users, users, record })
		session, other := begun(t, s.sessions, "bob", time.Now()), begun(t, s.sessions, "alice", time.Now())
		w := send(s, local, tt.method, tt.path, requestType, tt.body, "Authorization", "Bearer token-alice")
		_, lasts := s.sessions.account(session, time.Now())
		if _, ok := s.sessions.account(other, time.Now()); lasts == tt.ends || !ok {
			t.Errorf("%s %s %s: %d %s, the session goes on: %v", tt.method, tt.path, tt.body, w.Code, w.Body, lasts)
		}
		if all := record.take(); len(all) != 1 || fmt.Sprint(all[0].About) != tt.about {
			t.Errorf("%s %s %s: recorded %+v, want %s", tt.method, tt.path, tt.body, all, tt.about)
		}
	}
}

// TestRefusalsRecorded checks that attempts at administration are recorded, one of each account in ten minutes.
func TestRefusalsRecorded(t *testing.T) {
	record := &fakeAudit{}
	s := newServer(t, &prototest.House{}, func(o *Options) { o.Audit = record })
	for range 2 {
		send(s, remote, "GET", "/v1/users", "", "", "Authorization", "Bearer token-bob")
	}
	send(s, remote, "GET", "/v1/users", "", "")
	send(s, remote, "GET", "/v1/users", "", "", "Authorization", "Bearer nobody")
	all := record.take()
	if len(all) != 1 || all[0].Account != "bob" || all[0].Action != "refused" || all[0].From != "203.0.113.9" ||
		fmt.Sprint(all[0].About) != "map[method:GET path:/v1/users]" ||
		!strings.Contains(all[0].Error, "not an administrator") {
		t.Errorf("recorded %+v", all)
	}
	var f refusals
	now := time.Unix(1e9, 0)
	for i, tt := range []struct {
		account string
		wait    time.Duration
		want    bool
	}{{"a", 0, true}, {"a", refusalEvery - 1, false}, {"b", 0, true}, {"a", 1, true}, {"a", 1, false}} {
		now = now.Add(tt.wait)
		if got := f.first(tt.account, now); got != tt.want {
			t.Errorf("step %d: %v", i, got)
		}
	}
	for i := range maxRefusals - 2 {
		f.first(fmt.Sprint(i), now)
	}
	if n := len(f.last); n != maxRefusals || f.first("a", now) {
		t.Errorf("%d accounts are remembered, want %d", n, maxRefusals)
	}
	if f.first("one more", now); len(f.last) != 1 {
		t.Errorf("%d accounts are remembered of more than there is room for", len(f.last))
	}
}

// TestUnwritten checks that the failure to record an action is logged, and does not fail the action.
func TestUnwritten(t *testing.T) {
	log := new(logtest.Log)
	s := newServer(t, &prototest.House{}, func(o *Options) { o.Audit, o.Log = new(unwritten), log.Logger() })
	if w := send(s, local, "DELETE", "/v1/users/bob", "", "", "Authorization", "Bearer token-alice"); w.Code != 204 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if got := log.Take(); !strings.Contains(got, "cannot be written") {
		t.Errorf("the log has %q", got)
	}
}

type unwritten struct{ fakeAudit }

func (*unwritten) Append(admin.AuditEntry) error { return errDisk }

// TestNewServer checks that a server needs a clearinghouse, a reader of mail, and names of metrics that are free. It
// times its operations.
func TestNewServer(t *testing.T) {
	reg := prometheus.NewRegistry()
	good := Options{Clearinghouse: &prototest.House{}, Read: readMail, Registry: reg}
	s, err := New(good)
	if err != nil {
		t.Fatal(err)
	}
	send(s, local, "GET", "/healthz", "", "")
	if n, _, _ := s.Times().Read(); n != 1 {
		t.Errorf("%d operations are timed, want 1", n)
	}
	for what, o := range map[string]Options{"house": {Read: readMail}, "reader": {Clearinghouse: &prototest.House{}},
		"metrics": good} {
		if _, err := New(o); err == nil {
			t.Errorf("a server without its %s", what)
		}
	}
}

// TestDocumentFault checks the answer to a request for a document that cannot be rendered.
func TestDocumentFault(t *testing.T) {
	log := new(logtest.Log)
	s := newServer(t, &prototest.House{}, func(o *Options) { o.Log = log.Logger() })
	w := httptest.NewRecorder()
	h := s.document("text/plain", func() ([]byte, error) { return nil, errDisk })
	h.ServeHTTP(w, httptest.NewRequest("GET", "/x", nil))
	if w.Code != 500 || strings.Contains(w.Body.String(), errDisk.Error()) ||
		!strings.Contains(log.Take(), errDisk.Error()) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestWithSenders checks which signatures of a sender a message gets, in addition to its own.
func TestWithSenders(t *testing.T) {
	named := func(scheme bulkhead.Scheme, name string) bulkhead.Signature {
		return bulkhead.NamedSignature(scheme, name)
	}
	body, sender, network := bulkhead.MustSignature(bulkhead.DCCBody, []byte{7}), named(bulkhead.Sender, "a"),
		named(bulkhead.Network, "n")
	s := newServer(t, &prototest.House{}, func(o *Options) {
		o.Senders = func(bulkhead.Source) []bulkhead.Signature { return []bulkhead.Signature{body, sender, network} }
	})
	for _, tt := range []struct {
		own, want []bulkhead.Signature
		most      int
	}{
		{[]bulkhead.Signature{body}, []bulkhead.Signature{body, sender, network}, 3},
		{[]bulkhead.Signature{body}, []bulkhead.Signature{body, sender}, 2},
		{[]bulkhead.Signature{body}, []bulkhead.Signature{body}, 1},
		{nil, []bulkhead.Signature{body, sender, network}, 3},
		{[]bulkhead.Signature{named(bulkhead.Sender, "b")}, []bulkhead.Signature{named(bulkhead.Sender, "b")}, 9},
		{[]bulkhead.Signature{network, body}, []bulkhead.Signature{network, body}, 9},
	} {
		own := append(make([]bulkhead.Signature, 0, 9), tt.own...)
		r := &request{set: newSettings(Access{MaxSignatures: tt.most})}
		if got := s.withSenders(r, own, bulkhead.Source{}); !slices.Equal(got, tt.want) {
			t.Errorf("%v with room for %d: %v, want %v", tt.own, tt.most, got, tt.want)
		}
		valid := func(s bulkhead.Signature) bool { return s.Valid() }
		if spare := own[:cap(own)][len(own):]; slices.ContainsFunc(spare, valid) {
			t.Errorf("%v: the caller's array is written", tt.own)
		}
	}
}
