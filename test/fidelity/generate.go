package fidelity

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"mime"
	"strings"

	"golang.org/x/text/encoding/htmlindex"
)

// Mail returns mail n of a seed. Two programs are likely to parse such mail differently. The same
// arguments give the same bytes.
func Mail(seed, n uint64) []byte {
	g := &generator{r: rand.New(rand.NewPCG(seed, n))}
	g.lang = &languages[0]
	if g.chance(60) {
		g.lang = &languages[g.r.IntN(len(languages))]
	}
	head := g.header()
	kind, body := g.part(0)
	raw := head + kind + "\n" + body
	return []byte(g.damage(raw))
}

// A generator makes one mail.
type generator struct {
	r    *rand.Rand
	lang *language
	last string // boundary that was made before
}

// chance is true in percent of all cases.
func (g *generator) chance(percent int) bool { return g.r.IntN(100) < percent }

// one returns one of its arguments.
func (g *generator) one(of ...string) string { return of[g.r.IntN(len(of))] }

// between returns a number of low to high.
func (g *generator) between(low, high int) int { return low + g.r.IntN(high-low+1) }

// header returns the fields of a mail that do not describe its form.
func (g *generator) header() string {
	var b strings.Builder
	if g.chance(4) {
		b.WriteString("From ann@example.com Mon Mar  2 09:15:00 2026\n")
	}
	b.WriteString(
		"Received: from mx.example.com (mx.example.com [192.0.2.7])\n\tby mail.example.org; Mon, 02 Mar 2026 09:15:00 " +
			"+0000\n")
	name := g.words(2)
	switch g.r.IntN(4) {
	case 0:
		name = mime.BEncoding.Encode("utf-8", name)
	case 1:
		name = mime.QEncoding.Encode("utf-8", name)
	case 2:
		name = "Ann Example"
	}
	fmt.Fprintf(&b, "From: %s <ann@example.com>\nTo: bob@example.org\nDate: Mon, 02 Mar 2026 09:15:00 +0000\n", name)
	if g.chance(95) {
		b.WriteString("Message-ID: <" + fmt.Sprint(g.r.Uint32()) + "@example.com>\n")
	}
	if g.chance(92) {
		b.WriteString("Subject: " + g.subject() + "\n")
	}
	if g.chance(80) {
		b.WriteString("MIME-Version: 1.0\n")
	}
	if g.chance(3) {
		b.WriteString("this line is no field\n")
	}
	return b.String()
}

func (g *generator) subject() string {
	text := g.words(g.between(1, 9))
	switch g.r.IntN(6) {
	case 0:
		return mime.BEncoding.Encode("UTF-8", text)
	case 1:
		return mime.QEncoding.Encode("utf-8", text)
	case 2:
		if charset := g.charset(); charset != "" {
			if coded, ok := encode(text, charset); ok {
				return g.one(coded, "=?"+charset+"?B?"+base64.StdEncoding.EncodeToString([]byte(coded))+"?=")
			}
		}
	case 3:
		return strings.ReplaceAll(text, " ", "\n ")
	case 4:
		return languages[0].sentences[g.r.IntN(3)][:g.between(5, 40)]
	}
	return text
}

// words returns n words of the mail's language.
func (g *generator) words(n int) string {
	var all []string
	for len(all) < n {
		all = append(all, strings.Fields(g.sentence())...)
	}
	return strings.Join(all[:n], " ")
}

func (g *generator) sentence() string { return g.lang.sentences[g.r.IntN(len(g.lang.sentences))] }

// charset returns a charset that the language is sent in, or "".
func (g *generator) charset() string {
	if len(g.lang.charsets) == 0 {
		return ""
	}
	return g.lang.charsets[g.r.IntN(len(g.lang.charsets))]
}

// encode returns text in a charset; characters that the charset lacks become question marks. It
// reports false for a charset that is unknown here.
func encode(text, charset string) (string, bool) {
	e, err := htmlindex.Get(charset)
	if err != nil {
		return "", false
	}
	enc := e.NewEncoder()
	var b strings.Builder
	for _, line := range strings.SplitAfter(text, "\n") {
		coded, err := enc.String(line)
		if err != nil {
			enc.Reset()
			coded = ""
			for _, r := range line {
				one, err := e.NewEncoder().String(string(r))
				if err != nil {
					one = "?"
				}
				coded += one
			}
		}
		b.WriteString(coded)
	}
	return b.String(), true
}

// sentences returns between low and high sentences, some with scraps among them, some of
// another language.
func (g *generator) sentences(low, high int) []string {
	scrappy, mixed := g.chance(40), g.chance(8)
	var all []string
	for range g.between(low, high) {
		s := g.sentence()
		if mixed && g.chance(30) {
			l := &languages[g.r.IntN(len(languages))]
			s = l.sentences[g.r.IntN(len(l.sentences))]
		}
		if g.chance(15) {
			s = fmt.Sprintf("%s (%d)", s, g.r.IntN(100000))
		}
		for scrappy && g.chance(40) {
			words := strings.Split(s, " ")
			at := g.r.IntN(len(words) + 1)
			s = strings.Join(append(append(append([]string(nil), words[:at]...), scraps[g.r.IntN(len(scraps))]), words[at:]...),
				" ")
		}
		all = append(all, s)
	}
	return all
}

// length returns the number of sentences of a text: mostly few, now and then hundreds.
func (g *generator) length() (low, high int) {
	switch g.r.IntN(20) {
	case 0:
		return 0, 0
	case 1:
		return 1, 1
	case 2, 3:
		return 30, 60
	case 4:
		return 60, 200
	}
	return 2, 14
}

// plain returns plain text in UTF-8.
func (g *generator) plain() string {
	all := g.sentences(g.length())
	var b strings.Builder
	style := g.r.IntN(8)
	for i, s := range all {
		switch style {
		case 0: // one line
			b.WriteString(s + " ")
		case 1: // flowed
			b.WriteString(wrap(s, 60, " \n") + "\n")
		case 2: // quoted
			b.WriteString("> " + wrap(s, 60, "\n> ") + "\n")
		case 3:
			b.WriteString(strings.Repeat(" ", g.r.IntN(5)) + s + strings.Repeat(g.one(" ", "\t", "\u00a0"), g.r.IntN(3)) +
				strings.Repeat("\n", g.between(1, 3)))
		default:
			b.WriteString(wrap(s, g.between(40, 90), "\n") + "\n")
			if i%4 == 3 {
				b.WriteString("\n")
			}
		}
	}
	if g.chance(12) {
		b.WriteString("-- \nAnn Example\nhttp://www.example.com/\n")
	}
	if g.chance(10) {
		b.WriteString("\n\n\n")
	}
	return b.String()
}

// wrap puts end for a blank where a line would grow longer than width bytes.
func wrap(text string, width int, end string) string {
	var b strings.Builder
	column := 0
	for i, w := range strings.Split(text, " ") {
		switch {
		case i == 0:
		case column+len(w) > width:
			b.WriteString(end)
			column = 0
		default:
			b.WriteString(" ")
		}
		b.WriteString(w)
		column += len(w) + 1
	}
	return b.String()
}

// damage breaks a mail in one way, now and then.
func (g *generator) damage(raw string) string {
	switch g.r.IntN(24) {
	case 0:
		raw = strings.ReplaceAll(raw, "\n", "\r\n")
	case 1:
		raw = strings.ReplaceAll(raw, "\n", "\r")
		if g.chance(80) { // more than a trifle reads a lone CR as a line end
			raw = strings.ReplaceAll(raw, "\r", "\r\n")
		}
	case 2:
		lines := strings.SplitAfter(raw, "\n")
		for i := range lines {
			if g.chance(30) {
				lines[i] = strings.Replace(lines[i], "\n", "\r\n", 1)
			}
		}
		raw = strings.Join(lines, "")
	case 3:
		raw = raw[:len(raw)-g.r.IntN(len(raw)/2)]
	case 4:
		at := g.r.IntN(len(raw))
		raw = raw[:at] + g.one("\x00", "\xff\xfe", "\n\n", "\r", "\x1b$B", "=", "<", "&#x", "\n.\n", "\nFrom x\n") + raw[at:]
	case 5:
		at := g.r.IntN(len(raw))
		end := min(len(raw), at+g.between(1, 200))
		raw = raw[:at] + raw[end:]
	case 6:
		raw = strings.Replace(raw, "\n\n", "\n \n", 1)
	case 7:
		raw += "\n\ntrailing line after all\n"
	}
	return raw
}
