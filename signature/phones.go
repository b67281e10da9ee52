package signature

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// The bounds of a telephone number, in digits.
const (
	minPhone = 9
	maxPhone = 15 // ITU-T E.164
)

// phone returns the telephone number at the start of text, as its national digits
// without zeros before them, and how many bytes it takes; 0 if there is none, as it
// is with what may be any other number. before is what stands before it. It has 9 to
// 15 digits and
//   - begins with a plus sign, or with 00 and is written in groups; or
//   - is written as in North America, (555) 010-9999, perhaps behind a 1; or
//   - begins with a zero and is written in two to five groups, 01632 960 000, with
//     the same sign between all but the first two.
func phone(text []byte, before byte) (number string, size int) {
	if joined(before) || !mayBegin(text) {
		return "", 0
	}
	var g groups
	g.read(text)
	if g.size < len(text) && joined(text[g.size]) && strings.IndexByte("-.", text[g.size]) < 0 {
		return "", 0
	}
	n := len(g.digits)
	if n < minPhone || n > maxPhone {
		return "", 0
	}
	all := string(g.digits)
	switch {
	case g.plus:
		if all[0] != '0' && !g.decimal() {
			number = national(all)
		}
	case strings.HasPrefix(all, "00") && all[2] != '0' && len(g.sizes) > 1:
		number = national(all[2:])
	case g.northAmerican():
		number = all[n-10:]
	case all[0] == '0' && all[1] != '0' && n <= 12 && g.sizes[0] >= 2 && g.sizes[0] <= 6 && g.uniform() && !g.zip():
		number = all[1:]
	}
	if number == "" {
		return "", 0
	}
	return number, g.size
}

// mayBegin reports whether a telephone number may be at the start of text. Nearly
// all digits of a message begin none, and need not be read as if they did.
func mayBegin(text []byte) bool {
	if len(text) < minPhone {
		return false
	}
	asciiDigit := func(c byte) bool { return '0' <= c && c <= '9' }
	switch c := text[0]; {
	case c == '+' || c == '(':
		return slices.ContainsFunc(text[1:4], func(c byte) bool { return asciiDigit(c) || c >= 0x80 })
	case c == '0':
		return asciiDigit(text[1]) || text[1] >= 0x80
	case c == '1':
		return !asciiDigit(text[1])
	case asciiDigit(c):
		return !asciiDigit(text[3]) && (asciiDigit(text[2]) || text[1] >= 0x80 || text[2] >= 0x80)
	}
	r, _ := scan.Rune(text)
	_, ok := digit(r)
	return ok
}

// joined reports whether c joins what is on both sides of it: to a word, an identifier, a
// link or an amount.
func joined(c byte) bool { return alphanumeric(c) || strings.IndexByte("_-.=/#&%$@\\", c) >= 0 }

// groups are groups of digits and the signs between them.
type groups struct {
	digits []byte
	sizes  []byte // how many digits each has
	signs  []byte // what stands between them
	plus   bool   // a plus sign stands before them
	size   int    // bytes of text up to the last digit

	room [3][maxPhone + 1]byte // of the above: most numbers are none, and there may be many
}

// maxGap is how many bytes may stand between two groups.
const maxGap = 8

// read reads the groups of digits at the start of text, one digit more than a
// telephone number has at most. Two groups are parted by spaces and parentheses,
// and one other sign at most.
func (g *groups) read(text []byte) {
	g.digits, g.sizes, g.signs = g.room[0][:0], g.room[1][:0], g.room[2][:0]
	var sign byte
	for at := 0; at < len(text) && at-g.size <= maxGap && len(g.digits) <= maxPhone; {
		r, width := utf8.DecodeRune(text[at:])
		at += width
		if d, ok := digit(r); ok {
			switch {
			case len(g.digits) == 0:
				g.sizes = append(g.sizes, 0)
			case sign != 0:
				g.sizes, g.signs = append(g.sizes, 0), append(g.signs, sign)
			}
			sign = 0
			g.digits = append(g.digits, '0'+d)
			g.sizes[len(g.sizes)-1]++
			g.size = at
			continue
		}
		switch s := separator(r); {
		case r == '+' && len(g.digits) == 0 && !g.plus:
			g.plus = true
		case s == ' ' && sign == 0 || s != 0 && s != ' ' && (sign == 0 || sign == ' '):
			sign = s
		case s == ' ' || invisible(r):
		default:
			return
		}
	}
}

// digit returns the value of a digit, also of those that look like one of ASCII.
func digit(r rune) (byte, bool) {
	switch {
	case '0' <= r && r <= '9':
		return byte(r - '0'), true
	case r >= 0xff10 && r <= 0xff19: // full width
		return byte(r - 0xff10), true
	case r >= 0x1d7ce && r <= 0x1d7ff: // mathematical
		return byte((r - 0x1d7ce) % 10), true
	}
	return 0, false
}

// separator returns the sign that r is between groups of digits, 0 for none.
func separator(r rune) byte {
	switch r {
	case ' ', '\t', '(', ')', '\u00a0', '\u2009', '\u202f':
		return ' '
	case '-', '\u2010', '\u2011', '\u2012', '\u2013', '\u2014', '\u2212':
		return '-'
	case '.', '/':
		return byte(r)
	}
	return 0
}

// northAmerican reports whether the groups are 3, 3 and 4, perhaps behind a 1, and
// the first is a code of an area there.
func (g *groups) northAmerican() bool {
	if len(g.digits) == 11 && g.sizes[0] == 1 && g.digits[0] == '1' {
		g = &groups{digits: g.digits[1:], sizes: g.sizes[1:], signs: g.signs[1:]}
	}
	return len(g.digits) == 10 && len(g.sizes) == 3 && g.sizes[0] == 3 && g.sizes[1] == 3 && g.digits[0] > '1' &&
		g.uniform()
}

// uniform reports whether there are two to five groups, and one sign stands between
// all but the first two, where a space, or a dash or stroke behind a code, may stand.
func (g *groups) uniform() bool {
	if len(g.sizes) < 2 || len(g.sizes) > 5 {
		return false
	}
	last := g.signs[len(g.signs)-1]
	for _, s := range g.signs[1:] {
		if s != last || s == '/' {
			return false
		}
	}
	return g.signs[0] != '.' || last == '.' && len(g.signs) != 2 || g.sizes[0] == 3
}

// decimal reports whether points stand beside other signs, as in a row of prices.
func (g *groups) decimal() bool {
	if len(g.signs) < 2 || !slices.Contains(g.signs[1:], '.') {
		return false
	}
	return slices.ContainsFunc(g.signs[1:], func(s byte) bool { return s != '.' })
}

// zip reports whether the groups are a postal code of the United States.
func (g *groups) zip() bool { return len(g.sizes) == 2 && g.sizes[0] == 5 && g.sizes[1] == 4 }

// national returns the digits of an international number without the code of its
// country and without zeros before them.
//
// Source: ITU-T E.164, list of assigned country codes: their lengths.
func national(digits string) string {
	code := 3
	switch {
	case digits[0] == '1' || digits[0] == '7':
		code = 1
	case strings.Contains(" 20 27 30 31 32 33 34 36 39 40 41 43 44 45 46 47 48 49"+
		" 51 52 53 54 55 56 57 58 60 61 62 63 64 65 66 81 82 84 86 90 91 92 93 94 95 98 ",
		" "+digits[:2]+" "):
		code = 2
	}
	return strings.TrimLeft(digits[code:], "0")
}
