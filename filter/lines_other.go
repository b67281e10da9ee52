//go:build !amd64 || race

package filter

import "unsafe"

// hasLines sets found[i] to whether line at[i] has the K = 8 bits of keys[i],
// for n keys.
func hasLines(base *words, at *uint64, keys *Key, n int, found *bool) {
	hasLinesGo(base, unsafe.Slice(at, n), unsafe.Slice(keys, n), unsafe.Slice(found, n))
}

// setLines puts in the bits of keys[i] and sets before[i] to whether all were
// there. There must be one writer.
func setLines(base *words, at *uint64, keys *Key, n int, before *bool) {
	setLinesGo(base, unsafe.Slice(at, n), unsafe.Slice(keys, n), unsafe.Slice(before, n))
}
