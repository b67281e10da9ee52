package markup

import (
	"slices"
	"strings"

	"golang.org/x/net/html"

	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// A Kind is what a token is.
type Kind uint8

// The kinds of tokens.
const (
	Text Kind = iota
	Start
	SelfClosing // a start tag that ends in "/>"
	End
	Other // a comment, a document type, an instruction
)

// Tokens reads the tokens of a source. The zero Tokens has none; [Over] makes others.
//
// Source: WHATWG HTML, tokenization, without CDATA sections.
type Tokens struct {
	source string
	max    int

	start, end int    // of the present token
	limit      int    // of what of it may be read
	name       int    // where the name of a tag ends
	short      uint64 // see ShortName
	kind       Kind
	raw        string // element whose content is text up to its end tag, "" outside of one
	verbatim   bool   // the token is text of such an element
	references bool   // and has character references none the less
	state      state

	written [maxWritten]written // of the first attributes of a tag
	count   int                 // of all of them
}

// maxWritten is how many attributes of a tag are noted as it is read.
const maxWritten = 16

// A written is where an attribute stands in the source.
type written struct{ key, keyEnd, value, valueEnd int32 }

// A state is why there are no more tokens.
type state uint8

const (
	reading state = iota
	atEnd         // of the source
	beyond        // what is allowed for a token
)

// Over returns the tokens of source. It ends at a token of max bytes or more; what it has
// read of one that may be cut, which is text or a comment, it still returns.
func Over(source string, max int) Tokens { return Tokens{source: source, max: max} }

// Kind returns what the present token is.
func (t *Tokens) Kind() Kind { return t.kind }

// Raw returns the source of the present token. The sources of all tokens together are the
// whole source, up to where Next returns false.
func (t *Tokens) Raw() string { return t.source[t.start:t.end] }

// TooLong reports whether the tokens have ended at one that is too long.
func (t *Tokens) TooLong() bool { return t.state == beyond }

// NotRaw makes the reader expect mark-up behind the start tag of an element such as noscript, instead of
// text alone.
func (t *Tokens) NotRaw() { t.raw = "" }

// Name returns the name of a tag as it is written.
func (t *Tokens) Name() string {
	at := t.start + 1
	if t.kind == End {
		at++
	}
	return t.source[at:t.name]
}

// ShortName returns the bytes of the name of a tag in lower case, the last one the lowest, and 0 for a name
// of more than eight.
func (t *Tokens) ShortName() uint64 { return t.short }

// AppendName appends the name of a tag, in lower case.
func (t *Tokens) AppendName(dst []byte) []byte {
	for _, c := range []byte(t.Name()) {
		switch {
		case 'A' <= c && c <= 'Z':
			dst = append(dst, c|0x20)
		case c == 0:
			dst = append(dst, "\uFFFD"...)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// Text returns what a token of text stands for, line ends as they are in the source.
func (t *Tokens) Text() string {
	text := t.Raw()
	if t.verbatim && strings.IndexByte(text, 0) >= 0 {
		text = strings.ReplaceAll(text, "\x00", "\uFFFD")
	}
	if !t.verbatim || t.references {
		text = html.UnescapeString(text)
	}
	return text
}

// AppendText appends what [Tokens.Text] returns.
func (t *Tokens) AppendText(dst []byte) []byte {
	if t.verbatim {
		return append(dst, t.Text()...)
	}
	return AppendUnescaped(dst, t.Raw())
}

// Verbatim reports whether a token of text is the content of an element such as script.
func (t *Tokens) Verbatim() bool { return t.verbatim }

// stop ends the tokens where the next byte cannot be read.
func (t *Tokens) stop() {
	if t.limit == len(t.source) {
		t.end, t.state = t.limit, atEnd
	} else {
		t.end, t.state = t.limit+1, beyond
	}
}

// Next goes on to the next token. It reports false if there is none.
func (t *Tokens) Next() bool {
	t.start = t.end
	if t.state != reading {
		return false
	}
	t.limit = len(t.source)
	if t.max > 0 && t.limit-t.start >= t.max {
		t.limit = t.start + t.max - 1
	}
	t.kind, t.verbatim = Text, false
	if t.raw != "" {
		t.readRaw()
		if t.end > t.start {
			t.verbatim = true
			return true
		}
	}
	for at := t.start; ; {
		n := 0
		if at == t.limit || t.source[at] != '<' { // most tags have no text between them
			n = strings.IndexByte(t.source[at:t.limit], '<')
		}
		if n < 0 || at+n+1 >= t.limit {
			t.stop()
			return t.end > t.start
		}
		at += n
		switch c := t.source[at+1]; {
		case scan.IsLetter(c):
			t.kind = Start
		case c == '/':
			t.kind = End
		case c == '!' || c == '?':
			t.kind = Other
		default:
			at++
			continue
		}
		if at > t.start {
			t.kind, t.end = Text, at
			return true
		}
		return t.markup()
	}
}

// markup reads the token that begins with "<" and the byte that determines its kind.
func (t *Tokens) markup() bool {
	at := t.start + 2
	switch t.kind {
	case Start:
		if !t.tag(t.start + 1) {
			return false
		}
		t.raw = rawElement(t.source[t.start+1 : t.name])
		if t.source[t.end-2] == '/' && t.selfClosing() {
			t.kind = SelfClosing
		}
	case End:
		switch {
		case at >= t.limit:
			t.kind = Text
			t.stop()
		case scan.IsLetter(t.source[at]):
			return t.tag(at)
		default:
			t.kind = Other
			t.through(at, '>')
		}
	case Other:
		if t.source[at-1] == '!' && strings.HasPrefix(t.source[at:t.limit], "--") {
			t.comment(at + 2)
		} else {
			t.through(at, '>')
		}
	}
	return true
}

// through takes the token up to the first c from at on.
func (t *Tokens) through(at int, c byte) {
	if n := strings.IndexByte(t.source[at:t.limit], c); n >= 0 {
		t.end = at + n + 1
	} else {
		t.stop()
	}
}

// comment takes the token up to the end of the comment whose content begins at.
func (t *Tokens) comment(at int) {
	dashes, beginning := 0, true
	for ; at < t.limit; at++ {
		switch c := t.source[at]; {
		case c == '-':
			dashes++
			continue
		case c == '>' && (dashes >= 2 || beginning):
			t.end = at + 1
			return
		case c == '!' && dashes >= 2:
			if at++; at >= t.limit {
				t.stop()
				return
			}
			if t.source[at] == '>' {
				t.end = at + 1
				return
			}
			if t.source[at] == '-' {
				dashes, beginning = 1, false
				continue
			}
		}
		dashes, beginning = 0, false
		// Without a dash nothing ends it.
		n := strings.IndexByte(t.source[at+1:t.limit], '-')
		if n < 0 {
			break
		}
		at += n
	}
	t.stop()
}

// Classes of ASCII characters in a tag.
const (
	blank    = 1 << iota
	endsName // of a tag
	endsKey  // of an attribute
)

var classes = func() (table [256]uint8) {
	for _, c := range []byte(" \n\r\t\f") {
		table[c] = blank | endsName | endsKey
	}
	table['/'], table['>'], table['='] = endsName|endsKey, endsName|endsKey, endsKey
	return table
}()

// tag takes the tag whose name begins at, and reports whether it ends.
func (t *Tokens) tag(at int) bool {
	source := t.source[:t.limit]
	start, short := at, uint64(0)
	for at < len(source) && classes[source[at]]&endsName == 0 {
		c := source[at]
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		short = short<<8 | uint64(c)
		at++
	}
	if at-start > 8 {
		short = 0
	}
	t.name, t.short, t.count = at, short, 0
	for at < len(source) {
		switch c := source[at]; {
		case c == '>':
			t.end = at + 1
			return true
		case classes[c]&blank != 0:
			at++
		default:
			next, key, value, end := attribute(source, at)
			if key > at {
				if t.count < len(t.written) {
					t.written[t.count] = written{int32(at), int32(key), int32(value), int32(end)}
				}
				t.count++
			}
			at = next
		}
	}
	t.stop()
	return false
}

// attribute reads what begins at, which is neither a blank nor the end of the tag: an
// attribute or a slash. It returns where that ends, beyond the source if it does not, where the key
// ends, and the piece of the source that is the value.
func attribute(source string, at int) (next, key, value, end int) {
	if source[at] == '=' {
		at++
	}
	for at < len(source) && classes[source[at]]&endsKey == 0 {
		at++
	}
	key = at
	if at < len(source) && source[at] != '=' {
		at = skipBlanks(source, at)
	}
	switch {
	case at >= len(source):
		return at, key, key, key
	case source[at] == '/':
		return at + 1, key, key, key
	case source[at] != '=':
		return at, key, key, key
	}
	if at = skipBlanks(source, at+1); at >= len(source) || source[at] == '>' {
		return at, key, key, key
	}
	if quote := source[at]; quote == '"' || quote == '\'' {
		n := strings.IndexByte(source[at+1:], quote)
		if n < 0 {
			return len(source), key, key, key
		}
		return at + n + 2, key, at + 1, at + 1 + n
	}
	value = at
	for at < len(source) && source[at] != '>' && classes[source[at]]&blank == 0 {
		at++
	}
	return at, key, value, at
}

func skipBlanks(source string, at int) int {
	for at < len(source) && classes[source[at]]&blank != 0 {
		at++
	}
	return at
}

// selfClosing reports whether the slash before the end of the tag belongs to no value.
func (t *Tokens) selfClosing() bool {
	last := -1 // where the value of the last attribute ends, repeated ones excepted
	t.eachAttribute(func(_ string, value [2]int) bool {
		last = value[1]
		return true
	})
	return last != t.end-1
}

// eachAttribute calls visit with the attributes of a start tag, the name in lower case
// and where the value stands in the source, until it returns false. Of those that are
// repeated only the first counts.
func (t *Tokens) eachAttribute(visit func(key string, value [2]int) bool) {
	var first [maxWritten]string
	keys := first[:0]
	if n, ok := t.Written(); ok {
		for _, w := range t.written[:n] {
			key := lower(t.source[w.key:w.keyEnd])
			if slices.Contains(keys, key) {
				continue
			}
			if keys = append(keys, key); !visit(key, [2]int{int(w.value), int(w.valueEnd)}) {
				return
			}
		}
		return
	}
	known := make(map[string]bool, 2*maxWritten)
	source := t.source[:t.end]
	for at := t.name; at < t.end-1; {
		if classes[source[at]]&blank != 0 {
			at++
			continue
		}
		begin := at
		next, keyEnd, value, end := attribute(source, at)
		at = next
		key := lower(source[begin:keyEnd])
		if keyEnd == begin || known[key] {
			continue
		}
		if known[key] = true; !visit(key, [2]int{value, end}) {
			return
		}
	}
}

// lower returns s with its ASCII letters in lower case.
func lower(s string) string {
	for i := range len(s) {
		if c := s[i]; 'A' <= c && c <= 'Z' {
			b := []byte(s)
			for ; i < len(b); i++ {
				if c := b[i]; 'A' <= c && c <= 'Z' {
					b[i] = c | 0x20
				}
			}
			return scan.String(b)
		}
	}
	return s
}

// Written returns how many attributes a start tag has, repeated ones too, if each can be had
// from [Tokens.Attribute].
func (t *Tokens) Written() (n int, ok bool) { return t.count, t.count <= len(t.written) }

// Attribute returns an attribute of a start tag as it is written, by its place among all.
func (t *Tokens) Attribute(i int) (key, value string) {
	w := &t.written[i]
	return t.source[w.key:w.keyEnd], t.source[w.value:w.valueEnd]
}

// Quoted reports whether the value of such an attribute stands between quotation marks.
func (t *Tokens) Quoted(i int) bool {
	w := &t.written[i]
	before := t.source[w.value-1]
	return w.value > w.keyEnd && (before == '"' || before == '\'')
}

// Attributes calls visit with the attributes of a start tag until it returns false: the
// name in lower case, and the value as written, which [Value] decodes. Of repeated
// attributes only the first counts.
func (t *Tokens) Attributes(visit func(key, value string) bool) {
	t.eachAttribute(func(key string, value [2]int) bool {
		if strings.IndexByte(key, 0) >= 0 {
			key = strings.ReplaceAll(key, "\x00", "\uFFFD")
		}
		return visit(key, t.source[value[0]:value[1]])
	})
}
