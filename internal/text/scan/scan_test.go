package scan

import (
	"testing"
	"unicode/utf8"
)

// TestRune compares Rune with [utf8.DecodeRune].
func TestRune(t *testing.T) {
	check := func(b ...byte) {
		r, n := Rune(b)
		if want, size := utf8.DecodeRune(b); r != want || n != size {
			t.Fatalf("%x: %x, %d, want %x, %d", b, r, n, want, size)
		}
	}
	check()
	for a := range 256 {
		check(byte(a))
		for b := range 256 {
			check(byte(a), byte(b))
			for _, c := range []byte{0, 'a', 0x7F, 0x80, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF} {
				check(byte(a), byte(b), c)
				check(byte(a), byte(b), c, 0x80)
			}
		}
	}
}
