package pyzor

import (
	"html"
	"strconv"
	"strings"

	"github.com/bulkhead-mail/bulkhead/signature/internal/scan"
)

// commonReference returns what "&" and the start of text mean, and how much of the text that takes, if it is one of
// the most frequent references, else 0.
func commonReference(rest []byte) (meaning rune, n int) {
	for _, common := range [...]struct {
		name    string
		meaning rune
	}{{"nbsp;", 0xa0}, {"amp;", '&'}, {"lt;", '<'}, {"gt;", '>'}, {"quot;", '"'}} {
		if n := len(common.name); len(rest) >= n && string(rest[:n]) == common.name {
			return common.meaning, n
		}
	}
	return 0, 0
}

// reference returns what "&" and the start of text mean by the rules of HTML
// 5 and how much of the text that takes.
func reference(rest []byte) ([]rune, int) {
	if len(rest) > 0 && rest[0] == '#' {
		if meaning, n := numeric(rest); n > 0 {
			return meaning, n
		}
		return []rune{'&'}, 0
	}
	const longest = 32 // characters of a name
	name := make([]rune, 0, longest+1)
	n := 0 // bytes of them
	for n < len(rest) && len(name) < longest && strings.IndexByte("\t\n\f <&#;", rest[n]) < 0 {
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

// numeric takes "#", digits and perhaps a semicolon.
func numeric(text []byte) ([]rune, int) {
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
		return nil, 0
	}
	if i < len(text) && text[i] == ';' {
		i++
	}
	return codePoint(num), i
}

// codePoint returns the character that a reference to num stands for.
func codePoint(num int) []rune {
	switch {
	case num == 0 || num >= 0xd800 && num <= 0xdfff || num > 0x10ffff:
		return []rune{'\uFFFD'}
	case num == '\r':
		return []rune{'\r'}
	case num >= 0x80 && num <= 0x9f:
		return []rune(html.UnescapeString("&#" + strconv.Itoa(num) + ";"))
	case num < 9, num == 0xb, num >= 0xe && num < 0x20, num == 0x7f,
		num >= 0xfdd0 && num <= 0xfdef, num&0xfffe == 0xfffe:
		return nil
	}
	return []rune{rune(num)}
}
