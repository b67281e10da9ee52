package api

import (
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

func TestClientAddress(t *testing.T) {
	set := newSettings(Access{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"),
		netip.MustParsePrefix("10.0.0.0/8")}})
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
		{"unknown proxy on this machine", none, "127.0.0.1:1", "localhost", []string{"X-Forwarded-For", "127.0.0.1"},
			"127.0.0.1", false},
		{"unknown proxy, other header", none, "127.0.0.1:1", "localhost", []string{"Forwarded", "for=127.0.0.1"},
			"127.0.0.1", false},
		{"trusted proxy", set, "127.0.0.1:1", "spam.example", []string{"X-Forwarded-For", "203.0.113.9"},
			"203.0.113.9", false},
		{"two trusted proxies", set, "127.0.0.1:1", "spam.example", []string{"X-Forwarded-For", "203.0.113.9, 10.1.2.3"},
			"203.0.113.9", false},
		{"two headers", set, "127.0.0.1:1", "spam.example",
			[]string{"X-Forwarded-For", "192.0.2.1", "X-Forwarded-For", "203.0.113.9"}, "203.0.113.9", false},
		{"forged first hop", set, "127.0.0.1:1", "spam.example", []string{"X-Forwarded-For", "127.0.0.1, 203.0.113.9"},
			"203.0.113.9", false},
		{"local behind a trusted proxy", set, "127.0.0.1:1", "localhost", []string{"X-Forwarded-For", "127.0.0.1"},
			"127.0.0.1", false},
		{"loopback that a client among trusted proxies claims", set, "10.0.0.5:1", "localhost",
			[]string{"X-Forwarded-For", "127.0.0.1, 10.0.0.5"}, "127.0.0.1", false},
		{"garbage from a trusted proxy", set, "127.0.0.1:1", "localhost", []string{"X-Forwarded-For", "unknown"},
			"127.0.0.1", false},
		{"trusted proxy, wrong header", set, "127.0.0.1:1", "localhost", []string{"Forwarded", "for=203.0.113.9"},
			"127.0.0.1", false},
		{"trusted proxy, X-Real-IP alone", set, "127.0.0.1:1", "localhost", []string{"X-Real-IP", "127.0.0.1"},
			"127.0.0.1", false},
		{"garbage behind a readable hop", set, "127.0.0.1:1", "localhost", []string{"X-Forwarded-For", "unknown, 10.0.0.1"},
			"10.0.0.1", false},
		{"garbage behind the loopback", set, "127.0.0.1:1", "localhost", []string{"X-Forwarded-For", "unknown, 127.0.0.1"},
			"127.0.0.1", false},
		{"a public address as the host", none, "127.0.0.1:1", "203.0.113.9:8420", nil, "127.0.0.1", false},
		{"the unspecified address as the host", none, "127.0.0.1:1", "0.0.0.0:8420", nil, "127.0.0.1", false},
		{"no host", none, "127.0.0.1:1", "", nil, "127.0.0.1", false},
		{"localhost as the root sees it", none, "127.0.0.1:1", "localhost.:8420", nil, "127.0.0.1", true},
		{"a name that begins so", none, "127.0.0.1:1", "localhost.example", nil, "127.0.0.1", false},
		{"header from elsewhere", set, "203.0.113.9:1", "localhost", []string{"X-Forwarded-For", "127.0.0.1"},
			"203.0.113.9", false},
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

// TestProxiesAreNotLocal passes requests on as proxies do by default, with the upstream's own
// address as the host: only their marks distinguish them from clients on this machine.
func TestProxiesAreNotLocal(t *testing.T) {
	none := newSettings(Access{})
	for _, name := range []string{
		"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Forwarded-Server", "X-Forwarded",
		"Forwarded",
		"Via", "X-Real-IP", "X-Client-IP", "Client-IP", "X-Cluster-Client-IP", "True-Client-IP", "CF-Connecting-IP", "CF-Ray",
		"Fastly-Client-IP",
		"X-Original-Forwarded-For", "X-Envoy-External-Address", "X-Azure-ClientIP", "X-Amzn-Trace-Id", "X-ProxyUser-Ip",
		"Max-Forwards", "CDN-Loop",
	} {
		for _, value := range []string{"127.0.0.1", ""} {
			r := httptest.NewRequest("POST", "/v1/report", nil)
			r.RemoteAddr, r.Host = "127.0.0.1:1", "127.0.0.1:8420"
			r.Header.Set(name, value)
			if addr, local := none.client(r); local || addr != netip.MustParseAddr("127.0.0.1") {
				t.Errorf("%s: %q: %v, local %v; want it not local", name, value, addr, local)
			}
		}
	}
	r := httptest.NewRequest("POST", "/v1/report", nil)
	r.RemoteAddr, r.Host, r.Proto, r.ProtoMajor, r.ProtoMinor = "127.0.0.1:1", "127.0.0.1:8420", "HTTP/1.0", 1, 0
	if _, local := none.client(r); local {
		t.Error("HTTP/1.0 is local")
	}
	trusting := newSettings(Access{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	r.Header.Set("X-Forwarded-For", "203.0.113.9")
	if addr, local := trusting.client(r); local || addr != netip.MustParseAddr("203.0.113.9") {
		t.Errorf("HTTP/1.0 of a trusted proxy: %v, local %v", addr, local)
	}
}

// FuzzForwarded checks for any X-Forwarded-For that the client is not local, and never has an address
// that no trusted proxy wrote.
func FuzzForwarded(f *testing.F) {
	for _, seed := range []string{"127.0.0.1", "127.0.0.1, 203.0.113.9", "203.0.113.9, 10.1.2.3", "::ffff:127.0.0.1",
		"fe80::1%eth0", ",", " , ,", "unknown", "[::1]:80", "\xff"} {
		f.Add(seed, seed)
	}
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	set := newSettings(Access{TrustedProxies: trusted})
	f.Fuzz(func(t *testing.T, first, second string) {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = "10.0.0.1:1"
		r.Header["X-Forwarded-For"] = []string{first, second}
		addr, local := set.client(r)
		// The oracle splits the whole field, and goes through it from the end.
		want := netip.MustParseAddr("10.0.0.1")
		hops := strings.Split(first+","+second, ",")
		for _, text := range slices.Backward(hops) {
			hop, err := netip.ParseAddr(strings.TrimSpace(text))
			if err != nil {
				break
			}
			if want = hop.Unmap().WithZone(""); !trusted[0].Contains(want) {
				break
			}
		}
		if addr != want || local {
			t.Errorf("%q: %v, local %v; want %v", hops, addr, local, want)
		}
	})
}

// TestRelayed: a node reports since when it knows of a proxy that does not identify itself, and
// warns once.
func TestRelayed(t *testing.T) {
	var log strings.Builder
	s := newServer(t, &prototest.House{}, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	ask := func(from, host, proto string, headers ...string) *string {
		t.Helper()
		r := httptest.NewRequest("GET", "/v1/node", nil)
		r.RemoteAddr, r.Host = from, host
		if proto == "HTTP/1.0" {
			r.Proto, r.ProtoMinor = proto, 0
		}
		for i := 0; i+1 < len(headers); i += 2 {
			r.Header.Add(headers[i], headers[i+1])
		}
		s.ServeHTTP(httptest.NewRecorder(), r)
		r = httptest.NewRequest("GET", "/v1/node", nil)
		r.RemoteAddr, r.Host = local, "localhost"
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		var state admin.NodeState
		if err := json.NewDecoder(w.Body).Decode(&state); err != nil {
			t.Fatal(err)
		}
		return state.Relayed
	}
	for _, tt := range []struct {
		name, from, host, proto string
		headers                 []string
	}{
		{"this machine", local, "localhost:8420", "HTTP/1.1", nil},
		{"this machine by address", local, "127.0.0.1:8420", "HTTP/1.1", nil},
		{"another machine", remote, "mail.example.org", "HTTP/1.1", nil},
		{"another machine that names this one", remote, "localhost", "HTTP/1.1", nil},
		{"a proxy of HTTP/1.0", local, "mail.example.org", "HTTP/1.0", nil},
		{"a proxy that says so", local, "mail.example.org", "HTTP/1.1", []string{"X-Forwarded-For", "203.0.113.9"}},
		{"another one", local, "localhost", "HTTP/1.1", []string{"Via", "1.1 x"}},
	} {
		if got := ask(tt.from, tt.host, tt.proto, tt.headers...); got != nil {
			t.Errorf("%s: relayed for %q", tt.name, *got)
		}
	}
	if log.Len() > 0 {
		t.Errorf("logged: %s", log.String())
	}
	long := strings.Repeat("a", 3000) + ".example"
	for range 3 {
		if got := ask(local, long, "HTTP/1.1"); got == nil || *got != long[:255] {
			t.Errorf("relayed for another host: %v", got)
		}
	}
	if got := ask(local, "mail.example.org", "HTTP/1.1"); got == nil || *got != long[:255] {
		t.Errorf("the first host is not kept: %v", got)
	}
	if n := strings.Count(log.String(), "names another host"); n != 1 {
		t.Errorf("warned %d times: %s", n, log.String())
	}
}

// TestDefaultLimits checks the limits of requests of a server without limits of its own, and that its own take their
// place.
func TestDefaultLimits(t *testing.T) {
	if s := newSettings(Access{}); s.MaxBody != 32<<20 || s.MaxSignatures != 1024 || s.MaxBatch != 1024 {
		t.Errorf("%+v", s.Access)
	}
	if s := newSettings(Access{MaxBody: 1, MaxSignatures: 2, MaxBatch: 3}); s.MaxBody != 1 || s.MaxSignatures != 2 ||
		s.MaxBatch != 3 {
		t.Errorf("%+v", s.Access)
	}
}
