package scan

import (
	"bytes"
	"unsafe"
)

// window is the greatest distance by which the search for one byte runs ahead of the search for
// the other. It keeps the time linear for text with only one of them.
const window = 256

// IndexEither returns the index of the first c or d, or -1.
func IndexEither(text []byte, c, d byte) int {
	for at := 0; at < len(text); at += window {
		near := text[at:min(at+window, len(text))]
		first := bytes.IndexByte(near, c)
		if first >= 0 {
			near = near[:first]
		}
		if other := bytes.IndexByte(near, d); other >= 0 {
			return at + other
		}
		if first >= 0 {
			return at + first
		}
	}
	return -1
}

// LineEnd returns the index of the first CR or LF, or -1.
func LineEnd(b []byte) int { return IndexEither(b, '\n', '\r') }

// FirstLine returns where the first line of b ends and where the next one
// begins: after LF, CR LF or a lone CR, or at the end of b.
func FirstLine(b []byte) (end, next int) {
	i := LineEnd(b)
	switch {
	case i < 0:
		return len(b), len(b)
	case b[i] == '\r' && i+1 < len(b) && b[i+1] == '\n':
		return i, i + 2
	}
	return i, i + 1
}

// Bytes returns the bytes of a string, which must not be changed.
func Bytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// LastLineEnd returns the index of the last CR or LF, or -1.
func LastLineEnd(b []byte) int {
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] == '\n' || b[i] == '\r' {
			return i
		}
	}
	return -1
}

// String returns bytes, which must not change, as a string.
func String(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
