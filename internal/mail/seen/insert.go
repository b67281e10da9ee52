package seen

import (
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/bulkhead-mail/bulkhead/internal/text/css"
)

// A content is the text that a rule writes before or behind what is in an element.
type content struct {
	pieces    []css.Piece
	declared  bool // it may be nothing
	important bool
	sure      bool // the rule applies
}

// contentOf returns what a rule writes. sure reports whether the rule applies.
func contentOf(prelude, body string, sure bool) (text content) {
	if strings.IndexByte(prelude, ':') < 0 {
		return content{} // it selects no part of an element
	}
	css.Declarations(body, func(name, written string) {
		if name != "content" {
			return
		}
		pieces, important, ok := css.Content(written)
		if ok && (important || !text.important) {
			text = content{pieces, true, important, sure}
		}
	})
	return text
}

// shows reports whether the text may have a letter.
func (c *content) shows() bool {
	for _, p := range c.pieces {
		if p.Attribute != "" || strings.Trim(p.Text, " \t\r\n\f") != "" {
			return true
		}
	}
	return false
}

// written returns the text that rules write in an element, by rising weight. A rule of which it is not sure that it
// applies only adds to it.
func (s *sheet) written(rules []*rule, n *html.Node) string {
	var counts *content
	for _, r := range rules {
		if c := &r.text; c.declared && c.sure && (counts == nil || c.important || !counts.important) {
			counts = c
		}
	}
	var all strings.Builder
	if counts != nil {
		s.write(&all, counts, n)
	}
	for _, r := range rules {
		if c := &r.text; !c.sure && c.shows() && all.Len() <= s.room {
			all.WriteByte(' ')
			s.write(&all, c, n)
		}
	}
	return all.String()
}

// write writes the text of a content in an element.
func (s *sheet) write(to *strings.Builder, c *content, n *html.Node) {
	s.match.Steps -= len(c.pieces)
	for _, p := range c.pieces {
		to.WriteString(p.Text)
		if p.Attribute == "" {
			continue
		}
		s.match.Steps -= len(n.Attr)
		for _, a := range n.Attr {
			if a.Key == p.Attribute {
				to.WriteString(a.Val)
			}
		}
	}
}

// insert shows what style sheets write before or behind what is in an element. All of it may be as long as the page.
// Elements that have a content of another kind have no such text.
func (v *visible) insert(n *html.Node, of *knownName, part css.Part) {
	if v.veil&gone != 0 || !v.sheet.writes || v.full() || of.is&void != 0 || of.tag == atom.Textarea ||
		of.tag == atom.Select {
		return
	}
	rules := v.sheet.of(n, part)
	name := knownName{}
	inner, as := v.inside(&name, &tagged{}, declared(rules))
	if inner.veil&^(outside|indented) != 0 {
		return
	}
	text := v.sheet.written(rules, n)
	if text == "" || len(text) > v.sheet.room || v.pace.Over(len(text)) {
		return
	}
	v.sheet.room -= len(text)
	before, at := v.look, len(v.dst)
	v.look = inner
	v.opens(&name, as)
	turn := v.beginTurn(before)
	if v.shows(text) {
		v.text([]byte(text))
	}
	v.endTurn(turn)
	v.look = before
	v.closes(&name, as, false, at)
}

// field shows what stands in a field of a form. rules are what style sheets declare for the element, by rising
// weight.
func (v *visible) field(tag atom.Atom, t *tagged, rules [][]declaration) {
	if t.named&(namedValue|namedPlaceholder) == 0 {
		return
	}
	text := inputText(t)
	if tag == atom.Textarea {
		text = t.placeholder
	}
	before := v.look
	v.look, _ = v.inside(&knownName{tag: tag, is: dressed | cell}, t, rules)
	v.look.put(faint, v.veil&faint != 0 && t.value != "") // a placeholder has a colour of its own
	if text != "" && v.shows(text) && !v.full() {
		v.text([]byte{' '}) // its frame stands between it and other words
		v.written(text)
		v.text([]byte{' '})
	}
	v.look = before
}

// inputText returns what an input element shows, as it is written.
//
// Source: WHATWG HTML, 4.10.5.1 States of the type attribute.
func inputText(t *tagged) string {
	switch strings.ToLower(t.kind) {
	case "password":
		if t.value != "" {
			return ""
		}
	case "hidden", "checkbox", "radio", "file", "image", "color", "range", "date", "time", "datetime-local", "month",
		"week":
		return ""
	}
	if t.value == "" && !isButton(t.kind) {
		return t.placeholder
	}
	return t.value
}

// isButton reports whether an input element of a type is a button.
func isButton(kind string) bool {
	switch strings.ToLower(kind) {
	case "submit", "button", "reset":
		return true
	}
	return false
}
