package razor

import (
	"bytes"
	"crypto/sha1"
	"strconv"
	"strings"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/signature/internal/scan"
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
// for them: docs/specs/razor2.md#hosts.
func hostsOf(v8 []byte) []string {
	text := unescape(v8)
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

// unescape resolves %XX and then decimal references of two or three digits.
func unescape(b []byte) []byte {
	if bytes.IndexByte(b, '%') >= 0 {
		b = replace(b, '%', func(b []byte) ([]byte, int) {
			if len(b) > 2 {
				hi, ok1 := scan.Hex(b[1])
				lo, ok2 := scan.Hex(b[2])
				if ok1 && ok2 {
					return []byte{hi<<4 | lo}, 3
				}
			}
			return nil, 0
		})
	}
	if bytes.IndexByte(b, '&') >= 0 {
		b = replace(b, '&', reference)
	}
	return b
}

// replace replaces what begins with mark by what it means; a meaning of no
// length leaves mark as it is.
func replace(b []byte, mark byte, meaning func([]byte) ([]byte, int)) []byte {
	out := make([]byte, 0, len(b))
	for {
		i := bytes.IndexByte(b, mark)
		if i < 0 {
			return append(out, b...)
		}
		out = append(out, b[:i]...)
		b = b[i:]
		if char, n := meaning(b); n > 0 {
			out = append(out, char...)
			b = b[n:]
		} else {
			out = append(out, mark)
			b = b[1:]
		}
	}
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
	for i := 1; i < len(b); i++ {
		if b[i]|0x20 != 'w' || !isBlank(b[i-1]) || !scan.HasPrefixFold(b[i:], "www") || i+3 >= len(b) || b[i+3] == '\n' {
			continue
		}
		end := i + 4
		for end < len(b) && bytes.IndexByte([]byte(" />\"<\r\n"), b[end]) < 0 {
			end++
		}
		if end == i+4 {
			continue
		}
		links = append(links, string(b[i:end]))
		i = end - 1 // the blank that ends this link may precede the next one
	}
	return links
}

// firstURL returns what follows the first URL's "http://", and whether the
// URL stood in an href.
func firstURL(b []byte) (rest []byte, href, ok bool) {
	plain := 0 // behind the first "http://" that no href needs
	for i := range b {
		if b[i]|0x20 != 'h' {
			continue
		}
		if plain == 0 {
			if n := schemeLen(b[i:]); n > 0 {
				plain = i + n
			}
		}
		if !scan.HasPrefixFold(b[i:], "href") {
			continue
		}
		j := skipBlanks(b, i+4)
		if j >= len(b) || b[j] != '=' {
			continue
		}
		j = skipBlanks(b, j+1)
		if j < len(b) && b[j] == '"' {
			j++
		}
		if n := schemeLen(b[j:]); n > 0 {
			return b[j+n:], true, true
		}
	}
	if plain > 0 {
		return b[plain:], false, true
	}
	return nil, false, false
}

func skipBlanks(b []byte, i int) int {
	for i < len(b) && isBlank(b[i]) {
		i++
	}
	return i
}

// schemeLen returns the length of the "http:/", "https:/" or the same with two
// slashes, at the start of b, or 0.
func schemeLen(b []byte) int {
	n := 0
	switch {
	case len(b) < 2 || b[1]|0x20 != 't':
		return 0
	case scan.HasPrefixFold(b, "http:/"):
		n = 6
	case scan.HasPrefixFold(b, "https:/"):
		n = 7
	default:
		return 0
	}
	if n < len(b) && b[n] == '/' {
		n++
	}
	return n
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
