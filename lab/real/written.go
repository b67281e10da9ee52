package real

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"html"
	"image"
	"image/draw"
	"image/png"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode/utf16"

	"rsc.io/qr"
)

// A writer writes one draft in a form.
type writer struct {
	*draft
	r *rand.Rand
	// seen is what a reader sees of the text, for forwards; the text of the draft at first.
	seen string
}

// An entity is a part of a message, or its body: fields with the lines' ends, and what follows.
type entity struct{ fields, body string }

// part returns an entity whose content is encoded in base64.
func part(contentType string, content []byte) entity {
	return entity{"Content-Type: " + contentType + "\r\nContent-Transfer-Encoding: base64\r\n",
		string(wrap(base64.StdEncoding.EncodeToString(content)))}
}

// attached returns a file.
func attached(contentType, name string, content []byte) entity {
	e := part(contentType, content)
	e.fields += fmt.Sprintf("Content-Disposition: attachment; filename=%q\r\n", name)
	return e
}

// raw returns an entity that is not encoded.
func raw(contentType, text string) entity {
	return entity{"Content-Type: " + contentType + "\r\nContent-Transfer-Encoding: 8bit\r\n",
		strings.ReplaceAll(text, "\n", "\r\n") + "\r\n"}
}

func (w *writer) multipart(kind string, parts ...entity) entity {
	boundary := fmt.Sprintf("b%016x", w.r.Uint64())
	var b strings.Builder
	for _, p := range parts {
		b.WriteString("--" + boundary + "\r\n" + p.fields + "\r\n" + p.body + "\r\n")
	}
	return entity{fmt.Sprintf("Content-Type: multipart/%s; boundary=%q\r\n", kind, boundary),
		b.String() + "--" + boundary + "--\r\n"}
}

func (w *writer) mixed(parts ...entity) entity { return w.multipart("mixed", parts...) }

// cover returns a short note that no other mail has, to be read in place of what is attached.
func (w *writer) cover() entity {
	w.seen = w.coined(6)
	return raw("text/plain; charset=utf-8", w.seen)
}

// coined returns n words that no other mail has.
func (w *writer) coined(n int) string {
	words := make([]string, n)
	for i := range words {
		words[i] = coin(w.r, 2)
	}
	return strings.Join(words, " ")
}

// whole returns the text with its links.
func (w *writer) whole() string {
	text := w.text
	for _, l := range w.links {
		text += "\n\n" + l.words + ": " + l.url
	}
	return text
}

func (w *writer) plain() entity { return w.texted(w.text) }

// texted returns plain text with the draft's links.
func (w *writer) texted(text string) entity {
	w.text = text
	w.seen = w.whole()
	return raw("text/plain; charset=utf-8", w.seen)
}

// paged returns a page whose text is written by show.
func (w *writer) paged(show func(text string) string) entity {
	return raw("text/html; charset=utf-8", w.shownPage(show))
}

// share returns the first number for spam, and the second one for genuine mail.
func (w *writer) share(spam, genuine float64) float64 {
	if w.genuine {
		return genuine
	}
	return spam
}

// letters changes a share of the letters of the text.
func (w *writer) letters(text string, share float64, change func(c rune) string) string {
	var b strings.Builder
	for _, c := range text {
		if c > ' ' && chance(w.r, share) {
			b.WriteString(change(c))
		} else {
			b.WriteRune(c)
		}
	}
	return b.String()
}

// words changes a share of the longer words of a text.
func (w *writer) words(text string, share float64, change func(word string) string) string {
	return word.ReplaceAllStringFunc(text, func(word string) string {
		if chance(w.r, share) {
			return change(word)
		}
		return word
	})
}

// blanks replaces a share of the spaces of the text.
func (w *writer) blanks(share float64, blank func() string) string {
	return w.blanksOf(w.text, share, blank)
}

func (w *writer) blanksOf(text string, share float64, blank func() string) string {
	var b strings.Builder
	for _, c := range text {
		if c == ' ' && chance(w.r, share) {
			b.WriteString(blank())
		} else {
			b.WriteRune(c)
		}
	}
	return b.String()
}

func reversed(word string) string {
	letters := []rune(word)
	slices.Reverse(letters)
	return string(letters)
}

// alike has letters of other scripts that look like Latin ones, and digits what stands for letters within words.
var (
	alike = map[rune]string{'a': "аα", 'c': "сϲ", 'e': "еҽ", 'i': "іι", 'j': "ј", 'o': "оοօ", 'p': "рρ", 's': "ѕ",
		'x': "х",
		'y': "уү", 'h': "һ", 'n': "ո", 'u': "υս", 'v': "ν", 'k': "κ", 't': "τ", 'A': "АΑ", 'B': "ВΒ", 'C': "С", 'E': "ЕΕ",
		'H': "НΗ", 'I': "ІΙ", 'K': "КΚ", 'M': "МΜ", 'N': "Ν", 'O': "ОΟ", 'P': "РΡ", 'S': "Ѕ", 'T': "ТΤ", 'X': "ХΧ", 'Y': "Υ"}
	digits = map[rune]string{'a': "4@", 'e': "3", 'i': "1!", 'o': "0", 's': "5$", 't': "7", 'l': "1"}
)

// looksLike replaces a share of the letters.
func (w *writer) looksLike(table map[rune]string, share float64) string {
	return w.letters(w.text, share, func(c rune) string {
		if other := []rune(table[c]); len(other) > 0 {
			return string(pick(w.r, other))
		}
		return string(c)
	})
}

// cyrillic writes a text in Cyrillic letters, as genuine mail does.
func cyrillic(text string) string {
	const from, to = "abcdefghijklmnopqrstuvwxyz", "абцдефгхийклмнопярстувжщыз"
	letters := []rune(to)
	return strings.Map(func(c rune) rune {
		if i := strings.IndexRune(from, c); i >= 0 {
			return letters[i]
		}
		return c
	}, strings.ToLower(text))
}

// bare returns the text as a page without a layout, for a browser.
func (w *writer) bare() string {
	return "<html><head><title>" + w.coined(2) + "</title></head><body><p>" +
		strings.ReplaceAll(html.EscapeString(w.whole()), "\n\n", "</p>\n<p>") + "</p></body></html>"
}

// hrefs returns the targets of the links.
func (w *writer) hrefs() []string {
	var urls []string
	for _, l := range w.links {
		urls = append(urls, l.url)
	}
	return urls
}

// invitation returns an entry of a calendar.
func (w *writer) invitation() string {
	escape := strings.NewReplacer("\n", `\n`, ",", `\,`, ";", `\;`, `\`, `\\`)
	line := "DESCRIPTION:" + escape.Replace(w.whole())
	var folded strings.Builder
	for n := 40 + w.r.IntN(30); len(line) > n; line = line[n:] {
		folded.WriteString(line[:n] + "\r\n ")
	}
	return fmt.Sprintf("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//%s//EN\r\nMETHOD:REQUEST\r\nBEGIN:VEVENT\r\n"+
		"UID:%s\r\nDTSTAMP:202603%02dT%02d0000Z\r\nDTSTART:202604%02dT100000Z\r\nSUMMARY:%s\r\n%s\r\n"+
		"END:VEVENT\r\nEND:VCALENDAR\r\n", w.agent, token(w.r), 1+w.r.IntN(28), w.r.IntN(24), 1+w.r.IntN(28), w.subject,
		folded.String()+line)
}

// quoted writes a text in quoted-printable with a share of its characters encoded, and lines that end anywhere.
func (w *writer) quoted(text string, share float64) string {
	var b strings.Builder
	column := 0
	for _, c := range []byte(strings.ReplaceAll(text, "\n", "\r\n")) {
		piece := string(c)
		switch {
		case c == '\r' || c == '\n':
			column = -1
		case c == '=' || c >= 0x7f || chance(w.r, share):
			piece = fmt.Sprintf(pick(w.r, []string{"=%02X", "=%02x"}), c)
		}
		if column > 20 && (column > 70 || chance(w.r, share/5)) {
			b.WriteString("=" + strings.Repeat(" ", w.r.IntN(2)) + "\r\n")
			column = 0
		}
		b.WriteString(piece)
		column += len(piece)
	}
	return b.String() + "\r\n"
}

// flowed writes a text with lines that flow, and spaces at their ends that count for nothing.
//
// Source: RFC 3676.
func (w *writer) flowed(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		for letters := []rune(line); ; {
			n := 30 + w.r.IntN(40)
			if len(letters) <= n {
				b.WriteString(string(letters) + "\n")
				break
			}
			b.WriteString(string(letters[:n]) + " \n")
			letters = letters[n:]
		}
	}
	return b.String()
}

// inCharset returns a text in one of several charsets.
func (w *writer) inCharset(text string) entity {
	units := utf16.Encode([]rune(text))
	var b []byte
	switch w.r.IntN(4) {
	case 0:
		for _, u := range append([]uint16{0xfeff}, units...) {
			b = binary.LittleEndian.AppendUint16(b, u)
		}
		return part("text/plain; charset=utf-16", b)
	case 1:
		for _, u := range units {
			b = binary.BigEndian.AppendUint16(b, u)
		}
		return part("text/plain; charset=utf-16be", b)
	case 2:
		for _, c := range text {
			if c < 0x7f && c != '+' {
				b = append(b, byte(c))
				continue
			}
			var wide []byte
			for _, u := range utf16.Encode([]rune{c}) {
				wide = binary.BigEndian.AppendUint16(wide, u)
			}
			b = fmt.Appendf(b, "+%s-", base64.RawStdEncoding.EncodeToString(wide))
		}
		return part("text/plain; charset=utf-7", b)
	}
	for _, c := range text {
		if c > 0xff {
			c = '?'
		}
		b = append(b, byte(c))
	}
	return part("text/plain; charset="+pick(w.r, []string{"iso-8859-1", "latin1", "windows-1252", "cp1252"}), b)
}

// hidden returns an element that shows nothing of a text.
func (w *writer) hidden(text string) string {
	style := pick(w.r, []string{"display:none", "font-size:0", "visibility:hidden", "opacity:0",
		"max-height:0;overflow:hidden", "position:absolute;left:-9999px",
		"text-indent:-9999px;display:block;height:0;overflow:hidden", "mso-hide:all;display:none"})
	if !w.genuine && chance(w.r, 0.3) {
		return "<span class=\"x7\">" + text + "</span>"
	}
	return "<span style=\"" + style + "\">" + text + "</span>"
}

// pictured returns a page that shows pictures of the text one below the other.
func (w *writer) pictured(pictures ...image.Image) entity {
	page := "<html><body style=\"margin:0\">"
	parts := []entity{{}}
	for i, p := range pictures {
		var out bytes.Buffer
		if err := png.Encode(&out, p); err != nil {
			panic(err) // into memory
		}
		e := part("image/png", out.Bytes())
		e.fields += fmt.Sprintf("Content-ID: <p%d>\r\nContent-Disposition: inline; filename=\"%s.png\"\r\n", i, token(w.r))
		parts = append(parts, e)
		page += fmt.Sprintf("<img src=\"cid:p%d\" style=\"display:block\">", i)
	}
	for _, l := range w.links {
		page += fmt.Sprintf("<p><a href=\"%s\">%s</a></p>", html.EscapeString(l.url), html.EscapeString(l.words))
	}
	w.seen = w.cover().body
	parts[0] = raw("text/html; charset=utf-8", page+"<p>"+strings.TrimSpace(w.seen)+"</p></body></html>")
	return w.multipart("related", parts...)
}

// drawn returns a picture of the text, which looks alike in all copies of a campaign.
func (w *writer) drawn() image.Image {
	look := uint64(0)
	for _, c := range w.fromName {
		look = 31*look + uint64(c)
	}
	img, err := png.Decode(bytes.NewReader(drawText(w.r, w.text, look)))
	if err != nil {
		panic(err) // from memory
	}
	return img
}

// sliced cuts a picture into strips.
func sliced(img image.Image, n int) (strips []image.Image) {
	b := img.Bounds()
	for i := range n {
		r := image.Rect(0, 0, b.Dx(), b.Dy()*(i+1)/n-b.Dy()*i/n)
		strip := image.NewRGBA(r)
		draw.Draw(strip, r, img, image.Pt(b.Min.X, b.Min.Y+b.Dy()*i/n), draw.Src)
		strips = append(strips, strip)
	}
	return strips
}

// code returns a QR code that leads to a page of one domain, another one in each copy.
func (w *writer) code() image.Image {
	c, err := qr.Encode("https://"+strings.ReplaceAll(strings.ToLower(w.fromName), " ", "-")+".top/"+token(w.r), qr.M)
	if err != nil {
		panic(err) // of a short address
	}
	c.Scale = 4 + w.r.IntN(3)
	img, err := png.Decode(bytes.NewReader(c.PNG())) // Image knows no scale
	if err != nil {
		panic(err) // from memory
	}
	return img
}
