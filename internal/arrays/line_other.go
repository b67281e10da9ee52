//go:build !(amd64 || arm64) || race

package arrays

import (
	"sync/atomic"
	"unsafe"
)

// prefetchLines does nothing where it has no assembly implementation: batches are then slower, but
// otherwise the same.
func prefetchLines(unsafe.Pointer, *uint64, int) {}

// publish copies src to the line dst, each word by an atomic store. The race detector sees these
// stores; it would not see stores in assembly.
func publish(dst, src *words) {
	for i, w := range src {
		if atomic.LoadUint64(&dst[i]) != w {
			atomic.StoreUint64(&dst[i], w)
		}
	}
}
