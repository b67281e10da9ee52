package seen

import (
	"cmp"
	"slices"
	"strings"

	"golang.org/x/net/html"

	"github.com/bulkhead-mail/bulkhead/internal/text/css"
)

// pageWidth is the width of the window for which pages are read, in pixels.
const pageWidth = 1024

// maxRules is the maximum number of rules that are kept, of those that may hide text or show it.
const maxRules = 8192

// A sheet is the rules of the style sheets of a page that may hide text or show it.
type sheet struct {
	hides   bool // a rule hides
	flows   bool // a rule decides how an element stands in its lines
	effects bool // a rule does anything that matters here
	writes  bool // a rule writes a text, or turns it round
	room    int  // bytes of text that rules may yet write
	rules   []rule
	by      map[key][]int // rules by the keys of their selectors
	unsure  bool          // there are too many rules within others to read: nothing is hidden
	spent   bool          // there are too many rules, or elements to compare with them: they hide nothing more
	match   css.Match
}

// A key is what [css.Selector.Key] returns, for a part of the elements.
type key struct {
	part css.Part
	kind byte
	name string
}

// A rule is a selector and what it declares.
type rule struct {
	selector css.Selector
	all      []declaration
	text     content
}

// foresee reads a style sheet as far as it shows whether the page must be read with it.
func (v *visible) foresee(source string) {
	if v.pace.Over(len(source)) {
		return
	}
	css.Rules(source, pageWidth, func(prelude, body string, sure bool) {
		all := v.declared(body)
		if !sure {
			all = showing(all)
		}
		text := contentOf(prelude, body, sure)
		v.sheet.writes = v.sheet.writes || text.shows()
		css.Rules(body, pageWidth, func(_, nested string, _ bool) {
			v.sheet.effects = v.sheet.effects || len(showing(v.declared(nested))) > 0
		})
		var c cascade
		c.take(all, false)
		c.take(all, true)
		v.tones.note(&c)
		v.sheet.effects = v.sheet.effects || len(all) > 0
		v.sheet.hides = v.sheet.hides || firstLook.within(&c, 0).veil&^faint != 0 ||
			firstLook.within(&c, block).veil&^faint != 0
		v.sheet.writes = v.sheet.writes || firstLook.within(&c, 0).overrides
		v.sheet.flows = v.sheet.flows || c.has(display) && !c.is(display, hides) && !c.is(display, shows)
	})
}

// matters reports whether the style sheets of the page may change what is seen of the page.
func (v *visible) matters() bool {
	return v.sheet.writes || v.sheet.effects && (v.sheet.hides || v.sheet.flows || v.shape.hides || v.tones.meet())
}

// collect reads the style sheets below a node, in order.
func (v *visible) collect(n *html.Node) {
	if n.Type == html.ElementNode && n.Data == "style" {
		v.sheetOf(n)
		return
	}
	if n.Type == html.ElementNode && n.Data == "template" {
		return
	}
	for child := n.FirstChild; child != nil; child = child.NextSibling {
		v.collect(child)
	}
}

// sheetOf reads a style sheet that applies to screens.
func (v *visible) sheetOf(n *html.Node) {
	known := true
	for _, a := range n.Attr {
		if a.Key == "type" && a.Val != "" && !strings.EqualFold(strings.TrimSpace(a.Val), "text/css") {
			return
		}
		if a.Key == "media" {
			applies, sure := css.Media(a.Val, pageWidth)
			if !applies && sure {
				return
			}
			known = known && sure
		}
	}
	var source strings.Builder
	for child := n.FirstChild; child != nil; child = child.NextSibling {
		source.WriteString(child.Data)
	}
	s := &v.sheet
	if s.by == nil {
		s.by = make(map[key][]int)
	}
	if v.pace.Over(source.Len()) {
		return
	}
	css.Rules(source.String(), pageWidth, func(prelude, body string, sure bool) {
		v.doubtWithin(prelude, body, 0)
		all := v.declared(body)
		if !sure || !known {
			all = showing(all)
		}
		text := contentOf(prelude, body, sure && known)
		if len(all) == 0 && !text.declared {
			return
		}
		selectors, understood := css.Selectors(prelude)
		s.add(selectors, all, text)
		if !understood || !css.Sure(prelude) {
			s.doubt(prelude, showing(all))
		}
	})
}

// doubtWithin takes what the rules within a rule may show.
func (v *visible) doubtWithin(around, body string, depth int) {
	const deepest, longest = 4, 1 << 10 // bytes of selectors
	s := &v.sheet
	css.Rules(body, pageWidth, func(within, nested string, _ bool) {
		all := showing(v.declared(nested))
		if at := strings.LastIndexByte(within, ';'); strings.ContainsAny(within[at+1:], "\"'") {
			within = "*" // there may be a string around it
		} else {
			within = within[at+1:]
		}
		for outer := range strings.SplitSeq(around, ",") {
			size := len(within) + len(outer)*(1+strings.Count(within, "&"))
			if s.match.Steps -= size; s.match.Steps < 0 || size > longest || depth == deepest {
				s.unsure = true
				return
			}
			whole := strings.ReplaceAll(within, "&", outer)
			s.doubt(whole, all)
			if strings.IndexByte(nested, '{') >= 0 {
				v.doubtWithin(whole, nested, depth+1)
			}
		}
	})
}

// doubt takes what a rule shows that is not understood, of all elements that it may select.
func (s *sheet) doubt(prelude string, all []declaration) {
	if len(all) > 0 {
		s.add(css.Wider(prelude), all, content{})
	}
}

// add takes a rule.
func (s *sheet) add(selectors []css.Selector, all []declaration, text content) {
	if len(s.rules)+len(selectors) > maxRules {
		s.spent = true
		return
	}
	for _, selector := range selectors {
		kind, name := selector.Key()
		if s.match.Fold && kind != 't' {
			name = strings.ToLower(name)
		}
		of := key{selector.Part, kind, name}
		s.by[of] = append(s.by[of], len(s.rules))
		s.rules = append(s.rules, rule{selector, all, text})
	}
}

// declared returns what rules declare.
func declared(rules []*rule) (all [][]declaration) {
	for _, r := range rules {
		all = append(all, r.all)
	}
	return all
}

// of returns the rules for a part of an element, by rising weight.
func (s *sheet) of(n *html.Node, part css.Part) (all []*rule) {
	if len(s.rules) == 0 {
		return nil
	}
	if s.spent = s.spent || s.match.Steps < 0; s.spent {
		return nil
	}
	var found []int
	try := func(kind byte, name string) {
		for _, i := range s.by[key{part, kind, name}] {
			if s.match.Selects(&s.rules[i].selector, n) {
				found = append(found, i)
			}
		}
	}
	try('*', "")
	try('t', n.Data)
	for _, a := range n.Attr {
		if a.Key != "class" && a.Key != "id" {
			continue
		}
		written := a.Val
		if s.match.Steps -= len(written) / 8; s.match.Fold {
			written = strings.ToLower(written)
		}
		if a.Key == "id" {
			try('#', written)
			continue
		}
		for class := range strings.FieldsSeq(written) {
			try('.', class)
		}
	}
	s.match.Steps -= 2 * len(found) // for their order, and for what they declare
	slices.SortFunc(found, func(a, b int) int {
		return cmp.Or(cmp.Compare(s.rules[a].selector.Weight, s.rules[b].selector.Weight), cmp.Compare(a, b))
	})
	for _, i := range slices.Compact(found) {
		all = append(all, &s.rules[i])
	}
	return all
}
