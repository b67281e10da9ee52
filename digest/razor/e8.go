package razor

import (
	"bytes"
	"crypto/sha1"
	"slices"
	"strconv"
	"strings"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// engine8 is the signature of a host in a part whose V8 text has size bytes: 48
// bits of the host, 16 of the size class. Source: docs/specs/razor2.md#link-signature.
func engine8(host string, size int) bulkhead.Signature {
	h := sha1.Sum([]byte(host))
	d := sha1.Sum(strconv.AppendInt(nil, int64(size-size%100), 10))
	return bulkhead.MustSignature(bulkhead.RazorE8, append(h[:6:6], d[:2]...))
}

// Host returns the first six bytes of the engine-8 signatures of a host as
// the client writes it (lower case, shortened). They are the same for every
// size of mail, so a signature can be recognised by them.
func Host(host string) [6]byte {
	h := sha1.Sum([]byte(host))
	return [6]byte(h[:6])
}

// hostsOf returns the hosts of a text in the order in which the client asks
// for them: docs/specs/razor2.md#hosts. It uses the memory of room.
func hostsOf(v8, room []byte) []string {
	text := unescape(v8, room)
	rest, href, ok := firstURL(text)
	if !ok {
		return nil
	}
	hosts := bareLinks(text)
	seen := make(map[string]bool, len(hosts))
	for _, h := range hosts {
		seen[h] = true
	}
	host := takeHost(rest, href)
	// Behind the first URL only the last line counts.
	if i := bytes.LastIndexByte(bytes.TrimSuffix(rest, []byte{'\n'}), '\n'); i >= 0 {
		rest = rest[i+1:]
	}
	for host != "" && host != "0" {
		if strings.Trim(host, "0123456789.") != "" {
			host = Shorten(host)
		}
		if len(host) > 1 && strings.Contains(host, ".") && !seen[host] {
			seen[host] = true
			hosts = append(hosts, host)
		}
		_, next, ok := bytes.Cut(rest, []byte("http://"))
		if !ok {
			break
		}
		rest = next
		host = takeHost(rest, false)
	}
	return hosts
}

// unescape resolves %XX and then decimal references of two or three digits. If anything changes,
// the result lies in the memory of room.
func unescape(b, room []byte) []byte {
	b, changed := replace(b, room, '%', func(b []byte) ([]byte, int) {
		if len(b) > 2 {
			hi, ok1 := scan.Hex(b[1])
			lo, ok2 := scan.Hex(b[2])
			if ok1 && ok2 {
				return []byte{hi<<4 | lo}, 3
			}
		}
		return nil, 0
	})
	if changed {
		room = b[:0] // no meaning is longer than what it replaces
	}
	b, _ = replace(b, room, '&', reference)
	return b
}

// replace replaces what begins with mark by what it means; a meaning of no length leaves mark as
// it is. If anything changes, the result lies in the memory of room, which may be the memory of
// b; changed reports whether anything did.
func replace(b, room []byte, mark byte, meaning func([]byte) ([]byte, int)) (text []byte, changed bool) {
	var out []byte
	known := 0 // what of b is in out
	for at := 0; ; {
		i := bytes.IndexByte(b[at:], mark)
		if i < 0 {
			break
		}
		at += i
		char, n := meaning(b[at:])
		if n == 0 {
			at++
			continue
		}
		if !changed {
			out, changed = slices.Grow(room[:0], len(b)), true
		}
		out = append(append(out, b[known:at]...), char...)
		at += n
		known = at
	}
	if !changed {
		return b, false
	}
	return append(out, b[known:]...), true
}

// reference returns the character of the reference at the start of b, as
// the bytes it stands for, and its length, 0 if there is none.
func reference(b []byte) ([]byte, int) {
	if len(b) < 5 || b[0] != '&' || b[1] != '#' {
		return nil, 0
	}
	n, i := 0, 2
	for i < len(b) && i < 5 && b[i] >= '0' && b[i] <= '9' {
		n = n*10 + int(b[i]-'0')
		i++
	}
	if i < 4 || i >= len(b) || b[i] != ';' {
		return nil, 0
	}
	if n < 256 {
		return []byte{byte(n)}, i + 1
	}
	return []byte(string(rune(n))), i + 1
}

// bareLinks returns every "www" link that blanks precede, as written.
func bareLinks(b []byte) []string {
	var links []string
	for i := 1; i+3 < len(b); {
		// Each "www" has a letter at every third place.
		third := i + 2
		for third < len(b) && b[third]|0x20 != 'w' {
			third += 3
		}
		if third >= len(b) {
			break
		}
		for i = third - 2; i < third && b[i]|0x20 != 'w'; {
			i++
		}
		if !isBlank(b[i-1]) || !scan.HasPrefixFold(b[i:], "www") || i+3 >= len(b) || b[i+3] == '\n' {
			i++
			continue
		}
		end := i + 4
		for end < len(b) && bytes.IndexByte([]byte(" />\"<\r\n"), b[end]) < 0 {
			end++
		}
		if end == i+4 {
			i++
			continue
		}
		links = append(links, string(b[i:end]))
		i = end // the blank that ends this link may precede the next one
	}
	return links
}

// firstURL returns what follows the "http:/" or "https:/" of the first URL, and a further
// slash, and whether the URL stood in an href. If any does, it is the first that does.
func firstURL(b []byte) (rest []byte, href, ok bool) {
	for at := 0; ; {
		n := bytes.IndexByte(b[at:], ':')
		if n < 0 {
			return rest, false, ok
		}
		colon := at + n
		at = colon + 1
		start := schemeBefore(b, colon)
		if start < 0 {
			continue
		}
		at++
		if at < len(b) && b[at] == '/' {
			at++
		}
		if inHref(b[:start]) {
			return b[at:], true, true
		}
		if !ok {
			rest, ok = b[at:], true
		}
	}
}

// schemeBefore returns where the scheme of the URL begins that has the colon, -1 if it is
// that of none.
func schemeBefore(b []byte, colon int) int {
	if colon+1 >= len(b) || b[colon+1] != '/' {
		return -1
	}
	for _, scheme := range [...]string{"http", "https"} {
		if start := colon - len(scheme); start >= 0 && scan.HasPrefixFold(b[start:], scheme) {
			return start
		}
	}
	return -1
}

// inHref reports whether b ends in href, an equals sign, and perhaps blanks and a quote.
func inHref(b []byte) bool {
	b = trimBlanks(bytes.TrimSuffix(b, []byte{'"'}))
	if !bytes.HasSuffix(b, []byte{'='}) {
		return false
	}
	b = trimBlanks(b[:len(b)-1])
	return len(b) >= len("href") && scan.HasPrefixFold(b[len(b)-len("href"):], "href")
}

// trimBlanks returns b without the blanks at its end.
func trimBlanks(b []byte) []byte {
	for len(b) > 0 && isBlank(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

func skipBlanks(b []byte, i int) int {
	for i < len(b) && isBlank(b[i]) {
		i++
	}
	return i
}

// takeHost reads a host from the start of rest: docs/specs/razor2.md#hosts, step 4.
func takeHost(rest []byte, href bool) string {
	stop := ">\"/?<\r\n"
	if href {
		stop = ">\"/?<"
	}
	if i := bytes.IndexAny(rest, stop); i >= 0 {
		rest = rest[:i]
	}
	if i := bytes.IndexByte(rest, '@'); i >= 0 {
		rest = rest[i+1:]
	}
	rest = dropAssignment(rest)
	if i := bytes.IndexFunc(rest, func(r rune) bool { return r < 0x80 && isBlank(byte(r)) }); i >= 0 {
		rest = rest[:i]
	}
	host := make([]byte, 0, len(rest))
	for _, c := range rest {
		if c == ':' {
			break
		}
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != '=' {
			host = append(host, c)
		}
	}
	return string(bytes.TrimSuffix(host, []byte{'.'}))
}

// dropAssignment removes the first run of non-blanks that ends in "=", up to
// the last "=" of its word.
func dropAssignment(b []byte) []byte {
	if bytes.IndexByte(b, '=') < 0 {
		return b
	}
	for i := 0; i < len(b); {
		i = skipBlanks(b, i)
		end := i
		for end < len(b) && !isBlank(b[end]) {
			end++
		}
		if eq := bytes.LastIndexByte(b[i:end], '='); eq > 0 {
			return append(append([]byte(nil), b[:i]...), b[i+eq+1:]...)
		}
		i = end
	}
	return b
}
