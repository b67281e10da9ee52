package pyzor

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/bulkhead-mail/bulkhead/internal/pace"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// ignoreErrors, as the replacement of bytes that do not fit, drops them.
const ignoreErrors rune = -1

// undefined marks bytes without meaning in singleTables.
const undefined = '\uFFFE'

// A sink passes on decoded text and counts decoding errors.
type sink struct {
	put  func(rune)   // receives one character
	run  func([]byte) // receives several ASCII characters
	text func(string) // receives several characters; nil to use put
	bad  int          // number of errors
	with rune         // replacement for errors, see ignoreErrors
	pace *pace.Pace

	lines *liner // receives the characters; nil for another receiver
	from  int    // start of decoding, in bytes
	size  int    // of the whole input
	at    int    // index from which decoding could restart to get the text passed on now; -1 for none
}

// over reports n bytes of work to the pace, and whether the rest is impossible or not needed.
func (s *sink) over(n int) bool { return s.pace.Over(n) || s.lines != nil && s.lines.done() }

// ascii passes on the ASCII characters at the start of b and returns their number. It reports
// whether the pace has ended.
func (s *sink) ascii(b []byte) (n int, over bool) {
	n = scan.ASCIIPrefix(b[:min(len(b), pace.Step)])
	if n > 0 {
		if s.over(n) {
			return 0, true
		}
		s.run(b[:n])
	}
	return n, false
}

func (s *sink) puts(text string) {
	if s.text != nil {
		s.text(text)
		return
	}
	for _, r := range text {
		s.put(r)
	}
}

func (s *sink) error() {
	s.bad++
	if s.with != ignoreErrors {
		s.put(s.with)
	}
}

// keepsASCII reports whether ASCII bytes always mean ASCII characters in a codec.
func keepsASCII(codec string) bool {
	switch codec {
	case "ascii", "latin_1", "utf_8", "utf_8_sig":
		return true
	}
	if table, ok := singleTables[codec]; ok {
		return utf8.RuneCountInString(table) == 128
	}
	_, ok := pairTables[codec]
	return ok
}

// decode decodes b from s.from on. Each invalid stretch counts as one error and is replaced by
// s.with, see ignoreErrors.
func (s *sink) decode(b []byte, codec string) {
	s.size = len(b)
	switch codec {
	case "utf_8_sig":
		if s.from == 0 {
			b = bytes.TrimPrefix(b, []byte("\uFEFF"))
		}
	case "utf_16", "utf_16_le", "utf_16_be", "utf_32", "utf_32_le", "utf_32_be":
		s.wide(b, codec)
		return
	}
	b = b[s.from:]
	if table, ok := singleTables[codec]; ok {
		s.single(b, []rune(table))
		return
	}
	if _, ok := pairTables[codec]; ok {
		s.pairs(b, codec)
		return
	}
	switch codec {
	case "ascii", "latin_1":
		for len(b) > 0 {
			s.at = s.size - len(b)
			n, over := s.ascii(b)
			if b = b[n:]; over || s.over(1) {
				return
			}
			s.at += n
			switch {
			case len(b) == 0 || b[0] < 0x80:
				continue
			case codec == "ascii":
				s.error()
			default:
				s.put(rune(b[0]))
			}
			b = b[1:]
		}
	case "utf_8", "utf_8_sig":
		s.utf8(b)
	case "utf_7":
		s.utf7(b)
	default:
		s.iso2022(b, codec)
	}
}

// codecOf looks up a charset like the client. Letters, digits and dots count, any sequence of other
// characters is one underscore.
func codecOf(charset string) (string, bool) {
	var norm strings.Builder
	gap := false
	for _, c := range charset {
		if c == 0 {
			return "", false
		}
		if c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c == '.' {
			if gap && norm.Len() > 0 {
				norm.WriteByte('_')
			}
			norm.WriteRune(c)
			gap = false
		} else {
			gap = true
		}
	}
	name := lowerASCII(norm.String())
	codec, ok := charsets[name]
	if !ok {
		name = strings.ReplaceAll(name, ".", "_")
		codec, ok = charsets[name]
		ok = ok && !slices.Contains(undotted, name)
	}
	return codec, ok
}

// named returns the codec of each name, from the names of each codec.
func named(names map[string]string) map[string]string {
	codecs := make(map[string]string)
	for codec, all := range names {
		for name := range strings.FieldsSeq(all) {
			codecs[name] = codec
		}
	}
	return codecs
}

func (s *sink) single(b []byte, table []rune) {
	first := 256 - len(table) // bytes below are ASCII
	for len(b) > 0 {
		s.at = s.size - len(b)
		if first > 0 && b[0] < 0x80 {
			n, over := s.ascii(b)
			if over {
				return
			}
			b = b[n:]
			continue
		}
		if s.over(1) {
			return
		}
		if r := table[int(b[0])-first]; r != undefined {
			s.put(r)
		} else {
			s.error()
		}
		b = b[1:]
	}
}

func (s *sink) utf8(b []byte) {
	for len(b) > 0 {
		s.at = s.size - len(b)
		if b[0] < utf8.RuneSelf {
			n, over := s.ascii(b)
			if over {
				return
			}
			b = b[n:]
			continue
		}
		if s.over(1) {
			return
		}
		r, n := utf8.DecodeRune(b)
		if r != utf8.RuneError || n > 1 {
			s.put(r)
			b = b[n:]
			continue
		}
		// The longest beginning of a valid sequence is one error.
		n = 1
		for n < 4 && n < len(b) && utf8.RuneStart(b[0]) && !utf8.FullRune(b[:n]) && !utf8.FullRune(b[:n+1]) {
			n++
		}
		if n < len(b) && !utf8.FullRune(b[:n]) && b[n]&0xc0 == 0x80 && n+1 < len(b) && !utf8.FullRune(b[:n+1]) {
			n++
		}
		s.error()
		b = b[n:]
	}
}

// utf7 decodes RFC 2152 as leniently as the client.
func (s *sink) utf7(b []byte) {
	var shifted bool
	var buffer uint32
	var bits int
	var high rune // first half of a surrogate pair, or 0
	for i := 0; i < len(b); {
		if s.over(1) {
			return
		}
		c := b[i]
		if s.at = s.size - len(b) + i; shifted {
			s.at = -1
		}
		switch {
		case shifted:
			v, ok := scan.Digit64(c)
			if c == '=' || !ok {
				shifted = false
				if bits >= 6 || bits > 0 && buffer != 0 {
					i++
					s.error()
					continue
				}
				if high != 0 && c < 0x80 && c != '+' {
					s.put(high)
				}
				high = 0
				if c == '-' {
					i++
				}
				continue
			}
			buffer, bits, i = buffer<<6|uint32(v), bits+6, i+1
			if bits >= 16 {
				bits -= 16
				high = s.unit(rune(buffer>>bits), high)
				buffer &= 1<<bits - 1
			}
		case c == '+':
			i++
			switch {
			case i < len(b) && b[i] == '-':
				i++
				s.put('+')
			case i < len(b) && !base64Char(b[i]):
				i++
				s.error()
			default:
				shifted, high, bits, buffer = true, 0, 0, 0
			}
		case c < 0x80:
			s.put(rune(c))
			i++
		default:
			i++
			s.error()
		}
	}
	if shifted && (high != 0 || bits >= 6 || bits > 0 && buffer != 0) {
		s.error()
	}
}

func base64Char(c byte) bool {
	_, ok := scan.Digit64(c)
	return ok && c != '='
}

// unit reads one UTF-16 unit. It returns the first half of a surrogate pair that waits for the second.
func (s *sink) unit(u, high rune) rune {
	if high != 0 {
		if u >= 0xdc00 && u <= 0xdfff {
			s.put(utf16.DecodeRune(high, u))
			return 0
		}
		s.put(high)
	}
	if u >= 0xd800 && u <= 0xdbff {
		return u
	}
	s.put(u)
	return 0
}

// wide decodes UTF-16 and UTF-32; without a byte order mark they are little endian.
func (s *sink) wide(b []byte, codec string) {
	size := 2
	var order binary.ByteOrder = binary.LittleEndian
	little, big := "\xff\xfe", "\xfe\xff"
	if strings.HasPrefix(codec, "utf_32") {
		size, little, big = 4, "\xff\xfe\x00\x00", "\x00\x00\xfe\xff"
	}
	switch {
	case strings.HasSuffix(codec, "be"):
		order = binary.BigEndian
	case strings.HasSuffix(codec, "le"):
	case bytes.HasPrefix(b, []byte(little)):
		b = b[size:]
	case bytes.HasPrefix(b, []byte(big)):
		b, order = b[size:], binary.BigEndian
	}
	if s.from > 0 {
		b = b[len(b)-(s.size-s.from):]
	}
	if size == 4 {
		s.utf32(b, order)
	} else {
		s.utf16(b, order)
	}
}

func (s *sink) utf32(b []byte, order binary.ByteOrder) {
	for ; len(b) >= 4 && !s.over(4); b = b[4:] {
		s.at = s.size - len(b)
		if r := order.Uint32(b); r > utf8.MaxRune || r >= 0xd800 && r <= 0xdfff {
			s.error()
		} else {
			s.put(rune(r))
		}
	}
	if len(b) > 0 {
		s.error()
	}
}

func (s *sink) utf16(b []byte, order binary.ByteOrder) {
	for ; len(b) >= 2 && !s.over(2); b = b[2:] {
		s.at = s.size - len(b)
		r := rune(order.Uint16(b))
		switch {
		case r < 0xd800 || r > 0xdfff:
			s.put(r)
		case r >= 0xdc00:
			s.error()
		case len(b) < 4:
			s.error() // the second half is missing
			return
		default:
			if low := rune(order.Uint16(b[2:])); low >= 0xdc00 && low <= 0xdfff {
				s.put(utf16.DecodeRune(r, low))
				b = b[2:]
			} else {
				s.error()
			}
		}
	}
	if len(b) > 0 {
		s.error()
	}
}

// decodeNamed decodes b. Each invalid stretch counts as one error and is replaced by with, see
// ignoreErrors. It reports false for an unknown charset.
func decodeNamed(b []byte, charset string, with rune) (text []rune, bad int, known bool) {
	codec, ok := codecOf(charset)
	if !ok {
		return nil, 0, false
	}
	s := &sink{
		with: with,
		put:  func(r rune) { text = append(text, r) },
		run:  func(ascii []byte) { text = append(text, []rune(string(ascii))...) },
	}
	s.decode(b, codec)
	return text, s.bad, true
}
