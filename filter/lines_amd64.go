//go:build !race

package filter

// hasLines sets found[i] to whether line at[i] has the K = 8 bits of keys[i],
// for n keys, n at least 1. It is has without the cost of variable shifts, which
// Go's compiler must emit for processors of 2003: a test of a batch takes half
// the time, a set a third.
//
//go:noescape
func hasLines(base *words, at *uint64, keys *Key, n int, found *bool)

// setLines is hasLines for setting: it puts the bits in, each word by an atomic
// store, and sets before[i] to whether all were there. There must be one writer.
//
//go:noescape
func setLines(base *words, at *uint64, keys *Key, n int, before *bool)

// sumLines sets n lines at sum, n at least 1, to the sums of the nibbles of those
// at x and y, at most 15 each, and reports whether any came to 15. sum may be x
// or y. It is three times as fast as its twin in Go.
//
//go:noescape
func sumLines(sum, x, y *words, n int) (heavy bool)

// orLines sets in n lines at dst, n at least 1, the bits of those at src, which
// may change meanwhile, and reports whether there was any to set. It is four
// times as fast as its twin in Go, until memory is the limit.
//
//go:noescape
func orLines(dst, src *words, n int) (changed bool)

// raiseLine lifts the nibbles of the k cells c of l to at least value, 1 to 15,
// each word by an atomic store that comes after all earlier stores. There must be
// one writer.
//
//go:noescape
func raiseLine(l *words, c cells, k uint8, value uint64)
