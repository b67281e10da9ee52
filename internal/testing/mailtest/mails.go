package mailtest

import (
	"bytes"
	"fmt"
	"strings"
)

// Letter is a text of a mail that passes every floor.
const Letter = `The harbour committee met on Tuesday and agreed to repaint the old lighthouse
before the autumn storms arrive. Volunteers should bring brushes, ladders and
warm clothing. Soup will be served at noon in the boathouse, and whoever stays
until evening may climb the tower to watch the ferries pass the breakwater.
`

// Composed returns a mail of one part.
func Composed(contentType, encoding, body string) []byte {
	return []byte("From: Ann <ann@example.com>\nTo: Bob Miller <bob@example.org>\nSubject: test\nMIME-Version: 1.0\n" +
		"Content-Type: " + contentType + "\nContent-Transfer-Encoding: " + encoding + "\n\n" + body)
}

// Plain returns a mail of plain text.
func Plain(body string) []byte { return Composed("text/plain; charset=utf-8", "8bit", body) }

// Page returns a mail of HTML.
func Page(body string) []byte {
	return Composed("text/html; charset=utf-8", "8bit", "<html><head><title>t</title></head><body>"+body+"</body></html>")
}

// Disclaimer is what stands below the mail of many a company.
const Disclaimer = `This e-mail and any attachments are confidential and intended solely for the
addressee. If you are not the intended recipient, please notify the sender and
delete this message; any disclosure, distribution or copying is prohibited.
`

// Seeds are mails written for the fuzzers: every kind of structure, whole and
// damaged.
func Seeds() [][]byte {
	html := `<html><head><style>p{}</style></head><body><p style="display:none">x</p><blockquote>q</blockquote><p>` +
		Letter + `</p><!-- c --><br></body></html>`
	all := [][]byte{
		Plain(Letter), Page(Letter), []byte(html), Plain(Disclaimer), Plain("> " + Letter), []byte("\n"),
		[]byte("From x\n"), []byte("A: b\r\rc"),
		Composed("text/plain; charset=iso-2022-jp", "7bit", "\x1b$B$3\x1b(B"),
		Composed("text/plain; charset=utf-16", "base64", "//5oAGkA"),
		Composed("text/html; charset=gb2312", "quoted-printable", "=C4=E3=BA=C3=\n<p hidden>=zz"),
		Composed("multipart/alternative; boundary=b", "7bit",
			"--b\n\n"+Letter+"\n--b\nContent-Type: text/html\n\n"+html+"\n--b--\n"),
		Composed("multipart/mixed; boundary=\"b c\"", "7bit",
			"--b c\nContent-Type: message/rfc822\n\nSubject: y\n\nz\n--b c\nContent-Type: image/png\n"+
				"Content-Transfer-Encoding: base64\n\n!!!!\n"),
		Composed("multipart/mixed", "base64", "--zz\nContent-Type: multipart/digest; boundary=zz\n\n--zz\n\nA: b\n\n--zz--"),
		[]byte("From \x9c@b Sat\nReturn-Path: <\x9c@b>\nSender: \"\\\x9c\"@b\nList-Id: <\x9c>\nMessage-Id: <\x9c@b>\n" +
			"Date: \x9c\nContent-Type: x/\x9c; name=\"\x9c\"\n\n\x9c"),
		[]byte("Subject: =?utf-8?b?////?= =?x?q?a?=\nTo: \"a\\\" <b@c\nList-Id: <<>\n x\n\n" +
			"v.i.a.g.r.a V1@gr@ http://a@b://c www.x.com a@b.c ﷺ"),
	}
	for _, raw := range all[:len(all):len(all)] {
		all = append(all, bytes.ReplaceAll(raw, []byte("\n"), []byte("\r\n")), raw[:len(raw)/2])
	}
	return all
}

// Bombs are mails of a MiB made to break limits, by name.
func Bombs() map[string][]byte {
	nested := func(depth int) []byte {
		var b strings.Builder
		for i := range depth {
			fmt.Fprintf(&b, "Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n", i, i)
		}
		return []byte(b.String() + "\nbottom\n")
	}
	const size = 1 << 20
	return map[string][]byte{
		"nested multiparts": nested(20_000),
		"same boundary":     []byte(strings.Repeat("Content-Type: multipart/mixed; boundary=b\n\n--b\n", size/46)),
		"nested messages":   []byte(strings.Repeat("Content-Type: message/rfc822\n\n", size/30)),
		"many parts":        []byte("Content-Type: multipart/mixed; boundary=b\n\n" + strings.Repeat("--b\n\n", size/5)),
		"long header":       []byte("Subject: " + strings.Repeat("x", size) + "\n\nhi"),
		"many fields":       []byte(strings.Repeat("To: a@example.com\n", size/18) + "\nhi"),
		"many folds":        []byte("To: a\n" + strings.Repeat(" b\n", size/3) + "\nhi"),
		"no field at all":   []byte("A: b\n" + strings.Repeat("x\n y\n y\n y\nA: b\n", size/16)),
		"no line end":       bytes.Repeat([]byte("a"), size),
		"carriage returns":  bytes.Repeat([]byte("\r"), size),
		"boundary lines":    []byte("Content-Type: multipart/mixed\n\n" + strings.Repeat("--\n", size/3)),
		"encoded words":     []byte("Subject: " + strings.Repeat("=?utf-8?q?a?= ", size/14) + "\n\nhi"),
		"parameters":        []byte("Content-Type: text/plain" + strings.Repeat("; a=\"", size/5) + "\n\nhi"),
		"addresses":         []byte("From: " + strings.Repeat("(", size) + "\n\nhi"),
		"links":             []byte("A: b\n\n" + strings.Repeat("a://b<", size/6)),
		"one chunk of ats":  []byte("A: b\n\n" + strings.Repeat("a@b.", size/4)),
		"quotes":            []byte("A: b\n\n" + strings.Repeat("From:\nDate:\n", size/12)),
		"attributions":      []byte("A: b\n\n" + strings.Repeat("a:\n", size/3)),
		"greetings":         []byte("A: b\n\n" + strings.Repeat("dear ", size/5)),
		"open tags":         []byte("Content-Type: text/html\n\n" + strings.Repeat("<div style='display:none'><b>", size/29)),
		"attributes":        []byte("Content-Type: text/html\n\n<p" + strings.Repeat(" a=b", size/4)),
		"entities":          []byte("Content-Type: text/html\n\n" + strings.Repeat("&nbsp;&lt", size/9)),
		"blockquotes":       []byte("Content-Type: text/html\n\n" + strings.Repeat("<blockquote>a", size/13)),
		"combining marks":   []byte("A: b\n\na" + strings.Repeat("\u0301\u0323", size/4)),
		"decomposing":       []byte("Content-Type: text/plain; charset=utf-8\n\n" + strings.Repeat("\ufdfa", size/3)),
		"alternatives": []byte("Content-Type: multipart/alternative; boundary=b\n\n" +
			strings.Repeat("--b\nContent-Type: text/html\n\n"+strings.Repeat("<p>a b c d</p>", 300), 250)),
	}
}
