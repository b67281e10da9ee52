package rspamd

import (
	"bytes"
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

// Limits for the reader of pages.
const (
	maxTag   = 64 << 10 // bytes of a tag; a longer one ends the page
	maxNodes = 8192     // elements and comments; behind the last, everything is text
	maxStyle = 4 << 10  // bytes of a style that are read
)

// A page is the visible text of HTML, as rspamd extracts it.
//
// Source: docs/specs/rspamd-fuzzy.md#visible-text.
type page struct {
	source   string
	nul      bool // the source has a NUL byte
	text     []byte
	shown    []span             // texts of links that look like links themselves, in order
	examined int                // number of bytes read for shown
	work     int                // bytes of work not yet reported to pace
	again    int                // number of bytes of the source that were appended twice
	name     []byte             // of the present tag
	named    [64]knownReference // character references read recently
	names    [256]knownName     // names of tags read recently
	looks    [64]knownLook      // styles read recently
	nodes    []node
	marks    []mark
	sheet    sheet               // style sheets of the page
	root     int32               // noNode if there is none
	opened   map[atom.Atom]int32 // number of open elements by name
}

// A node is an element, a comment, or an end tag that ends nothing. All indexes are in the source,
// all nodes are indexes of page.nodes. The text of the node and its children is source[content:end].
type node struct {
	tag            atom.Atom // or a hash of another name
	kind           kind
	start, content int32 // start of the tag and of the content
	end, next      int32 // end of the content and of the end tag; -1 for unknown
	parent         int32
	child, last    int32 // the first and the last child
	after          int32 // the next node of the parent
	mark           int32 // 1 + the index of its mark in page.marks, 0 for none
}

// A mark holds the attributes of an element that matter.
type mark struct {
	look        look
	alt         string // text in place of a picture
	pictured    bool   // alt is set, perhaps to ""
	id, classes string // for selectors of style sheets
}

// A kind is a set of properties of an element.
type kind uint16

const (
	empty   kind = 1 << iota // has no content
	inHead                   // not shown, nor its content
	inBlock                  // on lines of its own
	inRow                    // a cell of a table
	closed                   // has ended
	ignored                  // its own text is not shown
	comment                  // its own text is not shown either
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
	case atom.Address, atom.Blockquote, atom.Caption, atom.Center, atom.Colgroup, atom.Del, atom.Dir, atom.Div,
		atom.Dl, atom.Fieldset, atom.Form,
		atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Ins, atom.Listing, atom.Menu, atom.Noframes,
		atom.Noscript, atom.Ol, atom.P,
		atom.Plaintext, atom.Pre, atom.Table, atom.Tbody, atom.Tfoot, atom.Thead, atom.Tr, atom.Ul, atom.Xmp:
		return inBlock
	case atom.Td, atom.Th:
		return inRow
	}
	return 0
}

// pages recycles the memory of pages. It holds no state.
var pages = sync.Pool{New: func() any { return &page{opened: make(map[atom.Atom]int32)} }}

// maxSpare is the greatest size in bytes of the memory of a page that is recycled.
const maxSpare = 1 << 20

// maxTags is the greatest number of different names in a page that is recycled.
const maxTags = 256

// back recycles v. The caller must not use it afterwards.
func (v *page) back() {
	const nodeSize, markSize = 44, 64
	if cap(v.text)+nodeSize*cap(v.nodes)+markSize*cap(v.marks) > maxSpare || len(v.opened) > maxTags {
		return
	}
	clear(v.marks) // release the source
	clear(v.looks[:])
	clear(v.opened)
	v.source, v.text, v.shown, v.nodes, v.marks = "", v.text[:0], v.shown[:0], v.nodes[:0], v.marks[:0]
	v.sheet = sheet{}
	pages.Put(v)
}

// readPage returns the text of a page. The caller may recycle it by back.
func readPage(source string, p *pace.Pace) *page {
	v := pages.Get().(*page)
	v.source, v.nul, v.root = source, strings.IndexByte(source, 0) >= 0, noNode
	v.examined, v.work, v.again = 0, 0, 0
	v.text = slices.Grow(v.text, min(len(source)/4, maxText))
	textFrom := v.parse(p)
	if v.root >= 0 {
		v.append(v.root, nil, p)
	}
	v.add(source[textFrom:], false)
	v.trim()
	v.shown = slices.DeleteFunc(v.shown, func(s span) bool { return s.start == s.end })
	return v
}

// over reports n bytes of work to p, many pieces at a time, and reports whether p has ended.
func (v *page) over(n int, p *pace.Pace) bool {
	if v.work += n; v.work < pace.Step/16 {
		return false
	}
	n, v.work = v.work, 0
	return p.Over(n)
}

// noNode is the index of no node.
const noNode = -1

// newNode appends a node without a parent. It invalidates pointers to nodes.
func (v *page) newNode(tag atom.Atom, kind kind) (at int32, n *node) {
	at = int32(len(v.nodes))
	v.nodes = append(v.nodes, node{})
	n = &v.nodes[at]
	n.tag, n.kind, n.end, n.next = tag, kind, -1, -1
	n.parent, n.child, n.last, n.after = noNode, noNode, noNode, noNode
	return at, n
}

// A parser reads the tags of a page into its nodes.
type parser struct {
	*page
	place       place
	cur, parent int32 // the element that holds what follows, and its parent; noNode behind an end tag
}

// A place is a part of a page.
type place uint8

const (
	beforeTags place = iota
	inPageHead
	inPageBody
)

// parse reads the tags, and returns the index in the source from which all is text.
func (v *page) parse(p *pace.Pace) (textFrom int) {
	r := parser{page: v, cur: noNode, parent: noNode}
	t := markup.Over(v.source, maxTag)
	at, torn := 0, false
	for !torn && t.Next() {
		start, size := at, len(t.Raw())
		if v.over(size, p) {
			break
		}
		at += size
		if len(v.nodes) > maxNodes {
			return start
		}
		switch kind := t.Kind(); {
		case kind == markup.Text:
			if start == 0 { // text before all tags is in an element of its own
				v.root = v.begin()
				r.cur, r.place = v.root, inPageBody
			}
		case kind == markup.Other && isBogus(t.Raw()):
			r.cur = noNode
		case kind == markup.Other && at == len(v.source) && isUnfinished(t.Raw()):
			torn = true
		case kind == markup.End:
			r.endTag(&t, int32(start), int32(at))
		case r.startTag(&t, int32(start), int32(at)):
			n := rawText(v.source[at:])
			if !p.Over(n) {
				at += n
				t = markup.Over(v.source[at:], maxTag)
			}
		}
	}
	// An unfinished tag replaces the element that the end of the page would end.
	torn = torn || at < len(v.source) && !t.TooLong() || strings.HasSuffix(v.source, "</")
	if r.cur >= 0 && !torn && v.nodes[r.cur].kind&closed == 0 {
		v.close(r.cur, int32(len(v.source)), int32(len(v.source)))
	}
	return len(v.source)
}

// endTag reads an end tag of the source from start to end.
func (r *parser) endTag(t *markup.Tokens, start, end int32) {
	if r.cur == noNode {
		r.cur = r.parent
	}
	tag, kind := r.tag(t)
	if r.place == inPageHead && tag == atom.Head {
		r.place = inPageBody
	}
	r.cur, r.parent = r.end(tag, kind, r.cur, r.parent, start, end)
}

// startTag reads a start tag or a comment of the source from start to end, and reports whether raw text follows.
func (r *parser) startTag(t *markup.Tokens, start, end int32) (raw bool) {
	if r.cur >= 0 && r.nodes[r.cur].kind&(empty|closed) == 0 {
		r.parent = r.cur
	}
	made, n := r.newNode(0, 0)
	n.start, n.content = start, end
	if t.Kind() == markup.Other {
		if n.kind = comment | closed; isTorn(t.Raw()) {
			n.content = 0
		}
		r.setPlace(n)
	} else {
		n.tag, n.kind = r.tag(t)
		raw = n.tag == atom.Style || n.tag == atom.Script || n.tag == atom.Noscript
		t.NotRaw()
		if t.Kind() == markup.SelfClosing {
			n.kind |= closed
		}
		r.setPlace(n)
		r.attributes(n, t)
	}
	r.cur, r.parent = r.open(made, r.parent)
	return raw
}

// setPlace updates the place in the page for the new node n, and marks n if it belongs to the head.
func (r *parser) setPlace(n *node) {
	switch {
	case r.place == beforeTags && (n.tag == atom.Head || n.kind&inHead != 0):
		r.place = inPageHead
		n.kind |= ignored
	case r.place == beforeTags && n.tag != atom.Html:
		r.place = inPageBody
	case r.place != inPageHead || n.kind&(empty|inHead) != 0:
	case r.parent >= 0 && (r.nodes[r.parent].tag == atom.Head || r.nodes[r.parent].kind&inHead == 0):
		parent := &r.nodes[r.parent]
		r.ended(parent)
		parent.end, parent.next = n.start, n.content
		r.place = inPageBody
	case n.tag == atom.Body:
		r.place = inPageBody
	default:
		n.kind |= inHead
	}
}

// isBogus reports whether a tag is an end tag without a name, which is text.
func isBogus(tag string) bool { return strings.HasPrefix(tag, "</") }

// isUnfinished reports whether a comment, or a similar construct, has no end.
func isUnfinished(tag string) bool {
	if strings.HasPrefix(tag, "<!--") {
		return !isTorn(tag) && !strings.HasSuffix(tag, "-->")
	}
	return !strings.HasSuffix(tag, ">")
}

// isTorn reports whether rspamd misses the end of a comment, or of a similar construct.
func isTorn(tag string) bool {
	if strings.HasPrefix(tag, "<?") {
		return strings.IndexByte(tag[2:], '?') < 0
	}
	return tag == "<!-->" || tag == "<!--->"
}

// rawText returns the size of the content of a script, or a similar element, at the start of text. A short end tag of
// any element ends it.
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

// open links the new node of a start tag to its parent. It returns the node that contains what follows, and its parent.
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

// begin adds the outermost element of a page that does not begin with one.
func (v *page) begin() int32 {
	at, n := v.newNode(atom.Html, bare)
	v.put(at, n, noNode)
	return at
}

// put makes a new node the last child of parent, if parent is a node.
func (v *page) put(at int32, n *node, parent int32) {
	if n.kind&closed == 0 {
		v.opened[n.tag]++
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

// ended marks a node as ended.
func (v *page) ended(n *node) {
	if n.kind&closed == 0 {
		n.kind |= closed
		v.opened[n.tag]--
	}
}

// close sets the end of a node.
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

// end reads an end tag. If it ends an element around the innermost one, it ends all elements, and
// what follows is in the outermost. It returns the node that contains what follows, and its parent.
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
		} else if v.opened[tag] > 0 { // it is around this one
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

// nameSeed multiplies names into hashes, in the high bits.
const nameSeed = 0x9E3779B97F4A7C15

// A knownName caches the meaning of the name of a tag.
type knownName struct {
	name uint64 // its bytes, see markup.Tokens.ShortName; 0 for none
	tag  atom.Atom
	kind kind
}

// tag returns the name of the present tag, or a hash if HTML has no such element, and the kind of the element. Pages
// repeat few names.
func (v *page) tag(t *markup.Tokens) (atom.Atom, kind) {
	name := t.ShortName()
	known := &v.names[name*nameSeed>>(64-8)]
	if known.name != name || name == 0 {
		*known = knownName{name: name, tag: v.unknown(t)}
		known.kind = kindOf(known.tag)
	}
	return known.tag, known.kind
}

// unknown looks up the name of the present tag.
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

// append appends the text of a node and its children, and returns the index behind the node. around is
// the look of its parent, nil if unknown.
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
		if transparent = visible && l.transparent(); transparent {
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
		if next < start && start > cur { // text that was appended already
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

// lookOf returns the look of a node, in l or in around; nil if it is unknown.
func (v *page) lookOf(l *look, n *node, around *look) *look {
	var declared look
	styled := v.sheet.of(&declared, n, v.marks)
	switch {
	case n.kind&(bare|empty) == 0:
		if n.mark > 0 {
			*l = v.marks[n.mark-1].look
		}
		l.fill(&declared)
		if around != nil {
			l.inherit(around)
		}
	case around != nil:
		*l = *around
		if declared.displayed && !around.displayed {
			l.display, l.displayed = declared.display, true
		}
	case styled:
		*l = declared
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

// margin begins or ends a line or a cell, and removes the blanks behind its text.
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

// blank appends a blank unless the text ends in white space.
func (v *page) blank() {
	if n := len(v.text); n > 0 && !isBlank(v.text[n-1]) {
		v.text = append(v.text, ' ')
	}
}

// add appends a piece of text. Runs of white space become one blank, none at the start. Each
// byte of transparent text becomes a blank.
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

// plainRun returns the length of the longest prefix of text that is copied unchanged: words with single spaces between
// them, without references.
func plainRun(text []byte) (n int) {
	for n < len(text) && (!endsRun[text[n]] || text[n] == ' ' && n+1 < len(text) && !endsRun[text[n+1]]) {
		n++
	}
	return n
}

// endsRun marks the bytes that may end such a run.
var endsRun = [256]bool{' ': true, '\t': true, '\n': true, '\r': true, '\f': true, '&': true}

// trim removes white space from the end, except a line end that is the last byte.
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

// linked returns the size of the text of a link, which starts at begin, if the text looks like a link, else 0.
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
	// This bounds the work for links in links, which no real page has.
	if v.examined += len(first); v.examined > 2*len(v.source)+maxShown {
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

// maxShown is the number of bytes of the text of a link that are read.
const maxShown = 4 << 10

// attributes reads the attributes of n that matter.
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
	if r.found {
		r.own.fill(&r.mark.look)
		r.mark.look = r.own
		v.marks = append(v.marks, r.mark)
		n.mark = int32(len(v.marks))
	}
}

// An attributeReader collects the attributes of an element.
type attributeReader struct {
	mark  mark
	own   look  // from attributes that override the style
	found bool  // at least one attribute matters
	known uint8 // attributes read so far
}

// attribute adds an attribute of n to r. The first of repeated attributes counts.
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
	r.found = true
}

// The attributes that matter.
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

// attributeOf returns the attribute with a name, in any case, or 0.
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

// leads reports whether a reference, as written, leads to a server, an address or a telephone number, and not to
// another place in the page.
func leads(written string) bool {
	// Most begin with a scheme, which decides alone.
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

// leadsOut reports whether a scheme leads out of the page.
func leadsOut(scheme string) bool {
	switch strings.ToLower(scheme) {
	case "http", "https", "ftp", "file", "mailto", "tel", "callto":
		return true
	}
	return false
}

// maxReference is the greatest size of a character reference, in bytes.
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

// appendReference appends the meaning of the character reference at the start of text, and
// returns its size: up to and including a semicolon, or up to white space. A reference without a
// meaning stands for itself. Like rspamd, it is doubled at the end of a piece of text that has
// become shorter by at least its size, saved.
func (v *page) appendReference(dst, text []byte, saved int) ([]byte, int) {
	end := 1
	number := len(text) > 1 && text[1] == '#'
	if number {
		if end++; end < len(text) && text[end]|0x20 == 'x' {
			end++
		}
		for end < len(text) && end < maxReference && (text[end] >= '0' && text[end] <= '9' || text[2]|0x20 == 'x' &&
			isHex(text[end])) {
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

// A knownReference caches the meaning of a named reference.
type knownReference struct {
	name    uint64 // its bytes behind "&", the first of which is not 0; 0 for none
	meaning string
	size    int // see meaningOf
}

// appendNamed appends the meaning of the reference at the start of text, "&" and a name, and
// returns the size of the part that counts: all, or up to five letters. Texts repeat few references.
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

// meaningOf returns the meaning of the reference at the start of text and the size of the part that counts, 0 for none.
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
		if meaning := html.UnescapeString(reference); len(meaning) < len(reference) &&
			meaning[len(meaning)-1] != ';' && (meaning[0] != '&' || len(meaning) == 1) {
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

// appendNumbered appends the character with the code point of a numeric reference. Unlike browsers,
// it replaces no code points.
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
