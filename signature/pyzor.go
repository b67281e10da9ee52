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
// the bytes. Source: pyzor.md section 8.
func Pyzor(raw []byte) []bulkhead.Signature {
	sum, ok := PyzorSum(raw)
	if !ok || hex.EncodeToString(sum[:]) == PyzorEmpty {
		return nil
	}
	return []bulkhead.Signature{mustSignature(bulkhead.PyzorDigest, sum[:])}
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
// prints them: pyzor.md section 8, steps 3 to 6.
func PyzorLines(raw []byte) (lines []string, ok bool) {
	texts, ok := pyzorTexts(raw)
	if !ok {
		return nil, false
	}
	var kept []string
	for _, text := range texts {
		kept = append(kept, pyzorKeep(text)...)
	}
	if len(kept) <= 4 {
		return kept, true
	}
	for _, percent := range []int{20, 60} {
		start := percent * len(kept) / 100
		lines = append(lines, kept[start:min(start+3, len(kept))]...)
	}
	return lines, true
}

// pyzorKeep cuts a text into lines, normalises them and keeps the long ones.
func pyzorKeep(text []rune) []string {
	var kept []string
	for start, i := 0, 0; i <= len(text); i++ {
		if i < len(text) && !pyzorLineEnd(text[i]) {
			continue
		}
		if norm := pyzorNormalise(text[start:i]); len(norm) >= 8 {
			kept = append(kept, pyzorEncode(norm))
		}
		// CR LF gives an empty line between its two, which is never kept.
		start = i + 1
	}
	return kept
}

// pyzorEncode returns text as UTF-8. Halves of surrogate pairs, which a few
// charsets let through, have counted as characters and vanish here.
func pyzorEncode(text []rune) string {
	return string(slices.DeleteFunc(text, func(r rune) bool { return r >= 0xd800 && r <= 0xdfff }))
}

// pyzorLineEnd says whether r ends a line: pyzor.md section 8, step 3.
func pyzorLineEnd(r rune) bool {
	return r >= '\n' && r <= '\r' || r >= 0x1c && r <= 0x1e || r == 0x85 || r == 0x2028 || r == 0x2029
}

// pyzorSpace says whether r is white space: pyzor.md section 8, step 4.
func pyzorSpace(r rune) bool {
	switch {
	case r < 0x80:
		return r == ' ' || r >= '\t' && r <= '\r' || r >= 0x1c && r <= 0x1f
	case r == 0x85, r == 0xa0, r == 0x1680, r >= 0x2000 && r <= 0x200a, r == 0x2028, r == 0x2029, r == 0x202f, r == 0x205f, r == 0x3000:
		return true
	}
	return false
}

// pyzorNormalise removes from a line, in this order: words of ten or more
// characters, addresses, URLs, white space. Source: pyzor.md section 8, step 4.
func pyzorNormalise(line []rune) []rune {
	var out []rune
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
func pyzorAddress(word []rune) bool {
	for i := 1; i < len(word)-1; i++ {
		if word[i] == '@' {
			return true
		}
	}
	return false
}

// pyzorURL returns where the letters of "letters:something" start in a word, or
// the length of the word.
func pyzorURL(word []rune) int {
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
func pyzorLetter(r rune) bool {
	return r|0x20 >= 'a' && r|0x20 <= 'z' || r == 0x130 || r == 0x131 || r == 0x17f || r == 0x212a
}
