package seen

import (
	"math"
	"strconv"
	"strings"

	"github.com/bulkhead-mail/bulkhead/internal/text/css"
)

// A veil is a set of reasons why text is out of sight. An element that is gone hides everything
// inside it. The other reasons are inherited, and an inner element may lift them.
//
// Where a style may or may not hide text, the text is in sight. Otherwise a sender could hide from this
// package, and from no reader, all that a message is about. Text that is in sight by mistake only adds words.
//
// Source: CSS 2.2 and Color 4 on which properties are inherited: display and opacity are
// not, but what they take away takes everything in it away.
type veil uint8

const (
	gone      veil = 1 << iota // not displayed, transparent or cut off
	outside                    // beside the page or above it, as far as its lines are short
	invisible                  // visibility: hidden
	tiny                       // letters of no size
	indented                   // out of the page by its indent, up to the end of the line
	faint                      // the colour of its background
)

// A look is what a person sees of text, as far as it decides whether the text is seen.
type look struct {
	veil      veil
	absolute  bool    // size is not relative to a default
	pictured  bool    // there is a picture behind the text
	drawn     bool    // letters may be seen in any colour, such as by a shadow
	scaled    bool    // the size of letters may be any
	filled    bool    // letters are drawn in the colour fill by some programs, and ink by others
	leftward  bool    // lines are read from right to left, if letters of their scripts are
	overrides bool    // an element shows all letters in the direction of its lines, whatever their scripts are
	turned    bool    // all letters are shown from right to left
	size      float32 // of letters, in pixels
	away      float32 // pixels by which text is moved to the left, or up; 0 or less
	back      float32 // pixels by which it may be moved to the other side
	indent    float32 // pixels of the first line of a block
	ink       colour
	fill      colour
	ground    colour // behind the text, opaque
}

// firstLook is the look of a page without styles.
var firstLook = look{size: 16, ink: black, ground: white}

const (
	maxStyle     = 64 << 10 // bytes of a style that are looked at
	leastSize    = 1.34     // pixels; letters of this size cannot be seen
	leastOpacity = 0.05
	leastEm      = 6    // pixels; browsers show no smaller letters of a relative size
	farAway      = -500 // pixels to the left of the page, or above it
	letter       = 8    // pixels that a letter is wide
	least        = 8    // pixels in which text can be read
	sliver       = 2    // pixels in which it cannot
	lines        = 50   // letters are as wide as a line is high, and a line has as many letters
)

// A property is one that may hide text.
type property uint8

const (
	display property = iota
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
	paddingTop
	paddingRight
	paddingBottom
	paddingLeft
	height
	minHeight
	maxHeight
	width
	minWidth
	maxWidth
	overflow
	clip
	clipPath
	ink
	fill
	ground
	picture
	effect   // what may draw letters in another colour
	movement // what may move letters, or change their size
	restyled // what may replace all other properties
	direction
	bidi
	float
	vanish // what takes all room from a box
	fade   // a filter that leaves nothing
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
			if !ok && isComputed(text) {
				v, ok = plain(of), true
			}
			if ok {
				all = append(all, declaration{of, important, v})
			}
		}
		declare(name, text, add)
	})
	return all
}

// isComputed reports whether a value is one that a browser may understand although this package does not.
func isComputed(text string) bool { return strings.Contains(text, "(") }

// plain returns the value of a property that hides nothing.
func plain(of property) value {
	switch of {
	case opacity, height, maxHeight, width, maxWidth:
		return value{n: 1 << 10}
	case fontSize:
		return value{n: firstLook.size}
	case textIndent, marginLeft, left, top, right, bottom, properties:
		return value{}
	case paddingTop, paddingRight, paddingBottom, paddingLeft, minHeight, minWidth, picture, effect, movement:
		return value{is: hides}
	}
	return value{is: shows}
}

// decides reports whether a property may decide what is seen.
func decides(name string) bool {
	switch name {
	case "display", "visibility", "opacity", "font-size", "font", "text-indent", "position", "left", "top", "right",
		"bottom", "inset", "margin-left", "margin", "padding", "padding-top", "padding-right", "padding-bottom",
		"padding-left", "height", "min-height", "max-height", "width", "min-width", "max-width", "overflow", "overflow-x",
		"overflow-y", "clip", "clip-path", "color", "-webkit-text-fill-color", "background", "background-color",
		"background-image", "box-shadow", "text-shadow", "-webkit-text-stroke", "filter", "mix-blend-mode", "transform",
		"translate", "scale", "zoom", "float", "inline-size", "block-size", "max-inline-size", "max-block-size", "all",
		"animation", "animation-name", "direction", "unicode-bidi":
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
	case "visibility":
		if v, ok := everywhere(text, value{is: shows}); ok {
			add(visibility, v, true)
			return
		}
		add(visibility, hiding(text != "visible"), text == "hidden" || text == "collapse" || text == "visible")
	case "opacity":
		n, unit, ok := quantity(text)
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
	case "position":
		v := hiding(text == "absolute" || text == "fixed")
		if text == "relative" || text == "sticky" {
			v.is = relative
		}
		add(position, v, true)
	case "margin", "padding", "inset":
		boxOf(name, text, add)
	case "text-indent", "left", "top", "right", "bottom", "margin-left", "padding-top", "padding-right", "padding-bottom",
		"padding-left", "height", "min-height", "max-height", "width", "min-width", "max-width", "inline-size",
		"block-size", "max-inline-size", "max-block-size":
		of := lengths[name]
		v, ok := everywhere(text, plain(of))
		if !ok && isSize(text) {
			v, ok = plain(of), true
		} else if !ok {
			v, ok = length(text)
		}
		add(of, v, ok)
	case "overflow", "overflow-x", "overflow-y":
		first, _, _ := strings.Cut(text, " ")
		add(overflow, hiding(first == "hidden" || first == "clip" || first == "auto" || first == "scroll"), true)
	case "clip":
		add(clip, hiding(clipped(text)), true)
	case "clip-path":
		add(clipPath, hiding(clipped(text)), true)
	case "color", "-webkit-text-fill-color":
		v, ok := everywhere(text, value{is: coloured, colour: black})
		if text == "currentcolor" {
			v, ok = value{is: inherit}, true
		}
		if !ok {
			v.is = coloured
			v.colour, ok = colourOf(text)
		}
		add(map[string]property{"color": ink, "-webkit-text-fill-color": fill}[name], v, ok)
	case "background", "background-color", "background-image":
		grounds(name, text, add)
	case "box-shadow", "text-shadow", "-webkit-text-stroke", "filter", "mix-blend-mode":
		add(effect, hiding(text != "none" && text != "normal"), true)
		if name == "filter" {
			add(fade, hiding(text == "opacity(0)" || text == "opacity(0%)"), true)
		}
	case "float":
		add(float, hiding(text == "left" || text == "right"), true)
	case "transform", "translate", "scale", "zoom":
		if name == "transform" || name == "scale" {
			add(vanish, hiding(vanishes(name, strings.ReplaceAll(text, " ", ""))), true)
		}
		add(movement, hiding(text != "none" && text != "normal" && text != "1"), true)
	case "direction":
		add(direction, hiding(text == "rtl"), text == "rtl" || text == "ltr" || text == "initial")
	case "unicode-bidi":
		add(bidi, hiding(text == "bidi-override" || text == "isolate-override"), text != "inherit")
	case "all", "animation", "animation-name":
		add(restyled, hiding(text != "none"), true)
	}
}

// vanishes reports whether a transform leaves a box no room, by a value without blanks.
func vanishes(name, text string) bool {
	switch text {
	case "0", "00":
		return name == "scale"
	case "scale(0)", "scale(0,0)", "scalex(0)", "scaley(0)", "scale3d(0,0,0)", "rotatex(90deg)", "rotatey(90deg)":
		return name == "transform"
	}
	return false
}

// lengths are the properties that are lengths, by their names.
var lengths = map[string]property{"text-indent": textIndent, "left": left, "top": top, "right": right, "bottom": bottom,
	"margin-left": marginLeft, "padding-top": paddingTop, "padding-right": paddingRight, "padding-bottom": paddingBottom,
	"padding-left": paddingLeft, "height": height, "min-height": minHeight, "max-height": maxHeight, "width": width,
	"min-width": minWidth, "max-width": maxWidth, "inline-size": width, "block-size": height,
	"max-inline-size": maxWidth, "max-block-size": maxHeight}

// isSize reports whether a word is a size that depends on what is in an element, or on what is around it.
func isSize(word string) bool {
	switch word {
	case "auto", "none", "fit-content", "min-content", "max-content", "stretch", "-webkit-fill-available",
		"-moz-available", "-moz-fit-content", "-webkit-fit-content":
		return true
	}
	return false
}

// boxOf takes the lengths of four sides.
func boxOf(name, text string, add func(property, value, bool)) {
	sides := words(text)
	if len(sides) == 0 || len(sides) > 4 {
		return
	}
	of := map[string][4]property{"padding": {paddingTop, paddingRight, paddingBottom, paddingLeft},
		"inset": {top, right, bottom, left}, "margin": {properties, properties, properties, marginLeft}}[name]
	var all [4]value
	for i := range of {
		// Of fewer than four lengths some are of two sides.
		side := sides[[][4]int{{}, {0, 1, 0, 1}, {0, 1, 2, 1}, {0, 1, 2, 3}}[len(sides)-1][i]]
		v, ok := length(side)
		switch {
		case ok:
			all[i] = v
		case isSize(side), isComputed(side):
			all[i] = plain(of[i])
		default:
			return
		}
	}
	for i, side := range of {
		if side != properties {
			add(side, all[i], true)
		}
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
		if c, ok := colourOf(text); ok || !isComputed(text) {
			add(ground, value{is: coloured, colour: c}, ok)
		} else {
			add(picture, hiding(true), true)
		}
	case "background-image":
		add(picture, hiding(pictured), true)
	default:
		behind := value{is: coloured}
		for _, word := range words(text) {
			if c, ok := colourOf(word); ok {
				behind.colour = c
			} else if isComputed(word) {
				pictured = true
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

// showing returns what of the declarations shows text that others hide.
func showing(all []declaration) (out []declaration) {
	for _, d := range all {
		v := &d.value
		switch d.of {
		case ink, fill, ground:
			d.of, d.value = effect, hiding(true)
		case display, visibility, position, overflow, clip, clipPath, float, vanish, fade:
			if v.is == hides {
				continue
			}
		case fontSize, height, maxHeight, width, maxWidth:
			if v.is == measured && v.n <= sliver {
				continue
			}
		case opacity:
			if v.n < leastOpacity {
				continue
			}
		case textIndent, left, top, right, bottom, marginLeft:
			if v.is == measured && v.n <= farAway {
				continue
			}
		case paddingTop, paddingRight, paddingBottom, paddingLeft, minHeight, minWidth:
			if v.is == measured && v.n < least {
				continue
			}
		}
		out = append(out, d)
	}
	return out
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
	case "table-column", "table-column-group", "inherit", "revert", "ruby", "math":
		return value{is: shows}, true
	}
	if text == "" {
		return value{}, false
	}
	for _, word := range words(text) {
		if !strings.Contains(" block inline flow flow-root table flex grid ruby list-item math ", " "+word+" ") {
			return value{is: shows}, strings.HasPrefix(text, "-") // of one browser
		}
	}
	return value{is: shows}, true
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
	n, unit, ok := quantity(text)
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
		n, unit, ok := quantity(word)
		if ok && !high && unit == "" && n >= 1 {
			continue // a weight
		}
		if v, ok := sized(word); ok {
			return v, i+1 < len(all)
		}
	}
	return value{}, false
}

// length reads a length or a number, into pixels as a page of usual size has them. Browsers may know other units,
// of which none is much smaller than a letter.
func length(text string) (value, bool) {
	n, unit, ok := quantity(text)
	per, known := units[unit]
	if !known {
		per, ok = units["em"], ok && n > 0
	}
	return value{n: float32(n * per)}, ok
}

// quantity reads a number with its unit, and nothing else, also as calc(NUMBER).
func quantity(text string) (n float64, unit string, ok bool) {
	if inner, found := strings.CutPrefix(text, "calc("); found {
		text = strings.TrimSpace(strings.TrimSuffix(inner, ")"))
	}
	n, unit, rest, ok := measure(text)
	return n, unit, ok && rest == ""
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
		only := strings.TrimSpace(strings.TrimSuffix(inner, ")"))
		return ok && unit == "%" && n >= 50 && !strings.ContainsAny(only, " (")
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
	n, unit, _, ok = measure(text)
	return n, unit, ok
}

// measure does the same, and returns what follows.
func measure(text string) (n float64, unit, rest string, ok bool) {
	end := 0
	for end < len(text) && (isDigit(text[end]) || text[end] == '.' || end == 0 &&
		(text[0] == '-' || text[0] == '+')) {
		end++
	}
	if at := end + len("e"); end > 0 && at < len(text) && text[end] == 'e' { // an exponent, unless a unit begins so
		if text[at] == '-' || text[at] == '+' {
			at++
		}
		for at < len(text) && isDigit(text[at]) {
			at++
			end = at
		}
	}
	n, err := strconv.ParseFloat(text[:end], 64)
	unit = text[end:]
	stop := 0
	for stop < len(unit) && ('a' <= unit[stop] && unit[stop] <= 'z' || unit[stop] == '%') {
		stop++
	}
	return n, unit[:stop], unit[stop:], err == nil
}

// A cascade has the value that counts for each property of an element.
type cascade struct {
	set uint64 // the properties that have a value
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
	l.drawn = l.drawn || c.is(effect, hides) || c.is(restyled, hides)
	l.scaled = l.scaled || c.is(movement, hides) || c.is(restyled, hides)
	if c.hidesAll(is) && !c.is(restyled, hides) {
		l.veil |= gone
	}
	l.move(c)
	if c.has(visibility) && c.all[visibility].is != inherit {
		l.put(invisible, c.all[visibility].is == hides && !c.is(restyled, hides))
	}
	if c.is(textIndent, measured) {
		l.indent = c.all[textIndent].n + l.back
		l.put(indented, l.indent <= farAway)
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
	}
	l.put(tiny, l.size <= 0 && !c.is(restyled, hides) || l.size <= leastSize && !l.scaled)
	if c.has(ground) && c.all[ground].is != inherit {
		l.ground = c.all[ground].colour.over(l.ground)
		l.pictured = l.pictured && c.all[ground].colour.a < 255
	}
	l.pictured = l.pictured || c.is(picture, hides)
	if c.has(ink) && c.all[ink].is != inherit {
		l.drawn = l.drawn || c.all[ink].is == shows
		l.ink = c.all[ink].colour
	}
	if c.has(fill) && c.all[fill].is != inherit {
		l.filled, l.fill = c.all[fill].is == coloured, c.all[fill].colour
	}
	l.put(faint, l.blends())
	l.turn(c, is)
	return l
}

// turn takes the direction in which letters are shown. A block shows its own letters as their scripts are, unless
// it overrides their direction.
//
// Source: CSS Writing Modes 3, section 2; WHATWG HTML, 15.3.6 on the attribute dir.
func (l *look) turn(c *cascade, is nature) {
	if c.has(direction) {
		l.leftward = c.is(direction, hides)
	}
	l.overrides = c.is(bidi, hides)
	switch {
	case l.overrides:
		l.turned = l.leftward
	case c.has(bidi), is&(block|cell) != 0, c.has(display) && !c.is(display, inline):
		l.turned = false
	}
}

// hidesAll reports whether nothing of an element of a nature is shown, wherever it stands.
func (c *cascade) hidesAll(is nature) bool {
	out := c.is(position, hides)
	box := is&(block|cell) != 0 && is&tabular == 0 || out
	if c.has(display) && c.all[display].is != hides {
		box = !c.is(display, tables) && !c.is(display, inline) || out
	}
	box = box || c.is(float, hides)
	room := func(of property) bool { return c.has(of) && !c.below(of, least) }
	flat := (c.below(height, sliver) || c.below(maxHeight, sliver)) && !room(minHeight) && !room(paddingTop) &&
		!room(paddingBottom)
	thin := (c.below(width, sliver) || c.below(maxWidth, sliver)) && !room(minWidth) && !room(paddingLeft) &&
		!room(paddingRight)
	return c.is(display, hides) || c.has(opacity) && c.is(opacity, measured) && c.all[opacity].n < leastOpacity ||
		c.is(fade, hides) || box && (c.is(vanish, hides) || (flat || thin) && c.is(overflow, hides)) ||
		out && c.is(clip, hides) || c.is(clipPath, hides)
}

// move takes how far an element is moved. An element that is moved back shows again.
func (l *look) move(c *cascade) {
	if c.is(movement, hides) || c.is(restyled, hides) {
		l.back = math.MaxFloat32
	}
	away := float32(0)
	take := func(of property, counts bool) {
		switch {
		case !c.has(of):
		case c.all[of].is != measured:
			l.back = math.MaxFloat32
		case c.all[of].n > 0:
			l.back += c.all[of].n
		case counts:
			away = min(away, c.all[of].n)
		}
	}
	placed := c.is(position, hides) || c.is(position, relative)
	take(left, placed && !c.has(right))
	take(right, placed && !c.has(left))
	take(marginLeft, true)
	across := away
	take(top, placed && !c.has(bottom))
	take(bottom, placed && !c.has(top))
	for _, of := range []property{paddingTop, paddingRight, paddingBottom, paddingLeft} {
		take(of, false)
	}
	if away += l.back; away <= farAway {
		if across > away {
			away *= lines
		}
		l.veil, l.away = l.veil|outside, min(l.away, away)
	} else if l.away+l.back > farAway {
		l.veil &^= outside
	}
}

// sees reports whether text is seen that ends n letters behind the begin of its line. broken is set for a line that
// is not the first one of its block.
func (l *look) sees(n int, broken bool) bool {
	hiding, end := l.veil, float32(n*letter)
	if broken || l.indent+end > 0 {
		hiding &^= indented
	}
	if l.away+end > 0 {
		hiding &^= outside
	}
	return hiding == 0
}

// blends reports whether letters have the colour of what is behind them.
func (l *look) blends() bool {
	return !l.pictured && !l.drawn && l.ink.over(l.ground).near(l.ground) &&
		(!l.filled || l.fill.over(l.ground).near(l.ground))
}

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
	if v.styles == nil || len(v.styles) == maxStyles {
		v.styles = make(map[string][]declaration)
	}
	all = declarations(style)
	v.styles[style] = all
	return all
}
