package pyzor

import (
	"slices"
	"unicode"
	"unicode/utf8"
)

// Texts are kept in UTF-8. A few charsets let halves of surrogate pairs through; each half is
// three bytes as well.

// appendChar appends a character.
func appendChar(dst []byte, r rune) []byte {
	if r >= 0xd800 && r <= 0xdfff {
		return append(dst, byte(0xe0|r>>12), byte(0x80|r>>6&0x3f), byte(0x80|r&0x3f))
	}
	return utf8.AppendRune(dst, r)
}

// A text of many characters that are three bytes each names them by numbers from firstName on, which are no characters,
// and two bytes.
const (
	firstName = unicode.MaxRune + 1
	maxNamed  = 0x80 // whose places in UTF-8 are those of ASCII in two bytes, which nothing has
)

// appendNamed appends a character, by a name if it is long and may be had for one. named has the
// characters that have one.
func appendNamed(dst []byte, named []rune, r rune) ([]byte, []rune) {
	if r >= 0x800 && r <= 0xffff && !isSpace(r) && !isLetter(r) {
		name := slices.Index(named, r)
		if name < 0 && len(named) < maxNamed {
			name, named = len(named), append(named, r)
		}
		if name >= 0 {
			return append(dst, 0xc0|byte(name>>6), 0x80|byte(name&0x3f)), named
		}
	}
	return appendChar(dst, r), named
}

// charSize returns how many bytes appendChar appends.
func charSize(r rune) int {
	if r >= 0xd800 && r <= 0xdfff {
		return 3
	}
	return utf8.RuneLen(r)
}

// charAt returns the character that begins text, and its size.
func charAt(text []byte) (r rune, size int) {
	switch c := text[0]; {
	case c < utf8.RuneSelf:
		return rune(c), 1
	case c < 0xe0 && len(text) > 1:
		if r = rune(c&0x1f)<<6 | rune(text[1]&0x3f); r < maxNamed {
			r += firstName
		}
		return r, 2
	case c < 0xf0 && len(text) > 2:
		return rune(c&0xf)<<12 | rune(text[1]&0x3f)<<6 | rune(text[2]&0x3f), 3
	case len(text) > 3:
		return rune(c&7)<<18 | rune(text[1]&0x3f)<<12 | rune(text[2]&0x3f)<<6 | rune(text[3]&0x3f), 4
	}
	return utf8.RuneError, 1 // no text ends so
}

// charBefore returns where the character begins that ends before i.
func charBefore(text []byte, i int) int {
	for i--; i > 0 && !utf8.RuneStart(text[i]); {
		i--
	}
	return i
}

// spaceAt returns the size of the character at i if it is white space, else 0.
func spaceAt(text []byte, i int) int {
	switch c := text[i]; {
	case classes[c]&classSpace != 0:
		return 1
	case c >= utf8.RuneSelf:
		if r, size := charAt(text[i:]); isSpace(r) {
			return size
		}
	}
	return 0
}

// sizeAt returns the size of the character at i.
func sizeAt(text []byte, i int) int {
	if text[i] < utf8.RuneSelf {
		return 1
	}
	_, size := charAt(text[i:])
	return size
}
