package filter

import (
	"slices"
	"sync/atomic"
)

// A table holds the values of one page's heavy cells: those whose value is 15
// or more, while their nibble says only that (the escape value). It is an open
// hash table of 64-bit entries, probed linearly from a home slot that the line
// chooses. Because H1 raises all cells of a key to one value, an entry holds
// one value and up to six cells of a line that have it: about one entry per
// heavy key, where a table of single cells needs k.
//
//	bit 63..54  line within the page
//	bit 53..42  f: 0 no entry; 1 to 4094 narrow entry of value 14+f; 4095 wide
//	bit 41..0   narrow: six cells of 7 bits, ascending, the last one repeated
//	            wide: value in bits 23..0, two cells in bits 30..24 and 37..31
//
// The word 0 is a free slot, the word 1 one whose entry was removed.
//
// One writer, many readers without locks. Every cell that has the escape nibble
// is in at least one entry at any moment; while it moves between two, both hold
// it, and the larger value is the newer one. Readers may act on either: an add
// whose effect they miss has not returned yet.
type table struct {
	slots []uint64
	used  int // slots that are not 0, removed entries included
}

const (
	freeSlot    = 0
	removedSlot = 1

	wideMark   = 4095
	narrowLast = maxLight + wideMark - 1 // largest value of a narrow entry
	narrowRefs = 6
	wideRefs   = 2
)

// entry packs value and cells; the set must not be empty nor exceed
// refsFor(value).
func entry(line uint64, value uint32, set mask) uint64 {
	e := line << 54
	var c uint64
	if value > narrowLast {
		e |= wideMark<<42 | uint64(value)
		c, set = set.pop()
		e |= c << 24
		if !set.empty() {
			c, _ = set.pop()
		}
		return e | c<<31
	}
	e |= uint64(value-maxLight) << 42
	for i := range narrowRefs {
		if !set.empty() {
			c, set = set.pop()
		}
		e |= c << (7 * i)
	}
	return e
}

// refsFor returns how many cells an entry of the value can hold.
func refsFor(value uint32) int {
	if value > narrowLast {
		return wideRefs
	}
	return narrowRefs
}

// holds reports whether the slot e is an entry of the line.
func holds(e, line uint64) bool { return e>>54 == line && e>>42&wideMark != 0 }

// unpack returns value and cells of an entry.
func unpack(e uint64) (value uint32, set mask) {
	f := e >> 42 & wideMark
	if f == wideMark {
		return uint32(e & (1<<24 - 1)), set.with(e >> 24 & 127).with(e >> 31 & 127)
	}
	for range narrowRefs {
		set = set.with(e & 127)
		e >>= 7
	}
	return uint32(f) + maxLight, set
}

// home returns the slot where probing for a line begins.
func (t *table) home(line uint64) int {
	return int(uint64(uint32(line*0x9e3779b1)) * uint64(len(t.slots)) >> 32)
}

// least returns the smallest value among the given heavy cells of the line, and
// whether all of them were found. They always are, unless a writer moved one
// past the reader meanwhile: look again.
func (t *table) least(line uint64, want mask) (value uint32, ok bool) {
	if t == nil {
		return 0, false
	}
	value = Many
	i := t.home(line)
	for range t.slots {
		e := atomic.LoadUint64(&t.slots[i])
		if e == freeSlot {
			return 0, false
		}
		if holds(e, line) {
			v, set := unpack(e)
			if hit := set.and(want); !hit.empty() {
				value, want = min(value, v), want.without(hit)
				if want.empty() {
					return value, true
				}
			}
		}
		if i++; i == len(t.slots) {
			i = 0
		}
	}
	return 0, false
}

// A found is an entry that shares cells with a set that is looked for.
type found struct {
	slot  int
	value uint32
	set   mask
}

// lookup appends to dst the entries of the line that hold any cell of want, all
// of which must be heavy.
func (t *table) lookup(dst []found, line uint64, want mask) []found {
	if t == nil {
		return dst
	}
	i := t.home(line)
	for n := 0; n < len(t.slots) && !want.empty(); n++ {
		e := t.slots[i]
		if e == freeSlot {
			break
		}
		if holds(e, line) {
			if v, set := unpack(e); !set.and(want).empty() {
				dst = append(dst, found{i, v, set})
				want = want.without(set)
			}
		}
		if i++; i == len(t.slots) {
			i = 0
		}
	}
	return dst
}

// insert puts the entry e into the first slot without one. There must be room.
func (t *table) insert(e uint64) {
	i := t.home(e >> 54)
	for t.slots[i] > removedSlot {
		if i++; i == len(t.slots) {
			i = 0
		}
	}
	if t.slots[i] == freeSlot {
		t.used++
	}
	atomic.StoreUint64(&t.slots[i], e)
}

// put writes e into a slot that holds an entry already.
func (t *table) put(slot int, e uint64) { atomic.StoreUint64(&t.slots[slot], e) }

// newTable returns an empty table of at least size slots: as many as fit into
// the block of memory that the allocator hands out for them anyway.
func newTable(size int) *table {
	slots := slices.Grow([]uint64(nil), max(size, 8))
	slots = slots[:cap(slots)]
	clear(slots)
	return &table{slots: slots}
}

// bytes returns the memory of t.
func (t *table) bytes() int64 {
	if t == nil {
		return 0
	}
	return 8*int64(len(t.slots)) + 40
}

// reserve returns t, or a larger copy of it, such that n inserts fit at a load
// of at most 7/8. Tables grow by an eighth: memory counts here, and the copy is
// small.
func (t *table) reserve(n int) *table {
	if t == nil {
		return newTable(n * 5 / 4)
	}
	if (t.used+n)*8 <= len(t.slots)*7 {
		return t
	}
	live := 0
	for _, e := range t.slots {
		if e > removedSlot {
			live++
		}
	}
	bigger := newTable(max((live+n)*8/7, live*9/7) + 2)
	for _, e := range t.slots {
		if e > removedSlot {
			bigger.insert(e)
		}
	}
	return bigger
}

// raise sets the value of the given cells of the line to value, from 15 to
// Many, and returns the table to use from now on. light are those of them that
// are not in the table yet, old the entries that hold the others; all of the
// others have smaller values. Room for len(set) inserts must be reserved.
//
// No cell is ever without an entry on the way: new entries are written first,
// then the cells are taken out of the old ones.
func (t *table) raise(line uint64, value uint32, set mask, old []found) {
	rest := set
	room := refsFor(value)
	for i := range old {
		o := &old[i]
		if !o.set.within(set) || o.set.len() > room || o.set.and(rest) != o.set {
			continue
		}
		// The whole entry is taken over: write the new one in its place, with
		// as many of the other cells as it can hold.
		take := o.set.or(rest.without(o.set).first(room - o.set.len()))
		t.put(o.slot, entry(line, value, take))
		rest = rest.without(take)
		o.slot = -1
	}
	for !rest.empty() {
		take := rest.first(room)
		t.insert(entry(line, value, take))
		rest = rest.without(take)
	}
	for _, o := range old {
		if o.slot < 0 {
			continue
		}
		if keep := o.set.without(set); keep.empty() {
			t.put(o.slot, removedSlot)
		} else {
			t.put(o.slot, entry(line, o.value, keep))
		}
	}
}
