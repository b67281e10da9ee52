package mail

import (
	charsets "github.com/bulkhead-mail/bulkhead/internal/text/charset"

	"bytes"
	"context"
	"encoding/base64"
	"io"
	"math"
	"strings"
	"unicode/utf8"
	"unsafe"

	"golang.org/x/text/encoding/charmap"

	"github.com/bulkhead-mail/bulkhead/internal/pace"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// keep notes that data stays in memory and returns it, cut to the room that is left. Data
// that is part of body takes no memory of its own.
func (r *reader) keep(data, body []byte) []byte {
	if sameMemory(data, body) {
		return data
	}
	if len(data) > r.room {
		r.m.damage("decoded parts larger than the message")
		data = bytes.Clone(data[:r.room])
	}
	r.room -= len(data)
	return data
}

// sameMemory reports whether a and b begin at the same byte.
func sameMemory(a, b []byte) bool { return len(a) > 0 && len(b) > 0 && &a[0] == &b[0] }

// decodeTransfer undoes a Content-Transfer-Encoding. Damaged encodings give what can be had; an
// unknown one gives the body as it is. odd reports whether readers may differ on the result.
func (r *reader) decodeTransfer(how encoding, body []byte) (data []byte, odd bool) {
	switch how {
	case inBase64:
		data := make([]byte, base64.StdEncoding.DecodedLen(len(body)))
		if len(body) <= pace.Step {
			if n, err := base64.StdEncoding.Decode(data, body); err == nil {
				return data[:n], false
			}
		}
		data, bad, continued := decodeBase64(data[:0], body, r.pace)
		if bad > 0 {
			r.m.damage("base64 with %d bytes outside of its alphabet", bad)
		}
		return data, bad > 0 || continued
	case inQuoted:
		return decodeQuotedPrintable(body, r.pace)
	case inUUE:
		if data, ok := decodeUUE(body, r.pace); ok {
			return data, true
		}
		r.m.damage("uuencode that does not begin")
		return body, true
	case inYEnc:
		r.m.damage("transfer encoding yEnc, which is not read")
	}
	return body, false
}

// decodeUUE decodes the first file in body that uuencode has encoded; what is around it is left out. A
// line that is damaged gives the bytes that it has. It reports false if no file begins.
func decodeUUE(body []byte, p *pace.Pace) (data []byte, ok bool) {
	rest := body
	for {
		line, after, found := cutLine(rest)
		if !found || p.Over(len(line)+1) {
			return nil, false
		}
		if rest = after; bytes.HasPrefix(line, []byte("begin-base64 ")) {
			data, _, _ := decodeBase64(nil, rest, p)
			return data, true
		} else if bytes.HasPrefix(line, []byte("begin ")) {
			break
		}
	}
	data = make([]byte, 0, len(rest)/4*3)
	for len(rest) > 0 {
		var line []byte
		if line, rest, _ = cutLine(rest); p.Over(len(line)+1) || string(line) == "end" {
			break
		}
		if len(line) == 0 {
			continue
		}
		size, bits := int(line[0]-' ')&0x3F, uint32(0)
		// Mail systems cut off spaces, which are zeros, at the end of a line.
		for i := range (size + 2) / 3 * 4 {
			c := byte(' ')
			if i+1 < len(line) {
				c = line[i+1]
			}
			if bits = bits<<6 | uint32(c-' ')&0x3F; i%4 > 0 && size > 0 {
				data = append(data, byte(bits>>(2*(3-i%4))))
				size--
			}
		}
	}
	return data, true
}

// Unquoted returns the decoded form of a text in quoted-printable and the size of its encoded
// body. The encoded body must be at the beginning of body, which lies in Raw, and every reader
// must decode it alike; otherwise the size is 0. The caller must not change the result.
func (m *Message) Unquoted(body []byte) (text []byte, size int) {
	for i := range m.Parts {
		if p := &m.Parts[i]; p.lined != "" && len(p.body) <= len(body) && sameMemory(p.body, body) {
			return scan.Bytes(p.Text), len(p.body)
		}
	}
	return nil, 0
}

// Literal returns the text of a part as rspamd decodes it, with fewer repairs. White space at the
// ends of lines of quoted-printable stays. ISO-8859-1 has control characters where senders mean
// windows-1252, and so have other single-byte charsets where they define no characters. Truncated
// UTF-8 stays. Where the charset has to be guessed and three pieces of the text are only ASCII,
// other bytes become "?" if UTF-8 or ASCII is named; else they stay as they are, and known is
// false. It fails only when ctx ends, with an error that wraps that of ctx.
//
// Source: docs/specs/rspamd-fuzzy.md#charsets.
func (p *Part) Literal(ctx context.Context) (text string, known bool, err error) {
	by := pace.New(ctx)
	text, known = p.literal(by)
	switch {
	case !p.cut:
	case sameMemory(scan.Bytes(text), p.body) && len(text) == len(trimLineEnd(p.body)):
		text = asString(p.body)
	case strings.HasSuffix(text, "\n"):
	case p.lined != "" && sameMemory(scan.Bytes(text), scan.Bytes(p.lined)):
		text = p.lined
	case !by.Over(len(text)):
		text += "\n"
	}
	return text, known, pace.Ended(by)
}

func (p *Part) literal(by *pace.Pace) (text string, known bool) {
	text, latin := p.Text, false
	if p.guessed {
		data := p.decoded(by)
		switch name := guess(data); name {
		case isUTF8:
			return asString(data), true
		case "":
			switch strings.ToLower(strings.Trim(p.charset, " \t\"'")) {
			case "us-ascii", "ascii", "utf-8", "utf8", "default":
				return asString(withoutBad(data)), true
			}
			return asString(data), false
		case isLatin, isWestern:
			latin = name == isLatin
		default:
			const most = 3 // bytes of UTF-8 for one of a charset
			return asString(convert(data, name, most*len(data), by)), true
		}
		if isTurkish(data) && !by.Over(len(data)) {
			data, err := charmap.Windows1254.NewDecoder().Bytes(data)
			if err == nil {
				return asString(data), true
			}
		}
	}
	if p.odd {
		const most = 3 // bytes of UTF-8 for one of a charset
		data := p.decoded(by)
		text = asString(toUTF8(data, p.charset, most*len(data), by))
	}
	name := strings.ToLower(strings.Trim(p.charset, " \t\"'"))
	exact := name == "iso-8859-1" || name == "latin1" || latin
	undefined := !strings.HasPrefix(name, "utf") && strings.Contains(text, "\ufffd")
	if (undefined || exact && !scan.IsASCII(text)) && !by.Over(len(text)) {
		if p.guessed {
			name = ""
		}
		if upper := upperHalf(name); exact || len(upper) == len(highBytes) {
			data := p.decoded(by)
			out := make([]byte, 0, 2*len(data))
			for _, c := range data {
				r := rune(c)
				if c >= utf8.RuneSelf && !exact {
					if to := upper[c-utf8.RuneSelf]; to != utf8.RuneError || c >= 0xA0 {
						r = to
					}
				}
				out = utf8.AppendRune(out, r)
			}
			text = asString(out)
		}
	}
	return text, true
}

// highBytes are those that are not ASCII.
var highBytes = func() (all [128]byte) {
	for i := range all {
		all[i] = byte(utf8.RuneSelf + i)
	}
	return all
}()

// upperHalf returns the characters of the bytes that are not ASCII in a charset. The result has
// another length if the charset is multi-byte.
func upperHalf(name string) []rune {
	return []rune(string(toUTF8(highBytes[:], name, 3*len(highBytes), nil)))
}

// isTurkish reports whether text that is not ASCII has no letters but those of Turkish in
// windows-1254, and one that other languages of the West lack.
func isTurkish(text []byte) bool {
	own := false
	for _, c := range text {
		switch c {
		case 0xD0, 0xDD, 0xDE, 0xF0, 0xFD, 0xFE:
			own = true
		case 0xC7, 0xD6, 0xDC, 0xE7, 0xF6, 0xFC:
		default:
			if c >= 0xC0 {
				return false
			}
		}
	}
	return own
}

// transferEncoding returns the Content-Transfer-Encoding that a field names, or unknown for one
// that changes nothing.
func transferEncoding(field string) encoding {
	if comment, rest, ok := strings.Cut(field, ")"); ok && strings.HasPrefix(comment, "(") {
		field = rest
	}
	field = field[:max(0, strings.IndexAny(field+";", ";("))]
	switch strings.Trim(field, " \t\"',.") {
	case "base64", "base-64":
		return inBase64
	case "quoted-printable", "quoted_printable", "quotedprintable":
		return inQuoted
	case "uuencode", "x-uuencode", "x-uue", "uue":
		return inUUE
	case "yenc", "x-yenc", "x-yencode", "yencode":
		return inYEnc
	}
	return unknown
}

// Source returns the decoded bytes of a part as rspamd has them. It fails only when ctx ends,
// with an error that wraps the error of ctx.
func (p *Part) Source(ctx context.Context) ([]byte, error) {
	if !p.IsText() {
		return p.Data, nil
	}
	by := pace.New(ctx)
	return p.decoded(by), pace.Ended(by)
}

// decoded returns the bytes of a part as rspamd decodes them.
func (p *Part) decoded(by *pace.Pace) []byte {
	switch p.how {
	case inBase64:
		return literalBase64(p.body, by)
	case inQuoted:
		return literalQuoted(p.body, by)
	case inUUE:
		return literalUUE(p.body, by)
	}
	return p.body
}

// withoutBad returns text with "?" for each byte that is not UTF-8.
func withoutBad(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r == utf8.RuneError && n == 1 {
			out = append(out, '?')
		} else {
			out = append(out, text[:n]...)
		}
		text = text[n:]
	}
	return out
}

// isGuess reports whether text in a charset of that name may be in another one.
func isGuess(name string) bool {
	switch name = strings.ToLower(strings.Trim(name, " \t\"'")); name {
	case "", "us-ascii", "ascii", "utf-8", "utf8", "unknown-8bit", "x-unknown":
		return true
	}
	return !charsets.Legible(name)
}

// decodeBase64 appends to dst what can be decoded of body: foreign bytes are
// skipped and counted, padding ends a run and another may follow, an unfinished
// last group gives its whole bytes. continued reports whether something follows padding.
func decodeBase64(dst, body []byte, p *pace.Pace) (data []byte, bad int, continued bool) {
	var bits uint32
	n, padded := 0, false
	flush := func() {
		switch n {
		case 2:
			dst = append(dst, byte(bits>>4))
		case 3:
			dst = append(dst, byte(bits>>10), byte(bits>>2))
		}
		bits, n = 0, 0
	}
	for i, c := range body {
		if i%pace.Step == 0 && p.Over(min(len(body)-i, pace.Step)) {
			return dst, bad, continued
		}
		switch v := scan.Base64[c]; v {
		case scan.Base64Skip:
		case scan.Base64Pad:
			flush()
			padded = true
		case scan.Base64Bad:
			bad++
		default:
			continued = padded
			bits = bits<<6 | uint32(v)
			if n++; n == 4 {
				dst = append(dst, byte(bits>>16), byte(bits>>8), byte(bits))
				bits, n = 0, 0
			}
		}
	}
	flush()
	return dst, bad, continued
}

// decodeQuotedPrintable decodes body. White space at line ends goes, as RFC 2045 section 6.7 (3)
// asks; an equals sign that begins no escape stays as it is. odd reports whether there was any such
// thing, or a last line that goes on.
func decodeQuotedPrintable(body []byte, p *pace.Pace) (dst []byte, odd bool) {
	dst = make([]byte, 0, len(body)+1) // with room for a line end
	for len(body) > 0 {
		line, end := body, []byte(nil)
		if i := bytes.IndexByte(body, '\n'); i >= 0 {
			line, end, body = body[:i], body[i:i+1], body[i+1:]
			if n := len(line); n > 0 && line[n-1] == '\r' {
				line, end = line[:n-1], []byte("\r\n")
			}
		} else {
			body = nil
		}
		if p.Over(len(line) + 1) {
			return dst, true
		}
		for n := len(line); n > 0 && isWhite(line[n-1]); n-- {
			line = line[:n-1]
			odd = true
		}
		if n := len(line); n > 0 && line[n-1] == '=' {
			odd = odd || end == nil
			line, end = line[:n-1], nil
		}
		for {
			i := bytes.IndexByte(line, '=')
			if i < 0 {
				break
			}
			dst = append(dst, line[:i]...)
			line = line[i:]
			if c, ok := escaped(line); ok {
				dst = append(dst, c)
				line = line[3:]
			} else if bytes.HasPrefix(line, []byte("=\r")) {
				line, odd = line[2:], true
			} else {
				dst = append(dst, '=')
				line = line[1:]
				odd = true
			}
		}
		dst = append(append(dst, line...), end...)
	}
	return dst, odd
}

// escaped returns the byte that the escape at the start of line, "=XX", stands for. It reports
// false if there is none.
func escaped(line []byte) (byte, bool) {
	if len(line) < 3 {
		return 0, false
	}
	high, ok := scan.Hex(line[1])
	low, too := scan.Hex(line[2])
	return high<<4 | low, ok && too
}

// decodeText returns data, which is in the named charset, as UTF-8 without NUL
// bytes. Where the name is missing, unknown or plainly wrong, bytes that are
// valid UTF-8 are taken for it and all others for windows-1252.
func decodeText(data []byte, name string) string {
	return string(asUTF8(data, name, math.MaxInt, nil))
}

// text returns the text of a part, cut to the room that is left. inRaw is set if
// data is a part of the message itself.
func (r *reader) text(data []byte, charset string, inRaw bool) string {
	text := asUTF8(data, charset, r.room, r.pace)
	if !inRaw || !sameMemory(text, data) {
		if len(text) > r.room {
			text = bytes.Clone(cutRune(text, r.room))
		}
		if len(text) == r.room {
			r.m.damage("text larger than the message")
		}
		r.room -= len(text)
	}
	return unsafe.String(unsafe.SliceData(text), len(text))
}

// asUTF8 returns what decodeText describes, data itself if it is that already. A conversion
// is cut to limit bytes or slightly less.
func asUTF8(data []byte, name string, limit int, p *pace.Pace) []byte {
	if name = charsets.Sniffed(data, charsets.Name(name)); !charsets.Stateful(name) {
		data = withoutNUL(data)
	}
	return toUTF8(data, name, limit, p)
}

// toUTF8 does the same with NUL bytes, but where a conversion has none.
func toUTF8(data []byte, name string, limit int, p *pace.Pace) []byte {
	name = charsets.Name(name)
	if charsets.Stateful(name) {
		return convert(data, name, limit, p)
	}
	switch name {
	case "", "us-ascii", "ascii", "utf-8", "utf8", "unknown-8bit", "x-unknown":
		if utf8.Valid(data) {
			return data
		}
		if strings.HasPrefix(name, "utf") && mostlyUTF8(data) {
			return validUTF8(data, limit)
		}
		return windows1252(data, limit, p)
	case "iso-8859-1", "latin1", "windows-1252", "cp1252":
		return windows1252(data, limit, p)
	}
	if scan.ASCIIPrefix(data) == len(data) {
		return data
	}
	return convert(data, name, limit, p)
}

// validUTF8 returns text with U+FFFD for each run of bytes that are not UTF-8, cut to limit
// bytes or slightly less.
func validUTF8(text []byte, limit int) []byte {
	if utf8.Valid(text) {
		return text
	}
	size := 0
	eachRun(text, func(run []byte) bool { size += len(run); return true })
	out := make([]byte, 0, min(size, limit))
	eachRun(text, func(run []byte) bool {
		out = append(out, cutRune(run, limit-len(out))...)
		return len(out) < limit-utf8.UTFMax
	})
	return out
}

// eachRun calls visit with each run of UTF-8 in text, and with U+FFFD for each run
// of other bytes, until it returns false.
func eachRun(text []byte, visit func(run []byte) bool) {
	for len(text) > 0 {
		valid, n := 0, 0
		for valid < len(text) {
			r, size := utf8.DecodeRune(text[valid:])
			if r == utf8.RuneError && size == 1 {
				break
			}
			valid += size
		}
		if valid > 0 && !visit(text[:valid]) {
			return
		}
		text = text[valid:]
		for n < len(text) {
			if r, size := utf8.DecodeRune(text[n:]); r != utf8.RuneError || size > 1 {
				break
			}
			n++
		}
		if n > 0 && !visit([]byte("\uFFFD")) {
			return
		}
		text = text[n:]
	}
}

// cutRune cuts text to at most n bytes, not within a character.
func cutRune(text []byte, n int) []byte {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

func convert(data []byte, name string, limit int, p *pace.Pace) []byte {
	if charsets.IsUTF7(name) {
		return withoutNUL(validUTF8(charsets.FromUTF7(data, limit, p.Over), limit))
	}
	if text, as := charsets.Unshifted(data, name); as != name {
		if p.Over(len(data)) {
			return nil
		}
		data, name = text, as
	}
	from := charsets.Named(name)
	if from == nil {
		return asUTF8(data, "", limit, p)
	}
	size := len(data)
	if size > pace.Step {
		// Text of some charsets triples in UTF-8, so find out the size first.
		var counter countingWriter
		// An error comes again below.
		_, _ = io.Copy(&counter, from.NewDecoder().Reader(pace.Reader(bytes.NewReader(data), p)))
		size = counter.n
	}
	r := from.NewDecoder().Reader(pace.Reader(bytes.NewReader(data), p))
	var text bytes.Buffer
	text.Grow(min(size, limit) + bytes.MinRead)
	if _, err := io.Copy(&text, io.LimitReader(r, int64(limit))); err != nil {
		return asUTF8(data, "", limit, p)
	}
	out := text.Bytes()
	if len(out) == limit {
		out = cutRune(out, max(0, limit-utf8.UTFMax)) // the last character may be cut
	}
	return withoutNUL(validUTF8(out, limit))
}

func withoutNUL(text []byte) []byte {
	if bytes.IndexByte(text, 0) >= 0 {
		text = bytes.ReplaceAll(text, []byte{0}, nil)
	}
	return text
}

// A countingWriter counts bytes.
type countingWriter struct{ n int }

func (w *countingWriter) Write(b []byte) (int, error) {
	w.n += len(b)
	return len(b), nil
}

func windows1252(data []byte, limit int, p *pace.Pace) []byte {
	if scan.ASCIIPrefix(data) == len(data) {
		return data
	}
	size := len(data)
	for _, c := range data {
		if c >= utf8.RuneSelf {
			size += utf8.RuneLen(charmap.Windows1252.DecodeByte(c)) - 1
		}
	}
	text := make([]byte, 0, min(size, limit))
	for len(data) > 0 {
		if n := scan.ASCIIPrefix(data[:min(len(data), pace.Step, limit-len(text))]); n > 0 {
			if text, data = append(text, data[:n]...), data[n:]; p.Over(n) {
				break
			}
			continue
		}
		r := charmap.Windows1252.DecodeByte(data[0])
		if len(text)+utf8.RuneLen(r) > limit || p.Over(1) {
			break
		}
		text, data = utf8.AppendRune(text, r), data[1:]
	}
	return text
}

// mostlyUTF8 reports whether data holds more multi-byte sequences than errors.
func mostlyUTF8(data []byte) bool {
	good, bad := 0, 0
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		switch {
		case r == utf8.RuneError && n == 1:
			bad++
		case n > 1:
			good++
		}
		data = data[n:]
	}
	return good > bad
}
