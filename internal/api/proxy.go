package api

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/bulkhead-mail/bulkhead/door"
)

// client returns the address of the sender of r and whether the sender is on this machine. A
// request that may have passed a proxy is local only if the proxy is trusted and names a loopback
// client. Otherwise every client behind a proxy on this machine would be local. A request for
// another host name is not local either: a web page can make a browser send such requests here by
// resolving its own name to the loopback address.
func (s *settings) client(r *http.Request) (addr netip.Addr, local bool) {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, false
	}
	addr = ap.Addr().Unmap().WithZone("")
	if !proxied(r) {
		return addr, addr.IsLoopback() && localHost(r.Host)
	}
	if !door.Within(s.TrustedProxies, addr) {
		return addr, false
	}
	hop, ok := lastHop(r.Header["X-Forwarded-For"], s.TrustedProxies)
	if !hop.IsValid() {
		return addr, false
	}
	return hop, ok && hop.IsLoopback()
}

// noteRelay remembers the first request from this machine that shows no sign of a proxy and names
// another host. Such a request is not local. It may be a program of this machine that uses the host
// name. It may also come through a proxy or forwarder that adds nothing to requests; then any of
// its clients could name localhost instead, and would count as local.
func (s *Server) noteRelay(r *http.Request, addr netip.Addr) {
	if s.relayed.Load() != nil || !addr.IsLoopback() || proxied(r) {
		return
	}
	host := r.Host[:min(len(r.Host), 255)]
	if s.relayed.CompareAndSwap(nil, &host) {
		s.log.Warn(
			"a request from this machine names another host, and does not say that it was passed on: if a proxy or forwarder "+
				"did, its clients can pass for this machine. "+
				"See \"If you run a node\" in SECURITY.md", "host", host)
	}
}

// lastHop returns the client for which trusted proxies forwarded a request, and whether the search
// met only valid addresses. Every proxy appends the address that it saw, so the client is the last
// address that is not a trusted proxy. An invalid address ends the search at the proxy that wrote
// it.
func lastHop(forwarded []string, trusted []netip.Prefix) (addr netip.Addr, ok bool) {
	for _, field := range slices.Backward(forwarded) {
		for found := true; found; {
			var text string
			at := strings.LastIndexByte(field, ',')
			if text, found = field[at+1:], at >= 0; found {
				field = field[:at]
			}
			hop, err := netip.ParseAddr(strings.TrimSpace(text))
			if err != nil {
				return addr, false
			}
			if addr = hop.Unmap().WithZone(""); !door.Within(trusted, addr) {
				return addr, true
			}
		}
	}
	return addr, addr.IsValid()
}

// The header fields that reveal proxies, gateways and content networks, besides the fields that
// name an address: see [proxied].
var (
	proxyFields   = []string{"Forwarded", "Via", "Max-Forwards", "Cdn-Loop", "X-Varnish", "X-Host", "X-Arr-Ssl"}
	proxyPrefixes = []string{"X-Forwarded", "X-Original-", "X-Proxy", "Proxy-", "Cf-", "Fastly-", "X-Amz", "X-Azure-",
		"X-Envoy-", "X-Appengine-", "X-Arr-"}
	proxySuffixes = []string{"-Ip", "-Clientip", "-Addr", "-Address"} // X-Real-Ip, True-Client-Ip, X-Cluster-Client-Ip ...
)

// proxied reports whether there is any sign that r came through a proxy. Some proxies
// add nothing but speak HTTP/1.0, which no client of this interface does: nginx does so
// by default up to 1.29.
func proxied(r *http.Request) bool {
	if !r.ProtoAtLeast(1, 1) {
		return true
	}
	for name := range r.Header {
		in := func(part string) bool { return strings.HasPrefix(name, part) }
		end := func(part string) bool { return strings.HasSuffix(name, part) }
		if slices.Contains(proxyFields, name) || slices.ContainsFunc(proxyPrefixes, in) ||
			slices.ContainsFunc(proxySuffixes, end) {
			return true
		}
	}
	return false
}

// localHost reports whether a Host names this machine: the loopback address or localhost. The
// unspecified address does not count, because web pages use it to reach local programs.
func localHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().IsLoopback()
	}
	return strings.EqualFold(strings.TrimSuffix(host, "."), "localhost")
}
