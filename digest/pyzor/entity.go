package pyzor

import (
	"html"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// references are named references that were met lately. A page repeats few of them.
type references [64]knownReference

// A knownReference is what a name stands for.
type knownReference struct {
	name    uint64 // its letters and digits, and a semicolon behind them; 0 for none
	meaning [longestKnown + 2]rune
	size    int // of the meaning
}

// longestKnown is how many characters a name has at most that is kept.
const longestKnown = 7

// of returns what reference does. The meaning is its own, and lasts until it is asked again.
func (k *references) of(rest []byte) ([]rune, int) {
	name, n := uint64(0), 0
	for n < len(rest) && n < longestKnown && (asciiLetter(rune(rest[n])) || rest[n] >= '0' && rest[n] <= '9') {
		name = name<<8 | uint64(rest[n])
		n++
	}
	switch {
	case n == 0 || n < len(rest) && strings.IndexByte(endsReference, rest[n]) < 0:
		return reference(rest)
	case n < len(rest) && rest[n] == ';':
		name = name<<8 | ';'
		n++
	}
	const seed = 0x9E3779B97F4A7C15
	known := &k[name*seed>>(64-6)]
	if known.name != name {
		meaning, _ := reference(rest)
		known.name, known.size = name, copy(known.meaning[:], meaning)
	}
	return known.meaning[:known.size], n
}

// endsReference are the characters that end a name.
const endsReference = "\t\n\f <&#;"

// reference returns what "&" and the start of text, which is no number, mean by the rules of HTML
// 5 and how much of the text that takes.
func reference(rest []byte) ([]rune, int) {
	const longest = 32 // characters of a name
	name := make([]rune, 0, longest+1)
	n := 0 // bytes of them
	for n < len(rest) && len(name) < longest && strings.IndexByte(endsReference, rest[n]) < 0 {
		r, size := charAt(rest[n:])
		name = append(name, r)
		n += size
	}
	if n == 0 {
		return []rune{'&'}, 0
	}
	if n < len(rest) && rest[n] == ';' {
		n++
		if m := entityOf(string(name) + ";"); m != nil {
			return m, n
		}
		if m := entityOf(string(name)); m != nil {
			return append(m, ';'), n
		}
		name = append(name, ';')
	} else if m := entityOf(string(name)); m != nil {
		return m, n
	}
	const longestBare = 6 // characters of a name that needs no semicolon
	for x := min(len(name)-1, longestBare); x > 1; x-- {
		if m := entityOf(string(name[:x])); m != nil {
			return append(m, name[x:]...), n
		}
	}
	return append([]rune{'&'}, name...), n
}

// entityOf returns what a name of the HTML 5 table, with or without its
// semicolon, stands for, or nil.
func entityOf(name string) []rune {
	if strings.TrimFunc(name, func(r rune) bool {
		return asciiLetter(r) || r >= '0' && r <= '9' || r == ';'
	}) != "" {
		return nil
	}
	s := html.UnescapeString("&" + name)
	if s == "&"+name {
		return nil
	}
	// The library also resolves a name of which it knows only the beginning; then
	// the rest of the name is left, and at least its last character shows.
	meaning := []rune(s)
	if len(meaning) > 2 || len(meaning) == 2 && meaning[1] == rune(name[len(name)-1]) {
		return nil
	}
	return meaning
}

// numeric takes "#", digits and perhaps a semicolon, and returns what they mean, if that is anything, and
// their size, 0 if there are no digits.
func numeric(text []byte) (meaning rune, ok bool, n int) {
	i, base := 1, 10
	if i < len(text) && text[i]|0x20 == 'x' {
		i, base = 2, 16
	}
	start, num := i, 0
	for ; i < len(text); i++ {
		v := 99
		if d, ok := scan.Hex(text[i]); ok {
			v = int(d)
		}
		if v >= base {
			break
		}
		num = min(num*base+v, 0x110000)
	}
	if i == start {
		return 0, false, 0
	}
	if i < len(text) && text[i] == ';' {
		i++
	}
	meaning, ok = codePoint(num)
	return meaning, ok, i
}

// codePoint returns the character that a reference to num stands for, if there is one.
func codePoint(num int) (r rune, ok bool) {
	switch {
	case num == 0 || num >= 0xd800 && num <= 0xdfff || num > 0x10ffff:
		return '\uFFFD', true
	case num == '\r':
		return '\r', true
	case num >= 0x80 && num <= 0x9f:
		r, _ := utf8.DecodeRuneInString(html.UnescapeString("&#" + strconv.Itoa(num) + ";"))
		return r, true
	case num < 9, num == 0xb, num >= 0xe && num < 0x20, num == 0x7f,
		num >= 0xfdd0 && num <= 0xfdef, num&0xfffe == 0xfffe:
		return 0, false
	}
	return rune(num), true
}
