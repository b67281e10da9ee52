package link

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// The limits of a link, in bytes.
const (
	// MaxURL is how many bytes of a link are read; the rest is cut off.
	MaxURL = 2048
	// maxFirst bounds a part of a path in [Link.Place].
	maxFirst = 200
	// maxTargets is how many links [All] finds in one, itself included.
	maxTargets = 4
)

// A Link is where a link leads. It is made by [Parse].
type Link struct {
	// Host is a name in lower case and ASCII, without a final dot, or an IP address;
	// IPv6 without brackets.
	Host string
	// Domain is the registrable domain of Host; of an IP address its Host.
	Domain string
	// Port is "" if it is the one that the scheme has anyway.
	Port string
	// Path begins with "/" and has the query, without the fragment. Bytes that need
	// no percent-encoding are not encoded.
	Path string
}

// URL returns l as "http://host/path?query", whatever its scheme was.
func (l *Link) URL() string { return "http://" + l.authority() + l.Path }

func (l *Link) authority() string {
	host := l.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if l.Port != "" {
		host += ":" + l.Port
	}
	return host
}

// Parse reads a link as browsers do (WHATWG URL, special schemes): blanks and
// control characters around it and line ends and tabs inside are left out,
// backslashes are slashes, any number of them may follow the scheme, what stands
// before an @ is no host, and names and numbers may be written in all the ways that
// lead to the same host. Without a scheme it must begin with two slashes. It
// reports whether there is an http, https or ftp link to a host that has a dot or is
// an address.
func Parse(text string) (Link, bool) { return new(Reader).parse(text) }

// A Reader reads links, and remembers the hosts that it has read lately: most links of a
// message lead to few. The zero Reader is usable. It serves one goroutine.
type Reader struct{ hosts [4]knownHost }

// A knownHost is what stands between the scheme and the path of links as it is written, and
// what of a [Link] it says, if it is a host.
type knownHost struct {
	scheme, authority  string
	ok                 bool
	host, domain, port string
}

// host reads what stands between the scheme and the path.
func (r *Reader) host(authority, scheme string) *knownHost {
	at := len(authority)
	if at > 0 {
		at += int(authority[0])
	}
	known := &r.hosts[at%len(r.hosts)]
	if known.scheme == scheme && known.authority == authority {
		return known
	}
	*known = knownHost{scheme: scheme, authority: authority}
	if known.host, known.port, known.ok = cutAuthority(authority, scheme); !known.ok {
		return known
	}
	l := Link{Host: known.host, Port: known.port}
	known.domain = l.Host
	if d, ok := Registrable(l.Host); ok && !isAddress(l.Host) {
		known.domain = d
	}
	return known
}

func (r *Reader) parse(text string) (Link, bool) {
	if len(text) > MaxURL {
		text = withoutUser(text)
		text = text[:min(len(text), MaxURL)]
	}
	for text != "" && text[0] <= ' ' {
		text = text[1:]
	}
	for text != "" && text[len(text)-1] <= ' ' {
		text = text[:len(text)-1]
	}
	if strings.IndexByte(text, '\t') >= 0 || strings.IndexByte(text, '\n') >= 0 || strings.IndexByte(text, '\r') >= 0 {
		text = strings.Map(func(r rune) rune {
			if r == '\t' || r == '\n' || r == '\r' {
				return -1
			}
			return r
		}, text)
	}
	scheme, rest, ok := cutScheme(text)
	if !ok {
		return Link{}, false
	}
	for rest != "" && (rest[0] == '/' || rest[0] == '\\') {
		rest = rest[1:]
	}
	end := 0
	for end < len(rest) && !endsAuthority[rest[end]] {
		end++
	}
	authority, tail := rest[:end], rest[end:]
	h := r.host(authority, scheme)
	if !h.ok {
		return Link{}, false
	}
	return Link{Host: h.host, Domain: h.domain, Port: h.port, Path: cleanPath(tail)}, true
}

// withoutUser returns a link without a long name and password, which browsers pass over.
func withoutUser(text string) string {
	scheme, rest, _ := strings.Cut(text, ":")
	rest = strings.TrimLeft(rest, `/\`)
	if at := strings.LastIndexByte(rest[:max(0, strings.IndexAny(rest+"/", `/\?#`))], '@'); at >= MaxURL/2 {
		return scheme + "://" + rest[at+1:]
	}
	return text
}

// endsAuthority holds the bytes behind what stands between the scheme and the path.
var endsAuthority = [256]bool{'/': true, '\\': true, '?': true, '#': true}

// cutScheme cuts the scheme off a link, in lower case.
func cutScheme(text string) (scheme, rest string, ok bool) {
	if strings.HasPrefix(text, "//") || strings.HasPrefix(text, `\\`) || strings.HasPrefix(text, `/\`) ||
		strings.HasPrefix(text, `\/`) {
		return "http", text, true
	}
	i := strings.IndexByte(text[:min(len(text), len("https:"))], ':')
	if i < 0 {
		return "", "", false
	}
	switch scheme = strings.ToLower(text[:i]); scheme {
	case "http", "https", "ftp":
		return scheme, text[i+1:], true
	}
	return "", "", false
}

// cutAuthority reads what stands between the scheme and the path.
func cutAuthority(authority, scheme string) (host, port string, ok bool) {
	authority = authority[strings.LastIndexByte(authority, '@')+1:]
	if strings.HasPrefix(authority, "[") {
		end := strings.IndexByte(authority, ']')
		if end < 0 {
			return "", "", false
		}
		ip, err := netip.ParseAddr(authority[1:end])
		if err != nil || ip.Zone() != "" {
			return "", "", false
		}
		port, ok = portOf(authority[end+1:], scheme)
		return ip.Unmap().String(), port, ok
	}
	i := strings.LastIndexByte(authority, ':')
	if i < 0 {
		i = len(authority)
	}
	if port, ok = portOf(authority[i:], scheme); !ok {
		return "", "", false
	}
	host, ok = hostOf(authority[:i])
	return host, port, ok
}

// portOf reads ":port", or nothing. A port that the scheme has anyway is "".
func portOf(text, scheme string) (port string, ok bool) {
	if text == "" || text == ":" {
		return "", true
	}
	n, err := strconv.ParseUint(text[1:], 10, 16)
	if text[0] != ':' || err != nil || text[1] < '0' || text[1] > '9' {
		return "", false
	}
	switch {
	case scheme == "http" && n == 80, scheme == "https" && n == 443, scheme == "ftp" && n == 21:
		return "", true
	}
	return strconv.FormatUint(n, 10), true
}

// cleanPath returns path and query with forward slashes, without "." and ".."
// parts, and without percent-encoding where none is needed.
func cleanPath(tail string) string {
	tail, _, _ = strings.Cut(tail, "#")
	written, query, asks := strings.Cut(tail, "?")
	path := unescape(strings.ReplaceAll(written, `\`, "/"))
	if strings.Contains(path, "/.") {
		path = withoutDots(path)
	}
	if path == "" {
		path = "/"
	}
	if !asks {
		return path
	}
	clean := unescape(query)
	if path == written && clean == query {
		return tail // as most are
	}
	return path + "?" + clean
}

// withoutDots resolves the parts "." and ".." of a path.
func withoutDots(path string) string {
	var kept []string
	parts := strings.Split(path[1:], "/")
	for i, part := range parts {
		last := i == len(parts)-1
		switch part {
		case "..":
			kept = kept[:max(0, len(kept)-1)]
		case ".":
		default:
			kept = append(kept, part)
			continue
		}
		if last {
			kept = append(kept, "")
		}
	}
	return "/" + strings.Join(kept, "/")
}

// unescape undoes the percent-encoding of letters, digits and "-._~", writes that of
// others in upper case, and encodes a percent sign that begins none, lest one arise
// before what is decoded behind it, and blanks and control characters, as browsers do.
func unescape(text string) string {
	i := 0
	for i < len(text) && text[i] > ' ' && text[i] != '%' && text[i] != 0x7f {
		i++
	}
	if i == len(text) {
		return text
	}
	out := append(make([]byte, 0, len(text)), text[:i]...)
	for ; i < len(text); i++ {
		c, ok := escaped(text[i:])
		switch {
		case ok && unreserved(c):
			out = append(out, c)
			i += 2
		case ok:
			out = append(out, strings.ToUpper(text[i:i+3])...)
			i += 2
		case text[i] == '%' || text[i] <= ' ' || text[i] == 0x7f:
			out = fmt.Appendf(out, "%%%02X", text[i])
		default:
			out = append(out, text[i])
		}
	}
	return string(out)
}

func unreserved(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// decode undoes all percent-encoding, once.
func decode(text string) string {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		c := text[i]
		if e, ok := escaped(text[i:]); ok {
			c = e
			i += 2
		}
		out = append(out, c)
	}
	return string(out)
}
