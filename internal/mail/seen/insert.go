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
// applies only adds to it. A text that is longer than the room for it is none, and takes no memory: a few attributes
// could stand for many times the page.
func (s *sheet) written(rules []*rule, n *html.Node) string {
	size := 0
	s.pieces(rules, n, func(text string) bool {
		size += len(text)
		return size <= s.room
	})
	if size > s.room {
		return ""
	}
	var all strings.Builder
	all.Grow(size)
	s.pieces(rules, n, func(text string) bool {
		all.WriteString(text)
		return true
	})
	return all.String()
}

// pieces passes on the pieces of the text that rules write in an element, until take returns false.
func (s *sheet) pieces(rules []*rule, n *html.Node, take func(string) bool) {
	var counts *content
	for _, r := range rules {
		if c := &r.text; c.declared && c.sure && (counts == nil || c.important || !counts.important) {
			counts = c
		}
	}
	if counts != nil && !s.each(counts, n, take) {
		return
	}
	for _, r := range rules {
		if c := &r.text; !c.sure && c.shows() && !(take(" ") && s.each(c, n, take)) {
			return
		}
	}
}

// each passes on the pieces of a content in an element, until take returns false. It returns what take returned last.
func (s *sheet) each(c *content, n *html.Node, take func(string) bool) bool {
	s.match.Steps -= len(c.pieces)
	for _, p := range c.pieces {
		if p.Attribute == "" {
			if !take(p.Text) {
				return false
			}
			continue
		}
		s.match.Steps -= len(n.Attr)
		for _, a := range n.Attr {
			if a.Key == p.Attribute && !take(a.Val) {
				return false
			}
		}
	}
	return true
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
	if text == "" || v.pace.Over(len(text)) {
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
