package mail

import (
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// Results of a guess for text that is not UTF-8, if the result is not the name of a charset.
const (
	isWestern = "windows-1252"
	isLatin   = "iso-8859-1" // what has no bytes of windows-1252 alone
	isUTF8    = "utf-8"      // for the most part
)

// guess returns the charset that rspamd assumes for text that is not UTF-8, or "" for none. Of a
// long text it reads the first, middle and last bytes. Two of these pieces must agree; otherwise
// the first piece that is not ASCII decides.
func guess(text []byte) string {
	const piece = 512
	if len(text) < 3*piece {
		if of := guessOf(text); of != isLatin && of != "" {
			return of
		}
		return isWestern
	}
	middle := len(text) / 2
	first, middling, last := guessOf(text[:piece]), guessOf(text[middle:middle+piece]), guessOf(text[len(text)-piece:])
	if first == "" {
		if first = middling; first == "" {
			first = last
		}
	}
	if middling == "" {
		if middling = last; middling == "" {
			middling = first
		}
	}
	if last == "" {
		last = middling
	}
	if middling == last {
		return middling
	}
	return first
}

// guessOf guesses the charset of a piece of text, "" for one that is ASCII.
func guessOf(piece []byte) string {
	if scan.ASCIIPrefix(piece) == len(piece) {
		return ""
	}
	if mostlyUTF8(piece) {
		return isUTF8
	}
	if name := wideCharset(piece); name != "" {
		return name
	}
	if name := letterCharset(piece); name != "" {
		return name
	}
	for _, c := range piece {
		if 0x80 <= c && c < 0xA0 {
			return isWestern
		}
	}
	return isLatin
}

// A wide describes a charset with characters of two bytes.
type wide struct {
	name         string
	from, to     byte // first bytes of frequent characters
	frequent     int  // least share of those, in percent
	low          int  // least share of characters whose second byte is ASCII
	first, least byte // first bytes of all are from here on, and second ones
}

var wides = [...]wide{
	{"euc-jp", 0xA4, 0xA5, 25, 0, 0xA1, 0xA1}, {"euc-kr", 0xB0, 0xC8, 85, 0, 0xA1, 0xA1},
	{"gb18030", 0xB0, 0xD7, 60, 0, 0xA1, 0xA1},
	{"shift_jis", 0x82, 0x83, 25, 0, 0x81, 0x40}, {"big5", 0xA4, 0xC6, 60, 15, 0xA1, 0x40},
}

// wideCharset returns the name of the charset among them that text is in, or "" for none.
func wideCharset(text []byte) string {
	const fewest, most = 6, 100 // characters; percent
	for i := range &wides {
		w := &wides[i]
		all, frequent, low, bad := 0, 0, 0, 0
		for at := 0; at < len(text); at++ {
			c := text[at]
			if c < 0x80 {
				continue
			}
			all++
			if at++; at == len(text) {
				break // torn
			}
			switch d := text[at]; {
			case c < w.first || d < w.least || d == 0x7F:
				bad++
				at--
			case w.from <= c && c <= w.to:
				frequent++
				fallthrough
			default:
				if d < 0x80 {
					low++
				}
			}
		}
		if all >= fewest && frequent*most >= w.frequent*all && low*most >= w.low*all && bad*32 <= all {
			return w.name
		}
	}
	return ""
}

// letterCharsets are charsets of scripts other than Latin, each with the frequent letters of one
// language.
var letterCharsets = [...][2]string{
	{"koi8-u", "\xcf\xc5\xc1\xc9\xce\xd4\xd3\xd2\xd7\xcc"}, {"windows-1251",
		"\xee\xe5\xe0\xe8\xed\xf2\xf1\xf0\xe2\xeb"}, {"iso-8859-5", "\xde\xd5\xd0\xd8\xdd\xe2\xe1\xe0\xd2\xdb"},
	{"iso-8859-7", "\xe1\xef\xe9\xe5\xf4\xf3\xed\xe7\xf2\xf1\xf0\xdf\xdc"},
	{"windows-1255", "\xe5\xe9\xe4\xec\xe0\xf8\xfa\xf9\xed\xee\xe1"},
	{"windows-1256", "\xc7\xe1\xed\xe3\xe4\xe6\xd1\xca\xc8\xcf\xda"},
}

// letterCharset returns the name of the charset among them that text is in, or "" for none: all
// words of the text consist of such letters.
func letterCharset(text []byte) string {
	const fewest = 10 // letters
	all, mixed := 0, 0
	var times [256]int
	for i, c := range text {
		if c < 0x80 {
			continue
		}
		times[c]++
		all++
		if i > 0 && scan.IsLetter(text[i-1]) || i+1 < len(text) && scan.IsLetter(text[i+1]) {
			mixed++
		}
	}
	if all < fewest || mixed*10 > all {
		return ""
	}
	best, most := "", all/2
	for _, c := range &letterCharsets {
		n := 0
		for i := range len(c[1]) {
			n += times[c[1][i]]
		}
		if n > most {
			best, most = c[0], n
		}
	}
	return best
}
