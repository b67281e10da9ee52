package pyzor

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bulkhead-mail/bulkhead/internal/pace"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// minChars is the memory in bytes that the characters of a page may take in addition to the size of
// the mail.
const minChars = 4 << 20

func newReader(raw []byte, p *pace.Pace, own *space) *reader {
	r := &reader{raw: raw, pace: p, space: own}
	r.parse("text/plain", 0).walk(func(part *node) {
		if !part.container {
			r.leaves = append(r.leaves, part)
		}
	})
	return r
}

// lines passes the text of each part of a mail to l, from a mark on:
// docs/specs/pyzor.md#parts and #html-text.
func (r *reader) lines(l *liner, from mark) {
	for i := int(from.part); i < len(r.leaves); i++ {
		if l.part = i; r.bad || l.done() || r.pace.Over(1) {
			return
		}
		if i > int(from.part) {
			from = mark{line: int32(l.lines), part: int32(i)}
			if l.marks != nil && l.lines >= l.marks.due {
				l.marks.add(from)
			}
		}
		r.leaves[i].text(r, l, from)
		l.endLine()
	}
}

func (p *node) walk(visit func(*node)) {
	visit(p)
	for _, c := range p.children {
		c.walk(visit)
	}
}

// text passes the text of a leaf to l, from a mark in it on.
func (p *node) text(r *reader, l *liner, from mark) {
	if p.codec == "" {
		p.readType(r)
	}
	switch {
	case !p.isText:
		r.decodeLines(p.body, p.codec, '\uFFFD', l, from) // without undoing its transfer encoding
	case !p.isPage:
		r.decodeLines(p.decoded(r, l), p.codec, ignoreErrors, l, from)
	default:
		text := r.page(p, l)
		if l.named = r.named; !stripHTML(text, l, &r.known, r.pace, from) {
			r.bad = true
		}
	}
}

// readType determines the type of a leaf and the codec of its characters.
func (p *node) readType(r *reader) {
	main, sub := p.contentType()
	p.isText, p.isPage = main == "text", sub == "html"
	charset := ""
	if p.isText {
		charset = p.charset(r)
	} else if scan.ASCIIPrefix(p.body) < len(p.body) {
		param, ok, sane := p.parameter("charset")
		if !sane || ok && param.extended {
			r.bad = true
		}
		if ok {
			charset = param.value
		}
	}
	if p.codec = "ascii"; charset != "" {
		p.codec = codecOrASCII(charset)
	}
}

// codecOrASCII returns the codec of a charset, or ASCII for an unknown charset.
func codecOrASCII(charset string) string {
	if codec, known := codecOf(charset); known {
		return codec
	}
	return "ascii"
}

// decodeLines passes the decoded body to l, from a mark in it on.
func (r *reader) decodeLines(body []byte, codec string, with rune, l *liner, from mark) {
	if (scan.ASCIIPrefix(body) < len(body) || !keepsASCII(codec)) && (codec != "utf_8" || !utf8.Valid(body)) {
		s := sink{put: l.put, run: l.puts, with: with, pace: r.pace, lines: l, from: int(from.at)}
		l.at = &s.at
		s.decode(body, codec)
	} else {
		r.at = int(from.at)
		for l.at = &r.at; r.at < len(body) && !l.done(); {
			at := r.at
			n := min(len(body)-at, pace.Step)
			if at+n < len(body) {
				n = charBefore(body, at+n+1) - at
			}
			if r.pace.Over(n) {
				break
			}
			l.puts(body[at : at+n])
			r.at += n
		}
	}
	l.at = nil
}

// page returns a page, decoded. The pass that counts lines keeps the result for the pass that reads
// them.
func (r *reader) page(p *node, l *liner) []byte {
	if r.charsOf == p {
		return r.chars
	}
	body, codec := p.decoded(r, l), p.codec
	if scan.ASCIIPrefix(body) == len(body) && keepsASCII(codec) {
		return body
	}
	s := sink{with: ignoreErrors, pace: r.pace}
	size := len(body) // approximate size of the text
	if largest := 8 * len(body); largest > minChars {
		// First measure the memory that it takes here, and in the client: there, each character takes as much as the
		// widest one.
		chars, widest := 0, rune(0)
		size = 0
		s.run, s.put = func(run []byte) { chars, size = chars+len(run), size+len(run) }, func(c rune) {
			chars++
			size += charSize(c)
			widest = max(widest, c)
		}
		s.decode(body, codec)
		if chars*width(widest) > minChars+len(r.raw) {
			r.bad = true
			return nil
		}
	}
	if codec == "utf_8" && utf8.Valid(body) {
		return body
	}
	r.charsOf, r.chars = p, slices.Grow(r.chars[:0], min(size, 2*len(body)))
	s.run, s.put = func(run []byte) { r.chars = append(r.chars, run...) },
		func(c rune) { r.chars = appendChar(r.chars, c) }
	if size > 2*len(body) {
		// One byte of the body may stand for a character of three bytes. Such characters get shorter names, of
		// which there are enough.
		r.named = r.named[:0]
		s.put = func(c rune) { r.chars, r.named = appendNamed(r.chars, r.named, c) }
	} else {
		s.text = func(text string) { r.chars = append(r.chars, text...) }
	}
	s.decode(body, codec)
	return r.chars
}

// width returns the bytes that the client takes for each character of a text whose widest one is r.
func width(r rune) int {
	switch {
	case r < 0x100:
		return 1
	case r < 0x10000:
		return 2
	}
	return 4
}

// decoded returns a text part without its transfer encoding. The pass that counts lines keeps the last
// result for the pass that reads them.
func (p *node) decoded(r *reader, l *liner) []byte {
	if r.bodyOf == p {
		return r.body
	}
	if encoding, _ := p.get("content-transfer-encoding"); r.unquoted != nil && lowerASCII(encoding) == "quoted-printable" {
		if text, size := r.unquoted(p.body); size > 0 && size == len(p.body) {
			return text
		}
	}
	if l.marks == nil {
		return p.decode(nil, r.pace)
	}
	r.bodyOf, r.body = p, p.decode(r.own, r.pace)
	if len(r.body) > 0 && len(p.body) > 0 && &r.body[0] != &p.body[0] {
		r.own = r.body
	}
	return r.body
}

// decode undoes the transfer encoding. It may return the body itself, or decode into the memory of room.
func (p *node) decode(room []byte, pc *pace.Pace) []byte {
	encoding, _ := p.get("content-transfer-encoding")
	switch lowerASCII(encoding) {
	case "quoted-printable":
		return decodeQuotedPrintable(room, p.body, pc)
	case "base64":
		return decodeBase64(room, p.body, pc)
	case "x-uuencode", "uuencode", "uue", "x-uue":
		if b, ok := decodeUU(p.body, pc); ok {
			return b
		}
	}
	return p.body
}

// decodeQuotedPrintable decodes as the client does. A "=" before CR or LF removes everything
// up to the next LF, "==" is one "=", and an invalid escape stays as it is.
func decodeQuotedPrintable(room, b []byte, p *pace.Pace) []byte {
	out := slices.Grow(room[:0], len(b))[:len(b)] // no piece becomes longer
	n, from := 0, 0
	for i := 0; i < len(b); {
		if i-from >= pace.Step/2 {
			if p.Over(i - from) {
				break
			}
			from = i
		}
		if b[i] != '=' {
			plain := b[i:min(i+pace.Step/2, len(b))]
			if end := bytes.IndexByte(plain, '='); end >= 0 {
				plain = plain[:end]
			}
			n += copy(out[n:], plain)
			i += len(plain)
			continue
		}
		if i++; i == len(b) {
			break
		}
		if i+1 < len(b) {
			hi, ok1 := scan.Hex(b[i])
			if lo, ok2 := scan.Hex(b[i+1]); ok1 && ok2 {
				out[n] = hi<<4 | lo
				n++
				i += 2
				continue
			}
		}
		switch b[i] {
		case '\n', '\r':
			end := bytes.IndexByte(b[i:], '\n')
			if end < 0 {
				return out[:n]
			}
			i += end + 1
		case '=':
			i++
			fallthrough
		default:
			out[n] = '='
			n++
		}
	}
	return out[:n]
}

// decodeBase64 decodes the base64 digits in b, up to the first complete padding. If the last group is
// incomplete, it returns b without line ends.
func decodeBase64(room, b []byte, p *pace.Pace) []byte {
	out := slices.Grow(room[:0], len(b)/4*3+3)
	var quad, pads int
	var left byte
	for i := 0; i < len(b)+2; i++ {
		if i%pace.Step == 0 && p.Over(min(pace.Step, len(b)+2-i)) {
			return nil
		}
		if quad == 0 {
			// The common case: four digits are three bytes.
			for len(b)-i >= 4 && i%pace.Step < pace.Step-4 {
				d0, d1, d2, d3 := scan.Base64[b[i]], scan.Base64[b[i+1]], scan.Base64[b[i+2]], scan.Base64[b[i+3]]
				if (d0|d1|d2|d3)&^63 != 0 {
					break
				}
				out = append(out, d0<<2|d1>>4, d1<<4|d2>>2, d2<<6|d3)
				pads = 0
				i += 4
			}
		}
		c := byte('=') // two more of them complete the padding
		if i < len(b) {
			c = b[i]
		}
		if c == '=' {
			if quad >= 2 {
				if pads++; quad+pads >= 4 {
					return out
				}
			}
			continue
		}
		v, ok := scan.Digit64(c)
		if !ok {
			continue
		}
		pads = 0
		switch quad {
		case 1:
			out = append(out, left<<2|v>>4)
		case 2:
			out = append(out, left<<4|v>>2)
		case 3:
			out = append(out, left<<6|v)
		}
		left = v
		quad = (quad + 1) % 4
	}
	if quad == 0 {
		return out
	}
	joined := make([]byte, 0, len(b))
	for _, c := range b {
		if c != '\n' && c != '\r' {
			joined = append(joined, c)
		}
	}
	return joined
}

// decodeUU undoes uuencode. It reports false where the client gives up and reads the text as it is.
func decodeUU(b []byte, p *pace.Pace) ([]byte, bool) {
	next := func() []byte {
		line := lineAt(b)
		b = b[len(line):]
		return trimEOL(line)
	}
	for begun := false; !begun; {
		if len(b) == 0 {
			return nil, false
		}
		rest, ok := bytes.CutPrefix(next(), []byte("begin "))
		begun = ok && isOctal(rest)
		if !begun && len(b) == 0 || p.Over(1) {
			return nil, false
		}
	}
	out := make([]byte, 0, len(b)/4*3)
	for len(b) > 0 {
		line := next()
		if len(line) == 0 || p.Over(len(line)) {
			return nil, false
		}
		if string(bytes.Trim(line, " \t\r\n\f")) == "end" {
			return out, true
		}
		decoded, ok := decodeUULine(line)
		if !ok {
			n := ((int(line[0])-32)&63*4 + 5) / 3
			if decoded, ok = decodeUULine(line[:min(n, len(line))]); !ok {
				return nil, false
			}
		}
		out = append(out, decoded...)
	}
	return out, true
}

// isOctal reports whether the word before the first blank is a file mode.
func isOctal(b []byte) bool {
	mode, _, _ := bytes.Cut(b, []byte{' '})
	s := strings.TrimFunc(string(mode), isSpace)
	s = strings.TrimPrefix(strings.TrimPrefix(s, "0o"), "0O")
	_, err := strconv.ParseUint(s, 8, 64)
	return err == nil
}

func decodeUULine(line []byte) ([]byte, bool) {
	if len(line) == 0 {
		return nil, true
	}
	want := (int(line[0]) - ' ') & 0x3f
	line = line[1:]
	out := make([]byte, 0, want)
	var acc uint
	bits := 0
	for i := 0; want > 0; i++ {
		var c uint
		if i < len(line) {
			if line[i] < ' ' || line[i] > ' '+64 {
				return nil, false
			}
			c = uint(line[i]-' ') & 0x3f
		}
		acc = acc<<6 | c
		if bits += 6; bits >= 8 {
			bits -= 8
			out = append(out, byte(acc>>bits))
			acc &= 1<<bits - 1
			want--
		}
		if i >= len(line) && want > 0 && i > 1<<10 {
			return nil, false
		}
		if want == 0 && i+1 < len(line) {
			for _, c := range line[i+1:] {
				if c != ' ' && c != ' '+64 {
					return nil, false
				}
			}
		}
	}
	return out, true
}
