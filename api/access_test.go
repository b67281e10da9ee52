package api

import (
	"net/http/httptest"
	"net/netip"
	"testing"
)

func TestClientAddress(t *testing.T) {
	set := newSettings(Access{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("10.0.0.0/8")}})
	none := newSettings(Access{})
	tests := []struct {
		name    string
		set     *settings
		remote  string
		host    string
		headers []string
		want    string
		local   bool
	}{
		{"loopback", none, "127.0.0.1:1", "127.0.0.1:8420", nil, "127.0.0.1", true},
		{"loopback by name", none, "127.0.0.1:1", "LocalHost:8420", nil, "127.0.0.1", true},
		{"IPv6 loopback", none, "[::1]:1", "[::1]:8420", nil, "::1", true},
		{"IPv4 in IPv6", none, "[::ffff:127.0.0.1]:1", "[::1]", nil, "127.0.0.1", true},
		{"a page that points its name here", none, "127.0.0.1:1", "rebind.example:8420", nil, "127.0.0.1", false},
		{"elsewhere", none, "203.0.113.9:1", "127.0.0.1", nil, "203.0.113.9", false},
		{"zone", none, "[fe80::1%eth0]:1", "[fe80::1]", nil, "fe80::1", false},
		{"unknown proxy on this machine", none, "127.0.0.1:1", "localhost", []string{"X-Forwarded-For", "127.0.0.1"}, "127.0.0.1", false},
		{"unknown proxy, other header", none, "127.0.0.1:1", "localhost", []string{"Forwarded", "for=127.0.0.1"}, "127.0.0.1", false},
		{"trusted proxy", set, "127.0.0.1:1", "spam.example", []string{"X-Forwarded-For", "203.0.113.9"}, "203.0.113.9", false},
		{"two trusted proxies", set, "127.0.0.1:1", "spam.example", []string{"X-Forwarded-For", "203.0.113.9, 10.1.2.3"}, "203.0.113.9", false},
		{"two headers", set, "127.0.0.1:1", "spam.example", []string{"X-Forwarded-For", "192.0.2.1", "X-Forwarded-For", "203.0.113.9"}, "203.0.113.9", false},
		{"forged first hop", set, "127.0.0.1:1", "spam.example", []string{"X-Forwarded-For", "127.0.0.1, 203.0.113.9"}, "203.0.113.9", false},
		{"local behind a trusted proxy", set, "127.0.0.1:1", "spam.example", []string{"X-Forwarded-For", "127.0.0.1"}, "127.0.0.1", true},
		{"garbage from a trusted proxy", set, "127.0.0.1:1", "localhost", []string{"X-Forwarded-For", "unknown"}, "127.0.0.1", false},
		{"trusted proxy, wrong header", set, "127.0.0.1:1", "localhost", []string{"Forwarded", "for=203.0.113.9"}, "127.0.0.1", false},
		{"header from elsewhere", set, "203.0.113.9:1", "localhost", []string{"X-Forwarded-For", "127.0.0.1"}, "203.0.113.9", false},
		{"not an address", none, "@", "localhost", nil, "invalid IP", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr, r.Host = tt.remote, tt.host
			for i := 0; i+1 < len(tt.headers); i += 2 {
				r.Header.Add(tt.headers[i], tt.headers[i+1])
			}
			addr, local := tt.set.client(r)
			if addr.String() != tt.want || local != tt.local {
				t.Errorf("client = %v, local %v; want %v, %v", addr, local, tt.want, tt.local)
			}
		})
	}
}
