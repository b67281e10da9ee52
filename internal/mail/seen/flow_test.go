package seen

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// hidingSheet has a page read from its tree, and hides nothing of the pages here.
const hidingSheet = "<style>#hidden{display:none}</style>"

// TestFlow checks which words the computed display of elements joins and divides, as chromium shows them.
func TestFlow(t *testing.T) {
	for source, want := range map[string]string{
		"<table><tr><td D:inline>via</td><td D:inline>gra</td></tr></table>":                       "viagra",
		"<table><tr><td D:inline>via</td>\n<td D:inline>gra</td></tr></table>":                     "viagra",
		"<table><tr><td D:inline>via </td><td D:inline>gra</td></tr></table>":                      "via gra",
		"<table><tr><th D:inline>v</th><td D:contents>ia</td><td D:inline>gra</td></tr></table>":   "viagra",
		"<table><tr><td D:inline-block> via </td><td D:inline-block> gra </td></tr></table>":       "viagra",
		"<table><tr><td D:inline>via </td> <td> gra</td></tr></table>":                             "viagra",
		"<table><tr><td>via</td><td D:inline>gra</td></tr></table>":                                "via gra",
		"<table><tr><td>x</td><td D:inline>via</td><td D:inline>gra</td></tr></table>":             "x viagra",
		"<table><tr><td D:inline>via</td><td hidden>x</td><td D:inline>gra</td></tr></table>":      "viagra",
		"<table><tr><td D:inline>a</td><td D:block>b</td></tr></table>":                            "a b",
		"<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>":                          "a b c",
		"<table><tr D:inline><td D:inline>via</td></tr><tr D:inline><td D:inline>gra</td></table>": "viagra",
		"<td D:inline>via</td> <b>gra</b>":                                                         "via gra",
		"<div D:inline-block>via</div><div D:inline-flex>gra</div>":                                "viagra",
		"<b D:inline-block> via </b><b D:inline-block> gra </b>":                                   "viagra",
		"<b D:inline-block> via </b> <b D:inline-block> gra </b>":                                  "via gra",
		"a <b D:inline-block></b> b":                                                               "a b",
		"<div D:inline-block>x<div>via</div></div><div D:inline-block>gra</div>":                   "x via gra",
		"<h2 D:inline>via</h2><blockquote D:inline>gra</blockquote>":                               "viagra",
		"<ul D:inline><li D:inline>via</li><li D:inline-block>gra</li></ul>":                       "viagra",
		"via<br D:inline>gra": "via gra",
		"<span D:table-cell>via</span><span D:table-cell>gra</span>":                        "via gra",
		"<div D:table-cell>via</div> <div D:table-cell>gra</div>":                           "via gra",
		"<span D:table-cell> via </span>gra":                                                "viagra",
		"<span D:table-cell>v</span>ia<span D:table-cell>gra</span>":                        "viagra",
		"via<span D:block>gra</span>x":                                                      "via gra x",
		"<b D:table-row>via</b><b D:table-row>gra</b>":                                      "via gra",
		"<style>td{display:inline}</style><table><tr><td>via</td><td>gra</td></tr></table>": "viagra",
		"<style>b{display:block}</style><b>via</b><b>gra</b>":                               "via gra",
		"<style>b{display:table-cell}</style><b>via</b><b>gra</b>":                          "via gra",
		"<style>div{display:inline-block}</style><div>via</div><div>gra</div>":              "viagra",
	} {
		source = regexp.MustCompile(`D:([a-z-]+)`).ReplaceAllString(source, `style="display:$1"`)
		for _, page := range []string{source, source + hidingSheet} {
			if got := strings.Join(strings.Fields(string(pageOf(t, page).Text)), " "); got != want {
				t.Errorf("%s shows %q, want %q", page, got, want)
			}
		}
	}
}

// TestFlowOfGeneratedPages compares the words of generated pages with the words of a plain walk over the tree.
func TestFlowOfGeneratedPages(t *testing.T) {
	pages := 20_000
	if testing.Short() {
		pages = 4000
	}
	r := rand.New(rand.NewPCG(7, 33))
	for range pages {
		var source strings.Builder
		flowingPage(r, &source, 4)
		root, err := html.Parse(strings.NewReader(source.String()))
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Join(strings.Fields(divided(flowed(root))), " ")
		for _, page := range []string{source.String(), source.String() + hidingSheet} {
			if got := strings.Join(strings.Fields(string(pageOf(t, page).Text)), " "); got != want {
				t.Fatalf("%s\nshows %q, want %q", page, got, want)
			}
		}
	}
}

// flowingPage writes elements of all kinds of display, with words in them.
func flowingPage(r *rand.Rand, b *strings.Builder, depth int) {
	one := func(all ...string) string { return all[r.IntN(len(all))] }
	word := func() string { return one("", "", " ", "\n") + string(rune('a'+r.IntN(26))) + one("", "", " ") }
	display := func() string {
		return one("", "", " style=display:inline", " style=display:inline-block", " style=display:block",
			" style=display:table-cell")
	}
	for range 1 + r.IntN(3) {
		switch tag := one("", "span", "b", "div", "div", "table"); {
		case tag == "" || depth == 0:
			b.WriteString(word())
		case tag == "table":
			b.WriteString("<table>")
			for range 1 + r.IntN(2) {
				b.WriteString("<tr>" + one("", "\n"))
				for range 1 + r.IntN(3) {
					b.WriteString("<td" + one("", "", " style=display:inline", " style=display:block") + ">")
					b.WriteString(word())
					if r.IntN(3) == 0 {
						flowingPage(r, b, depth-1)
					}
					b.WriteString("</td>" + one("", "\n"))
				}
				b.WriteString("</tr>" + one("", "\n"))
			}
			b.WriteString("</table>")
		default:
			b.WriteString("<" + tag + display() + ">")
			flowingPage(r, b, depth-1)
			b.WriteString("</" + tag + ">" + one("", " "))
		}
	}
}

// Marks of where cells begin and end.
const (
	cellBegins, cellEnds     = "\x01", "\x02"
	inlineBegins, inlineEnds = "\x03", "\x04" // a cell that is displayed in a line
	boxEdge                  = "\x05"         // of an inline-block, over which no cells lie beside each other
)

// flowed returns the text of what flowingPage writes, with line ends and marks.
func flowed(n *html.Node) string {
	if n.Type == html.TextNode {
		return strings.ReplaceAll(n.Data, "\n", " ")
	}
	var text string
	for c := range n.ChildNodes() {
		if c.Type == html.TextNode && (n.Data == "tr" || n.Data == "tbody") {
			continue
		}
		text += flowed(c)
	}
	display := map[string]string{"div": "block", "table": "block", "tr": "block", "td": "table-cell"}[n.Data]
	for _, a := range n.Attr {
		display = strings.TrimPrefix(a.Val, "display:")
	}
	switch {
	case display == "block":
		return "\n" + text + "\n"
	case display == "table-cell":
		return cellBegins + strings.Trim(text, " ") + cellEnds
	case display == "inline-block":
		return boxEdge + strings.Trim(text, " ") + boxEdge
	case n.Data == "td":
		return inlineBegins + text + inlineEnds
	}
	return text
}

// divided divides cells by blanks, and takes away the marks and the blanks that a cell does not show at its ends.
func divided(text string) string {
	for _, rule := range [][2]string{
		{cellEnds + " *[" + cellBegins + inlineBegins + "]", " "},
		{" *" + inlineEnds + cellBegins, ""},
		{"[\x01-\x05]", ""},
	} {
		text = regexp.MustCompile(rule[0]).ReplaceAllString(text, rule[1])
	}
	return text
}
