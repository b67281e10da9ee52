package seen

import (
	"bytes"
	"golang.org/x/net/html/atom"

	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/pace"
	"github.com/bulkhead-mail/bulkhead/internal/text/markup"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

func pageOf(t testing.TB, source string) Page {
	t.Helper()
	work := pace.New(t.Context())
	page, _ := Read(work, source, MaxLinks, true)
	if err := pace.Ended(work); err != nil {
		t.Fatal(err)
	}
	return page
}

func TestPageLinks(t *testing.T) {
	long := strings.Repeat("x", 2*maxToken)
	for _, tt := range []struct{ source, want string }{
		{`<a href="http://a.example/?x=1&amp;y=2">x</a>`, "http://a.example/?x=1&y=2"},
		{`<A CLASS=b HREF='http://a.example/'>x`, "http://a.example/"},
		{`<a href=http://a.example/x>x`, "http://a.example/x"},
		{`<a href = "http://a.example/" href="http://b.example/">x`, "http://a.example/"},
		{`<a/href="http://a.example/"/>x`, "http://a.example/"},
		{`<a title="x>y" data-href="http://b.example/" href="//a.example/">x`, "//a.example/"},
		{`<a href="&#104;ttp&colon;&sol;&sol;a.example">x`, "http://a.example"},
		{`<a href="#top">x</a><a href="mailto:a@b.example">x</a><a href=cid:x><a href=page.html><a>x</a><a href="">`, ""},
		{`<area href=http://a.example><form action=http://b.example><base href=http://c.example>` +
			`<button formaction=http://d.example><iframe src=http://e.example>`,
			"http://a.example http://b.example http://c.example http://d.example http://e.example"},
		{`<meta http-equiv="Refresh" content="0; URL = 'http://a.example/x'">` +
			`<meta http-equiv=refresh content="5,http://b.example">` +
			`<meta name=x content="0;url=http://c.example">`,
			"http://a.example/x http://b.example"},
		{`<img src="http://a.example/i.png"><link href="http://b.example/s.css">`,
			"http://a.example/i.png(loaded) http://b.example/s.css(loaded)"},
		{`<div style="display:none"><a href="http://a.example/">x</a></div>` +
			`<a style="display: none" href="http://b.example/">x</a>`,
			"http://a.example/(hidden) http://b.example/(hidden)"},
		{`<!-- <a href="http://a.example/"> --><script>"<a href='http://b.example/'>"</script>` +
			`<template><a href="http://c.example/"></template>`,
			""},
		{strings.Repeat(`<a href="http://a.example/">x</a>`, 100), "http://a.example/"},
		{`<a href="http://a.example/` + long + `">x`, "http://a.example/" + long[:maxHref-len("http://a.example/")]},
		{`<a data-x="` + long + `" href="http://a.example/">x`, "http://a.example/"},
		{`<a data-x='` + long + `' b=">" href=http://a.example>x<a href=http://b.example>`,
			"http://a.example http://b.example"},
		{"<p>" + strings.Repeat("word ", MaxVisible/4) + `<a href="http://a.example/">x</a>`, "http://a.example/"},
	} {
		var got []string
		for _, h := range pageOf(t, tt.source).Links {
			mark := ""
			if h.Hidden {
				mark += "(hidden)"
			}
			if h.Loaded {
				mark += "(loaded)"
			}
			got = append(got, h.URL+mark)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%.100q: %.200q, want %.200q", tt.source, got, tt.want)
		}
	}
}

func TestPageAnchors(t *testing.T) {
	page := pageOf(t,
		`<P>one <a href="http://a.example/">two <b>three</b></a> four <a>five</a> <a href="x">six<a href="y">seven<br>eight`)
	var got []string
	for _, a := range page.Anchors {
		got = append(got, string(page.Text[a[0]:a[1]]))
	}
	if want := `["two three" "six" "seven\neight"]`; fmt.Sprintf("%q", got) != want {
		t.Errorf("anchors %q, want %s", got, want)
	}
	if want := "p a b a a a br "; string(page.Markup) != want {
		t.Errorf("mark-up %q, want %q", page.Markup, want)
	}
}

// TestMarkupHidden checks that hidden elements change nothing about the names of the others, whether or not they make
// the reader build a tree, and in pages whose tags are in disorder.
func TestMarkupHidden(t *testing.T) {
	long := strings.Repeat("<div><i>Some words</i></div>", 3*pieceSize/len("<div><i>Some words</i></div>"))
	for _, tt := range []struct{ before, after, hidden string }{
		{"<table><tr><td>One", "</td></tr></table>", `<div style="display:none">two</div>`},
		{"<table><tr><td>One", "</td></tr></table>", `<div hidden>two <b>three</b></div>`},
		{"<b><p>One</b> two", "</p><table><td><i>three", `<p style="display:none">four</p>`},
		{"<b><p>One</b> two", "</p><table><td><i>three", `<span style="font-size:0">four</span>`},
		{"<p>One<p>Two<font><div></font>", "<u>three", `<span style="color:#fff">four <i>five</i></span>`},
		{"<p>One<p>Two<font><div></font>", "<u>three", `<img hidden>`},
		{"<b><p>One</b> two" + long, "</p>", `<div style="display:none">four</div>`},
	} {
		plain, hiding := pageOf(t, tt.before+tt.after), pageOf(t, tt.before+tt.hidden+tt.after)
		if !bytes.Equal(plain.Markup, hiding.Markup) || len(plain.Markup) == 0 {
			t.Errorf("%.60s: mark-up %.200q with %s, %.200q without", tt.before, hiding.Markup, tt.hidden, plain.Markup)
		}
	}
}

// TestPageAlt checks which texts of pictures are noted, also where the page is read from a tree.
func TestPageAlt(t *testing.T) {
	for _, before := range []string{"", `<b><p>x</b><i hidden>y</i></p>`} {
		page := pageOf(t, before+`<img alt="See our &lt;new&gt; prices"><img alt="a b c">`+
			`<img alt='hidden words are not seen' hidden>`+
			`<a title="not this one here"><img src=x ALT="one  two three four" alt="no word of this"></a>`)
		if want := "See our <new> prices\none  two three four\n"; string(page.Alt) != want {
			t.Errorf("%s: %q, want %q", before, page.Alt, want)
		}
	}
	long := pageOf(t, strings.Repeat(`<img alt="`+strings.Repeat("words ", 500)+`">`, 20))
	if n := len(long.Alt); n < maxAlt/2 || n > maxAlt+20 {
		t.Errorf("%d bytes of texts of pictures", n)
	}
}

// TestMarkupPictures checks that a picture counts where letters have no size.
func TestMarkupPictures(t *testing.T) {
	page := pageOf(t, `<table><td style="font-size:0"><b>x</b><img src="cid:a"><img src="cid:b" style="display:none">`)
	if want := "table img "; string(page.Markup) != want {
		t.Errorf("mark-up %q, want %q", page.Markup, want)
	}
}

// FuzzAttributes: a tag ends within its source, and its first attribute of a name is
// the one that is found.
func FuzzAttributes(f *testing.F) {
	for _, s := range []string{`<a href="x" href='y' z=w/>`, "<a =b= c = 'd>", "<a/b/c='>'>",
		"<a src=1 HREF=2 href=3 content formaction=4 action='5' http-equiv=\"6\" src=7>", "<", "<a", "00 \xe80",
		"0 İ", "0 \u212a=1 k=2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		if source == "" {
			return
		}
		first := make(map[string]string)
		end := eachAttribute(source, nil, func(key, value string) {
			// Letters beyond ASCII have lower-case forms within it: they name others.
			if _, seen := first[strings.ToLower(key)]; !seen && scan.IsASCII(key) {
				first[strings.ToLower(key)] = value
			}
		})
		if end < 1 || end > len(source) {
			t.Fatalf("%q ends at %d", source, end)
		}
		var got, noted tagged
		(&visible{page: &Page{}, tag: source}).attributes(&got, atom.A, nil)
		if t0 := markup.Over(source, 0); t0.Next() && t0.Kind() == markup.Start {
			if (&visible{page: &Page{}}).attributes(&noted, atom.A, &t0); noted != got {
				t.Fatalf("%q: %+v as tokens, want %+v", source, noted, got)
			}
		}
		for _, a := range []struct {
			key, value string
			bit        uint32
		}{
			{"href", got.href, namedHref}, {"src", got.src, namedSrc}, {"action", got.action, namedAction},
			{"formaction", got.formaction, namedFormaction},
			{"http-equiv", got.equiv, namedEquiv}, {"content", got.content, namedContent},
		} {
			if want, ok := first[a.key]; a.value != want || (got.named&a.bit != 0) != ok {
				t.Fatalf("%q: %q is %q, %v; want %q, %v", source, a.key, a.value, got.named&a.bit != 0, want, ok)
			}
		}
	})
}

// TestVisible: what is out of sight, and what an element inside brings back.
func TestVisible(t *testing.T) {
	const a, b = "seen", "hidden"
	nest := func(style string, n int) string {
		return strings.Repeat(`<div style="`+style+`">`, n) + b + strings.Repeat("</div>", n)
	}
	for _, source := range []string{
		`<div style="font-size:0">` + b + `<p style="font-size:14px">` + a + `</p>` + b + `</div>`,
		`<div style="font-size:0">` + b + `<p style="font:italic 14px/1.5 Arial">` + a + `</p>` + b + `</div>`,
		`<div style="font-size:0">` + b + `<p style="font-size:2em">` + b + `</p><p style="font-size:medium">` + a +
			`</p></div>`,
		`<div style="FONT-SIZE : 0px !important"><font size=3>` + a + `</font>` + b + `</div>`,
		`<div style="visibility:hidden">` + b + `<div>` + b + `<span style="visibility:visible">` + a + `</span>` +
			b + `</div></div>`,
		`<div style="display:none"><p style="display:block;visibility:visible;opacity:1">` + b + `</p></div>` + a,
		`<div style="opacity:0"><p style="opacity:1">` + b + `</p></div>` + a,
		`<div style="opacity:.5">` + a + `</div>`,
		`<div style="position:absolute;left:-9999px"><p>` + b + `</p></div>` + a,
		`<div style="position:absolute;left:-5px">` + a + `</div>`,
		`<div style="text-indent:-5000px">` + b + `<p style="text-indent:0">` + a + `</p></div>`,
		`<div style="max-height:0;overflow:hidden">` + b + `</div><div style="max-height:0">` + a + `</div>`,
		`<div style="background:#fff;color:#FFFFFE">` + b + `<b style="color:#333">` + a + `</b></div>`,
		`<div style="background-color:rgb(250,250,250);color:rgba(249, 250, 249, 1)">` + b +
			`</div><p style="color:white;background:black">` + a,
		`<span style="display&#58;none">` + b + `</span>` + a,
		`<p hidden>` + b + `<div>` + a + `</div>`,
		`<ul hidden><li>` + b + `</ul>` + a,
		`<div style="font-size:1px">` + b + `</div><div style="font-size:1em">` + a + `</div>`,
		`<span style="display:none"><span>` + b + `</span>` + b + `</span>` + a,
		nest("display:none", maxFrames/2) + a,
		nest("visibility:hidden", 300) + a,
		`<div style="display:none"><div style="visibility:hidden"><b>` + b + `</div></div>` + a,
	} {
		if got := strings.Fields(string(pageOf(t, source).Text)); strings.Join(got, " ") != a {
			t.Errorf("%.200s: %q, want %q", source, got, a)
		}
	}
	deep := strings.Repeat(`<div style="display:none"><div style="visibility:hidden">`, maxFrames)
	if got := string(pageOf(t, deep+strings.Repeat(`<i style="font-size:0"><i style="font-size:9px">`,
		maxFrames)+a).Text); got != a && got != "" {
		t.Errorf("nested deeply: %q", got)
	}
}

// TestVisibleEnds: an element that holds nothing hides nothing of the page behind it, nor does an element
// whose end tag is missing where HTML ends it all the same.
func TestVisibleEnds(t *testing.T) {
	const a, b = "seen", "hidden"
	hide := ` style="display:none"`
	for _, source := range []string{
		// Outlook on the web begins the HTML of its mail so.
		`<html><head><style type="text/css" style="display:none;"> P {margin-top:0} </style></head><body>` + a,
		`<style` + hide + `>p{}</style>` + a,
		`<div style="display:block"` + hide + `>` + a + `</div>`, // the first of two equal attributes counts
		`<style hidden>p{}</style >` + a,
		`<STYLE STYLE='font-size:0'>p{}</STYLE>` + a,
		`<script` + hide + `>x()</script>` + a,
		`<title` + hide + `>title</title>` + a,
		`<template` + hide + `>` + b + `</template>` + a,
		`<template><div` + hide + `>` + b + `</template>` + a,
		`<template>` + b + `<style` + hide + `>p{}</style>` + b + `</template>` + a,
		`<template><template>` + b + `</template>` + b + `</template>` + a,
		`<p` + hide + `>` + b + `<style` + hide + `>p{}</style>` + b + `</p>` + a,
		`<style` + hide + `>p{}</style><div` + hide + `>` + b + `</div>` + a,
		`<head` + hide + `><title>x</title><body>` + a,
		`<head hidden><meta` + hide + `><link hidden><base` + hide + `></head>` + a,
		`<br` + hide + `><hr hidden><img` + hide + `><input hidden><wbr` + hide + `><area` + hide + `>` + a,
		`<basefont` + hide + `><bgsound` + hide + `><keygen` + hide + `><image` + hide + `><frame` + hide +
			`><col hidden>` + a,
		`<br` + hide + `/>` + a + `<div` + hide + `/>` + b, // the slash closes nothing
		`<p` + hide + `>` + b + `<p>` + a,
		`<p` + hide + `><span style="visibility:hidden">` + b + `<div>` + a,
		`<p><span` + hide + `>` + b + `<p>` + a,
		`<p><span` + hide + `>` + b + `</p>` + a,
		`<div><span` + hide + `>` + b + `</div>` + a,
		`<div` + hide + `><div><span hidden>` + b + `</div>` + b + `</div>` + a,
		`<ul><li` + hide + `>` + b + `<li>` + a + `</ul>`,
		`<ul><li` + hide + `>` + b + `<ul><li>` + b + `</ul>` + b + `</ul>` + a,
		`<ul><li><span` + hide + `>` + b + `<li>` + a + `</ul>`,
		`<dl><dt` + hide + `>` + b + `<dd>` + a + `</dl>`,
		`<select><option` + hide + `>` + b + `<option>` + a + `</select>`,
		`<table><tr><td` + hide + `>` + b + `<td>` + a + `</table>`,
		`<table><tr><td><span` + hide + `>` + b + `<td>` + a + `</table>`,
		`<table><tr` + hide + `><td>` + b + `<tr><td>` + a + `</table>`,
		`<table><tr><td` + hide + `>` + b + `<table><tr><td>` + b + `</td></tr></table>` + b + `<tr><td>` + a + `</table>`,
		`<table><tr><td` + hide + `>` + b + `</table>` + a,
		`<table><tr><td><font` + hide + `>` + b + `</td></tr></table>` + a,
		`<table` + hide + `><tr><td>` + b + `<tr><td>` + b + `</table>` + a,
		// A browser opens font again, and passes over end tags of what is not open.
		a + `<div><font` + hide + `>` + b + `</div><p>` + b,
		a + `<div` + hide + `>` + b + `</p></td></span></ul>` + b,
		// The last declaration of a property counts, and one that is important before.
		`<div style="display:none;display:block">` + a + `</div>`,
		`<div style="display:none;display:none important">` + b + `</div>` + a,
		`<div style="display:none;display:shown">` + b + `</div>` + a,
		`<div style="display:none!important;display:block">` + b + `</div>` + a,
		`<div style="display:block;display:none">` + b + `</div>` + a,
		`<div style="display:block ! important;display:none">` + a + `</div>`,
		`<div style="visibility:hidden;visibility:visible">` + a + `</div>`,
		`<div style="font-size:0;font-size:12px">` + a + `</div>`,
		`<div style="font-size:12px;font-size:0">` + b + `</div>` + a,
		`<div style="font-size:0;font-size:1em">` + a + `</div>`,
		`<div style="opacity:0;opacity:1">` + a + `</div>`,
		`<div style="text-indent:-999px;text-indent:0">` + a + `</div>`,
	} {
		if got := strings.Fields(string(pageOf(t, source).Text)); strings.Join(got, " ") != a {
			t.Errorf("%s: %q, want %q", source, got, a)
		}
	}
}

// naiveText is [visible.text] character by character.
func (v *visible) naiveText(b []byte) {
	for _, c := range b {
		n := len(v.dst)
		atStart := n == v.start || v.dst[n-1] == '\n'
		switch {
		case !strings.ContainsRune(" \n\r\t", rune(c)):
			if atStart && v.quotes > 0 {
				v.dst = append(v.dst, '>', ' ')
			}
			v.dst = append(v.dst, c)
		case !atStart && v.dst[n-1] != ' ':
			v.dst = append(v.dst, ' ')
		}
	}
}

// TestBlanks holds text that is shown by runs to what is shown character by character.
func TestBlanks(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	for range 20_000 {
		fast := visible{quotes: r.IntN(2)}
		slow := visible{quotes: fast.quotes}
		for range 1 + r.IntN(4) {
			var text []byte
			for range r.IntN(12) {
				text = append(text, "ab>   \n\r\t\f\xa0"[r.IntN(11)])
			}
			fast.text(text)
			slow.naiveText(text)
			if r.IntN(3) == 0 {
				fast.line()
				slow.line()
			}
			if string(fast.dst) != string(slow.dst) {
				t.Fatalf("%q is shown as %q, want %q", text, fast.dst, slow.dst)
			}
		}
	}
}
