package pyzor

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bulkhead-mail/bulkhead/internal/pace"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// maxDepth bounds how deep mails and multiparts may lie within each other;
// the client itself breaks a little deeper.
const maxDepth = 100

// maxParts bounds the parts of a mail. One of more has no digest.
const maxParts = 10_000

// maxValue bounds a field that describes a part, in bytes. A mail with a longer one has no digest.
const maxValue = 64 << 10

// A node is one node of the MIME tree as the client's MIME library reads it.
type node struct {
	header      []headerField
	defaultType string // of a part without Content-Type
	children    []*node
	container   bool // has children, even if there are none
	body        []byte

	// Of a leaf, once it is read:
	isText, isPage bool
	codec          string // of its characters, "" before
}

type headerField struct{ name, value string }

// get returns the first field of a name, with bytes that are not ASCII replaced.
func (p *node) get(name string) (string, bool) {
	for _, f := range p.header {
		if strings.EqualFold(f.name, name) {
			return f.value, true
		}
	}
	return "", false
}

// contentType returns type and subtype, in lower case.
func (p *node) contentType() (string, string) {
	value, ok := p.get("content-type")
	if !ok {
		value = p.defaultType
	}
	value, _, _ = strings.Cut(value, ";")
	value = lowerASCII(trimSpace(value))
	if strings.Count(value, "/") != 1 {
		value = "text/plain"
	}
	main, sub, _ := strings.Cut(value, "/")
	return main, sub
}

// lowerASCII lowers ASCII; nothing else can be in a header that matters.
func lowerASCII(s string) string {
	i := 0
	for i < len(s) && s[i] < utf8.RuneSelf && (s[i] < 'A' || s[i] > 'Z') {
		i++
	}
	if i == len(s) {
		return s // as most are
	}
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

func trimSpace(s string) string { return strings.TrimFunc(s, isSpace) }

// A reader reads a mail line by line. A line that one of the stops matches
// ends the input for whoever reads, until the stop is taken away.
type reader struct {
	raw      []byte
	pace     *pace.Pace
	pos      int      // where the next line starts
	last     []byte   // the line that was read last
	pending  [][]byte // lines put back, the next one last
	stops    [][]byte // boundaries, with the dashes before them
	blanks   int      // how often a blank line ends the input too
	parts    int      // that were begun
	nodes    []node   // memory of the next ones
	leaves   []*node
	at       int    // see decodeLines
	body     []byte // decoded, of the part bodyOf
	bodyOf   *node
	charsOf  *node // the page whose characters there are
	unquoted unquoter
	bad      bool // the client stops with an error, or ours at too many parts
	*space
}

// stop reports whether a line ends the input. Multiparts may lie a hundred deep, and most lines
// are the boundary of none of them.
func (r *reader) stop(line []byte) bool {
	if isBlankLine(line) {
		return r.blanks > 0
	}
	return line[0] == '-' && slices.ContainsFunc(r.stops, func(dashes []byte) bool {
		found, _ := isBoundary(line, dashes)
		return found
	})
}

// lineAt returns the line that starts at b[0], with its end: LF, CR or CR LF.
func lineAt(b []byte) []byte {
	_, next := scan.FirstLine(b)
	return b[:next]
}

// line returns the next line with its end, nil at the end of the input.
func (r *reader) line() []byte {
	n := len(r.pending)
	var line []byte
	switch {
	case n > 0:
		line = r.pending[n-1]
	case r.pos < len(r.raw):
		line = lineAt(r.raw[r.pos:])
	default:
		return nil
	}
	if r.stop(line) || r.pace.Over(len(line)) {
		return nil
	}
	if n > 0 {
		r.pending = r.pending[:n-1]
	} else {
		r.pos += len(line)
	}
	r.last = line
	return line
}

// unread puts the line that was read last back.
func (r *reader) unread() { r.pending = append(r.pending, r.last) }

// rest returns all lines up to the end of the input, joined. Unless lines had
// been put back they lie in the mail as they are.
func (r *reader) rest() []byte {
	var all []byte
	for len(r.pending) > 0 {
		line := r.line()
		if line == nil {
			return all
		}
		all = append(all, line...)
	}
	start := r.pos
	for found := true; found; {
		if r.blanks == 0 {
			// Nothing but a boundary ends the input.
			n := r.nextDash() - r.pos
			if r.pace.Over(n) {
				break
			}
			r.pos += n
		}
		found = r.line() != nil
	}
	if all == nil {
		return r.raw[start:r.pos]
	}
	return append(all, r.raw[start:r.pos]...)
}

// nextDash returns where the next line begins that starts with a dash, if there are boundaries,
// else the end of the mail.
func (r *reader) nextDash() int {
	for at := r.pos; len(r.stops) > 0 && at < len(r.raw); at++ {
		n := bytes.IndexByte(r.raw[at:], '-')
		if n < 0 {
			break
		}
		if at += n; at == r.pos || r.raw[at-1] == '\n' || r.raw[at-1] == '\r' {
			return at
		}
	}
	return len(r.raw)
}

func isBlankLine(line []byte) bool { return line[0] == '\n' || line[0] == '\r' }

func trimEOL(b []byte) []byte {
	switch {
	case bytes.HasSuffix(b, []byte("\r\n")):
		return b[:len(b)-2]
	case bytes.HasSuffix(b, []byte("\n")), bytes.HasSuffix(b, []byte("\r")):
		return b[:len(b)-1]
	}
	return b
}

// parse reads one part: header, then what its type says.
func (r *reader) parse(defaultType string, depth int) *node {
	if len(r.nodes) == cap(r.nodes) {
		r.nodes = make([]node, 0, min(1+2*cap(r.nodes), 64))
	}
	r.nodes = append(r.nodes, node{defaultType: defaultType})
	p := &r.nodes[len(r.nodes)-1]
	if r.parts++; r.parts > maxParts || r.pace.Over(1) {
		r.bad = true
		return p
	}
	r.readHeader(p)
	main, sub := p.contentType()
	switch {
	case depth >= maxDepth:
		p.body = r.rest()
	case main == "message" && sub == "delivery-status":
		r.parseStatus(p, depth)
	case main == "message":
		p.container = true
		p.children = append(p.children, r.parse("text/plain", depth+1))
	case main == "multipart":
		r.parseMultipart(p, sub, depth)
	default:
		p.body = r.rest()
	}
	return p
}

// parseStatus reads blocks of headers that blank lines separate.
func (r *reader) parseStatus(p *node, depth int) {
	p.container = true
	for {
		r.blanks++
		p.children = append(p.children, r.parse("text/plain", depth+1))
		r.blanks--
		if r.bad {
			return
		}
		r.line() // the blank line
		if r.line() == nil {
			return
		}
		r.unread()
	}
}

func (r *reader) parseMultipart(p *node, sub string, depth int) {
	boundary, ok := p.boundary(r)
	if !ok {
		p.body = r.rest()
		return
	}
	dashes := []byte("--" + boundary)
	childType := "text/plain"
	if sub == "digest" {
		childType = "message/rfc822"
	}
	var preamble []byte // as long as no part has begun, which is all it is needed for
	start, inPlace := r.pos, len(r.pending) == 0
	for {
		line := r.line()
		if line == nil {
			break
		}
		found, end := isBoundary(line, dashes)
		if found && end {
			r.finishMultipart(p, preamble)
			r.rest() // the epilogue
			return
		}
		switch {
		case found:
		case inPlace && !p.container:
			preamble = r.raw[start:r.pos]
			continue
		default:
			if !p.container {
				preamble = append(preamble, line...)
			}
			continue
		}
		p.container = true
		// Several boundary lines in a row are one.
		for line = r.line(); line != nil; line = r.line() {
			if found, _ := isBoundary(line, dashes); !found {
				break
			}
		}
		if line != nil {
			r.unread()
		}
		r.stops = append(r.stops, dashes)
		child := r.parse(childType, depth+1)
		r.stops = r.stops[:len(r.stops)-1]
		if r.bad {
			return
		}
		// The line end before a boundary belongs to the boundary.
		if last := lastLeaf(child); last != nil {
			last.body = trimEOL(last.body)
		}
		p.children = append(p.children, child)
	}
	r.finishMultipart(p, preamble)
}

// finishMultipart makes a multipart in which no part began a leaf.
func (r *reader) finishMultipart(p *node, preamble []byte) {
	if !p.container {
		p.body = preamble
	}
}

// lastLeaf returns the leaf within p whose last line end belongs to the boundary
// that follows: none if a multipart was finished last.
func lastLeaf(p *node) *node {
	for {
		if main, _ := p.contentType(); main == "multipart" {
			return nil
		}
		if !p.container {
			return p
		}
		p = p.children[len(p.children)-1]
	}
}

// isBoundary reports whether a line is a boundary, given with the dashes before it, and whether it is the
// last one.
func isBoundary(line, dashes []byte) (found, end bool) {
	rest, ok := bytes.CutPrefix(line, dashes)
	if !ok {
		return false, false
	}
	if after, ok := bytes.CutPrefix(rest, []byte("--")); ok {
		rest, end = after, true
	}
	rest = bytes.TrimLeft(rest, " \t")
	if len(trimEOL(rest)) > 0 {
		return false, false
	}
	return true, end
}

// neededFields are the fields that are kept of a header.
var neededFields = [...]string{"content-type", "content-transfer-encoding"}

// needs reports whether a field is kept: the first of its name.
func (p *node) needs(name []byte) bool {
	for _, needed := range neededFields {
		if len(name) == len(needed) && strings.EqualFold(string(name), needed) {
			_, there := p.get(needed)
			return !there
		}
	}
	return false
}

// readHeader reads header lines up to the blank line, or to the first line that
// is none.
func (r *reader) readHeader(p *node) {
	var name string
	var value, last []byte
	store := func() {
		if name != "" {
			p.header = append(p.header, headerField{name, onlyASCII(bytes.TrimRight(value, "\r\n"))})
		}
		name, value = "", nil
	}
	lines := 0
	for line := r.line(); line != nil; line = r.line() {
		if !isHeaderLine(line) {
			if !isBlankLine(line) {
				r.unread()
			}
			break
		}
		lines++
		last = line
		if line[0] == ' ' || line[0] == '\t' {
			if name != "" {
				value = append(value, line...)
			}
			if len(value) > maxValue {
				r.bad = true
				return
			}
			continue
		}
		store()
		if bytes.HasPrefix(line, []byte("From ")) {
			continue
		}
		colon := bytes.IndexByte(line, ':')
		if !p.needs(line[:colon]) {
			continue
		}
		if len(line) > maxValue {
			r.bad = true
			return
		}
		name = string(line[:colon])
		value = append([]byte(nil), bytes.TrimLeft(line[colon+1:], " \t")...)
	}
	store()
	// Such a line at the end begins the body.
	if lines > 1 && bytes.HasPrefix(last, []byte("From ")) {
		r.pending = append(r.pending, last)
	}
}

func isHeaderLine(line []byte) bool {
	if line[0] == ' ' || line[0] == '\t' || bytes.HasPrefix(line, []byte("From ")) {
		return true
	}
	for _, c := range line {
		if c == ':' {
			return true
		}
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return false
}

// onlyASCII replaces every byte that is not ASCII by U+FFFD.
func onlyASCII(b []byte) string {
	var s strings.Builder
	for _, c := range b {
		if c < 0x80 {
			s.WriteByte(c)
		} else {
			s.WriteRune('\uFFFD')
		}
	}
	return s.String()
}
