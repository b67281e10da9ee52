package scan

import (
	"hash/maphash"
	"testing"
)

// FuzzWords compares the results with the function, whatever was asked before and whatever follows a word in memory.
func FuzzWords(f *testing.F) {
	f.Add([]byte("to be or not to be"))
	f.Add([]byte("a\x00 a \x00a  fifteen-letters fifteen-letters\x00 fifteen-letters\x0f \xff\xff\xff"))
	seed := maphash.MakeSeed()
	of := func(word []byte) uint64 { return maphash.Bytes(seed, word) }
	f.Fuzz(func(t *testing.T, text []byte) {
		known := new(Words)
		for range 2 {
			for at := range text {
				for n := range min(len(text)-at, maxWord+2) + 1 {
					word := text[at : at+n]
					if got, want := known.Of(word, of), of(word); got != want {
						t.Fatalf("%q has %x, want %x", word, got, want)
					}
				}
			}
		}
	})
}
