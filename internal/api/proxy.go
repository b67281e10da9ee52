package api

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/bulkhead-mail/bulkhead/door"
)

// client returns the address of the sender of r and whether the sender is local: on this machine, and
// connected to this server without anything between. A request with any sign of a proxy is not local,
// whatever its headers name: a trusted proxy contributes the address of its client and no right. A
// request for another host name is not local either: a web page can make a browser send such requests
// here by resolving its own name to the loopback address.
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
	if hop := lastHop(r.Header["X-Forwarded-For"], s.TrustedProxies); hop.IsValid() {
		return hop, false
	}
	return addr, false
}

// stranger returns an address for clients that are not local: addr, or the unspecified address in
// place of one that has rights elsewhere in the node. Those are the loopback address and the zero
// Addr, which a forwarded request may have.
func stranger(addr netip.Addr) netip.Addr {
	if !addr.IsValid() || addr.IsLoopback() {
		return netip.IPv4Unspecified()
	}
	return addr
}

// secure reports whether a browser speaks HTTPS with this server, or with a trusted proxy in front
// of it that reports so.
func (s *settings) secure(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	schemes := r.Header["X-Forwarded-Proto"]
	if err != nil || len(schemes) == 0 || !door.Within(s.TrustedProxies, ap.Addr().Unmap().WithZone("")) {
		return false
	}
	last := schemes[len(schemes)-1]
	return strings.EqualFold(strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:]), "https")
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
		s.opts.Log.Warn(
			"request from this machine names another host, without a header of a proxy", "host", host,
			"consequence", "if a proxy or forwarder sent it, its clients have the rights of this machine",
			"hint", "see \"If you run a node\" in SECURITY.md")
	}
}

// lastHop returns the client for which trusted proxies forwarded a request, or the zero Addr if they
// name none. Every proxy appends the address that it saw, so the client is the last address that is not
// a trusted proxy. An invalid address ends the search at the proxy that wrote it.
func lastHop(forwarded []string, trusted []netip.Prefix) (addr netip.Addr) {
	for _, field := range slices.Backward(forwarded) {
		for left := true; left; {
			var text string
			at := strings.LastIndexByte(field, ',')
			if text, left = field[at+1:], at >= 0; left {
				field = field[:at]
			}
			hop, err := netip.ParseAddr(strings.TrimSpace(text))
			if err != nil {
				return addr
			}
			if addr = hop.Unmap().WithZone(""); !door.Within(trusted, addr) {
				return addr
			}
		}
	}
	return addr
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
