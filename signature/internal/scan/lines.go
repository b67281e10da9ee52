package scan

import (
	"bytes"
	"unsafe"
)

// lineWindow is how far the search for one kind of line end may run ahead of the
// other, in bytes: text that has one kind alone takes linear time too.
const lineWindow = 256

// LineEnd returns the index of the first CR or LF, or -1.
func LineEnd(b []byte) int {
	for at := 0; at < len(b); at += lineWindow {
		window := b[at:min(at+lineWindow, len(b))]
		lf := bytes.IndexByte(window, '\n')
		if lf >= 0 {
			window = window[:lf]
		}
		if cr := bytes.IndexByte(window, '\r'); cr >= 0 {
			return at + cr
		}
		if lf >= 0 {
			return at + lf
		}
	}
	return -1
}

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
