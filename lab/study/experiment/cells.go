package experiment

import "math"

// A CellArray is a counting array without saturation.
type CellArray []uint32

// Count returns the minimum of the cells ps.
func (a CellArray) Count(ps []uint32) uint32 {
	least := uint32(math.MaxUint32)
	for _, p := range ps {
		least = min(least, a[p])
	}
	return least
}

// Raise inserts n of the element with these cells, refined.
func (a CellArray) Raise(ps []uint32, n uint32) {
	after := a.Count(ps) + n
	for _, p := range ps {
		a[p] = max(a[p], after)
	}
}

// Add adds the cells of b, which has as many.
func (a CellArray) Add(b CellArray) {
	for i, v := range b {
		a[i] += v
	}
}

// Lower decreases those cells of ps that want says, but none below 0.
func (a CellArray) Lower(ps []uint32, want func(v, least uint32, done int) bool) {
	least, done := a.Count(ps), 0
	for _, p := range ps {
		if v := a[p]; v > 0 && want(v, least, done) {
			a[p]--
			done++
		}
	}
}
