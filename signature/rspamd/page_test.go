package rspamd

import (
	"strings"
	"testing"
)

// TestPage: what rspamd 3.4 shows of pages, seen from the words that it makes of them.
func TestPage(t *testing.T) {
	for source, want := range map[string]string{
		`<p>a <img src=x alt="nice picture"> b</p>`: "a nice picture b", `<img src=x alt="nice"><p>a</p>`: "nice a", `<p>a <img src=x title=t> b</p>`: "a b",
		`<p style="color:#fefefe">white</p> b`: "b", `<font color=white>white</font> b`: "b", `<font color="#fffff0">white</font> b`: "b",
		`<p style="color:white;background-color:black">white</p> b`: "white b", `<td bgcolor=black style="color:white">x</td>b`: "x b", `<p style="color:#eeeeee">x</p>b`: "x b",
		`<p style="color:rgb(255,255,255)">x</p>b`: "b", `<p style="color:#ffffff">x<span style="color:#000">y</span></p>b`: "y b", `<p style="color:#ffffff">x<b>z</b></p>b`: "b",
		`<p style="display:none">x</p>b`: "b", `<p style="visibility:hidden">x</p>b`: "b", `<p hidden>x</p>b`: "b", `<p style="font-size:0px">x</p>b`: "b", `<p style="font-size:1px">x</p>b`: "x b",
		`<p style="opacity:0">x</p>b`: "x b", `<p style='mso-hide:all'>x</p>b`: "x b", `<span style="display:none">x<b>y</b></span>b`: "yb", `<font size=0>x</font>b`: "xb",
		"a<b>b</b>c": "abc", "a<br>b": "a b", "a<div>b</div>c": "a b c", "<td>a</td><td>b</td>": "a b", "<li>a<li>b": "ab", "<h1>a</h1>b": "a b", "<title>t</title>a": "a",
		"<style>p{}</style>a": "a", "<script>x()</script>a": "a", "<object>x</object>b": "b", "<noscript>n</noscript>a": "n a", "a<!-- c -->b": "ab", "a&nbsp;b": "a b",
		"a&bogus;b": "a bogusb", "a&eacute;b": "aéb", "a&#150;b": "a b", "a&amp;b": "a b", "a <3 b": "a 3 b", "a<wbr>b": "ab", "<iframe>x</iframe>b": "xb",
		"<html><body>a</body></html>b<p>c</p>": "a c", `<a href="http://x.example.com/">shop.example.com</a> b`: "b", `<a href="http://x.example.com/">Visit shop.example.com now</a>`: "visit shop example com now",
		"see http://example.com/a now, or example.com": "see now or example com",
	} {
		page := readPage(source, nil)
		var words oddList
		ok := words.take(strippedPage(page), 100, nil)
		if got := strings.Join(words.strings(), " "); !ok || got != want {
			t.Errorf("%s: %q, want %q", source, got, want)
		}
	}
}

// strippedPage is the stripped text of a page.
func strippedPage(p *page) *stripped {
	s := &stripped{shown: p.shown}
	s.text, s.lines = stripText(p.text, true)
	return s
}

// TestPageText: the text of a page to the blank, from which the digest of a short one is made.
func TestPageText(t *testing.T) {
	for source, want := range map[string]string{
		"a<br><br>b": "a\n\nb", "<br>a": "\na", "<div>a </div> b": "a\nb", "a <div>b</div>": "a \nb\n", "<td>a</td><td>b</td>": "a b", "<p>a</p>\n\n<p>b</p>": "a\nb\n",
		" a  b ": "a b", "a<b> b </b> c": "a b c", "a&nbsp;b": "a b", "a &nbsp; b": "a   b", "<p>a&nbsp; </p>b": "a\nb", "a\u00a0 b": "a\u00a0 b", "x &copy 2023": "x © 2023",
		"a&#160;b": "a b", "a&#65b": "aAb", "&copyright;x": "©right;x", "a &b c": "a &b c", "a&amp;&lt;b": "a&<b", "a&&amp;b": "a&&b", "a&#x41;b": "aAb",
		`a<img alt="b&nbsp;c">d`: "a b c d", "<p style=\"color:white\">ab</p>c": "\nc", "<b>a<i>b</b>c</i>d<p>e</p>": "abcd\ne\n", "a</font>b": "ab", "<div>a</font>b</div>": "ab\n",
		"<html><head><title>t</title><meta x>u</head><body>a</body></html>": "a", "<span style=display:block>a</span>b": "a\nb", "<p style=display:inline>a</p>b": "ab",
		"<!-- x --> a": "a", "a<!-- x -->b": "ab", "<noscript><b>a</b></noscript>": "<b>a</b>\n", "<del>a</del>b": "a\nb", "<section>a</section>b": "ab", "a < b": "a < b",
	} {
		if got := string(readPage(source, nil).text); got != want {
			t.Errorf("%q: %q, want %q", source, got, want)
		}
	}
}

// TestStripText: line ends, blanks and characters without width.
func TestStripText(t *testing.T) {
	for text, want := range map[string][2]string{ // of a text, and of a page
		"  a": {"  a", "  a"}, "\n a": {" a", " a"}, "a\n\n\n b\n": {"a b ", "a b "}, "a\n \nb": {"a  b", "a  b"}, "a\n\tb": {"a \tb", "a \tb"}, "a  b": {"a  b", "a  b"},
		"a\r\nb\r\n\r\nc": {"a b c", "a b c"}, "a\rb": {"ab", "ab"}, "a\r\rb": {"a b", "a b"}, "a <b\nc>": {"a <bc>", "a <b c>"}, "a <b\r\nc>": {"a <b c>", "a <b c>"},
		"<a>\nb": {"<a> b", "<a> b"}, "<a\n b>": {"<a b>", "<a b>"}, "a\u200bb": {"ab", "ab"}, "a\n\u200bb": {"a \u200bb", "a \u200bb"}, "a\n\u200b\u200bb": {"a b", "a b"},
		"a\u00adb\ufeffc": {"abc", "abc"}, "a\u200b": {"a\u200b", "a\u200b"}, "é\u200c\u200dé": {"éé", "éé"}, "": {"", ""},
	} {
		plain, _ := stripText([]byte(text), false)
		page, _ := stripText([]byte(text), true)
		if got := [2]string{string(plain), string(page)}; got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestManyTags: end tags that end nothing, or everything, cost no more than others.
func TestManyTags(t *testing.T) {
	for _, source := range []string{strings.Repeat("<b>", 5000) + strings.Repeat("</i>", 5000) + "x", "<i>" + strings.Repeat("<b>", 5000) + "</i>x<p>y", strings.Repeat("<b>x</b>", 9000)} {
		if text := string(readPage(source, nil).text); !strings.Contains(text, "x") {
			t.Errorf("%.20q: %.20q", source, text)
		}
	}
}

// TestLinks: what rspamd 3.4 cuts out of plain text, seen from the words that are left.
func TestLinks(t *testing.T) {
	for text, want := range map[string]string{
		"a shop.example.com b": "a b", "a shop.example.com, b": "a shop example com b", "a shop.example.com. B": "a b", "a shop.example.com) b": "a b", "a shop.example.com: b": "a shop example com b",
		"a shop.example.com! b": "a shop example com b", "a shop.example.com's b": "a b", "a shop.example.com/x b": "a b", "a shop.example.com:80/x b": "a b", "a shop.example.com:80: b": "a shop example com 80 b",
		"a (shop.example.com b": "a b", "a \"shop.example.com b": "a shop example com b", "a =shop.example.com/x b": "a shop example com x b", "a <shop.example.com/x> b": "a b", "a shop.example.com/x> b": "a shop example com x b",
		"a http://shop.example.com/x> b": "a http shop example com x b", "a <http://shop.example.com/x> b": "a b", "a <URL:http://shop.example.com/x> b": "a url http shop example com x b", "a x:http://example.com b": "a x b", "a xhttp://example.com b": "a xhttp example com b",
		"a http://192.0.2.7/x b": "a b", "a 192.0.2.7 b": "a 192027 b", "a http://localhost/x b": "a http localhost x b", "a http://x.nonsense/ b": "a http x nonsense b", "a www.example.com, b": "a b",
		"a info@example.com, b": "a b", "a mailto:x@example.com?subject=y b": "a b", "a info@x.nonsense b": "a infox nonsense b", "a x@y b": "a xy b", "a @y b": "a b", "a @07:42 b": "a 42 b",
		"a bücher.com b": "a b", "a x_y.org b": "a b", "a -x.org b": "a x org b", "a example.com.x b": "a example com x b", "a ™ b™ ½ x² b": "a b x b", "a git://example.com b": "a git example com b",
		"a http://shop.example.com/x me@example.com b": "a b", "a http://shop.example.com see me@example.com b": "a http shop example com see b", "a http://%65xample.com/ b": "a b", "a http:example.com b": "a b", "x tel: 123 456 b": "x",
		"x hotel: 123 456} b": "x b", "a tel: b": "a tel b", "a sip:joe@example.com b": "a sip joeexample com b", "a \"http://example.com\">x": "a http example com x", "a \"http://example.com/\">x": "a x",
		"a x/y@example.com b": "a b", "a http://u:p@example.com:80/ b": "a b", "a http://example.com:0/ b": "a http example com 0 b", "a http://7/ b": "a b", "a (http://example.com/x) b": "a b",
	} {
		var words oddList
		ok := words.take(&stripped{text: []byte(text), bare: true}, 100, nil)
		if got := strings.Join(words.strings(), " "); !ok || got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// FuzzPage: any page has a text, and what is shown for links lies within it.
func FuzzPage(f *testing.F) {
	f.Add("<html><body bgcolor=#000><p style='color:rgb(1,2,3);font-size:0'>a<a href=x>b.example.com</a><img alt=c></body></html>d&#x;&bogus;&#150")
	f.Add("<a><a></a><script><object><title></noscript><div hidden")
	f.Fuzz(func(t *testing.T, source string) {
		page := readPage(source, nil)
		for _, at := range page.shown {
			if at.start < 0 || at.start > at.end {
				t.Fatalf("shown %v of %d bytes", at, len(page.text))
			}
		}
		var words oddList
		words.take(strippedPage(page), 100, nil)
	})
}
