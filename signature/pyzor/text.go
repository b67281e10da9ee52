package pyzor

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/bulkhead-mail/bulkhead/signature/internal/pace"
	"github.com/bulkhead-mail/bulkhead/signature/internal/scan"
)

// minChars is how many bytes of memory the characters of a page may take,
// beside as many as the mail has.
const minChars = 4 << 20

func newReader(raw []byte, p *pace.Pace) *reader {
	r := &reader{raw: raw, pace: p}
	r.parse("text/plain", 0).walk(func(part *node) {
		if !part.container {
			r.leaves = append(r.leaves, part)
		}
	})
	return r
}

// lines passes on to l what each part of a mail contributes:
// docs/specs/pyzor.md#parts and #html-text.
func (r *reader) lines(l *liner) {
	for _, part := range r.leaves {
		if r.bad || r.pace.Over(1) {
			return
		}
		part.text(r, l)
		l.endLine()
	}
}

func (p *node) walk(visit func(*node)) {
	visit(p)
	for _, c := range p.children {
		c.walk(visit)
	}
}

// text passes on to l what a leaf contributes.
func (p *node) text(r *reader, l *liner) {
	main, sub := p.contentType()
	if main != "text" {
		p.asIs(r, l)
		return
	}
	charset := p.charset(r)
	if charset == "" {
		charset = "ascii"
	}
	body, codec := p.decoded(r.pace), codecOrASCII(charset)
	if sub != "html" {
		r.decode(body, codec, ignoreErrors, l.puts, l.put)
		return
	}
	if !r.page(body, codec).strip(l, r.pace) {
		r.bad = true
	}
}

// codecOrASCII returns the codec of a charset, that of ASCII for an unknown one.
func codecOrASCII(charset string) string {
	if codec, known := codecOf(charset); known {
		return codec
	}
	return "ascii"
}

// decode decodes body and calls put with each character, or puts with several that are
// ASCII.
func (r *reader) decode(body []byte, codec string, with rune, puts func([]byte), put func(rune)) {
	if !scan.IsASCII(body) || !keepsASCII(codec) {
		s := sink{take: put, run: puts, with: with, pace: r.pace}
		s.decode(body, codec)
		return
	}
	for len(body) > 0 {
		n := min(len(body), pace.Step)
		if r.pace.Over(n) {
			return
		}
		puts(body[:n])
		body = body[n:]
	}
}

// page decodes all of a page.
func (r *reader) page(body []byte, codec string) *charText {
	if scan.IsASCII(body) && keepsASCII(codec) {
		return &charText{width: 1, narrow: body}
	}
	text := &r.chars
	text.reset()
	room := len(body)
	var widest rune
	if room > pace.Step {
		// Find out how much memory it takes first.
		room = 0
		r.decode(body, codec, ignoreErrors, func(run []byte) { room += len(run) }, func(c rune) {
			room++
			widest = max(widest, c)
		})
		if text.widen(widest); room*text.width > minChars+len(r.raw) {
			r.bad = true
			return text
		}
	}
	text.reserve(room, widest)
	r.decode(body, codec, ignoreErrors, text.puts, text.put)
	return text
}

// asIs passes on the body of a part that is not text, as it stands in the mail.
func (p *node) asIs(r *reader, l *liner) {
	charset := "ascii"
	param, ok, sane := p.parameter("charset")
	if !scan.IsASCII(p.body) {
		if !sane || ok && param.extended {
			r.bad = true
		}
		if ok {
			charset = param.value
		}
	}
	r.decode(p.body, codecOrASCII(charset), '\uFFFD', l.puts, l.put)
}

// decoded undoes the transfer encoding of a text part.
func (p *node) decoded(pc *pace.Pace) []byte {
	encoding, _ := p.get("content-transfer-encoding")
	switch lowerASCII(encoding) {
	case "quoted-printable":
		return decodeQuotedPrintable(p.body, pc)
	case "base64":
		return decodeBase64(p.body, pc)
	case "x-uuencode", "uuencode", "uue", "x-uue":
		if b, ok := decodeUU(p.body, pc); ok {
			return b
		}
	}
	return p.body
}

// decodeQuotedPrintable decodes as the client does: a soft line end may be any
// "=" CR ..., "==" is one "=", and what is no escape stays.
func decodeQuotedPrintable(b []byte, p *pace.Pace) []byte {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); {
		if b[i] != '=' {
			n := bytes.IndexByte(b[i:min(i+pace.Step, len(b))], '=')
			if n < 0 {
				n = min(pace.Step, len(b)-i)
			}
			if p.Over(n) {
				break
			}
			out = append(out, b[i:i+n]...)
			i += n
			continue
		}
		if p.Over(1) {
			break
		}
		if i++; i == len(b) {
			break
		}
		switch {
		case b[i] == '\n' || b[i] == '\r':
			n := bytes.IndexByte(b[i:], '\n')
			if n < 0 {
				return out
			}
			i += n + 1
		case b[i] == '=':
			out = append(out, '=')
			i++
		default:
			hi, ok1 := scan.Hex(b[i])
			if i+1 < len(b) {
				if lo, ok2 := scan.Hex(b[i+1]); ok1 && ok2 {
					out = append(out, hi<<4|lo)
					i += 2
					continue
				}
			}
			out = append(out, '=')
		}
	}
	return out
}

// decodeBase64 decodes what is base64 in b and ends at the first full padding.
// Data that cannot be brought to an end is returned as it is, without line ends.
func decodeBase64(b []byte, p *pace.Pace) []byte {
	out := make([]byte, 0, len(b)/4*3+3)
	var quad, pads int
	var left byte
	for i := 0; i < len(b)+2; i++ {
		if i%pace.Step == 0 && p.Over(min(pace.Step, len(b)+2-i)) {
			return nil
		}
		c := byte('=') // two of which end all
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

// decodeUU undoes uuencode. It reports false where the client gives up and takes
// the text as it is.
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

// isOctal says whether the word before the first blank is a file mode.
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
