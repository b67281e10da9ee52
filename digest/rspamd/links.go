package rspamd

import (
	"bytes"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/publicsuffix"

	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// A span is the piece text[start:end] of a text.
type span struct{ start, end int }

// A linkFinder finds the links and addresses that rspamd cuts out of a text before it splits words.
//
// Source: docs/specs/rspamd-fuzzy.md#links.
type linkFinder struct {
	text  []byte
	lines []int32 // starts of the lines in text, without the first
	bare  bool    // host names without "www." and without a scheme are links

	line   int  // index in lines of the next line
	passed int  // links that end before it are skipped
	at     int  // index of the "@" of the last mailto link
	marks  memo // the next byte that ends the authority of a link
	stops  memo // the next byte that ends a link

	label  []byte // the label last looked up among top-level domains
	suffix bool   // label is a top-level domain
}

// A memo remembers the result of the last search for a class of bytes.
type memo struct{ from, next int }

// find returns the index of the first byte of class at or after from, or len(text). Calls with increasing indexes read
// each byte once.
func (m *memo) find(text []byte, from int, class byte) int {
	if from < m.from || from > m.next || m.next == 0 {
		m.from, m.next = from, from
		for m.next < len(text) && linkBytes[text[m.next]]&class == 0 {
			m.next++
		}
	}
	return m.next
}

// Classes of bytes in links.
const (
	inDomain  = 1 << iota
	inAddress // before "@"
	isMark    // ends an authority, or is "@" in it
	isStop    // ends a link
	opensLink // may stand before a link
	trigger   // a link may be found here
	isWhite
	inHost // not inDomain, but accepted in a host
)

var linkBytes = func() (table [256]byte) {
	for c := range table {
		if b := byte(c); isAlnum(b) || c >= 0x80 {
			table[c] = inDomain
		}
		if c < 0x80 && isAlnum(byte(c)) {
			table[c] |= inAddress
		}
	}
	for class, bytes := range map[byte]string{
		inDomain: "%-.\\^_", inAddress: "!\"#$%'*+,-./\\^_{|}~", isMark: "@/#?", isStop: ")}]>' \t\n\v\f\r",
		opensLink: "({[<'", trigger: ":@.", isWhite: " \t\n\v\f\r", inHost: "\"`|~",
	} {
		for _, c := range []byte(bytes) {
			table[c] |= class
		}
	}
	return table
}()

func is(c, class byte) bool { return linkBytes[c]&class != 0 }

// isEnd reports whether c ends a link and is not white space.
func isEnd(c byte) bool { return is(c, isStop) && !is(c, isWhite) }

// each calls visit for each piece of the text that looks like a link, with ok set if it is one, until visit
// returns false.
func (f *linkFinder) each(visit func(l span, ok bool) bool) {
	for i := linkTriggers.Index(f.text, 0); i < len(f.text); i = linkTriggers.Index(f.text, i+1) {
		switch f.text[i] {
		case '@':
			if l, ok := f.address(i); l.end > 0 && !visit(l, ok) {
				return
			}
		case ':':
			if l, ok := f.withScheme(i); l.end > 0 && !visit(l, ok) {
				return
			}
		default:
			if i >= 3 && i+1 >= f.passed && (hasSuffixFold(f.text[:i], "www") || hasSuffixFold(f.text[:i], "ftp")) {
				if l, ok := f.server(i - 3); l.end > 0 && !visit(l, ok) {
					return
				}
			}
			if f.bare {
				if l, ok := f.host(i); l.end > 0 && !visit(l, ok) {
					return
				}
			}
		}
	}
}

// linkTriggers are the bytes at which a link may be found.
var linkTriggers = scan.NewByteSet(":@.")

// around returns the start of the line with a match that ends at end, and the start of the next line; -1 for
// the first line and behind the last.
func (f *linkFinder) around(end int) (before, next int) {
	for f.line < len(f.lines)-1 && int(f.lines[f.line]) < end {
		f.line++
	}
	before, next = -1, -1
	if f.line > 0 {
		before = int(f.lines[f.line-1])
	}
	if f.line < len(f.lines) && int(f.lines[f.line]) >= end {
		next = int(f.lines[f.line])
	}
	return before, next
}

// before returns the byte before i, 0 at the start.
func (f *linkFinder) before(i int) byte {
	if i == 0 {
		return 0
	}
	return f.text[i-1]
}

// limit returns the text up to the greatest end of a link that begins at start: the next line, unless "<" precedes it.
func (f *linkFinder) limit(start, next int) []byte {
	if next >= 0 && f.before(start) != '<' {
		return f.text[:max(next, start)]
	}
	return f.text
}

// schemes are the schemes that rspamd looks for.
var schemes = [...]struct {
	name, slashes string // the text before and behind the colon
	kind          schemeKind
}{
	{"https", "", toWeb}, {"http", "", toWeb}, {"mailto", "", toAddress}, {"tel", "", toPhone},
	{"callto", "", toPhone}, {"sftp", "//", toNothing}, {"ftp", "//", toWeb},
	{"news", "//", toNothing}, {"nntp", "//", toNothing}, {"telnet", "//", toNothing}, {"webcal", "//", toNothing},
	{"sip", "", toNothing}, {"h323", "", toNothing},
}

// A schemeKind is the kind of resource of a scheme.
type schemeKind uint8

const (
	toWeb     schemeKind = iota
	toNothing            // read like toWeb, but no link
	toAddress
	toPhone
)

// withScheme returns the link whose scheme ends at the colon at i.
func (f *linkFinder) withScheme(i int) (l span, ok bool) {
	for _, scheme := range &schemes {
		end := i + 1 + len(scheme.slashes)
		if !hasSuffixFold(f.text[:i], scheme.name) || end > len(f.text) ||
			string(f.text[i+1:end]) != scheme.slashes || end < f.passed {
			continue
		}
		start := i - len(scheme.name)
		_, next := f.around(end)
		switch scheme.kind {
		case toPhone:
			return f.phone(start, f.limit(start, next))
		case toAddress:
			return f.mailto(start, f.limit(start, next))
		}
		if isAlnum(f.before(start)) {
			continue
		}
		l, host := f.web(start, next)
		return l, l.end > 0 && scheme.kind == toWeb && (f.isHost(host) || isNumeric(host))
	}
	return span{}, false
}

// server returns the link that begins at start with "www." or "ftp.".
func (f *linkFinder) server(start int) (l span, ok bool) {
	before, next := f.around(start + len("www."))
	if c := f.before(start); start > 0 && isAlnum(c) {
		return span{}, false
	} else if f.text[start]|0x20 == 'w' && start > 0 && start != before+1 && !is(c, opensLink|isWhite) && c < 0x80 {
		return span{}, false
	}
	l, host := f.web(start, next)
	return l, l.end > 0 && (f.isHost(host) || isNumeric(host))
}

// host returns the link whose host has its last point at i.
func (f *linkFinder) host(i int) (l span, ok bool) {
	const longest = 63
	end := i + 1
	for end < len(f.text) && end-i <= longest && (isAlnum(f.text[end]) || f.text[end] == '-' || f.text[end] >= 0x80) {
		end++
	}
	if end == i+1 || end < f.passed {
		return span{}, false
	}
	before, next := f.around(end)
	if !f.endsHost(end, next) || !f.isSuffix(f.text[i+1:end]) {
		return span{}, false
	}
	start, ok := f.hostStart(i, before)
	if !ok {
		return span{}, false
	}
	if end == len(f.text) {
		l = span{start, end}
		f.passed = max(f.passed, i)
		return l, f.isHost(f.text[start:end])
	}
	switch c := f.text[end]; {
	case c == '/' || c == ':' || isEnd(c) || is(c, isWhite) || f.before(start) != '<' && end == next:
	case c == '.' && end+1 < len(f.text) && (is(f.text[end+1], isWhite) || strings.IndexByte("/?:", f.text[end+1]) >= 0):
	default:
		return span{}, false
	}
	l, host := f.web(start, next)
	if l.end <= i {
		return span{}, false
	}
	return l, f.isHost(host) || isNumeric(host)
}

// endsHost reports whether a host without a scheme may end at end.
func (f *linkFinder) endsHost(end, next int) bool {
	ends := func(c byte) bool { return is(c, isStop) || c == '/' || c == '?' || c == ':' }
	if end == len(f.text) || end == next || ends(f.text[end]) {
		return true
	}
	return f.text[end] == '.' && (end+1 == len(f.text) || ends(f.text[end+1]))
}

// hostStart returns the start of the host with a point at i.
func (f *linkFinder) hostStart(i, before int) (start int, ok bool) {
	const longest = 253 + 9
	for p := i; p >= 0 && i-p <= longest; p-- {
		switch c := f.text[p]; {
		case p == before || !is(c, inDomain):
			if p != before {
				if !is(c, opensLink|isWhite) {
					return 0, false
				}
				p++
			}
			return p, isAlnum(f.text[p])
		case p == 0 && i > 0:
			return 0, true
		case c == '.' && (p == 0 || !isAlnum(f.text[p+1])):
			return 0, false
		}
	}
	return 0, false
}

// web returns the link to a web server that begins at start with a scheme or a host, and its host.
func (f *linkFinder) web(start, next int) (l span, host []byte) {
	text := f.limit(start, next)
	end, at, hostEnd := f.authority(text, start)
	if end < 0 {
		return l, nil
	}
	if end < len(text) && text[end] == '>' && end != next && f.before(start) != '<' &&
		(end+1 == len(f.text) || is(f.text[end+1], isWhite)) {
		return l, nil
	}
	f.passed = end + 1
	return span{start, end}, text[at:hostEnd]
}

// authority reads scheme, user, host and port of the link that begins at start. It returns the ends of the link and of
// its host, and the start of the host; a negative end means that there is no link.
func (f *linkFinder) authority(text []byte, start int) (end, host, hostEnd int) {
	host, user := f.scheme(text, start)
	if host >= 0 {
		host, hostEnd = userHost(text, host, user)
	}
	switch i := hostEnd; {
	case host < 0:
		return -1, 0, 0
	case i < len(text) && text[i] == ':':
		if end = portEnd(text, i+1); end < 0 {
			return -1, 0, 0
		}
	case i == len(text) || strings.IndexByte("/\\?#", text[i]) < 0:
		if !is(text[i-1], inDomain) {
			return -1, 0, 0
		}
		return i, host, hostEnd
	default:
		end = i
	}
	return min(f.stops.find(f.text, end, isStop), len(text)), host, hostEnd
}

// scheme returns the index behind the scheme and the slashes of the link that begins at i, or i without a scheme, and
// whether a user follows. The index is negative if no link begins so.
func (f *linkFinder) scheme(text []byte, i int) (end int, user bool) {
	isSlash := func(i int) bool { return i < len(text) && (text[i] == '/' || text[i] == '\\') }
	start := i
	for i < len(text) && (isAlnum(text[i]) || text[i] == '+' || text[i] == '-') {
		i++
	}
	switch {
	case i == len(text) || i == start && text[i] != ':':
		return -1, false
	case text[i] != ':':
		return start, false
	}
	if i++; isSlash(i) {
		if i++; !isSlash(i) {
			return -1, false
		}
		for isSlash(i) {
			i++
		}
	}
	mark := f.marks.find(f.text, i, isMark)
	return i, mark < len(text) && text[mark] == '@'
}

// userHost returns the start and the end of the host behind the user at start, if there is one; the
// start is negative if there is no host.
func userHost(text []byte, start int, user bool) (host, end int) {
	host = start
	if user {
		if host = behindUser(text, start); host < 0 {
			return -1, 0
		}
	}
	if host >= len(text) || !isAlnum(text[host]) && text[host] < 0x80 && text[host] != '%' && text[host] != '_' {
		return -1, 0
	}
	end = hostEnds(text, host)
	switch {
	case end < 0:
		return -1, 0
	case end < len(text) && !user && (text[end] == '@' || text[end] == ':' && !portEnds(text, end+1)):
		return userHost(text, start, true) // what looked like a host is a user
	}
	return host, end
}

// portEnd returns the end of the port at start, which must be a number of 16 bits, or -1.
func portEnd(text []byte, start int) int {
	i := start
	for i < len(text) && '0' <= text[i] && text[i] <= '9' {
		i++
	}
	if port, err := strconv.ParseUint(string(text[start:i]), 10, 16); err != nil || port == 0 {
		return -1
	}
	if i < len(text) && (!is(text[i], isStop|isMark) && text[i] != '\\' || text[i] == '@') {
		return -1
	}
	return i
}

// behindUser returns the start of the host behind the user, and perhaps a password, at start; -1 if no "@" ends
// them.
func behindUser(text []byte, start int) int {
	const longestUser, longestPassword = 64, 253
	graphic := func(i int) bool { return text[i] > ' ' && text[i] < 0x7f }
	i := start
	for ; i < len(text) && text[i] != '@' && text[i] != ':'; i++ {
		if !graphic(i) || i-start > longestUser {
			return -1
		}
	}
	if i == len(text) || text[i] == ':' && i == start {
		return -1
	}
	if text[i] == ':' {
		for i++; i < len(text) && text[i] != '@'; i++ {
			if !graphic(i) || i-start > longestUser+longestPassword {
				return -1
			}
		}
	}
	for i < len(text) && text[i] == '@' {
		i++
	}
	return i
}

// hostEnds returns the end of the host that begins at start, -1 if it is no host.
func hostEnds(text []byte, start int) int {
	const longest = 253
	for i := start; i < len(text); {
		c := text[i]
		switch {
		case i-start > longest:
			return -1
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRune(text[i:])
			if r == utf8.RuneError && n == 1 {
				return -1
			}
			if !unicode.IsGraphic(r) && !isZeroWidth(r) || unicode.IsSpace(r) {
				return i
			}
			i += n
		case c == '\\' || !is(c, inDomain|inHost):
			return i
		default:
			i++
		}
	}
	return len(text)
}

// portEnds reports whether the digits at i are a port.
func portEnds(text []byte, i int) bool {
	start := i
	for i < len(text) && '0' <= text[i] && text[i] <= '9' {
		i++
	}
	return i > start && (i == len(text) || text[i] != '@' && is(text[i], isStop|isMark))
}

// phone returns the telephone link whose scheme begins at start. Like rspamd, it takes everything up to the end of the
// line as the number.
func (f *linkFinder) phone(start int, text []byte) (l span, ok bool) {
	const longest = 64
	i := start + bytes.IndexByte(text[start:], ':') + 1
	for i < len(text) && (text[i] == '/' || is(text[i], isWhite)) {
		i++
	}
	if i < len(text) && text[i] == '+' {
		ok = true
		i++
	}
	if i >= len(text) || strings.IndexByte("%(0123456789", text[i]) < 0 {
		return l, false
	}
	for i < len(text) {
		if i-start > longest {
			return l, false
		}
		r, n := utf8.DecodeRune(text[i:])
		i += n
		ok = ok || unicode.IsDigit(r)
		if r == 0 || r == utf8.RuneError && n == 1 || r == '}' || r == '>' || r == '\'' {
			break
		}
	}
	f.passed = max(f.passed, start)
	return span{start, i}, ok
}

// mailto returns the link to an address whose scheme begins at start.
func (f *linkFinder) mailto(start int, text []byte) (l span, ok bool) {
	const longestUser, longest = 64, 64 + 253 + 1
	text = text[:min(len(text), start+longest+1)]
	i := start + bytes.IndexByte(text[start:], ':') + 1
	for i < len(text) && (text[i] == '/' || text[i] == '\\') {
		i++
	}
	user := i
	for i < len(text) && is(text[i], inAddress) && i-user <= longestUser {
		i++
	}
	if i == user || i == len(text) || text[i] != '@' {
		return l, false
	}
	f.at = i
	i++
	host := i
	for i < len(text) && is(text[i], inDomain) {
		i++
	}
	ok = f.isHost(text[host:i])
	if i < len(text) && text[i] == '?' {
		query := i + 1
		for i < len(text) && !is(text[i], isStop) && text[i] != '#' {
			i++
		}
		ok = ok && i > query
	}
	f.passed = max(f.passed, start)
	return span{start, i}, ok
}

// address returns the address around the "@" at i.
func (f *linkFinder) address(i int) (l span, ok bool) {
	const longestUser = 64
	text := f.text
	if i+1 < f.passed || i == 0 || i >= len(text)-2 || i == f.at || !isAlnum(text[i-1]) || !isAlnum(text[i+1]) {
		return l, false
	}
	before, next := f.around(i + 1)
	start := i - 1
	for start > 0 && is(text[start], inAddress) && start != before {
		start--
	}
	for !isAlnum(text[start]) {
		start++
	}
	end := i + 1
	for end < len(text) && is(text[end], inDomain) && end != next {
		end++
	}
	for end < len(text) && end != next && !isAlnum(text[end-1]) {
		end--
	}
	f.passed = max(f.passed, i)
	return span{start, end}, i-start <= longestUser && f.isHost(text[i+1:end])
}

// findLinks appends the links in text to links, in the order of their starts.
func findLinks(links []span, text []byte, lines []int32, bare bool) []span {
	f := linkFinder{text: text, lines: lines, bare: bare}
	f.each(func(l span, ok bool) bool {
		if ok {
			at := len(links)
			for links = append(links, l); at > 0 && links[at-1].start >= l.start; at-- {
				links[at] = links[at-1]
			}
			links[at] = l
		}
		return true
	})
	return links
}

// hasSuffixFold reports whether text ends in suffix, of lower-case letters and digits, in any case.
func hasSuffixFold(text []byte, suffix string) bool {
	return len(text) >= len(suffix) && scan.HasPrefixFold(text[len(text)-len(suffix):], suffix)
}

// isNumeric reports whether a host is an IP address: as it is usually written, or of up to four numbers.
func isNumeric(name []byte) bool {
	name, _ = unescaped(name)
	if len(name) == 0 || !isAlnum(name[0]) || scan.IsLetter(name[0]) {
		return false
	}
	if _, err := netip.ParseAddr(string(name)); err == nil {
		return true
	}
	numbers := strings.Split(string(bytes.TrimRight(name, ".")), ".")
	for _, number := range numbers {
		if _, err := strconv.ParseUint(number, 0, 63); err != nil {
			return false
		}
	}
	return len(numbers) <= 4
}

func isAlnum(c byte) bool { return scan.IsLetter(c) || '0' <= c && c <= '9' }

// isHost reports whether name is a name below a public suffix.
func isHost(name []byte) bool {
	var f linkFinder
	return f.isHost(name)
}

// isHost is the function isHost with the memory of f.
func (f *linkFinder) isHost(name []byte) bool {
	const longest = 255
	name, ok := unescaped(name)
	if !ok {
		return false
	}
	name = bytes.TrimSuffix(name, []byte("."))
	i := bytes.LastIndexByte(name, '.')
	return i >= 0 && len(name) <= longest && f.isSuffix(name[i+1:])
}

// unescaped returns a host without its escapes, or unchanged if one escape is invalid. It reports
// false if the result is not UTF-8.
func unescaped(host []byte) ([]byte, bool) {
	if bytes.IndexByte(host, '%') < 0 {
		return host, true
	}
	decoded, err := url.PathUnescape(string(host))
	if err != nil {
		return host, true
	}
	return []byte(decoded), utf8.ValidString(decoded)
}

// isSuffix reports whether label is a top-level domain.
func (f *linkFinder) isSuffix(label []byte) bool {
	if len(label) == 0 {
		return false
	}
	if !bytes.Equal(label, f.label) { // most links of a text have the same domain
		_, f.suffix = publicsuffix.PublicSuffix("x." + strings.ToLower(string(label)))
		f.label = label
	}
	return f.suffix
}
