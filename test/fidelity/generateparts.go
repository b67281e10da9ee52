package fidelity

import (
	"encoding/base64"
	"fmt"
	"strings"
)

// maxDepth is the largest depth of nested parts.
const maxDepth = 5

// part returns the fields that describe a part, each with its line end, and the body.
func (g *generator) part(depth int) (fields, body string) {
	n := g.r.IntN(100)
	switch {
	case depth < maxDepth && n < 45-8*depth:
		return g.multipart(depth)
	case depth > 0 && n >= 96 && depth < maxDepth:
		return g.message(depth)
	case depth > 0 && n >= 84:
		return g.attachment()
	case n%2 == 0:
		return g.text("text/plain", g.plain())
	default:
		return g.text("text/html", g.page())
	}
}

// multipart returns a part that holds others.
func (g *generator) multipart(depth int) (fields, body string) {
	boundary := g.boundary()
	kind := g.one("mixed", "mixed", "alternative", "alternative", "alternative", "related", "digest", "report", "signed",
		"x-unknown", "Mixed")
	head := "Content-Type: multipart/" + kind +
		g.one("; boundary=\"", ";\n boundary=\"", ";\n\tboundary=\"", ";boundary=\"", "; charset=utf-8; boundary=\"") +
		boundary + "\"\n"
	switch g.r.IntN(30) {
	case 0:
		head = "Content-Type: multipart/" + kind + "; boundary=" + boundary + "\n"
	case 1:
		head = "Content-Type: multipart/" + kind + "\n"
	case 2:
		head = "content-type: MULTIPART/" + kind + "; BOUNDARY=\"" + boundary + "\"; type=\"text/html\"\n"
	case 3:
		head = "Content-Type: multipart/" + kind + "; boundary=\"" + boundary + "x\"\n"
	case 4:
		head += "Content-Transfer-Encoding: " + g.one("7bit", "base64", "quoted-printable", "8bit") + "\n"
	}
	var b strings.Builder
	if g.chance(50) {
		b.WriteString(g.one("This is a multi-part message in MIME format.\n", "\n",
			"Preamble with http://www.example.com/ in it.\n\n"))
	}
	lang, last := g.lang, g.last
	twin := kind == "alternative" && g.chance(60)
	parts := g.between(1, 3)
	if g.chance(4) {
		parts = 0
	}
	for i := range parts {
		b.WriteString("--" + boundary + g.one("", "", "", "", "", "", " ", "\t ") + "\n")
		var f, inner string
		switch {
		case twin && i == 0:
			f, inner = g.text("text/plain", g.plain())
		case twin && i == 1:
			f, inner = g.text("text/html", g.page())
		default:
			f, inner = g.part(depth + 1)
		}
		if g.chance(4) {
			f = ""
		}
		b.WriteString(f + g.one("\n", "\n", "\n", "\n", "\n", "\n", "\n", "\n", "\n", " \n") + inner)
		if !strings.HasSuffix(inner, "\n") || g.chance(60) {
			b.WriteString("\n")
		}
	}
	g.lang, g.last = lang, last
	if g.chance(90) {
		b.WriteString("--" + boundary + "--\n")
	}
	if g.chance(15) {
		b.WriteString(g.one("\n", "Epilogue.\n", "\n--\nlist footer http://lists.example.org/\n"))
	}
	return head, b.String()
}

// boundary returns a boundary; one in ten begins with the boundary of the enclosing part.
func (g *generator) boundary() string {
	b := fmt.Sprintf("%s%08x", g.one("----=_Part_", "=_", "b", "0000000000", "Apple-Mail=_", "(a.b)_", "x y ", "'q'"),
		g.r.Uint32())
	if g.last != "" && g.chance(10) {
		b = g.last + g.one("x", "-", "--", ".1")
	}
	g.last = b
	return b
}

// message returns an attached mail.
func (g *generator) message(depth int) (fields, body string) {
	head := g.header()
	f, inner := g.part(depth + 1)
	fields = "Content-Type: message/" + g.one("rfc822", "rfc822", "rfc822", "partial", "delivery-status", "global") + "\n"
	if g.chance(40) {
		fields += "Content-Disposition: " + g.one("attachment", "inline", "attachment; filename=x.eml") + "\n"
	}
	return fields, head + f + "\n" + inner
}

// attachment returns a part that is not text, or a text to be saved.
func (g *generator) attachment() (fields, body string) {
	if g.chance(25) {
		fields, body = g.text(g.one("text/plain", "text/html", "text/csv", "text/calendar", "text/x-patch",
			"message/delivery-status"), g.plain())
		return fields + "Content-Disposition: attachment; filename=\"" + g.one("a.txt", "b.html", "c.csv") + "\"\n", body
	}
	data := make([]byte, g.between(0, 6000))
	if g.chance(50) {
		for i := range data {
			data[i] = byte(g.r.Uint32())
		}
	} else {
		copy(data, strings.Repeat("%PDF-1.4 no real document ", 300))
	}
	kind := g.one("application/octet-stream", "application/pdf", "image/png", "image/gif", "image/jpeg", "audio/wav",
		"application/zip", "application/x-unknown", "video/mp4", "nonsense")
	fields = "Content-Type: " + kind + "; name=\"" + g.one("a.bin", "b.pdf", "c.png") +
		"\"\nContent-Transfer-Encoding: base64\n" +
		"Content-Disposition: " + g.one("attachment", "inline", "attachment; filename=a.bin") + "\n"
	if g.chance(30) {
		fields += "Content-ID: <1@example.com>\n"
	}
	return fields, wrapEvery(base64.StdEncoding.EncodeToString(data), 76)
}

// text returns a text part: text, which is UTF-8, in some charset and transfer encoding.
func (g *generator) text(kind, text string) (fields, body string) {
	charset := g.one("utf-8", "utf-8", "UTF-8", "\"utf-8\"")
	if c := g.charset(); c != "" && g.chance(50) {
		if coded, ok := encode(text, c); ok {
			charset, text = c, coded
		}
	}
	switch g.r.IntN(30) {
	case 0:
		charset = g.one("unknown-8bit", "x-nonsense", "utf8", "ascii", "cp1252", "utf-7", "default", "'iso-8859-1'", "")
	case 1:
		charset = g.one("iso-8859-1", "windows-1251", "gb2312", "us-ascii", "utf-8", "shift_jis") // whatever the text is in
	}
	fields = "Content-Type: " + kind + "; charset=" + charset +
		g.one("", "", "", "; format=flowed", "; format=flowed; delsp=yes", "; name=x") + "\n"
	switch g.r.IntN(24) {
	case 0:
		fields = ""
	case 1:
		fields = "Content-Type: " + kind + "\n"
	case 2:
		fields = "Content-type:" + strings.ToUpper(kind) + ";\n\tCHARSET=" + charset + "\n"
	case 3:
		fields += fields
	case 4:
		fields = "Content-Type: " + g.one("text", "text/", "plain", "text/x-unknown", "text/plain text/html", ";",
			"text/html;", "x/y/z") + "; charset=" + charset + "\n"
	}
	encoding, body := g.transfer(text)
	return fields + encoding, body
}

// transfer returns the field that names a transfer encoding, and text in it.
func (g *generator) transfer(text string) (field, body string) {
	switch g.r.IntN(9) {
	case 0, 1:
		body = wrapEvery(base64.StdEncoding.EncodeToString([]byte(text)), g.between(60, 76))
		return "Content-Transfer-Encoding: " + g.one("base64", "base64", "base64", "Base64", "BASE64", "base64 ") + "\n",
			g.breakBase64(body)
	case 2, 3, 4:
		return "Content-Transfer-Encoding: " + g.one("quoted-printable", "quoted-printable", "quoted-printable",
			"Quoted-Printable", "quoted-printable; x=y") + "\n", g.breakQuoted(quoted(text))
	case 5:
		return "Content-Transfer-Encoding: " + g.one("8bit", "7bit", "binary", "8BIT", "unknown", "x-uuencode",
			"\"8bit\"") + "\n", text
	}
	return "", text
}

func wrapEvery(text string, width int) string {
	var b strings.Builder
	for len(text) > width {
		b.WriteString(text[:width] + "\n")
		text = text[width:]
	}
	return b.String() + text + "\n"
}

// breakBase64 damages base64, now and then.
func (g *generator) breakBase64(body string) string {
	at := g.r.IntN(len(body))
	switch g.r.IntN(20) {
	case 0:
		return strings.TrimRight(body, "=\n") + "\n"
	case 1:
		return body[:at] + g.one("!", "*", " ", "\n\n", "=", "==", "-", "\xe9", "\n--\n") + body[at:]
	case 2:
		return body + "This line was appended by a list.\n"
	case 3:
		return body[:at]
	case 4:
		return body + body
	}
	return body
}

// quoted is quoted-printable.
func quoted(text string) string {
	var b strings.Builder
	column := 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		piece := string([]byte{c})
		switch {
		case c == '\n':
			b.WriteByte(c)
			column = 0
			continue
		case c < ' ' || c >= 0x7f || c == '=' || c == ' ' && (i+1 == len(text) || text[i+1] == '\n'):
			piece = fmt.Sprintf("=%02X", c)
		}
		if column+len(piece) > 75 {
			b.WriteString("=\n")
			column = 0
		}
		b.WriteString(piece)
		column += len(piece)
	}
	return b.String()
}

// breakQuoted damages quoted-printable, now and then.
func (g *generator) breakQuoted(body string) string {
	if body == "" {
		return body
	}
	at := g.r.IntN(len(body))
	switch g.r.IntN(20) {
	case 0:
		return body[:at] + g.one("=", "=Z", "=4", "= \n", "=\t\n", "=\r\n", "==", "=3d=3D", "=0A", "=0D=0A", "=00",
			"\xe9") + body[at:]
	case 1:
		return strings.ToLower(body)
	case 2:
		return strings.ReplaceAll(body, "=\n", "= \n")
	case 3:
		return body[:at]
	case 4:
		return body + "="
	}
	return body
}
