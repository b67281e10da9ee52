package arrays

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/bulkhead-mail/bulkhead/internal/huge"
)

// batch is the number of keys that one step of a batched call handles. Their lines are prefetched
// during the step before, so that up to this many cache misses overlap. Steps of 8 and of 32
// measured within 10 % of it.
const batch = 16

// cached is the size in bytes up to which an array is assumed to stay in the core's
// own cache, where prefetching costs more than it gains.
const cached = 1 << 16

// A words is one line: eight 64-bit words, word 0 first.
type words [lineWords]uint64

// PageInfo is the state of one page. A page is the unit of overflow tables,
// recovery, replication and eviction.
type PageInfo struct {
	Version  uint64 // number of changes since the page was empty
	Index    uint64 // journal index of the last entry applied, 0 if none
	Keys     uint64 // adds of keys that were not there before; after a merge, the sum
	Overflow int    // cells whose value is in the overflow table; 0 in bit arrays
	// Shown and ShownKeys are Version and Keys of what the page shows to others, see
	// [Counting.SetFloor]; 0 without a floor.
	Shown, ShownKeys uint64
}

// page is the state of one page. All fields except table are guarded by array.mu.
type page struct {
	PageInfo
	// call is the batched call that last decided to apply its entry here, so that all keys of one
	// call that hit one page share one decision.
	call  uint64
	table atomic.Pointer[table] // cells whose value is 15 or more; nil: none
}

// array is the common part of Counting and Bits: the lines, their pages and the lock that orders
// writers.
type array struct {
	geo   Geometry
	id    uint64     // geo.ID()
	lines []words    // nil if the array is sparse
	dir   *directory // nil unless the array is sparse

	// mu is held by every method that writes or needs a page to stand still. Counts and membership
	// checks never take it.
	mu         sync.Mutex
	pages      []page
	generation uint64
	calls      uint64
	fresh      uint64   // keys of the running call that are not yet included in keys
	writes     []Column // columns to which new keys are also written; never modified, only replaced

	keys     atomic.Uint64 // sum of page.Keys
	overflow atomic.Int64  // bytes of all overflow tables
	columns  atomic.Pointer[[]Column]
}

func newArray(g Geometry) *array {
	return &array{geo: g, id: g.ID(), lines: alignedLines(int(g.Lines)), pages: make([]page, g.Pages())}
}

// alignedLines returns n zero lines, each on a cache line of its own.
func alignedLines(n int) []words {
	raw := make([]uint64, (n+1)*lineWords)
	huge.Advise(raw)
	skip := 0
	for uintptr(unsafe.Pointer(&raw[skip]))%LineBytes != 0 {
		skip++
	}
	return unsafe.Slice((*words)(unsafe.Pointer(&raw[skip])), n)
}

// Touch makes the system allocate all memory of an array that is empty and not shared yet.
// Otherwise the system allocates a page when a line of it is first written to, and the writer waits
// until the page is cleared: 2 MiB if pages are huge. Touch does nothing to a sparse array.
func (a *array) Touch() {
	if len(a.lines) > 0 {
		huge.Populate(unsafe.Slice(&a.lines[0][0], len(a.lines)*lineWords))
	}
}

// Geometry returns the geometry with which the array was made.
func (a *array) Geometry() Geometry { return a.geo }

// Keys returns how many adds found their key absent: the number of distinct keys, less the few that
// looked present at their first add. After a merge it is the sum of both arrays, an upper bound.
func (a *array) Keys() uint64 { return a.keys.Load() }

// flushKeys ends a call that added keys.
func (a *array) flushKeys() {
	if a.fresh > 0 {
		a.keys.Add(a.fresh)
		a.fresh = 0
	}
}

// Generation returns the time slice the array belongs to, as set.
func (a *array) Generation() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.generation
}

// SetGeneration sets the time slice that goes into encoded pages. An array refuses pages of a
// different generation.
func (a *array) SetGeneration(generation uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.generation = generation
}

// PageInfo returns the state of page p, 0 to Pages()-1.
func (a *array) PageInfo(p int) PageInfo {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pages[p].PageInfo
}

// Pages returns the number of pages.
func (a *array) Pages() int { return len(a.pages) }

// PageOf returns the page on which k lies.
func (a *array) PageOf(k Key) int { return int(line(k.Hi, a.geo.Lines) / PageLines) }

// resident reports whether a is assumed to be in the core's own cache.
func (a *array) resident() bool { return a.geo.Lines <= cached/LineBytes }

// prefetch computes the lines of up to batch keys and prefetches them.
func (a *array) prefetch(keys []Key, lines *[batch]uint64) {
	n := min(len(keys), batch)
	total := a.geo.Lines
	for i := range keys[:n] {
		lines[i] = line(keys[i].Hi, total)
	}
	if n > 0 && !a.resident() {
		a.fetch(lines[:n])
	}
}

// fetch prefetches 1 to batch lines.
func (a *array) fetch(lines []uint64) {
	if a.dir != nil {
		a.dir.prefetch(lines)
	} else {
		prefetchLines(unsafe.Pointer(unsafe.SliceData(a.lines)), &lines[0], len(lines))
	}
}

// due reports whether the journal entry index must be applied to page p, and if so records it
// there. call identifies the batched call.
func (a *array) due(p *page, index, call uint64) bool {
	if index == 0 || p.call == call {
		return true
	}
	if p.Index >= index {
		return false
	}
	p.Index, p.call = index, call
	return true
}
