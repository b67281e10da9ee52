package mail

import (
	charsets "github.com/bulkhead-mail/bulkhead/internal/text/charset"

	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// decodeWords returns a field with its encoded words decoded, and what else is not ASCII as it is. It
// reads what mail programs read beyond the standard: a language behind the charset, superfluous or
// missing padding, blanks within a word, and characters that are torn between two words. A word in an
// unknown charset or encoding stays as it is.
//
// Source: RFC 2047, and RFC 2231 section 5 on languages.
func decodeWords(field string) string {
	if !strings.Contains(field, "=?") {
		return field
	}
	var out strings.Builder
	var bytesOf []byte // of the words so far that are of one charset
	in := ""           // that charset
	flush := func() {
		if len(bytesOf) > 0 {
			out.WriteString(decodeText(bytesOf, in))
		}
		bytesOf, in = bytesOf[:0], ""
	}
	for field != "" {
		at := strings.Index(field, "=?")
		if at < 0 {
			break
		}
		charset, data, size := encodedWord(field[at:])
		if size == 0 {
			flush()
			out.WriteString(field[:at+2])
			field = field[at+2:]
			continue
		}
		// White space between two encoded words is not shown.
		if before := field[:at]; in == "" || strings.Trim(before, " \t\r\n") != "" {
			flush()
			out.WriteString(before)
		}
		if charset != in {
			flush()
		}
		in = charset
		bytesOf = append(bytesOf, data...)
		field = field[at+size:]
	}
	flush()
	out.WriteString(field)
	return out.String()
}

// encodedWord decodes the encoded word at the start of text, "=?charset?encoding?text?=". Its size is
// 0 if there is none that can be decoded.
func encodedWord(text string) (charset string, data []byte, size int) {
	const longest = 128 // bytes of the name of a charset
	rest := text[len("=?"):]
	n := strings.IndexByte(rest[:min(len(rest), longest)], '?')
	if n <= 0 || len(rest) < n+3 || rest[n+2] != '?' || strings.ContainsAny(rest[:n], " \t") {
		return "", nil, 0
	}
	charset = charsets.Name(rest[:n])
	how, rest := rest[n+1], rest[n+3:]
	end := strings.Index(rest, "?=")
	if end < 0 || !isASCIICharset(charset) && !charsets.Legible(charset) {
		return "", nil, 0
	}
	size = len(text) - len(rest) + end + len("?=")
	switch written := scan.Bytes(rest[:end]); how {
	case 'b', 'B':
		data, bad, _ := decodeBase64(nil, written, nil)
		if bad > 0 {
			return "", nil, 0
		}
		return charset, data, size
	case 'q', 'Q':
		for i := 0; i < len(written); i++ {
			c := written[i]
			if c == '_' {
				c = ' '
			} else if decoded, ok := escaped(written[i:]); c == '=' && ok {
				c = decoded
				i += len("XX")
			}
			data = append(data, c)
		}
		return charset, data, size
	}
	return "", nil, 0
}

// isASCIICharset reports whether a charset is one that toUTF8 knows by itself.
func isASCIICharset(name string) bool {
	switch name {
	case "us-ascii", "ascii", "utf-8", "utf8", "unknown-8bit", "x-unknown":
		return true
	}
	return false
}

// DecodeField returns the value of a header field as mail programs show it: its encoded words decoded, and
// bytes that are not UTF-8 read as windows-1252.
func DecodeField(value string) string { return decodeText([]byte(decodeWords(value)), "") }

// parameter returns a parameter of a field of the form VALUE; NAME=VALUE as mail programs read it, "" if
// there is none: with encoded words, which the standards do not allow there, and with the pieces,
// charsets and languages of RFC 2231. An extended parameter counts before a plain one.
func parameter(field, name string) string {
	var plain string
	var pieces map[int]string
	var extended map[int]bool
	_, rest, _ := strings.Cut(field, ";")
	if rest == "" {
		return ""
	}
	for rest != "" {
		var key, value string
		if key, value, rest = cutParameter(rest); len(key) < len(name) || !strings.EqualFold(key[:len(name)], name) {
			continue
		}
		suffix := key[len(name):]
		if suffix == "" {
			if plain == "" {
				plain = value
			}
			continue
		}
		number, ok := strings.CutPrefix(suffix, "*")
		number, star := strings.CutSuffix(number, "*")
		n, err := strconv.Atoi(number)
		if !ok || number != "" && (err != nil || n < 0) {
			continue
		}
		if pieces == nil {
			pieces, extended = make(map[int]string), make(map[int]bool)
		}
		if _, seen := pieces[n]; !seen {
			pieces[n], extended[n] = value, star || number == ""
		}
	}
	if pieces == nil {
		if plain == "" {
			return ""
		}
		return decodeText([]byte(decodeWords(plain)), "")
	}
	charset, whole := "", []byte(nil)
	for _, n := range slices.Sorted(maps.Keys(pieces)) {
		value := pieces[n]
		if n == 0 && extended[n] {
			if parts := strings.SplitN(value, "'", 3); len(parts) == 3 {
				charset, value = parts[0], parts[2]
			}
		}
		if extended[n] {
			whole = appendUnescaped(whole, value)
		} else {
			whole = append(whole, value...)
		}
	}
	return decodeText([]byte(decodeWords(decodeText(whole, charset))), "")
}

// cutParameter returns the parameter at the start of text and what follows. A value without quotation
// marks ends at a semicolon.
func cutParameter(text string) (key, value, rest string) {
	text = strings.TrimLeft(text, "; \t\r\n")
	n := strings.IndexAny(text, "=;")
	if n < 0 || text[n] == ';' {
		_, rest, _ = strings.Cut(text, ";")
		return "", "", rest
	}
	key, text = strings.TrimSpace(text[:n]), strings.TrimLeft(text[n+1:], " \t\r\n")
	if !strings.HasPrefix(text, `"`) {
		value, rest, _ = strings.Cut(text, ";")
		return key, strings.Trim(value, " \t\r\n"), rest
	}
	var unquoted strings.Builder
	i := 1
	for ; i < len(text) && text[i] != '"'; i++ {
		// A backslash before another character is one of the paths that old programs name.
		if text[i] == '\\' && i+1 < len(text) && (text[i+1] == '"' || text[i+1] == '\\') {
			i++
		}
		unquoted.WriteByte(text[i])
	}
	_, rest, _ = strings.Cut(text[min(i, len(text)):], ";")
	return key, unquoted.String(), rest
}

// appendUnescaped appends what percent signs and two digits stand for, and other bytes as they are.
func appendUnescaped(dst []byte, value string) []byte {
	for i := 0; i < len(value); i++ {
		if value[i] == '%' && i+2 < len(value) {
			high, ok := scan.Hex(value[i+1])
			if low, too := scan.Hex(value[i+2]); ok && too {
				dst = append(dst, high<<4|low)
				i += 2
				continue
			}
		}
		dst = append(dst, value[i])
	}
	return dst
}
