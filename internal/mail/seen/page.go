package seen

import (
	"strings"
	"sync"

	"golang.org/x/net/html/atom"

	"github.com/bulkhead-mail/bulkhead/internal/pace"
	"github.com/bulkhead-mail/bulkhead/internal/text/markup"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// Limits of what is read from the mark-up of a message.
const (
	MaxLinks  = 8 << 10  // links and anchors of all pages of a message
	maxHref   = 4 << 10  // bytes of a link; what follows is cut off
	maxMarkup = 16 << 10 // bytes of [Page.Markup]
	maxAlt    = 16 << 10 // bytes of [Page.Alt]; what follows is cut off
	minAlt    = 4        // words of an alternative text
	maxInner  = 8        // of [Page.Frames]

	// Links that contained character references share pieces of memory of minURLs to maxURLs bytes.
	minURLs, maxURLs = 256, 4 << 10
	maxTag           = 32 // bytes of a name in it
)

// A Page is what a reader sees of a text part, and where its links lead.
type Page struct {
	// Text is what a reader sees, in lines; lines below a blockquote begin with ">".
	Text []byte
	// Links are the links of the mark-up, without links within the message. A repeated link may be
	// listed once.
	Links []Href
	// Anchors are the pieces of Text that are shown for a link, in their order: the index of the
	// first byte, and the index after the last byte.
	Anchors [][2]int32
	// Markup is the names of the start tags as they are written, in lower case, each followed by a space. Elements
	// that hide what is in them are left out, as far as they are seen to do so without a tree.
	Markup []byte
	// Alt is the texts that stand for pictures until they are loaded, a line each. Texts of fewer than four words,
	// such as those of icons, are left out. They are no part of Text.
	Alt []byte
	// Frames are the pages and pictures that stand in the mark-up itself: sources of pages, and data: URLs.
	Frames []string
}

// A Href is a link as it stands in the mark-up, with its character references
// resolved.
type Href struct {
	URL string
	// Hidden is set for links that no reader can see.
	Hidden bool
	// Loaded is set for what is shown in the page, such as a picture, and not followed.
	Loaded bool
}

// Read reads the HTML source of a page, until p ends. If note is set, it notes up to links links, and returns how
// many more might be noted.
func Read(p *pace.Pace, source string, links int, note bool) (page Page, left int) {
	v := visibles.Get().(*visible)
	defer v.back()
	v.pace = p
	if note {
		v.page, v.hrefs = &v.noted, links
	}
	v.read(source)
	// The memory that was read into is used again.
	page = Page{Text: append(make([]byte, 0, len(v.dst)), v.dst...)}
	if note {
		page.Links, page.Anchors, page.Markup = cloned(v.noted.Links), cloned(v.noted.Anchors), cloned(v.noted.Markup)
		page.Alt, page.Frames = cloned(v.noted.Alt), cloned(v.noted.Frames)
	}
	return page, v.hrefs
}

// cloned returns a copy without room to grow, nil of nothing.
func cloned[T any](s []T) []T {
	if len(s) == 0 {
		return nil
	}
	return append(make([]T, 0, len(s)), s...)
}

// visibles keeps the memory of pages that were read; it holds no state.
var visibles = sync.Pool{New: func() any { return new(visible) }}

// Limits on the memory of a visible that is reused, in bytes of text and in links.
const (
	maxSpare      = 512 << 10
	maxSpareLinks = 1 << 10
)

// back resets v, keeps its memory, and returns v to the pool.
func (v *visible) back() {
	if cap(v.dst)+cap(v.unescaped) > maxSpare || len(v.known) > maxSpareLinks {
		return
	}
	clear(v.known)
	clear(v.noted.Links)
	clear(v.noted.Frames)
	noted := Page{Links: v.noted.Links[:0], Anchors: v.noted.Anchors[:0], Markup: v.noted.Markup[:0], Alt: v.noted.Alt[:0],
		Frames: v.noted.Frames[:0]}
	*v = visible{dst: v.dst[:0], styling: styling{frames: v.frames[:0]}, name: v.name[:0], names: v.names, known: v.known,
		shape: shape{open: v.shape.open}, unescaped: v.unescaped[:0], noted: noted}
	visibles.Put(v)
}

// link takes a link of a start tag.
func (v *visible) link(url string, hidden, loaded bool) {
	if v.hrefs <= 0 || !leadsOut(url) {
		return
	}
	url = url[:min(len(url), maxHref)]
	plain := url
	before := len(v.urls)
	if strings.IndexByte(url, '&') >= 0 {
		if cap(v.urls)-before < len(url) {
			v.urls, before = make([]byte, 0, max(min(2*cap(v.urls), maxURLs), minURLs, len(url))), 0
		}
		v.urls = markup.AppendUnescaped(v.urls, url)
		if plain = scan.String(v.urls[before:]); !leadsOut(plain) {
			v.urls = v.urls[:before]
			return
		}
	}
	h := Href{Hidden: hidden || v.veil&(gone|invisible) != 0, Loaded: loaded}
	use := uint8(1)
	if h.Hidden {
		use <<= 1
	}
	if h.Loaded {
		use <<= 2
	}
	known := v.known[plain]
	if known&use != 0 {
		v.urls = v.urls[:before]
		return
	}
	if v.known == nil {
		v.known = make(map[string]uint8, 16)
	}
	h.URL = plain
	v.known[plain] = known | use
	v.hrefs--
	v.page.Links = append(v.page.Links, h)
}

// leadsOut reports whether url may lead out of the message: it begins like http, ftp or
// tel, or with a slash.
func leadsOut(url string) bool {
	url = strings.TrimLeftFunc(url, func(r rune) bool { return r <= ' ' })
	return url != "" && strings.IndexByte("hHfFtT/\\&", url[0]) >= 0
}

// A tagged holds the attributes of a start tag that matter here. Of repeated attributes the first
// one counts. Character references are not resolved.
type tagged struct {
	href, src, srcdoc, alt, action, formaction, equiv, content string

	style, bgcolor, colour, size, linked string

	kind, value, placeholder string // of a field of a form

	named uint32 // which of these there are, and which without a value that matters
}

// The attributes that a tagged holds.
const (
	namedHref = 1 << iota
	namedSrc
	namedSrcdoc
	namedAction
	namedFormaction
	namedEquiv
	namedContent
	namedStyle
	namedBgcolor
	namedColour
	namedSize
	namedLinked
	namedHidden
	namedBackground
	namedOpen
	namedAlt
	namedKind
	namedValue
	namedPlaceholder
	namedLeftward  // dir=rtl
	namedRightward // another direction

	// namedLooks are the attributes that may change what is seen.
	namedLooks = namedStyle | namedBgcolor | namedColour | namedSize | namedLinked | namedHidden | namedBackground |
		namedLeftward | namedRightward
)

// attributes reads the present start tag, and returns how many attributes it has.
func (v *visible) attributes(to *tagged, tag atom.Atom, t *markup.Tokens) (n int) {
	source := v.tag
	if source == "" {
		if written, ok := t.Written(); ok {
			for i := range written {
				key, value := t.Attribute(i)
				v.attribute(to, tag, key, value)
			}
			return written
		}
		source = t.Raw()
	}
	eachAttribute(source, v.pace, func(key, value string) {
		n++
		v.attribute(to, tag, key, value)
	})
	return n
}

// attribute takes an attribute of an element.
func (v *visible) attribute(t *tagged, tag atom.Atom, key, value string) {
	to, name := t.common(key)
	if to == nil {
		to, name = t.own(tag, key)
	}
	if to == nil {
		t.flag(tag, key, value)
	} else if t.named&name == 0 {
		*to = value
		t.named |= name
	}
}

// common returns the place of an attribute that many elements have, nil for others.
func (t *tagged) common(key string) (to *string, name uint32) {
	switch len(key) {
	case len("src"):
		if is(key, "src") {
			return &t.src, namedSrc
		}
	case len("href"):
		if is(key, "href") {
			return &t.href, namedHref
		}
	case len("style"):
		if is(key, "style") {
			return &t.style, namedStyle
		}
	case len("action"):
		if is(key, "action") {
			return &t.action, namedAction
		}
	case len("content"):
		if is(key, "content") {
			return &t.content, namedContent
		}
		if is(key, "bgcolor") {
			return &t.bgcolor, namedBgcolor
		}
	case len("http-equiv"):
		if is(key, "http-equiv") {
			return &t.equiv, namedEquiv
		}
		if is(key, "formaction") {
			return &t.formaction, namedFormaction
		}
	}
	return nil, 0
}

// own returns the place of an attribute that elements of few names have, nil for others.
func (t *tagged) own(tag atom.Atom, key string) (to *string, name uint32) {
	switch tag {
	case atom.Img:
		if strings.EqualFold(key, "alt") {
			return &t.alt, namedAlt
		}
	case atom.Iframe:
		if strings.EqualFold(key, "srcdoc") {
			return &t.srcdoc, namedSrcdoc
		}
	case atom.Object:
		if strings.EqualFold(key, "data") {
			return &t.src, namedSrc
		}
	case atom.Font:
		if strings.EqualFold(key, "size") {
			return &t.size, namedSize
		}
		if strings.EqualFold(key, "color") {
			return &t.colour, namedColour
		}
	case atom.Body:
		if strings.EqualFold(key, "text") {
			return &t.colour, namedColour
		}
		if strings.EqualFold(key, "link") {
			return &t.linked, namedLinked
		}
	case atom.Input:
		if strings.EqualFold(key, "type") {
			return &t.kind, namedKind
		}
		if strings.EqualFold(key, "value") {
			return &t.value, namedValue
		}
		fallthrough
	case atom.Textarea:
		if strings.EqualFold(key, "placeholder") {
			return &t.placeholder, namedPlaceholder
		}
	}
	return nil, 0
}

// flag takes an attribute of which only the presence matters, or one of a few values.
func (t *tagged) flag(tag atom.Atom, key, value string) {
	switch len(key) {
	case len("dir"):
		if !is(key, "dir") || t.named&(namedLeftward|namedRightward) != 0 {
			return
		}
		if t.named |= namedRightward; strings.EqualFold(value, "rtl") {
			t.named ^= namedLeftward | namedRightward
		}
	case len("open"):
		if (tag == atom.Details || tag == atom.Dialog) && is(key, "open") {
			t.named |= namedOpen
		}
	case len("hidden"):
		if is(key, "hidden") {
			t.named |= namedHidden
		}
	case len("background"):
		if is(key, "background") && value != "" {
			t.named |= namedBackground
		}
	}
}

// is reports whether key, which has as many bytes, is name without regard to case.
func is(key, name string) bool { return key[0]|0x20 == name[0] && strings.EqualFold(key, name) }

// noteTag notes the name of a start tag as the source has it, unless what is in the element is not seen. A browser's
// tree has more elements, and others than a page with the same tags and nothing hidden, of which no tree is built.
func (v *visible) noteTag(name *knownName, inner veil) {
	if v.page == nil || v.course.streamed || len(v.page.Markup) >= maxMarkup {
		return
	}
	if name.tag == atom.Img || name.tag == atom.Image {
		inner &= gone | outside | invisible // of a picture, letters make no difference
	}
	switch p := v.page; {
	case inner != 0:
	case name.size > 0:
		p.Markup = append(p.Markup, name.lower[:name.size]...)
	default:
		p.Markup = append(append(p.Markup, v.name[:min(len(v.name)-1, maxTag)]...), ' ')
	}
}

// element notes the links of a start tag. inner is what hides what is in the element.
func (v *visible) element(name *knownName, t *tagged, inner veil) {
	if v.page == nil || v.skip != 0 || name.is&leader == 0 {
		return
	}
	switch name.tag {
	case atom.A:
		v.endAnchor()
		if t.named&namedHref != 0 {
			v.anchor = anchor{begin: len(v.dst) + 1}
			if inner != 0 && inner&(gone|invisible) == 0 {
				v.anchor.veiled = t.href
			} else {
				v.link(t.href, inner != 0, false)
			}
		}
	case atom.Area, atom.Base:
		v.link(t.href, false, false)
	case atom.Form:
		v.link(t.action, false, false)
	case atom.Button:
		v.link(t.formaction, false, false)
	case atom.Input:
		v.link(t.formaction, false, false)
		v.link(t.src, false, true)
	case atom.Iframe, atom.Frame, atom.Embed, atom.Object:
		v.link(t.src, false, false)
		if t.srcdoc != "" {
			v.frame(t.srcdoc, inner)
		} else {
			v.frameAt(t.src, inner)
		}
	case atom.Img, atom.Image:
		if inner&(gone|outside|invisible) == 0 {
			v.anchor.pictured = true
			v.alternative(t.alt)
		}
		v.frameAt(t.src, inner)
		v.link(t.src, false, true)
	case atom.Link:
		v.link(t.href, false, true)
	case atom.Meta:
		v.refresh(t)
	}
}

// frameAt notes what a data: URL holds.
func (v *visible) frameAt(url string, inner veil) {
	const scheme = "data:"
	url = strings.TrimLeft(url, " \t\r\n\f")
	if len(url) > len(scheme) && url[0]|0x20 == 'd' && strings.EqualFold(url[:len(scheme)], scheme) {
		v.frame(url, inner)
	}
}

// frame notes a page or a picture that stands in the mark-up, unless it is hidden.
func (v *visible) frame(source string, inner veil) {
	if (v.veil|inner)&(gone|outside|invisible) == 0 && len(v.page.Frames) < maxInner && !v.pace.Over(len(source)) {
		v.page.Frames = append(v.page.Frames, markup.Unescape(source))
	}
}

// alternative notes the text of a picture.
func (v *visible) alternative(text string) {
	text = markup.Unescape(text[:min(len(text), maxAlt-min(len(v.page.Alt), maxAlt))])
	n := 0
	for range strings.FieldsSeq(text) {
		n++
	}
	if n >= minAlt {
		v.page.Alt = append(append(v.page.Alt, text...), '\n')
	}
}

// refresh takes the link of a tag that sends the reader elsewhere by itself.
func (v *visible) refresh(t *tagged) {
	if !strings.EqualFold(strings.TrimSpace(t.equiv), "refresh") {
		return
	}
	content := markup.Unescape(t.content[:min(len(t.content), maxHref)])
	_, target, ok := strings.Cut(content, ";")
	if !ok {
		_, target, _ = strings.Cut(content, ",")
	}
	target = strings.TrimSpace(target)
	if len(target) > 3 && strings.EqualFold(target[:3], "url") {
		if after, ok := strings.CutPrefix(strings.TrimSpace(target[3:]), "="); ok {
			target = strings.TrimSpace(after)
		}
	}
	v.link(strings.Trim(target, `"'`), false, false)
}

// An anchor is an open link.
type anchor struct {
	begin    int    // 1 more than where its text begins; 0 if none is open
	veiled   string // where it leads, if its letters cannot be seen
	pictured bool   // there is a picture in it
}

// endAnchor ends what is shown for a link, if one is open. A link without letters that can be seen shows what
// is in it all the same: a picture, or an element with letters of its own.
func (v *visible) endAnchor() {
	a := v.anchor
	v.anchor = anchor{}
	if a.veiled != "" {
		v.link(a.veiled, !a.pictured && len(v.dst) < a.begin, false)
	}
	if start := a.begin - 1; a.begin > 0 && start < len(v.dst) && len(v.page.Anchors) < MaxLinks {
		v.page.Anchors = append(v.page.Anchors, [2]int32{int32(start), int32(len(v.dst))})
	}
}

// eachAttribute calls visit with the attributes of the start tag at the beginning of
// source, their values as written, until p ends, and returns where the tag ends.
//
// Source: WHATWG HTML, tokenization from the tag name state on.
func eachAttribute(source string, p *pace.Pace, visit func(key, value string)) int {
	at := 1
	for at < len(source) && stops[source[at]]&endsName == 0 {
		at++
	}
	for at < len(source) && source[at] != '>' {
		start := at
		if stops[source[at]]&(endsName|blank) != 0 { // a slash or a blank
			at++
			continue
		}
		at++ // also an equals sign
		for at < len(source) && stops[source[at]]&endsKey == 0 {
			at++
		}
		key, value := source[start:at], ""
		for at < len(source) && stops[source[at]]&blank != 0 {
			at++
		}
		if at < len(source) && source[at] == '=' {
			at++
			for at < len(source) && stops[source[at]]&blank != 0 {
				at++
			}
			switch {
			case at < len(source) && (source[at] == '"' || source[at] == '\''):
				quote := source[at]
				at++
				n := strings.IndexByte(source[at:], quote)
				if n < 0 {
					n = len(source) - at
				}
				value = source[at : at+n]
				at = min(at+n+1, len(source))
			default:
				begin := at
				for at < len(source) && stops[source[at]]&endsValue == 0 {
					at++
				}
				value = source[begin:at]
			}
		}
		if p.Over(at - start) {
			return at
		}
		visit(key, value)
	}
	return min(at+1, len(source))
}

// Flags for what a character ends in a tag.
const (
	blank    = 1 << iota
	endsName // of the tag
	endsKey  // name of an attribute
	endsValue
)

var stops = func() (table [256]uint8) {
	for _, c := range []byte(" \t\r\n\f") {
		table[c] = blank | endsName | endsKey | endsValue
	}
	table['/'], table['='], table['>'] = endsName|endsKey, endsKey, endsName|endsKey|endsValue
	return table
}()
