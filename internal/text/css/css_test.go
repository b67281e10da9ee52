package css

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

func TestDeclarations(t *testing.T) {
	for text, want := range map[string]string{
		"display:none":             "display=none",
		" Display : None ;; x":     "display=none",
		"color:red!important;top:": "color=red! top=",
		"color: RED ! Important":   "color=red!",
		`background:url(data:image/png;base64,AA==) #FFF;top:0`: "background=url() #fff top=0",
		`background:url("a;b)") red`:                            `background=url("") red`,
		`content:"a;b:c\";d";top:1px`:                           `content="" top=1px`,
		"/* a:b; */dis\\70lay:n\\6f ne":                         "display=none",
		"color/**/:r/**/ed":                                     "color=r ed",
		"font-family:'a\ntop:0;left:1px":                        `font-family="" top:0 left=1px`,
		"width:calc(1px; 2px);height:0":                         "width=calc(1px; 2px) height=0",
		"font:12px  Arial,\tsans-serif":                         "font=12px arial, sans-serif",
		"a" + strings.Repeat("(", maxNesting+1) + ";b:c":        "",
		"a:" + strings.Repeat("(", maxNesting) + strings.Repeat(")", maxNesting) + ";b:c": "a=" +
			strings.Repeat("(", maxNesting) + strings.Repeat(")", maxNesting) + " b=c",
	} {
		var got []string
		Declarations(text, func(name, written string) {
			value, important := Value(written)
			if important {
				value += "!"
			}
			got = append(got, name+"="+value)
		})
		if strings.Join(got, " ") != want {
			t.Errorf("%.60q: %q, want %q", text, got, want)
		}
	}
}

func TestRules(t *testing.T) {
	for sheet, want := range map[string]string{
		"a{b:c}d{e:f}":                                          "a|b:c d|e:f",
		"<!-- a {b:c} -->":                                      "a |b:c",
		"/* x{y:z} */ a{b:c":                                    "a|b:c",
		"@import 'x'; a{b:c}":                                   "a|b:c",
		"@media print{x{y:z}} a{b:c}":                           "a|b:c",
		"@media screen{x{y:z}} a{b:c}":                          "x|y:z a|b:c",
		"@media only screen and (max-width:600px){x{}}q{}":      "q|",
		"@media (min-width:600px) {x{}}q{}":                     "x| q|",
		"@media(min-width:600px){x{}}q{}":                       "x| q|",
		"@media screen and (prefers-color-scheme:dark){x{}}q{}": "q|",
		"@media not print{x{}}q{}":                              "x| q|",
		"@media screen{@media print{x{}}y{}}q{}":                "y| q|",
		"@supports (display:grid){x{}}q{}":                      "?x| q|",
		"@supports not (a:b){@media screen{x{}}y{}}q{}":         "?x| ?y| q|",
		"@container (min-width:1px){x{}}q{}":                    "?x| q|",
		"@media (hover){x{}}q{}":                                "?x| q|",
		"@media (hover),print{x{}}q{}":                          "?x| q|",
		"@media print and (hover){x{}}q{}":                      "q|",
		"@media (hover),screen{x{}}q{}":                         "x| q|",
		"@media (400px<=width<=700px){x{}}q{}":                  "?x| q|",
		"@media (min-height:9999px){x{}}q{}":                    "?x| q|",
		"@media (min-height:400px){x{}}q{}":                     "x| q|",
		"@media (min-width:1024px) and (max-width:1024px){x{}}": "?x|",
		"@media (min-width:600px) and (max-width:1200px){x{}}":  "x|",
		"@media (max-width:calc(1px)){x{}}q{}":                  "?x| q|",
		"@font-face{font-family:x}q{}":                          "q|",
		`a[title="}"]{b:"}"}q{}`:                                `a[title="}"]|b:"}" q|`,
		"a{b:url(x}y)}q{}":                                      "a|b:url(x}y) q|",
		"a{b:{c}}q{}":                                           "a|b:{c} q|",
		"a":                                                     "",
	} {
		var got []string
		Rules(sheet, 1024, func(selectors, body string, sure bool) {
			if !sure {
				selectors = "?" + selectors
			}
			got = append(got, selectors+"|"+body)
		})
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", sheet, got, want)
		}
	}
}

// selected returns the IDs of the elements of a page that a list of selectors selects.
func selected(t *testing.T, page, list string) string {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	all, ok := Selectors(list)
	if !ok {
		return "invalid"
	}
	m := Match{Steps: 1 << 20}
	var ids []string
	for n := range root.Descendants() {
		if n.Type == html.ElementNode && slices.ContainsFunc(all, func(s Selector) bool {
			return s.Part == Whole && m.Selects(&s, n)
		}) {
			for _, a := range n.Attr {
				if a.Key == "id" {
					ids = append(ids, a.Val)
				}
			}
		}
	}
	return strings.Join(ids, "")
}

func TestSelectors(t *testing.T) {
	const page = `<!doctype html><div id=a class="x y"><p id=b class=x>1<b id=c lang=de-CH title="q r">2</b></p>` +
		`<p id=d>3</p><a id=e href="http://z.example/q">4</a></div><p id=f class=X>5</p>`
	for list, want := range map[string]string{
		"p": "bdf", "P": "bdf", ".x": "ab", "div.x.y": "a", "#b": "b", "*": "abcdef", "p,#a": "abdf", "div p": "bd",
		"div>p": "bd", "body > p": "f", "div b": "c", "div > b": "", "p + p": "d", "p ~ a": "e", "p+a": "e",
		"b ~ a":   "",
		"div p b": "c", "html body div > p > b": "c", "[lang]": "c", "[lang|=de]": "c", "[lang=de]": "",
		"[title~=r]": "c", `[href^="http"]`: "e", "[href$='q']": "e", "[href*=z]": "e", `a[href*=""]`: "",
		"p:first-child": "b", "p:last-child": "f", ":nth-child(2)": "df", "p:nth-child(odd)": "b", "p:not(.x)": "df",
		":is(a, b)": "ce", "a:link": "e", "a:hover": "", "a:hover,b": "c", "p::before": "", "p:nonsense,b": "invalid",
		"p:-ms-x,b": "invalid", "p::before b,a": "", "p:after>b,a": "", "p::before.x,a": "invalid",
		"p::before:hover,a": "e", "p b::after,a": "e",
		"p..x": "invalid", "p,": "invalid", "": "invalid", ">p": "invalid", "p>": "invalid",
		"p>>b": "invalid", ".\\78": "ab", "p/**/b": "invalid", "p/**/.x": "b", "p /**/b": "c", "u + .body p": "",
		"[owa] p":     "",
		"div :not(p)": "ce", "p:first-child > b": "c", ":root p": "bdf", "p:nth-child(n+2)": "df",
		"p:nth-child(-n+1)": "b",
		"@x":                "invalid", "1": "invalid",
	} {
		if got := selected(t, page, list); got != want {
			t.Errorf("%q selects %q, want %q", list, got, want)
		}
	}
}

// TestParts checks which selectors select what style sheets write in an element.
func TestParts(t *testing.T) {
	root, err := html.Parse(strings.NewReader("<div><p class=x>1</p></div>"))
	if err != nil {
		t.Fatal(err)
	}
	for list, want := range map[string]int{"p:before": 1, "P::BEFORE": 1, "div > .x::\\61 fter": 2, "::after": 2, "p": 0,
		"p::first-line": -1, "p::before:hover": -1, "p::before::after": -1, "p:hover::before": -1, "i::before": -1,
		"p:is(::after)": -1, "p::before b": -1} {
		all, _ := Selectors(list)
		m, part := Match{Steps: 1 << 10}, -1
		for n := range root.Descendants() {
			if len(all) == 1 && n.Data == "p" && m.Selects(&all[0], n) {
				part = int(all[0].Part)
			}
		}
		if part != want {
			t.Errorf("%s selects part %d, want %d", list, part, want)
		}
	}
	all, _ := Selectors("p::before,p.x")
	if all[0].Weight <= weightTag || all[0].Weight >= all[1].Weight {
		t.Errorf("a part weighs %d, a class %d", all[0].Weight, all[1].Weight)
	}
}

func TestContent(t *testing.T) {
	for written, want := range map[string]string{
		`"a b"`: `"a b"`, ` 'it''s' `: `"it" "s"`, `"\"x\41 y\0000e4z\a w"`: `"\"xAyäz w"`, "'a\\\nb'": `"ab"`,
		`"\\"`:        `"\\"`,
		`attr(TITLE)`: "[title]", `attr( x , "y") "z"`: `[x] "z"`, `"a"attr(b)'c'`: `"a" [b] "c"`,
		`"a" / "said"`: `"a"`, `"a" !important`: `"a" !`, `url(x.png) "a"`: `"a"`, `url("x")"a"`: `"a"`,
		`counter(n) ". "`: `". "`, `counters(n, ".")`: "", `open-quote "a"`: `"a"`, `/* "b" */"a"`: `"a"`, `"a`: `"a"`,
		`none`: "", `normal!important`: "!", `inherit`: "?", ``: "?", `var(--x)`: "?", `"\`: `" "`, "attr()": "",
	} {
		pieces, important, ok := Content(written)
		var got []string
		for _, p := range pieces {
			if p.Attribute != "" {
				got = append(got, "["+p.Attribute+"]")
			} else {
				got = append(got, strconv.Quote(p.Text))
			}
		}
		if important {
			got = append(got, "!")
		}
		if !ok {
			got = append(got, "?")
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %s, want %s", written, got, want)
		}
	}
	if pieces, _, _ := Content(strings.Repeat("'a'", 2*maxPieces)); len(pieces) != maxPieces {
		t.Errorf("%d pieces", len(pieces))
	}
}

// TestWeights checks the order of specificity.
func TestWeights(t *testing.T) {
	order := []string{"*", "p", "div p", ".x", "p.x", ".x.y", ".x[y]:root", "#a", "#a p", "#a.x", "#a #b"}
	last := -1
	for _, text := range order {
		all, ok := Selectors(text)
		if !ok || int(all[0].Weight) <= last {
			t.Errorf("%q weighs %v, not more than %d", text, all, last)
			continue
		}
		last = int(all[0].Weight)
	}
}

// TestMatchBudget checks that selectors with many ways to match stop at the budget.
func TestMatchBudget(t *testing.T) {
	root, err := html.Parse(strings.NewReader(strings.Repeat("<div>", 200) + "<b>"))
	if err != nil {
		t.Fatal(err)
	}
	all, ok := Selectors(strings.Repeat("div ", maxCompounds-2) + "p b")
	if !ok {
		t.Fatal("no selector")
	}
	m := Match{Steps: 10_000}
	for n := range root.Descendants() {
		if n.Data == "b" && m.Selects(&all[0], n) {
			t.Error("matched")
		}
	}
	all, _ = Selectors("p " + strings.Repeat("div ", maxCompounds-2) + "b")
	for n := range root.Descendants() {
		m.Selects(&all[0], n)
	}
	if m.Steps >= 0 || m.Steps < -1000 {
		t.Errorf("%d steps are left", m.Steps)
	}
}

func FuzzSheet(f *testing.F) {
	for _, s := range []string{"a{b:c}", "@media screen{a>b~c+d e{f:g!important}}", "a[b='c\\'d']:not(.e,#f){g:url(h)}",
		"/*", "<!--", "a\\", "@", "{", "}", "a{", "p:nth-child(-2n + 1){\\", "@media(", "a{b:\"", "url(",
		"\\110000 x{}", "\\41 b{c:d}", "a{b:\\20 c;d:\\ e;f:\\\n}",
		"a:first-child,p:last-child,a:only-child,:root,a:link,a:any-link{b:c}",
		"p:nth-child(odd),p:nth-child(even),p:nth-child(3),p:nth-child(+n),p:nth-child(-n+2),p:nth-child(2n - 1){a:b}",
		"a:before,a::after,a:hover{b:c}", ":is(p,div) :where(a){b:c}", "div>p+p,p~p,div p,#a.b.c,*.c{d:e}",
		"[lang],[class~=b],[lang|=x],[href^=y],[href$=y],[href*=y],[lang=x i]{a:b}", "a[href=\"y\"]{b:c}",
		"a{b:'c\\\n'}", "a{b:c;;d:(e;f)[g]{h}}", "@import 'a';@media not screen and (min-width:600px){a{b:c}}",
		"@media only all,(max-width:40em){a{b:c}}@font-face{d:e}", "a{/* b */c:d/*",
		"a:before{content:'\\201c  x' attr(b) \"c\\\nd\" counter(e) url(f) / 'g'}",
		"b::after{content:attr( h , 'i')!important}"} {
		f.Add(s)
	}
	root, err := html.Parse(strings.NewReader("<div id=a class='b c'><p lang=x>1<a href=y>2</a></p><p>3</p></div>"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, sheet string) {
		m := Match{Steps: 1 << 16, Fold: len(sheet)%2 == 0}
		size := 0
		Rules(sheet, len(sheet), func(list, body string, _ bool) {
			size += len(list) + len(body)
			Declarations(body, func(_, written string) {
				pieces, _, _ := Content(written)
				for _, p := range pieces {
					if len(p.Text)+len(p.Attribute) > 3*len(written) {
						t.Fatalf("%q writes %q", written, p)
					}
				}
				const space = " \t\n\f\r" // of CSS: a vertical tab is none
				if value, _ := Value(written); value != strings.Trim(value, space) || strings.ToLower(value) != value &&
					isASCII(value) {
					t.Fatalf("%q has the value %q", written, value)
				}
			})
			all, _ := Selectors(list)
			for i := range all {
				if kind, name := all[i].Key(); kind != '*' && name == "" {
					t.Fatalf("%q has the key %c", list, kind)
				}
				for n := range root.Descendants() {
					m.Selects(&all[i], n)
				}
			}
		})
		if size > len(sheet) {
			t.Fatalf("%d bytes of %d", size, len(sheet))
		}
		Media(sheet, 1024)
	})
}

func isASCII(s string) bool { return strings.IndexFunc(s, func(r rune) bool { return r > 0x7f }) < 0 }
