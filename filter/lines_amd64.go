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
