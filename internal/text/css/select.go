package css

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"
)

// Limits of selectors. A rule with more is ignored.
const (
	maxCompounds = 16 // of a selector
	maxTests     = 16 // of a compound
)

// A Selector selects elements by themselves and by the elements around and before them.
type Selector struct {
	// Weight orders selectors by their specificity.
	Weight uint32
	// Part is what is selected of the elements: all of it, or what style sheets write before or behind what is in it.
	Part      Part
	compounds []compound // the selected element last
	never     bool       // it selects what mail never is, such as a link below a pointer
	invalid   bool       // browsers ignore the rule
}

// A Part is a part of an element that has styles of its own.
type Part byte

// The parts.
const (
	Whole Part = iota
	Before
	After
)

// A compound is what one element must be.
type compound struct {
	after byte // how the element relates to the compound before: ' ', '>', '+' or '~'; 0 for the first
	tag   string
	tests []test
	never bool
	part  bool // it ends with a pseudo-element, behind which no element stands
	wrote Part // which one, if style sheets write it
}

// A test is a condition of a compound.
type test struct {
	kind        byte // '#', '.', '[', ':', or '?' for any of list, '!' for none of it
	name, value string
	operator    byte // of [: 0 for presence, '=' or the character before the equals sign
	a, b        int  // of nth-child: a*n+b
	list        []compound
}

// Parts of a specificity.
const (
	weightTag   = 1
	weightClass = 1 << 8
	weightID    = 1 << 16
)

// Selectors returns the selectors of a rule. If one is invalid, the rule has none. If one is not understood, which is
// invalid or new, ok is not set.
func Selectors(prelude string) (all []Selector, ok bool) {
	for at := 0; at <= len(prelude); {
		end := until(prelude, at, ",")
		s, ok := selector(prelude[at:end])
		if !ok {
			return nil, false
		}
		if s.invalid {
			return nil, true
		}
		if !s.never {
			all = append(all, s)
		}
		at = end + 1
	}
	return all, true
}

// unsure begins each pseudo-class that selects elements of mail by what is not looked at here.
var unsure = []string{":has(", ":nth-last", ":nth-of", ":first-of", ":last-of", ":only-of", ":lang(", ":dir(", ":empty",
	":enabled", ":disabled", ":checked", ":default", ":required", ":optional", ":valid", ":invalid", ":read-",
	":placeholder", ":in-range", ":out-of", ":indeterminate", ":scope", ":defined"}

// Sure reports whether a rule whose selectors are valid selects what [Match] finds, and nothing else.
func Sure(prelude string) bool {
	if strings.IndexByte(prelude, ':') < 0 {
		return true
	}
	prelude = plain(prelude)
	return !slices.ContainsFunc(unsure, func(name string) bool { return strings.Contains(prelude, name) })
}

// Wider returns selectors that select at least all elements that the selectors of a rule may select, however these are
// understood: by the name, the classes and the id of the selected element alone. They outweigh all others.
func Wider(prelude string) (all []Selector) {
	for at := 0; at <= len(prelude); {
		end := until(prelude, at, ",")
		s, ok := selector(subject(prelude[at:end]))
		if !ok {
			s, _ = selector("*")
		}
		s.Weight = math.MaxUint32
		all = append(all, s)
		at = end + 1
	}
	return all
}

// subject returns the beginning of the last compound of a selector, up to its first pseudo-class or attribute; "" if it
// may be any element.
func subject(text string) string {
	var name []byte // of the present compound
	open, clear, depth := true, true, 0
	text = strings.Trim(text, " \t\r\n\f")
	for at := 0; at < len(text); at++ {
		switch c := text[at]; {
		case c == '"' || c == '\'':
			at = quoted(text, at) - 1
		case strings.HasPrefix(text[at:], "/*"):
			at = comment(text, at) - 1
		case c == '\\':
			_, end := escaped(text, at)
			at, clear = end-1, clear && depth > 0
		case c == '(' || c == '[':
			depth++
			open = false
		case c == ')' || c == ']':
			depth--
		case depth > 0:
		case isBlank(c) || c == '>' || c == '+' || c == '~':
			name, open, clear = name[:0], true, true
		case c == ':':
			open = false
		case c == '|':
			name = name[:0] // it was a namespace
		case !isName(c) && c != '.' && c != '#' && c != '*':
			clear = false
		case open:
			name = append(name, c)
		}
	}
	if !clear {
		return ""
	}
	return string(name)
}

func selector(text string) (s Selector, ok bool) {
	p := parser{text: text}
	for {
		after := p.combinator()
		if p.at == len(p.text) {
			return s, len(s.compounds) > 0 && (after == ' ' || after == 0)
		}
		first := len(s.compounds) == 0
		if first != (after == 0) && !(first && after == ' ') || len(s.compounds) == maxCompounds {
			return s, false
		}
		s.invalid = s.invalid || !first && s.compounds[len(s.compounds)-1].part
		c, ok := p.compound(&s.Weight)
		if !ok {
			return s, false
		}
		if len(s.compounds) > 0 {
			c.after = after
		}
		s.compounds = append(s.compounds, c)
		s.never, s.Part = s.never || c.never, c.wrote
	}
}

// A parser reads a selector.
type parser struct {
	text string
	at   int
}

// combinator reads blanks and a combinator.
func (p *parser) combinator() (c byte) {
	for p.at < len(p.text) {
		switch next := p.text[p.at]; {
		case isBlank(next):
			if c == 0 {
				c = ' '
			}
			p.at++
		case strings.HasPrefix(p.text[p.at:], "/*"):
			p.at = comment(p.text, p.at)
		case (next == '>' || next == '+' || next == '~') && (c == 0 || c == ' '):
			c = next
			p.at++
		default:
			return c
		}
	}
	return c
}

// name reads a name, which begins with no digit.
func (p *parser) name() string {
	begin := p.at
	if first := strings.TrimPrefix(p.text[begin:], "-"); first != "" && '0' <= first[0] && first[0] <= '9' {
		return ""
	}
	var out []byte
	for p.at < len(p.text) {
		if c := p.text[p.at]; c == '\\' {
			var r string
			r, p.at = escaped(p.text, p.at)
			out = append(out, r...)
		} else if isName(c) {
			out = append(out, c)
			p.at++
		} else {
			break
		}
	}
	if len(out) == p.at-begin {
		return p.text[begin:p.at]
	}
	return string(out)
}

// compound reads what one element must be.
func (p *parser) compound(weight *uint32) (c compound, ok bool) {
	begin := p.at
	if p.at < len(p.text) && p.text[p.at] == '*' {
		p.at++
	} else if c.tag = strings.ToLower(p.name()); c.tag != "" {
		*weight += weightTag
	}
	for p.at < len(p.text) {
		t := test{kind: p.text[p.at]}
		if c.part && strings.IndexByte("#.[", t.kind) >= 0 {
			return c, false
		}
		switch t.kind {
		case '#', '.':
			p.at++
			if t.name = p.name(); t.name == "" {
				return c, false
			}
			if *weight += weightClass; t.kind == '#' {
				*weight += weightID - weightClass
			}
		case '[':
			if !p.attribute(&t) {
				return c, false
			}
			*weight += weightClass
		case ':':
			if !p.pseudo(&t, &c, weight) {
				return c, false
			}
			if c.part {
				continue // the element is what the other tests find
			}
		case '/':
			if !strings.HasPrefix(p.text[p.at:], "/*") {
				return c, false
			}
			p.at = comment(p.text, p.at)
			continue
		default:
			return c, p.at > begin && (isBlank(t.kind) || strings.IndexByte(">+~", t.kind) >= 0)
		}
		if len(c.tests) == maxTests {
			return c, false
		}
		c.tests = append(c.tests, t)
	}
	return c, p.at > begin
}

// attribute reads [NAME], or [NAME=VALUE] with one of the operators.
func (p *parser) attribute(t *test) bool {
	end := until(p.text, p.at+1, "]")
	if end == len(p.text) {
		return false
	}
	name, value, valued := strings.Cut(p.text[p.at+1:end], "=")
	p.at = end + 1
	name = strings.TrimSpace(name)
	if valued {
		t.operator = '='
		if n := len(name) - 1; n >= 0 && strings.IndexByte("~|^$*", name[n]) >= 0 {
			t.operator, name = name[n], strings.TrimSpace(name[:n])
		}
		value = strings.TrimSpace(value)
		value = strings.TrimSpace(strings.TrimSuffix(strings.TrimSuffix(value, " i"), " s"))
		if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
			value = value[1 : n-1]
		}
	}
	t.name, t.value = strings.ToLower(name), value
	return name != "" && strings.Trim(t.name, "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// pseudo reads a colon and what follows.
func (p *parser) pseudo(t *test, c *compound, weight *uint32) bool {
	p.at++
	element := p.at < len(p.text) && p.text[p.at] == ':'
	if element {
		p.at++
	}
	t.name = strings.ToLower(p.name())
	argument, called := "", p.at < len(p.text) && p.text[p.at] == '('
	if called {
		end := until(p.text, p.at+1, ")")
		argument, p.at = p.text[p.at+1:end], min(end+1, len(p.text))
	}
	switch {
	case t.name == "" || t.name[0] == '-' && !strings.HasPrefix(t.name, "-webkit-"):
		return false
	case t.name == "before", t.name == "after":
		*weight += weightTag
		c.never, c.part = c.never || c.part, true
		if c.wrote = Before; t.name == "after" {
			c.wrote = After
		}
		return true
	case element || t.name[0] == '-':
		c.never, c.part = true, element
		return true
	}
	*weight += weightClass
	switch t.name {
	case "root", "first-child", "last-child", "only-child", "link", "any-link":
		return !called
	case "nth-child":
		var ok bool
		t.a, t.b, ok = nth(argument)
		return ok
	case "not", "is", "where":
		t.kind = '?'
		if t.name == "not" {
			t.kind = '!'
		}
		*weight -= weightClass
		return t.among(argument, weight)
	case "first-line", "first-letter":
		c.never, c.part = true, true
		return true
	case "hover", "active", "focus", "focus-within", "focus-visible",
		"visited", "target", "checked", "disabled", "enabled", "empty", "lang", "dir", "has", "nth-last-child",
		"nth-of-type", "nth-last-of-type", "first-of-type", "last-of-type", "only-of-type", "default", "required",
		"optional", "valid", "invalid", "read-only", "read-write", "placeholder-shown", "host", "defined", "autofill",
		"fullscreen", "scope", "indeterminate", "in-range", "out-of-range":
		c.never = true
		return true
	}
	return false
}

// among reads the compounds of a list.
func (t *test) among(list string, weight *uint32) bool {
	var most uint32
	for at := 0; at <= len(list); {
		end := until(list, at, ",")
		inner := parser{text: strings.TrimSpace(list[at:end])}
		var w uint32
		c, ok := inner.compound(&w)
		if !ok || inner.at < len(inner.text) || len(t.list) == maxTests {
			return false
		}
		c.never = c.never || c.wrote != Whole
		most = max(most, w)
		t.list = append(t.list, c)
		at = end + 1
	}
	if t.name != "where" {
		*weight += most
	}
	return true
}

// nth reads an+b.
func nth(text string) (a, b int, ok bool) {
	switch text = strings.ToLower(strings.ReplaceAll(text, " ", "")); text {
	case "odd":
		return 2, 1, true
	case "even":
		return 2, 0, true
	}
	step, offset, found := strings.Cut(text, "n")
	if !found {
		step, offset = "0", text
	}
	switch step {
	case "", "+":
		step = "1"
	case "-":
		step = "-1"
	}
	if offset == "" {
		offset = "0"
	}
	a, err := strconv.Atoi(step)
	b, other := strconv.Atoi(offset)
	return a, b, err == nil && other == nil
}

// Key returns the condition by which elements that s may select can be found: '#' and an ID, '.' and a class,
// 't' and the name of an element, or '*' for all elements.
func (s *Selector) Key() (kind byte, name string) {
	last := &s.compounds[len(s.compounds)-1]
	kind, name = '*', ""
	if last.tag != "" {
		kind, name = 't', last.tag
	}
	for _, t := range last.tests {
		if t.kind == '#' || t.kind == '.' && kind != '#' {
			kind, name = t.kind, t.name
		}
	}
	return kind, name
}

// A Match compares elements with selectors, within a budget that it shares among them.
type Match struct {
	// Steps is how many comparisons may yet be made. Below 0 nothing matches.
	Steps int
	// Fold is set for a page without document type, in which the case of IDs and classes does not matter.
	Fold bool
}

// Selects reports whether s selects an element, or a part of it.
func (m *Match) Selects(s *Selector, n *html.Node) bool { return m.from(s.compounds, n) }

// from reports whether n is what the last of the compounds selects.
func (m *Match) from(all []compound, n *html.Node) bool {
	last := &all[len(all)-1]
	if !m.is(last, n) {
		return false
	}
	rest := all[:len(all)-1]
	switch last.after {
	case 0:
		return true
	case '>':
		return n.Parent != nil && m.from(rest, n.Parent)
	case '+':
		n = before(n)
		return n != nil && m.from(rest, n)
	case '~':
		for n = before(n); n != nil && m.Steps >= 0; n = before(n) {
			if m.from(rest, n) {
				return true
			}
		}
		return false
	}
	for n = n.Parent; n != nil && m.Steps >= 0; n = n.Parent {
		if m.from(rest, n) {
			return true
		}
	}
	return false
}

// before returns the element before n in the same element, nil if there is none.
func before(n *html.Node) *html.Node {
	for n = n.PrevSibling; n != nil && n.Type != html.ElementNode; n = n.PrevSibling {
	}
	return n
}

func behind(n *html.Node) *html.Node {
	for n = n.NextSibling; n != nil && n.Type != html.ElementNode; n = n.NextSibling {
	}
	return n
}

// is reports whether n is what c wants.
func (m *Match) is(c *compound, n *html.Node) bool {
	m.Steps--
	if m.Steps < 0 || n.Type != html.ElementNode || c.never || c.tag != "" && c.tag != n.Data {
		return false
	}
	for i := range c.tests {
		if !m.passes(&c.tests[i], n) {
			return false
		}
	}
	return true
}

func (m *Match) passes(t *test, n *html.Node) bool {
	switch t.kind {
	case '#', '.':
		key := "class"
		if t.kind == '#' {
			key = "id"
		}
		value, ok := m.value(n, key)
		if !ok || t.kind == '#' {
			return ok && m.equal(value, t.name)
		}
		for word := range strings.FieldsSeq(value) {
			if m.equal(word, t.name) {
				return true
			}
		}
		return false
	case '[':
		value, ok := m.value(n, t.name)
		return ok && t.holds(value)
	case '?', '!':
		for i := range t.list {
			if m.is(&t.list[i], n) {
				return t.kind == '?'
			}
		}
		return t.kind == '!'
	}
	switch t.name {
	case "root":
		return n.Parent != nil && n.Parent.Type == html.DocumentNode
	case "first-child":
		return before(n) == nil
	case "last-child":
		return behind(n) == nil
	case "only-child":
		return before(n) == nil && behind(n) == nil
	case "link", "any-link":
		_, ok := m.value(n, "href")
		return ok && (n.Data == "a" || n.Data == "area")
	}
	place := 1
	for p := before(n); p != nil && m.Steps >= 0; p = before(p) {
		place++
		m.Steps--
	}
	place -= t.b
	if t.a == 0 {
		return place == 0
	}
	return place%t.a == 0 && place/t.a >= 0
}

// value returns an attribute.
func (m *Match) value(n *html.Node, key string) (string, bool) {
	for i := range n.Attr {
		m.Steps--
		if n.Attr[i].Key == key {
			m.Steps -= len(n.Attr[i].Val) / 8
			return n.Attr[i].Val, true
		}
	}
	return "", false
}

func (m *Match) equal(a, b string) bool { return a == b || m.Fold && strings.EqualFold(a, b) }

// holds reports whether the value of an attribute is one that t wants.
func (t *test) holds(value string) bool {
	switch t.operator {
	case 0:
		return true
	case '=':
		return value == t.value
	case '|':
		return value == t.value || strings.HasPrefix(value, t.value+"-")
	}
	if t.value == "" {
		return false
	}
	switch t.operator {
	case '^':
		return strings.HasPrefix(value, t.value)
	case '$':
		return strings.HasSuffix(value, t.value)
	case '*':
		return strings.Contains(value, t.value)
	}
	for word := range strings.FieldsSeq(value) {
		if word == t.value {
			return true
		}
	}
	return false
}
