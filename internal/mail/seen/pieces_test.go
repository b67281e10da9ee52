package seen

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/pace"
)

// TestPieces compares what is shown of generated pages that are read in pieces, each as small as the tags allow, with
// the plain walk over the tree of the page.
func TestPieces(t *testing.T) {
	pages := 30_000
	if testing.Short() {
		pages = 8000
	}
	r := rand.New(rand.NewPCG(9, 12))
	inPieces := 0
	for range pages {
		source := hostilePage(r, 3+r.IntN(24)) + "<p hidden>x"
		v := &visible{pace: pace.New(context.Background()), course: course{size: 1}}
		v.read(source)
		if v.course.costly > 0 || v.shape.foreign {
			continue
		}
		if len(v.course.pieces) > 0 {
			inPieces++
		}
		if got, want := wordsOf(v), shownWords(t, source); got != want {
			t.Errorf("%s\nin pieces shows %q, want %q", source, got, want)
		}
	}
	if inPieces < pages/3 {
		t.Errorf("only %d of %d pages were read in pieces", inPieces, pages)
	}
}

// TestHiddenBySize hides a word in pages that are too long, too deep or too dear for one tree. The word is shown only
// if the page costs too much in front of it. Another word, which a reader sees, is always shown.
func TestHiddenBySize(t *testing.T) {
	const sheet, secret = "<style>.x{display:none}</style>", "<div class=x>secret</div>"
	long := strings.Repeat("<p>filler of a page</p>\n", 20_000)
	wide := strings.Repeat("x;", 200_000)
	for name, tt := range map[string]struct {
		page  string
		hides bool // the word "secret"
	}{
		"text in front":          {sheet + "<p>seen</p>" + long + secret, true},
		"text behind":            {sheet + secret + "<p>seen</p>" + long, true},
		"hidden in front":        {sheet + "<div class=x>" + long + "secret</div><p>seen</p>", true},
		"hidden over pieces":     {sheet + "<p>seen</p><div class=x><table><tr><td>" + long + long + secret, true},
		"sheet at the end":       {"<p>seen</p>" + secret + long + sheet, true},
		"comment in front":       {"<!--" + long + "-->" + sheet + secret + "<p>seen</p>", true},
		"comment between":        {sheet + secret + "<!--" + long + "--><p>seen</p>", true},
		"script between":         {sheet + secret + "<script>" + wide + "</script><p>seen</p>", true},
		"picture between":        {sheet + secret + "<img src=\"data:," + wide + "\"><p>seen</p>", true},
		"long tag around":        {sheet + "<p>seen</p><div class=x title=\"" + wide + "\">secret</div>", false},
		"one long text":          {sheet + "<p>seen</p><div class=x>" + wide + "secret</div>", true},
		"late attribute of body": {"<style>.b .x{display:none}</style><p>seen</p>" + secret + long + "<body class=b>", true},
		"deep":                   {sheet + strings.Repeat("<div>", 200) + secret + "<p>seen</p>", true},
		"deeper":                 {sheet + "<p>seen</p>" + strings.Repeat("<div>", 2000) + secret, false},
		"hidden frames": {strings.Repeat("<div style=\"color:red\"><div style=\"color:blue\">", 70) +
			"<p>seen</p><div style=\"display:none\"><p>secret</p></div>", true},
		"many attributes": {sheet + secret + "<a" + manyAttributes(600) + ">seen</a>", true},
		"many formats":    {sheet + strings.Repeat("<b>", 60) + secret + "<p>seen</p>", true},
		"dear formats":    {sheet + "<p>seen</p>" + strings.Repeat("<p><b"+manyAttributes(400)+">", 60) + secret, false},
		"many rules": {"<style>" + strings.Repeat(".y{display:none}", 9000) + ".x{display:none}</style><p>seen</p>" +
			secret, false},
		"dear selectors": {"<p>seen</p>" + strings.Repeat("<i>", 90) + strings.Repeat("<i></i>", 3000) + dearSheet() +
			secret, false},
		"many bodies":            {sheet + strings.Repeat("<body class=b>", 200) + "<p>seen</p>" + secret + long, false},
		"drawing in a long page": {sheet + "<svg></svg><p>seen</p>" + secret + long, false},
		"open text area":         {sheet + "<p>seen</p>" + secret + long + "<textarea>" + long, true},
	} {
		v := &visible{pace: pace.New(context.Background()), page: &Page{}, hrefs: MaxLinks}
		v.read(tt.page + "<a href=\"http://garden.example/\">end</a>")
		text := string(v.dst)
		if strings.Contains(text, "secret") == tt.hides {
			t.Errorf("%s: the hidden word is shown: %v", name, tt.hides)
		}
		if !strings.Contains(text, "seen") {
			t.Errorf("%s: the visible word is missing", name)
		}
		if name != "open text area" && !slices.ContainsFunc(v.page.Links, func(h Href) bool {
			return h.URL == "http://garden.example/"
		}) {
			t.Errorf("%s: the link at the end is missing", name)
		}
	}
}

func manyAttributes(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, " a%d=%d", i, i)
	}
	return b.String()
}

// dearSheet is a style sheet whose selectors take many comparisons for each element.
func dearSheet() string {
	return "<style>" + strings.Repeat("b i i i i i i i i i~i{color:red}", 500) + ".x{display:none}</style>"
}
