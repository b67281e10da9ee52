package lists

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// A Kind is the type of an entry.
type Kind uint8

// The kinds.
const (
	Address Kind = iota + 1 // a mail address
	Domain                  // a domain, with its subdomains unless the list is exact
	URL                     // a URL; one that ends in "/" stands for everything below it
	Network                 // an IP address or network
	Digest                  // the hash of an entry, for lists of hashes
)

var kinds = [...]string{Address: "address", Domain: "domain", URL: "url", Network: "network", Digest: "digest"}

// String returns "address", "domain", "url", "network", "digest" or "invalid".
func (k Kind) String() string {
	if k == 0 || int(k) >= len(kinds) {
		return "invalid"
	}
	return kinds[k]
}

// The limits of an entry, in bytes.
const (
	maxEntry  = 2048
	maxDomain = 253
	maxLabel  = 63
	maxLocal  = 64
)

// An Entry is one normalised address, domain, URL, network or hash: two spellings of the same thing
// yield equal entries. The zero Entry is invalid.
type Entry struct {
	Kind Kind
	// Text is the element that goes into the filter: "local@domain" and domains
	// in lower case and ASCII, URLs as "//host/path?query" with the host in lower
	// case, networks as "192.0.2.0/24".
	Text string
}

// ParseEntry normalises one entry, whose form determines its kind. With "://" or a leading "//" it
// is a URL. Next come IP addresses and networks. Anything else with a "/" is a URL without a
// scheme. With an "@" it is an address, but "@domain" is a domain. Everything else is a domain.
// "*.example.com" and ".example.com" are read as example.com.
func ParseEntry(text string) (Entry, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return Entry{}, fmt.Errorf("lists: empty entry")
	case len(text) > maxEntry:
		return Entry{}, fmt.Errorf("lists: entry of %d bytes, limit %d", len(text), maxEntry)
	case !utf8.ValidString(text):
		return Entry{}, fmt.Errorf("lists: %.80q is not UTF-8", text)
	case strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c == 0x7f }):
		return Entry{}, fmt.Errorf("lists: %.80q has white space or control characters inside", text)
	case strings.HasPrefix(text, "//"):
		return parseURL(text[2:])
	case strings.Contains(text, "://"):
		_, rest, _ := strings.Cut(text, "://")
		return parseURL(rest)
	}
	if n, ok := parseNetwork(text); ok {
		return n, nil
	}
	if host, bits, ok := strings.Cut(text, "/"); ok {
		// With a scheme it would be a URL. Without one it is a mistake that would never match.
		if a, err := netip.ParseAddr(host); err == nil && bits != "" && strings.Trim(bits, "0123456789") == "" {
			return Entry{}, fmt.Errorf("lists: %.80q is not a network: want 0 to %d bits", text, a.BitLen())
		}
		return parseURL(text)
	}
	if local, domain, ok := cutAddress(text); ok && local != "" {
		return parseAddress(local, domain)
	} else if ok {
		text = domain
	}
	name, err := normalDomain(text)
	if err != nil {
		return Entry{}, err
	}
	return Entry{Domain, name}, nil
}

func cutAddress(text string) (local, domain string, ok bool) {
	at := strings.LastIndexByte(text, '@')
	if at < 0 {
		return "", "", false
	}
	return text[:at], text[at+1:], true
}

func parseAddress(local, domain string) (Entry, error) {
	local = strings.ToLower(local) // some letters are longer in lower case
	if len(local) > maxLocal {
		return Entry{}, fmt.Errorf("lists: local part of %d bytes, limit %d", len(local), maxLocal)
	}
	name, err := normalDomain(domain)
	if err != nil {
		return Entry{}, err
	}
	return Entry{Address, local + "@" + name}, nil
}

func parseNetwork(text string) (Entry, bool) {
	if c := text[0]; !(c >= '0' && c <= '9') && !strings.Contains(text, ":") {
		return Entry{}, false
	}
	if p, err := netip.ParsePrefix(text); err == nil {
		return NetworkEntry(p), true
	}
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return NetworkEntry(netip.PrefixFrom(a, a.BitLen())), true
	}
	return Entry{}, false
}

// NetworkEntry returns the entry of a network. It clears the host bits, and converts IPv4-mapped
// IPv6 into IPv4, as look-ups do.
func NetworkEntry(p netip.Prefix) Entry {
	if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return Entry{Network, p.Masked().String()}
}

// AddrEntry returns the entry of one IP address.
func AddrEntry(a netip.Addr) Entry {
	a = a.Unmap().WithZone("")
	return Entry{Network, netip.PrefixFrom(a, a.BitLen()).String()}
}

// parseURL parses the part of a URL after the scheme.
func parseURL(rest string) (Entry, error) {
	rest, _, _ = strings.Cut(rest, "#")
	host, path := rest, "/"
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		host, path = rest[:i], rest[i:]
		if path[0] == '?' {
			path = "/" + path
		}
	}
	host = host[strings.LastIndexByte(host, '@')+1:]
	host, err := normalHost(host)
	if err != nil {
		return Entry{}, err
	}
	return Entry{URL, "//" + host + path}, nil
}

// normalHost normalises a host with an optional port, which is dropped.
func normalHost(host string) (string, error) {
	if strings.HasPrefix(host, "[") {
		inner, _, ok := strings.Cut(host[1:], "]")
		a, err := netip.ParseAddr(inner)
		if !ok || err != nil || a.Zone() != "" {
			return "", fmt.Errorf("lists: host %.80q is not an address in brackets", host)
		}
		return "[" + a.String() + "]", nil
	}
	if i := strings.LastIndexByte(host, ':'); i >= 0 {
		host = host[:i]
	}
	if a, err := netip.ParseAddr(host); err == nil && a.Is4() {
		return a.String(), nil
	}
	return normalDomain(host)
}

// normalDomain returns name in lower case and ASCII, without leading "*." or "." and without a
// final dot. Underscores are allowed, since they occur in practice.
func normalDomain(name string) (string, error) {
	given := name
	name = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(name, "*"), "."), ".")
	if !ascii(name) {
		var err error
		// Lookup maps case and width as browsers and mail programs do.
		if name, err = idna.Lookup.ToASCII(name); err != nil {
			return "", fmt.Errorf("lists: domain %.80q: %v", given, err)
		}
	}
	name = strings.ToLower(name)
	if name == "" || len(name) > maxDomain {
		return "", fmt.Errorf("lists: domain %.80q of %d bytes, want 1 to %d", given, len(name), maxDomain)
	}
	labelStart := 0
	for i := 0; i <= len(name); i++ {
		if i == len(name) || name[i] == '.' {
			if n := i - labelStart; n < 1 || n > maxLabel {
				return "", fmt.Errorf("lists: domain %.80q has a label of %d bytes, want 1 to %d", given, n, maxLabel)
			}
			labelStart = i + 1
			continue
		}
		if c := name[i]; !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return "", fmt.Errorf("lists: domain %.80q has %q", given, c)
		}
	}
	if last := name[strings.LastIndexByte(name, '.')+1:]; strings.Trim(last, "0123456789") == "" {
		return "", fmt.Errorf("lists: domain %.80q ends in a number", given)
	}
	return name, nil
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
