// Package scan holds what the readers of messages share: lines, digits, letters and sets of bytes
// in arbitrary input.
package scan

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

// HasPrefixFold reports whether b begins with prefix, letters of any case.
func HasPrefixFold(b []byte, prefix string) bool {
	return len(b) >= len(prefix) && bytes.EqualFold(b[:len(prefix)], []byte(prefix))
}

// IsASCII reports whether data is ASCII. [ASCIIPrefix] is faster for long data.
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

// ASCIIPrefix returns the number of ASCII bytes at the start of data.
func ASCIIPrefix(data []byte) (n int) {
	for len(data)-n >= 8 && binary.LittleEndian.Uint64(data[n:])&highBits == 0 {
		n += 8
	}
	for n < len(data) && data[n] < utf8.RuneSelf {
		n++
	}
	return n
}

// Rune is [utf8.DecodeRune], faster for characters of three bytes.
func Rune(b []byte) (rune, int) {
	if len(b) >= 3 && b[0]&0xF0 == 0xE0 && b[1]&0xC0 == 0x80 && b[2]&0xC0 == 0x80 {
		// Others are too long for what they stand for, or surrogates.
		if r := rune(b[0]&0x0F)<<12 | rune(b[1]&0x3F)<<6 | rune(b[2]&0x3F); r >= 0x800 && (r < 0xD800 || r > 0xDFFF) {
			return r, 3
		}
	}
	return utf8.DecodeRune(b)
}

// IsLetter reports whether c is an ASCII letter.
func IsLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
