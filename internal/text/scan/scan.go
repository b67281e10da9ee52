// Package scan is what the readers of messages share: lines, digits and letters in
// bytes that may be anything.
package scan

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// HasPrefixFold reports whether b begins with prefix, letters of any case.
func HasPrefixFold(b []byte, prefix string) bool {
	return len(b) >= len(prefix) && bytes.EqualFold(b[:len(prefix)], []byte(prefix))
}

// IsASCII reports whether data is ASCII. For much of it, ask whether all is [ASCIIPrefix].
func IsASCII[T string | []byte](data T) bool {
	i := 0
	for ; i+8 <= len(data); i += 8 {
		if d := data[i : i+8]; (d[0]|d[1]|d[2]|d[3]|d[4]|d[5]|d[6]|d[7])&0x80 != 0 {
			return false
		}
	}
	for ; i < len(data); i++ {
		if data[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// ASCIIPrefix returns how many bytes at the start of data are ASCII.
func ASCIIPrefix(data []byte) int {
	const high = 0x8080808080808080
	i := 0
	for len(data)-i >= 32 {
		d := data[i : i+32]
		if (binary.LittleEndian.Uint64(d)|binary.LittleEndian.Uint64(d[8:])|binary.LittleEndian.Uint64(d[16:])|binary.LittleEndian.Uint64(d[24:]))&high != 0 {
			break
		}
		i += 32
	}
	for len(data)-i >= 8 {
		if high := binary.LittleEndian.Uint64(data[i:]) & high; high != 0 {
			return i + bits.TrailingZeros64(high)/8
		}
		i += 8
	}
	for i < len(data) && data[i] < utf8.RuneSelf {
		i++
	}
	return i
}

// Rune is [utf8.DecodeRune], in less time for what most characters of three bytes are.
func Rune(b []byte) (rune, int) {
	if len(b) >= 3 && b[0]&0xF0 == 0xE0 && b[1]&0xC0 == 0x80 && b[2]&0xC0 == 0x80 {
		// Others are too long for what they stand for, or surrogates.
		if r := rune(b[0]&0x0F)<<12 | rune(b[1]&0x3F)<<6 | rune(b[2]&0x3F); r >= 0x800 && (r < 0xD800 || r > 0xDFFF) {
			return r, 3
		}
	}
	return utf8.DecodeRune(b)
}

// Letters returns how many ASCII letters begin text. It looks at eight bytes at a time.
func Letters(text []byte) (n int) {
	for len(text)-n >= 8 {
		more, _ := FirstLetters(binary.LittleEndian.Uint64(text[n:]))
		if n += more; more < 8 {
			return n
		}
	}
	for n < len(text) && IsLetter(text[n]) {
		n++
	}
	return n
}

// FirstLetters returns how many ASCII letters begin eight bytes, the first of which is the lowest, and these letters in
// lower case, with zeros behind.
func FirstLetters(v uint64) (n int, lower uint64) {
	const each, high = 0x0101010101010101, 0x8080808080808080
	lower = v | 0x20*each
	ascii := lower &^ high
	// A sum has the high bit of a byte where that is at least 'a', or more than 'z'.
	others := ^((ascii + (0x80-'a')*each) &^ (ascii + (0x7F-'z')*each) &^ v) & high
	n = bits.TrailingZeros64(others) / 8
	return n, lower & (1<<(8*n) - 1)
}

// LetterMap says which bytes of a text are ASCII letters: a bit for each, those of 64 bytes in a word, the first one
// lowest. Words are found faster in it than in the text.
type LetterMap []uint64

// MapLetters returns the map of text, in the memory of room.
func MapLetters(room LetterMap, text []byte) LetterMap {
	room = room[:0]
	for len(text) >= 64 {
		room = append(room, letters64(text))
		text = text[64:]
	}
	var last [64]byte
	copy(last[:], text)
	return append(room, letters64(last[:]))
}

// letters64 is the map of 64 bytes.
func letters64(text []byte) (word uint64) {
	const each, high = 0x0101010101010101, 0x8080808080808080
	text = text[:64]
	for i := 0; i < 64; i += 8 {
		v := binary.LittleEndian.Uint64(text[i:])
		ascii := (v | 0x20*each) &^ high
		letters := (ascii + (0x80-'a')*each) &^ (ascii + (0x7F-'z')*each) &^ v & high // see FirstLetters
		word |= letters * 0x0002040810204081 >> 56 << i                               // the high bits of the bytes, side by side
	}
	return word
}

// Run returns how many letters are from at on, which must be in the text or at its end.
func (m LetterMap) Run(at int) int {
	n := bits.TrailingZeros64(^(m[at/64] >> (at % 64)))
	if n < 64-at%64 {
		return n
	}
	for i := at/64 + 1; i < len(m); i++ {
		more := bits.TrailingZeros64(^m[i])
		if n += more; more < 64 {
			break
		}
	}
	return n
}

// IsLetter reports whether c is an ASCII letter.
func IsLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
