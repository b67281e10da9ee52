package signature

import (
	"bytes"
	"strings"
)

// lineWindow is how far the search for one kind of line end may run ahead of the
// other, in bytes: text that has one kind alone takes linear time too.
const lineWindow = 256

// lineEnd returns the index of the first CR or LF, or -1.
func lineEnd(b []byte) int {
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

// lineEndString is lineEnd for a string.
func lineEndString(s string) int {
	for at := 0; at < len(s); at += lineWindow {
		window := s[at:min(at+lineWindow, len(s))]
		lf := strings.IndexByte(window, '\n')
		if lf >= 0 {
			window = window[:lf]
		}
		if cr := strings.IndexByte(window, '\r'); cr >= 0 {
			return at + cr
		}
		if lf >= 0 {
			return at + lf
		}
	}
	return -1
}

// lastLineEnd returns the index of the last CR or LF, or -1.
func lastLineEnd(b []byte) int {
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] == '\n' || b[i] == '\r' {
			return i
		}
	}
	return -1
}
