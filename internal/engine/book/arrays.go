package book

import (
	"cmp"
	"fmt"
	"sync"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
)

// A Counter is a counting array: *arrays.Counting, or a map in an exact engine.
type Counter interface {
	CountBatch(keys []filter.Key, out []uint32)
	AddBatch(index uint64, keys []filter.Key, n, before []uint32)
	Keys() uint64 // approximate number of distinct keys; cheap
	Stats() arrays.Stats
}

// A Bitset is a membership array: *arrays.Bits, or a map in an exact engine.
type Bitset interface {
	HasBatch(keys []filter.Key, out []bool)
	SetBatch(index uint64, keys []filter.Key, before []bool)
	Keys() uint64 // approximate number of distinct keys; cheap
	Stats() arrays.Stats
}

// A maker makes the arrays of one generation, and keeps the first error.
type maker struct {
	start uint64
	err   error
}

func (m *maker) counter(g filter.Geometry) *arrays.Counting {
	c, err := arrays.NewCounting(g)
	if err != nil {
		m.err = cmp.Or(m.err, err)
		return nil
	}
	c.SetGeneration(m.start)
	return c
}

func (m *maker) bits(g filter.Geometry) Bitset {
	b, err := arrays.NewBits(g)
	if err != nil {
		m.err = cmp.Or(m.err, err)
		return nil
	}
	b.SetGeneration(m.start)
	return b
}

func (m *maker) error(book string) error {
	return fmt.Errorf("book: %s generation %d: %w", book, m.start, m.err)
}

// begin sets the generation that empty arrays belong to.
func begin(start uint64, arrays ...any) {
	for _, a := range arrays {
		if a, ok := a.(interface{ SetGeneration(uint64) }); ok {
			a.SetGeneration(start)
		}
	}
}

// touch makes the system allocate the memory of empty arrays, so that no vote waits for it.
func touch(arrays ...any) {
	for _, a := range arrays {
		if a, ok := a.(interface{ Touch() }); ok {
			a.Touch()
		}
	}
}

// exactCounter is the oracle of arrays.Counting.
type exactCounter struct {
	mu sync.RWMutex
	m  map[filter.Key]uint32
}

func newExactCounter() *exactCounter { return &exactCounter{m: make(map[filter.Key]uint32)} }

func (c *exactCounter) CountBatch(keys []filter.Key, out []uint32) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for i, k := range keys {
		out[i] = c.m[k]
	}
}

func (c *exactCounter) AddBatch(_ uint64, keys []filter.Key, n, before []uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, k := range keys {
		old := c.m[k]
		if before != nil {
			before[i] = old
		}
		c.m[k] = Add(old, n[i])
	}
}

// mapEntryBytes is the approximate size of an entry of a Go map with a 16-byte key and a 4-byte
// value at the usual load.
const mapEntryBytes = 40

func (c *exactCounter) Keys() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return uint64(len(c.m))
}

func (c *exactCounter) Stats() arrays.Stats {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return arrays.Stats{Keys: uint64(len(c.m)), Bytes: mapEntryBytes * uint64(len(c.m))}
}

// exactBits is the oracle of arrays.Bits.
type exactBits struct {
	mu sync.RWMutex
	m  map[filter.Key]struct{}
}

func newExactBits() *exactBits { return &exactBits{m: make(map[filter.Key]struct{})} }

func (b *exactBits) HasBatch(keys []filter.Key, out []bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for i, k := range keys {
		_, out[i] = b.m[k]
	}
}

func (b *exactBits) SetBatch(_ uint64, keys []filter.Key, before []bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, k := range keys {
		if before != nil {
			_, before[i] = b.m[k]
		}
		b.m[k] = struct{}{}
	}
}

func (b *exactBits) Keys() uint64 {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return uint64(len(b.m))
}

func (b *exactBits) Stats() arrays.Stats {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return arrays.Stats{Keys: uint64(len(b.m)), Bytes: mapEntryBytes * uint64(len(b.m))}
}

// Add adds two counts, stopping at filter.Many.
func Add(a, b uint32) uint32 {
	return uint32(min(uint64(a)+uint64(b), filter.Many))
}
