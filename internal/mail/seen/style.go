package seen

import (
	"strconv"
	"strings"

	"golang.org/x/net/html"

	"github.com/bulkhead-mail/bulkhead/internal/text/css"
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

// A look is what a person sees of text, as far as it decides whether the text is seen.
type look struct {
	veil     veil
	absolute bool    // size is not relative to a default
	pictured bool    // there is a picture behind the text
	size     float32 // of letters, in pixels
	ink      colour
	ground   colour // behind the text, opaque
}

// firstLook is the look of a page without styles.
var firstLook = look{size: 16, ink: black, ground: white}

const (
	maxStyle  = 64 << 10 // bytes of a style that are looked at
	leastSize = 1.34     // pixels; letters of this size cannot be seen
	leastEm   = 6        // pixels; browsers show no smaller letters of a relative size
	farAway   = -500     // pixels to the left of the page, or above it
)

// A property is one that may hide text.
type property uint8

const (
	display property = iota
	msoHide
	visibility
	opacity
	fontSize
	textIndent
	position
	left
	top
	right
	bottom
	marginLeft
	height
	maxHeight
	width
	maxWidth
	overflow
	clip
	ink
	ground
	picture
	properties
)

// A meaning is what the value of a property is.
type meaning uint8

const (
	measured meaning = iota // a length in pixels, or a plain number
	relative                // a factor of the length around
	coloured
	inherit
	hides  // display: none, visibility: hidden, overflow: hidden and their like
	shows  // the opposite of hides
	blocks // display: block and its like
	tables // display: table and the parts of tables that stand in lines of their own
	inline // display: inline
	boxed  // display: inline-block and its like
	cells  // display: table-cell
)

type value struct {
	is     meaning
	n      float32
	colour colour
}

// A declaration gives a property a value.
type declaration struct {
	of        property
	important bool
	value     value
}

// declarations returns what a style declares, as far as it may hide text or show it.
func declarations(style string) (all []declaration) {
	css.Declarations(style, func(name, written string) {
		if !decides(name) {
			return
		}
		text, important := css.Value(written)
		add := func(of property, v value, ok bool) {
			if ok {
				all = append(all, declaration{of, important, v})
			}
		}
		declare(name, text, add)
	})
	return all
}

// decides reports whether a property may decide what is seen.
func decides(name string) bool {
	switch name {
	case "display", "mso-hide", "visibility", "opacity", "font-size", "font", "text-indent", "position", "left", "top",
		"right", "bottom", "margin-left", "margin", "height", "max-height", "width", "max-width", "overflow", "overflow-x",
		"overflow-y", "clip", "clip-path", "color", "background", "background-color", "background-image",
		"-webkit-text-fill-color":
		return true
	}
	return false
}

// declare calls add with what a declaration means. One that a browser does not understand means nothing.
func declare(name, text string, add func(property, value, bool)) {
	switch name {
	case "display":
		v, ok := displayed(text)
		add(display, v, ok)
	case "mso-hide":
		add(msoHide, hiding(text == "all"), true)
	case "visibility":
		if v, ok := everywhere(text, value{is: shows}); ok {
			add(visibility, v, true)
			return
		}
		add(visibility, hiding(text != "visible"), text == "hidden" || text == "collapse" || text == "visible")
	case "opacity":
		n, unit, ok := number(text)
		if unit == "%" {
			n /= 100
		}
		add(opacity, value{n: float32(n)}, ok)
	case "font-size":
		v, ok := sized(text)
		add(fontSize, v, ok)
	case "font":
		v, ok := fontOf(text)
		add(fontSize, v, ok)
	case "text-indent":
		v, ok := length(text)
		add(textIndent, v, ok)
	case "position":
		add(position, hiding(text == "absolute" || text == "fixed"), true)
	case "left", "top", "right", "bottom":
		v, ok := length(text)
		add(map[string]property{"left": left, "top": top, "right": right, "bottom": bottom}[name], v, ok)
	case "margin-left":
		v, ok := length(text)
		add(marginLeft, v, ok)
	case "margin":
		if sides := strings.Fields(text); len(sides) > 0 && len(sides) <= 4 {
			v, ok := length(sides[[]int{0, 1, 1, 3}[len(sides)-1]])
			add(marginLeft, v, ok)
		}
	case "height", "max-height", "width", "max-width":
		v, ok := length(text)
		if text == "auto" || text == "none" {
			v, ok = value{n: 1}, true
		}
		add(map[string]property{"height": height, "max-height": maxHeight, "width": width,
			"max-width": maxWidth}[name], v, ok)
	case "overflow", "overflow-x", "overflow-y":
		first, _, _ := strings.Cut(text, " ")
		add(overflow, hiding(first == "hidden" || first == "clip"), true)
	case "clip", "clip-path":
		add(clip, hiding(clipped(text)), true)
	case "color", "-webkit-text-fill-color":
		v, ok := everywhere(text, value{is: coloured, colour: black})
		if text == "currentcolor" {
			v, ok = value{is: inherit}, true
		}
		if !ok {
			v.is = coloured
			v.colour, ok = colourOf(text)
		}
		add(ink, v, ok)
	case "background", "background-color", "background-image":
		grounds(name, text, add)
	}
}

// grounds takes what is behind a text.
func grounds(name, text string, add func(property, value, bool)) {
	if v, ok := everywhere(text, value{is: coloured}); ok {
		if name != "background-image" {
			add(ground, v, true)
		}
		if name != "background-color" {
			add(picture, hiding(false), true)
		}
		return
	}
	pictured := strings.Contains(text, "url(") || strings.Contains(text, "gradient(") || strings.Contains(text, "image")
	switch name {
	case "background-color":
		c, ok := colourOf(text)
		add(ground, value{is: coloured, colour: c}, ok)
	case "background-image":
		add(picture, hiding(pictured), true)
	default:
		behind := value{is: coloured}
		for _, word := range words(text) {
			if c, ok := colourOf(word); ok {
				behind.colour = c
			} else if !backs(word) {
				return // and what is declared before it counts
			}
		}
		add(ground, behind, true)
		add(picture, hiding(pictured), true)
	}
}

// backs reports whether a word may stand in a value of background without being a colour.
func backs(word string) bool {
	switch word = strings.TrimSuffix(word, ","); word {
	case "none", "repeat", "repeat-x", "repeat-y", "no-repeat", "space", "round", "scroll", "fixed", "local", "center",
		"top", "left", "right", "bottom", "auto", "cover", "contain", "border-box", "padding-box", "content-box":
		return true
	}
	_, _, ok := number(word)
	return ok || strings.ContainsAny(word, "(/,")
}

// words returns the parts of a value, which blanks divide outside of brackets.
func words(text string) (all []string) {
	depth, begin := 0, 0
	for i := 0; i <= len(text); i++ {
		switch {
		case i == len(text) || text[i] == ' ' && depth == 0:
			if begin < i {
				all = append(all, text[begin:i])
			}
			begin = i + 1
		case text[i] == '(':
			depth++
		case text[i] == ')':
			depth = max(0, depth-1)
		}
	}
	return all
}

// everywhere reads a value that every property has; initial is what the initial value of the property is.
func everywhere(text string, initial value) (value, bool) {
	switch text {
	case "inherit", "unset", "revert", "revert-layer":
		return value{is: inherit}, true
	case "initial":
		return initial, true
	}
	return value{}, false
}

func hiding(hidden bool) value {
	if hidden {
		return value{is: hides}
	}
	return value{is: shows}
}

// displayed reads a value of the property display. A browser ignores a declaration whose value it does not know.
func displayed(text string) (value, bool) {
	switch text {
	case "none":
		return value{is: hides}, true
	case "block", "flow-root", "flex", "grid", "list-item":
		return value{is: blocks}, true
	case "table", "table-caption", "table-row", "table-row-group", "table-header-group", "table-footer-group":
		return value{is: tables}, true
	case "inline", "contents", "initial", "unset":
		return value{is: inline}, true
	case "inline-block", "inline-flex", "inline-grid", "inline-table", "-webkit-inline-box":
		return value{is: boxed}, true
	case "table-cell":
		return value{is: cells}, true
	case "table-column", "table-column-group", "inherit", "revert", "-webkit-box", "-webkit-flex":
		return value{is: shows}, true
	}
	return value{}, false
}

// sized reads a size of letters.
func sized(text string) (value, bool) {
	if v, ok := everywhere(text, value{is: relative, n: 0}); ok {
		if v.is != inherit {
			v = value{n: firstLook.size}
		}
		return v, true
	}
	if n, ok := sizes[text]; ok {
		return value{n: n}, true
	}
	switch text {
	case "smaller":
		return value{is: relative, n: 1 / 1.2}, true
	case "larger":
		return value{is: relative, n: 1.2}, true
	}
	n, unit, ok := number(strings.TrimPrefix(text, "calc("))
	switch {
	case !ok || n < 0:
		return value{}, false
	case unit == "em":
		return value{is: relative, n: float32(n)}, true
	case unit == "ex" || unit == "ch":
		return value{is: relative, n: float32(n / 2)}, true
	case unit == "%":
		return value{is: relative, n: float32(n / 100)}, true
	}
	return length(text)
}

// sizes are the named sizes of letters, in pixels.
var sizes = map[string]float32{"xx-small": 9, "x-small": 10, "small": 13, "medium": 16, "large": 18, "x-large": 24,
	"xx-large": 32, "xxx-large": 48}

// fontOf reads the size in a value of the property font. A family follows it.
func fontOf(text string) (value, bool) {
	if v, ok := everywhere(text, value{n: firstLook.size}); ok {
		return v, true
	}
	all := words(strings.ReplaceAll(strings.ReplaceAll(text, " /", "/"), "/ ", "/"))
	for i, word := range all {
		word, _, high := strings.Cut(word, "/")
		n, unit, ok := number(word)
		if ok && !high && unit == "" && n >= 1 {
			continue // a weight
		}
		if v, ok := sized(word); ok {
			return v, i+1 < len(all)
		}
	}
	return value{}, false
}

// length reads a length or a number, into pixels as a page of usual size has them.
func length(text string) (value, bool) {
	if v, ok := everywhere(text, value{}); ok {
		return v, true
	}
	n, unit, ok := number(strings.TrimPrefix(text, "calc("))
	per, known := units[unit]
	return value{n: float32(n * per)}, ok && known
}

var units = map[string]float64{"": 1, "px": 1, "pt": 4. / 3, "pc": 16, "in": 96, "cm": 37.8, "mm": 3.78, "q": 0.945,
	"em": 16, "rem": 16, "ex": 8, "ch": 8, "%": 10, "vw": 10, "vh": 8, "vmin": 8, "vmax": 10}

// clipped reports whether a value of clip or of clip-path leaves nothing.
func clipped(text string) bool {
	name, inner, ok := strings.Cut(text, "(")
	if !ok {
		return false
	}
	n, unit, ok := number(inner)
	switch name {
	case "inset":
		return ok && unit == "%" && n >= 50
	case "circle", "ellipse":
		return ok && n == 0
	case "rect":
		parts := strings.FieldsFunc(strings.TrimSuffix(inner, ")"), func(r rune) bool { return r == ' ' || r == ',' })
		var sides [4]float64
		if len(parts) != len(sides) {
			return false
		}
		for i, part := range parts {
			if sides[i], _, ok = number(part); !ok {
				return false
			}
		}
		return sides[2]-sides[0] <= 1 || sides[1]-sides[3] <= 1
	}
	return false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// number reads the number at the start of text, and the unit behind it.
func number(text string) (n float64, unit string, ok bool) {
	end := 0
	for end < len(text) && (isDigit(text[end]) || text[end] == '.' || end == 0 &&
		(text[0] == '-' || text[0] == '+')) {
		end++
	}
	n, err := strconv.ParseFloat(text[:end], 64)
	unit = text[end:]
	stop := 0
	for stop < len(unit) && ('a' <= unit[stop] && unit[stop] <= 'z' || unit[stop] == '%') {
		stop++
	}
	return n, unit[:stop], err == nil
}

// A cascade has the value that counts for each property of an element.
type cascade struct {
	set uint32 // the properties that have a value
	all [properties]value
}

// take takes the declarations that are important, or the others. Later ones replace earlier ones.
func (c *cascade) take(all []declaration, important bool) {
	for i := range all {
		if d := &all[i]; d.important == important {
			c.put(d.of, d.value)
		}
	}
}

func (c *cascade) put(of property, v value) {
	c.all[of] = v
	c.set |= 1 << of
}

func (c *cascade) has(of property) bool { return c.set>>of&1 != 0 }

func (c *cascade) is(of property, what meaning) bool { return c.has(of) && c.all[of].is == what }

// below reports whether a length is given and at most n.
func (c *cascade) below(of property, n float32) bool { return c.is(of, measured) && c.all[of].n <= n }

// within returns the look inside of an element of a nature around which there is l.
func (l look) within(c *cascade, is nature) look {
	if c.set == 0 {
		return l
	}
	box := is&(block|cell) != 0 && is&tabular == 0 || c.is(position, hides)
	if c.has(display) && c.all[display].is != hides {
		box = !c.is(display, tables) && !c.is(display, inline) || c.is(position, hides)
	}
	flat := box && (c.below(height, 0) || c.below(maxHeight, 0) || c.below(width, 0) ||
		c.below(maxWidth, 0))
	beside := c.below(left, farAway) || c.below(top, farAway) || c.below(right, farAway) || c.below(bottom, farAway)
	if c.is(display, hides) || c.is(msoHide, hides) || c.has(opacity) && c.all[opacity].n < 0.05 ||
		c.is(position, hides) && beside || flat && c.is(overflow, hides) || c.is(clip, hides) ||
		c.below(marginLeft, farAway) {
		l.veil |= gone
	}
	if c.has(visibility) && c.all[visibility].is != inherit {
		l.put(invisible, c.all[visibility].is == hides)
	}
	if c.is(textIndent, measured) {
		l.put(indented, c.all[textIndent].n <= farAway)
	}
	if v := c.all[fontSize]; c.has(fontSize) && v.is != inherit {
		if v.is == relative {
			if v.n *= l.size; v.n > 0 && v.n < leastEm && !l.absolute {
				v.n = leastEm
			}
		} else {
			l.absolute = true
		}
		l.size = v.n
		l.put(tiny, l.size <= leastSize)
	}
	if c.has(ground) && c.all[ground].is != inherit {
		l.ground = c.all[ground].colour.over(l.ground)
		l.pictured = l.pictured && c.all[ground].colour.a < 255
	}
	l.pictured = l.pictured || c.is(picture, hides)
	if c.has(ink) && c.all[ink].is != inherit {
		l.ink = c.all[ink].colour
	}
	l.put(faint, l.blends())
	return l
}

// blends reports whether letters have the colour of what is behind them.
func (l *look) blends() bool { return !l.pictured && l.ink.over(l.ground).near(l.ground) }

// put puts a veil on, or takes it off.
func (l *look) put(what veil, on bool) {
	l.veil &^= what
	if on {
		l.veil |= what
	}
}

// maxStyles is the maximum number of styles that are kept.
const maxStyles = 512

// declared reads a style. A page repeats most of them, and its tree repeats all.
func (v *styling) declared(style string) []declaration {
	if style == "" {
		return nil
	}
	all, ok := v.styles[style]
	if ok {
		return all
	}
	text := style[:min(len(style), maxStyle)]
	if strings.IndexByte(text, '&') >= 0 {
		text = html.UnescapeString(text)
	}
	if v.styles == nil || len(v.styles) == maxStyles {
		v.styles = make(map[string][]declaration)
	}
	all = declarations(text)
	v.styles[style] = all
	return all
}
