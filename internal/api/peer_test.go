package api

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestLocalPeers asks through a unix socket as several users: administrators of the machine manage, others
// check and report as the configuration lets programs of the machine, and proxies do nothing.
func TestLocalPeers(t *testing.T) {
	mail := sample
	for _, tt := range []struct {
		name    string
		peer    Peer
		account string // of the machine's administrators
		access  Access
		headers []string
		want    [4]int // check, report, list accounts, make a link
	}{
		{"administrator", Peer{UID: 0, Admin: true}, "alice", Access{}, nil, [4]int{200, 200, 200, 201}},
		{"administrator of a closed node", Peer{UID: 0, Admin: true}, "alice", Access{AnonymousCheck: Nobody,
			AnonymousReport: Nobody}, nil, [4]int{200, 200, 200, 201}},
		{"administrator without an account", Peer{UID: 0, Admin: true}, "gone", Access{}, nil, [4]int{200, 200, 200, 403}},
		{"user", Peer{UID: 1000}, "alice", Access{}, nil, [4]int{200, 200, 401, 401}},
		{"user of a closed node", Peer{UID: 1000}, "alice", Access{AnonymousCheck: Nobody, AnonymousReport: Nobody}, nil,
			[4]int{401, 401, 401, 401}},
		{"proxy of root", Peer{UID: 0, Admin: true}, "alice", Access{}, []string{"X-Forwarded-For", "203.0.113.9"},
			[4]int{403, 403, 403, 403}},
		{"administrator with a wrong token", Peer{UID: 0, Admin: true}, "alice", Access{},
			[]string{"Authorization", "Bearer wrong"}, [4]int{401, 401, 401, 401}},
	} {
		house := &prototest.House{}
		s := newServer(t, house, func(o *Options) {
			o.Access, o.LocalAdmin = tt.access, tt.account
		})
		for i, ask := range []struct{ method, path, body string }{
			{"POST", "/v1/check", mail}, {"POST", "/v1/report", mail}, {"GET", "/v1/users", ""}, {"POST", "/v1/login", ""},
		} {
			r := httptest.NewRequest(ask.method, ask.path, strings.NewReader(ask.body))
			r.RemoteAddr, r.Host = "@", "localhost"
			r.Header.Set("Content-Type", "message/rfc822")
			for pair := range slices.Chunk(tt.headers, 2) {
				r.Header.Set(pair[0], pair[1])
			}
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r.WithContext(WithPeer(r.Context(), tt.peer)))
			if w.Code != tt.want[i] {
				t.Errorf("%s: %s %s: %d, want %d: %s", tt.name, ask.method, ask.path, w.Code, tt.want[i], w.Body)
			}
			if w.Code == 201 && !strings.Contains(w.Body.String(), `"path":"/login?link=`) {
				t.Errorf("%s: the link is %s", tt.name, w.Body)
			}
		}
		for _, r := range house.Reports() {
			if r.Reporter.Account != "" { // it reports as every program of the machine does
				t.Errorf("%s: reported by %+v", tt.name, r.Reporter)
			}
		}
	}
}
