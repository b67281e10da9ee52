package seen

import (
	"slices"

	"golang.org/x/net/html/atom"
)

// A shape follows the tags of a page and finds out whether a browser builds the tree that they describe.
// In a regular page each end tag closes the element that was opened last, and no element stands where
// the standard moves it, drops it, or ends others before it. Where nothing is hidden, it does not matter.
type shape struct {
	open      []atom.Atom // elements, outermost first
	hides     bool        // an element hides what is in it
	irregular bool
	costly    bool              // a tree of what follows could take much more time or memory than the page
	work      int               // what the library may take for a tree, less what the bytes that were read allow
	begun     bool              // the body, with a text or with an element that no head has
	foreign   bool              // there are elements of SVG or MathML
	ended     bool              // the body
	styled    int               // formatting elements that are open, also by the rules of the standard
	attached  int               // attributes of html and body, of which the library has one list each
	alike     [len(formats)]int // open formatting elements of one name
	count     [len(soloists)]int
}

// Limits of the pages that trees are built of. The library searches the open elements at each tag, opens
// formatting elements again, and compares the attributes of these with each other. A step is one comparison.
const (
	maxTreeDepth  = 400       // open elements; the library has 512
	leastTreeWork = 128 << 10 // steps that any page may take
	treeWork      = 32        // steps for each byte of the page
	treeCopy      = 48        // steps that a copy of an element takes
)

// soloists are elements that the standard does not nest.
var soloists = [...]atom.Atom{atom.A, atom.Nobr, atom.Button, atom.Form, atom.P, atom.Li, atom.Dd, atom.Dt, atom.Option,
	atom.Select, atom.Body, atom.Html, atom.Head, atom.Optgroup}

// Places of some soloists.
const (
	placeP      = 4
	placeDd     = 6
	placeDt     = 7
	placeOption = 8
	placeSelect = 9
)

// endsParagraphs are the elements whose start tags end a paragraph.
//
// Source: WHATWG HTML, 13.2.6.4.7 The "in body" insertion mode.
var endsParagraphs = atomSet(atom.Address, atom.Article, atom.Aside, atom.Blockquote, atom.Center, atom.Details,
	atom.Dialog,
	atom.Dir, atom.Div, atom.Dl, atom.Fieldset, atom.Figcaption, atom.Figure, atom.Footer, atom.Header, atom.Hgroup,
	atom.Main, atom.Menu, atom.Nav, atom.Ol, atom.P, atom.Section, atom.Summary, atom.Ul, atom.H1, atom.H2, atom.H3,
	atom.H4, atom.H5, atom.H6, atom.Pre, atom.Listing, atom.Form, atom.Table, atom.Hr, atom.Li, atom.Dd, atom.Dt,
	atom.Plaintext, atom.Xmp)

// rebuilt are the elements of which a tree follows rules of its own.
var rebuilt = atomSet(atom.Svg, atom.Math, atom.Frameset, atom.Frame, atom.Plaintext, atom.Ruby, atom.Rb, atom.Rt,
	atom.Rtc,
	atom.Rp, atom.Isindex)

// tableParents are the elements of tables that have other elements of tables in them, and nothing else.
var tableParents = atomSet(atom.Table, atom.Tbody, atom.Thead, atom.Tfoot, atom.Tr, atom.Colgroup)

// tableParts are the elements that a browser ignores outside of a table, besides rows and groups of rows.
var tableParts = atomSet(atom.Td, atom.Th, atom.Caption, atom.Col, atom.Colgroup)

// formats are the elements that the standard opens again, and formatting their places in it.
var (
	formats = [...]atom.Atom{atom.A, atom.B, atom.Big, atom.Code, atom.Em, atom.Font, atom.I, atom.Nobr, atom.S,
		atom.Small, atom.Strike, atom.Strong, atom.Tt, atom.U}
	formatting = func() map[atom.Atom]int {
		places := make(map[atom.Atom]int, len(formats))
		for i, a := range formats {
			places[a] = i
		}
		return places
	}()
)

func atomSet(atoms ...atom.Atom) map[atom.Atom]bool {
	set := make(map[atom.Atom]bool, len(atoms))
	for _, a := range atoms {
		set[a] = true
	}
	return set
}

// renew forgets all, and keeps the memory.
func (s *shape) renew() { *s = shape{open: s.open[:0]} }

func (s *shape) parent() atom.Atom {
	if len(s.open) == 0 {
		return 0
	}
	return s.open[len(s.open)-1]
}

// read takes bytes of the page, which allow for work.
func (s *shape) read(n int) { s.work -= treeWork * n }

// spend takes steps.
func (s *shape) spend(n int) {
	s.work += n
	s.costly = s.costly || s.work > leastTreeWork
}

// divides reports whether what follows may be read by a tree of its own: not in a head, nor between the cells of a
// table, where the tree is not as the tags are, nor within a select.
func (s *shape) divides() bool {
	if !s.begun || s.count[placeSelect] > 0 {
		return false
	}
	for _, tag := range slices.Backward(s.open) {
		switch {
		case tag == atom.Td || tag == atom.Th || tag == atom.Caption:
			return true
		case tableParents[tag]:
			return false
		}
	}
	return true
}

// text takes text that is not blank.
func (s *shape) text() {
	s.begun = true
	s.reopen()
	if s.ended || tableParents[s.parent()] {
		s.irregular = true
	}
}

// reopen spends what it takes to open formatting elements again that ended with the element around them.
func (s *shape) reopen() {
	if s.irregular {
		s.spend(treeCopy * s.styled)
	}
}

// start takes a start tag. An element that is void or unseen has no content here.
func (s *shape) start(name *knownName, selfClosing bool, attributes int) {
	tag, parent := name.tag, s.parent()
	solo := slices.Index(soloists[:], tag)
	switch {
	case s.ended, rebuilt[tag], selfClosing && name.is&void == 0, !s.fits(tag, parent),
		s.count[placeSelect] > 0 && tag != atom.Option && tag != atom.Optgroup,
		s.count[placeP] > 0 && endsParagraphs[tag],
		solo >= 0 && s.count[solo] > 0 && parent != atom.Ul && parent != atom.Ol && parent != atom.Dl,
		tag == atom.Optgroup && s.count[placeOption] > 0,
		(tag == atom.Dd || tag == atom.Dt) && parent != atom.Dl && s.count[placeDd]+s.count[placeDt] > 0,
		isHeading(tag) && isHeading(parent):
		s.irregular = true
		// In such a place an element may be shown that is not shown elsewhere.
		s.hides = s.hides || name.is&unseen != 0 || rebuilt[tag]
	}
	switch tag {
	case atom.Svg, atom.Math:
		s.foreign, s.begun = true, true
	case atom.Html, atom.Head, atom.Title, atom.Meta, atom.Link, atom.Base, atom.Style, atom.Script, atom.Template,
		atom.Noscript:
	default:
		s.begun = true
	}
	s.spend(len(s.open))
	s.reopen()
	if tag == atom.Html || tag == atom.Body {
		s.attached += attributes
		s.spend(treeCopy * s.attached)
	}
	if place, ok := formatting[tag]; ok {
		s.spend(s.alike[place] * attributes * attributes / 4)
		s.styled++
		s.alike[place]++
	}
	if name.is&(void|unseen) != 0 && tag != atom.Head {
		return
	}
	if len(s.open) == maxTreeDepth {
		s.costly = true
		return
	}
	s.open = append(s.open, tag)
	if solo >= 0 {
		s.count[solo]++
	}
}

// fits reports whether the standard leaves an element where its start tag stands, below parent.
func (s *shape) fits(tag, parent atom.Atom) bool {
	switch tag {
	case atom.Td, atom.Th:
		return parent == atom.Tr
	case atom.Tr:
		return parent == atom.Table || parent == atom.Tbody || parent == atom.Thead || parent == atom.Tfoot
	case atom.Tbody, atom.Thead, atom.Tfoot, atom.Caption, atom.Colgroup:
		return parent == atom.Table
	case atom.Col:
		return parent == atom.Colgroup
	case atom.Html:
		return !s.begun && parent == 0
	case atom.Head, atom.Body:
		return !s.begun && (parent == 0 || parent == atom.Html)
	case atom.Noscript:
		return s.begun // it has rules of its own in a head
	case atom.Script, atom.Style, atom.Template:
		return true
	}
	return !tableParents[parent]
}

func isHeading(tag atom.Atom) bool {
	switch tag {
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		return true
	}
	return false
}

// end takes an end tag, and reports whether it may end a line. One of an element that is not open means nothing, but
// may seem to end another of its kind. A browser adds what follows the body to the body.
func (s *shape) end(name *knownName) bool {
	tag := name.tag
	s.spend(len(s.open))
	if tag == atom.Body || tag == atom.Html {
		s.ended = true
		return false
	}
	at := len(s.open) - 1
	for at >= 0 && s.open[at] != tag {
		at--
	}
	if at < 0 {
		s.irregular = s.irregular || name.holds != noContainer || isHeading(tag) || tag == 0
		return tag == atom.P || tag == atom.Br || isHeading(tag)
	}
	s.irregular = s.irregular || at < len(s.open)-1
	for _, closed := range s.open[at:] {
		if solo := slices.Index(soloists[:], closed); solo >= 0 {
			s.count[solo]--
		}
	}
	if place, ok := formatting[tag]; ok {
		s.styled--
		s.alike[place]--
	}
	s.open = s.open[:at]
	return true
}
