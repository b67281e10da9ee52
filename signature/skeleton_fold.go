package signature

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// fold maps a rune that stands for a Latin letter to that letter, in lower
// case, and every other letter to its lower case. Runes are compatibility
// decomposed before (full-width, mathematical, circled and accented letters
// are plain by then). It returns 0 for a rune that is no letter.
//
// The letters i and l cannot be distinguished from each other, from 1 or from | at a glance, so
// all become i.
func fold(r rune) rune {
	if r < 0x80 {
		return rune(asciiFold[r])
	}
	return folded.At(r) &^ unspacedLetter
}

// unspacedLetter marks, in what folded holds, letters of a script that writes words without
// spaces between them; each of them is a word of its own.
const unspacedLetter = 1 << 24

// folded remembers foldWide.
var folded = scan.NewRunes(func(r rune) rune {
	to := foldWide(r)
	if unicode.In(to, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer,
		unicode.Myanmar, unicode.Tibetan) {
		to |= unspacedLetter
	}
	return to
})

// foldWide is fold for what is not ASCII.
//
// The fillers of Hangul are displayed as blanks: U+115F, and U+1160, to which U+3164 and U+FFA0 decompose.
func foldWide(r rune) rune {
	if to, ok := capitals[r]; ok {
		return to
	}
	for _, first := range [...]rune{'🅐', '🅰'} { // white on black, in circles and squares
		if r >= first && r < first+26 {
			return rune(asciiFold[r-first+'a'])
		}
	}
	r = unicode.ToLower(r)
	if to, ok := confusables[r]; ok {
		return to
	}
	if unicode.IsLetter(r) && r != 0x115f && r != 0x1160 {
		return r
	}
	return 0
}

// asciiFold holds fold for ASCII: letters in lower case, l as i, and 0 for
// every other byte.
var asciiFold = func() (table [0x80]byte) {
	for c := 'a'; c <= 'z'; c++ {
		table[c] = byte(c)
		table[c-'a'+'A'] = byte(c)
	}
	table['l'], table['L'] = 'i', 'i'
	return table
}()

// leet returns the letter that a digit or symbol stands for within a word, or 0.
func leet(r rune) rune {
	switch r {
	case '0':
		return 'o'
	case '1', '!', '|', '¡', 'ǃ':
		return 'i'
	case '3', '€', '£':
		return 'e'
	case '4', '@':
		return 'a'
	case '5', '$', '§':
		return 's'
	case '6', '9':
		return 'g'
	case '7', '+', '†':
		return 't'
	case '8':
		return 'b'
	case '2':
		return 'z'
	case '©', '¢':
		return 'c'
	case '®':
		return 'r'
	case '×':
		return 'x'
	case '¥':
		return 'y'
	}
	return 0
}

// confusables lists letters (lower case) that look like Latin ones in either
// case. A selection of the Unicode confusables (UTS #39) that covers the
// scripts found in fonts of mail programs, and of the alphabets that generators of decorative text
// have; what normalisation form KD resolves is not repeated here.
var confusables = map[rune]rune{
	// Cyrillic
	'а': 'a', 'в': 'b', 'с': 'c', 'ԁ': 'd', 'е': 'e', 'һ': 'h', 'н': 'h', 'і': 'i', 'ӏ': 'i', 'ј': 'j',
	'к': 'k', 'м': 'm', 'о': 'o', 'р': 'p', 'ԛ': 'q', 'ѕ': 's', 'т': 't', 'ѵ': 'v', 'ԝ': 'w', 'х': 'x',
	'у': 'y', 'ү': 'y', 'ѡ': 'w', 'ѳ': 'o', 'ҽ': 'e', 'ё': 'e', 'ї': 'i', 'ԍ': 'g', 'ь': 'b',
	// Greek
	'α': 'a', 'β': 'b', 'ϲ': 'c', 'ε': 'e', 'η': 'n', 'ι': 'i', 'κ': 'k', 'μ': 'm', 'ν': 'v', 'ο': 'o',
	'ρ': 'p', 'σ': 'o', 'τ': 't', 'υ': 'u', 'χ': 'x', 'γ': 'y', 'ζ': 'z', 'ω': 'w', 'ϳ': 'j',
	// Armenian
	'ա': 'w', 'գ': 'q', 'զ': 'q', 'հ': 'h', 'յ': 'j', 'ո': 'n', 'ռ': 'n', 'ս': 'u', 'ց': 'g', 'ք': 'p', 'օ': 'o', 'ղ': 'n',
	// Latin letters that normalisation keeps
	'ı': 'i', 'ȷ': 'j', 'ł': 'i', 'ƚ': 'i', 'ø': 'o', 'đ': 'd', 'ð': 'd', 'ħ': 'h', 'ŧ': 't', 'ɑ': 'a', 'ƅ': 'b', 'ƒ': 'f',
	'ɡ': 'g', 'ɢ': 'g', 'ɩ': 'i', 'ɪ': 'i', 'ɫ': 'i', 'ʟ': 'i', 'ɴ': 'n', 'ɵ': 'o', 'ʀ': 'r', 'ꜱ': 's', 'ʋ': 'v', 'ʏ': 'y',
	'ᴀ': 'a', 'ʙ': 'b', 'ᴄ': 'c', 'ᴅ': 'd', 'ᴇ': 'e', 'ꜰ': 'f', 'ʜ': 'h', 'ᴊ': 'j', 'ᴋ': 'k', 'ᴍ': 'm', 'ᴏ': 'o', 'ᴘ': 'p',
	'ᴛ': 't', 'ᴜ': 'u', 'ᴠ': 'v', 'ᴡ': 'w', 'ᴢ': 'z', 'ǀ': 'i', 'ƽ': 's', 'ꞵ': 'b', 'ƙ': 'k', 'ɋ': 'q', 'ɾ': 'r',
	'ʂ': 's', 'ⱱ': 'v', 'ƀ': 'b', 'ɓ': 'b', 'ȼ': 'c', 'ɖ': 'd', 'ɗ': 'd', 'ɇ': 'e', 'ɘ': 'e', 'ǝ': 'e', 'ǥ': 'g', 'ɦ': 'h',
	'ɥ': 'h', 'ɨ': 'i', 'ɭ': 'i', 'ɉ': 'j', 'ʞ': 'k', 'ɱ': 'm', 'ɯ': 'm', 'ɳ': 'n', 'ᵽ': 'p', 'ɍ': 'r', 'ɽ': 'r', 'ɹ': 'r',
	'ʈ': 't', 'ʇ': 't', 'ⱦ': 't', 'ʉ': 'u', 'ʌ': 'v', 'ʍ': 'w', 'ʎ': 'y', 'ƶ': 'z', 'ʐ': 'z', 'ɐ': 'a', 'ⱥ': 'a',
	'ɛ': 'e', 'ʄ': 'f', 'ɧ': 'h', 'ʝ': 'j', 'ŋ': 'n', 'ɬ': 'i', 'ʑ': 'z', 'ɕ': 'c', 'ʅ': 'i', 'ꝋ': 'o', 'ꝗ': 'q',
	'ꞃ': 'r', 'ȥ': 'z', 'ƈ': 'c', 'ɏ': 'y', 'ⱨ': 'h', 'ⱡ': 'i', 'ⱬ': 'z', 'ᴉ': 'i', 'ɟ': 'f', 'ƃ': 'g', 'ɔ': 'c',
	// Cyrillic with hooks and bars
	'ҳ': 'x', 'ӽ': 'x', 'ӿ': 'x', 'ғ': 'f', 'ҟ': 'k',
	// Canadian syllabics
	'ᗩ': 'a', 'ᗷ': 'b', 'ᑕ': 'c', 'ᗪ': 'd', 'ᖴ': 'f', 'ᕼ': 'h', 'ᒍ': 'j', 'ᒪ': 'i', 'ᗰ': 'm', 'ᑎ': 'n', 'ᑭ': 'p', 'ᑫ': 'q',
	'ᖇ': 'r', 'ᔕ': 's', 'ᑌ': 'u', 'ᐯ': 'v', 'ᗯ': 'w', 'ᘔ': 'z',
	// Coptic
	'ⲁ': 'a', 'ⲃ': 'b', 'ⲥ': 'c', 'ⲉ': 'e', 'ⲏ': 'h', 'ⲓ': 'i', 'ⲕ': 'k', 'ⲙ': 'm', 'ⲛ': 'n', 'ⲟ': 'o', 'ⲣ': 'p', 'ⲧ': 't',
	'ⲭ': 'x', 'ⲩ': 'y', 'ⲍ': 'z',
	// Currencies and signs of mathematics, in decorative alphabets
	'₳': 'a', '฿': 'b', '₵': 'c', '∂': 'd', '₣': 'f', '₲': 'g', '₭': 'k', '₥': 'm', '₦': 'n', '₱': 'p', '℘': 'p', '₴': 's',
	'₮': 't', '₩': 'w', '᙭': 'x',
	// Georgian
	'ც': 'c', 'ყ': 'y', 'ძ': 'd', 'მ': 'a', 'გ': 'g',
	// Lisu
	'ꓐ': 'b', 'ꓑ': 'p', 'ꓓ': 'd', 'ꓔ': 't', 'ꓖ': 'g', 'ꓗ': 'k', 'ꓙ': 'j', 'ꓚ': 'c', 'ꓜ': 'z', 'ꓝ': 'f', 'ꓟ': 'm', 'ꓠ': 'n',
	'ꓡ': 'i', 'ꓢ': 's', 'ꓣ': 'r', 'ꓦ': 'v', 'ꓧ': 'h', 'ꓪ': 'w', 'ꓫ': 'x', 'ꓬ': 'y', 'ꓮ': 'a', 'ꓰ': 'e', 'ꓲ': 'i', 'ꓳ': 'o',
	'ꓴ': 'u',
	// Cherokee (lower case forms)
	'ꭺ': 'a', 'ᏼ': 'b', 'ꮯ': 'c', 'ꭰ': 'd', 'ꭼ': 'e', 'ꮐ': 'g', 'ꮋ': 'h', 'ꭻ': 'j', 'ꮶ': 'k', 'ꮮ': 'i', 'ꮇ': 'm', 'ꮲ': 'p',
	'ꭱ': 'r', 'ꮪ': 's', 'ꭲ': 't', 'ꮩ': 'v', 'ꮃ': 'w', 'ꮓ': 'z', 'ꭹ': 'y', 'ꮢ': 'r', 'ꮖ': 'i',
}

// capitals lists capital letters that look like other Latin letters than their lower case does.
var capitals = map[rune]rune{'Η': 'h', 'Ν': 'n', 'Υ': 'y', 'Տ': 's', 'Լ': 'i'}

// invisible reports whether r shows nothing and may stand within a word.
func invisible(r rune) bool { return r >= 0x80 && unseen.At(r) != 0 }

// unseen remembers which runes that are not ASCII are invisible.
var unseen = scan.NewRunes(func(r rune) rune {
	switch {
	case r == 0x115f || r == 0x1160 || unicode.IsSpace(r):
		return 0
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Cc, unicode.Other_Default_Ignorable_Code_Point,
		unicode.Noncharacter_Code_Point):
		return 1
	}
	return 0
})

// isControl reports whether r is a control character of ASCII that no browser shows, and no blank.
func isControl(r rune) bool { return r < ' ' && (r < '\t' || r > '\r') || r == 0x7f }

// Marks between which letters are displayed from right to left, and the second of which may be missing.
const rightToLeft, endOfRightToLeft = "\u202e", "\u202c"

// displayed returns a line with its letters in the order in which they are displayed, if marks reverse it.
func displayed(line []byte) []byte {
	if !bytes.Contains(line, []byte(rightToLeft)) {
		return line
	}
	out := make([]byte, 0, len(line))
	for {
		before, rest, found := bytes.Cut(line, []byte(rightToLeft))
		out = append(out, before...)
		if !found {
			return out
		}
		var within []byte
		within, line, _ = bytes.Cut(rest, []byte(endOfRightToLeft))
		if bytes.ContainsFunc(within, isRightToLeft) {
			out = append(out, within...)
			continue
		}
		for len(within) > 0 {
			_, n := utf8.DecodeLastRune(within)
			out = append(out, within[len(within)-n:]...)
			within = within[:len(within)-n]
		}
	}
}

// isRightToLeft reports whether r is a letter that is displayed from right to left by itself.
func isRightToLeft(r rune) bool {
	return unicode.In(r, unicode.Hebrew, unicode.Arabic, unicode.Syriac, unicode.Thaana)
}
