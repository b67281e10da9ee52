package signature

import "bytes"

// razorBase64 decodes a part that names the encoding anywhere at the start of a
// line: docs/specs/razor2.md#base64.
func razorBase64(part []byte) []byte {
	const mark = "Content-Transfer-Encoding: base64"
	if razorLineStart(part, mark) < 0 {
		return part
	}
	// The line decides whether, the first mention anywhere decides from where.
	rest := part[razorMention(part, mark)+len(mark):]
	data, cut := rest, false
	if _, end := razorBlankLine(rest); end >= 0 {
		data, cut = rest[end:], true
	}
	if cut {
		data, _, _ = bytes.Cut(data, []byte{'='})
	}
	chars := make([]byte, 0, len(data))
	for _, c := range data {
		if _, ok := razorDigit(c); ok {
			chars = append(chars, c)
		}
	}
	// Without a blank line to start from, the client removes only the padding at
	// the very end, and takes any other for a digit.
	digits := bytes.TrimRight(chars, "=")
	for i, c := range digits {
		digits[i], _ = razorDigit(c)
	}
	header := part
	if start, _ := razorBlankLine(part); start >= 0 {
		header = part[:start]
	}
	out := append([]byte(nil), header...)
	out = append(out, '\n', '\n')
	return append(out, razorDecode64(digits)...)
}

// razorDigit returns the value of a base64 digit; padding in an odd place is one.
func razorDigit(c byte) (byte, bool) {
	switch {
	case c >= 'A' && c <= 'Z':
		return c - 'A', true
	case c >= 'a' && c <= 'z':
		return c - 'a' + 26, true
	case c >= '0' && c <= '9':
		return c - '0' + 52, true
	case c == '+':
		return 62, true
	case c == '/':
		return 63, true
	case c == '=':
		return 29, true
	}
	return 0, false
}

// razorDecode64 joins six-bit digits. A digit left over alone stands for as many
// zero bytes as its value, unless it opens one of the client's lines of sixty.
func razorDecode64(d []byte) []byte {
	out := make([]byte, 0, len(d)/4*3+3)
	i := 0
	for ; i+4 <= len(d); i += 4 {
		out = append(out, d[i]<<2|d[i+1]>>4, d[i+1]<<4|d[i+2]>>2, d[i+2]<<6|d[i+3])
	}
	switch len(d) - i {
	case 3:
		out = append(out, d[i]<<2|d[i+1]>>4, d[i+1]<<4|d[i+2]>>2)
	case 2:
		out = append(out, d[i]<<2|d[i+1]>>4)
	case 1:
		if len(d)%60 != 1 {
			out = append(out, make([]byte, d[i])...)
		}
	}
	return out
}

// razorLineStart finds the first line that starts with text in any case.
func razorLineStart(b []byte, text string) int {
	for i := 0; i < len(b); {
		if b[i]|0x20 == text[0]|0x20 && hasPrefixFold(b[i:], text) {
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

// razorMention finds text in any case. The caller knows that it is there.
func razorMention(b []byte, text string) int {
	i := 0
	for b[i]|0x20 != text[0]|0x20 || !hasPrefixFold(b[i:], text) {
		i++
	}
	return i
}

// razorQuotedPrintable decodes the body of a part whose header names the
// encoding: docs/specs/razor2.md#quoted-printable. Soft line ends go first, in a pass of their
// own, so that what they separated may become an escape.
func razorQuotedPrintable(part []byte) []byte {
	start, end := razorBlankLine(part)
	if start < 0 || razorLineStart(part[:start], "Content-Transfer-Encoding: quoted-printable") < 0 {
		return part
	}
	body := razorSoftBreaks(part[end:])
	out := append(make([]byte, 0, len(part)), part[:end]...)
	for {
		i := bytes.IndexByte(body, '=')
		if i < 0 {
			return append(out, body...)
		}
		out = append(out, body[:i]...)
		if body = body[i:]; len(body) > 2 {
			hi, ok1 := razorHex(body[1])
			lo, ok2 := razorHex(body[2])
			if ok1 && ok2 {
				out = append(out, hi<<4|lo)
				body = body[3:]
				continue
			}
		}
		out = append(out, '=')
		body = body[1:]
	}
}

func razorSoftBreaks(body []byte) []byte {
	out := make([]byte, 0, len(body))
	for {
		i := bytes.IndexByte(body, '=')
		if i < 0 {
			return append(out, body...)
		}
		out = append(out, body[:i]...)
		switch body = body[i+1:]; {
		case bytes.HasPrefix(body, []byte("\n")):
			body = body[1:]
		case bytes.HasPrefix(body, []byte("\r\n")):
			body = body[2:]
		default:
			out = append(out, '=')
		}
	}
}

func razorHex(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// razorBody removes the line ends at the end and then the header:
// docs/specs/razor2.md#header-removal.
func razorBody(part []byte) []byte {
	_, end := razorBlankLine(part)
	if end < 0 {
		return nil
	}
	return bytes.TrimRight(part[end:], "\n")
}

// razorSkipped says whether a part gets no signature: docs/specs/razor2.md#skipped-parts.
func razorSkipped(v8 []byte) bool {
	if allRazorBlank(v8) {
		return true
	}
	if len(v8) >= 128 || !razorContentField(v8) {
		return false
	}
	for i, c := range v8 {
		if c == '\n' && (allRazorBlank(v8[i+1:]) || razorContentField(v8[i+1:])) {
			return true
		}
	}
	return false
}

// razorContentField says whether a line "Content...:" begins b.
func razorContentField(b []byte) bool {
	if !bytes.HasPrefix(b, []byte("Content")) {
		return false
	}
	line, _, _ := bytes.Cut(b, []byte{'\n'})
	return bytes.IndexByte(line, ':') >= 0
}
