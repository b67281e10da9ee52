package real

import (
	"archive/zip"
	"bytes"
	"compress/zlib"
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

func zipped(files ...[2]string) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range files {
		out, _ := z.Create(f[0])
		_, _ = out.Write([]byte(f[1]))
	}
	z.Close()
	return b.Bytes()
}

// pdf returns a document with an identifier and gaps of its own.
func (w *writer) pdf() []byte {
	var text, stream bytes.Buffer
	escape := strings.NewReplacer("(", `\(`, ")", `\)`, `\`, `\\`)
	text.WriteString("BT /F1 11 Tf 72 760 Td 14 TL\n")
	for _, line := range fold(w.text, 80) {
		fmt.Fprintf(&text, "(%s) Tj T*\n", escape.Replace(line))
	}
	text.WriteString("ET\n")
	z := zlib.NewWriter(&stream)
	_, _ = z.Write(text.Bytes())
	z.Close()
	var b bytes.Buffer
	fmt.Fprintf(&b, "%%PDF-1.4\n%% %s\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n"+
		"2 0 obj\n<< /Type /Pages /Kids [3 0 R] /Count 1 >>\nendobj\n"+
		"3 0 obj\n<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Annots [", token(w.r))
	for _, l := range w.links {
		fmt.Fprintf(&b, "<< /Type /Annot /Subtype /Link /A << /S /URI /URI (%s) >> >> ", escape.Replace(l.url))
	}
	fmt.Fprintf(&b, "] >>\nendobj\n4 0 obj\n<< /Length %d /Filter /FlateDecode >>\nstream\n", stream.Len())
	b.Write(stream.Bytes())
	fmt.Fprintf(&b, "\nendstream\nendobj\ntrailer\n<< /Root 1 0 R /ID [<%s> <%s>] >>\n%%%%EOF\n", token(w.r), token(w.r))
	return b.Bytes()
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

// winmail returns a file winmail.dat with the text as its body.
//
// Source: Microsoft, [MS-OXTNEF] 2.1.
func (w *writer) winmail() []byte {
	little := binary.LittleEndian
	b := little.AppendUint16(little.AppendUint32(nil, 0x223e9f78), uint16(w.r.Uint32()))
	attribute := func(id uint32, value []byte) {
		b = little.AppendUint32(little.AppendUint32(append(b, 1), id), uint32(len(value)))
		b = append(b, value...)
		sum := uint16(0)
		for _, c := range value {
			sum += uint16(c)
		}
		b = little.AppendUint16(b, sum)
	}
	attribute(0x00018009, []byte(token(w.r)+"\x00")) // identifier of the message
	attribute(0x0002800c, []byte(strings.ReplaceAll(w.whole(), "\n", "\r\n")+"\x00"))
	return b
}

// document returns a text document.
func (w *writer) document() []byte {
	var text strings.Builder
	for p := range strings.SplitSeq(w.text, "\n\n") {
		fmt.Fprintf(&text, "<w:p><w:r><w:t>%s</w:t></w:r></w:p>", html.EscapeString(p))
	}
	rels := ""
	for i, l := range w.links {
		rels += fmt.Sprintf("<Relationship Id=\"r%d\" Target=\"%s\" TargetMode=\"External\"/>", i, html.EscapeString(l.url))
	}
	return zipped([2]string{"[Content_Types].xml", "<Types/>"},
		[2]string{"docProps/core.xml", "<creator>" + token(w.r) + "</creator>"},
		[2]string{"word/_rels/document.xml.rels", "<Relationships>" + rels + "</Relationships>"},
		[2]string{"word/document.xml", "<w:document><w:body>" + text.String() + "</w:body></w:document>"})
}

// uuencoded returns a file as old programs put it into a text.
func uuencoded(name, content string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "begin 644 %s\n", name)
	for chunk := range slices.Chunk([]byte(content), 45) {
		b.WriteByte(' ' + byte(len(chunk)))
		for three := range slices.Chunk(append(chunk, 0, 0)[:(len(chunk)+2)/3*3:(len(chunk)+2)/3*3], 3) {
			bits := uint32(three[0])<<16 | uint32(three[1])<<8 | uint32(three[2])
			for shift := 18; shift >= 0; shift -= 6 {
				c := byte(bits>>shift) & 0x3f
				if c == 0 {
					c = '`' - ' '
				}
				b.WriteByte(' ' + c)
			}
		}
		b.WriteByte('\n')
	}
	return b.String() + "`\nend\n"
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
