package book

import (
	"cmp"
	"slices"
)

// A Book is the live generations of a tally or a blocklist. It is never changed, only replaced.
type Book[G generation] struct {
	Live []G // newest first
	// From is a start in Unix seconds. Generations that began before it were given up for lack of
	// memory.
	From uint64
}

// A generation is identified by its start in Unix seconds, which is unique within a book and
// only grows.
type generation interface {
	spec
	uses() keys
	// Fill returns the number of keys of its fullest array as a share of the capacity.
	Fill() float64
	// touch makes the system allocate the memory of its arrays before they are used.
	touch()
}

// A spec describes the arrays of a generation.
type spec interface {
	begin() uint64
	ages() uint64 // the time from which it ages, Unix seconds
	bytes() uint64
	keyID() uint64 // of the secret that its arrays are made with
	floor() uint32 // the count from which its arrays show a key to others; 0: from the first on
}

// Find returns the generation with the given start, or nil if it is not live.
func (b Book[G]) Find(start uint64) (g G) {
	i := slices.IndexFunc(b.Live, func(g G) bool { return g.begin() == start })
	if i < 0 {
		return g
	}
	return b.Live[i]
}

// Starts returns the starts of the live generations, newest first.
func (b Book[G]) Starts() []uint64 {
	out := make([]uint64, len(b.Live))
	for i, g := range b.Live {
		out[i] = g.begin()
	}
	return out
}

// Ages returns the times from which the live generations age, newest first.
func (b Book[G]) Ages() []uint64 {
	out := make([]uint64, len(b.Live))
	for i, g := range b.Live {
		out[i] = g.ages()
	}
	return out
}

// With returns the book with one more generation.
func (b Book[G]) With(g G) Book[G] {
	b.Live = append(slices.Clone(b.Live), g)
	slices.SortFunc(b.Live, func(x, y G) int { return cmp.Compare(y.begin(), x.begin()) })
	return b
}

// Bytes returns the memory of all arrays in bytes, without the overflow tables.
func (b Book[G]) Bytes() (sum uint64) {
	for _, g := range b.Live {
		sum += g.bytes()
	}
	return sum
}

// A Change opens a generation and drops others.
type Change[S spec] struct {
	Open *S // nil: none
	Drop []uint64
	From uint64 // see [Book]; 0 unless generations are given up
	// Generations that start at Since or later age from Aged on; 0: no change.
	Since, Aged uint64
}

// Empty reports whether nothing is due.
func (c Change[S]) Empty() bool { return c.Open == nil && len(c.Drop) == 0 }
