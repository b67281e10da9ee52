package signature

import (
	"bytes"
	"strconv"
	"strings"
)

// pyzorTexts returns what each part of a mail contributes, in order:
// docs/specs/pyzor.md#parts and #html-text.
func pyzorTexts(raw []byte) (texts []pyzorContent, ok bool) {
	r := &pyzorReader{raw: raw}
	root := r.parse("text/plain", 0)
	root.walk(func(p *pyzorPart) {
		if text, ok := p.text(r); ok {
			texts = append(texts, text)
		}
	})
	return texts, !r.bad
}

func (p *pyzorPart) walk(visit func(*pyzorPart)) {
	visit(p)
	for _, c := range p.children {
		c.walk(visit)
	}
}

// text returns what a leaf contributes; containers contribute nothing.
func (p *pyzorPart) text(r *pyzorReader) (text pyzorContent, ok bool) {
	main, sub := p.contentType()
	if p.container {
		return text, false
	}
	if main != "text" {
		return p.asIs(r), true
	}
	text = pyzorDecodeText(p.decoded(), p.charset(r))
	if sub == "html" {
		var sane bool
		if text.ascii {
			text, sane = pyzorHTML(text.bytes)
		} else {
			text, sane = pyzorHTML(text.runes)
		}
		if !sane {
			r.bad = true
		}
	}
	return text, true
}

func pyzorDecodeText(body []byte, charset string) pyzorContent {
	if charset == "" {
		charset = "ascii"
	}
	return pyzorDecodeKnown(body, charset, pyzorIgnore)
}

// pyzorDecodeKnown decodes body, an unknown charset as ASCII.
func pyzorDecodeKnown(body []byte, charset string, with rune) pyzorContent {
	codec, known := pyzorCodec(charset)
	if !known {
		codec = "ascii"
	}
	if isASCII(body) && pyzorKeepsASCII(codec) {
		return pyzorContent{ascii: true, bytes: body}
	}
	text, _ := pyzorDecodeAs(body, codec, with)
	return pyzorContent{runes: text}
}

// asIs returns the body of a part that is not text, as it stands in the mail.
func (p *pyzorPart) asIs(r *pyzorReader) pyzorContent {
	charset := "ascii"
	param, ok, sane := p.parameter("charset")
	if !isASCII(p.body) {
		if !sane || ok && param.extended {
			r.bad = true
		}
		if ok {
			charset = param.value
		}
	}
	return pyzorDecodeKnown(p.body, charset, '\uFFFD')
}

// decoded undoes the transfer encoding of a text part.
func (p *pyzorPart) decoded() []byte {
	encoding, _ := p.get("content-transfer-encoding")
	switch pyzorLower(encoding) {
	case "quoted-printable":
		return pyzorQuotedPrintable(p.body)
	case "base64":
		return pyzorBase64(p.body)
	case "x-uuencode", "uuencode", "uue", "x-uue":
		if b, ok := pyzorUU(p.body); ok {
			return b
		}
	}
	return p.body
}

// pyzorQuotedPrintable decodes as the client does: a soft line end may be any
// "=" CR ..., "==" is one "=", and what is no escape stays.
func pyzorQuotedPrintable(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); {
		if b[i] != '=' {
			out = append(out, b[i])
			i++
			continue
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
			hi, ok1 := razorHex(b[i])
			if i+1 < len(b) {
				if lo, ok2 := razorHex(b[i+1]); ok1 && ok2 {
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

// pyzorBase64 decodes what is base64 in b and ends at the first full padding.
// Data that cannot be brought to an end is returned as it is, without line ends.
func pyzorBase64(b []byte) []byte {
	joined := make([]byte, 0, len(b))
	for _, c := range b {
		if c != '\n' && c != '\r' {
			joined = append(joined, c)
		}
	}
	out := make([]byte, 0, len(joined)/4*3+3)
	var quad, pads int
	var left byte
	for _, c := range append(joined[:len(joined):len(joined)], "=="...) {
		if c == '=' {
			if quad >= 2 {
				if pads++; quad+pads >= 4 {
					return out
				}
			}
			continue
		}
		v, ok := razorDigit(c)
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
	if quad != 0 {
		return joined
	}
	return out
}

// pyzorUU undoes uuencode. It reports false where the client gives up and takes
// the text as it is.
func pyzorUU(b []byte) ([]byte, bool) {
	lines := pyzorSplitLines(b)
	for i := range lines {
		lines[i] = pyzorTrimEOL(lines[i])
	}
	for len(lines) > 0 {
		rest, ok := bytes.CutPrefix(lines[0], []byte("begin "))
		lines = lines[1:]
		if ok && pyzorOctal(rest) {
			break
		}
		if len(lines) == 0 {
			return nil, false
		}
	}
	var out []byte
	for _, line := range lines {
		if len(line) == 0 {
			return nil, false
		}
		if string(bytes.Trim(line, " \t\r\n\f")) == "end" {
			return out, true
		}
		decoded, ok := pyzorUULine(line)
		if !ok {
			n := ((int(line[0])-32)&63*4 + 5) / 3
			if decoded, ok = pyzorUULine(line[:min(n, len(line))]); !ok {
				return nil, false
			}
		}
		out = append(out, decoded...)
	}
	return out, true
}

// pyzorOctal says whether the word before the first blank is a file mode.
func pyzorOctal(b []byte) bool {
	mode, _, _ := bytes.Cut(b, []byte{' '})
	s := strings.TrimFunc(string(mode), pyzorSpace)
	s = strings.TrimPrefix(strings.TrimPrefix(s, "0o"), "0O")
	_, err := strconv.ParseUint(s, 8, 64)
	return err == nil
}

func pyzorUULine(line []byte) ([]byte, bool) {
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
