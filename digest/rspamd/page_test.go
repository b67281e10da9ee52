package rspamd

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestPage: what rspamd 3.4 shows of pages, seen from the words that it makes of them.
func TestPage(t *testing.T) {
	for source, want := range map[string]string{
		`<p>a <img src=x alt="nice picture"> b</p>`: "a nice picture b", `<img src=x alt="nice"><p>a</p>`: "nice a",
		`<p>a <img src=x title=t> b</p>`:       "a b",
		`<p style="color:#fefefe">white</p> b`: "b", `<font color=white>white</font> b`: "b",
		`<font color="#fffff0">white</font> b`:                      "b",
		`<p style="color:white;background-color:black">white</p> b`: "white b",
		`<td bgcolor=black style="color:white">x</td>b`:             "x b", `<p style="color:#eeeeee">x</p>b`: "x b",
		`<p style="color:rgb(255,255,255)">x</p>b`:                         "b",
		`<p style="color:#ffffff">x<span style="color:#000">y</span></p>b`: "yb",
		`<p style="color:#ffffff">x<b>z</b></p>b`:                          "b",
		`<p style="display:none">x</p>b`:                                   "b",
		`<p style="visibility:hidden">x</p>b`:                              "b",
		`<p hidden>x</p>b`:                                                 "b",
		`<p style="font-size:0px">x</p>b`:                                  "b", `<p style="font-size:1px">x</p>b`: "x b",
		`<p style="opacity:0">x</p>b`: "x b", `<p style='mso-hide:all'>x</p>b`: "x b",
		`<span style="display:none">x<b>y</b></span>b`: "yb", `<font size=0>x</font>b`: "xb",
		"a<b>b</b>c": "abc", "a<br>b": "a b", "a<div>b</div>c": "a b c", "<td>a</td><td>b</td>": "a b",
		"<li>a<li>b": "ab", "<h1>a</h1>b": "a b", "<title>t</title>a": "a",
		"<style>p{}</style>a": "a", "<script>x()</script>a": "a", "<object>x</object>b": "b",
		"<noscript>n</noscript>a": "n a", "a<!-- c -->b": "ab", "a&nbsp;b": "a b",
		"a&bogus;b": "a bogusb", "a&eacute;b": "aéb", "a&#150;b": "a b", "a&amp;b": "a b", "a <3 b": "a 3 b",
		"a<wbr>b": "ab", "<iframe>x</iframe>b": "xb",
		"<html><body>a</body></html>b<p>c</p>": "a c", `<a href="http://x.example.com/">shop.example.com</a> b`: "b",
		`<a href="http://x.example.com/">Visit shop.example.com now</a>`: "visit shop example com now",
		"see http://example.com/a now, or example.com":                   "see now or example com",
	} {
		page := readPage(source, nil)
		var words oddList
		ok := words.take(strippedPage(page), 100, nil)
		if got := strings.Join(words.strings(), " "); !ok || got != want {
			t.Errorf("%s: %q, want %q", source, got, want)
		}
	}
}

// TestStyles: what rspamd 3.4 shows of pages with styles, seen from the words that it makes of them.
func TestStyles(t *testing.T) {
	for source, want := range map[string]string{
		`<style>.w{color:white}</style><p class="w">x</p>b`:                               "",
		`<style>.w{color:white}</style><p class="a W">x</p>b`:                             "",
		`<style>#w{display:none}</style><p id=w>x</p>b`:                                   "",
		`<style>p{display:none}</style><p>x</p>b`:                                         "",
		`<style>*{color:#fefefe}</style><p>x</p>b`:                                        "",
		`<style>p.w{display:none}</style><p class=w>x</p>b`:                               "x",
		`<style>p.w, i{display:none}</style><p>x</p><i>y</i>b`:                            "",
		`<style>i, p.w{display:none}</style><p>x</p><i>y</i>b`:                            "x",
		`<style>p[class=w]{display:none}</style><p class=w>x</p>b`:                        "x",
		`<style>a:hover{display:none}</style><a>x</a>b`:                                   "x",
		`<style>@media print{p{display:none}}</style><p>x</p>b`:                           "x",
		`<style>/* c */ <!-- .w { color : white ; } --></style><p class=w>x</p>b`:         "",
		`<style>.w{color:white}</style><style> </style><p class=w>x</p>b`:                 "",
		`<style>.w{color:white}</style><style>i{}</style><p class=w>x</p>b`:               "",
		`<style>.w{color:white}.w{color:black}</style><p class=w>x</p>b`:                  "",
		`<style>.w{color:white}</style><p class=w style="color:black">x</p>b`:             "x",
		`<style>.w{background:#000;color:white}</style><p class=w>x</p>b`:                 "x",
		`<style>.w,.v{color:red}.w{display:none}</style><p class=v>x</p>b`:                "",
		`<style>section{display:none}</style><section>x</section>b`:                       "x",
		`<style>section,i{display:none}</style><i>x</i>b`:                                 "x",
		`<style>.w{display:none}</style><section class=w>x</section>b`:                    "x",
		`<style>.w{display:none}</style><img class=w alt=x>b`:                             "b",
		`<p style="color:red;color:white">x</p>b`:                                         "x b",
		`<p style="color:white;color:red">x</p>b`:                                         "b",
		`<p style="background:rgb(0, 0, 0);color:rgb(255, 255, 255)">x</p>b`:              "x b",
		`<p style="color:rgba(0,0,0,0)">x</p>b`:                                           "b",
		`<p style="color:rgba(255,255,255,.5)">x</p>b`:                                    "b",
		`<p style="background-color:transparent;color:white">x</p>b`:                      "x b",
		`<p style="background:url(a;b) #000;color:white">x</p>b`:                          "x b",
		`<p style="font-size:0.5px">x</p>b`:                                               "b",
		`<p style="font-size:1%">x</p>b`:                                                  "x b",
		`<p style="font-size:50%">x</p>b`:                                                 "x b",
		`<p style="font:0/0 a">x</p>b`:                                                    "b",
		`<p style="font:12px/0 a">x</p>b`:                                                 "b",
		`<p style="font-size:.05em">x</p>b`:                                               "b",
		`<div style="font-size:0"><p>x</p></div>b`:                                        "b",
		`<div style="font-size:0"><p style="font-size:12px">x</p></div>b`:                 "x b",
		`<div style="font-size:50px"><p style="font-size:1%">x</p></div>b`:                "b",
		`<p style="DISPLAY: NONE">x</p>b`:                                                 "b",
		`<p style="display:none!important">x</p>b`:                                        "b",
		`<p style="*display:none">x</p>b`:                                                 "x b",
		`<p style="display:none;display:block">x</p>b`:                                    "b",
		`<p style="visibility:hidden;display:block">x</p>b`:                               "x b",
		`<p style="display:block;visibility:hidden">x</p>b`:                               "b",
		`<p style="color:#ffffff00">x</p>b`:                                               "b",
		`<p style="color:#fff;{;background:#000">x</p>b`:                                  "b",
		`<font color="FFFFFF">x</font>b`:                                                  "xb",
		`<font color="#fff" style="color:black">x</font>b`:                                "b",
		`<p style="color:black" color="#ffffff">x</p>b`:                                   "b",
		`<body bgcolor=black><p>x</p>b`:                                                   "",
		`<table style="background:#111"><tr><td>x</td></tr></table>b`:                     "x b",
		`<p style="color:hsl(0,0%,100%)">x</p>b`:                                          "x b",
		`<p style="x:y">x</p>b`:                                                           "x b",
		`<p style="color:white;background-color:none">x</p>b`:                             "b",
		`<style>.a{color:#fff}.b{background-color:#000}</style><p class="a b">x</p>b`:     "x",
		`<style>td{font-size:0}</style><table><tr><td>x<span>y</span></td></tr></table>b`: "",
		`<style>.w{}</style><style>.w{color:white</style><p class=w>x</p>b`:               "",
		`<style>div .w{color:white}</style><p class=w>x</p>b`:                             "x",
		`<style>.w .v, i{color:white}</style><p class=w>x</p>b`:                           "",
		`<style>.w1-a_b{color:white}</style><p class=w1-a_b>x</p>b`:                       "",
		`<style>#a1{color:white}</style><p id=a1>x</p>b`:                                  "",
		`<style>#a{color:white}</style><p id=a>x</p>b`:                                    "",
	} {
		var words oddList
		ok := words.take(strippedPage(readPage(source, nil)), 100, nil)
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
		"a<br><br>b": "a\n\nb", "<br>a": "\na", "<div>a </div> b": "a\nb", "a <div>b</div>": "a \nb\n",
		"<td>a</td><td>b</td>": "a b", "<p>a</p>\n\n<p>b</p>": "a\nb\n",
		" a  b ": "a b", "a<b> b </b> c": "a b c", "a&nbsp;b": "a b", "a &nbsp; b": "a   b",
		"<p>a&nbsp; </p>b": "a\nb", "a\u00a0 b": "a\u00a0 b", "x &copy 2023": "x © 2023",
		"a&#160;b": "a b", "a&#65b": "aAb", "&copyright;x": "©right;x", "a&nbspbcd": "a bcd",
		"a&NonBreakingSpace;b": "a\u00a0b", "a &b c": "a &b c", "a&amp;&lt;b": "a&<b", "a&&amp;b": "a&&b", "a&#x41;b": "aAb",
		`a<img alt="b&nbsp;c">d`: "a b c d", "<p style=\"color:white\">ab</p>c": "  c",
		"x<div style=\"color:white\">ab <p>de</p>f</div>c":   "x      c",
		"<body bgcolor=black><div>a</div>b</x>c</body></z>e": "   e", "<b>a<i>b</b>c</i>d<p>e</p>": "abcd\ne\n",
		"a</font>b": "ab", "<div>a</font>b</div>": "ab\n",
		"<html><head><title>t</title><meta x>u</head><body>a</body></html>": "a",
		"<span style=display:block>a</span>b":                               "a\nb", "<p style=display:inline>a</p>b": "ab",
		"<!-- x --> a": "a", "a<!-- x -->b": "ab", "<noscript><b>a</b></noscript>": "<b>a\n",
		"<script>a<b>b</c>d</script>e": "e", "x<script>a</b,c>b</script>e": "xe", "x<script>a<</script>e</script>f": "xf",
		"x<br>y<?xml:a b>z": "x\nyy<?xml:a b>z", "x<br>y<?xml:a b?>z": "x\nyz", "y<!-->z": "yy<!-->z",
		"y<!--->z<b>c</b>": "yy<!--->zc",
		"<p> A&P<br>B":     "A&P\nB\n", "<p> &lt;A&PQ<br>B": "<A&PQ&PQ\nB\n", "<p>A&P<br>B": "A&P\nB\n",
		"<p>   A&P<br>B": "A&P&P\nB\n", "<p>   A&#P<br>B": "A&#P&#P\nB\n", "<del>a</del>b": "a\nb",
		"<section>a</section>b": "ab", "a < b": "a < b",
	} {
		if got := string(readPage(source, nil).text); got != want {
			t.Errorf("%q: %q, want %q", source, got, want)
		}
	}
}

// TestBrokenPage: what rspamd 3.4 reads of tags that are not whole.
func TestBrokenPage(t *testing.T) {
	for source, want := range map[string]string{
		// A tag that has no end takes the place of the elements that have none.
		"<p>a</p>b<i": "a\n", "<p>a<b>c</b>d</i": "ac\n", "<p>a</p>b<!-- c": "a\n", "<p>a</p>b<!-- c -->": "a\nb",
		"a<": "a<", "<p>a</": "", "<div>a<p>b</p>c<img src=x": "a\nb\n",
		// An end tag without a name is text, and the element around it is lost.
		"<p>a</= p>b": "", "<p>a</= p>b</p>c": "a</= p>b", "<div><p>a</ p>b<i>c</i>d</div>": "a</ p>bcd\n",
		// Values without quotation marks end at one; empty ones between such marks are none.
		`a<img alt=3D"b c">d`: "a 3D d", `a<img alt="">b`: "ab", `a<img alt=''>b`: "ab", `a<img alt>b`: "a b",
		`a<img class=c>b`: "ab", `a<p hidden="">b</p>c`: "a\nb\nc", `a<p hidden="x">b</p>c`: "ac",
	} {
		page := readPage(source, nil)
		if got := string(page.text); got != want {
			t.Errorf("%s: %q, want %q", source, got, want)
		}
		page.back()
	}
}

// TestShown: which texts of links stand for a link: those of more than four bytes, if there is a link.
func TestShown(t *testing.T) {
	for source, want := range map[string]int{
		`<a href="http://example.com/">shop.example.com</a>`: 1, `<a href="http://example.com/">s.th</a>`: 0,
		`<a href="http://example.com/"> ss.th </a>`: 1, `<a href="http://example.com/">here</a>`: 0,
		`<a href="http://">shop.example.com</a>`: 0, `<a href=" https:// ">shop.example.com</a>`: 0,
		`<a href="mailto:">joe@example.com</a>`: 0, `<a href="mailto:joe@example.com">joe@example.com</a>`: 1,
		`<a href="#x">example.com</a>`: 0,
	} {
		if got := len(readPage(source, nil).shown); got != want {
			t.Errorf("%s: %d, want %d", source, got, want)
		}
	}
}

// TestStripText: line ends, blanks and characters without width.
func TestStripText(t *testing.T) {
	for text, want := range map[string][2]string{ // of a text, and of a page
		"  a": {"  a", "  a"}, "\n a": {" a", " a"}, "a\n\n\n b\n": {"a b ", "a b "}, "a\n \nb": {"a  b", "a  b"},
		"a\n\tb": {"a \tb", "a \tb"}, "a  b": {"a  b", "a  b"},
		"a\r\nb\r\n\r\nc": {"a b c", "a b c"}, "a\rb": {"ab", "ab"}, "a\r\rb": {"a b", "a b"},
		"a <b\nc>": {"a <bc>", "a <b c>"}, "a <b\r\nc>": {"a <b c>", "a <b c>"},
		"<a>\nb": {"<a> b", "<a> b"}, "<a\n b>": {"<a b>", "<a b>"}, "a\u200bb": {"ab", "ab"},
		"a\n\u200bb": {"a \u200bb", "a \u200bb"}, "a\n\u200b\u200bb": {"a b", "a b"},
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
	for _, source := range []string{strings.Repeat("<b>", 5000) + strings.Repeat("</i>", 5000) + "x",
		"<i>" + strings.Repeat("<b>", 5000) + "</i>x<p>y", strings.Repeat("<b>x</b>", 9000)} {
		if text := string(readPage(source, nil).text); !strings.Contains(text, "x") {
			t.Errorf("%.20q: %.20q", source, text)
		}
	}
}

// TestLinks: what rspamd 3.4 cuts out of plain text, seen from the words that are left.
func TestLinks(t *testing.T) {
	for text, want := range map[string]string{
		"a shop.example.com b": "a b", "a shop.example.com, b": "a shop example com b",
		"a shop.example.com. B": "a b", "a shop.example.com) b": "a b", "a shop.example.com: b": "a shop example com b",
		"a shop.example.com! b": "a shop example com b", "a shop.example.com's b": "a b",
		"a shop.example.com/x b": "a b", "a shop.example.com:80/x b": "a b",
		"a shop.example.com:80: b": "a shop example com 80 b",
		"a (shop.example.com b":    "a b", "a \"shop.example.com b": "a shop example com b",
		"a =shop.example.com/x b": "a shop example com x b", "a <shop.example.com/x> b": "a b",
		"a shop.example.com/x> b":        "a shop example com x b",
		"a http://shop.example.com/x> b": "a http shop example com x b", "a <http://shop.example.com/x> b": "a b",
		"a <URL:http://shop.example.com/x> b": "a url http shop example com x b",
		"a x:http://example.com b":            "a x b", "a xhttp://example.com b": "a xhttp example com b",
		"a http://192.0.2.7/x b": "a b", "a 192.0.2.7 b": "a 192027 b",
		"a http://localhost/x b": "a http localhost x b", "a http://x.nonsense/ b": "a http x nonsense b",
		"a www.example.com, b":  "a b",
		"a info@example.com, b": "a b", "a mailto:x@example.com?subject=y b": "a b",
		"a info@x.nonsense b": "a infox nonsense b", "a x@y b": "a xy b", "a @y b": "a b", "a @07:42 b": "a 42 b",
		"a bücher.com b": "a b", "a x_y.org b": "a b", "a -x.org b": "a x org b",
		"a example.com.x b": "a example com x b", "a ™ b™ ½ x² b": "a b x b", "a git://example.com b": "a git example com b",
		"a http://shop.example.com/x me@example.com b":   "a b",
		"a http://shop.example.com see me@example.com b": "a http shop example com see b",
		"a http://%65xample.com/ b":                      "a b", "a http:example.com b": "a b", "x tel: 123 456 b": "x",
		"x hotel: 123 456} b": "x b", "a tel: b": "a tel b", "a sip:joe@example.com b": "a sip joeexample com b",
		"a \"http://example.com\">x": "a http example com x", "a \"http://example.com/\">x": "a x",
		"a x/y@example.com b": "a b", "a http://u:p@example.com:80/ b": "a b",
		"a http://example.com:0/ b": "a http example com 0 b", "a http://7/ b": "a b", "a (http://example.com/x) b": "a b",
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
	f.Add("<html><body bgcolor=#000><p style='color:rgb(1,2,3);font-size:0'>a" +
		"<a href=x>b.example.com</a><img alt=c></body></html>d&#x;&bogus;&#150")
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

// TestRuns: what is copied at a time, or passed over, ends where it does byte by byte.
func TestRuns(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	pieces := []string{"a", "word", "several words", " ", "  ", "\t", "\n", "\r", "\f", "&", "<", ">", "\u00e9",
		"\u200b", "\u00ad", "\ufeff", "\uff21", "\u2013", "\u20ac", "\xe2", "\xef\xbb", "\x01", "\x1f!", "\x7f", "%",
		"'", "=", "?"}
	for range 50_000 {
		var text []byte
		for range r.IntN(14) {
			text = append(text, pieces[r.IntN(len(pieces))]...)
		}
		want := 0
		for want < len(text) && text[want] != '&' && (!isBlank(text[want]) || text[want] == ' ' &&
			want+1 < len(text) && text[want+1] != '&' && !isBlank(text[want+1])) {
			want++
		}
		if got := plainRun(text); got != want {
			t.Fatalf("a run of %q has %d bytes, want %d", text, got, want)
		}
		at := r.IntN(len(text) + 1)
		want = at
		for want < len(text) && strings.IndexByte("\r\n<>", text[want]) < 0 {
			if c, _ := utf8.DecodeRune(text[want:]); isZeroWidth(c) {
				break
			}
			want++
		}
		if got := nextStrip(text, at); got != want {
			t.Fatalf("%q from %d on: %d, want %d", text, at, got, want)
		}
	}
}

// TestNumbered: numeric references mean what the library makes of their numbers.
func TestNumbered(t *testing.T) {
	for _, number := range []string{"", "0", "65", "x41", "X41", "xa0", "160", "x", "xg", "1a", "8364", "1114111",
		"1114112", "2097151", "2097152", "99999999999999999999", "x1FFFFF", "x200000", "00065", "65 ", "d800",
		"xd800", "xD83D"} {
		digits, base := number, 10
		if strings.HasPrefix(strings.ToLower(number), "x") {
			digits, base = number[1:], 16
		}
		want := "\ufffd"
		if n, err := strconv.ParseUint(digits, base, 21); n == 0xa0 {
			want = " "
		} else if err == nil && n > 0 {
			want = string(rune(n))
		}
		if got := string(appendNumbered([]byte("a"), []byte(number))); got != "a"+want {
			t.Errorf("%s means %q, want %q", number, got, want)
		}
	}
}
