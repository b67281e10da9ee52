package rspamd

import (
	"math"
	"strconv"
	"strings"

	"golang.org/x/net/html/atom"

	"github.com/bulkhead-mail/bulkhead/internal/text/markup"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// A look is the appearance of an element, as far as a style or an attribute sets it.
type look struct {
	fg, bg              rgb
	coloured, on, sized bool // whether fg, bg and size are set
	displayed           bool // whether display is set
	display             display
	size                int8 // of the font, in pixels; a negative size is in percent of the parent's
}

// A display is the way in which an element is laid out.
type display uint8

const (
	inline display = iota
	block
	cell
	none
)

// fill sets the unset properties of l from other, a less specific declaration for the same element.
func (l *look) fill(other *look) {
	l.takeOver(other)
	if !l.displayed {
		l.display, l.displayed = other.display, other.displayed
	}
}

// takeOver sets the unset colours and the unset size of l.
func (l *look) takeOver(from *look) {
	if !l.coloured {
		l.fg, l.coloured = from.fg, from.coloured
	}
	if !l.on {
		l.bg, l.on = from.bg, from.on
	}
	if !l.sized {
		l.size, l.sized = from.size, from.sized
	}
}

// inherit sets the unset properties of l from its parent.
func (l *look) inherit(parent *look) {
	const defaultSize = 10 // pixels
	if l.sized && l.size < 0 {
		share := -float64(l.size) / 100
		switch {
		case !parent.sized:
			l.size = int8(defaultSize * share)
		default:
			l.size = int8(float64(parent.size) * share)
		}
	}
	l.takeOver(parent)
}

// transparent reports whether the text has nearly the colour of its background.
func (l *look) transparent() bool {
	const visible = 10 // minimum alpha
	white := rgb{255, 255, 255, 255}
	switch {
	case l.coloured && l.fg.alpha < visible:
		return true
	case l.coloured && l.on:
		return l.bg.alpha > visible && l.fg.near(l.bg)
	case l.coloured:
		return l.fg.near(white)
	}
	return l.on && l.bg.alpha > visible && l.bg.near(rgb{})
}

// A knownLook is a style attribute as it is written, and its declarations.
type knownLook struct {
	style string
	look  look
}

// style returns the declarations of a style attribute. It caches them, because a page repeats a few styles.
func (v *page) style(written string) *look {
	n := len(written)
	mix := n
	if n > 0 {
		mix += int(written[n-1]) ^ int(written[n/2])*5 ^ int(written[n/4])*25
	}
	known := &v.looks[mix%len(v.looks)]
	if known.style != written {
		value := markup.Value(written)
		s := cssReader{text: strings.ToLower(value[:min(len(value), maxStyle)])}
		*known = knownLook{style: written, look: s.declarations()}
	}
	return &known.look
}

// A sheet holds the rules of style sheets by element name, identifier and class, and the rules for all elements.
type sheet struct {
	tags         map[atom.Atom]*look
	ids, classes map[string]*look
	all          *look
}

// read adds the rules of a style sheet.
func (s *sheet) read(text string) {
	r := cssReader{text: strings.ToLower(text)}
	if s.tags == nil {
		*s = sheet{tags: make(map[atom.Atom]*look), ids: make(map[string]*look), classes: make(map[string]*look)}
	}
	for r.next(); r.kind != 0; r.next() {
		if r.kind == '@' {
			for r.kind != 0 && r.kind != ';' && r.kind != '{' {
				r.next()
			}
			if r.kind == '{' {
				r.skip('}')
			}
			continue
		}
		selectors := r.selectors()
		if r.kind == 0 {
			return
		}
		declared := r.declarations()
		if declared == (look{}) {
			continue
		}
		// The selectors of one rule share one look, as in rspamd: a later rule for one of them changes all.
		for _, selector := range selectors {
			s.add(selector, &declared)
		}
	}
}

func (s *sheet) add(selector string, declared *look) {
	switch name := selector[1:]; selector[0] {
	case '*':
		addLook(&s.all, declared)
	case '#':
		known := s.ids[name]
		addLook(&known, declared)
		s.ids[name] = known
	case '.':
		known := s.classes[name]
		addLook(&known, declared)
		s.classes[name] = known
	default:
		tag := atom.Lookup([]byte(selector))
		known := s.tags[tag]
		addLook(&known, declared)
		s.tags[tag] = known
	}
}

// addLook adds the declarations of a rule to those of earlier rules.
func addLook(known **look, declared *look) {
	if *known == nil {
		*known = declared
	} else {
		(*known).fill(declared)
	}
}

// of sets the unset properties of l by the rules that match a node. It reports whether l has any property then.
func (s *sheet) of(l *look, n *node, marks []mark) bool {
	if s.empty() || n.kind&comment != 0 || !isKnown(n.tag) {
		return false
	}
	add := func(rule *look) {
		if rule != nil {
			l.fill(rule)
		}
	}
	if n.mark > 0 {
		m := &marks[n.mark-1]
		add(s.ids[strings.ToLower(m.id)])
		for class := range strings.SplitSeq(m.classes, " ") {
			add(s.classes[strings.ToLower(class)])
		}
	}
	add(s.tags[n.tag])
	add(s.all)
	return *l != look{}
}

// empty reports whether there are no rules.
func (s *sheet) empty() bool {
	return len(s.tags) == 0 && len(s.ids) == 0 && len(s.classes) == 0 && s.all == nil
}

// isKnown reports whether rspamd knows an element and applies style sheets to it.
func isKnown(tag atom.Atom) bool {
	switch tag {
	case 0, atom.Article, atom.Aside, atom.Audio, atom.Canvas, atom.Figcaption, atom.Figure, atom.Footer,
		atom.Header, atom.Main, atom.Mark, atom.Nav, atom.Nobr,
		atom.Picture, atom.Section, atom.Source, atom.Svg, atom.Time, atom.Video, atom.Wbr:
		return false
	}
	return tag>>31 == 0
}

// A cssReader reads the tokens of style sheets and style attributes.
type cssReader struct {
	text    string
	kind    byte   // of the current token: a character, or one of the constants below; 0 at the end
	word    string // of a name or a hash
	number  float64
	percent bool
}

// The kinds of tokens of more than one character.
const (
	cssName     = 'a'
	cssFunction = 'f' // a name with its opening bracket
	cssHash     = '#'
	cssNumber   = '0'
	cssText     = '"'
)

// next reads the next token.
func (r *cssReader) next() {
	r.kind, r.word = 0, ""
	for r.text != "" {
		c := r.text[0]
		switch {
		case isBlank(c):
			r.text = r.text[1:]
			continue
		case strings.HasPrefix(r.text, "/*"):
			_, r.text, _ = strings.Cut(r.text[2:], "*/")
			continue
		case strings.HasPrefix(r.text, "<!--"):
			r.text = r.text[len("<!--"):]
			continue
		case strings.HasPrefix(r.text, "-->"):
			r.text = r.text[len("-->"):]
			continue
		case c == '"' || c == '\'':
			r.kind = cssText
			_, r.text, _ = strings.Cut(r.text[1:], string(c))
		case startsNumber(r.text):
			r.takeNumber()
		case c == '#' && len(r.text) > 2 && inName(r.text[1]) && inName(r.text[2]):
			r.kind, r.text = cssHash, r.text[1:]
			r.takeName()
		case startsName(c):
			r.takeName()
			if r.kind = cssName; r.text != "" && r.text[0] == '(' {
				r.kind = cssFunction
				if r.text = r.text[1:]; r.word == "url" {
					r.kind = cssText
					_, r.text, _ = strings.Cut(r.text, ")")
				}
			}
		default:
			r.kind, r.text = c, r.text[1:]
		}
		return
	}
}

func startsName(c byte) bool { return 'a' <= c && c <= 'z' || c == '_' || c >= 0x80 }

func inName(c byte) bool { return nameBytes[c] }

// nameBytes are the bytes that a name may have after its first one.
var nameBytes = func() (table [256]bool) {
	for c := range table {
		table[c] = startsName(byte(c)) || c == '-' || '0' <= c && c <= '9'
	}
	return table
}()

func startsNumber(text string) bool {
	if c := text[0]; c == '-' || c == '+' || c == '.' {
		text = text[1:]
	}
	return text != "" && '0' <= text[0] && text[0] <= '9'
}

func (r *cssReader) takeName() {
	n := 0
	for n < len(r.text) && inName(r.text[n]) {
		n++
	}
	r.word, r.text = r.text[:n], r.text[n:]
}

// takeNumber reads a number and its unit, and converts lengths to pixels.
func (r *cssReader) takeNumber() {
	n := 1
	for n < len(r.text) && (r.text[n] == '.' || '0' <= r.text[n] && r.text[n] <= '9') {
		n++
	}
	r.number, _ = strconv.ParseFloat(r.text[:n], 64)
	r.kind, r.text, r.percent = cssNumber, r.text[n:], false
	if strings.HasPrefix(r.text, "%") {
		r.percent, r.text = true, r.text[1:]
		return
	}
	for n = 0; n < len(r.text) && startsName(r.text[n]); {
		n++
	}
	if pixels, ok := cssUnits[r.text[:n]]; ok {
		r.number *= pixels
		r.text = r.text[n:]
	}
}

// cssUnits are the lengths of units in pixels, as rspamd defines them.
var cssUnits = map[string]float64{"px": 1, "em": 16, "rem": 16, "ex": 8, "pt": 96.0 / 72, "cm": 96 / 2.54,
	"mm": 9.6 / 2.54, "in": 96, "pc": 16}

// skip reads up to the given closing bracket, and over the brackets in between.
func (r *cssReader) skip(end byte) {
	const deepest = 20
	ends := []byte{end}
	for len(ends) > 0 {
		switch r.next(); r.kind {
		case 0:
			return
		case ends[len(ends)-1]:
			ends = ends[:len(ends)-1]
		case '{':
			ends = append(ends, '}')
		case '[':
			ends = append(ends, ']')
		case '(', cssFunction:
			ends = append(ends, ')')
		}
		if len(ends) > deepest {
			r.text = "" // rspamd reads no further either
		}
	}
}

// selectors reads the selectors of a rule up to its opening bracket. As in rspamd, each selector is its first simple
// selector, and the last one counts only if it has no other part.
func (r *cssReader) selectors() (all []string) {
	const (
		start   = iota
		name    // after a point
		whole   // after a simple selector
		skipped // after the parts that are ignored
		ignored // the rest of the rule is ignored
	)
	state, one := start, ""
	for ; r.kind != 0 && r.kind != '{'; r.next() {
		switch {
		case r.kind == '[' || r.kind == '(' || r.kind == cssFunction:
			if r.kind != cssFunction {
				all, one = nil, "" // rspamd takes them for a part of the declarations
			}
			if state == whole && one != "" {
				all = append(all, one)
			}
			end := byte(')')
			if r.kind == '[' {
				end = ']'
			}
			r.skip(end)
			state, one = ignored, ""
		case state == ignored:
		case state == start && r.kind == '.':
			state, one = name, "."
		case state == start && r.kind == '*':
			state, one = whole, "*"
		case state == start && r.kind == cssName:
			if state, one = whole, r.word; !isKnown(atom.Lookup([]byte(one))) {
				state, one = ignored, ""
			}
		case state == start && r.kind == cssHash:
			if state, one = whole, "#"+r.word; one == "#" {
				state = name
			}
		case state == start:
			if strings.IndexByte(":;,]})\"0", r.kind) >= 0 {
				state = ignored
			}
		case state == name && r.kind == cssName:
			state, one = whole, one+r.word
		case state == name:
			state, one = ignored, ""
		case r.kind == ',':
			all = append(all, one)
			state, one = start, ""
		default:
			state = skipped
		}
	}
	if state == whole {
		all = append(all, one)
	}
	return all
}

// declarations reads declarations up to the closing bracket. The first declaration of a property counts.
func (r *cssReader) declarations() (l look) {
	var shorthand, behind look // font and background, which give way to single properties
	var hidden, shown bool     // visibility and display have occurred
	for r.next(); r.kind != 0 && r.kind != '}'; r.next() {
		property := ""
		if r.kind == cssName {
			if property = r.word; !matters(property) {
				property = ""
			}
			if r.next(); r.kind != ':' {
				property = ""
			}
		}
		var declared look
		for r.kind != 0 && r.kind != ';' && r.kind != '}' {
			if r.kind == '{' || r.kind == '[' || r.kind == '(' { // rspamd reads no further
				r.skip(map[byte]byte{'{': '}', '[': ']', '(': ')'}[r.kind])
				r.skip('}')
				declared = look{}
				break
			}
			r.value(property, &declared)
			r.next()
		}
		switch property {
		case "display", "visibility":
			if seen := map[string]*bool{"display": &shown, "visibility": &hidden}[property]; declared.displayed && !*seen {
				l.display, l.displayed, *seen = declared.display, true, true
			}
		case "font":
			shorthand.fill(&declared)
		case "background":
			behind.fill(&declared)
		default:
			l.fill(&declared)
		}
		if r.kind == '}' {
			break
		}
	}
	l.fill(&shorthand)
	l.fill(&behind)
	return l
}

// matters reports whether a property changes a look.
func matters(property string) bool {
	switch property {
	case "color", "font-color", "font", "font-size", "background-color", "bgcolor", "background", "display", "visibility":
		return true
	}
	return false
}

// value applies the current token as a value of a property.
func (r *cssReader) value(property string, l *look) {
	switch property {
	case "color", "font-color", "font", "background-color", "bgcolor", "background":
		if c, ok := r.colour(); ok && property[0] == 'b' {
			l.bg, l.on = c, true
		} else if ok {
			l.fg, l.coloured = c, true
		}
	case "display", "visibility":
		if d, ok := displayOf(r.word); ok && r.kind == cssName {
			l.display, l.displayed = d, true
		}
	}
	if (property == "font" || property == "font-size") && r.kind == cssNumber {
		size := r.number
		if r.percent {
			size = -size
		}
		if l.sized = true; size < math.MinInt8 {
			size = -100
		}
		l.size = int8(min(size, math.MaxInt8))
	}
	if r.kind == cssFunction {
		for r.next(); r.kind != 0 && r.kind != ')'; {
			r.next()
		}
	}
}

// colour returns the colour at the current token. It reads the arguments of a function.
func (r *cssReader) colour() (c rgb, ok bool) {
	switch r.kind {
	case cssHash:
		ok = c.parse("#" + r.word)
	case cssName:
		ok = c.parse(r.word)
	case cssFunction:
		name := r.word
		var args []float64
		for r.next(); r.kind != 0 && r.kind != ')'; r.next() {
			if r.kind != cssNumber || len(args) == 4 {
				continue
			}
			most := 255.0
			if len(args) == 3 {
				most = 1
			}
			if r.percent {
				r.number *= most / 100
			}
			args = append(args, max(0, min(r.number, most)))
		}
		switch {
		case name == "rgb" && len(args) == 3:
			args = append(args, 1)
		case name != "rgba" || len(args) != 4:
			return c, false
		}
		return rgb{uint8(args[0]), uint8(args[1]), uint8(args[2]), uint8(args[3] * 255)}, true
	}
	return c, ok
}

// displayOf reads a value of display.
func displayOf(value string) (d display, ok bool) {
	switch value {
	case "none", "hidden":
		return none, true
	case "block", "flex", "grid", "list-item", "table":
		return block, true
	case "inline", "content", "run-in", "initial":
		return inline, true
	}
	switch {
	case strings.HasPrefix(value, "inline-"):
		return inline, true
	case strings.HasPrefix(value, "table-"):
		return cell, true
	}
	return inline, false
}

// An rgb is a colour.
type rgb struct{ r, g, b, alpha uint8 }

// near reports whether two colours are nearly equal.
func (c rgb) near(o rgb) bool {
	const least = 0.1
	square := func(a, b uint8) float32 { d := float32(a) - float32(b); return d * d }
	r, g, b := square(c.r, o.r), square(c.g, o.g), square(c.b, o.b)
	return math.Sqrt(float64(2*r+4*g+3*b+(float32(c.r)+float32(o.r))/2*(r-b)/256))/256 < least
}

// names has the colours of HTML 4, and those that are nearly white.
var names = map[string]rgb{
	"transparent": {},
	"white":       {255, 255, 255, 255}, "black": {0, 0, 0, 255}, "red": {255, 0, 0, 255},
	"lime": {0, 255, 0, 255}, "green": {0, 128, 0, 255}, "blue": {0, 0, 255, 255}, "yellow": {255, 255, 0, 255},
	"gray": {128, 128, 128, 255}, "grey": {128, 128, 128, 255}, "silver": {192, 192, 192, 255},
	"maroon": {128, 0, 0, 255}, "olive": {128, 128, 0, 255}, "navy": {0, 0, 128, 255},
	"purple": {128, 0, 128, 255}, "teal": {0, 128, 128, 255}, "aqua": {0, 255, 255, 255},
	"fuchsia": {255, 0, 255, 255}, "snow": {255, 250, 250, 255}, "ivory": {255, 255, 240, 255},
	"whitesmoke": {245, 245, 245, 255}, "ghostwhite": {248, 248, 255, 255}, "floralwhite": {255, 250, 240, 255},
	"mintcream": {245, 255, 250, 255}, "azure": {240, 255, 255, 255},
}

// parse sets c to a colour, given by its name or number. It reports false, and leaves c as it is, if text is none.
func (c *rgb) parse(text string) bool {
	digits, ok := strings.CutPrefix(text, "#")
	if !ok {
		named, ok := names[strings.ToLower(text)]
		if ok {
			*c = named
		}
		return ok
	}
	pair := func(i, j int) uint8 {
		high, _ := scan.Hex(digits[i])
		low, _ := scan.Hex(digits[j])
		return high<<4 | low
	}
	switch len(digits) {
	case 3:
		*c = rgb{pair(0, 0), pair(1, 1), pair(2, 2), 255}
	case 6:
		*c = rgb{pair(0, 1), pair(2, 3), pair(4, 5), 255}
	case 8:
		*c = rgb{pair(0, 1), pair(2, 3), pair(4, 5), pair(6, 7)}
	default:
		return false
	}
	return true
}
