package api

import (
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// TestForwardedHasNoRights checks that no request with a sign of a proxy is local, or reaches the
// clearinghouse with an address of full weight, whatever its headers name, whether or not the proxy is
// trusted, and although every client may report.
func TestForwardedHasNoRights(t *testing.T) {
	everybody := netip.MustParsePrefix("0.0.0.0/0")
	hops := []string{"127.0.0.1", "::1", "::ffff:127.0.0.1", "127.0.0.1, 10.0.0.5", "10.0.0.5, 127.0.0.1", "", "unknown"}
	for _, trusted := range [][]netip.Prefix{nil, {netip.MustParsePrefix("127.0.0.0/8")}, {everybody}} {
		for _, from := range []string{local, "10.0.0.5:1", "@", ""} {
			for _, hop := range hops {
				house := &prototest.House{}
				s := newServer(t, house, func(o *Options) {
					o.Access = Access{AnonymousCheck: Everyone, AnonymousReport: Everyone, TrustedProxies: trusted}
				})
				for _, header := range []string{"X-Forwarded-For", "X-Real-Ip", "Via"} {
					w := send(s, from, "POST", "/v1/report", requestType, ready, header, hop)
					if w.Code != http.StatusOK {
						t.Fatalf("%s: %q from %q: %d %s", header, hop, from, w.Code, w.Body)
					}
				}
				for _, r := range house.Reports() {
					if trust.IsLocal(r.Reporter.Addr) {
						t.Errorf("%q from %q, trusted %v: reported as %v", hop, from, trusted, r.Reporter.Addr)
					}
				}
				if n := len(house.Reports()); n != 3 {
					t.Errorf("%d reports, want 3", n)
				}
			}
		}
	}
}

// TestSecureCookie checks that the cookie of a session is for HTTPS alone where the browser speaks
// HTTPS with a trusted proxy, and that no other client can claim so.
func TestSecureCookie(t *testing.T) {
	s := newServer(t, &prototest.House{}, func(o *Options) {
		o.Access.TrustedProxies, o.Page = []netip.Prefix{netip.MustParsePrefix("10.0.0.5/32")}, http.NotFoundHandler()
	})
	for _, tt := range []struct {
		from, proto string
		want        bool
	}{
		{"10.0.0.5:1", "https", true}, {"10.0.0.5:1", "http, HTTPS", true}, {"10.0.0.5:1", "https, http", false},
		{"10.0.0.5:1", "http", false}, {"10.0.0.5:1", "", false}, {local, "https", false}, {remote, "https", false},
	} {
		secret := linked(t, s.sessions, "alice", time.Now())
		w := send(s, tt.from, "POST", "/login", "application/x-www-form-urlencoded", "link="+secret,
			"X-Forwarded-Proto", tt.proto)
		cookies := w.Result().Cookies()
		if len(cookies) != 1 || cookies[0].Value == "" || cookies[0].Secure != tt.want {
			t.Errorf("%q from %s: %d, %v; want Secure %v", tt.proto, tt.from, w.Code, cookies, tt.want)
		}
		w = send(s, tt.from, "POST", "/logout", "", "", "X-Forwarded-Proto", tt.proto)
		if cookies := w.Result().Cookies(); len(cookies) != 1 || cookies[0].Secure != tt.want {
			t.Errorf("log-out, %q from %s: %v; want Secure %v", tt.proto, tt.from, cookies, tt.want)
		}
	}
}
