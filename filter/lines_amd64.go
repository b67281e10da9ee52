//go:build !race

package filter

// hasLines sets found[i] to whether line at[i] has the K = 8 bits of keys[i], for n keys, n at
// least 1. It avoids the cost of variable shifts, which Go's compiler must emit for processors of
// 2003: a test of a batch takes half the time of has, and a set takes a third.
//
//go:noescape
func hasLines(base *words, at *uint64, keys *Key, n int, found *bool)

// setLines is hasLines for setting: it sets the bits, each word by an atomic store, and sets
// before[i] to whether all of them were set. There must be one writer.
//
//go:noescape
func setLines(base *words, at *uint64, keys *Key, n int, before *bool)

// sumLines sets n lines at sum, n at least 1, to the sums of the nibbles at x and y, at most 15
// each, and reports whether any sum reached 15. sum may be x or y. It is three times as fast as the
// Go version.
//
//go:noescape
func sumLines(sum, x, y *words, n int) (heavy bool)

// orLines sets the bits of n lines at src, n at least 1, in the lines at dst, and reports whether
// any bit was not set before. src may change concurrently. It is four times as fast as the Go
// version, until memory is the limit.
//
//go:noescape
func orLines(dst, src *words, n int) (changed bool)

// raiseLine raises the nibbles of the k cells c of l to at least value, 1 to 15, each word by an
// atomic store that comes after all earlier stores. There must be one writer.
//
//go:noescape
func raiseLine(l *words, c cells, k uint8, value uint64)
