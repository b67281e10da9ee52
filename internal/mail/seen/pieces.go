package seen

import (
	"crypto/rand"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Limits of the trees of a page.
const (
	pieceSize  = 192 << 10 // bytes of source from which on another tree is begun, if the place allows it
	maxPiece   = 384 << 10
	maxSheets  = 256 << 10 // bytes of the style elements of a page that has several trees
	maxBodies  = 64        // tags of html and body
	maxReopens = 32 << 10  // bytes of the tags that a tree repeats of the tree before it
)

// A course is how the tags of a page lie in its source. A long page is read by a tree for each of its pieces, which
// begins with the elements that the piece before it has left open. A page with SVG or MathML has one tree at most.
// Behind the place where a tree could cost too much the page is read as a stream without its style sheets, so that no
// page hides its text by its cost.
type course struct {
	size      int      // bytes of a piece
	length    int      // of the present piece, without gaps
	at, begin int      // where the present token ends, and where it begins
	costly    int      // where no tree is built any more; 0 for nowhere
	pieces    []int    // where pieces begin, but the first
	gaps      [][2]int // what no tree needs: long comments, pictures within tags
	bodies    [][2]int // tags of html and body, which count from the first piece on wherever they stand
	sheets    [][2]int // style elements; an end of 0 means the end of the page
	streamed  bool     // the rest is read as a stream
}

// pass takes a token of n bytes, which may be a start tag in front of which a piece may begin.
func (v *visible) pass(n int, start bool) {
	c := &v.course
	if c.streamed || v.tag != "" { // the name of a long tag, which is taken as a whole
		return
	}
	if v.shape.costly && c.costly == 0 {
		c.costly = max(c.begin, 1)
	}
	v.shape.read(n)
	switch s := &v.shape; {
	case start && c.length >= c.size && s.divides():
		c.pieces, c.length = append(c.pieces, c.at), 0
	case c.length > maxPiece && c.costly == 0:
		c.costly = c.at
	}
	c.begin, c.at, c.length = c.at, c.at+n, c.length+n
}

// passLong takes a token that is too long for the tokenizer. If skip is not 0, the token is in an element that is not
// shown.
func (v *visible) passLong(raw string, skip atom.Atom) {
	c := &v.course
	begin := c.at
	v.pass(len(raw), false)
	gap := func(begin int) {
		c.gaps = append(c.gaps, [2]int{begin, c.at})
		c.length -= c.at - begin
	}
	switch {
	case c.streamed:
	case skip != 0 && !strings.HasPrefix(raw, "</"), strings.HasPrefix(raw, "<!"), strings.HasPrefix(raw, "<?"):
		gap(begin)
	case raw[0] != '<':
		if len(raw) > MaxVisible {
			gap(begin + MaxVisible)
		}
	default:
		end := 1
		for end < len(raw) && stops[raw[end]]&endsName == 0 {
			end++
		}
		if natures[atom.Lookup([]byte(strings.ToLower(raw[1:min(end, maxTag)])))]&void != 0 {
			gap(begin)
		} else if c.costly == 0 {
			c.costly = max(begin, 1)
		}
	}
}

// bodyAt takes the present start tag, if it is one of html or body with attributes.
func (v *visible) bodyAt(tag atom.Atom, attributes int) {
	c := &v.course
	if c.streamed || attributes == 0 || tag != atom.Html && tag != atom.Body {
		return
	}
	if c.bodies = append(c.bodies, [2]int{c.begin, c.at}); len(c.bodies) > maxBodies || v.tag != "" {
		c.costly = 1
	}
}

// sheetAt takes the start or the end of a style element.
func (v *visible) sheetAt(begin bool) {
	c := &v.course
	switch n := len(c.sheets); {
	case c.streamed:
	case begin:
		c.sheets = append(c.sheets, [2]int{c.begin, 0})
	case n > 0 && c.sheets[n-1][1] == 0:
		c.sheets[n-1][1] = c.at
	}
}

// without returns the source from begin to end without the gaps.
func (c *course) without(source string, begin, end int) string {
	if len(c.gaps) == 0 {
		return source[begin:end]
	}
	var b strings.Builder
	for _, gap := range c.gaps {
		if gap[0] < begin || gap[0] >= end {
			continue
		}
		b.WriteString(source[begin:gap[0]])
		begin = min(gap[1], end)
	}
	b.WriteString(source[begin:end])
	return b.String()
}

// trees reads a page from the trees that the HTML standard builds of its pieces.
func (v *visible) trees(source string) {
	c := &v.course
	end := c.at // all of it, or as far as links were looked for
	if c.costly > 0 {
		end = min(end, c.costly)
	}
	v.restart(len(source))
	if whole := len(c.pieces)+len(c.gaps) == 0 && end == len(source); whole {
		if root, ok := v.parse(source); ok {
			v.collect(root)
			v.node(root)
		} else {
			end = 0
		}
	} else if !v.shape.foreign && v.sheetsFrom(source) {
		end = v.readPieces(source, end)
	} else {
		end = 0
	}
	if end < len(source) {
		c.streamed = true
		v.styling.look, v.frames = firstLook, v.frames[:0]
		v.stream(source[end:])
	}
}

// readPieces reads the pieces up to end, and returns up to where they could be read.
func (v *visible) readPieces(source string, end int) int {
	c := &v.course
	mark := rand.Text() // that no page has, behind an element that opens formatting elements again
	first := ""
	if !v.quirks {
		first = "<!doctype html>"
	}
	open, begin := first, 0
	for i := 0; begin < end; i++ {
		to := end
		if i < len(c.pieces) {
			to = min(to, c.pieces[i])
		}
		piece := open + c.without(source, begin, to)
		if to < end {
			piece += "<wbr><!--" + mark + "-->"
		}
		root, ok := v.parse(piece)
		if !ok {
			return begin
		}
		v.attach(root, source)
		v.node(root)
		if begin = to; begin == end {
			break
		}
		at := find(root, mark)
		if at == nil {
			return begin
		}
		if open = first + startTags(at.Parent); len(open) > maxReopens {
			return begin
		}
	}
	return end
}

// parse builds the tree of a page, and reports whether the library does.
func (v *visible) parse(source string) (*html.Node, bool) {
	if v.pace.Over(len(source)) {
		return nil, false
	}
	root, err := html.ParseWithOptions(strings.NewReader(source), html.ParseOptionEnableScripting(false))
	return root, err == nil // or it is too deep
}

// attach gives the html and the body of a tree the attributes that later tags of them have.
func (v *visible) attach(root *html.Node, source string) {
	for n := range root.Descendants() {
		if n.Type != html.ElementNode || n.DataAtom != atom.Html && n.DataAtom != atom.Body || n.Namespace != "" {
			continue
		}
		has := make(map[string]bool)
		for _, a := range n.Attr {
			has[a.Key] = true
		}
		for _, tag := range v.course.bodies {
			written := source[tag[0]:tag[1]]
			if !strings.EqualFold(written[1:1+len("html")], n.Data) {
				continue // both names have as many letters
			}
			eachAttribute(written, v.pace, func(key, value string) {
				if key = strings.ToLower(key); !has[key] {
					has[key] = true
					n.Attr = append(n.Attr, html.Attribute{Key: key, Val: html.UnescapeString(value)})
				}
			})
		}
		if n.DataAtom == atom.Body {
			return
		}
	}
}

// sheetsFrom reads the style elements of a page without a tree for all of it, and reports whether they are not too
// large.
func (v *visible) sheetsFrom(source string) bool {
	var b strings.Builder
	for _, s := range v.course.sheets {
		if s[1] == 0 {
			s[1] = len(source)
		}
		if b.Len()+s[1]-s[0] > maxSheets {
			return false
		}
		b.WriteString(source[s[0]:s[1]])
	}
	root, ok := v.parse(b.String())
	if ok {
		v.collect(root)
	}
	return ok
}

// find returns the comment below n with a text, nil for none.
func find(n *html.Node, comment string) *html.Node {
	for child := n.LastChild; child != nil; child = child.PrevSibling {
		if child.Type == html.CommentNode && child.Data == comment {
			return child
		}
		if found := find(child, comment); found != nil {
			return found
		}
	}
	return nil
}

// startTags returns the start tags of n and of the elements around it, outermost first.
func startTags(n *html.Node) string {
	if n == nil || n.Type != html.ElementNode {
		return ""
	}
	var b strings.Builder
	b.WriteString(startTags(n.Parent))
	b.WriteString("<" + n.Data)
	for _, a := range n.Attr {
		b.WriteString(" " + a.Key + `="` + html.EscapeString(a.Val) + `"`)
	}
	b.WriteString(">")
	return b.String()
}
