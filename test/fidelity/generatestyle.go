package fidelity

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// StyledPage returns page n of a seed: HTML whose style sheets, attributes and nesting decide together which of its
// words are seen. The same arguments give the same page.
func StyledPage(seed, n uint64) string {
	g := &generator{r: rand.New(rand.NewPCG(seed, n))}
	var b strings.Builder
	b.WriteString(g.one("", "<!DOCTYPE html>", "<!DOCTYPE html>") + "<html><head>")
	if g.chance(80) {
		b.WriteString(g.sheet())
	}
	b.WriteString("</head><body" + g.attributes() + ">")
	g.elements(&b, 5)
	if g.chance(20) {
		b.WriteString(g.sheet())
	}
	b.WriteString("</body></html>")
	return b.String()
}

// sheet returns a style element with a few rules.
func (g *generator) sheet() string {
	var b strings.Builder
	b.WriteString(g.one("<style>", "<style type=\"text/css\">", "<style media=screen>", "<style media=\"print\">"))
	for range g.between(1, 6) {
		rule := g.selector() + g.one("", "", ", "+g.selector()) + g.one("{",
			" { ") + g.written() + g.declarations() + g.one("}", "} ")
		switch g.r.IntN(12) {
		case 0:
			rule = "@media " + g.one("print", "screen", "only screen and (max-width: 600px)", "(min-width:400px)",
				"all",
				"not screen", "screen and (prefers-color-scheme: dark)") + " {" + rule + "}"
		case 1:
			rule = "/* " + rule + "*/" + rule
		case 2:
			rule = "@font-face { font-family: x; src: url(x) } " + rule
		}
		b.WriteString(rule)
	}
	return b.String() + "</style>"
}

// selector returns a selector for the elements of such pages.
func (g *generator) selector() string {
	simple := func() string {
		return g.one("p", "div", "span", "a", "td", "b", "*", ".a", ".b", ".c", ".A", "p.a", "div.b", ".a.b",
			"#i", "#j",
			"li",
			"table", "font", "[title]", "[title=q]", "p:first-child", "div:last-child", "p:not(.a)",
			"span:nth-child(2)", "body",
			"a:link", "a:hover", "h2")
	}
	s := simple()
	for g.chance(35) {
		s = simple() + g.one(" ", " > ", " + ", " ~ ", " ") + s
	}
	return s + g.one("", "", "", "", "", "::before", ":after", "::first-line")
}

// declarations returns a few declarations, of which the last may be important.
func (g *generator) declarations() string {
	var all []string
	for range g.between(1, 3) {
		all = append(all, g.declaration()+g.one("", "", "", "", " !important"))
	}
	return strings.Join(all, g.one(";", "; ")) + g.one("", ";")
}

// written returns a declaration of what stands before or behind what is in an element.
func (g *generator) written() string {
	if !g.chance(30) {
		return ""
	}
	return "content:" + g.one(fmt.Sprintf("\"s%d\"", g.r.IntN(100_000)), "'s\\74 u '", "\"a\" attr(title) ' b'",
		"attr(id)", "none", "\"\"", "normal", "\"c\\\"d\"", "\" \"", "inherit",
		"nonsense(\"x\"") + g.one("", "", " !important") + ";"
}

// turned returns declarations about the direction of letters.
func (g *generator) turned() string {
	return g.one("direction:rtl;unicode-bidi:bidi-override", "direction:rtl;unicode-bidi:isolate-override",
		"unicode-bidi:bidi-override", "direction:ltr", "unicode-bidi:normal", "direction:rtl;unicode-bidi:embed")
}

func (g *generator) declaration() string {
	if g.chance(3) {
		return g.turned()
	}
	colour := func() string {
		return g.one("#fff", "#ffffff", "white", "black", "#000", "#333", "navy", "red", "rgb(255,255,255)", "#fefefe",
			"rgba(0,0,0,0)", "hsl(0,0%,100%)", "inherit", "transparent", "nonsense", "#12345", "rgb(0 0 128)")
	}
	switch g.r.IntN(13) {
	case 0:
		return "display:" + g.one("none", "block", "inline", "inline-block", "bogus")
	case 1:
		return "visibility:" + g.one("hidden", "visible", "collapse", "inherit", "bogus")
	case 2, 3:
		return "color:" + colour()
	case 4, 5:
		return "background-color:" + colour()
	case 6:
		return "background:" + g.one(colour(), colour(), "none", "url(x.png) no-repeat #fff", "#000 url('a;b.png')",
			"linear-gradient(red, blue)")
	case 7:
		return "font-size:" + g.one("0", "0px", "1px", "12px", "2em", "50%", "1rem", "small", "larger", "medium",
			"inherit", "x")
	case 8:
		return "font:" + g.one("12px Arial", "bold 14px/1.5 serif", "0/0 a", "italic", "inherit", "12px")
	case 9:
		return "opacity:" + g.one("0", "1", ".5", "0%", "x")
	case 10:
		return "text-indent:" + g.one("-9999px", "0", "1em", "inherit")
	case 11:
		return g.one("height:0;overflow:hidden", "max-height:0;overflow:hidden", "width:0;overflow:hidden",
			"position:absolute;left:-9999px", "position:absolute;clip:rect(0,0,0,0)", "overflow:hidden",
			"margin-left:-9999px")
	}
	return g.one("margin:0", "padding:1px", "line-height:0", "border:0")
}

// attributes returns what decides in a start tag.
func (g *generator) attributes() string {
	var b strings.Builder
	if g.chance(45) {
		b.WriteString(" class=\"" + g.one("a", "b", "c", "a b", "A", " c  a ", "ab") + "\"")
	}
	if g.chance(10) {
		b.WriteString(" id=" + g.one("i", "j"))
	}
	if g.chance(15) {
		b.WriteString(" title=" + g.one("q", "r"))
	}
	if g.chance(30) {
		b.WriteString(" style=\"" + g.declarations() + "\"")
	}
	if g.chance(4) {
		b.WriteString(" hidden")
	}
	return b.String()
}

// elements writes elements with words of their own, some within others.
func (g *generator) elements(b *strings.Builder, depth int) {
	for range g.between(1, 3) {
		word := fmt.Sprintf(" w%d ", g.r.IntN(100_000))
		if depth == 0 || g.chance(30) {
			b.WriteString(word)
			continue
		}
		inside := func() {
			b.WriteString(word)
			g.elements(b, depth-1)
		}
		switch tag := g.one("p", "div", "span", "b", "a", "table", "ul", "font", "h2", "div", "div", "span", "bdo",
			"field"); tag {
		case "field":
			b.WriteString(g.field(strings.TrimSpace(word)))
		case "bdo":
			b.WriteString("<bdo" + g.one(" dir=rtl", " dir=RTL", " dir=ltr", "") + g.attributes() + ">" + word)
			if g.chance(50) {
				tag := g.one("i", "b", "bdo dir=ltr", "span dir=rtl", "div", "font")
				b.WriteString("<" + tag + ">" + strings.TrimSpace(word) + "</" + strings.Fields(tag)[0] + ">")
			}
			b.WriteString("</bdo>")
		case "table":
			b.WriteString("<table" + g.attributes() + g.one("", " bgcolor=#ffffff",
				" bgcolor=black") + "><tr" + g.attributes() +
				"><td" + g.attributes() + g.one("", " bgcolor=navy", " bgcolor=\"fff\"", " background=x.png") + ">")
			inside()
			b.WriteString("</td><td>" + word + "</td></tr></table>")
		case "ul":
			b.WriteString("<ul" + g.attributes() + "><li" + g.attributes() + ">")
			inside()
			b.WriteString("</li><li>" + word + "</li></ul>")
		case "a":
			fmt.Fprintf(b, "<a href=\"http://%d.example/\"%s>", g.r.IntN(100_000), g.attributes())
			b.WriteString(word + g.one("", "<img src=x.png width=5 height=5>") + "</a>")
		case "font":
			b.WriteString("<font" + g.attributes() + g.one(" color=white", " color=#000000", " size=1",
				" size=+2") + ">")
			inside()
			b.WriteString("</font>")
		default:
			b.WriteString("<" + tag + g.attributes() + ">")
			inside()
			b.WriteString("</" + tag + ">" + g.one("", " "))
		}
	}
}

// field returns a field of a form with a word in it.
func (g *generator) field(word string) string {
	kind := g.one("", " type=text", " type=submit", " type=button", " type=hidden", " type=password", " type=checkbox",
		" type=email", " type=strange", " type=reset")
	switch g.r.IntN(5) {
	case 0:
		return "<input" + kind + " placeholder=\"" + word + "\"" + g.attributes() + ">"
	case 1:
		return "<textarea placeholder=" + word + "></textarea>"
	case 2:
		return "<button value=no" + g.attributes() + ">" + word + "</button>"
	case 3:
		return "<input value=\"" + word + " &amp; x\" placeholder=no" + kind + ">"
	}
	return "<input" + kind + " value='" + word + "'" + g.attributes() + ">"
}
