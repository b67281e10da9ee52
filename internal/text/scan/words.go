package scan

import (
	"encoding/binary"
	"math"
)

// The size of [Words].
const (
	wordBits = 12
	maxWord  = 15 // bytes of a word
)

// Words caches the results of a function of words of at most 15 bytes: most words of a text were in it before,
// or in one of the same language. The zero Words is empty. It serves one goroutine and one function.
type Words [1 << wordBits]struct{ head, tail, result uint64 }

// Of returns the result of a pure function for a word.
func (t *Words) Of(word []byte, of func(word []byte) uint64) uint64 {
	n := len(word)
	if n == 0 || n > maxWord {
		return of(word)
	}
	var room [maxWord + 1]byte
	text := room[:]
	if cap(word) >= len(room) {
		text = word[:len(room)]
	} else {
		copy(text, word)
	}
	// The bytes as two numbers, the last byte of which is the length. A shift by 64 or more gives 0.
	head := binary.LittleEndian.Uint64(text) & (math.MaxUint64 >> (64 - 8*min(n, 8)))
	tail := binary.LittleEndian.Uint64(text[8:])&(math.MaxUint64>>(128-8*uint(max(n, 8)))) | uint64(n)<<56
	one := &t[(head^tail*0xbf58476d1ce4e5b9)*0x9e3779b97f4a7c15>>(64-wordBits)]
	if one.head != head || one.tail != tail {
		one.head, one.tail, one.result = head, tail, of(word)
	}
	return one.result
}
