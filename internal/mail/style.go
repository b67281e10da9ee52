package mail

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// A veil is a set of reasons why text is out of sight. An element that is gone hides everything
// inside it. The other reasons are inherited, and an inner element may lift them.
//
// Source: CSS 2.2 and Color 4 on which properties are inherited: display and opacity are
// not, but what they take away takes everything in it away.
type veil uint8

const (
	gone      veil = 1 << iota // not displayed, transparent, cut off or beside the page
	invisible                  // visibility: hidden
	tiny                       // letters of no size
	indented                   // out of the page by its indent
	faint                      // the colour of its background
)

// A frame is an element that changes what is seen of what is inside of it.
type frame struct {
	tag    atom.Atom
	nested int    // open elements of the same name within
	before veil   // what there was around it
	open   counts // the containers around it
}

// maxFrames bounds the elements that are remembered. If more are nested, all that follows
// counts as visible.
const maxFrames = 64

const maxStyle = 4096 // bytes of a style that are looked at

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
func (v *visible) enter(name *knownName, style veils) {
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
	now := v.veil&^style.off | style.on
	if now == v.veil {
		for i := len(v.frames) - 1; i >= 0; i-- {
			if v.frames[i].tag == tag {
				v.frames[i].nested++
				break
			}
		}
		return
	}
	if len(v.frames) == maxFrames {
		v.frames, v.veil = v.frames[:0], 0
		return
	}
	v.frames = append(v.frames, frame{tag: tag, before: v.veil, open: around})
	v.veil = now
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

// exit ends an element, and those inside of it that were not ended.
func (v *visible) exit(name *knownName) {
	for i := len(v.frames) - 1; i >= 0; i-- {
		if f := &v.frames[i]; f.tag == name.tag {
			if f.nested--; f.nested < 0 {
				v.leave(i)
			}
			break
		}
	}
	if name.holds == noContainer || v.open[name.holds] == 0 {
		return
	}
	v.open[name.holds]--
	for n := len(v.frames); n > 0 && v.frames[n-1].endsWith(name.holds, &v.open); n-- {
		v.leave(n - 1)
	}
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
	v.veil, v.frames = v.frames[frame].before, v.frames[:frame]
}

// veils is what an element puts before what is inside of it, and what it takes off.
type veils struct{ on, off veil }

// A knownStyle is a style as it is written, and what it does.
type knownStyle struct {
	style string
	veils veils
}

// veilsOf reads a style. A page repeats few of them.
func (v *visible) veilsOf(style string) veils {
	if style == "" {
		return veils{}
	}
	known := &v.styles[(len(style)+int(style[len(style)-1])+int(style[len(style)/2]))%len(v.styles)]
	if known.style != style {
		*known = knownStyle{style: style}
		known.veils.read(style)
	}
	return known.veils
}

// read takes the declarations of a style. Of a property the last one counts, but those
// that are important count before the others.
func (s *veils) read(style string) {
	text := compact(style)
	var d declared
	d.all(s, text, false)
	d.all(s, text, true)
	if d.undisplayed || d.msoHidden || d.transparent || d.moved && d.beside || d.flat && d.cut {
		s.on |= gone
	}
	switch {
	case d.colour.known && d.background.known && d.colour.near(d.background):
		s.on |= faint
	case d.colour.known || d.background.known:
		s.off |= faint
	}
}

// all takes the declarations of a compact style that are important, or the others.
func (d *declared) all(s *veils, text []byte, important bool) {
	for len(text) > 0 {
		var one []byte
		one, text, _ = bytes.Cut(text, []byte{';'})
		name, value, ok := bytes.Cut(one, []byte{':'})
		value, marked := bytes.CutSuffix(value, []byte("!important"))
		if ok && marked == important {
			d.take(s, string(name), string(value))
		}
	}
}

// compact returns a style in lower case without blanks and references.
func compact(style string) []byte {
	style = style[:min(len(style), maxStyle)]
	if strings.IndexByte(style, '&') >= 0 {
		style = html.UnescapeString(style)
	}
	text := make([]byte, 0, len(style))
	for _, c := range scan.Bytes(style) {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c > ' ' {
			text = append(text, c)
		}
	}
	return text
}

// declared is what the declarations of a style hide, some of them only together.
type declared struct {
	undisplayed, msoHidden, transparent bool

	moved, beside      bool // out of the flow; far beside its place
	flat, cut          bool // without height or width; what overflows is cut off
	colour, background rgb
}

// take takes a declaration.
func (d *declared) take(s *veils, name, value string) {
	switch name {
	case "display":
		if value == "none" || displays(value) {
			d.undisplayed = value == "none"
		}
	case "mso-hide":
		d.msoHidden = value == "all"
	case "visibility":
		switch value {
		case "hidden", "collapse":
			s.set(true, invisible)
		case "visible":
			s.set(false, invisible)
		}
	case "opacity":
		if n, _, ok := number(value); ok {
			d.transparent = n < 0.05
		}
	case "font-size":
		s.size(value)
	case "font":
		for i := range value { // 12px/1.5 somewhere in it
			if isDigit(value[i]) && (i == 0 || !isDigit(value[i-1]) && value[i-1] != '.') {
				if n, unit, ok := number(value[i:]); ok && absolute(unit) && n > 1 {
					s.set(false, tiny)
				}
			}
		}
	case "text-indent":
		if n, _, ok := number(value); ok {
			s.set(n <= -500, indented)
		}
	case "position":
		d.moved = value == "absolute" || value == "fixed"
	case "left", "top", "right", "bottom":
		n, _, ok := number(value)
		d.beside = d.beside || ok && n <= -500
	case "height", "max-height", "width", "max-width":
		n, _, ok := number(value)
		d.flat = d.flat || ok && n == 0
	case "overflow":
		d.cut = value == "hidden"
	case "color":
		d.colour = colourOf(value)
	case "background", "background-color":
		d.background = colourOf(value)
	}
}

// displays reports whether a value of the property display is one that shows an element. A browser ignores a
// declaration whose value it does not know.
func displays(value string) bool {
	switch value {
	case "block", "inline", "inline-block", "flow-root", "flex", "inline-flex", "grid", "inline-grid", "contents",
		"list-item",
		"table", "inline-table", "table-row", "table-cell", "table-caption", "table-column", "table-column-group",
		"table-row-group", "table-header-group", "table-footer-group", "initial", "inherit", "unset", "revert":
		return true
	}
	return false
}

// set puts a veil on, or takes it off.
func (s *veils) set(on bool, what veil) {
	if on {
		s.on, s.off = s.on|what, s.off&^what
	} else {
		s.on, s.off = s.on&^what, s.off|what
	}
}

// size takes the size of letters: one that is relative to that around changes nothing.
func (s *veils) size(value string) {
	n, unit, ok := number(value)
	switch {
	case ok && (n == 0 || n <= 1 && (unit == "px" || unit == "pt")):
		s.set(true, tiny)
	case ok && absolute(unit), value == "medium",
		strings.Contains(value, "small") && value != "smaller", strings.Contains(value, "large") && value != "larger":
		s.set(false, tiny)
	case ok: // relative to that around, whatever was declared before
		s.on, s.off = s.on&^tiny, s.off&^tiny
	}
}

func absolute(unit string) bool {
	switch unit {
	case "px", "pt", "pc", "cm", "mm", "in", "rem", "vw", "vh":
		return true
	}
	return false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// number reads the number at the start of value, and the unit behind it.
func number(value string) (n float64, unit string, ok bool) {
	end := 0
	for end < len(value) && (isDigit(value[end]) || value[end] == '.' || end == 0 &&
		(value[0] == '-' || value[0] == '+')) {
		end++
	}
	n, err := strconv.ParseFloat(value[:end], 64)
	unit = value[end:]
	stop := 0
	for stop < len(unit) && 'a' <= unit[stop] && unit[stop] <= 'z' {
		stop++
	}
	return n, unit[:stop], err == nil
}

// An rgb is a colour.
type rgb struct {
	known   bool
	r, g, b int
}

// near reports whether two colours are indistinguishable to a reader.
func (c rgb) near(o rgb) bool {
	const most = 12
	return max(c.r-o.r, o.r-c.r) <= most && max(c.g-o.g, o.g-c.g) <= most && max(c.b-o.b, o.b-c.b) <= most
}

// colourOf reads the colour at the start of value.
func colourOf(value string) rgb {
	switch {
	case strings.HasPrefix(value, "white"):
		return rgb{true, 255, 255, 255}
	case strings.HasPrefix(value, "black"):
		return rgb{known: true}
	case strings.HasPrefix(value, "rgb"):
		return functional(value)
	case !strings.HasPrefix(value, "#"):
		return rgb{}
	}
	n := 1
	for n < len(value) && n <= 6 && (isDigit(value[n]) || 'a' <= value[n] && value[n] <= 'f') {
		n++
	}
	x, err := strconv.ParseUint(value[1:n], 16, 32)
	switch {
	case err != nil:
		return rgb{}
	case n == 7:
		return rgb{true, int(x >> 16), int(x >> 8 & 255), int(x & 255)}
	case n == 4:
		return rgb{true, int(x>>8) * 17, int(x>>4&15) * 17, int(x&15) * 17}
	}
	return rgb{}
}

// functional reads rgb(1,2,3) and rgba(1,2,3,0.5).
func functional(value string) rgb {
	_, inner, ok := strings.Cut(value, "(")
	var part [3]int
	for i := range part {
		n, _, number := number(inner)
		if !ok || !number {
			return rgb{}
		}
		part[i] = int(n)
		_, inner, ok = strings.Cut(inner, ",")
	}
	return rgb{true, part[0], part[1], part[2]}
}
