package learn

import (
	"bytes"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/mail/link"
	"github.com/bulkhead-mail/bulkhead/internal/text/markup"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// style adds the idioms of HTML: declarations of CSS, names of classes and identifiers, and
// attributes. A sender's program writes them the same way in each mail.
func (c *collector) style(source string) {
	t := markup.Over(source, maxMarkup)
	var a anchor
	var sheet bool
	for t.Next() {
		switch t.Kind() {
		case markup.Start, markup.SelfClosing:
			c.tags++
			name := t.ShortName()
			sheet = name == styleTag
			if name == imgTag {
				c.pictures++
			}
			isLink := name == aTag
			if isLink {
				c.leads(&a)
			}
			t.Attributes(func(key, value string) bool {
				if isLink && key == "href" {
					a.open, a.href, a.shown = true, value, a.shown[:0]
				}
				c.attribute(key, value)
				return c.idioms < maxIdioms || isLink
			})
		case markup.Text:
			if sheet {
				c.sheet(t.Raw())
			}
			if a.open && len(a.shown) < link.MaxURL {
				a.shown = append(a.shown, t.Raw()...)
			}
		case markup.End:
			sheet = false
			if t.ShortName() == aTag {
				c.leads(&a)
			}
		}
	}
}

// The names of tags, as [markup.Tokens.ShortName] returns them.
const (
	aTag     = 'a'
	imgTag   = 'i'<<16 | 'm'<<8 | 'g'
	styleTag = 's'<<32 | 't'<<24 | 'y'<<16 | 'l'<<8 | 'e'
)

// idiom adds an idiom, which is the parts together. Long ones and those with long numbers name one message.
func (c *collector) idiom(kind string, parts ...string) {
	buf := append(c.buf[:0], kind...)
	digits, all := 0, byte(0)
	for _, part := range parts {
		if len(part) > maxIdiom-len(buf) {
			return
		}
		for i := range len(part) {
			b := part[i]
			all |= b
			if kindOf[b] == digit {
				digits++
			}
			buf = append(buf, lower[b])
		}
	}
	if c.buf = buf; c.idioms >= maxIdioms || len(buf) == len(kind) || digits > maxDigits {
		return
	}
	c.idioms++
	if all >= utf8.RuneSelf {
		c.add(kind, []byte(strings.ToLower(strings.ToValidUTF8(strings.Join(parts, ""), "?"))))
		return
	}
	c.to.add(buf)
}

// attribute adds the idioms of an attribute. Of an attribute that others than the author's program
// may have set, only the name counts.
func (c *collector) attribute(key, value string) {
	switch key {
	case "style":
		c.declarations(value)
	case "class":
		for name := range strings.FieldsSeq(value[:min(len(value), maxMarkup)]) {
			c.idiom(classKind, name)
			if c.idioms >= maxIdioms {
				return
			}
		}
	case "id":
		c.idiom(idKind, value)
	case "href", "src", "alt", "title", "content", "value", "action", "background", "name", "summary":
		c.idiom(attrKind, key)
	default:
		if len(value) > 24 {
			value = ""
		}
		c.idiom(attrKind, key, "=", strings.TrimSpace(value))
	}
}

// declarations adds the declarations of a style: a property and its value each.
func (c *collector) declarations(text string) {
	for text != "" && c.idioms < maxIdioms {
		end, colon, place := 0, -1, false
		for ; end < len(text) && text[end] != ';'; end++ {
			switch b := text[end]; {
			case b > ':': // most
			case b == ':' && colon < 0:
				colon = end
			case b == '(' && colon >= 0: // url(...) names a place
				place = true
			}
		}
		if colon >= 0 && end-colon-1 <= maxIdiom && !place {
			c.idiom(cssKind, strings.TrimSpace(text[:colon]), ":", singleBlanks(text[colon+1:end]))
		}
		text = text[min(end+1, len(text)):]
	}
}

// singleBlanks returns text with one blank between its words, and none around them.
func singleBlanks(text string) string {
	text = strings.TrimSpace(text)
	for i := range len(text) {
		if b := text[i]; b >= utf8.RuneSelf || b < ' ' || b == ' ' && text[i+1] == ' ' {
			return strings.Join(strings.Fields(text), " ")
		}
	}
	return text
}

// sheet adds the declarations of a style sheet.
func (c *collector) sheet(text string) {
	for c.idioms < maxIdioms {
		_, rest, ok := strings.Cut(text, "{")
		if !ok {
			return
		}
		block, after, _ := strings.Cut(rest, "}")
		c.declarations(block)
		text = after
	}
}

// An anchor is a link and the text that is shown for it.
type anchor struct {
	open  bool
	href  string
	shown []byte
}

// leads ends an anchor. It notes whether the text shows a host, and whether the link leads to
// another domain.
func (c *collector) leads(a *anchor) {
	if !a.open {
		return
	}
	a.open = false
	shown, ok := domainOf(strings.TrimSpace(scan.String(a.shown)))
	if !ok { // most show no host
		return
	}
	if target, ok := domainOf(markup.Value(strings.TrimSpace(a.href))); ok {
		c.anchors++
		if shown != target {
			c.otherwiseLead++
		}
	}
}

var endOfHost = scan.NewByteSet("/?#: \t\r\n<")

// domainOf returns the registrable domain of a text that is a link or the name of a host.
func domainOf(text string) (string, bool) {
	if _, after, ok := strings.Cut(text, "://"); ok {
		text = after
	}
	text = text[:endOfHost.Index(scan.Bytes(text), 0)]
	if len(text) > 253 || strings.IndexByte(text, '.') < 0 && strings.IndexByte(text, '%') < 0 && scan.IsASCII(text) {
		return "", false // most texts
	}
	name, ok := link.Name(text)
	if !ok {
		return "", false
	}
	return link.Registrable(name)
}

// mime adds the media types, and the form of the MIME tree.
func (c *collector) mime(m *mail.Message) {
	var tree []byte
	for i := range m.Parts[:min(len(m.Parts), maxTypes)] {
		p := &m.Parts[i]
		if len(p.Type) <= maxIdiom-len(mimeKind) {
			c.add(mimeKind, []byte(strings.ToLower(strings.ToValidUTF8(p.Type, "?"))))
		}
		tree = fmt.Appendf(tree, " %.24s", p.Type)
		if p.Attachment {
			tree = append(tree, '!')
		}
		tree = strconv.AppendInt(append(tree, '/'), int64(min(p.Alternative, 9)), 10)
	}
	c.add(mimeKind, tree)
}

// relations adds what the parts of a message are to each other. Numbers are in powers of two.
func (c *collector) relations(m *mail.Message) {
	c.power("links ", c.links)
	c.power("pictures ", c.pictures)
	c.power("words ", c.seen)
	c.power("tags ", c.tags)
	switch {
	case c.otherwiseLead > 0:
		c.relation("a link shows another domain")
	case c.anchors > 0:
		c.relation("links show their domains")
	}
	c.relation(nameRelation(m.FromName, m.From))
	c.relation(replyRelation(field(m.Raw, "reply-to"), m.From))
}

func (c *collector) relation(name string) { c.add(relationKind, scan.Bytes(name)) }

// power adds a number, rounded to a power of two.
func (c *collector) power(name string, n int) {
	c.relation(name + strconv.Itoa(bits.Len(uint(n))))
}

// nameRelation compares the display name of From with its address.
func nameRelation(name, address string) string {
	if name == "" {
		return "no name"
	}
	if at := strings.IndexByte(name, '@'); at >= 0 {
		if strings.EqualFold(strings.Trim(name, "<>\"' "), address) {
			return "the name is the address"
		}
		return "the name is another address"
	}
	address = strings.ToLower(address)
	for word := range strings.FieldsFuncSeq(strings.ToLower(name), func(r rune) bool { return !isLetter(r) }) {
		if len(word) > 2 && strings.Contains(address, word) {
			return "the name is in the address"
		}
	}
	return "the name is not in the address"
}

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r > 0x7f }

// replyRelation compares where an answer goes with where the message came from.
func replyRelation(reply, from string) string {
	_, to, ok := strings.Cut(strings.Trim(reply, "> \t\r"), "@")
	if !ok {
		return "no reply-to"
	}
	to = to[strings.LastIndexByte(to, '@')+1:]
	_, own, _ := strings.Cut(from, "@")
	a, ok1 := domainOf(strings.Trim(to, "<>\" "))
	b, ok2 := domainOf(own)
	if ok1 && ok2 && a == b {
		return "answers go to the sender"
	}
	return "answers go elsewhere"
}

// field returns the first line of a field of the header, "" if there is none. name is in lower case.
func field(raw []byte, name string) string {
	for range 1000 {
		n := bytes.IndexByte(raw, '\n') + 1
		if n == 0 {
			n = len(raw)
		}
		line := raw[:n]
		if len(line) < 3 && strings.TrimSpace(string(line)) == "" {
			return ""
		}
		if len(line) > len(name) && line[len(name)] == ':' && strings.EqualFold(string(line[:len(name)]), name) {
			return strings.TrimSpace(string(line[len(name)+1 : min(len(line), 1000)]))
		}
		raw = raw[n:]
	}
	return ""
}
