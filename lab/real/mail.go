package real

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html"
	"math/rand/v2"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/netip"
	"net/textproto"
	"strings"
	"time"
)

// begin is the date of the first delivery of a plan in the messages' headers. The nodes' clocks
// run from today; no rule reads a date.
var begin = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// A format is how a sender's program writes mail. It is the same for all copies of a campaign.
type format struct {
	html        bool // has a part in HTML
	plain       bool // has a part in plain text
	base64      bool // of text parts; otherwise quoted-printable
	style       string
	agent       string
	banner      string
	columns     bool
	unsubscribe bool
}

func newFormat(r *rand.Rand, page float64) format {
	f := format{html: chance(r, page), base64: chance(r, 0.2), columns: chance(r, 0.4)}
	f.plain = !f.html || chance(r, 0.6)
	f.style = fmt.Sprintf("font-family:%s;font-size:%dpx;color:#%06x;padding:%dpx",
		pick(r, []string{"Arial", "Georgia", "Verdana", "Tahoma", "Helvetica"}), 11+r.IntN(7), r.IntN(1<<24), r.IntN(40))
	f.banner = fmt.Sprintf("#%06x", r.IntN(1<<24))
	f.agent = fmt.Sprintf("%s %d.%d", title(coin(r, 2)), 1+r.IntN(20), r.IntN(10))
	return f
}

// A link is an address in a text, and the words that carry it.
type link struct{ url, words string }

// A draft is a message before it is written.
type draft struct {
	format
	fromName, from string
	to             string
	subject        string
	text           string
	links          []link // after the text
	picture        []byte // PNG
	sender         string // of the envelope
	client         netip.Addr
	helo           string
	dkim           []string
	spf            bool
	messageID      string
	extra          []string // header fields, each "Name: value"
	at             time.Duration
	asText         bool // write no HTML, whatever the format says
	form           *form
	genuine        bool
}

// mail writes the message, and signs it for each domain.
func (d *draft) mail(r *rand.Rand) Mail {
	plain := d.text
	for _, l := range d.links {
		plain += "\n\n" + l.words + ": " + l.url
	}
	var body bytes.Buffer
	fields := ""
	if d.form != nil {
		w := writer{draft: d, r: r, seen: plain}
		e := d.form.write(&w)
		fields, plain = e.fields, w.seen
		body.WriteString(e.body)
	} else {
		contentType, encoding := d.write(&body, r, plain)
		fields = "Content-Type: " + contentType + "\r\n"
		if encoding != "" {
			fields += "Content-Transfer-Encoding: " + encoding + "\r\n"
		}
	}
	var head bytes.Buffer
	date := begin.Add(d.at).Format(time.RFC1123Z)
	from := d.from
	if d.fromName != "" {
		from = mime.QEncoding.Encode("utf-8", d.fromName) + " <" + d.from + ">"
	}
	field := func(name, value string) { fmt.Fprintf(&head, "%s: %s\r\n", name, value) }
	field("From", from)
	field("To", d.to)
	field("Subject", mime.QEncoding.Encode("utf-8", d.subject))
	field("Date", date)
	field("Message-ID", "<"+d.messageID+">")
	field("MIME-Version", "1.0")
	if d.agent != "" {
		field("X-Mailer", d.agent)
	}
	for _, line := range d.extra {
		head.WriteString(line + "\r\n")
	}
	head.WriteString(fields + "\r\n")
	raw := append(head.Bytes(), body.Bytes()...)
	for _, domain := range d.dkim {
		raw = sign(raw, domain)
	}
	m := Mail{
		Raw: raw, Client: d.client, Helo: d.helo, Sender: d.sender, Recipient: d.to, DKIM: d.dkim,
		From: from, Subject: d.subject, Date: date, Text: plain, MessageID: d.messageID,
	}
	if _, domain, ok := strings.Cut(d.sender, "@"); ok && d.spf {
		m.SPF = domain
	}
	return m
}

// write writes the body, and returns the type and encoding for the header.
func (d *draft) write(w *bytes.Buffer, r *rand.Rand, plain string) (contentType, encoding string) {
	page := d.html && !d.asText
	if !page && d.picture == nil {
		return "text/plain; charset=utf-8", d.encode(w, plain)
	}
	if page && !d.plain && d.picture == nil {
		return "text/html; charset=utf-8", d.encode(w, d.page())
	}
	kind := "alternative"
	if d.picture != nil {
		kind = "related"
	}
	parts := multipart.NewWriter(w)
	_ = parts.SetBoundary(fmt.Sprintf("b%016x", r.Uint64()))
	add := func(contentType, text string) {
		var part bytes.Buffer
		encoding := d.encode(&part, text)
		out, _ := parts.CreatePart(textproto.MIMEHeader{"Content-Type": {contentType},
			"Content-Transfer-Encoding": {encoding}})
		out.Write(part.Bytes())
	}
	if !page || d.plain && d.picture == nil {
		add("text/plain; charset=utf-8", plain)
	}
	if page {
		add("text/html; charset=utf-8", d.page())
	}
	if d.picture != nil {
		out, _ := parts.CreatePart(textproto.MIMEHeader{
			"Content-Type": {"image/png"}, "Content-Transfer-Encoding": {"base64"}, "Content-ID": {"<p1>"},
			"Content-Disposition": {"inline; filename=\"p1.png\""},
		})
		out.Write(wrap(base64.StdEncoding.EncodeToString(d.picture)))
	}
	parts.Close()
	return fmt.Sprintf("multipart/%s; boundary=%q", kind, parts.Boundary()), ""
}

func (d *draft) encode(w *bytes.Buffer, text string) string {
	text = strings.ReplaceAll(text, "\n", "\r\n") + "\r\n"
	if d.base64 {
		w.Write(wrap(base64.StdEncoding.EncodeToString([]byte(text))))
		return "base64"
	}
	q := quotedprintable.NewWriter(w)
	_, _ = q.Write([]byte(text))
	q.Close()
	return "quoted-printable"
}

// page writes the text as HTML in the layout of the format.
func (d *draft) page() string { return d.shownPage(html.EscapeString) }

// shownPage writes the text as HTML in the layout of the format, each paragraph as show returns it.
func (d *draft) shownPage(show func(text string) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<html><body style=\"margin:0\"><div style=\"background:%s;height:12px\"></div>\n", d.banner)
	open, end := "<p style=\""+d.style+"\">", "</p>\n"
	if d.columns {
		b.WriteString("<table width=\"600\" cellpadding=\"4\">\n")
		open, end = "<tr><td style=\""+d.style+"\">", "</td></tr>\n"
	}
	for part := range strings.SplitSeq(d.text, "\n\n") {
		b.WriteString(open + strings.ReplaceAll(show(part), "\n", "<br>\n") + end)
	}
	if d.picture != nil {
		b.WriteString(open + "<img src=\"cid:p1\">" + end)
	}
	for _, l := range d.links {
		fmt.Fprintf(&b, "%s<a href=\"%s\">%s</a>%s", open, html.EscapeString(l.url), html.EscapeString(l.words), end)
	}
	if d.columns {
		b.WriteString("</table>\n")
	}
	b.WriteString("</body></html>")
	return b.String()
}

// wrap breaks base64 into lines.
func wrap(text string) []byte {
	var b bytes.Buffer
	for len(text) > 76 {
		b.WriteString(text[:76] + "\r\n")
		text = text[76:]
	}
	b.WriteString(text + "\r\n")
	return b.Bytes()
}
