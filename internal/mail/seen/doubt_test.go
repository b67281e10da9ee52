package seen

import (
	"strings"
	"testing"
)

// TestDoubt: what a browser shows is in sight, however much its style looks like one that hides. Otherwise a sender
// could hide a spam from this package that every reader sees.
func TestDoubt(t *testing.T) {
	for _, source := range []string{
		// Properties that hide nothing, or not here.
		`<p style="mso-hide:all">seen</p>`,
		`<p style="clip:rect(0,0,0,0)">seen</p>`,
		`<p style="clip-path:inset(50% 0 0 0)">seen</p>`,
		`<p style="text-indent:-600px">x<br>seen</p>`,
		`<p style="text-indent:-600px"><i>x</i><br><i>seen</i></p>`,
		// There is room for the text.
		`<p style="height:0;overflow:hidden;padding-bottom:300px">seen</p>`,
		`<p style="max-height:0;overflow:hidden;padding:9px 0">seen</p>`,
		`<p style="max-height:0;overflow:hidden;padding:300px 0 0">seen</p>`,
		`<p style="max-height:0;min-height:90px;overflow:hidden">seen</p>`,
		`<p style="width:0;min-width:max-content;overflow:hidden">seen</p>`,
		`<p style="height:0;height:fit-content;overflow:hidden">seen</p>`,
		`<p style="height:0;height:initial;overflow:hidden">seen</p>`,
		`<p style="height:0;height:calc(0px + 90px);overflow:hidden">seen</p>`,
		// It is moved back.
		`<p style="position:absolute;left:-600px;margin-left:600px">seen</p>`,
		`<p style="position:absolute;left:-600px;padding-left:600px">seen</p>`,
		`<p style="position:absolute;left:-600px;right:0;text-align:right">seen</p>`,
		`<div style="margin-left:600px"><p style="margin-left:-600px">seen</p></div>`,
		`<div style="position:absolute;left:-900px"><p style="margin-left:900px">seen</p></div>`,
		`<div style="position:absolute;top:600px"><p style="position:absolute;top:-600px">seen</p></div>`,
		`<p style="position:absolute;left:-600px;transform:translate(600px)">seen</p>`,
		`<p style="margin-left:-600px;margin:0 auto">seen</p>`,
		// Its letters are drawn all the same.
		`<p style="color:#fff;-webkit-text-fill-color:#000">seen</p>`,
		`<p style="-webkit-text-fill-color:#000;color:#fff">seen</p>`,
		`<p style="color:#000;-webkit-text-fill-color:#fff">seen</p>`,
		`<p style="color:#fff;box-shadow:inset 0 0 0 99px #000">seen</p>`,
		`<p style="color:#fff;text-shadow:0 0 2px #000">seen</p>`,
		`<div style="filter:invert(1)"><p style="color:#fff">seen</p></div>`,
		`<p style="font-size:1px;zoom:16">seen</p>`,
		`<p style="font-size:1px;transform:scale(16)">seen</p>`,
		// Values that a browser understands.
		`<p style="display:none;display:var(--b,block)">seen</p>`,
		`<p style="display:none;display:block flow">seen</p>`,
		`<p style="visibility:hidden;visibility:var(--v,visible)">seen</p>`,
		`<p style="opacity:0;opacity:max(1,0)">seen</p>`,
		`<p style="font-size:0;font-size:calc(0px + 16px)">seen</p>`,
		`<p style="font-size:0;font-size:clamp(9px,1em,20px)">seen</p>`,
		`<p style="font-size:0;font-size:5svw">seen</p>`,
		`<p style="font-size:0;font-size:.1e3px">seen</p>`,
		`<p style="font-size:16px;font-size:0 foo">seen</p>`,
		`<p style="color:#fff;color:var(--c,#000)">seen</p>`,
		`<p style="color:#fff;color:oklch(0 0 0)">seen</p>`,
		`<p style="color:#fff;background:var(--c,#000)">seen</p>`,
		`<p style="display:none;all:unset">seen</p>`,
		`<p style="opacity:0;animation:x 1s forwards">seen</p>`,
		// Rules of which it is not known whether they apply.
		`<style>@supports (foo:bar){p{display:none}}</style><p>seen</p>`,
		`<style>p{display:none}@supports (display:grid){p{display:block}}</style><p>seen</p>`,
		`<style>@media (min-height:9999px){p{display:none}}</style><p>seen</p>`,
		`<style>@media (min-width:1024px) and (max-width:1024px){p{display:none}}</style><p>seen</p>`,
		`<style>p{color:#fff}@media (hover),(pointer){p{color:#000}}</style><p>seen</p>`,
		`<style media="(monochrome)">p{display:none}</style><p>seen</p>`,
		`<style>p{display:none}p:has(i){display:block}</style><p><i>seen</i></p>`,
		`<style>p:not(:first-of-type){display:none}p:first-of-type{display:block}</style><p>seen</p>`,
		`<style>p{display:none}p:not(a b){display:block}</style><p>seen</p>`,
		`<style>p:has(i){display:block!important}</style><p style="display:none"><i>seen</i></p>`,
		`<style>p{display:none;&{display:block}}</style><p>seen</p>`,
		`<style>p{display:none;b,&:foo{display:block}}</style><p>seen</p>`,
		`<style>p{display:none}div{b{& ~ p.a:foo{display:block}}}</style><p class=a>seen</p>`,
		`<style>p{display:none}div{[a=";.x "] p{display:block}}</style><p>seen</p>`,
		`<style>p{display:none}b:foo( > i) > p:bar[a] {display:block}</style><p>seen</p>`,
		`<style>p{display:none}:dir(ltr){display:block}</style><p>seen</p>`,
		`<style>p{display:none}x|p:foo{display:block}</style><p>seen</p>`,
		`<style>p.b{display:none}p:foo{display:block}</style><p class=b>seen</p>`,
		`<p style="filter:opacity(0);filter:none">seen</p>`,
		`<p style="transform:scale(0);transform:none">seen</p>`,
		`<p style="float:left;width:0">seen</p>`,
		`<style>div{p{display:block!important}}</style><div><p hidden>seen</p></div>`,
	} {
		if got, _ := readWords(source); got != "seen" && got != "xseen" {
			t.Errorf("%s shows %q", source, got)
		}
	}
	for _, source := range []string{
		`<p style="text-indent:-9999px">x x x</p>seen`,
		`<p style="text-indent:-9999px"><i>x</i> <b>x</b></p>seen`,
		`<div style="text-indent:-9999px">x<p>x</p>x<a>x</a></div>seen`,
		`<style>p::before b,i{display:block}i{display:none}</style><i>x</i><p>seen</p>`,
		`<p style="position:absolute;left:-9999px;padding:20px">x<br>x</p>seen`,
		`<div style="margin-left:40px"><p style="position:absolute;left:-9999px">x</p></div>seen`,
		`<p style="opacity:calc(0)">x</p>seen`,
		`<p style="opacity:1e-3">x</p>seen`,
		`<p style="font-size:calc( 0px )">x</p>seen`,
		`<p style="font-size:0px;transform:none">x</p>seen`,
		`<p style="max-height:0px;overflow:hidden;padding:0">x</p>seen`,
		`<p style="max-height:0;min-height:0;overflow:hidden;line-height:0">x</p>seen`,
		`<style>@media (hover){p{color:red}}i{display:none}</style><i>x</i><p>seen</p>`,
		`<style>p:first-of-type{line-height:1}i{display:none}</style><i>x</i><p>seen</p>`,
		`<p style="position:relative;left:-9999px">x</p>seen`,
		`<p style="position:fixed;top:-1000px">` + strings.Repeat("x ", 500) + `</p>seen`,
		`<p style="position:absolute;width:1px;height:1px;overflow:hidden">x</p>seen`,
		`<b style="float:left;width:0;height:0;overflow:hidden">x</b>seen`,
		`<p style="max-height:0;overflow:auto">x</p>seen`,
		`<p style="max-block-size:0;overflow:scroll">x</p>seen`,
		`<p style="transform:scale(0, 0)">x</p>seen`,
		`<p style="scale:0">x</p>seen`,
		`<b style="filter:opacity(0)">x</b>seen`,
		`<progress>x</progress><meter>x</meter>seen`,
		`<style>i:foo{display:block}i{c{color:red}}q:dir(ltr){color:red}b{display:none}</style><b>x</b>seen`,
		`<style>i:foo{display:block}</style><p hidden>x</p>seen`,
		`<dialog>x</dialog><ruby><rp>x</rp></ruby><dialog open>seen</dialog>`,
		`<style>@media (max-width:600px){i{display:block!important}}i{display:none}</style><i>x</i><p>seen</p>`,
	} {
		if got, _ := readWords(source); got != "seen" {
			t.Errorf("%s shows %q", source, got)
		}
	}
}

// TestWhole: a tag that a browser ignores divides no word.
func TestWhole(t *testing.T) {
	for _, tag := range []string{"<body>", "<html>", "<td>", "<tr>", "<tbody>", "<thead>", "<tfoot>", "<th>", "<caption>",
		"<col>", "<colgroup>", "</td>", "</tr>", "</table>", "</div>", "</center>", "</form>", "</li>", "</ul>", "</body>",
		"</html>", "</section>", "<br hidden>", `<br style="display:none">`, "<hr hidden>", "<div hidden></div>",
		"<td></td>", "<tr><td></td></tr>"} {
		source := "<b>la" + tag + "nterns</b>"
		if got, want := string(pageOf(t, source).Text), "lanterns"; strings.TrimSpace(got) != want {
			t.Errorf("%s shows %q", source, got)
		}
		source = "<p hidden>x</p>" + source // from a tree
		if got, want := string(pageOf(t, source).Text), "lanterns"; strings.TrimSpace(got) != want {
			t.Errorf("%s shows %q", source, got)
		}
	}
	const rows = "<table><tr><td>a</td><td>b</td></tr><tr><td>c</table><p>d</div>e</p>f"
	if got, want := strings.Fields(string(pageOf(t, rows).Text)), "a b c de f"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", got, want)
	}
}
