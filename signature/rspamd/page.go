package rspamd

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/bulkhead-mail/bulkhead/signature/internal/markup"
	"github.com/bulkhead-mail/bulkhead/signature/internal/pace"
	"github.com/bulkhead-mail/bulkhead/signature/internal/scan"
)

// Limits of what is read of a page.
const (
	maxTag   = 64 << 10 // bytes of a tag; what follows a longer one is not read
	maxOpen  = 512      // open elements; deeper ones take the style of the last
	maxStyle = 4 << 10  // bytes of a style that are looked at
)

// A page is the text that rspamd makes of HTML.
//
// Source: docs/specs/rspamd-fuzzy.md#visible-text.
type page struct {
	text  []byte
	open  []element
	skip  atom.Atom // element without text, 0 outside of one
	shown [][2]int  // pieces of text that are shown for a link
	over  bool      // the body has ended: bare text behind it is not shown
	name  []byte    // of the present tag
	looks [16]look  // of styles that were read lately
	link  int       // 1 more than where the text of an open link begins; 0 if none is open
}

// An element is what is open, with the style of what stands in it.
type element struct {
	tag    atom.Atom
	fg, bg rgb
	tiny   bool // font-size: 0
	hidden bool // itself, not what is in it
}

func (e *element) visible() bool { return !e.hidden && !e.tiny && e.fg.far(e.bg) }

// readPage returns the text of a page.
func readPage(source string, p *pace.Pace) *page {
	v := &page{text: make([]byte, 0, min(len(source)/4, maxText)), open: []element{{bg: rgb{255, 255, 255}}}}
	t := markup.Over(source, maxTag)
	for t.Next() && !p.Over(len(t.Raw())) && len(v.text) <= maxText {
		switch t.Kind() {
		case markup.Text:
			if e := &v.open[len(v.open)-1]; v.skip == 0 && e.visible() && !(v.over && (e.tag == 0 || e.tag == atom.Html)) {
				v.add(unescape(scan.Bytes(t.Raw())))
			}
		case markup.Start, markup.SelfClosing:
			v.start(&t)
		case markup.End:
			v.end(v.tag(&t))
		}
	}
	return v
}

// add appends text, each run of white space as a blank.
func (v *page) add(text []byte) {
	v.text = slices.Grow(v.text, len(text))
	for len(text) > 0 {
		n := 0
		for n < len(text) && !isBlank(text[n]) {
			n++
		}
		v.text = append(v.text, text[:n]...)
		if text = text[n:]; len(text) == 0 {
			return
		}
		if n := len(v.text); n > 0 && v.text[n-1] != ' ' && v.text[n-1] != '\n' {
			v.text = append(v.text, ' ')
		}
		text = text[1:]
	}
}

func isBlank(c byte) bool {
	return c <= ' ' && (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f')
}

// line begins a new line.
func (v *page) line() {
	if n := len(v.text); n > 0 && v.text[n-1] != '\n' {
		v.text = append(v.text, '\n')
	}
}

// tag returns the name of the present tag.
func (v *page) tag(t *markup.Tokens) atom.Atom {
	v.name = t.AppendName(v.name[:0])
	return atom.Lookup(v.name)
}

func (v *page) start(t *markup.Tokens) {
	tag := v.tag(t)
	switch tag {
	case atom.Iframe, atom.Noscript, atom.Noembed, atom.Noframes:
		t.NotRaw()
	case atom.Script, atom.Style, atom.Title, atom.Object:
		if v.skip == 0 {
			v.skip = tag
		}
		return
	}
	e := v.open[len(v.open)-1]
	e.tag, e.hidden = tag, false
	alt := v.attributes(&e, t)
	if apart(tag) {
		v.line()
	}
	switch {
	case tag == atom.Img:
		if len(alt) > 0 && v.skip == 0 && !e.hidden {
			v.add([]byte{' '})
			v.add(scan.Bytes(alt))
			v.add([]byte{' '})
		}
	case tag == atom.A:
		v.endLink()
		v.link = len(v.text) + 1
		fallthrough
	default:
		if !void(tag) && len(v.open) < maxOpen {
			v.open = append(v.open, e)
		}
	}
}

func (v *page) end(tag atom.Atom) {
	if v.skip != 0 {
		if tag == v.skip {
			v.skip = 0
		}
		return
	}
	if tag == atom.A {
		v.endLink()
	}
	const near = 32 // elements that an end tag may close
	for i := len(v.open) - 1; i > 0 && i >= len(v.open)-near; i-- {
		if v.open[i].tag == tag {
			v.over = v.over || tag == atom.Body
			v.open = v.open[:i]
			break
		}
	}
	if apart(tag) {
		v.line()
	}
}

// endLink ends what is shown for a link, if one is open.
func (v *page) endLink() {
	if v.link > 0 && v.link-1 < len(v.text) {
		v.shown = append(v.shown, [2]int{v.link - 1, len(v.text)})
	}
	v.link = 0
}

// attributes reads those that say how an element looks, and returns the text that stands
// for a picture.
func (v *page) attributes(e *element, t *markup.Tokens) (alt string) {
	const most = 64
	n := 0
	t.Attributes(func(key, written string) bool {
		switch key {
		case "alt":
			alt = markup.Value(written)
		case "hidden":
			e.hidden = true
		case "color", "text":
			e.fg.parse(markup.Value(written))
		case "bgcolor":
			e.bg.parse(markup.Value(written))
		case "style":
			v.style(written).apply(e)
		}
		n++
		return n < most
	})
	return alt
}

// A look is what a style says of its element.
type look struct {
	style               string // as it is written
	fg, bg              rgb
	coloured, on, sized bool // it has a colour, a background, a size of letters
	tiny, hidden        bool
}

func (l *look) apply(e *element) {
	if l.coloured {
		e.fg = l.fg
	}
	if l.on {
		e.bg = l.bg
	}
	if l.sized {
		e.tiny = l.tiny
	}
	e.hidden = e.hidden || l.hidden
}

// style returns what a style says. A page repeats few of them.
func (v *page) style(written string) *look {
	l := &v.looks[len(written)%len(v.looks)]
	if l.style != written {
		*l = look{style: written}
		value := markup.Value(written)
		l.read(strings.ToLower(value[:min(len(value), maxStyle)]))
	}
	return l
}

func (l *look) read(style string) {
	for declaration := range strings.SplitSeq(style, ";") {
		name, value, ok := strings.Cut(declaration, ":")
		if !ok {
			continue
		}
		value = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "!important"))
		switch strings.TrimSpace(name) {
		case "display":
			l.hidden = l.hidden || value == "none"
		case "visibility":
			l.hidden = l.hidden || value == "hidden"
		case "color":
			l.coloured = l.fg.parse(value) || l.coloured
		case "background-color":
			l.on = l.bg.parse(value) || l.on
		case "background":
			for word := range strings.FieldsSeq(value) {
				l.on = l.bg.parse(word) || l.on
			}
		case "font-size":
			digits := strings.TrimRight(value, "abcdefghijklmnopqrstuvwxyz%")
			size, err := strconv.ParseFloat(digits, 64)
			l.tiny, l.sized = err == nil && size == 0, true
		}
	}
}

// apart reports whether an element stands on lines of its own.
func apart(tag atom.Atom) bool {
	switch tag {
	case atom.Br, atom.P, atom.Div, atom.Table, atom.Tr, atom.Td, atom.Th, atom.Ul, atom.Ol, atom.Dl, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6,
		atom.Hr, atom.Pre, atom.Center, atom.Blockquote, atom.Noscript, atom.Form, atom.Address, atom.Fieldset, atom.Section, atom.Article:
		return true
	}
	return false
}

// void reports whether an element has nothing in it.
func void(tag atom.Atom) bool {
	switch tag {
	case atom.Area, atom.Base, atom.Br, atom.Col, atom.Embed, atom.Hr, atom.Img, atom.Input, atom.Link, atom.Meta, atom.Param, atom.Source, atom.Track, atom.Wbr:
		return true
	}
	return false
}

// An rgb is a colour.
type rgb struct{ r, g, b float64 }

// far reports whether a reader tells two colours apart.
func (c rgb) far(other rgb) bool {
	const least = 0.1
	r, g, b := c.r-other.r, c.g-other.g, c.b-other.b
	return math.Sqrt(r*r+g*g+b*b)/256 >= least
}

// names are colours by name: those of HTML 4, and those that are nearly white.
var names = map[string]rgb{
	"white": {255, 255, 255}, "black": {}, "red": {255, 0, 0}, "lime": {0, 255, 0}, "green": {0, 128, 0}, "blue": {0, 0, 255}, "yellow": {255, 255, 0},
	"gray": {128, 128, 128}, "grey": {128, 128, 128}, "silver": {192, 192, 192}, "maroon": {128, 0, 0}, "olive": {128, 128, 0}, "navy": {0, 0, 128},
	"purple": {128, 0, 128}, "teal": {0, 128, 128}, "aqua": {0, 255, 255}, "fuchsia": {255, 0, 255}, "snow": {255, 250, 250}, "ivory": {255, 255, 240},
	"whitesmoke": {245, 245, 245}, "ghostwhite": {248, 248, 255}, "floralwhite": {255, 250, 240}, "mintcream": {245, 255, 250}, "azure": {240, 255, 255},
}

// parse takes a colour as HTML and CSS write it, and reports whether it is one; if not, it
// leaves c as it is.
func (c *rgb) parse(text string) bool {
	text = strings.ToLower(strings.TrimSpace(text))
	if digits, ok := strings.CutPrefix(text, "#"); ok {
		n, err := strconv.ParseUint(digits, 16, 32)
		switch {
		case err != nil:
			return false
		case len(digits) == 3:
			*c = rgb{float64(n >> 8 * 17), float64(n >> 4 & 15 * 17), float64(n & 15 * 17)}
		case len(digits) == 6:
			*c = rgb{float64(n >> 16), float64(n >> 8 & 255), float64(n & 255)}
		default:
			return false
		}
		return true
	}
	if named, ok := names[text]; ok {
		*c = named
		return true
	}
	inner, ok := strings.CutPrefix(text, "rgb(")
	if parts := strings.Split(strings.TrimSuffix(inner, ")"), ","); ok && len(parts) == 3 {
		var n [3]float64
		for i, part := range parts {
			v, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
			if err != nil {
				return false
			}
			n[i] = v
		}
		*c = rgb{n[0], n[1], n[2]}
		return true
	}
	return false
}

// dropShown puts blanks for what is shown for a link and is itself a host name, and reports
// whether there was any.
func (v *page) dropShown() (dropped bool) {
	for _, at := range v.shown {
		text := v.text[at[0]:at[1]]
		f := linkFinder{chunk: bytes.TrimSpace(text), bare: true}
		if bytes.ContainsAny(f.chunk, " \n") || len(f.chunk) > maxChunk {
			continue
		}
		if l := f.links(); len(l) == 1 && l[0] == (span{0, len(f.chunk)}) {
			for i := range text {
				text[i] = ' '
			}
			dropped = true
		}
	}
	return dropped
}

// maxReference is how long a character reference is at most, in bytes.
const maxReference = 32

// unescape resolves character references that end in a semicolon, and takes the semicolon
// of others that have a name.
func unescape(text []byte) []byte {
	if bytes.IndexByte(text, '&') < 0 {
		return text
	}
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		n := bytes.IndexByte(text, '&')
		if n < 0 {
			return append(out, text...)
		}
		out, text = append(out, text[:n]...), text[n:]
		end := 1
		for end < len(text) && end < maxReference && (isAlnum(text[end]) || text[end] == '#') {
			end++
		}
		whole := end < len(text) && text[end] == ';' && end > 1
		switch {
		case !whole:
			out = append(out, text[:end]...)
		case text[1] == '#':
			out = appendNumbered(out, string(text[2:end]))
			end++
		default:
			if name := html.UnescapeString(string(text[:end+1])); len(name) <= end {
				out = append(out, name...)
			} else {
				out = append(out, text[:end]...)
			}
			end++
		}
		text = text[end:]
	}
	return out
}

// appendNumbered appends the character of a numeric reference: its code point, whatever
// browsers make of it.
func appendNumbered(out []byte, number string) []byte {
	base := 10
	if digits, ok := strings.CutPrefix(strings.ToLower(number), "x"); ok {
		number, base = digits, 16
	}
	n, err := strconv.ParseUint(number, base, 21)
	if err != nil || n == 0 {
		return utf8.AppendRune(out, utf8.RuneError)
	}
	return utf8.AppendRune(out, rune(n))
}
