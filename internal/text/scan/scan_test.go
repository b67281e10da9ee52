package scan

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"unicode/utf8"
)

// TestLetters: as many letters as one by one.
func TestLetters(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		text := make([]byte, r.IntN(30))
		for i := range text {
			if text[i] = "azAZmM"[r.IntN(6)]; r.IntN(12) == 0 {
				text[i] = byte(r.IntN(256))
			}
		}
		want := 0
		for want < len(text) && IsLetter(text[want]) {
			want++
		}
		if got := Letters(text); got != want {
			t.Fatalf("%q: %d, want %d", text, got, want)
		}
		if len(text) < 8 {
			continue
		}
		first := make([]byte, 8)
		copy(first, bytes.ToLower(text[:min(want, 8)]))
		if n, lower := FirstLetters(binary.LittleEndian.Uint64(text)); n != min(want, 8) || lower != binary.LittleEndian.Uint64(first) {
			t.Fatalf("%q: %d, %x", text, n, lower)
		}
	}
	for c := range 256 {
		text := []byte{'a', byte(c), 'b', 'b', 'b', 'b', 'b', 'b', 'b'}
		want := 1
		if IsLetter(byte(c)) {
			want = len(text)
		}
		if got := Letters(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// TestLetterMap: runs of letters are as long as they are without a map.
func TestLetterMap(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var m LetterMap
	for range 3_000 {
		text := make([]byte, r.IntN(300))
		often := 1 + r.IntN(100)
		for i := range text {
			if text[i] = "azAZmM"[r.IntN(6)]; r.IntN(often) == 0 {
				text[i] = byte(r.IntN(256))
			}
		}
		m = MapLetters(m, text)
		for at := range len(text) + 1 {
			if got, want := m.Run(at), Letters(text[at:]); got != want {
				t.Fatalf("%q from %d: %d, want %d", text, at, got, want)
			}
		}
	}
}

// TestRune: the characters are those of the library.
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
