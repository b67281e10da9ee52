package seen

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/bulkhead-mail/bulkhead/internal/pace"
)

// shownWords returns the words of a page that a browser displays, without blanks, by a plain walk over the tree that
// golang.org/x/net/html builds. It knows the pieces of hostilePieces alone.
func shownWords(t *testing.T, source string) string {
	t.Helper()
	root, err := html.ParseWithOptions(strings.NewReader(source), html.ParseOptionEnableScripting(false))
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	var walk func(n *html.Node)
	walk = func(n *html.Node) {
		if n.Type == html.ElementNode {
			switch n.Data {
			case "script", "style", "template", "title", "iframe", "noembed", "noframes":
				return
			}
			for _, a := range n.Attr {
				if a.Key == "hidden" || a.Key == "style" && strings.HasPrefix(a.Val, "display:none") {
					return
				}
			}
		}
		if n.Type == html.TextNode {
			words = append(words, strings.Fields(n.Data)...)
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			if !closed(n) || c.Type == html.ElementNode && c.Data == "summary" {
				walk(c)
			}
		}
	}
	walk(root)
	return strings.Join(words, "")
}

// readWords returns the words that the reader shows, without blanks, and whether a tree would cost too much.
func readWords(source string) (words string, costly bool) {
	v := new(visible)
	v.pace = pace.New(context.Background())
	v.read(source)
	return wordsOf(v), v.shape.costly
}

// wordsOf returns the words that are shown, without blanks.
func wordsOf(v *visible) (words string) {
	for line := range strings.Lines(string(v.dst)) {
		words += strings.TrimLeft(line, "> ") + " "
	}
	return strings.Join(strings.Fields(words), "")
}

// hostilePieces are pieces of pages, of which generated ones consist: start and end tags of elements
// with rules of their own, some of them hidden.
var hostilePieces = func() (all []string) {
	for _, tag := range strings.Fields("div p span a b i nobr font table tbody thead tr td th caption ul ol li " +
		"dl dt dd h1 h2 " +
		"form button select option optgroup noscript template blockquote center pre label section ruby rt body html head " +
		"address fieldset details summary marquee object title script style iframe svg math textarea x-y br hr " +
		"img input col") {
		all = append(all, "<"+tag+">", "<"+tag+" hidden>", "<"+tag+" style=\"display:none\">", "</"+tag+">",
			"</"+tag+">", "</"+tag+">",
			"<"+tag+"/>")
	}
	for range 60 {
		all = append(all, " word ")
	}
	return append(all, "<!-- c -->", "<![CDATA[x]]>", "&amp;", "<?x?>", "<!doctype html>")
}()

// hostilePage returns a page of n pieces, in which each word is another.
func hostilePage(r *rand.Rand, n int) string {
	var source strings.Builder
	for i := range n {
		piece := hostilePieces[r.IntN(len(hostilePieces))]
		if strings.TrimSpace(piece) == "word" {
			piece = " w" + string(rune('a'+i)) + " "
		}
		source.WriteString(piece)
	}
	return source.String()
}

// TestTree compares what is shown of generated pages with the plain walk over the tree.
func TestTree(t *testing.T) {
	pages := 60_000
	if testing.Short() {
		pages = 15_000
	}
	r := rand.New(rand.NewPCG(9, 9))
	trees := 0
	for range pages {
		source := hostilePage(r, 3+r.IntN(14))
		got, costly := readWords(source)
		if costly {
			continue
		}
		trees++
		if want := shownWords(t, source); got != want {
			t.Fatalf("%s\nshows %q, want %q", source, got, want)
		}
	}
	if trees < pages*9/10 {
		t.Errorf("only %d of %d pages were compared", trees, pages)
	}
}

// TestTreeCases checks what was once misread.
func TestTreeCases(t *testing.T) {
	for source, want := range map[string]string{
		"<a hidden>x<a>seen":                                              "seen",
		"<nobr hidden>x<nobr>seen":                                        "seen",
		"<button hidden>x<button>seen":                                    "seen",
		"<h1 hidden>a</h2>seen":                                           "seen",
		"<div hidden><select><option>x</select></div>seen":                "seen",
		"<select hidden><option>x</select>seen":                           "seen",
		"<ruby><rt hidden>x</ruby>seen":                                   "seen",
		"<p hidden>x<div>seen</div>":                                      "seen",
		"<table hidden>seen<tr><td>x</table>":                             "seen",
		"<ul><li hidden>x<li>seen</ul>":                                   "seen",
		"<div style=\"display:none\"/>x</div>seen":                        "seen",
		"<form><form hidden>seen</form>":                                  "seen",
		"<style style=\"display:none\">p{}</style>seen":                   "seen",
		"<title hidden>x</title>seen":                                     "seen",
		"<noscript><div hidden>x</div>seen</noscript>":                    "seen",
		"<div style=\"display:none;display:block\">seen</div>":            "seen",
		"<div style=\"display:none!important;display:block\">x</div>seen": "seen",
		"<!--[if mso]>x<![endif]--><![if !mso]>seen<![endif]>":            "seen",
	} {
		if got, _ := readWords(source); got != want {
			t.Errorf("%s shows %q, want %q", source, got, want)
		}
	}
}
