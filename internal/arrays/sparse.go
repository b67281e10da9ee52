package arrays

import (
	"sync/atomic"
	"unsafe"
)

// A directory holds the lines of an array whose pages are allocated when they are first written to.
// Readers take no lock: an absent page is blank, and a present page stays until it is copied into
// contiguous memory together with all others.
type directory struct {
	pages []atomic.Pointer[[PageLines]words]
	held  atomic.Int64 // pages in memory; all of them once they are contiguous
}

// blankPage stands for every page that is not in memory. It is never written to.
var blankPage [PageLines]words

// NewSparseCounting is [NewCounting] for an array that allocates its pages as they are filled: 64
// KiB with the first add to a page. A count takes slightly longer.
func NewSparseCounting(g Geometry) (*Counting, error) {
	return newCounting(g, newSparse)
}

// NewSparseBits is [NewBits] for an array that allocates its pages as they are filled, as
// [NewSparseCounting] does.
func NewSparseBits(g Geometry) (*Bits, error) {
	return newBitsOf(g, newSparse)
}

func newSparse(g Geometry) *array {
	if g.Pages() == 1 {
		return newArray(g)
	}
	return &array{geo: g, id: g.ID(), dir: &directory{pages: make([]atomic.Pointer[[PageLines]words], g.Pages())},
		pages: make([]page, g.Pages())}
}

// Resident returns the present memory size of the array in bytes: the lines (only the pages in
// memory if the array is sparse), the overflow tables and the page states.
func (a *array) Resident() uint64 {
	rest := uint64(len(a.pages))*pageStateBytes + uint64(a.overflow.Load())
	if a.dir == nil {
		return a.geo.Bytes() + rest
	}
	return uint64(len(a.pages))*directoryEntry + uint64(a.dir.held.Load())*PageBytes + rest
}

// pageStateBytes is the memory size of one page's state.
const pageStateBytes = uint64(unsafe.Sizeof(page{}))

// directoryEntry is the memory size of one page's entry in a directory.
const directoryEntry = uint64(unsafe.Sizeof(uintptr(0)))

// SparseBytes returns the size in bytes of an empty sparse array of geometry g.
func SparseBytes(g Geometry) uint64 {
	return uint64(g.Pages()) * (pageStateBytes + directoryEntry)
}

// at returns line i for reading.
func (a *array) at(i uint64) *words {
	if a.dir == nil {
		return &a.lines[i]
	}
	return a.dir.at(i)
}

func (d *directory) at(i uint64) *words {
	if p := d.pages[i/PageLines].Load(); p != nil {
		return &p[i%PageLines]
	}
	return &blankPage[i%PageLines]
}

// own returns line i for writing, for the holder of a.mu.
func (a *array) own(i uint64) *words {
	if a.dir == nil {
		return &a.lines[i]
	}
	a.dir.hold(int(i / PageLines))
	return a.dir.at(i)
}

// hold brings a page into memory. Once half of the pages are in memory, all are moved into
// contiguous memory, which is faster to read.
func (d *directory) hold(p int) {
	if d.pages[p].Load() != nil {
		return
	}
	d.pages[p].Store(pageAt(make([]words, PageLines))) // an allocation of this size is aligned
	if n := d.held.Add(1); 2*int(n) == len(d.pages) || 2*int(n) == len(d.pages)+1 {
		d.gather()
	}
}

func (d *directory) gather() {
	all := alignedLines(len(d.pages) * PageLines)
	for i := range d.pages {
		part := all[i*PageLines : (i+1)*PageLines]
		if old := d.pages[i].Load(); old != nil {
			copy(part, old[:]) // the lock keeps other writers out
		}
		d.pages[i].Store(pageAt(part))
	}
	d.held.Store(int64(len(d.pages)))
}

func pageAt(lines []words) *[PageLines]words { return (*[PageLines]words)(lines) }

// blankAt reports whether page p is not in memory.
func (a *array) blankAt(p int) bool { return a.dir != nil && a.dir.pages[p].Load() == nil }

// pageWords returns the lines of page p for reading.
func (a *array) pageWords(p int) []words {
	if a.dir != nil {
		if held := a.dir.pages[p].Load(); held != nil {
			return held[:]
		}
		return blankPage[:]
	}
	n := a.geo.LinesInPage()
	return a.lines[p*n : (p+1)*n]
}

// ownPage returns the lines of page p for writing, for the holder of a.mu.
func (a *array) ownPage(p int) []words {
	if a.dir != nil {
		a.dir.hold(p)
	}
	return a.pageWords(p)
}

// prefetch is prefetchLines for the lines of a directory.
func (d *directory) prefetch(lines []uint64) {
	var addresses [batch]uint64 // as numbers of 64-byte lines
	for i, l := range lines {
		addresses[i] = uint64(uintptr(unsafe.Pointer(d.at(l)))) / LineBytes
	}
	prefetchLines(nil, &addresses[0], len(lines))
}

// Growth returns the additional bytes that the lines of the array take once the round has been
// applied.
func (a *array) Growth(r *Round) uint64 {
	if a.dir == nil {
		return 0
	}
	n := 0
	for i := range r.ops {
		p := r.ops[i].line / PageLines
		if (i == 0 || p != r.ops[i-1].line/PageLines) && p < uint64(len(a.pages)) && a.blankAt(int(p)) {
			n++
		}
	}
	return a.growth(n)
}

// growth returns the bytes that n more pages take, or all pages if they are all brought in.
func (a *array) growth(n int) uint64 {
	if n == 0 {
		return 0
	}
	held := int(a.dir.held.Load())
	if 2*(held+n) >= len(a.pages) {
		n = len(a.pages) - held
	}
	return uint64(n) * PageBytes
}
