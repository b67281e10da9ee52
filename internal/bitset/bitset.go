// Package bitset holds the operations on bits that Bloom filters of any size share.
package bitset

import (
	"fmt"
	"math"
	"math/bits"
)

// MaxHashes is the largest number of hash functions.
const MaxHashes = 160

// MaxPositions is the largest array that hash functions map into.
const MaxPositions = 1 << 40

// Check returns an error unless m positions and k hash functions are
// within bounds.
func Check(m uint64, k int) error {
	if m < 1 || m > MaxPositions {
		return fmt.Errorf("filter: %d positions, want 1 to %d", m, uint64(MaxPositions))
	}
	if k < 1 || k > MaxHashes {
		return fmt.Errorf("filter: %d hash functions, want 1 to %d", k, MaxHashes)
	}
	return nil
}

// Words returns how many 64-bit words hold n bits, n <= [MaxPositions].
func Words(n uint64) uint64 { return (n + 63) / 64 }

// Set sets bit i and reports whether it was clear.
func Set(words []uint64, i uint64) bool {
	old := words[i>>6]
	words[i>>6] = old | 1<<(i&63)
	return old>>(i&63)&1 == 0
}

// Or adds the bits of src to dst and returns the resulting number of set bits.
func Or(dst, src []uint64) (set uint64) {
	for i, w := range src {
		w |= dst[i]
		dst[i] = w
		set += uint64(bits.OnesCount64(w))
	}
	return set
}

// Estimate returns the approximate number of elements of a filter with m bits and k functions in
// which set bits are set. It inverts the expected fill.
func Estimate(m, set uint64, k int) uint64 {
	if set >= m {
		return math.MaxUint64
	}
	return uint64(math.Round(-float64(m) / float64(k) * math.Log1p(-float64(set)/float64(m))))
}

// Count returns how many bits are set.
func Count(words []uint64) (n uint64) {
	for _, w := range words {
		n += uint64(bits.OnesCount64(w))
	}
	return n
}

// Overhang reports whether bits at m and beyond are set.
func Overhang(words []uint64, m uint64) bool {
	return m%64 != 0 && words[len(words)-1]>>(m%64) != 0
}
