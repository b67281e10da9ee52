package seen

import (
	"math"
	"strings"

	"golang.org/x/net/html/atom"

	"github.com/bulkhead-mail/bulkhead/internal/text/markup"
)

// A styling is what is known of the styles of a page, and how text looks at this point of the page.
type styling struct {
	look
	frames  []frame                  // the elements that changed the look, outermost first
	open    counts                   // open containers
	styles  map[string][]declaration // by how they are written
	sheet   sheet
	tones   tones
	quirks  bool   // there is no document type, and old rules apply
	links   colour // of links that have no other
	letters colour // of the body
	ran     int    // letters of the present line that may be out of the page
	broken  bool   // the line is not the first one of its block
	turns   []turn // pieces of the present line
}

// A frame is an element that changes what is seen of what is inside of it.
type frame struct {
	tag    atom.Atom
	nested int    // open elements of the same name within
	before look   // what there was around it
	flow   flow   // how the element stands in its lines
	open   counts // the containers around it
	at     int    // where its text begins
}

// maxFrames bounds the elements that are remembered. If more are nested, the page is read from a tree.
const maxFrames = 128

// A container is a kind of element whose end tag also ends the open elements inside of it.
type container uint8

const (
	noContainer container = iota
	paragraph
	division
	list
	item
	row
	dataCell
	table
	containers
)

// counts has the number of open elements for each kind of container.
type counts [containers]uint16

func containerOf(tag atom.Atom) container {
	switch tag {
	case atom.P:
		return paragraph
	case atom.Div, atom.Center, atom.Blockquote:
		return division
	case atom.Ul, atom.Ol, atom.Dl:
		return list
	case atom.Li:
		return item
	case atom.Tr:
		return row
	case atom.Td, atom.Th:
		return dataCell
	case atom.Table:
		return table
	}
	return noContainer
}

// enter begins the element of a start tag that may have content.
func (v *visible) enter(name *knownName, inner look, as flow) {
	tag, isBlock := name.tag, name.is&block != 0
	for i := len(v.frames) - 1; i >= 0; i-- {
		if f := &v.frames[i]; f.endsBefore(tag, isBlock, &v.open) {
			v.leave(i)
		}
	}
	if isBlock {
		v.open[paragraph] = 0
	}
	around := v.open
	if name.holds != noContainer && v.open[name.holds] < math.MaxUint16 {
		v.open[name.holds]++
	}
	if inner == v.look && as == asNatural {
		for i := len(v.frames) - 1; i >= 0; i-- {
			if v.frames[i].tag == tag {
				v.frames[i].nested++
				break
			}
		}
		return
	}
	if len(v.frames) == maxFrames {
		v.frames, v.look = v.frames[:0], firstLook
		v.shape.irregular, v.shape.hides = true, true
		return
	}
	v.frames = append(v.frames, frame{tag: tag, before: v.look, flow: as, open: around, at: len(v.dst)})
	v.look = inner
}

// endsBefore reports whether the start tag of an element, which may be a block, ends f: the end tag of f is
// optional there.
//
// Source: WHATWG HTML, 13.1.2.4 Optional tags.
func (f *frame) endsBefore(next atom.Atom, isBlock bool, open *counts) bool {
	if open[table] != f.open[table] {
		return false // within a table inside of f
	}
	sameList := open[list] == f.open[list]
	cellOrRow := next == atom.Td || next == atom.Th || endsRow(next)
	switch f.tag {
	case atom.P:
		return isBlock
	case atom.Li:
		return next == atom.Li && sameList
	case atom.Dd, atom.Dt:
		return (next == atom.Dd || next == atom.Dt) && sameList
	case atom.Option, atom.Optgroup:
		return next == f.tag || next == atom.Optgroup
	case atom.Td, atom.Th:
		return cellOrRow
	case atom.Tr:
		return endsRow(next)
	case atom.Thead, atom.Tbody, atom.Tfoot:
		return next != atom.Tr && endsRow(next)
	}
	// It ends with the container around it, whose end tag is optional.
	switch {
	case cellOrRow:
		return f.open[table] > 0
	case f.reopens():
		return false
	}
	return isBlock && f.open[paragraph] > 0 || next == atom.Li && sameList && f.open[item] > 0
}

func endsRow(next atom.Atom) bool {
	return next == atom.Tr || next == atom.Thead || next == atom.Tbody || next == atom.Tfoot
}

// exit ends an element, and those inside of it that were not ended. It returns how the element stood in its
// lines, and where its text begins if it did not stand there as elements of its name do.
func (v *visible) exit(name *knownName) (as flow, at int) {
	for i := len(v.frames) - 1; i >= 0; i-- {
		if f := &v.frames[i]; f.tag == name.tag {
			if f.nested--; f.nested < 0 {
				as, at = f.flow, f.at
				v.leave(i)
			}
			break
		}
	}
	if name.holds == noContainer || v.open[name.holds] == 0 {
		return as, at
	}
	v.open[name.holds]--
	for n := len(v.frames); n > 0 && v.frames[n-1].endsWith(name.holds, &v.open); n-- {
		v.leave(n - 1)
	}
	return as, at
}

// endsWith reports whether f ends because a container around it has ended.
func (f *frame) endsWith(ended container, open *counts) bool {
	return open[ended] < f.open[ended] && (ended >= row || !f.reopens())
}

// reopens reports whether a browser opens the element again behind a container, other than
// a cell, that has ended without it.
//
// Source: WHATWG HTML, 13.2.4.3 The list of active formatting elements.
func (f *frame) reopens() bool {
	switch f.tag {
	case atom.A, atom.B, atom.Big, atom.Code, atom.Em, atom.Font, atom.I, atom.Nobr,
		atom.S, atom.Small, atom.Strike, atom.Strong, atom.Tt, atom.U:
		return true
	}
	return false
}

func (v *visible) leave(frame int) {
	v.look, v.frames = v.frames[frame].before, v.frames[:frame]
}

// A flow is how an element stands in the lines of a page.
type flow uint8

const (
	asNatural flow = iota // as elements of its name do
	asBlock
	asInline
	asBox  // in a line, with its own text apart from the blanks at both ends
	asCell // beside other cells
)

// inside returns the look inside of an element, and how it stands in its lines. rules are what style sheets
// declare for the element, by rising weight.
func (v *visible) inside(name *knownName, t *tagged, rules [][]declaration) (look, flow) {
	if t.named&namedLooks == 0 && name.is&dressed == 0 && len(rules) == 0 {
		same := v.look
		same.turned = same.turned && name.is&(block|cell) == 0
		return same, asNatural
	}
	var c cascade
	around := v.look
	v.hints(&c, &around, name.tag, t)
	own := v.declared(markup.Unescape(t.style[:min(len(t.style), maxStyle)]))
	for _, important := range []bool{false, true} {
		for _, rule := range rules {
			c.take(rule, important)
		}
		if !important || len(rules) > 0 || len(own) > 0 {
			c.take(own, important)
		}
	}
	v.tones.note(&c)
	inner := around.within(&c, name.is)
	if name.tag == atom.Body {
		v.letters = inner.ink
	}
	switch {
	case c.is(display, blocks), c.is(display, tables):
		return inner, asBlock
	case name.is&void != 0 || name.tag == atom.Table: // a br breaks a line, whatever its style is
	case c.is(display, inline):
		return inner, asInline
	case c.is(display, boxed):
		return inner, asBox
	case c.is(display, cells) && name.is&cell == 0:
		return inner, asCell
	}
	return inner, asNatural
}

// hints takes what an element and its attributes put before all styles.
//
// Source: WHATWG HTML, 15 Rendering.
func (v *visible) hints(c *cascade, around *look, tag atom.Atom, t *tagged) {
	size := func(factor float32) { c.put(fontSize, value{is: relative, n: factor}) }
	switch tag {
	case atom.H1:
		size(2)
	case atom.H2:
		size(1.5)
	case atom.H3:
		size(1.17)
	case atom.H5:
		size(0.83)
	case atom.H6:
		size(0.67)
	case atom.Small, atom.Sub, atom.Sup:
		size(1 / 1.2)
	case atom.Big:
		size(1.2)
	case atom.Button, atom.Select, atom.Textarea, atom.Input:
		fieldHints(c, tag == atom.Input && !isButton(t.kind))
	case atom.Mark:
		c.put(ink, value{is: coloured, colour: black})
		c.put(ground, value{is: coloured, colour: colour{255, 255, 0, 255}})
	case atom.Canvas, atom.Audio, atom.Video, atom.Datalist, atom.Rp, atom.Progress, atom.Meter:
		c.put(display, hiding(true))
	case atom.Dialog:
		if t.named&namedOpen == 0 {
			c.put(display, hiding(true))
		}
	case atom.Table:
		around.indent = 0
		around.put(indented, false)
		if v.quirks {
			around.size, around.absolute, around.ink = firstLook.size, false, v.letters
			around.put(tiny, false)
			around.put(faint, around.blends())
		}
	case atom.Font:
		if n, ok := fontSteps(t.size); ok {
			c.put(fontSize, value{n: n})
		}
	case atom.Body:
		if link, ok := legacyColour(t.linked); ok {
			v.links = link
		}
	case atom.A:
		if t.named&namedHref != 0 {
			c.put(ink, value{is: coloured, colour: v.links})
		}
	}
	if written, ok := legacyColour(t.colour); ok && (tag == atom.Font || tag == atom.Body) {
		c.put(ink, value{is: coloured, colour: written})
	}
	if tabular, ok := legacyColour(t.bgcolor); ok && (containerOf(tag) >= row || endsRow(tag) || tag == atom.Body) {
		c.put(ground, value{is: coloured, colour: tabular})
	}
	if t.named&namedBackground != 0 {
		c.put(picture, hiding(true))
	}
	if t.named&namedHidden != 0 {
		c.put(display, hiding(true))
	}
	c.direct(tag, t)
}

// direct takes the direction of the letters of an element.
func (c *cascade) direct(tag atom.Atom, t *tagged) {
	directed := t.named&(namedLeftward|namedRightward) != 0
	if directed {
		c.put(direction, hiding(t.named&namedLeftward != 0))
	}
	if directed || tag == atom.Bdo {
		c.put(bidi, hiding(tag == atom.Bdo))
	}
}

// fieldHints takes the look of a field of a form: of one in which people write, or of another.
func fieldHints(c *cascade, text bool) {
	behind := colour{239, 239, 239, 255}
	if text {
		behind = white
	}
	c.put(fontSize, value{n: 13.33})
	c.put(textIndent, value{})
	c.put(bidi, hiding(false)) // it has lines of its own
	c.put(ink, value{is: coloured, colour: black})
	c.put(ground, value{is: coloured, colour: behind})
}

// fontSteps reads the size of a font element, one of seven or a difference from the third.
func fontSteps(text string) (pixels float32, ok bool) {
	steps := [...]float32{10, 10, 13, 16, 18, 24, 32, 48}
	text = strings.TrimSpace(text)
	n, _, ok := number(text)
	if ok && (text[0] == '+' || text[0] == '-') {
		n += 3
	}
	return steps[int(max(1, min(7, n)))], ok
}

// tones are the colours of letters and of what is behind them in a page, as far as they are noted.
type tones struct {
	inks, grounds [32]colour
	ink, ground   int // how many; more than there is room for if some are not noted
}

// note notes the colours of an element.
func (t *tones) note(c *cascade) {
	if c.is(ink, coloured) {
		t.add(&t.inks, &t.ink, c.all[ink].colour)
	}
	if c.is(ground, coloured) {
		t.add(&t.grounds, &t.ground, c.all[ground].colour)
	}
}

func (t *tones) add(to *[32]colour, n *int, c colour) {
	for _, known := range to[:min(*n, len(to))] {
		if known == c {
			return
		}
	}
	if *n < len(to) {
		to[*n] = c
	}
	*n = min(*n+1, len(to)+1)
}

// meet reports whether a letter of the page may have the colour of what is behind it.
func (t *tones) meet() bool {
	if t.ink > len(t.inks) || t.ground > len(t.grounds) {
		return true
	}
	for _, letters := range append([]colour{black, linkBlue}, t.inks[:t.ink]...) {
		for _, behind := range append([]colour{white}, t.grounds[:t.ground]...) {
			if behind = behind.over(white); letters.over(behind).near(behind) {
				return true
			}
		}
	}
	return false
}
