package razor

import (
	"bytes"
	"slices"

	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// decodeBase64 decodes a part that names the encoding anywhere at the start of a line:
// docs/specs/razor2.md#base64. A decoded part lies in the memory of room, and changed reports
// whether it does.
func decodeBase64(part, room []byte) (decoded []byte, changed bool) {
	const mark = "Content-Transfer-Encoding: base64"
	if lineStart(part, mark) < 0 {
		return part, false
	}
	// The line decides whether, the first mention anywhere decides from where.
	rest := part[mention(part, mark)+len(mark):]
	data, cut := rest, false
	if _, end := blankLine(rest); end >= 0 {
		data, cut = rest[end:], true
	}
	header := part
	if start, _ := blankLine(part); start >= 0 {
		header = part[:start]
	}
	out := append(slices.Grow(room[:0], len(header)+2+len(data)/4*3+64), header...)
	out = append(out, '\n', '\n')
	if cut {
		data, _, _ = bytes.Cut(data, []byte{'='})
		return joinCharacters(out, data), true
	}
	digits := make([]byte, 0, len(data))
	pads := 0 // "=" at the end of digits
	for _, c := range data {
		if v, ok := scan.Digit64(c); ok {
			digits = append(digits, v)
			if pads++; c != '=' {
				pads = 0
			}
		}
	}
	// Without a blank line to start from, the client removes only the padding at
	// the very end, and takes any other for a digit.
	return joinDigits(out, digits[:len(digits)-pads]), true
}

// joinDigits appends what six-bit digits stand for to out.
func joinDigits(out, d []byte) []byte {
	i := 0
	for ; i+4 <= len(d); i += 4 {
		out = append(out, d[i]<<2|d[i+1]>>4, d[i+1]<<4|d[i+2]>>2, d[i+2]<<6|d[i+3])
	}
	return joinRest(out, d[i:], len(d))
}

// joinRest appends the bytes of d, the last digits, fewer than four, of a run of the given
// length. One left over alone stands for as many zero bytes as its value, unless it opens one of
// the client's lines of sixty.
func joinRest(out, d []byte, of int) []byte {
	switch len(d) {
	case 3:
		out = append(out, d[0]<<2|d[1]>>4, d[1]<<4|d[2]>>2)
	case 2:
		out = append(out, d[0]<<2|d[1]>>4)
	case 1:
		if of%60 != 1 {
			out = append(out, make([]byte, d[0])...)
		}
	}
	return out
}

// joinCharacters is [joinDigits] of those characters of text, in which there is no equals sign, that are digits.
func joinCharacters(out, text []byte) []byte {
	var four [4]byte
	n := 0
	for len(text) > 0 {
		if n%4 == 0 && len(text) >= 4 {
			// Most are four digits in a row.
			d0, d1, d2, d3 := scan.Base64[text[0]], scan.Base64[text[1]], scan.Base64[text[2]], scan.Base64[text[3]]
			if (d0|d1|d2|d3)&^63 == 0 {
				out = append(out, d0<<2|d1>>4, d1<<4|d2>>2, d2<<6|d3)
				text, n = text[4:], n+4
				continue
			}
		}
		if d, ok := scan.Digit64(text[0]); ok {
			four[n%4] = d
			if n++; n%4 == 0 {
				out = joinDigits(out, four[:])
			}
		}
		text = text[1:]
	}
	return joinRest(out, four[:n%4], n)
}

// lineStart finds the first line that starts with text in any case.
func lineStart(b []byte, text string) int {
	for i := 0; i < len(b); {
		if b[i]|0x20 == text[0]|0x20 && scan.HasPrefixFold(b[i:], text) {
			return i
		}
		n := bytes.IndexByte(b[i:], '\n')
		if n < 0 {
			break
		}
		i += n + 1
	}
	return -1
}

// mention finds text in any case. The caller knows that it is there.
func mention(b []byte, text string) int {
	i := 0
	for b[i]|0x20 != text[0]|0x20 || !scan.HasPrefixFold(b[i:], text) {
		i++
	}
	return i
}

// decodeQuotedPrintable decodes the body of a part whose header names the encoding:
// docs/specs/razor2.md#quoted-printable. Soft line ends go first, in a pass of their own, so that
// what they separated may become an escape. A decoded body lies in the memory of room.
func decodeQuotedPrintable(part, room []byte) []byte {
	start, end := blankLine(part)
	if start < 0 || lineStart(part[:start], "Content-Transfer-Encoding: quoted-printable") < 0 {
		return part
	}
	out := append(slices.Grow(room[:0], len(part)), part[:end]...)
	if out, whole := escapesAndBreaks(out, part[end:]); whole {
		return out
	}
	out = softBreaks(out, part[end:])
	// The decoded form is never longer than the encoded form.
	body := out[end:]
	for out = out[:end]; ; {
		i := bytes.IndexByte(body, '=')
		if i < 0 {
			return append(out, body...)
		}
		out = append(out, body[:i]...)
		body = body[i:]
		if c, ok := escaped(body); ok {
			out = append(out, c)
			body = body[3:]
		} else {
			out = append(out, '=')
			body = body[1:]
		}
	}
}

// escapesAndBreaks appends what body stands for in one pass, if it has no equals sign but in
// escapes and soft line ends: then these do not touch. It reports false for others.
func escapesAndBreaks(out, body []byte) (decoded []byte, whole bool) {
	for {
		i := bytes.IndexByte(body, '=')
		if i < 0 {
			return append(out, body...), true
		}
		out = append(out, body[:i]...)
		body = body[i:]
		if n := softBreak(body[1:]); n > 0 {
			body = body[1+n:]
			continue
		}
		c, ok := escaped(body)
		if !ok {
			return out, false
		}
		out = append(out, c)
		body = body[3:]
	}
}

// escaped returns the byte that the escape at the start of b, behind its equals sign, stands for.
func escaped(b []byte) (c byte, ok bool) {
	if len(b) < 3 {
		return 0, false
	}
	hi, ok1 := scan.Hex(b[1])
	lo, ok2 := scan.Hex(b[2])
	return hi<<4 | lo, ok1 && ok2
}

// softBreak returns how many bytes of a soft line end follow its equals sign, 0 if there is none.
func softBreak(b []byte) int {
	switch {
	case len(b) > 0 && b[0] == '\n':
		return 1
	case len(b) > 1 && b[0] == '\r' && b[1] == '\n':
		return 2
	}
	return 0
}

// softBreaks appends body to out without its soft line ends.
func softBreaks(out, body []byte) []byte {
	for {
		i := bytes.IndexByte(body, '=')
		if i < 0 {
			return append(out, body...)
		}
		out = append(out, body[:i]...)
		body = body[i+1:]
		n := softBreak(body)
		if body = body[n:]; n == 0 {
			out = append(out, '=')
		}
	}
}

// bodyOf removes the line ends at the end and then the header:
// docs/specs/razor2.md#header-removal.
func bodyOf(part []byte) []byte {
	_, end := blankLine(part)
	if end < 0 {
		return nil
	}
	return bytes.TrimRight(part[end:], "\n")
}

// isSkipped reports whether a part gets no signature: docs/specs/razor2.md#skipped-parts.
func isSkipped(v8 []byte) bool {
	if allBlank(v8) {
		return true
	}
	if len(v8) >= 128 || !isContentField(v8) {
		return false
	}
	for i, c := range v8 {
		if c == '\n' && (allBlank(v8[i+1:]) || isContentField(v8[i+1:])) {
			return true
		}
	}
	return false
}

// isContentField reports whether b begins with a line "Content...:".
func isContentField(b []byte) bool {
	if !bytes.HasPrefix(b, []byte("Content")) {
		return false
	}
	line, _, _ := bytes.Cut(b, []byte{'\n'})
	return bytes.IndexByte(line, ':') >= 0
}
