package fidelity

import (
	"fmt"
	"html"
	"strings"
)

// page returns HTML in UTF-8.
func (g *generator) page() string {
	var b strings.Builder
	if g.chance(40) {
		b.WriteString(g.one("<!DOCTYPE html>\n", "<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.01//EN\">\n",
			"<?xml version=\"1.0\"?>\n", "\n"))
	}
	framed := g.chance(80)
	if framed {
		b.WriteString("<html><head>" + g.one("", "<title>"+g.words(3)+"</title>", "<meta charset=\"utf-8\">",
			"<style>p { color: red } .x { display: none; } <!-- a > b --></style>",
			"<meta http-equiv=\"Content-Type\" content=\"text/html; charset=iso-8859-1\">",
			"<base href=\"http://www.example.com/\">", "<script>if (a < b) { document.write('<p>x</p>') }</script>") +
			"</head>" +
			g.one("<body>", "<body bgcolor=\"#ffffff\">", "<body style=\"margin:0;background-color:#000;color:#fff\">",
				"<BODY text=white bgcolor=black>", ""))
		if g.chance(70) {
			b.WriteString("\n")
		}
	}
	low, high := g.length()
	for range g.between(low, high) {
		b.WriteString(g.element(g.marked()))
		if g.chance(60) {
			b.WriteString("\n")
		}
	}
	if framed && g.chance(90) {
		b.WriteString("</body></html>\n")
	}
	return b.String()
}

// marked returns one sentence as it stands in a page.
func (g *generator) marked() string {
	s := strings.Join(g.sentences(1, 1), " ")
	switch g.r.IntN(6) {
	case 0:
		s = html.EscapeString(s)
	case 1:
		var b strings.Builder
		for _, r := range s {
			switch {
			case r > 127 && g.chance(80):
				fmt.Fprintf(&b, g.one("&#%d;", "&#x%x;", "&#%d;"), r)
			case r == ' ' && g.chance(10):
				b.WriteString(g.one("&nbsp;", "&#160;", "\n", "  ", "&emsp;", "&nbsp"))
			default:
				b.WriteRune(r)
			}
		}
		s = b.String()
	case 2:
		s = wrap(s, g.between(20, 70), "\n"+strings.Repeat(" ", g.r.IntN(8)))
	case 3:
		words := strings.Split(s, " ")
		at := g.r.IntN(len(words))
		words[at] = g.one("&eacute;t&eacute;", "&copy;", "&bogus;", "&", "&lt;b&gt;", "&amp;amp;", "&#8217;", "&rsquo;s",
			"&zwnj;", "&shy;", "&euro;5", "&#0;", "&#x1F600;", "&#150;") + words[at]
		s = strings.Join(words, " ")
	}
	return s
}

// element returns a piece of a page with a text in it.
func (g *generator) element(text string) string {
	words := strings.SplitN(text, " ", 4)
	middle, rest := "", text
	if len(words) == 4 {
		middle, rest = words[1], words[0]+" "+words[2]+" "+words[3]
	}
	switch g.r.IntN(34) {
	case 0, 1, 2, 3:
		return "<p>" + text + g.one("</p>", "</p>", "", "<br>")
	case 4, 5:
		return "<div>" + text + "</div>"
	case 6:
		return text + g.one("<br>", "<br/>", "<BR>", "<br />\n")
	case 7:
		return "<table width=100%><tr><td>" + words[0] + "</td><td>" + rest + "</td></tr></table>"
	case 8:
		return "<ul><li>" + rest + "<li>" + middle + "</ul>"
	case 9:
		return "<h1>" + words[0] + "</h1>" + rest
	case 10:
		return rest + " <b>" + middle + "</b><i>" + words[0] + "</i>" + g.one("", "!", " ")
	case 11:
		return "<p>" + rest[:len(words[0])] + "<b>" + middle + "</b>" + rest[len(words[0]):] + "</p>"
	case 12:
		return "<a href=\"" + g.one("http://www.example.com/x?a=1&amp;b=2", "https://shop.example.org/",
			"mailto:bob@example.com", "#top", "http://192.0.2.1/", "//cdn.example.net/y") + "\">" + text + "</a>"
	case 13:
		return "<a href='http://track.example.com/?u=http://www.example.org/'>http://www.example.org/</a> " + text
	case 14:
		return "<img src=\"http://img.example.com/a.png\" alt=\"" + strings.ReplaceAll(text, "\"", "") +
			"\" width=600 height=400>"
	case 15:
		return "<img src=cid:1@example.com" + g.one(" alt=logo", "", " width=1 height=1", " alt=\"\"") + ">" + text
	case 16:
		return "<span style=\"color:#ffffff\">" + middle + " hidden</span> " + rest
	case 17:
		return "<font color=white>" + rest + "</font>" + middle
	case 18:
		return "<div style=\"" + g.one("display:none", "display: none !important; max-height: 0", "visibility:hidden",
			"font-size:0", "font-size:0px", "font-size:1px", "opacity:0", "mso-hide:all", "color:#fefefe",
			"color: rgb(255,255,255)", "height:0;overflow:hidden", "position:absolute;left:-9999px") + "\">" + text + "</div>"
	case 19:
		return "<font size=" + g.one("0", "1", "-5", "7", "\"1px\"") + " color=\"" +
			g.one("#fffffe", "gray", "#eee", "#000000", "red") + "\">" + text + "</font>"
	case 20:
		return "<!-- " + middle + " -->" + rest
	case 21:
		return "<!--[if mso]><p>" + middle + "</p><![endif]-->" + rest + "<!-- > -->"
	case 22:
		return "<style>td { font: 12px }</style>" + text
	case 23:
		return "<blockquote>" + text + "</blockquote>"
	case 24:
		return "<pre>" + wrap(text, 30, "\n   ") + "</pre>"
	case 25:
		return "<p hidden>" + middle + "</p><p " +
			g.one("class=x", "id='a b'", "title=\"a > b\"", "style=color:red", "align=center onclick='x(\"y\")'") + ">" + rest
	case 26:
		return "<form action=\"http://form.example.com/\"><input type=text value=\"" + words[0] + "\"><button>" + rest +
			"</button><select><option>" + words[0] + "<option selected>b</select></form>"
	case 27:
		return "<center><font face=Arial>" + text + "</center></font>"
	case 28:
		return "<" + g.one("o:p", "x", "p/", "b ", "a", "/div", "1", " p", "") + ">" + text
	case 29:
		if len(words[0]) > 2 && words[0][0] < 128 && words[0][1] < 128 {
			return words[0][:1] + g.one("<b></b>", "<!-- x -->", "<span></span>", "&#8203;", "<wbr>", "&shy;", "<x>") +
				words[0][1:] + " " + rest
		}
		return "<b>" + text
	case 30:
		return "<table><tr bgcolor=#ffffff><td style=\"color:#fff;background-color:#000\">" + text +
			"</td></tr><tr><td bgcolor=white><font color=#ffffff>" + middle + "</font></table>"
	case 31:
		return "<noscript>" + middle + "</noscript><textarea>" + words[0] + "</textarea><title>" + middle + "</title>" + rest
	case 32:
		return "<div style=\"background:url(http://img.example.com/b.png);color:#333\"><span " +
			"style='font-size:12pt;color:#123456'>" + text + "</span></div>"
	}
	return text
}
