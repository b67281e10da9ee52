package signature

import (
	"crypto/sha1"
	"encoding/hex"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
)

// PyzorEmpty is the digest of a mail in which no line survives: very many
// unrelated mails share it, so nothing must ever be learnt about it.
const PyzorEmpty = "da39a3ee5e6b4b0d3255bfef95601890afd80709"

// Pyzor returns the digest that the Pyzor client of Debian 12 (pyzor 1.0.0 on
// Python 3.11) sends for a mail, or no signature if the digest is [PyzorEmpty]
// or if that client breaks on the mail and sends none. It never fails, whatever
// the bytes. Source: docs/specs/pyzor.md#digest.
func Pyzor(raw []byte) []bulkhead.Signature {
	sum, ok := PyzorSum(raw)
	if !ok || hex.EncodeToString(sum[:]) == PyzorEmpty {
		return nil
	}
	return []bulkhead.Signature{bulkhead.MustSignature(bulkhead.PyzorDigest, sum[:])}
}

// PyzorSum returns the digest itself, the empty one included. It reports false
// where the client stops with an error of its own: marked sections of an unknown
// kind in HTML, and parameters that its MIME library cannot put in order.
func PyzorSum(raw []byte) (sum [sha1.Size]byte, ok bool) {
	lines, ok := PyzorLines(raw)
	if !ok {
		return sum, false
	}
	h := sha1.New()
	for _, l := range lines {
		h.Write([]byte(l))
	}
	return [sha1.Size]byte(h.Sum(nil)), true
}

// PyzorLines returns the lines that are hashed, in order, as "pyzor predigest"
// prints them: docs/specs/pyzor.md#lines to #selection.
func PyzorLines(raw []byte) (lines []string, ok bool) {
	texts, ok := pyzorTexts(raw)
	if !ok {
		return nil, false
	}
	var kept []pyzorSpan
	for i, text := range texts {
		if text.ascii {
			kept = pyzorKeep(text.bytes, i, kept)
		} else {
			kept = pyzorKeep(text.runes, i, kept)
		}
	}
	// Few of them are asked for, so few are written out.
	wanted := [][]pyzorSpan{kept}
	if len(kept) > 4 {
		wanted = wanted[:0]
		for _, percent := range []int{20, 60} {
			start := percent * len(kept) / 100
			wanted = append(wanted, kept[start:min(start+3, len(kept))])
		}
	}
	for _, spans := range wanted {
		for _, span := range spans {
			if text := texts[span.text]; text.ascii {
				lines = append(lines, string(pyzorNormalise(text.bytes[span.start:span.end])))
			} else {
				lines = append(lines, pyzorEncode(pyzorNormalise(text.runes[span.start:span.end])))
			}
		}
	}
	return lines, true
}

// A pyzorContent is what a part contributes: characters, as bytes if all of them are
// ASCII.
type pyzorContent struct {
	ascii bool
	bytes []byte
	runes []rune
}

// A pyzorSpan is a line of a text.
type pyzorSpan struct{ text, start, end int }

// pyzorMinLine is the number of characters of a normalised line that counts.
const pyzorMinLine = 8

// pyzorKeep cuts a text into lines and adds those to kept that are long after
// normalisation.
func pyzorKeep[T byte | rune](text []T, number int, kept []pyzorSpan) []pyzorSpan {
	for start, i := 0, 0; i <= len(text); i++ {
		if i < len(text) && !pyzorLineEnd(text[i]) {
			continue
		}
		if pyzorLong(text[start:i]) {
			kept = append(kept, pyzorSpan{number, start, i})
		}
		// CR LF gives an empty line between its two, which is never kept.
		start = i + 1
	}
	return kept
}

// pyzorLong reports whether pyzorNormalise leaves pyzorMinLine characters of a
// line. Of most lines it looks at a few words.
func pyzorLong[T byte | rune](line []T) bool {
	n := 0
	for i := 0; i < len(line) && n < pyzorMinLine; {
		if pyzorSpace(line[i]) {
			i++
			continue
		}
		end := i
		for end < len(line) && !pyzorSpace(line[end]) {
			end++
		}
		if word := line[i:end]; len(word) < 10 && !pyzorAddress(word) {
			n += pyzorURL(word)
		}
		i = end
	}
	return n >= pyzorMinLine
}

// pyzorEncode returns text as UTF-8. Halves of surrogate pairs, which a few
// charsets let through, have counted as characters and vanish here.
func pyzorEncode(text []rune) string {
	return string(slices.DeleteFunc(text, func(r rune) bool { return r >= 0xd800 && r <= 0xdfff }))
}

// What an ASCII character is to Pyzor.
const (
	pyzorIsSpace = 1 << iota
	pyzorIsEnd   // of a line
)

var pyzorClass = func() (table [128]uint8) {
	table[' '], table[0x1f] = pyzorIsSpace, pyzorIsSpace
	for _, c := range []byte("\n\v\f\r\x1c\x1d\x1e") {
		table[c] = pyzorIsSpace | pyzorIsEnd
	}
	table['\t'] = pyzorIsSpace
	return table
}()

// pyzorLineEnd says whether r ends a line: docs/specs/pyzor.md#lines.
func pyzorLineEnd[T byte | rune](r T) bool {
	if r < 0x80 && r >= 0 {
		return pyzorClass[r&0x7f]&pyzorIsEnd != 0
	}
	return rune(r) == 0x85 || rune(r) == 0x2028 || rune(r) == 0x2029
}

// pyzorSpace says whether r is white space: docs/specs/pyzor.md#normalisation.
func pyzorSpace[T byte | rune](c T) bool {
	if c < 0x80 && c >= 0 {
		return pyzorClass[c&0x7f]&pyzorIsSpace != 0
	}
	switch r := rune(c); {
	case r == 0x85, r == 0xa0, r == 0x1680, r >= 0x2000 && r <= 0x200a, r == 0x2028, r == 0x2029, r == 0x202f, r == 0x205f, r == 0x3000:
		return true
	}
	return false
}

// pyzorNormalise removes from a line, in this order: words of ten or more
// characters, addresses, URLs, white space. Source:
// docs/specs/pyzor.md#normalisation.
func pyzorNormalise[T byte | rune](line []T) []T {
	var out []T
	for i := 0; i < len(line); {
		if pyzorSpace(line[i]) {
			i++
			continue
		}
		end := i
		for end < len(line) && !pyzorSpace(line[end]) {
			end++
		}
		if word := line[i:end]; len(word) < 10 && !pyzorAddress(word) {
			out = append(out, word[:pyzorURL(word)]...)
		}
		i = end
	}
	return out
}

// pyzorAddress says whether a word has an "@" within.
func pyzorAddress[T byte | rune](word []T) bool {
	for i := 1; i < len(word)-1; i++ {
		if word[i] == '@' {
			return true
		}
	}
	return false
}

// pyzorURL returns where the letters of "letters:something" start in a word, or
// the length of the word.
func pyzorURL[T byte | rune](word []T) int {
	for i := 1; i < len(word)-1; i++ {
		if word[i] != ':' || !pyzorLetter(word[i-1]) {
			continue
		}
		for i > 0 && pyzorLetter(word[i-1]) {
			i--
		}
		return i
	}
	return len(word)
}

// pyzorLetter says whether r is a to z without regard to case, which takes in
// four characters from far away.
func pyzorLetter[T byte | rune](c T) bool {
	r := rune(c)
	return r|0x20 >= 'a' && r|0x20 <= 'z' || r == 0x130 || r == 0x131 || r == 0x17f || r == 0x212a
}
