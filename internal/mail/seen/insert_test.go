package seen

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// shown checks what pages show, each as it is and where a tree is built of it.
func shown(t *testing.T, pages map[string]string) {
	t.Helper()
	for source, want := range pages {
		for _, behind := range []string{"", `<b><p hidden>x</b></p>`} {
			got := strings.Join(strings.Fields(string(pageOf(t, source+behind).Text)), " ")
			if got != want {
				t.Errorf("%s%s shows %q, want %q", source, behind, got, want)
			}
		}
	}
}

// TestInserted checks which texts of style sheets are shown.
func TestInserted(t *testing.T) {
	shown(t, map[string]string{
		`<style>.a::before{content:"one two"}</style><span class=a> three</span>`:                 "one two three",
		`<style>.a:after{content:"two"}</style><p class=a>one </p>`:                               "one two",
		`<style>i:before{content:"V"}i:after{content:"i"}</style><i></i>agra`:                     "Viagra",
		`<style>i::before{content:"a";display:block}</style><i>b</i>`:                             "a b",
		`<style>i::before{content:attr(title)" c"}</style><i title="A &amp; b"></i>`:              "A & b c",
		`<style>i::before{content:"a"}</style><b>b</b>`:                                           "b",
		`<style>i::before{content:"a"}.x::before{content:"b"}</style><i class=x>c</i>`:            "bc",
		`<style>i::before{content:"a"!important}.x::before{content:"b"}</style><i class=x>c`:      "ac",
		`<style>.x::before{content:"a";content:var(--x)}i::before{content:none}</style><i>b`:      "b",
		`<style>i::before{content:"a"}i::before{display:none}</style><i>b`:                        "b",
		`<style>i::before{content:"a";font-size:0}i::after{content:"c";color:#fff}</style><i>b`:   "b",
		`<style>i{display:none}i::before{content:"a"}</style><i>b</i>c`:                           "c",
		`<style>i{visibility:hidden}i::before{content:"a";visibility:visible}</style><i>b</i>c`:   "ac",
		`<style>i::before{content:"a"}</style><i hidden>b</i>c`:                                   "c",
		`<style>i::first-letter{content:"a"}i:hover::before{content:"b"}</style><i>c</i>`:         "c",
		`<style>img::before,input::before,br::before{content:"a"}</style><img src=x><input><br>b`: "b",
		`<style>@media print{i::before{content:"a"}}</style><i>b</i>`:                             "b",
		`<style>@supports(x:y){i::before{content:"a"}}i::before{content:"c "}</style><i>b</i>`:    "c ab",
		`<style media=print>i::before{content:"a"}</style><i>b</i>`:                               "b",
		`<style>q::before{content:open-quote}p::before{content:url(x)}</style><p><q>b</q>`:        "b",
		`<style>i::before{content:"olleh";direction:rtl;unicode-bidi:bidi-override}</style><i>`:   "hello",
		`<style>i::after{content:"\1F600  \61 b"}</style><i>c</i>`:                                "c\U0001f600 ab",
	})
	page := pageOf(t, `<style>a::before{content:"Sign in"}</style><p>x<a href="http://a.example/"></a></p>`)
	if len(page.Anchors) != 1 || string(page.Text[page.Anchors[0][0]:page.Anchors[0][1]]) != "Sign in" {
		t.Errorf("anchors %v in %q", page.Anchors, page.Text)
	}
}

// TestInsertedRoom checks that style sheets write no more than the page has bytes.
func TestInsertedRoom(t *testing.T) {
	source := `<style>*::before{content:"` + strings.Repeat("word ", 200) + `"}</style>` + strings.Repeat("<b>", 300)
	if n := len(pageOf(t, source).Text); n < len(source)/4 || n > len(source) {
		t.Errorf("%d bytes of text of %d of source", n, len(source))
	}
}

// TestTurned checks which letters are shown from right to left.
func TestTurned(t *testing.T) {
	const turn = `direction:rtl;unicode-bidi:bidi-override`
	shown(t, map[string]string{
		`<p>a <span style="display:inline-block">b <bdo dir=rtl></bdo></span>`: "a b",
		`a <bdo dir=rtl>olleh</bdo> b`:                                         "a hello b",
		`a<BDO DIR="RTL"> olleh </BDO> b`:                                      "a hello b",
		`<bdo dir=rtl>eno <b>owt</b> eerht</bdo>`:                              "three two one",
		`<bdo dir=rtl>eno<br>owt</bdo>`:                                        "one two",
		`<bdo dir=rtl>cba <bdo dir=ltr>one</bdo> zyx</bdo>`:                    "xyz one abc",
		`<bdo dir=rtl>cba <span dir=ltr>one</span></bdo>`:                      "one abc",
		`<bdo dir=rtl>cba<p>one</p>fed</bdo>`:                                  "abc one def",
		`<bdo dir=rtl><span style="display:inline-block">one</span> cba</bdo>`: "abc one",
		`<bdo dir=rtl><button>one</button> cba</bdo>`:                          "abc one",
		`<bdo>one</bdo> <bdo dir=ltr>two</bdo>`:                                "one two",
		`<div dir=rtl>one <bdo>owt</bdo></div>`:                                "one two",
		`<div dir=rtl>one</div>`:                                               "one",
		`<span style="` + turn + `">olleh</span> b`:                            "hello b",
		`<p style="` + turn + `">olleh</p><p>b`:                                "hello b",
		`<span style="direction:rtl">one</span>`:                               "one",
		`<span style="unicode-bidi:bidi-override">one</span>`:                  "one",
		`<style>.t{` + turn + `}</style><i class=t>olleh</i>`:                  "hello",
		`<style>bdo{direction:rtl}</style><bdo>olleh</bdo>`:                    "hello",
		`<style>i{unicode-bidi:isolate-override}</style><i dir=rtl>olleh</i>`:  "hello",
		`<bdo dir=rtl style="unicode-bidi:normal">one</bdo>`:                   "one",
		"<bdo dir=rtl>(\u00e4\U0001f600b)</bdo>":                               "(b\U0001f600\u00e4)",
		`<blockquote><bdo dir=rtl>olleh</bdo></blockquote>`:                    "> hello",
		strings.Repeat("<bdo dir=rtl><bdo dir=ltr>", maxTurns/2) + "one":       "one",
		strings.Repeat("<bdo dir=rtl><bdo dir=ltr>", maxTurns) + "one":         "one",
	})
	page := pageOf(t, `x <bdo dir=rtl><a href="http://a.example/">olleh</a> cba <a href="http://b.example/">fed</a></bdo>`)
	var got []string
	for _, a := range page.Anchors {
		got = append(got, string(page.Text[a[0]:a[1]]))
	}
	if fmt.Sprintf("%q", got) != `["def" "hello"]` {
		t.Errorf("anchors %q in %q", got, page.Text)
	}
}

// TestFields checks what fields of forms show.
func TestFields(t *testing.T) {
	shown(t, map[string]string{
		`a<input value="b &amp; c">d`:                                  "a b & c d",
		`<INPUT TYPE=Text VALUE=a placeholder=b>`:                      "a",
		`<input placeholder="a b" value="">`:                           "a b",
		`<input type=submit value=a><input type=button placeholder=b>`: "a",
		`<input type=hidden value=a>b`:                                 "b",
		`<input type=checkbox value=a>b<input type=radio value=a>`:     "b",
		`<input type=password value=a placeholder=b>c`:                 "c",
		`<input type=password placeholder=b>c`:                         "b c",
		`<input type=strange value=a value=b>`:                         "a",
		`<input hidden value=a>b<input style="display:none" value=c>`:  "b",
		`<div style="font-size:0">a<input value=b></div>`:              "b",
		`<input type=submit style="color:#efefef" value=a>b`:           "b",
		`<style>.x{visibility:hidden}</style><input class=x value=a>b`: "b",
		`<div hidden><input value=a></div>b`:                           "b",
		`<input style="color:#fefefe" value=a>b`:                       "b",
		`<input style="color:#fefefe" placeholder=a>b`:                 "a b",
		`<textarea placeholder="a b"></textarea>c`:                     "a b c",
		`<button value=a>b</button><p title=x value=y placeholder=z>`:  "b",
	})
}

// TestLongAttributes checks that a rule which writes an attribute often takes no memory for what is too long to be
// shown.
func TestLongAttributes(t *testing.T) {
	often := "{content:" + strings.Repeat("attr(x)", 64) + "}"
	for name, sheet := range map[string]string{
		"a rule that applies":  "*::before" + often + "*::after" + often,
		"rules that may apply": strings.Repeat("@supports(a:b){*::before"+often+"}", 8),
	} {
		source := "<style>" + sheet + "</style><b x='" + strings.Repeat("word ", 8<<10) + "'>shown"
		read := func() (allocated uint64) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			page := pageOf(t, source)
			runtime.ReadMemStats(&after)
			if got := strings.TrimSpace(string(page.Text)); got != "shown" {
				t.Fatalf("%s: %.80q is shown", name, got)
			}
			return after.TotalAlloc - before.TotalAlloc
		}
		read() // and makes the memory that is used again
		if got, most := read(), uint64(8*len(source)); got > most {
			t.Errorf("%s: a page of %d bytes takes %d, want %d at most", name, len(source), got, most)
		}
	}
}
