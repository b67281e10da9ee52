package link

import (
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"

	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// maxHost is the longest name of a host, in bytes.
const maxHost = 253

// profile maps names as browsers do (UTS 46, not transitional).
var profile = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.StrictDomainName(false),
	idna.CheckHyphens(false), idna.VerifyDNSLength(false))

// Name returns the name of a host in lower case and ASCII, without a final dot. It
// reports whether text is a host name: it has at least two labels, none of them
// empty, and is not a number.
func Name(text string) (string, bool) {
	name, ok := hostOf(text)
	return name, ok && !isAddress(name)
}

// Registrable returns the registrable domain of a name that [Name] has returned,
// for example "example.co.uk" of "www.example.co.uk", by the Public Suffix List,
// private part included. A public suffix has none.
func Registrable(name string) (string, bool) {
	domain, err := publicsuffix.EffectiveTLDPlusOne(name)
	return domain, err == nil
}

// PublicSuffix reports whether a name that [Name] has returned is a suffix under which the public
// may register names, such as "co.uk". Suffixes that companies run for their customers, such as
// "github.io", are not: they have an owner who is responsible.
func PublicSuffix(name string) bool {
	suffix, icann := publicsuffix.PublicSuffix(name)
	return suffix == name && (icann || !strings.Contains(name, "."))
}

// isAddress reports whether a host that was read here is an address and not a name.
func isAddress(host string) bool {
	if !strings.Contains(host, ":") && (host == "" || !digit(host[len(host)-1])) {
		return false // as most are, without the error that ParseAddr makes
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}

// hostOf reads a host that is no bracketed address.
func hostOf(text string) (host string, ok bool) {
	if strings.Contains(text, "%") {
		text = decode(text)
	}
	if len(text) > 4*maxHost || !utf8.ValidString(text) {
		return "", false
	}
	if !plain(text) {
		mapped, err := profile.ToASCII(text)
		if err != nil {
			return "", false
		}
		text = mapped
	}
	host = strings.TrimSuffix(strings.ToLower(text), ".")
	if !named(host) {
		return "", false
	}
	if numeric(host[strings.LastIndexByte(host, '.')+1:]) {
		return ipv4(host)
	}
	return host, strings.Contains(host, ".")
}

// plain reports whether a name needs no mapping except of case.
func plain(name string) bool {
	if !scan.IsASCII(name) {
		return false
	}
	for at := 0; ; at++ {
		i := strings.Index(name[at:], "--")
		if i < 0 {
			return true
		}
		if at += i; at >= 2 && strings.EqualFold(name[at-2:at], "xn") {
			return false
		}
	}
}

// named reports whether host has the form of a name: labels that are not empty, of
// bytes that may stand in one.
func named(host string) bool {
	if host == "" || len(host) > maxHost || host[0] == '.' || strings.HasSuffix(host, ".") ||
		strings.Contains(host, "..") {
		return false
	}
	for i := range len(host) {
		switch c := host[i]; c {
		case '#', '%', '/', ':', '<', '>', '?', '@', '[', '\\', ']', '^', '|', '"', '\'', '`', '{', '}', '(', ')',
			',', ';', '!', '$', '&', '*', '+', '=':
			return false
		default:
			if c <= ' ' || c >= 0x7f {
				return false
			}
		}
	}
	return true
}

// numeric reports whether the last label of a host, which is not empty, makes it a
// number: browsers then read all of it as an IPv4 address, or not at all.
func numeric(label string) bool {
	if !digit(label[0]) {
		return false
	}
	_, ok := number(label)
	return ok || strings.Trim(label, "0123456789") == ""
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// number reads a part of an IPv4 address: decimal, octal after 0, hexadecimal after 0x. Numbers
// too large for an address become one such number.
func number(text string) (uint64, bool) {
	base := 10
	switch {
	case strings.HasPrefix(text, "0x"):
		text, base = text[2:], 16
	case len(text) > 1 && text[0] == '0':
		text, base = text[1:], 8
	}
	if text == "" {
		return 0, base == 16
	}
	if strings.ContainsAny(text, "+-_") {
		return 0, false
	}
	n, err := strconv.ParseUint(text, base, 64)
	if err != nil && strings.Trim(text, "0123456789abcdef") == "" && base == 16 {
		return 1 << 40, true
	}
	return n, err == nil
}

// ipv4 reads an IPv4 address of one to four numbers, of which the last fills what
// is left.
func ipv4(host string) (string, bool) {
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return "", false
	}
	var ip uint64
	for i, part := range parts {
		n, ok := number(part)
		if !ok {
			return "", false
		}
		if i < len(parts)-1 {
			if n > 255 {
				return "", false
			}
			ip |= n << (8 * (3 - i))
			continue
		}
		if n >= 1<<(8*(4-i)) {
			return "", false
		}
		ip |= n
	}
	return netip.AddrFrom4([4]byte{byte(ip >> 24), byte(ip >> 16), byte(ip >> 8), byte(ip)}).String(), true
}

// escaped returns the byte that a percent-encoding at the start of text stands for.
func escaped(text string) (byte, bool) {
	if len(text) < 3 || text[0] != '%' {
		return 0, false
	}
	hi, ok1 := scan.Hex(text[1])
	lo, ok2 := scan.Hex(text[2])
	return hi<<4 | lo, ok1 && ok2
}
