//go:build !amd64 || race

package filter

import "unsafe"

// hasLines sets found[i] to whether line at[i] has the K = 8 bits of keys[i],
// for n keys.
func hasLines(base *words, at *uint64, keys *Key, n int, found *bool) {
	hasLinesGo(base, unsafe.Slice(at, n), unsafe.Slice(keys, n), unsafe.Slice(found, n))
}

// setLines sets the bits of keys[i] and sets before[i] to whether all of them were set. There must
// be one writer.
func setLines(base *words, at *uint64, keys *Key, n int, before *bool) {
	setLinesGo(base, unsafe.Slice(at, n), unsafe.Slice(keys, n), unsafe.Slice(before, n))
}

// sumLines sets n lines at sum to the sums of the nibbles at x and y, at most 15 each, and reports
// whether any sum reached 15. sum may be x or y.
func sumLines(sum, x, y *words, n int) (heavy bool) {
	return sumLinesGo(unsafe.Slice(sum, n), unsafe.Slice(x, n), unsafe.Slice(y, n))
}

// orLines sets the bits of n lines at src in the lines at dst, and reports whether any bit was not
// set before. src may change concurrently.
func orLines(dst, src *words, n int) (changed bool) {
	return orLinesGo(unsafe.Slice(dst, n), unsafe.Slice(src, n))
}

// raiseLine raises the nibbles of the k cells c of l to at least value, 1 to 15. There must be one
// writer.
func raiseLine(l *words, c cells, k uint8, value uint64) { raiseLineGo(l, c, k, value) }
