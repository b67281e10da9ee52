package resolve

import (
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
)

// A table counts keys for the length of a batch. Emptying it takes constant time. Keys need no
// further hash, because they are already keyed hashes.
type table struct {
	slots []slot // a power of two of them, at most half in use; nil: no key yet
	used  int
	batch uint32 // slots of other batches are free
}

type slot struct {
	key   filter.Key
	batch uint32
	n     uint32
}

const (
	leastSlots = 1 << 8
	// mostSlots is the maximum number of slots that an emptied table may keep.
	mostSlots = 1 << 13
)

// empty removes all keys.
func (t *table) empty() {
	t.used = 0
	t.batch++
	if len(t.slots) > mostSlots || t.batch == 0 {
		*t = table{}
	}
}

// at returns the slot of a key: its own, or the free one that it would take.
func (t *table) at(k filter.Key) *slot {
	mask := uint64(len(t.slots) - 1)
	for i := k.Lo; ; i++ {
		if s := &t.slots[i&mask]; s.batch != t.batch || s.key == k {
			return s
		}
	}
}

// count returns how often a key was added.
func (t *table) count(k filter.Key) uint32 {
	if t.used == 0 {
		return 0
	}
	if s := t.at(k); s.batch == t.batch {
		return s.n
	}
	return 0
}

// has reports whether a key was added.
func (t *table) has(k filter.Key) bool { return t.count(k) > 0 }

// add adds a key n times, n at least 1, up to filter.Many.
func (t *table) add(k filter.Key, n uint32) {
	if 2*t.used >= len(t.slots) {
		t.grow()
	}
	s := t.at(k)
	if s.batch != t.batch {
		*s = slot{key: k, batch: t.batch}
		t.used++
	}
	s.n = book.Add(s.n, n)
}

func (t *table) grow() {
	old := t.slots
	t.slots = make([]slot, max(leastSlots, 2*len(old)))
	if t.batch == 0 {
		t.batch = 1 // 0 marks slots that were never used
	}
	for i := range old {
		if s := &old[i]; s.batch == t.batch {
			*t.at(s.key) = *s
		}
	}
}

// raise increases each number by the count of its key.
func (t *table) raise(keys []filter.Key, n []uint32) {
	if t.used == 0 {
		return
	}
	for i, k := range keys {
		n[i] = book.Add(n[i], t.count(k))
	}
}

// also sets has for the keys that were added.
func (t *table) also(keys []filter.Key, has []bool) {
	if t.used == 0 {
		return
	}
	for i, k := range keys {
		has[i] = has[i] || t.has(k)
	}
}
