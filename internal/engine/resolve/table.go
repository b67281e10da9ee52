package resolve

import (
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
)

// A table counts keys for the length of a batch. The zero value has no keys.
type table struct{ counts map[filter.Key]uint32 }

// mostKeys is the maximum number of keys for which an emptied table keeps its map: emptying a map
// takes time in proportion to its size, and most batches have few keys.
const mostKeys = 1 << 9

// empty removes all keys.
func (t *table) empty() {
	if len(t.counts) > mostKeys {
		t.counts = nil
		return
	}
	clear(t.counts)
}

// count returns how often a key was added.
func (t *table) count(k filter.Key) uint32 { return t.counts[k] }

// has reports whether a key was added.
func (t *table) has(k filter.Key) bool { return t.count(k) > 0 }

// add adds a key n times, n at least 1, up to filter.Many.
func (t *table) add(k filter.Key, n uint32) {
	if t.counts == nil {
		t.counts = make(map[filter.Key]uint32)
	}
	t.counts[k] = book.Add(t.counts[k], n)
}

// raise increases each number by the count of its key.
func (t *table) raise(keys []filter.Key, n []uint32) {
	for i, k := range keys {
		n[i] = book.Add(n[i], t.count(k))
	}
}

// also sets has for the keys that were added.
func (t *table) also(keys []filter.Key, has []bool) {
	for i, k := range keys {
		has[i] = has[i] || t.has(k)
	}
}
