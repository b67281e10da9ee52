package api

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/bulkhead-mail/bulkhead/door"
)

// client returns the address of the sender of r and whether that is this machine. A
// request that a proxy may have passed on never counts as local unless the proxy is
// trusted and names a loopback client: otherwise everybody behind a proxy on this
// machine would be local. Nor does a request to another host name: a web page can make a
// browser send such requests here by pointing its own name at the loopback address.
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

// noteRelay remembers the first request that came from this machine, without a sign of a
// proxy, for another host name. A program of this machine that names it so is not local by
// that. But so do clients of a proxy or forwarder that adds nothing to what it passes on,
// and any of them could name localhost instead, and would be local.
func (s *Server) noteRelay(r *http.Request, addr netip.Addr) {
	if s.relayed.Load() != nil || !addr.IsLoopback() || proxied(r) {
		return
	}
	host := r.Host[:min(len(r.Host), 255)]
	if s.relayed.CompareAndSwap(nil, &host) {
		s.log.Warn(
			"a request from this machine names another host, and does not say that it was passed on: if a proxy or forwarder did, its clients can pass for this machine. "+
				"See \"If you run a node\" in SECURITY.md", "host", host)
	}
}

// lastHop returns the client that trusted proxies passed a request on for, and
// whether every one before it could be read. Every proxy appends the address
// that it saw, so the last one that is not a trusted proxy itself is the client;
// one that cannot be read ends the search at the proxy that wrote it.
func lastHop(forwarded []string, trusted []netip.Prefix) (addr netip.Addr, ok bool) {
	for _, field := range slices.Backward(forwarded) {
		for more := true; more; {
			var text string
			at := strings.LastIndexByte(field, ',')
			if text, more = field[at+1:], at >= 0; more {
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

// The names of header fields by which proxies, gateways and content networks
// show themselves, besides those that name an address: see [proxied].
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

// localHost reports whether a Host names this machine: the loopback address or
// localhost. The unspecified address does not count, because web pages reach local
// programs by it.
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
