package seen

import (
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/bulkhead-mail/bulkhead/internal/text/css"
)

// Comparisons of elements with selectors that a page may take: a number, and a number for each byte.
const (
	leastSteps   = 1 << 10
	stepsPerByte = 3
)

// restart takes back what was read.
func (v *visible) restart(size int) {
	v.dst, v.quotes, v.skip, v.anchor = v.dst[:v.start], 0, 0, anchor{}
	v.box, v.beside = 0, beside{}
	writes := v.sheet.writes
	v.styling = styling{look: firstLook, frames: v.frames[:0], styles: v.styles, links: linkBlue, letters: black,
		quirks: v.quirks}
	v.sheet.writes, v.sheet.room = writes, size
	v.sheet.match = css.Match{Steps: leastSteps + stepsPerByte*size, Fold: v.quirks}
	if v.page == nil {
		return
	}
	v.hrefs += len(v.page.Links)
	v.page.Links, v.page.Anchors, v.page.Alt = v.page.Links[:0], v.page.Anchors[:0], v.page.Alt[:0]
	clear(v.known)
}

// node reads a node and what is in it. The library limits the depth of a tree.
func (v *visible) node(n *html.Node) {
	switch n.Type {
	case html.TextNode:
		if v.beside.is == asInline && v.rowBlank(n.Data, n.Parent.DataAtom) {
			return
		}
		blank := v.veil == faint && strings.Trim(n.Data, " \t\r\n\f") == ""
		if (blank || v.shows(n.Data)) && !closed(n.Parent) && !v.full() && !v.pace.Over(len(n.Data)) {
			v.text([]byte(n.Data))
		}
		return
	case html.ElementNode:
	default:
		v.nodes(n)
		return
	}
	known := v.named(n)
	name := &known
	var t tagged
	size := len(n.Data)
	for i := range n.Attr {
		size += len(n.Attr[i].Key) + len(n.Attr[i].Val)
		// Values are read with their character references.
		v.attribute(&t, name.tag, n.Attr[i].Key, strings.ReplaceAll(n.Attr[i].Val, "&", "&amp;"))
	}
	if v.pace.Over(size) || v.done() {
		return
	}
	rules := declared(v.sheet.of(n, css.Whole))
	inner, as := v.inside(name, &t, rules)
	if v.sheet.unsure {
		inner.veil = 0
	}
	if closed(n.Parent) && n.Data != "summary" {
		inner.veil |= gone
	}
	v.element(name, &t, inner.veil)
	before, at := v.look, len(v.dst)
	empty := name.is&void != 0 && name.tag != atom.Head && n.Namespace == ""
	if !empty {
		v.look = inner
	}
	if name.is&unseen == 0 {
		if name.is&void == 0 || inner.veil&gone == 0 {
			v.opens(name, as)
		}
		v.field(name.tag, &t, rules)
		v.content(n, name, before)
	}
	if name.tag == atom.A && v.page != nil {
		v.endAnchor()
	}
	within := v.veil&gone != 0
	if v.look = before; !empty && name.is&unseen == 0 {
		v.closes(name, as, within, at)
	}
}

// content reads what is in an element, and what style sheets write there. around is the look outside of it.
func (v *visible) content(n *html.Node, name *knownName, around look) {
	turn := v.beginTurn(around)
	v.insert(n, name, css.Before)
	v.nodes(n)
	v.insert(n, name, css.After)
	v.endTurn(turn)
}

// closed reports whether n shows its summary alone.
func closed(n *html.Node) bool {
	return n.Data == "details" && !slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "open" })
}

func (v *visible) nodes(of *html.Node) {
	for child := of.FirstChild; child != nil; child = child.NextSibling {
		v.node(child)
	}
}

// named returns the meaning of the name of an element.
func (v *visible) named(n *html.Node) knownName {
	v.name = append(append(v.name[:0], n.Data...), ' ')
	known := meaningOf(n.DataAtom)
	if len(v.name) <= len(known.lower) {
		known.size = uint8(copy(known.lower[:], v.name))
	}
	return known
}

// quirky reports whether browsers read a page by the rules from before the standards: it has no document type, or
// an old one.
//
// Source: WHATWG HTML, 13.2.6.4.1 The "initial" insertion mode.
func quirky(source string) bool {
	const longest = 1 << 10
	begin := strings.ToLower(source[:min(len(source), longest)])
	_, kind, ok := strings.Cut(begin, "<!doctype")
	if !ok {
		return true
	}
	kind, _, _ = strings.Cut(kind, ">")
	transitional := strings.Contains(kind, "html 4.01 transitional") || strings.Contains(kind, "html 4.01 frameset")
	for _, old := range []string{"html 4.0 ", "html 3", "html 2", "//ietf//", "html//en\""} {
		if strings.Contains(kind, old) {
			return true
		}
	}
	return transitional && !strings.Contains(kind, "http")
}
