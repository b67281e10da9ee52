package rspamd

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/bulkhead-mail/bulkhead/internal/pace"
	"github.com/bulkhead-mail/bulkhead/internal/text/markup"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// Limits of what is read of a page.
const (
	maxTag   = 64 << 10 // bytes of a tag; what follows a longer one is not read
	maxNodes = 8192     // elements and comments; what follows more is text
	maxStyle = 4 << 10  // bytes of a style that are looked at
)

// A page is the text that rspamd makes of HTML.
//
// Source: docs/specs/rspamd-fuzzy.md#visible-text.
type page struct {
	source string
	nul    bool // there is one in the source
	text   []byte
	shown  []span             // what is shown for links and begins like one: places in text, in order
	looked int                // how many bytes were looked at for them
	work   int                // done since pace was told
	again  int                // how many bytes of the source were appended twice
	name   []byte             // of the present tag
	named  [64]knownReference // character references that were read lately
	names  [256]knownName     // of tags that were read lately
	looks  [64]knownLook      // of styles that were read lately
	faint  knownFaint
	nodes  []node
	marks  []mark
	sheet  sheet // what styles of the page say
	root   int32 // noNode if there is none
	opened tally // of the elements that have not ended
}

// A node is an element, a comment, or an end tag that ends nothing. Its text, and that of what
// is in it, is between the tag and where it ends.
type node struct {
	tag            atom.Atom // or a hash of another name
	kind           kind
	start, content int32 // of the tag; behind it
	end, next      int32 // where the text ends; behind the end tag; -1 for unknown
	parent         int32
	child, last    int32 // the first and last node in it
	after          int32 // the next node of the parent
	mark           int32 // 1 more than the index of what its attributes say, 0 for nothing
}

// A mark is what attributes say.
type mark struct {
	look        look
	alt         string // the text that stands for a picture
	pictured    bool   // there is one, though perhaps nothing in it
	id, classes string // by which style sheets speak of an element
}

// A kind says what an element is.
type kind uint16

const (
	empty   kind = 1 << iota // has nothing in it
	inHead                   // with what is in it, not shown
	inBlock                  // on lines of its own
	inRow                    // a cell of a table
	closed                   // has ended
	ignored                  // its own text is not shown
	comment                  // likewise
	bare                     // looks like its parent
	linking                  // leads to a server, an address or a number
	last                     // its own end tag has ended the page: bare text behind is not shown
)

// kindOf returns the kind of an element.
func kindOf(tag atom.Atom) kind {
	switch tag {
	case atom.Br, atom.Basefont, atom.Frame, atom.Img, atom.Input, atom.Link, atom.Param:
		return empty
	case atom.Area, atom.Hr, atom.Col, atom.Isindex:
		return empty | inBlock
	case atom.Base, atom.Meta:
		return empty | inHead
	case atom.Object, atom.Script, atom.Style, atom.Title:
		return inHead
	case atom.Address, atom.Blockquote, atom.Caption, atom.Center, atom.Colgroup, atom.Del, atom.Dir, atom.Div, atom.Dl, atom.Fieldset, atom.Form,
		atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Ins, atom.Listing, atom.Menu, atom.Noframes, atom.Noscript, atom.Ol, atom.P,
		atom.Plaintext, atom.Pre, atom.Table, atom.Tbody, atom.Tfoot, atom.Thead, atom.Tr, atom.Ul, atom.Xmp:
		return inBlock
	case atom.Td, atom.Th:
		return inRow
	}
	return 0
}

// pages keeps memory in which pages are read. It holds no state.
var pages = sync.Pool{New: func() any { return new(page) }}

// maxSpare is how many bytes of memory a page has that is kept for the next one.
const maxSpare = 1 << 20

// back gives v to who reads the next page.
func (v *page) back() {
	const nodeSize, markSize = 44, 64
	if cap(v.text)+nodeSize*cap(v.nodes)+markSize*cap(v.marks) > maxSpare || len(v.opened.tags) > maxTags {
		return
	}
	clear(v.marks) // so that no source is kept
	clear(v.looks[:])
	clear(v.opened.tags)
	v.source, v.text, v.shown, v.nodes, v.marks = "", v.text[:0], v.shown[:0], v.nodes[:0], v.marks[:0]
	v.sheet, v.opened.used = sheet{}, 0
	pages.Put(v)
}

// readPage returns the text of a page. Who has used it may give the page back.
func readPage(source string, p *pace.Pace) *page {
	v := pages.Get().(*page)
	v.source, v.nul, v.root = source, strings.IndexByte(source, 0) >= 0, noNode
	v.looked, v.work, v.again = 0, 0, 0
	v.text = slices.Grow(v.text, min(len(source)/4, maxText))
	rest := v.parse(p)
	if v.root >= 0 {
		v.append(v.root, nil, p)
	}
	v.add(source[rest:], false)
	v.trim()
	v.shown = slices.DeleteFunc(v.shown, func(s span) bool { return s.start == s.end })
	return v
}

// over announces n bytes of work, many pieces at a time, and reports whether they must be left undone.
func (v *page) over(n int, p *pace.Pace) bool {
	if v.work += n; v.work < pace.Step/16 {
		return false
	}
	n, v.work = v.work, 0
	return p.Over(n)
}

// noNode is the index of no node.
const noNode = -1

// newNode appends a node that is not yet tied to others. It may move all.
func (v *page) newNode(tag atom.Atom, kind kind) (at int32, n *node) {
	at = int32(len(v.nodes))
	v.nodes = append(v.nodes, node{})
	n = &v.nodes[at]
	n.tag, n.kind, n.end, n.next = tag, kind, -1, -1
	n.parent, n.child, n.last, n.after = noNode, noNode, noNode, noNode
	return at, n
}

// parse reads the tags, and returns from where on all is text.
func (v *page) parse(p *pace.Pace) (rest int) {
	const (
		before = iota // the first tag
		head
		body
	)
	place := before
	cur, parent := int32(noNode), int32(noNode)
	t := markup.Over(v.source, maxTag)
	at, torn := 0, false
	for t.Next() {
		start, size := at, len(t.Raw())
		if v.over(size, p) {
			break
		}
		at += size
		if len(v.nodes) > maxNodes {
			return start
		}
		if t.Kind() == markup.Text {
			if start == 0 { // text before all tags is in an element of its own
				v.root = v.begin()
				cur, place = v.root, body
			}
			continue
		}
		if t.Kind() == markup.Other {
			if isBogus(t.Raw()) {
				cur = noNode // as behind an end tag that was not yet read
				continue
			}
			if torn = at == len(v.source) && isUnfinished(t.Raw()); torn {
				break
			}
		}
		if t.Kind() == markup.End {
			if cur == noNode {
				cur = parent
			}
			tag, kind := v.tag(&t)
			if place == head && tag == atom.Head {
				place = body
			}
			cur, parent = v.end(tag, kind, cur, parent, int32(start), int32(at))
			continue
		}
		if cur >= 0 && v.nodes[cur].kind&(empty|closed) == 0 {
			parent = cur
		}
		made, n := v.newNode(0, 0)
		n.start, n.content = int32(start), int32(at)
		raw := false
		if t.Kind() == markup.Other {
			if n.kind = comment | closed; isTorn(t.Raw()) {
				n.content = 0
			}
		} else {
			n.tag, n.kind = v.tag(&t)
			raw = n.tag == atom.Style || n.tag == atom.Script || n.tag == atom.Noscript
			t.NotRaw()
			if t.Kind() == markup.SelfClosing {
				n.kind |= closed
			}
		}
		switch {
		case place == before && (n.tag == atom.Head || n.kind&inHead != 0):
			place = head
			n.kind |= ignored
		case place == before && n.tag != atom.Html:
			place = body
		case place == head && n.kind&(empty|inHead) == 0:
			switch {
			case parent >= 0 && (v.nodes[parent].tag == atom.Head || v.nodes[parent].kind&inHead == 0):
				v.ended(&v.nodes[parent])
				v.nodes[parent].end, v.nodes[parent].next = n.start, n.content
				place = body
			case n.tag == atom.Body:
				place = body
			default:
				n.kind |= inHead
			}
		}
		if t.Kind() != markup.Other {
			v.attributes(n, &t)
		}
		cur, parent = v.open(made, parent)
		if raw {
			n := rawText(v.source[at:])
			if p.Over(n) {
				break
			}
			at += n
			t = markup.Over(v.source[at:], maxTag)
		}
	}
	// A tag that does not end takes the place of the element that the end of the page would end.
	torn = torn || at < len(v.source) && !t.TooLong() || strings.HasSuffix(v.source, "</")
	if cur >= 0 && !torn && v.nodes[cur].kind&closed == 0 {
		v.close(cur, int32(len(v.source)), int32(len(v.source)))
	}
	return len(v.source)
}

// isBogus reports whether what seems to be an end tag has no name, which makes it text.
func isBogus(tag string) bool { return strings.HasPrefix(tag, "</") }

// isUnfinished reports whether the end of a comment, or of what looks like one, is not there.
func isUnfinished(tag string) bool {
	if strings.HasPrefix(tag, "<!--") {
		return !isTorn(tag) && !strings.HasSuffix(tag, "-->")
	}
	return !strings.HasSuffix(tag, ">")
}

// isTorn reports whether rspamd does not see where a comment, or what looks like one, ends.
func isTorn(tag string) bool {
	if strings.HasPrefix(tag, "<?") {
		return strings.IndexByte(tag[2:], '?') < 0
	}
	return tag == "<!-->" || tag == "<!--->"
}

// rawText returns how many bytes of text are that of a script or the like: up to an end tag, of whatever element, that
// has few bytes and looks like one.
func rawText(text string) int {
	const longest = 30
	for i := 0; i < len(text); i++ {
		n := strings.IndexByte(text[i:], '<')
		if i += n; n < 0 || i+2 >= len(text) {
			break
		}
		if i++; text[i] != '/' || !scan.IsLetter(text[i+1]) {
			continue
		}
		for _, c := range []byte(text[i+1 : min(i+longest, len(text))]) {
			if c == '>' {
				return i - 1
			}
			if c < '\n' || c == ',' {
				break
			}
		}
	}
	return len(text)
}

// open takes the new node of a start tag, and returns the node that what follows is in, and its
// parent.
func (v *page) open(at, parent int32) (cur, in int32) {
	for parent >= 0 && v.nodes[parent].kind&closed != 0 {
		parent = v.nodes[parent].parent
	}
	if parent < 0 {
		if v.root < 0 && v.nodes[at].tag != atom.Html {
			v.root = v.begin()
		}
		parent = v.root
	}
	n := &v.nodes[at]
	if n.kind&empty != 0 {
		n.kind |= closed
	}
	v.put(at, n, parent)
	if v.root < 0 {
		v.root = at
	}
	if n.kind&closed != 0 {
		n.end, n.next = n.start, n.content
		return parent, parent
	}
	return at, parent
}

// begin puts the outermost element of a page that does not begin with one.
func (v *page) begin() int32 {
	at, n := v.newNode(atom.Html, bare)
	v.put(at, n, noNode)
	return at
}

// put puts a new node behind those of its parent, if it has one.
func (v *page) put(at int32, n *node, parent int32) {
	if n.kind&closed == 0 {
		*v.opened.of(n.tag)++
	}
	n.parent = parent
	if parent >= 0 {
		p := &v.nodes[parent]
		if p.last >= 0 {
			v.nodes[p.last].after = at
		} else {
			p.child = at
		}
		p.last = at
	}
}

// ended notes that a node has ended.
func (v *page) ended(n *node) {
	if n.kind&closed == 0 {
		n.kind |= closed
		*v.opened.of(n.tag)--
	}
}

// close notes where a node ends.
func (v *page) close(at, start, end int32) {
	n := &v.nodes[at]
	v.ended(n)
	switch {
	case n.kind&empty != 0:
		n.end, n.next = n.start, n.content
	case n.content <= start:
		n.end, n.next = start, end
	default:
		n.end, n.next = n.content, end
	}
}

// end takes an end tag. One that ends not the innermost element but one around it ends all
// elements; what follows is in the outermost.
func (v *page) end(tag atom.Atom, kind kind, cur, parent, start, end int32) (now, in int32) {
	of := cur
	for of >= 0 && v.nodes[of].kind&closed != 0 {
		of = v.nodes[of].parent
	}
	if of < 0 && len(v.nodes) == 0 {
		v.root = v.begin()
		of = v.root
		v.close(of, start, end)
	}
	if of >= 0 {
		if v.nodes[of].tag == tag {
			if tag == atom.Style && v.nodes[of].content < start {
				v.sheet.read(v.source[v.nodes[of].content:start])
			}
			if v.close(of, start, end); v.nodes[of].parent >= 0 {
				return v.nodes[of].parent, parent
			}
			v.nodes[of].kind |= last
		} else if *v.opened.of(tag) > 0 { // it is around this one
			for at := of; at >= 0; at = v.nodes[at].parent {
				v.close(at, start, end)
			}
		}
	}
	for of >= 0 && v.nodes[of].kind&closed != 0 {
		of = v.nodes[of].parent
	}
	if of < 0 {
		of = v.root
	}
	made, n := v.newNode(tag, kind|closed|bare)
	n.start, n.content, n.end, n.next = start, end, start, end
	if n.kind&empty != 0 {
		n.kind |= ignored
	}
	v.put(made, n, of)
	return of, v.nodes[of].parent
}

// nameSeed makes hashes of names, in the high bits.
const nameSeed = 0x9E3779B97F4A7C15

// A knownName is the name of a tag, and what it says.
type knownName struct {
	name uint64 // its bytes, of which the first is a letter; 0 for none
	tag  atom.Atom
	kind kind
}

// tag returns the name of the present tag, or a hash if HTML has no such element, and the kind of the element. A page
// repeats few of them.
func (v *page) tag(t *markup.Tokens) (atom.Atom, kind) {
	name := t.ShortName()
	known := &v.names[name*nameSeed>>(64-8)]
	if known.name != name || name == 0 {
		*known = knownName{name: name, tag: v.unknown(t)}
		known.kind = kindOf(known.tag)
	}
	return known.tag, known.kind
}

// unknown looks the name of the present tag up.
func (v *page) unknown(t *markup.Tokens) atom.Atom {
	v.name = t.AppendName(v.name[:0])
	if tag := atom.Lookup(v.name); tag != 0 {
		return tag
	}
	hash := uint32(2166136261) // FNV-1a
	for _, c := range v.name {
		hash = (hash ^ uint32(c)) * 16777619
	}
	return atom.Atom(hash | 1<<31)
}

// A tally counts by names.
type tally struct {
	tags []tagCount // by a hash of the name, or behind; a power of two
	used int
}

type tagCount struct {
	tag atom.Atom // 0 for none
	n   int32
}

// tagSeed makes the hash of a name. Nobody who writes pages knows it.
var tagSeed = rand.Uint64() | 1

// maxTags is how many of them are kept for the next page.
const maxTags = 256

// of returns the count of a name.
func (t *tally) of(tag atom.Atom) *int32 {
	if 2*t.used >= len(t.tags) {
		t.grow()
	}
	at := t.place(tag)
	if c := &t.tags[at]; c.tag == 0 {
		c.tag, c.n = tag, 0
		t.used++
	}
	return &t.tags[at].n
}

// place returns where a name is, or may be put.
func (t *tally) place(tag atom.Atom) int {
	mask := uint32(len(t.tags) - 1)
	at := uint32(uint64(tag)*tagSeed>>32) & mask
	for t.tags[at].tag != tag && t.tags[at].tag != 0 {
		at = (at + 1) & mask
	}
	return int(at)
}

func (t *tally) grow() {
	old := t.tags
	t.tags = make([]tagCount, max(2*len(old), 64))
	for _, c := range old {
		if c.tag != 0 {
			t.tags[t.place(c.tag)] = c
		}
	}
}

// append appends the text of a node, and of those in it, and returns where it ends. around
// is how what is around it looks, nil if that is unknown.
func (v *page) append(at int32, around *look, p *pace.Pace) (next int32) {
	n := &v.nodes[at]
	if n.next < 0 {
		n.end, n.next = n.content, n.content
	}
	switch {
	case n.tag == atom.Br || n.tag == atom.Hr:
		if n.kind&ignored == 0 {
			v.text = append(v.text, '\n')
		}
		return n.content
	case n.tag == atom.Head && n.kind&ignored != 0, n.kind&inHead != 0, len(v.text) > maxText:
		return n.next
	}
	var own look
	l := v.lookOf(&own, n, around)
	visible, transparent, margin := n.kind&(comment|ignored) == 0, false, byte(0)
	if visible && l != nil {
		switch {
		case l.display == none || l.sized && l.size == 0:
			visible = false
		case l.display == block:
			margin = '\n'
		case l.display == cell:
			margin = ' '
		}
		if transparent = visible && v.faint.of(l); transparent {
			margin = 0
		}
	}
	begin, shown := len(v.text), len(v.shown)
	if visible && n.kind&linking != 0 {
		v.shown = append(v.shown, span{begin, begin}) // one may be within another
	}
	v.margin(margin, begin)
	cur := n.content
	for c := n.child; c >= 0; c = v.nodes[c].after {
		start := v.nodes[c].start
		if start > cur && visible && (n.kind&last == 0 || start <= n.next) && !v.over(int(start-cur), p) {
			v.add(v.source[cur:start], transparent)
		}
		next := v.append(c, l, p)
		if next < start && start > cur { // what was appended comes again
			if v.again += int(start - cur); v.again > len(v.source) || len(v.text) > maxText {
				cur = start
			}
		}
		cur = max(cur, next)
	}
	if cur < n.end && visible && !v.over(int(n.end-cur), p) {
		v.add(v.source[cur:n.end], transparent)
	}
	v.margin(margin, begin)
	switch {
	case !visible:
	case n.kind&linking != 0:
		v.shown[shown].end += v.linked(begin)
	case n.tag == atom.Img && n.mark > 0 && v.marks[n.mark-1].pictured:
		v.blank()
		v.text = append(v.text, v.unescape(scan.Bytes(v.marks[n.mark-1].alt))...)
		v.blank()
	}
	return n.next
}

// lookOf returns how a node looks, in l or in around; nil if that is unknown.
func (v *page) lookOf(l *look, n *node, around *look) *look {
	var said look
	styled := v.sheet.of(&said, n, v.marks)
	switch {
	case n.kind&(bare|empty) == 0:
		if n.mark > 0 {
			*l = v.marks[n.mark-1].look
		}
		l.fill(&said)
		if around != nil {
			l.inherit(around)
		}
	case around != nil:
		*l = *around
		if said.displayed && !around.displayed {
			l.display, l.displayed = said.display, true
		}
	case styled:
		*l = said
	default:
		return nil
	}
	if !l.displayed {
		switch l.display = inline; {
		case n.kind&inBlock != 0:
			l.display = block
		case n.kind&inRow != 0:
			l.display = cell
		}
	}
	return l
}

// margin begins a line or a cell, or ends one, without the blanks behind its text.
func (v *page) margin(c byte, begin int) {
	n := len(v.text)
	if c == 0 || n == 0 || v.text[n-1] == c || v.text[n-1] == '\n' {
		return
	}
	for n > begin && v.text[n-1] == ' ' {
		n--
	}
	v.text = append(v.text[:n], c)
}

// blank appends a blank, if there is none.
func (v *page) blank() {
	if n := len(v.text); n > 0 && !isBlank(v.text[n-1]) {
		v.text = append(v.text, ' ')
	}
}

// add appends a piece of text: runs of white space as a blank, none at its start, and what is
// transparent as so many blanks.
func (v *page) add(piece string, transparent bool) {
	if piece == "" {
		return
	}
	if n := len(v.text); n > 0 && !isBlank(v.text[n-1]) && isBlank(piece[0]) {
		v.text = append(v.text, ' ')
		piece = piece[1:]
	}
	start := len(v.text)
	text := scan.Bytes(piece)
	if v.nul && bytes.IndexByte(text, 0) >= 0 {
		text = bytes.ReplaceAll(text, []byte{0}, []byte("\uFFFD"))
	}
	size := len(text)
	for len(text) > 0 && isBlank(text[0]) {
		text = text[1:]
	}
	v.text = slices.Grow(v.text, len(text))
	for len(text) > 0 {
		n := plainRun(text)
		v.text = append(v.text, text[:n]...)
		if text = text[n:]; len(text) == 0 {
			break
		}
		if text[0] == '&' {
			v.text, n = v.appendReference(v.text, text, size-len(text)-(len(v.text)-start))
			text = text[n:]
			continue
		}
		v.text = append(v.text, ' ')
		for len(text) > 0 && isBlank(text[0]) {
			text = text[1:]
		}
	}
	end := len(v.text)
	for end > start && isBlank(v.text[end-1]) {
		end--
	}
	if end < len(v.text) {
		v.text = append(v.text[:end], ' ')
	}
	if transparent {
		for i, c := range v.text[start:] {
			if !isBlank(c) {
				v.text[start+i] = ' '
			}
		}
	}
}

// plainRun returns how many bytes of text stay as they are: those of words with a space between them.
func plainRun(text []byte) (n int) {
	const ones, low, high = 0x0101010101010101, 0x7F7F7F7F7F7F7F7F, 0x8080808080808080
	for len(text)-n >= 8 {
		eight := binary.LittleEndian.Uint64(text[n:])
		reference := eight ^ '&'*ones
		if ((eight-' '*ones)&^eight|(reference-ones)&^reference)&high != 0 {
			break
		}
		spaces := eight ^ ' '*ones
		spaces = ^(spaces&low + low | spaces | low) // the high bits of those bytes, and of no others
		if spaces&(spaces>>8) != 0 {
			break
		}
		n += 8 - int(spaces>>63) // what follows a space at the end is not known
	}
	for n < len(text) && (!endsRun[text[n]] || text[n] == ' ' && n+1 < len(text) && !endsRun[text[n+1]]) {
		n++
	}
	return n
}

// endsRun marks what may end such a run.
var endsRun = [256]bool{' ': true, '\t': true, '\n': true, '\r': true, '\f': true, '&': true}

// trim takes the blanks from the end, but for a line end that is the last of them.
func (v *page) trim() {
	text := bytes.TrimRight(v.text, " \t\n\r\f")
	if n := len(v.text); len(text) < n && v.text[n-1] == '\n' {
		text = append(text, '\n')
	}
	v.text = text
}

func isBlank(c byte) bool {
	return c <= ' ' && (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f')
}

// linked returns how many bytes from begin on are shown for a link, if they begin like one.
func (v *page) linked(begin int) int {
	shown := bytes.TrimSpace(v.text[min(begin, len(v.text)):])
	const tooShort = 4
	if len(shown) <= tooShort {
		return 0
	}
	first := shown[:min(len(shown), maxShown)]
	triggers := false
	for _, c := range first {
		if isBlank(c) {
			if !triggers {
				return 0
			}
			break
		}
		triggers = triggers || is(c, trigger)
	}
	// Links in links, which no page has, may be looked at no more than others.
	if v.looked += len(first); v.looked > 2*len(v.source)+maxShown {
		return 0
	}
	f := linkFinder{text: first, bare: true}
	is := false
	f.each(func(l span, ok bool) bool {
		is = ok && l.start == 0
		return false
	})
	if !is {
		return 0
	}
	return len(shown)
}

// maxShown is how many bytes of what is shown for a link are looked at.
const maxShown = 4 << 10

// attributes reads those that say how an element looks, and the text that stands for a picture.
func (v *page) attributes(n *node, t *markup.Tokens) {
	const most = 64
	var r attributeReader
	if count, ok := t.Written(); ok {
		for i := range count {
			key, written := t.Attribute(i)
			if !t.Quoted(i) {
				written, _, _ = strings.Cut(written, `"`)
			} else if written == "" {
				continue // as if it were not there
			}
			v.attribute(n, &r, key, written)
		}
	} else {
		count = 0
		t.Attributes(func(key, written string) bool {
			written, _, _ = strings.Cut(written, `"`)
			v.attribute(n, &r, key, written)
			count++
			return count < most
		})
	}
	if r.said {
		r.own.fill(&r.mark.look)
		r.mark.look = r.own
		v.marks = append(v.marks, r.mark)
		n.mark = int32(len(v.marks))
	}
}

// An attributeReader has what was read of the attributes of an element.
type attributeReader struct {
	mark  mark // what they say
	own   look // what those say that count for more than a style
	said  bool // there is something
	known uint8
}

// attribute takes an attribute of n for r. Of those that are repeated the first counts.
func (v *page) attribute(n *node, r *attributeReader, key, written string) {
	name := attributeOf(key)
	if name == 0 || r.known&name != 0 {
		return
	}
	r.known |= name
	switch {
	case name == isClass:
		r.mark.classes = written
	case name == isID:
		r.mark.id = written
	case name == isAlt:
		if n.tag != atom.Img {
			return
		}
		r.mark.alt, r.mark.pictured = written, true
	case n.kind&empty != 0:
		return
	case name == isHref:
		if n.tag == atom.A && leads(written) {
			n.kind |= linking
		}
		return
	case name == isHidden:
		r.own.display, r.own.displayed = none, true
	case name == isColor:
		r.own.coloured = r.own.fg.parse(markup.Value(written))
	case name == isBgcolor:
		r.own.on = r.own.bg.parse(markup.Value(written))
	case name == isStyle:
		r.mark.look = *v.style(written)
	}
	r.said = true
}

// The attributes that are read.
const (
	isClass = 1 << iota
	isID
	isAlt
	isHref
	isHidden
	isColor
	isBgcolor
	isStyle
)

// attributeOf returns which of them has a name, in whatever case, 0 if none has.
func attributeOf(key string) uint8 {
	name, known := "", uint8(0)
	switch len(key) {
	case 2:
		name, known = "id", isID
	case 3:
		name, known = "alt", isAlt
	case 4:
		name, known = "href", isHref
	case 5:
		switch key[1] | 0x20 {
		case 'l':
			name, known = "class", isClass
		case 't':
			name, known = "style", isStyle
		default:
			name, known = "color", isColor
		}
	case 6:
		name, known = "hidden", isHidden
	case 7:
		name, known = "bgcolor", isBgcolor
	default:
		return 0
	}
	for i := range len(name) {
		if key[i]|0x20 != name[i] {
			return 0
		}
	}
	return known
}

// leads reports whether a reference, as it is written, leads to a server, an address or a number, and not to another
// place of the page.
func leads(written string) bool {
	// Most begin with a scheme, which says all.
	i := 0
	for i < len(written) && isAlnum(written[i]) {
		i++
	}
	if i+1 < len(written) && written[i] == ':' && written[i+1] > ' ' && written[i+1] < 0x7f && written[i+1] != '&' {
		return leadsOut(written[:i]) && strings.TrimLeft(written[i+1:], "/") != ""
	}
	reference := strings.TrimSpace(markup.Value(written))
	i = 0
	for i < len(reference) && (isAlnum(reference[i]) || reference[i] >= 0x80) {
		i++
	}
	switch {
	case i == len(reference):
		return false
	case reference[i] == ':':
		return leadsOut(reference[:i]) && strings.TrimLeft(reference[i+1:], "/") != ""
	case i == 0 && !strings.HasPrefix(reference, "//"):
		return false
	}
	host := strings.TrimPrefix(reference, "//")
	if end := strings.IndexAny(host, "/?#"); end >= 0 {
		host = host[:end]
	}
	return isHost([]byte(host[strings.LastIndexByte(host, '@')+1:]))
}

// leadsOut reports whether a scheme is one of those that lead somewhere.
func leadsOut(scheme string) bool {
	switch strings.ToLower(scheme) {
	case "http", "https", "ftp", "file", "mailto", "tel", "callto":
		return true
	}
	return false
}

// maxReference is how long a character reference is at most, in bytes.
const maxReference = 40

// unescape resolves the character references of text.
func (v *page) unescape(text []byte) []byte {
	if bytes.IndexByte(text, '&') < 0 {
		return text
	}
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		n := bytes.IndexByte(text, '&')
		if n < 0 {
			return append(out, text...)
		}
		out = append(out, text[:n]...)
		text = text[n:]
		out, n = v.appendReference(out, text, 0)
		text = text[n:]
	}
	return out
}

// appendReference appends what the character reference at the start of text stands for, and
// returns how many bytes it has: up to a semicolon, which goes with it, or to white space. One
// that means nothing stands for itself, and twice at the end of a piece of text that has become shorter by as many bytes
// before.
func (v *page) appendReference(dst, text []byte, saved int) ([]byte, int) {
	end := 1
	number := len(text) > 1 && text[1] == '#'
	if number {
		if end++; end < len(text) && text[end]|0x20 == 'x' {
			end++
		}
		for end < len(text) && end < maxReference && (text[end] >= '0' && text[end] <= '9' || text[2]|0x20 == 'x' && isHex(text[end])) {
			end++
		}
		if end > 2 && (end == len(text) || text[end] != ';') && text[end-1] != '#' {
			return appendNumbered(dst, text[2:end]), end
		}
	}
	for end < len(text) && end < maxReference && text[end] != ';' && text[end] != '&' && !isBlank(text[end]) {
		end++
	}
	if end == len(text) || text[end] == '&' || end == maxReference {
		// Nothing ends it.
		if end == len(text) && !number {
			if out, n := v.appendNamed(dst, text[:end]); n > 0 {
				return out, n
			}
		}
		if end == len(text) && end <= saved && end > 1 && (!number || end > 2) {
			dst = append(dst, text...)
		}
		return append(dst, text[:end]...), end
	}
	after := end
	if text[end] == ';' {
		after++
	}
	if number {
		return appendNumbered(dst, text[2:end]), after
	}
	if out, n := v.appendNamed(dst, text[:end]); n == end {
		return out, after
	} else if n > 0 {
		return out, n
	}
	return append(dst, text[:end]...), after
}

// A knownReference is a named reference, and what it stands for.
type knownReference struct {
	name    uint64 // its bytes behind "&", of which the first is not 0; 0 for none
	meaning string
	size    int // see meaningOf
}

// appendNamed appends what the reference at the start of text, "&" and a name, stands for,
// and returns how many bytes of it count: all, or up to five letters. A text repeats few of them.
func (v *page) appendNamed(dst, text []byte) ([]byte, int) {
	const longest = 8
	if len(text) > 1+longest || len(text) < 2 || text[1] == 0 {
		meaning, size := meaningOf(text)
		return append(dst, meaning...), size
	}
	name := uint64(0)
	for _, c := range text[1:] {
		name = name<<8 | uint64(c)
	}
	known := &v.named[name*nameSeed>>(64-6)]
	if known.name != name {
		meaning, size := meaningOf(text)
		*known = knownReference{name, meaning, size}
	}
	return append(dst, known.meaning...), known.size
}

// meaningOf returns what the reference at the start of text stands for, and how many bytes of it count, 0 for none.
func meaningOf(text []byte) (string, int) {
	for n := len(text); n > 2; n-- {
		if n < len(text) && n > 6 {
			n = 6
		}
		reference := string(text[:n]) + ";"
		if n < len(text) {
			// Without a semicolon, only names that HTML always had.
			reference = reference[:n]
		}
		if meaning := html.UnescapeString(reference); len(meaning) < len(reference) && meaning[len(meaning)-1] != ';' && (meaning[0] != '&' || len(meaning) == 1) {
			if strings.HasPrefix(reference, "&nbsp") {
				meaning = strings.Replace(meaning, "\u00a0", " ", 1) // perhaps with a letter behind the name
			}
			return meaning, n
		}
	}
	return "", 0
}

func isHex(c byte) bool {
	_, ok := scan.Hex(c)
	return ok
}

// appendNumbered appends the character of a numeric reference: its code point, whatever
// browsers make of it.
func appendNumbered(out, number []byte) []byte {
	base := 10
	if len(number) > 0 && number[0]|0x20 == 'x' {
		number, base = number[1:], 16
	}
	n := 0
	for _, c := range number {
		if digit, ok := scan.Hex(c); !ok || int(digit) >= base || n >= 1<<21 {
			n = 0
			break
		} else {
			n = n*base + int(digit)
		}
	}
	switch {
	case n == 0xa0:
		return append(out, ' ')
	case n == 0:
		return utf8.AppendRune(out, utf8.RuneError)
	}
	return utf8.AppendRune(out, rune(n))
}
