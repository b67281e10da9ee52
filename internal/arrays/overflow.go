package arrays

import (
	"slices"
	"sync/atomic"
	"unsafe"
)

// A table holds the values of one page's heavy cells: cells of value 15 or more, whose nibble is
// the escape value. It is an open hash table of 64-bit entries, probed linearly from a home slot
// that the line determines. Because H1 raises all cells of a key to one value, an entry holds one
// value and up to six cells of a line that have it. That is about one entry per heavy key, where a
// table of single cells needs k.
//
//	bit 63..54  line within the page
//	bit 53..42  f: 0 no entry; 1 to 4094 narrow entry of value 14+f; 4095 wide
//	bit 41..0   narrow: six cells of 7 bits, the last one repeated; in the
//	            key's order if they are all cells of one key, else ascending
//	            wide: value in bits 23..0, two cells in bits 30..24 and 37..31
//
// The word 0 is a free slot; the word 1 is a slot whose entry was removed.
//
// There is one writer, and many readers without locks. Every cell that has the escape nibble is in
// at least one entry at any moment. While a cell moves from one entry to another, both hold it, and
// the larger value is the newer one. Readers may act on either: an add whose effect they miss has
// not returned yet.
type table struct {
	slots []uint64
	used  int // slots other than 0, including removed entries
}

const (
	freeSlot    = 0
	removedSlot = 1

	wideMark   = 4095
	narrowLast = maxLight + wideMark - 1 // largest value of a narrow entry
	narrowRefs = 6
	wideRefs   = 2
)

// entry packs value and cells; the set must not be empty or exceed refsFor(value).
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

// refsFor returns how many cells an entry with the value can hold.
func refsFor(value uint32) int {
	if value > narrowLast {
		return wideRefs
	}
	return narrowRefs
}

// holds reports whether the slot e is an entry for the line.
func holds(e, line uint64) bool { return e>>54 == line && e>>42&wideMark != 0 }

// unpack returns the value and cells of an entry.
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

// address returns the number of the 64-byte memory line that holds the home slot of a line.
func (t *table) address(line uint64) uint64 {
	return uint64(uintptr(unsafe.Pointer(&t.slots[t.home(line)]))) / LineBytes
}

// exactMask covers the bits that distinguish the entries of single keys: all but f.
const exactMask = ^uint64(wideMark << 42)

// least returns the smallest value among the k cells x of the line, all of which are heavy, and
// whether all of them were found. A cell can be missed only if a writer moved it past the reader;
// the reader then looks again.
func (t *table) least(line uint64, x cells, k uint8) (value uint32, ok bool) {
	if t == nil {
		return 0, false
	}
	id := line<<54 | x.packed(k)
	var want mask
	value = Many
	i := t.home(line)
	for range t.slots {
		e := atomic.LoadUint64(&t.slots[i])
		if f := e >> 42 & wideMark; e>>54 == line && f != 0 {
			if e&exactMask == id && f != wideMark && k <= narrowRefs {
				return uint32(f) + maxLight, true // the entry of this key alone
			}
			if want.empty() {
				want = x.set(k)
			}
			v, set := unpack(e)
			if hit := set.and(want); !hit.empty() {
				value, want = min(value, v), want.without(hit)
				if want.empty() {
					return value, true
				}
			}
		} else if e == freeSlot {
			return 0, false
		}
		if i++; i == len(t.slots) {
			i = 0
		}
	}
	return 0, false
}

// addExact adds n to the value of the entry that holds exactly the k cells x of the line, and
// returns the value before. A heavy key has such an entry unless it shares cells with a heavier
// key. addExact does nothing if there is no such entry or the sum needs a wide one.
func (t *table) addExact(line uint64, x cells, k uint8, n uint32) (before uint32, done bool) {
	if t == nil || k > narrowRefs {
		return 0, false
	}
	id := line<<54 | x.packed(k)
	i := t.home(line)
	for range t.slots {
		e := t.slots[i]
		if e&exactMask == id {
			f := uint32(e >> 42 & wideMark)
			if f == 0 || uint64(f)+uint64(n) >= wideMark {
				return 0, false
			}
			atomic.StoreUint64(&t.slots[i], e+uint64(n)<<42)
			return f + maxLight, true
		}
		if e == freeSlot {
			return 0, false
		}
		if i++; i == len(t.slots) {
			i = 0
		}
	}
	return 0, false
}

// A found is an entry that shares cells with a wanted set.
type found struct {
	slot  int
	value uint32
	set   mask
}

// lookup appends to dst the entries of the line that hold any cell of want. All cells of want must
// be heavy.
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

// insert puts the entry e into the first free slot. There must be room.
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

// put overwrites a slot that holds an entry.
func (t *table) put(slot int, e uint64) { atomic.StoreUint64(&t.slots[slot], e) }

// newTable returns an empty table of at least size slots: as many as fit into the block of memory
// that the allocator returns.
func newTable(size int) *table {
	slots := slices.Grow([]uint64(nil), max(size, 8))
	slots = slots[:cap(slots)]
	clear(slots)
	return &table{slots: slots}
}

// bytes returns the memory size of t.
func (t *table) bytes() int64 {
	if t == nil {
		return 0
	}
	return 8*int64(len(t.slots)) + 40
}

// reserve returns t, or a larger copy of it, with room for n inserts at a load of at most 7/8.
// Tables grow by an eighth: memory matters here, and the copy is small.
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

// A raise is one change of a table: cells of a line are raised to a value.
type raise struct {
	line  uint64
	value uint32 // 15 to Many
	set   mask   // the cells, all with a smaller value
	key   cells  // all k cells of the key
	k     uint8
}

// entry packs the cells take of r, in the key's order if they are all of its cells.
func (r *raise) entry(take mask) uint64 {
	if r.value <= narrowLast && r.k <= narrowRefs && take.len() == int(r.k) && take == r.set && take == r.key.set(r.k) {
		return r.line<<54 | uint64(r.value-maxLight)<<42 | r.key.packed(r.k)
	}
	return entry(r.line, r.value, take)
}

// raise carries out r. old are the entries that hold cells of r.set; the other cells of r.set are
// not in the table yet. Room for r.set.len() inserts must be reserved.
//
// At no point is a cell without an entry: new entries are written first, then the cells are removed
// from the old ones.
func (t *table) raise(r *raise, old []found) {
	rest := r.set
	room := refsFor(r.value)
	for i := range old {
		o := &old[i]
		if !o.set.within(rest) || o.set.len() > room {
			continue
		}
		// The whole entry is replaced: write the new entry in its place, with as many of the other
		// cells as it can hold.
		take := o.set.or(rest.without(o.set).first(room - o.set.len()))
		t.put(o.slot, r.entry(take))
		rest = rest.without(take)
		o.slot = -1
	}
	for !rest.empty() {
		take := rest.first(room)
		t.insert(r.entry(take))
		rest = rest.without(take)
	}
	for _, o := range old {
		if o.slot < 0 {
			continue
		}
		if keep := o.set.without(r.set); keep.empty() {
			t.put(o.slot, removedSlot)
		} else {
			t.put(o.slot, entry(r.line, o.value, keep))
		}
	}
}
