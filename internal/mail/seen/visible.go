package seen

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/bulkhead-mail/bulkhead/internal/pace"
	"github.com/bulkhead-mail/bulkhead/internal/text/markup"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

const (
	// MaxVisible bounds the visible text of a page, in bytes.
	MaxVisible = 256 << 10
	// maxToken bounds what the tokenizer of HTML sees at once, in bytes, since it
	// keeps that up to four times. Longer tags, which hold pictures, are read
	// without their attributes, longer texts by pieces.
	maxToken = 128 << 10
)

// read appends the text that a reader of the HTML source would see, in lines.
// Mark-up, comments, scripts and hidden elements are gone, without a trace inside of
// a word; lines below a blockquote begin with ">", as in plain text. Links are looked
// for in all of the source, if there is a page to note them in.
func (v *visible) read(source string) {
	v.dst = slices.Grow(v.dst, min(len(source)/4, MaxVisible)) // as much as many pages show
	v.start = len(v.dst)
	v.shape.renew()
	v.styling = styling{look: firstLook, frames: v.frames[:0], styles: v.styles, links: linkBlue, letters: black,
		quirks: quirky(source)}
	v.course = course{size: cmp.Or(v.course.size, pieceSize)}
	v.stream(source)
	s := &v.shape
	if wanted := s.irregular && (s.hides || v.tones.meet()) || v.matters(); wanted && v.pace.Err() == nil {
		v.trees(source)
	}
	if v.page != nil {
		v.endAnchor()
	}
	v.turnLine()
}

// stream reads source tag by tag, up to its end.
func (v *visible) stream(source string) {
	for rest := source; len(rest) > 0 && !v.done(); {
		n := v.tokens(rest)
		rest = rest[n:]
		skip := v.skip
		if n = v.long(rest); n > 0 {
			v.passLong(rest[:n], skip)
		}
		rest = rest[n:]
	}
}

// full reports whether there is text enough.
func (v *visible) full() bool { return len(v.dst)-v.start >= MaxVisible }

// done reports whether nothing more is to be found, or there is no time for more.
func (v *visible) done() bool { return v.pace.Err() != nil || v.full() && v.hrefs <= 0 }

// tokens takes source up to its end or up to a token that is too long, and
// returns how many bytes that is.
func (v *visible) tokens(source string) (taken int) {
	t := markup.Over(source, maxToken)
	for !v.done() {
		if !t.Next() {
			if t.TooLong() {
				return taken
			}
			return len(source)
		}
		n := len(t.Raw())
		if t.Kind() == markup.Other && t.TooLong() {
			return taken // there is more of the comment
		}
		if taken += n; v.pace.Over(n) {
			break
		}
		v.pass(n, t.Kind() == markup.Start && v.skip == 0)
		switch t.Kind() {
		case markup.Text:
			if v.skip == 0 && !(v.shape.irregular && v.shape.begun) && strings.Trim(t.Raw(), " \t\r\n\f") != "" {
				v.shape.text()
			}
			switch {
			case v.skip == atom.Style:
				v.foresee(t.Raw())
			case v.beside.is == asInline && v.rowBlank(t.Raw(), v.shape.parent()):
			case v.skip == 0 && v.veil == faint && strings.Trim(t.Raw(), " \t\r\n\f") == "":
				v.text([]byte{' '}) // a blank has no colour
			case v.skip != 0 || !v.shows(t.Raw()) || v.full():
			case t.Verbatim():
				v.unescaped = t.AppendText(v.unescaped[:0])
				v.text(v.unescaped)
			default:
				v.written(t.Raw())
			}
		case markup.Start:
			v.begin(&t, false)
		case markup.SelfClosing:
			v.begin(&t, true)
		case markup.End:
			v.end(&t)
		}
	}
	return taken
}

// long takes the token at the start of source, which is longer than maxToken, and
// returns how many bytes it has. Source that is shorter is at its end.
func (v *visible) long(source string) int {
	switch {
	case len(source) < maxToken || v.done():
		return 0
	case v.skip != 0 && !strings.HasPrefix(source, "</"):
		n := indexFold(source, "</"+v.skip.String())
		if v.skip == atom.Style {
			v.foresee(source[:n])
		}
		return n
	case strings.HasPrefix(source, "<!--"):
		return min(behind(source, "-->"), behind(source, "--!>"))
	case source[0] == '<' && (scan.IsLetter(source[1]) || source[1] == '/'):
		return v.longTag(source)
	case source[0] == '<' && (source[1] == '!' || source[1] == '?'):
		return behind(source, ">")
	}
	n := strings.IndexByte(source[1:], '<') + 1
	if n == 0 {
		n = len(source)
	}
	for text := source[:n]; len(text) > 0 && !v.full() && v.pace.Err() == nil; {
		piece := text[:cutReference(text)]
		if v.pace.Over(len(piece)) {
			break
		}
		if v.shows(piece) {
			v.text([]byte(html.UnescapeString(piece)))
		}
		text = text[len(piece):]
	}
	return n
}

// longTag takes a tag as if it had no attributes but links.
func (v *visible) longTag(source string) int {
	name := source[:min(len(source), 64)]
	if i := strings.IndexAny(name[2:], " \t\r\n\f/>"); i >= 0 {
		v.tag = source
		v.tokens(name[:i+2] + ">")
		v.tag = ""
	}
	return eachAttribute(source, v.pace, func(string, string) {})
}

// cutReference returns how many bytes of a text, 16 KiB or little more, can be
// read apart from the rest: not within a character reference or a character.
func cutReference(text string) int {
	const size, longest = 16 << 10, 40
	if len(text) <= size+longest {
		return len(text)
	}
	if i := strings.LastIndexByte(text[size:size+longest], '&'); i >= 0 {
		return size + i
	}
	n := size + longest
	for n > size && !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}

// behind returns the position behind the first mark in s, or the end.
func behind(s, mark string) int {
	if i := strings.Index(s, mark); i >= 0 {
		return i + len(mark)
	}
	return len(s)
}

// indexFold returns the position of mark, in lower case, in s without regard to
// ASCII case, or the end.
func indexFold(s, mark string) int {
	for at := 0; ; at++ {
		i := strings.IndexByte(s[at:], mark[0])
		if i < 0 {
			return len(s)
		}
		if at += i; len(s)-at >= len(mark) && strings.EqualFold(s[at:at+len(mark)], mark) {
			return at
		}
	}
}

// An unseenElement is the open element whose content is never shown.
type unseenElement struct {
	skip   atom.Atom // 0 outside of one
	nested int       // open elements of the same name within
}

// visible is the state of reading what a reader of a page sees.
type visible struct {
	dst   []byte
	start int
	pace  *pace.Pace
	unseenElement
	styling
	shape  shape // of the tags
	course course
	quotes int    // open blockquotes
	box    int    // where the text of an element begins that has no blank there
	beside beside // the cell in front

	page   *Page            // to note links and mark-up in; nil to leave them
	noted  Page             // its memory
	hrefs  int              // links that may yet be noted
	known  map[string]uint8 // how those were used that were
	anchor anchor           // the open link
	name   []byte           // of the last tag that was not known, and a space
	names  []knownName      // of tags that were read lately; nil if none was
	tag    string           // source of a tag that is too long for the tokenizer, "" for none

	unescaped []byte // of the present text
	urls      []byte // links in which there were references; they stay
}

// text shows b: of blanks one space, and none at the beginning of a line.
func (v *visible) text(b []byte) { v.upTo(b, 0) }

// written shows text as it is written, with its character references.
func (v *visible) written(text string) {
	for {
		n := v.upTo(scan.Bytes(text), reference)
		if text = text[n:]; text == "" {
			return
		}
		v.unescaped, n = markup.AppendReference(v.unescaped[:0], text)
		v.text(v.unescaped)
		text = text[n:]
	}
}

// upTo shows b up to the first byte of a class, and returns how many bytes that is.
func (v *visible) upTo(b []byte, end uint8) int {
	for at := 0; at < len(b); {
		n := len(v.dst)
		atStart := n == v.start || v.dst[n-1] == '\n'
		before := uint8(0)
		if atStart || v.dst[n-1] == ' ' || n == v.box {
			before = space
		}
		// Up to a blank that is not a space, or a second one, it is shown as it is.
		run := at
		for run < len(b) {
			c := blanks[b[run]]
			if c&(before|otherBlank|end) != 0 {
				break
			}
			before = c & space
			run++
		}
		switch {
		case run > at:
			if atStart && v.quotes > 0 {
				v.dst = append(v.dst, '>', ' ')
			}
			v.dst = append(v.dst, b[at:run]...)
			at = run
		case blanks[b[at]]&end != 0:
			return at
		default:
			if at++; before == 0 {
				v.dst = append(v.dst, ' ')
			}
		}
	}
	return len(b)
}

// Classes of bytes in the display of text.
const (
	space = 1 << iota
	otherBlank
	reference // begins one
)

var blanks = [256]uint8{' ': space, '\n': otherBlank, '\r': otherBlank, '\t': otherBlank, '&': reference}

// shows reports whether the next text of the page is seen.
func (v *visible) shows(text string) bool {
	if v.veil&(outside|indented) == 0 {
		return v.veil == 0
	}
	for word := range strings.FieldsSeq(text) {
		v.ran += len(word) + 1
	}
	return v.sees(v.ran, v.broken)
}

// line ends the line. The next one is the first of its block, unless a line break comes in between.
func (v *visible) line() {
	v.ran, v.broken = 0, false
	v.turnLine()
	if n := len(v.dst); n > v.start && v.dst[n-1] != '\n' {
		v.newLine()
	}
}

// paragraph ends the line and leaves an empty one.
func (v *visible) paragraph() {
	v.line()
	if n := len(v.dst); n > v.start+1 && v.dst[n-2] != '\n' {
		v.newLine()
	}
}

// newLine begins a line, in which open turns go on.
func (v *visible) newLine() {
	v.dst = append(v.dst, '\n')
	for i := range v.turns {
		v.turns[i].begin = len(v.dst)
	}
}

func (v *visible) begin(t *markup.Tokens, selfClosing bool) {
	name := v.nameOf(t)
	if v.skip != 0 { // within a template
		if name.tag == v.skip {
			v.nested++
		}
		return
	}
	again := v.shape.begun && (name.tag == atom.Body || name.tag == atom.Html)
	if v.open[table] == 0 && (endsRow(name.tag) || tableParts[name.tag]) && !slices.Contains(v.shape.open, atom.Table) {
		v.shape.irregular = true // a browser ignores it
		return
	}
	var attributes tagged
	written := v.attributes(&attributes, name.tag, t)
	inner, as := v.inside(name, &attributes, nil)
	v.noteTag(name, inner.veil)
	v.element(name, &attributes, inner.veil)
	is := name.is
	if name.tag == atom.Noscript {
		t.NotRaw() // mail programs run no scripts
	}
	v.bodyAt(name.tag, written)
	v.shape.start(name, selfClosing, written)
	v.shape.hides = v.shape.hides || inner.veil != 0
	v.leaveToTree(name.tag, &attributes, inner)
	if !selfClosing && is&(void|unseen) == 0 {
		v.enter(name, inner, as)
	}
	if is&unseen != 0 {
		v.skip, v.nested = name.tag, 0
		if name.tag == atom.Style {
			v.sheetAt(true)
		}
		return
	}
	if !again && (is&void == 0 || inner.veil&gone == 0) {
		v.opens(name, as)
	}
	v.field(name.tag, &attributes, nil)
}

// leaveToTree notes what only a tree shows of an element.
func (v *visible) leaveToTree(tag atom.Atom, t *tagged, inner look) {
	if tag == atom.Details && t.named&namedOpen == 0 {
		v.shape.hides, v.shape.irregular = true, true
	}
	if inner.overrides || tag == atom.Bdo {
		v.sheet.writes = true
	}
}

// opens begins what an element shows: a line, a quotation, a cell.
func (v *visible) opens(name *knownName, as flow) {
	is := name.is
	switch {
	case v.veil&gone != 0:
	case as == asInline && is&cell == 0:
	case as == asBox && is&cell == 0:
		v.box, v.beside = len(v.dst), beside{}
	case as == asBlock && is&block == 0:
		v.line()
	case as == asCell, is&cell != 0:
		v.opensCell(as)
	case is&block == 0:
	case name.tag == atom.Blockquote:
		v.paragraph()
		v.quotes++
	case is&apart != 0:
		v.paragraph()
	default:
		v.line()
	}
	if name.tag == atom.Br {
		v.broken = true
	}
}

func (v *visible) end(t *markup.Tokens) {
	name := v.nameOf(t)
	tag := name.tag
	if tag == atom.A && v.page != nil {
		v.endAnchor()
	}
	if v.skip != 0 {
		if tag == v.skip {
			if v.nested--; v.nested < 0 {
				v.skip = 0
				v.sheetAt(false)
			}
		}
		return
	}
	within := v.veil&gone != 0
	as, at := v.exit(name)
	if v.shape.end(name) {
		v.closes(name, as, within, at)
	}
}

// A beside is the cell, or the part of a table without lines of its own, that has ended last.
type beside struct {
	is flow // asCell, or asInline for what stands in one cell with others; 0 for none
	at int  // where its text ends
}

// opensCell divides a cell from the cell in front of it. Cells that are displayed in a line stand in one cell.
//
// Source: CSS 2.2, 17.2.1 Anonymous table objects; WHATWG HTML, 3.2.7 on innerText.
func (v *visible) opensCell(as flow) {
	last, n := v.beside.is, len(v.dst)
	if v.beside.at != n && (v.beside.at != n-1 || v.dst[n-1] != ' ') {
		last = 0 // there is a text between them
	}
	switch {
	case last == asCell || last == 0 && as == asNatural:
		v.text([]byte{' '})
	case last == asInline && as == asNatural:
		v.endBox(v.start)
	}
	if as != asInline {
		v.box = len(v.dst)
	}
}

// rowBlank reports whether a text is nothing but blanks between cells that are displayed in a line.
func (v *visible) rowBlank(text string, parent atom.Atom) bool {
	return v.beside.at == len(v.dst) && tableParents[parent] && strings.Trim(text, " \t\r\n\f") == ""
}

// endBox takes away the blank at the end of a text that begins at a place.
func (v *visible) endBox(at int) {
	n := len(v.dst) - 1
	if n < at || v.dst[n] != ' ' {
		return
	}
	v.dst = v.dst[:n]
	v.clipTurns(n)
	if v.page == nil || len(v.page.Anchors) == 0 {
		return
	}
	last := len(v.page.Anchors) - 1
	a := &v.page.Anchors[last]
	if a[1] = min(a[1], int32(n)); a[0] >= a[1] {
		v.page.Anchors = v.page.Anchors[:last]
	}
}

// closes ends what an element has shown, whose text begins at a place, unless it was not displayed.
func (v *visible) closes(name *knownName, as flow, within bool, at int) {
	if within {
		return
	}
	tag := name.tag
	if as == asBox || as == asCell {
		v.endBox(at)
	} else if n := len(v.dst); name.is&cell != 0 && n > 0 && v.dst[n-1] == ' ' {
		v.clipTurns(n - 1)
	}
	switch {
	case as == asCell || as == asNatural && name.is&cell != 0:
		v.beside = beside{asCell, len(v.dst)}
	case as != asNatural && as != asBlock && name.is&tabular != 0:
		v.beside = beside{asInline, len(v.dst)}
	case as == asBox:
		v.beside = beside{}
	}
	switch {
	case as != asNatural && as != asBlock, as != asBlock && name.is&block == 0:
	case tag == atom.Blockquote:
		v.paragraph()
		v.quotes = max(0, v.quotes-1)
	case tag == atom.P || tag == atom.Table:
		v.paragraph()
	default:
		v.line()
	}
}

// A knownName is a tag name and its meaning.
type knownName struct {
	short uint64 // the name, 0 for none
	tag   atom.Atom
	is    nature
	holds container
	size  uint8   // of lower, 0 if the name is not short
	lower [9]byte // the name in lower case, and a space
}

// nameOf returns the name of the present tag. A page repeats few of them.
func (v *visible) nameOf(t *markup.Tokens) *knownName {
	const bits, seed = 7, 0x9E3779B97F4A7C15 // which makes hashes, in the high bits
	if v.names == nil {
		v.names = make([]knownName, 1<<bits)
	}
	short := t.ShortName()
	known := &v.names[short*seed>>(64-bits)]
	if known.short == short && short != 0 {
		return known
	}
	v.name = append(t.AppendName(v.name[:0]), ' ')
	*known = meaningOf(atom.Lookup(v.name[:len(v.name)-1]))
	if short != 0 && len(v.name) <= len(known.lower) {
		known.short, known.size = short, uint8(copy(known.lower[:], v.name))
	}
	return known
}

func meaningOf(tag atom.Atom) knownName {
	return knownName{tag: tag, is: natures[tag], holds: containerOf(tag)}
}

// A nature is a set of properties of elements.
type nature uint8

const (
	void    nature = 1 << iota // has nothing in it, or like head nothing that is shown
	block                      // begins a line, and ends one
	apart                      // likewise, with an empty line before it
	cell                       // of a table
	unseen                     // with what is in it
	leader                     // may have a link that is to be noted
	tabular                    // part of a table, which grows with what is in it
	dressed                    // has a look of its own without a style
)

// natures has what elements are by their names. Other elements have no nature.
var natures = map[atom.Atom]nature{
	atom.A: leader | dressed, atom.Address: block, atom.Area: void | leader, atom.Article: block,
	atom.Aside: block, atom.Audio: dressed, atom.Base: void | leader, atom.Basefont: void, atom.Bdo: dressed,
	atom.Bgsound: void, atom.Big: dressed, atom.Blockquote: block | apart, atom.Body: block | dressed,
	atom.Br: void | block, atom.Button: leader | dressed, atom.Canvas: dressed, atom.Caption: block,
	atom.Center: block, atom.Col: void, atom.Datalist: dressed, atom.Dd: block, atom.Details: block,
	atom.Dialog: block | dressed,
	atom.Dir:    block, atom.Div: block, atom.Dl: block, atom.Dt: block, atom.Embed: void | leader,
	atom.Fieldset: block, atom.Figcaption: block, atom.Figure: block, atom.Font: dressed,
	atom.Footer: block, atom.Form: block | leader, atom.Frame: void | leader,
	atom.H1: block | apart | dressed, atom.H2: block | apart | dressed, atom.H3: block | apart | dressed,
	atom.H4: block | apart, atom.H5: block | dressed, atom.H6: block | dressed, atom.Head: void,
	atom.Header: block, atom.Hr: void | block | apart, atom.Iframe: leader | unseen,
	atom.Image: void | leader, atom.Img: void | leader, atom.Input: void | leader, atom.Keygen: void,
	atom.Legend: block, atom.Li: block, atom.Link: void | leader, atom.Main: block, atom.Mark: dressed,
	atom.Meter: dressed, atom.Progress: dressed,
	atom.Menu: block, atom.Meta: void | leader, atom.Nav: block, atom.Noembed: unseen,
	atom.Noframes: unseen, atom.Object: leader, atom.Ol: block | apart, atom.Optgroup: block, atom.Option: block,
	atom.P: block | apart, atom.Param: void, atom.Pre: block, atom.Rp: dressed, atom.Script: unseen, atom.Section: block,
	atom.Select: dressed, atom.Small: dressed, atom.Source: void, atom.Style: unseen, atom.Sub: dressed,
	atom.Summary: block, atom.Sup: dressed, atom.Table: block | apart | tabular | dressed,
	atom.Tbody: block | tabular, atom.Td: cell | tabular, atom.Template: unseen, atom.Textarea: dressed,
	atom.Tfoot: block | tabular, atom.Th: cell | tabular, atom.Thead: block | tabular, atom.Title: unseen,
	atom.Tr: block | tabular, atom.Track: void, atom.Ul: block | apart, atom.Video: dressed, atom.Wbr: void,
}
