package document

import (
	"bytes"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"

	"github.com/bulkhead-mail/bulkhead/internal/pace"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// glyphs are the characters of a font by their codes.
type glyphs struct {
	codes map[uint32]string
	width int // bytes of a code
}

// glyphs reads a ToUnicode map.
func (d *pdf) glyphs(source []byte) glyphs {
	g := glyphs{codes: make(map[uint32]string), width: 1}
	for d.left > 0 {
		i := bytes.Index(source, []byte("beginbf"))
		if i < 0 {
			break
		}
		source = source[i+len("beginbf"):]
		end := bytes.Index(source, []byte("endbf"))
		if end < 0 || d.pace.Over(end) {
			break
		}
		d.section(&g, source[:end], bytes.HasPrefix(source, []byte("range")))
		source = source[end:]
	}
	return g
}

// section reads characters: for each its code and text, or for ranges the first and last
// code with the first one's text, or with all their texts in brackets.
func (d *pdf) section(g *glyphs, source []byte, ranges bool) {
	next := func() ([]byte, bool) {
		i := bytes.IndexAny(source, "<[")
		if i < 0 {
			return nil, false
		}
		source = source[i:]
		if source[0] == '[' {
			return nil, true
		}
		s, n := pdfString(source)
		source = source[max(1, n):]
		return append([]byte{}, s...), n > 0
	}
	for d.left > 0 {
		from, ok := next()
		if !ok || len(from) == 0 {
			return
		}
		g.width = min(max(1, len(from)), 4)
		to := from
		if ranges {
			if to, ok = next(); !ok || len(to) == 0 {
				return
			}
		}
		text, ok := next()
		if !ok {
			return
		}
		first, last := codeOf(from), codeOf(to)
		if text == nil { // of all in brackets
			source = source[1:]
			for c := first; c <= last && d.left > 0; c++ {
				if text, ok = next(); !ok || text == nil {
					return
				}
				d.left--
				g.codes[c] = fromUTF16(text)
			}
			continue
		}
		text = text[:min(len(text), maxCluster)]
		for c := first; c <= last && c-first < 1<<16 && d.left > 0; c++ {
			d.left--
			g.codes[c] = fromUTF16(text)
			if n := len(text); n > 0 {
				text[n-1]++
			}
		}
	}
}

func codeOf(b []byte) (code uint32) {
	for _, c := range b[:min(len(b), 4)] {
		code = code<<8 | uint32(c)
	}
	return code
}

func fromUTF16(b []byte) string {
	var units []uint16
	for i := 0; i+1 < min(len(b), maxCluster); i += 2 {
		units = append(units, uint16(b[i])<<8|uint16(b[i+1]))
	}
	return string(utf16.Decode(units))
}

// maxString is how far the end of a string is searched for, and maxCluster how long the text
// of one code may be, in bytes.
const (
	maxString  = 32 << 10
	maxCluster = 16
)

// pdfString reads a string at the start of text, in parentheses or hexadecimal, and returns
// its length in the source, 0 if there is none. If it has no end, there is no string, and n
// is how much was looked at, so that nothing is read twice.
func pdfString(text []byte) (s []byte, n int) {
	text = text[:min(len(text), maxString)]
	switch {
	case len(text) > 0 && text[0] == '(':
		return parenthesised(text)
	case len(text) > 1 && text[0] == '<' && text[1] != '<':
		end := bytes.IndexByte(text, '>')
		if end < 0 {
			return nil, len(text)
		}
		return hexadecimal(text[1:end]), end + 1
	}
	return nil, 0
}

// hexadecimal returns the bytes that the digits in text stand for. A last one that is missing is 0.
func hexadecimal(text []byte) (s []byte) {
	half, odd := byte(0), false
	for _, c := range text {
		if v, ok := scan.Hex(c); ok {
			if half = half<<4 | v; odd {
				s = append(s, half)
			}
			odd = !odd
		}
	}
	if odd {
		s = append(s, half<<4)
	}
	return s
}

func parenthesised(text []byte) (s []byte, n int) {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '\\':
			if i++; i == len(text) {
				return nil, len(text)
			}
			switch c := text[i]; {
			case c >= '0' && c <= '7':
				v := 0
				for k := 0; k < 3 && i < len(text) && text[i] >= '0' && text[i] <= '7'; k++ {
					v = v<<3 | int(text[i]-'0')
					i++
				}
				i--
				s = append(s, byte(v))
			case c == 'n' || c == 'r':
				s = append(s, '\n')
			case c == '\n' || c == '\r':
			default:
				s = append(s, c)
			}
		case '(':
			if depth++; depth > 1 {
				s = append(s, c)
			}
		case ')':
			if depth--; depth == 0 {
				return s, i + 1
			}
			s = append(s, c)
		default:
			s = append(s, c)
		}
	}
	return nil, len(text)
}

// A shower runs a content stream as far as it shows text.
type shower struct {
	dst   []byte
	fonts map[string]glyphs
	font  glyphs
	pace  *pace.Pace

	operands []operand
	line     float64 // height of the line that is shown
}

// An operand is a number, a string or a name.
type operand struct {
	number float64
	text   []byte // nil for a number
	name   bool
}

// maxOperands is how many operands are kept: a longer array of strings is shown in
// pieces.
const maxOperands = 64

// show reads source to its end.
func (t *shower) show(source []byte) {
	for at := 0; at < len(source) && len(t.dst) < maxText; {
		n := t.token(source[at:])
		if t.pace.Over(n) {
			return
		}
		at += n
	}
}

// token takes what is at the start of source, and returns how long it is.
func (t *shower) token(source []byte) int {
	switch c := source[0]; {
	case c == '(' || c == '<':
		s, n := pdfString(source)
		if n == 0 {
			return 1
		}
		t.push(operand{text: append([]byte{}, s...)})
		return n
	case c == '/':
		n := word(source[1:]) + 1
		t.push(operand{text: source[1:n], name: true})
		return n
	case c == '%':
		if i := bytes.IndexAny(source, "\r\n"); i > 0 {
			return i
		}
		return len(source)
	case c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.':
		n := max(1, word(source))
		v, _ := strconv.ParseFloat(string(source[:min(n, 32)]), 64)
		t.push(operand{number: v})
		return n
	case scan.IsLetter(c) || c == '\'' || c == '"':
		n := max(1, word(source))
		t.operator(source[:n])
		t.operands = t.operands[:0]
		return n
	}
	return 1
}

func (t *shower) push(o operand) {
	if len(t.operands) == maxOperands {
		t.strings()
		t.operands = t.operands[:0]
	}
	t.operands = append(t.operands, o)
}

// word returns how long the word at the start of source is.
func word(source []byte) int {
	if n := bytes.IndexAny(source, " \t\r\n\f\x00()<>[]{}/%"); n >= 0 {
		return n
	}
	return len(source)
}

// operator runs an operator.
func (t *shower) operator(name []byte) {
	n := len(t.operands)
	switch string(name) {
	case "Tj", "TJ":
		t.strings()
	case "'", "\"":
		t.newLine()
		t.strings()
	case "T*", "ET":
		t.newLine()
	case "Td", "TD":
		if n >= 2 {
			t.move(t.line + t.operands[n-1].number)
		}
	case "Tm":
		if n >= 6 {
			t.move(t.operands[n-1].number)
		}
	case "Tf":
		if n >= 2 && t.operands[n-2].name {
			t.font = t.fonts[string(t.operands[n-2].text)]
		}
	}
}

// move goes to another place: on the same line it is another word at least.
func (t *shower) move(line float64) {
	if math.Abs(line-t.line) > 0.5 {
		t.newLine()
	} else {
		t.space()
	}
	t.line = line
}

func (t *shower) newLine() {
	if n := len(t.dst); n > 0 && t.dst[n-1] != '\n' {
		t.dst = append(t.dst, '\n')
	}
}

func (t *shower) space() {
	if n := len(t.dst); n > 0 && t.dst[n-1] > ' ' {
		t.dst = append(t.dst, ' ')
	}
}

// wide is the number in an array of strings, in thousandths of the size of letters, from
// which a gap counts as a space: negative numbers move the next string to the right.
const wide = -180

// strings shows the strings among the operands.
func (t *shower) strings() {
	for _, o := range t.operands {
		switch {
		case o.name:
		case o.text != nil:
			t.glyphs(o.text)
		case o.number < wide:
			t.space()
		}
	}
}

func (t *shower) glyphs(codes []byte) {
	if t.font.codes == nil {
		for _, c := range codes {
			if c >= ' ' {
				t.dst = utf8.AppendRune(t.dst, charmap.Windows1252.DecodeByte(c))
			}
		}
		return
	}
	for w := t.font.width; len(codes) >= w; codes = codes[w:] {
		t.dst = append(t.dst, t.font.codes[codeOf(codes[:w])]...)
	}
}
