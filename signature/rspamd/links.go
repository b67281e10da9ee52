package rspamd

import (
	"bytes"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/bulkhead-mail/bulkhead/signature/internal/scan"
)

// A span is a piece of a text: index of its first byte, and of that behind its last.
type span struct{ start, end int }

// findLinks appends to links the links and addresses in text that rspamd cuts out before it looks for
// words, in their order. bare says that host names count without "www." and a scheme, as in
// plain text. None reaches across white space.
//
// Source: docs/specs/rspamd-fuzzy.md#links.
func findLinks(links []span, text []byte, bare bool) []span {
	for at := 0; at < len(text); {
		n, mark := 0, -1 // the bytes without a blank, the first "@" or point among them
		for ; at+n < len(text); n++ {
			c := text[at+n]
			if c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' {
				break
			}
			if mark < 0 && (c == '@' || c == '.') {
				mark = n
			}
		}
		// A point at the end is that of a sentence.
		if chunk := text[at : at+n]; n > 1 && mark >= 0 && mark < n-1 {
			f := linkFinder{chunk: chunk[:min(len(chunk), maxChunk)], bare: bare}
			for _, l := range f.links() {
				links = append(links, span{at + l.start, at + l.end})
			}
		}
		at += n + 1
	}
	return links
}

// maxChunk is how many bytes without white space are searched for links.
const maxChunk = 4 << 10

// A linkFinder finds the links of a chunk of text without white space.
type linkFinder struct {
	chunk []byte
	bare  bool
	dead  int // no link goes beyond this ">", which ends none
}

func (f *linkFinder) links() []span {
	chunk := f.chunk
	var links []span
	from := 0 // end of the last link
	for i := 0; i < len(chunk); i++ {
		c := chunk[i]
		var l span
		switch {
		case c == '@':
			l = address(chunk, from, i)
		case i > from && isHostByte(chunk[i-1]):
			continue
		case c|0x20 == 'h' || c|0x20 == 'f' || c|0x20 == 'm':
			l = f.withScheme(i)
		}
		if l.end == 0 && (isAlnum(c) || c >= 0x80) && mayOpen(chunk, i) && (f.bare || hasLinkPrefix(chunk[i:])) {
			l = f.bareHost(i)
		}
		if l.end > 0 {
			links = append(links, l)
			from = l.end
			i = l.end - 1
		}
	}
	return links
}

// mayOpen reports whether a host name may begin at i: at the start, or behind a bracket or an
// apostrophe.
func mayOpen(chunk []byte, i int) bool {
	return i == 0 || strings.IndexByte("(<['", chunk[i-1]) >= 0
}

// address returns the address around the "@" at i, none if there is none behind from.
func address(chunk []byte, from, i int) span {
	start := i
	for start > from && (isAlnum(chunk[start-1]) || strings.IndexByte("._+-", chunk[start-1]) >= 0) {
		start--
	}
	end := i + 1 + hostLength(chunk[i+1:])
	if start == i || !isHost(chunk[i+1:end]) {
		return span{}
	}
	return span{start, end}
}

// withScheme returns the link with a scheme that begins at i, none if there is none.
func (f *linkFinder) withScheme(i int) span {
	rest := f.chunk[i:]
	for _, scheme := range [...]string{"http://", "https://", "ftp://", "mailto:"} {
		if !scan.HasPrefixFold(rest, scheme) {
			continue
		}
		host := rest[len(scheme):]
		authority := host
		if end := bytes.IndexAny(host, "/?#\"<>"); end >= 0 {
			authority = host[:end]
		}
		at := bytes.LastIndexByte(authority, '@')
		if scheme == "mailto:" && at <= 0 {
			return span{}
		}
		host = host[at+1:]
		name := host[:hostLength(host)]
		if !isHost(name) && !isNumeric(name) {
			return span{}
		}
		if end := len(f.chunk) - len(host) + len(name); scheme == "mailto:" && (end == len(f.chunk) || strings.IndexByte("?/&", f.chunk[end]) < 0) {
			return span{i, end}
		}
		return f.tail(i, len(f.chunk)-len(host)+len(name))
	}
	return span{}
}

// isNumeric reports whether a host is an IP address, perhaps as one number.
func isNumeric(name []byte) bool {
	if len(name) == 0 || !isAlnum(name[0]) || scan.IsLetter(name[0]) {
		return false
	}
	if _, err := strconv.ParseUint(string(name), 10, 32); err == nil {
		return true
	}
	_, err := netip.ParseAddr(string(name))
	return err == nil
}

// bareHost returns the link that begins with the host name at i, none if there is none.
func (f *linkFinder) bareHost(i int) span {
	chunk := f.chunk
	end := i + hostLength(chunk[i:])
	www := hasLinkPrefix(chunk[i:])
	name := chunk[i:end]
	if !isHost(name) {
		return span{}
	}
	rest := chunk[end:]
	switch {
	case len(rest) == 0 || string(rest) == "." || www, rest[0] == '/', isPort(rest):
		return f.tail(i, end)
	case rest[0] == ')' || rest[0] == ']' || rest[0] == '\'' || rest[0] == '>' && i > 0 && chunk[i-1] == '<':
		return span{i, end}
	}
	return span{}
}

// hasLinkPrefix reports whether text begins like the name of a server.
func hasLinkPrefix(text []byte) bool {
	return scan.HasPrefixFold(text, "www.") || scan.HasPrefixFold(text, "ftp.")
}

// isPort reports whether text is a port, up to its end or a path.
func isPort(text []byte) bool {
	if text[0] != ':' {
		return false
	}
	rest := bytes.TrimLeft(text[1:], "0123456789")
	return len(rest) < len(text)-1 && (len(rest) == 0 || rest[0] == '/')
}

// longestOpening is how many bytes there may be between "<" and a link, as in "<URL:".
const longestOpening = 16

// tail returns the link whose host ends at end: up to a quote, or the ">" of the "<" before
// it. Another ">" makes it none.
func (f *linkFinder) tail(start, end int) span {
	opened := bytes.LastIndexByte(f.chunk[max(0, start-longestOpening):start], '<') >= 0
	if !opened && end < f.dead {
		return span{}
	}
	n := bytes.IndexAny(f.chunk[end:], "\">")
	switch {
	case n < 0:
		return span{start, len(f.chunk)}
	case f.chunk[end+n] == '>' && !opened:
		f.dead = end + n
		return span{}
	}
	return span{start, end + n}
}

// hostLength returns how many bytes at the start of text may be a host name, without a point
// at its end.
func hostLength(text []byte) int {
	n := 0
	for n < len(text) && isHostByte(text[n]) {
		n++
	}
	for n > 0 && text[n-1] == '.' {
		n--
	}
	return n
}

func isHostByte(c byte) bool { return isAlnum(c) || c == '.' || c == '-' || c == '_' || c >= 0x80 }

func isAlnum(c byte) bool { return scan.IsLetter(c) || '0' <= c && c <= '9' }

// isHost reports whether name is a name below a public suffix.
func isHost(name []byte) bool {
	const longest = 255
	if len(name) == 0 || len(name) > longest || bytes.Contains(name, []byte("..")) || name[0] == '.' {
		return false
	}
	host := strings.ToLower(string(name))
	suffix, icann := publicsuffix.PublicSuffix(host)
	return suffix != host && (icann || strings.Contains(suffix, "."))
}
