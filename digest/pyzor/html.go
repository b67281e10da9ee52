package pyzor

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bulkhead-mail/bulkhead/internal/pace"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// stripHTML reduces HTML to its text as the client's parser sees it: runs of
// text, trimmed and joined by blanks, without those in script and style. It
// reports false where that parser breaks. It begins at the mark from. Source:
// docs/specs/pyzor.md#html-text.
func stripHTML(text []byte, l *liner, known *references, p *pace.Pace, from mark) bool {
	h := &stripper{in: text, out: l, known: known, pace: p}
	if from.end > 0 {
		h.data(int(from.at), int(from.end), from.references, true)
	}
	h.run(int(from.end))
	return !h.broken
}

// A stripper walks over HTML.
type stripper struct {
	in     []byte
	out    *liner
	known  *references
	pace   *pace.Pace
	raw    string // "script" or "style" within one, else ""
	hidden bool   // text is dropped
	broken bool
}

// A textRun passes a run of text on without the white space at its ends. White space in between becomes one blank, or
// one line end if it has a line end in it.
type textRun struct {
	in         []byte // the text that the run is in
	end        int    // of the run
	references bool   // the run has character references

	out   *liner
	begun bool
	blank rune // waits for what follows; 0 for none
}

func (r *textRun) put(c rune) {
	if isSpace(c) {
		if isLineEnd(c) {
			r.blank = '\n'
		} else if r.blank == 0 {
			r.blank = ' '
		}
		return
	}
	r.begin()
	r.out.put(c)
}

// begin passes on the blank that waits, and reports whether it ended a line.
func (r *textRun) begin() bool {
	if !r.begun {
		r.begun, r.blank = true, ' '
	}
	blank := r.blank
	r.blank = 0
	if blank == '\n' || blank != 0 && r.out.length > 0 { // a space only ends a word
		r.out.put(blank)
	}
	return blank == '\n'
}

// beginWord is begin for a word at i, and notes where a new line begins.
func (r *textRun) beginWord(i int) {
	l := r.out
	if r.begun && r.blank != '\n' && l.length == 0 {
		r.blank = 0
		return
	}
	if r.begin() && l.marks != nil && l.lines >= l.marks.due {
		l.marks.add(mark{int32(l.lines), int32(l.part), int32(i), int32(r.end), r.references})
	}
}

// words takes words with single blanks between them, from i up to stop, and returns where they end.
func (r *textRun) words(i, stop int) int {
	l := r.out
	ends := uint8(classSpace)
	if r.references {
		ends |= classReference
	}
	for i < stop {
		n, class := wordEnd(r.in, i, stop, ends)
		if n == i {
			return i
		}
		if r.beginWord(i); l.done() {
			return i
		}
		switch {
		case l.skips():
			n = nextOf(r.in[:stop], n, classEnd|classReference)
		case l.length == 0 && (n == r.end || spaceAt(r.in[:r.end], n) > 0):
			// Every run begins with a blank, so the end of this one ends the word.
			wholeWord(l, r.in, i, n, class)
		default:
			putWord(l, r.in[i:n])
		}
		if i = n; i < stop && r.in[i] == ' ' {
			r.blank = ' '
			i++
		}
	}
	return i
}

// character takes white space, or the reference at i, and returns where it ends.
func (r *textRun) character(i int, known *references) int {
	text := r.in[:r.end]
	switch c := text[i]; {
	case c == '&' && r.references:
		return i + 1 + r.reference(text[i+1:], known)
	case c < utf8.RuneSelf && isSpace(rune(c)):
		r.put(rune(c))
		return i + 1
	}
	if c, size := charAt(text[i:]); isSpace(c) {
		r.put(c)
		i += size
	}
	return i
}

// reference takes a reference, of which text follows the "&", and returns its size without the "&".
func (r *textRun) reference(text []byte, known *references) int {
	if len(text) == 0 || text[0] != '#' {
		meaning, n := known.of(text)
		for _, c := range meaning {
			r.put(c)
		}
		return n
	}
	meaning, ok, n := numeric(text)
	if n == 0 {
		meaning, ok = '&', true
	}
	if ok {
		r.put(meaning)
	}
	return n
}

// data takes a run of text, or the end of one that has begun. It drops the white space at its ends, also white space
// from references.
func (h *stripper) data(i, end int, references, begun bool) {
	l := h.out
	if h.hidden || l.skips() && nextOf(h.in[:end], i, classEnd|classReference) == end {
		return
	}
	run := textRun{in: h.in, end: end, references: references, out: l, begun: begun}
	const step = pace.Step / 2
	for from := i; i < end && !l.done(); {
		if i-from >= step {
			if h.pace.Over(i - from) {
				return
			}
			from = i
		}
		stop := end
		if end-i > step {
			stop = charBefore(h.in[:end], i+step)
		}
		if i = run.words(i, stop); i < end && !l.done() {
			i = run.character(i, h.known)
		}
	}
}

// find returns the position of the first c from i on, or -1.
func (h *stripper) find(c byte, i int) int {
	if i > len(h.in) {
		return -1
	}
	n := bytes.IndexByte(h.in[i:], c)
	if n < 0 {
		return -1
	}
	return i + n
}

// at returns the byte at i, which is a character if that is ASCII, -1 behind the end.
func (h *stripper) at(i int) rune {
	if i < len(h.in) {
		return rune(h.in[i])
	}
	return -1
}

func (h *stripper) hasPrefix(i int, prefix string) bool {
	for k, r := range prefix {
		if h.at(i+k) != r {
			return false
		}
	}
	return true
}

// run is the parser's main loop, from i on. An unfinished construct at the end is lost.
func (h *stripper) run(i int) {
	n := len(h.in)
	for i < n && !h.broken && !h.out.done() {
		from, j := i, -1
		if h.raw == "" {
			if j = i; h.in[i] == '<' {
				// Most tags have no text between them.
			} else if j = h.find('<', i); j < 0 {
				if h.cutReference(i) {
					return
				}
				j = n
			}
		} else if j = h.rawEnd(i); j < 0 {
			return
		}
		if i < j {
			h.data(i, j, h.raw == "", false)
		}
		if i = j; i == n {
			return
		}
		if i = h.markup(i); i < 0 || h.pace.Over(1+i-from) {
			return
		}
	}
}

// cutReference reports whether the text ends in a possible part of a reference.
func (h *stripper) cutReference(i int) bool {
	const longest = 34 // in characters
	from := len(h.in)
	for n := 0; n < longest && from > i; n++ {
		from = charBefore(h.in, from)
	}
	amp := bytes.LastIndexByte(h.in[from:], '&')
	if amp < 0 {
		return false
	}
	for at := from + amp; at < len(h.in); at += sizeAt(h.in, at) {
		if h.in[at] == ';' || spaceAt(h.in, at) > 0 {
			return false
		}
	}
	return true
}

// rawEnd finds the end tag of a script or style element.
func (h *stripper) rawEnd(i int) int {
	for {
		j := h.find('<', i)
		if j < 0 {
			return -1
		}
		i = j + 1
		if h.at(i) != '/' {
			continue
		}
		k := h.skipSpace(i + 1)
		end := k
		for n := 0; n < len(h.raw) && end < len(h.in); n++ {
			end += sizeAt(h.in, end)
		}
		if end <= len(h.in) && strings.EqualFold(string(h.in[k:end]), h.raw) && h.at(h.skipSpace(end)) == '>' {
			return j
		}
	}
}

// skipSpace returns where the white space at i ends.
func (h *stripper) skipSpace(i int) int {
	for i < len(h.in) && classes[h.in[i]]&classSpace != 0 {
		i++
	}
	if i < len(h.in) && h.in[i] >= utf8.RuneSelf {
		return h.skipWide(i)
	}
	return i
}

func (h *stripper) skipWide(i int) int {
	for i < len(h.in) {
		size := spaceAt(h.in, i)
		if size == 0 {
			break
		}
		i += size
	}
	return i
}

// markup takes the construct that the "<" at i begins and returns where it ends,
// or -1 if it does not.
func (h *stripper) markup(i int) int {
	switch {
	case asciiLetter(h.at(i + 1)):
		return h.startTag(i)
	case h.at(i+1) == '/':
		return h.endTag(i)
	case h.hasPrefix(i, "<!--"):
		return h.comment(i + 4)
	case h.hasPrefix(i, "<?"):
		return h.behindTag(i + 2)
	case h.hasPrefix(i, "<!["):
		return h.section(i + 3)
	case h.hasPrefix(i, "<!"):
		if scan.HasPrefixFold(h.in[i:], "<!doctype") {
			return h.behindTag(i + 9)
		}
		return h.behindTag(i + 2)
	case i+1 < len(h.in):
		h.data(i, i+1, false, false)
		return i + 1
	}
	return -1
}

// behindTag returns where the text behind the next ">" begins, -1 without one.
func (h *stripper) behindTag(i int) int {
	if j := h.find('>', i); j >= 0 {
		return j + 1
	}
	return -1
}

// comment ends at "--", blanks, ">".
func (h *stripper) comment(i int) int {
	for {
		j := h.find('-', i)
		if j < 0 {
			return -1
		}
		i = j + 1
		if h.at(i) == '-' {
			if k := h.skipSpace(i + 1); h.at(k) == '>' {
				return k + 1
			}
		}
	}
}

// section is a marked section; i is behind "<![".
func (h *stripper) section(i int) int {
	if i == len(h.in) {
		return -1
	}
	end := i
	for end < len(h.in) && (asciiLetter(rune(h.in[end])) || end > i && isNameRune(rune(h.in[end]))) {
		end++
	}
	if end == i {
		h.broken = true
		return -1
	}
	if h.skipSpace(end) == len(h.in) {
		return -1
	}
	double := false
	switch strings.ToLower(string(h.in[i:end])) {
	case "temp", "cdata", "ignore", "include", "rcdata":
		double = true
	case "if", "else", "endif":
	default:
		h.broken = true
		return -1
	}
	for {
		j := h.find(']', i)
		if j < 0 {
			return -1
		}
		i = j + 1
		k := h.skipSpace(i)
		if double {
			if h.at(k) != ']' {
				continue
			}
			k = h.skipSpace(k + 1)
		}
		if h.at(k) == '>' {
			return k + 1
		}
	}
}

func asciiLetter(r rune) bool { return r|0x20 >= 'a' && r|0x20 <= 'z' }

func isNameRune(r rune) bool {
	return asciiLetter(r) || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.'
}

// endTag takes "</" at i.
func (h *stripper) endTag(i int) int {
	start := i + 2
	if start < len(h.in) && !asciiLetter(rune(h.in[start])) {
		start = h.skipSpace(start)
	}
	end := start
	if asciiLetter(h.at(start)) {
		for end++; end < len(h.in) && (isNameRune(rune(h.in[end])) || h.in[end] == ':'); {
			end++
		}
	}
	gt := end + 1
	if h.at(end) != '>' {
		if gt = h.behindTag(i + 1); gt < 0 {
			return -1
		}
	}
	if end > start && (gt == end+1 || h.at(h.skipSpace(end)) == '>') {
		name := h.in[start:end]
		if h.raw != "" && !isName(name, h.raw) {
			h.data(i, gt, false, false)
			return gt
		}
		h.close(name)
		h.raw = ""
		return gt
	}
	if h.raw != "" {
		h.data(i, gt, false, false)
		return gt
	}
	if !asciiLetter(h.at(i + 2)) {
		if h.at(i+2) == '>' {
			return i + 3
		}
		return h.behindTag(i + 2)
	}
	end = h.tagName(i + 2)
	h.close(h.in[i+2 : end])
	return h.behindTag(h.spaceAndSlash(end))
}

func (h *stripper) close(name []byte) {
	if rawName(name) != "" {
		h.hidden = false
	}
}

// rawName returns the name of an element whose text is dropped, else "".
func rawName(name []byte) string {
	if name[0]|0x20 != 's' || len(name) < len("style") {
		return ""
	}
	for _, raw := range [...]string{"script", "style"} {
		if isName(name, raw) {
			return raw
		}
	}
	return ""
}

// isName reports whether text in lower case is name.
func isName(text []byte, name string) bool {
	for i := range len(name) {
		if len(text) == 0 {
			return false
		}
		c, size := charAt(text)
		if unicode.ToLower(c) != rune(name[i]) {
			return false
		}
		text = text[size:]
	}
	return len(text) == 0
}

// tagName returns where the name that starts at i ends.
func (h *stripper) tagName(i int) int {
	for i < len(h.in) {
		switch h.in[i] {
		case '\t', '\n', '\r', '\f', ' ', '/', '>', 0:
			return i
		}
		i++
	}
	return i
}

// spaceAndSlash skips white space, and slashes that ">" does not follow.
func (h *stripper) spaceAndSlash(i int) int {
	for i < len(h.in) {
		size := spaceAt(h.in, i)
		if size == 0 && h.in[i] == '/' && h.at(i+1) != '>' {
			size = 1
		}
		if size == 0 {
			break
		}
		i += size
	}
	return i
}

// startTag takes "<" and a letter at i.
func (h *stripper) startTag(i int) int {
	nameEnd := h.tagName(i + 1)
	name := h.in[i+1 : nameEnd]
	if end, ok := h.plainTag(nameEnd); ok {
		h.open(name, true)
		return end
	}
	end := h.wholeTag(i)
	if end < 0 {
		return -1
	}
	k := h.spaceAndSlash(nameEnd)
	for k < end {
		next, ok := h.attribute(k, false)
		if !ok {
			break
		}
		k = next
	}
	tail := bytes.TrimFunc(h.in[min(k, end):end], isSpace)
	if !isName(tail, ">") && !isName(tail, "/>") {
		h.data(i, end, false, false)
		return end
	}
	h.open(name, len(tail) == 1)
	return end
}

// plainTag returns the end of a start tag whose name ends at i, if all attributes stand behind
// blanks and have quoted values, like in most tags. All ways to read such a tag agree.
func (h *stripper) plainTag(i int) (end int, ok bool) {
	for i < len(h.in) && h.in[i] != '>' {
		name := h.skipSpace(i)
		if name == i && i > 0 && h.in[i-1] != '"' && h.in[i-1] != '\'' {
			return 0, false
		}
		for i = name; i < len(h.in) && (asciiLetter(rune(h.in[i])) || h.in[i] == '-'); {
			i++
		}
		if i == name && h.at(i) == '>' {
			break
		}
		if quote := h.at(i + 1); i == name || h.at(i) != '=' || quote != '"' && quote != '\'' {
			return 0, false
		}
		value := h.find(h.in[i+1], i+2)
		if value < 0 {
			return 0, false
		}
		i = value + 1
	}
	return i + 1, i < len(h.in)
}

// open begins an element, which has content unless its tag ends in a slash.
func (h *stripper) open(name []byte, content bool) {
	if raw := rawName(name); raw != "" {
		if h.hidden = content; h.hidden {
			h.raw = raw
		}
	}
}

// wholeTag returns where the start tag at i ends, or -1 if it does not.
func (h *stripper) wholeTag(i int) int {
	j := h.tagName(i + 1)
	for j < len(h.in) {
		size := spaceAt(h.in, j)
		if h.in[j] == '/' {
			size = 1
		}
		if size == 0 {
			break
		}
		j += size
	}
	for {
		next, ok := h.attribute(j, true)
		if !ok {
			break
		}
		j = next
	}
	j = h.skipSpace(j)
	switch c := h.at(j); {
	case c == '>':
		return j + 1
	case c == '/':
		if h.at(j+1) == '>' {
			return j + 2
		}
		return -1
	case c < 0 || c == '=' || asciiLetter(c):
		return -1
	}
	return j // bogus, but longer than nothing: it has a name
}

// attribute reads one attribute at i and returns the start of the next. It reports false if there
// is none. With blanks, a value includes the white space behind it.
func (h *stripper) attribute(i int, blanks bool) (int, bool) {
	if i == 0 || i >= len(h.in) {
		return i, false
	}
	if before := h.in[i-1]; before != '\'' && before != '"' && before != '/' && spaceAt(h.in, charBefore(h.in, i)) == 0 {
		return i, false
	}
	if c := h.in[i]; spaceAt(h.in, i) > 0 || c == '/' || c == '>' {
		return i, false
	}
	i += sizeAt(h.in, i)
	for i < len(h.in) && h.in[i] != '/' && h.in[i] != '=' && h.in[i] != '>' && spaceAt(h.in, i) == 0 {
		i += sizeAt(h.in, i)
	}
	if value, ok := h.value(i); ok {
		if i = value; blanks {
			i = h.skipSpace(i)
		}
	}
	return h.spaceAndSlash(i), true
}

// value takes "=" and a value at i and returns where they end.
func (h *stripper) value(i int) (int, bool) {
	i = h.skipSpace(i)
	signs := i
	for h.at(i) == '=' {
		i++
	}
	if i == signs {
		return i, false
	}
	v := h.skipSpace(i)
	if quote := h.at(v); quote != '\'' && quote != '"' {
		return h.bare(v), true
	}
	if end := h.find(h.in[v], v+1); end >= 0 {
		return end + 1, true
	}
	// A quote that is never closed does not belong to the value.
	if v > i {
		return charBefore(h.in, v), true
	}
	if i-signs > 1 {
		return h.bare(i - 1), true
	}
	return i, false
}

func (h *stripper) bare(i int) int {
	for i < len(h.in) && h.in[i] != '>' && spaceAt(h.in, i) == 0 {
		i += sizeAt(h.in, i)
	}
	return i
}
