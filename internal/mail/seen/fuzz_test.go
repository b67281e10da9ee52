package seen

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
)

// FuzzVisible checks that the visible text of any HTML is no longer than twice
// its source and keeps no mark-up that the parser saw as such.
func FuzzVisible(f *testing.F) {
	for _, raw := range mailtest.Seeds() {
		f.Add(string(raw))
	}
	for _, page := range pages() {
		f.Add(page)
	}
	f.Fuzz(func(t *testing.T, source string) {
		v := visible{dst: []byte("before\n"), page: &Page{}, hrefs: MaxLinks}
		v.read(source)
		got := v.dst
		if !bytes.HasPrefix(got, []byte("before\n")) {
			t.Fatal("what stood before is changed")
		}
		at := int32(0)
		for _, a := range v.page.Anchors {
			if a[0] < at || a[0] >= a[1] || int(a[1]) > len(got) {
				t.Fatalf("%v behind %d of %d bytes", a, at, len(got))
			}
			at = a[1]
		}
		if len(got) > 7+4*len(source)+64 {
			t.Fatalf("%d bytes of text from %d bytes of source", len(got), len(source))
		}
	})
}

// pages returns pages that hide, colour, size and nest elements in each way that the parser distinguishes.
func pages() (all []string) {
	var styled strings.Builder
	for _, style := range []string{
		"display:none", "display:block", "display:table-row", "display:inline", "display:inline-block", "display:no-such",
		"display:table-cell", "display:contents",
		"mso-hide:all", "visibility:hidden", "visibility:collapse", "visibility:visible", "opacity:0", "opacity:5%",
		"font-size:0", "font-size:1px", "font-size:smaller", "font-size:larger", "font-size:120%", "font-size:x-small",
		"font-size:2em", "font-size:3rem", "font-size:8pt", "font:0/0 a", "font:bold 12px/2 serif", "font:caption",
		"text-indent:-9999px", "position:absolute;left:-9999px", "position:fixed;top:-50em", "position:static;right:-1px",
		"margin-left:-9999px", "margin:0 0 0 -9999px", "height:0;overflow:hidden", "max-height:1px;overflow-y:hidden",
		"width:0;overflow-x:clip", "max-width:0;overflow:auto", "clip:rect(0,0,0,0)", "clip-path:inset(50%)",
		"clip-path:circle(0)", "clip-path:ellipse(0 0)", "clip-path:none", "color:#fff", "color:#FFFFFF80", "color:white",
		"color:rgb(1, 2, 3)", "color:rgba(1 2 3 / 50%)", "color:hsl(120deg, 50%, 50%)", "color:hsla(240,1%,99%,.5)",
		"color:transparent", "color:currentcolor", "color:inherit", "color:initial", "color:no-such",
		"-webkit-text-fill-color:red", "background:#000 url(a)", "background:linear-gradient(red,blue)",
		"background-color:inherit", "background-image:none", "background:none", "color:red!important;color:blue",
	} {
		fmt.Fprintf(&styled, "<div style='%s'>a<span style='%s'>b</span></div>\n", style, style)
	}
	all = append(all, styled.String(), "<!doctype html><style>.a{display:none}#b{color:#000}p~p{font-size:0}</style>"+
		"<style media=print>p{display:none}</style><style type=text/other>p{}</style>"+
		"<p class=a>a<p id=b>b<p>c<link rel=stylesheet href=x>"+styled.String())
	for _, colour := range []string{"red", "#fff", "fff", "123456789abc", "#12", "chucknorris", "transparent",
		"\U0001f600", "", strings.Repeat("f", 200)} {
		all = append(all, fmt.Sprintf("<body bgcolor='%s' text='%s'><font color='%s' size=+3 face=a>a</font><font size=-9>b"+
			"<font size=0>c<table bgcolor='%s' width=0 height=1><tr bgcolor=%q><td>d<th hidden>e</table>",
			colour, colour, colour, colour, colour))
	}
	return append(all,
		"<table><tr><td style=display:inline><a href=x>a </a></td> <td style=display:inline-block> <a href=y> </a></td>"+
			"<td>b</td></tr></table><b style=display:inline-block><a href=z> c </b> d<b style=display:table-cell>e</b>",
		"<ul><li>a<li>b</ul><dl><dt>c<dd>d<dt>e</dl><select><option>f<optgroup><option>g</select>"+
			"<p>h<div>i<p>j</div><h1>k<h2>l</h3><table><caption>m<colgroup><col><tr><td>n<tbody><tr><th>o<tfoot><td>p</table>"+
			"<ruby>q<rt>r</ruby><pre>\n s</pre><a href=x>t<a href=y>u</a></a><button>v<button>w</button>"+
			"<b><i>x</b></i><br/><hr><wbr>y",
		"<title>a</title><textarea>b</textarea><script>c</script><noscript>d</noscript><iframe src=e></iframe>"+
			"<object data=f>g</object><embed src=h><img src=i alt=j width=1 height=1><img src=cid:k>"+
			"<input type=hidden value=l><input value=m>"+
			"<area href=n><base href=o><form action=p><meta http-equiv=refresh content='0; url=q'>"+
			"<video poster=r><svg><text>s",
		"<style>.a::before{content:'x \\201c' attr(title);display:block}i::after{content:\"y\"!important}"+
			"@supports(a:b){i::before{content:'z'}}.t{direction:rtl;unicode-bidi:bidi-override}</style>"+
			"<p class=a title='a b'>c<i class=a>d</i><bdo dir=rtl>(fed <a href=x>g</a><br>h<bdo dir=ltr>i</bdo>\u00e4</bdo>"+
			"<p class=t>j<b dir=auto>k</b><input type=submit value='l &amp; m'><input placeholder=n type=password>"+
			"<textarea placeholder=o></textarea><input type=hidden value=p>",
		"<p>a <span style=display:inline-block>b <bdo dir=rtl></bdo></span><table><td>c <bdo dir=rtl> d </bdo><td>",
		"<!--[if mso]>a<![endif]--><!--b--!>c<![CDATA[d]]><?e?></f><g h=i j='k' l=\"m\" n>"+
			"&amp;&#65;&#x42;&nosuch;&#xffffff;",
		"<table><tr><td><p>a<table><tr><td>b</table><div hidden><p>c</div></table>"+strings.Repeat("<div>", 600)+"d",
		"<p>"+strings.Repeat("a &amp; b ", 3000)+"<p title='"+strings.Repeat("c", 70000)+"'>d")
}
