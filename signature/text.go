package signature

import (
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// maxVisible bounds the visible text, in bytes, that signatures look at.
const maxVisible = 256 << 10

// appendVisible appends the text that a reader of the HTML source would see,
// in lines. Mark-up, comments, scripts and hidden elements are gone, without a
// trace inside of a word; lines below a blockquote begin with ">", as in plain
// text.
func appendVisible(dst []byte, source string) []byte {
	v := visible{dst: dst, start: len(dst)}
	z := html.NewTokenizer(strings.NewReader(source))
	for len(v.dst)-v.start < maxVisible {
		switch z.Next() {
		case html.ErrorToken:
			return v.dst
		case html.TextToken:
			if v.skip == 0 && v.hidden == 0 {
				v.text(z.Text())
			}
		case html.StartTagToken:
			v.open(z, false)
		case html.SelfClosingTagToken:
			v.open(z, true)
		case html.EndTagToken:
			v.end(z)
		}
	}
	return v.dst
}

// visible is the state of appendVisible.
type visible struct {
	dst    []byte
	start  int
	skip   atom.Atom // element whose content is never shown, 0 outside of one
	hidden atom.Atom // element that is styled away, 0 outside of one
	nested int       // open elements of the hidden element's name within it
	quotes int       // open blockquotes
}

func (v *visible) text(b []byte) {
	for _, c := range b {
		if c == '\n' || c == '\r' || c == '\t' {
			c = ' '
		}
		n := len(v.dst)
		atStart := n == v.start || v.dst[n-1] == '\n'
		if c == ' ' && (atStart || v.dst[n-1] == ' ') {
			continue
		}
		if atStart && v.quotes > 0 {
			v.dst = append(v.dst, '>', ' ')
		}
		v.dst = append(v.dst, c)
	}
}

func (v *visible) line() {
	if n := len(v.dst); n > v.start && v.dst[n-1] != '\n' {
		v.dst = append(v.dst, '\n')
	}
}

// paragraph ends the line and leaves an empty one.
func (v *visible) paragraph() {
	v.line()
	if n := len(v.dst); n > v.start+1 && v.dst[n-2] != '\n' {
		v.dst = append(v.dst, '\n')
	}
}

func (v *visible) open(z *html.Tokenizer, selfClosing bool) {
	name, more := z.TagName()
	tag := atom.Lookup(name)
	void := selfClosing || isVoid(tag)
	if v.hidden != 0 {
		switch {
		case tag == v.hidden && tag != atom.P && !void:
			v.nested++
			return
		case v.hidden == atom.P && isBlock(tag):
			v.hidden = 0 // a block ends the paragraph
		default:
			return
		}
	}
	switch tag {
	case atom.Script, atom.Style, atom.Title, atom.Template:
		if !selfClosing {
			v.skip = tag
		}
		return
	case atom.Blockquote:
		v.paragraph()
		v.quotes++
	case atom.Td, atom.Th:
		v.text([]byte{' '})
	case atom.P, atom.Table, atom.Ul, atom.Ol, atom.H1, atom.H2, atom.H3, atom.H4, atom.Hr:
		v.paragraph()
	default:
		if isBlock(tag) {
			v.line()
		}
	}
	if !void && more && isHidden(z) {
		v.hidden, v.nested = tag, 0
	}
}

func (v *visible) end(z *html.Tokenizer) {
	name, _ := z.TagName()
	tag := atom.Lookup(name)
	switch {
	case v.skip != 0:
		if tag == v.skip {
			v.skip = 0
		}
	case v.hidden != 0:
		if tag != v.hidden {
			return
		}
		if v.nested--; v.nested < 0 {
			v.hidden = 0
		}
	case tag == atom.Blockquote:
		v.paragraph()
		v.quotes = max(0, v.quotes-1)
	case tag == atom.P || tag == atom.Table:
		v.paragraph()
	case isBlock(tag):
		v.line()
	}
}

// isHidden reads the attributes of a start tag and reports whether they take
// the element out of sight.
func isHidden(z *html.Tokenizer) bool {
	for range 64 {
		key, value, more := z.TagAttr()
		switch string(key) {
		case "hidden":
			return true
		case "style":
			if hiddenStyle(value) {
				return true
			}
		}
		if !more {
			return false
		}
	}
	return false
}

func hiddenStyle(style []byte) bool {
	if len(style) > 4096 {
		style = style[:4096]
	}
	compact := make([]byte, 0, len(style))
	for _, c := range style {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c > ' ' {
			compact = append(compact, c)
		}
	}
	s := string(compact)
	for _, mark := range []string{"display:none", "visibility:hidden", "mso-hide:all", "font-size:0;", "font-size:0px", "font-size:0pt"} {
		if strings.Contains(s, mark) {
			return true
		}
	}
	return strings.HasSuffix(s, "font-size:0")
}

func isVoid(tag atom.Atom) bool {
	switch tag {
	case atom.Area, atom.Base, atom.Br, atom.Col, atom.Embed, atom.Hr, atom.Img, atom.Input,
		atom.Link, atom.Meta, atom.Param, atom.Source, atom.Track, atom.Wbr:
		return true
	}
	return false
}

func isBlock(tag atom.Atom) bool {
	switch tag {
	case atom.Br, atom.P, atom.Div, atom.Table, atom.Tr, atom.Li, atom.Ul, atom.Ol, atom.Dl, atom.Dt, atom.Dd,
		atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Hr, atom.Pre, atom.Center, atom.Blockquote,
		atom.Body, atom.Section, atom.Article, atom.Header, atom.Footer, atom.Form, atom.Option, atom.Tbody, atom.Thead:
		return true
	}
	return false
}
