package mail

import (
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// tree reads a page from the tree that the HTML standard builds of it, and reports whether there is one.
func (v *visible) tree(source string) bool {
	if v.pace.Over(len(source)) {
		return false
	}
	root, err := html.ParseWithOptions(strings.NewReader(source), html.ParseOptionEnableScripting(false))
	if err != nil {
		return false // too deep
	}
	v.restart()
	v.node(root)
	return true
}

// restart takes back what was read.
func (v *visible) restart() {
	v.dst, v.frames, v.veil, v.open, v.quotes, v.skip, v.anchor = v.dst[:v.start], v.frames[:0], 0, counts{}, 0, 0, 0
	if v.page == nil {
		return
	}
	v.hrefs += len(v.page.Links)
	v.page.Links, v.page.Anchors, v.page.Markup = v.page.Links[:0], v.page.Anchors[:0], v.page.Markup[:0]
	clear(v.known)
}

// node reads a node and what is in it. The library limits the depth of a tree.
func (v *visible) node(n *html.Node) {
	switch n.Type {
	case html.TextNode:
		if v.veil == 0 && !v.full() && !v.pace.Over(len(n.Data)) {
			v.text([]byte(n.Data))
		}
		return
	case html.ElementNode:
	default:
		v.nodes(n)
		return
	}
	name := v.named(n.Data)
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
	v.element(name, &t)
	before := v.veil
	empty := name.is&void != 0 && name.tag != atom.Head && n.Namespace == ""
	if !empty {
		v.veil = v.veil&^t.veils.off | t.veils.on
	}
	if name.is&unseen == 0 {
		v.opens(name)
		v.nodes(n)
	}
	if name.tag == atom.A && v.page != nil {
		v.endAnchor()
	}
	within := v.veil&gone != 0
	if v.veil = before; !empty && name.is&unseen == 0 {
		v.closes(name, within)
	}
}

func (v *visible) nodes(of *html.Node) {
	for child := of.FirstChild; child != nil; child = child.NextSibling {
		v.node(child)
	}
}

// named returns the meaning of the name of an element.
func (v *visible) named(name string) *knownName {
	v.name = append(append(v.name[:0], name...), ' ')
	tag := atom.Lookup(v.name[:len(v.name)-1])
	known := &knownName{tag: tag, is: natureOf(tag), holds: containerOf(tag)}
	if len(v.name) <= len(known.lower) {
		known.size = uint8(copy(known.lower[:], v.name))
	}
	return known
}
