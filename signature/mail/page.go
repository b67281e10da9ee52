package mail

import (
	"context"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/bulkhead-mail/bulkhead/signature/document"
	"github.com/bulkhead-mail/bulkhead/signature/internal/pace"
	"github.com/bulkhead-mail/bulkhead/signature/internal/scan"
)

// Limits of what is read from the mark-up of a message.
const (
	maxHrefs  = 8 << 10  // links and anchors of all pages
	maxHref   = 4 << 10  // bytes of a link; what follows is cut off
	maxMarkup = 16 << 10 // bytes of [Page.Markup]
	maxTag    = 32       // bytes of a name in it
)

// A Page is what a reader sees of a text part, and where its links lead.
type Page struct {
	// Text is that of [Message.Visible].
	Text []byte
	// Links are those of the mark-up, without those that lead nowhere outside of the
	// message. One that is repeated may be there once.
	Links []Href
	// Anchors are the pieces of Text that are shown for a link, in their order: index
	// of the first byte, and of that behind the last.
	Anchors [][2]int32
	// Markup is the names of the elements as they begin, in lower case, each followed
	// by a space.
	Markup []byte
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

// Page returns a text part, by its index in Parts, as its reader sees it. For a part
// that is not HTML it returns only the text. The caller must not change the result.
// It fails only when ctx ends, with an error that wraps that of ctx.
func (m *Message) Page(ctx context.Context, part int) (Page, error) {
	p := &m.Parts[part]
	if p.Type == "text/calendar" {
		return Page{Text: document.Calendar(p.Text)}, nil
	}
	if !p.HTML {
		return Page{Text: scan.Bytes(p.Text)}, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pages == nil {
		m.pages = make([]*Page, len(m.Parts))
	}
	page := m.pages[part]
	if page != nil && page.Text != nil {
		return *page, nil
	}
	v := visible{pace: pace.New(ctx)}
	if page == nil {
		v.page = &Page{}
		v.hrefs = maxHrefs - m.hrefs
	}
	v.read(p.Text)
	if err := pace.Ended(v.pace); err != nil {
		return Page{}, err
	}
	if page == nil {
		page = v.page
		m.pages[part] = page
		m.hrefs = maxHrefs - v.hrefs
	}
	whole := *page
	whole.Text = v.dst
	if whole.Text == nil {
		whole.Text = []byte{}
	}
	if m.visibles += cap(v.dst); m.visibles <= maxKept {
		*page = whole
	}
	return whole, nil
}

// link takes a link of a start tag.
func (v *visible) link(url string, hidden, loaded bool) {
	if v.hrefs <= 0 || !leads(url) {
		return
	}
	if url = url[:min(len(url), maxHref)]; strings.Contains(url, "&") {
		url = html.UnescapeString(url)
	}
	h := Href{URL: url, Hidden: hidden || v.veil != 0, Loaded: loaded}
	if _, known := v.known[h]; known {
		return
	}
	if v.known == nil {
		v.known = make(map[Href]struct{})
	}
	h.URL = strings.Clone(url) // of what the tokenizer writes over
	v.known[h] = struct{}{}
	v.hrefs--
	v.page.Links = append(v.page.Links, h)
}

// leads reports whether url may lead out of the message: it begins like http, ftp or
// tel, or with a slash.
func leads(url string) bool {
	url = strings.TrimLeftFunc(url, func(r rune) bool { return r <= ' ' })
	return url != "" && strings.IndexByte("hHfFtT/\\&", url[0]) >= 0
}

// element notes what a start tag says of the page: its name and its links.
func (v *visible) element(tag atom.Atom, name []byte, source string) {
	if v.page == nil || v.skip != 0 {
		return
	}
	if p := v.page; len(p.Markup) < maxMarkup {
		p.Markup = append(append(p.Markup, name[:min(len(name), maxTag)]...), ' ')
	}
	switch tag {
	case atom.A:
		v.endAnchor()
		if href, ok := attribute(source, "href", v.pace); ok {
			style, _ := attribute(source, "style", v.pace)
			v.link(href, hiddenStyle(style), false)
			v.anchor = len(v.dst) + 1
		}
	case atom.Area, atom.Base:
		v.attributes(source, "href", false)
	case atom.Form:
		v.attributes(source, "action", false)
	case atom.Button:
		v.attributes(source, "formaction", false)
	case atom.Input:
		v.attributes(source, "formaction", false)
		v.attributes(source, "src", true)
	case atom.Iframe, atom.Frame:
		v.attributes(source, "src", false)
	case atom.Img:
		v.attributes(source, "src", true)
	case atom.Link:
		v.attributes(source, "href", true)
	case atom.Meta:
		v.refresh(source)
	}
}

// attributes takes the links in an attribute of a start tag.
func (v *visible) attributes(source, name string, loaded bool) {
	if value, ok := attribute(source, name, v.pace); ok {
		v.link(value, false, loaded)
	}
}

// refresh takes the link of a tag that sends the reader elsewhere by itself.
func (v *visible) refresh(source string) {
	if kind, _ := attribute(source, "http-equiv", v.pace); !strings.EqualFold(strings.TrimSpace(kind), "refresh") {
		return
	}
	content, _ := attribute(source, "content", v.pace)
	content = html.UnescapeString(content[:min(len(content), maxHref)])
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

// endAnchor ends what is shown for a link, if one is open.
func (v *visible) endAnchor() {
	if start := v.anchor - 1; v.anchor > 0 && start < len(v.dst) && len(v.page.Anchors) < maxHrefs {
		v.page.Anchors = append(v.page.Anchors, [2]int32{int32(start), int32(len(v.dst))})
	}
	v.anchor = 0
}

// attribute returns the value of an attribute of the start tag at the beginning of
// source: of the first one of that name, which must be in lower case.
func attribute(source, name string, p *pace.Pace) (value string, ok bool) {
	eachAttribute(source, p, func(key, v string) bool {
		if len(key) == len(name) && strings.EqualFold(key, name) {
			value, ok = v, true
		}
		return !ok
	})
	return value, ok
}

// eachAttribute calls visit with the attributes of the start tag at the beginning of
// source, their values as written, until it returns false or p ends, and returns
// where the tag ends.
//
// Source: WHATWG HTML, tokenization from the tag name state on.
func eachAttribute(source string, p *pace.Pace, visit func(key, value string) bool) int {
	at := 1
	until := func(stops string) string {
		n := strings.IndexAny(source[at:], stops)
		if n < 0 {
			n = len(source) - at
		}
		text := source[at : at+n]
		at += n
		return text
	}
	blanks := func() {
		for at < len(source) && strings.IndexByte(" \t\r\n\f", source[at]) >= 0 {
			at++
		}
	}
	until(" \t\r\n\f/>")
	for at < len(source) && source[at] != '>' {
		start := at
		if source[at] == '/' || strings.IndexByte(" \t\r\n\f", source[at]) >= 0 {
			at++
			continue
		}
		at++ // also an equals sign
		until(" \t\r\n\f/>=")
		key, value := source[start:at], ""
		blanks()
		if at < len(source) && source[at] == '=' {
			at++
			blanks()
			switch {
			case at < len(source) && (source[at] == '"' || source[at] == '\''):
				quote := source[at : at+1]
				at++
				value = until(quote)
				at = min(at+1, len(source))
			default:
				value = until(" \t\r\n\f>")
			}
		}
		if p.Over(at-start) || !visit(key, value) {
			return at
		}
	}
	return min(at+1, len(source))
}
