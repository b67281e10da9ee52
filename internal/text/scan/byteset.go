package scan

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// A ByteSet is a set of bytes to search for. Make it once, at package level.
type ByteSet struct {
	has [256]bool

	// A superset of has, which Index tests for eight bytes at a time.
	below  uint64    // each byte holds the least number above all control characters and blanks in has
	wide   uint64    // the high bits, if has holds a byte beyond ASCII
	single [3]uint64 // each holds one of the other members in all eight bytes
}

// The lowest and the highest bit of each of eight bytes.
const (
	lowBits  = 0x0101010101010101
	highBits = 0x8080808080808080
)

// NewByteSet returns the set of the bytes of members. Index is fast for sets with up to three
// members between '!' and DEL; any number of others costs nothing.
func NewByteSet(members string) *ByteSet {
	s := &ByteSet{}
	below, singles := 0, 0
	for _, c := range []byte(members) {
		if s.has[c] {
			continue
		}
		s.has[c] = true
		switch {
		case c >= utf8.RuneSelf:
			s.wide = highBits
		case c <= ' ':
			below = max(below, int(c)+1)
		case singles < len(s.single):
			s.single[singles] = uint64(c) * lowBits
			singles++
		default:
			below = utf8.RuneSelf // test each byte of ASCII
		}
	}
	s.below = uint64(below) * lowBits
	for i := singles; i < len(s.single); i++ {
		s.single[i] = s.single[max(singles-1, 0)]
		if singles == 0 {
			s.single[i] = highBits // only tested where wide is, or rejected by has
		}
	}
	return s
}

// Index returns the index of the first byte of text at or after from that is in s, or len(text).
func (s *ByteSet) Index(text []byte, from int) int {
	for len(text)-from >= 8 {
		eight := binary.LittleEndian.Uint64(text[from:])
		a, b, c := eight^s.single[0], eight^s.single[1], eight^s.single[2]
		// Zero bytes of a, b and c, bytes less than below, and bytes beyond ASCII; behind the first one perhaps others.
		found := ((a-lowBits)&^a | (b-lowBits)&^b | (c-lowBits)&^c | (eight-s.below)&^eight | eight&s.wide) & highBits
		for ; found != 0; found &= found - 1 {
			if at := from + bits.TrailingZeros64(found)/8; s.has[text[at]] {
				return at
			}
		}
		from += 8
	}
	for from < len(text) && !s.has[text[from]] {
		from++
	}
	return from
}
