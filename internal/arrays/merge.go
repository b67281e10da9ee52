package arrays

import (
	"fmt"
	"math/bits"
	"slices"
	"sync/atomic"
	"unsafe"
)

// Merge adds to each cell of c the value of the same cell of o, saturating at [Many]: the result
// counts what either counted. The geometries must be equal; otherwise Merge changes nothing and
// returns an error that wraps [ErrGeometry]. o may be in use concurrently; pages are merged one
// after another. Merge is commutative and associative but not idempotent. The pages keep c's
// journal indexes.
func (c *Counting) Merge(o *Counting) error {
	if c.geo != o.geo {
		return fmt.Errorf("%w: %v merged into %v", ErrGeometry, o.geo, c.geo)
	}
	var work merger
	for p := range c.pages {
		unlock := lockBoth(c.array, o.array)
		info, theirs := c.pages[p].PageInfo, o.pages[p].PageInfo
		if !blank(o.pageWords(p)) {
			info.Version++
			info.Keys += theirs.Keys
			old := c.oldPage(p)
			info.Overflow = c.mergePage(p, o, &work)
			c.slicePage(p, c.writes, old)
			c.shrunk()
			c.setInfo(p, info)
		}
		unlock()
	}
	return nil
}

// lockBoth locks two arrays, which may be the same, in the order of their addresses: two arrays may
// be merged into each other at the same time.
func lockBoth(a, b *array) (unlock func()) {
	if a == b {
		a.mu.Lock()
		return a.mu.Unlock
	}
	if uintptr(unsafe.Pointer(a)) > uintptr(unsafe.Pointer(b)) {
		a, b = b, a
	}
	a.mu.Lock()
	b.mu.Lock()
	return func() {
		b.mu.Unlock()
		a.mu.Unlock()
	}
}

// A merger is working memory that a merge reuses from page to page.
type merger struct {
	sum          plane
	rank         ranks
	mine, theirs []uint32 // values of heavy cells, in the same order as in sum
}

// mergePage adds page p of o to the same page of c and returns the resulting number of heavy cells.
// Both locks are held.
func (c *Counting) mergePage(p int, o *Counting, m *merger) (overflow int) {
	dst, src := c.ownPage(p), o.pageWords(p)
	if m.sum.lines == nil {
		m.sum.lines = alignedLines(len(dst))
	}
	// The nibbles need no exceptions: a heavy cell is 15, and saturates. Lines without heavy cells
	// are done; the others wait for their values. A block of both inputs and of the sum fits in the
	// core's first cache.
	const block = 64
	light := true
	for i := 0; i < len(dst); i += block {
		end := min(i+block, len(dst))
		if sumLines(m.sum.lines[i:end], dst[i:end], src[i:end]) {
			light = false
			continue
		}
		for j := i; j < end; j++ {
			publish(&dst[j], &m.sum.lines[j])
		}
	}
	if light {
		return 0
	}
	n := m.rank.of(m.sum.lines)
	m.mine = c.pages[p].table.Load().fill(m.mine, n, &m.rank, m.sum.lines)
	m.theirs = o.pages[p].table.Load().fill(m.theirs, n, &m.rank, m.sum.lines)
	m.sum.high = slices.Grow(m.sum.high[:0], n)[:n]
	next := 0
	for i := range m.sum.lines {
		for j, z := range m.sum.lines[i] {
			x, y := dst[i][j], src[i][j]
			for e := escapes(z); e != 0; e &= e - 1 {
				shift := bits.TrailingZeros64(e)
				v, w := uint32(x>>shift&15), uint32(y>>shift&15)
				if v == escape {
					v = m.mine[next]
				}
				if w == escape {
					w = m.theirs[next]
				}
				m.sum.high[next] = min(v+w, Many)
				next++
			}
		}
	}
	c.store(p, m.sum, true)
	return n
}

// sumLines sets the lines of sum to the sums of the nibbles at x and y, at most 15 each, and reports
// whether any sum reached 15. sum may be x or y.
func sumLines(sum, x, y []words) (heavy bool) {
	var found uint64
	for i := range sum {
		for j := range sum[i] {
			z := addNibbles(x[i][j], y[i][j])
			sum[i][j] = z
			found |= escapes(z)
		}
	}
	return found != 0
}

// Merge sets in b every bit that is set in o: the result holds the keys of both. The geometries
// must be equal; otherwise Merge changes nothing and returns an error that wraps [ErrGeometry]. o
// may be in use concurrently. Merge is commutative, associative and, except for Version and Keys,
// idempotent.
func (b *Bits) Merge(o *Bits) error {
	if b.geo != o.geo {
		return fmt.Errorf("%w: %v merged into %v", ErrGeometry, o.geo, b.geo)
	}
	for p := range b.pages {
		keys := o.PageInfo(p).Keys
		if o.blankAt(p) {
			continue
		}
		b.mu.Lock()
		dst, src := b.ownPage(p), o.pageWords(p)
		if orLines(dst, src) {
			b.slicePage(p, b.writes, nil)
			info := b.pages[p].PageInfo
			info.Version++
			info.Keys += keys
			b.setInfo(p, info)
		}
		b.mu.Unlock()
	}
	return nil
}

// orLines sets the bits of the lines src in the lines dst, and reports whether any bit was not set
// before. src may change concurrently. It works on whole lines, without branches inside a line.
func orLines(dst, src []words) (changed bool) {
	src = src[:len(dst)]
	for i := range dst {
		d, s := &dst[i], &src[i]
		var w words
		var added uint64
		for j := range w {
			old := atomic.LoadUint64(&d[j])
			w[j] = old | atomic.LoadUint64(&s[j])
			added |= w[j] ^ old
		}
		if added != 0 {
			publish(d, &w)
			changed = true
		}
	}
	return changed
}

// blank reports whether all words of lines are zero.
func blank(lines []words) bool {
	for i := range lines {
		if lines[i] != (words{}) {
			return false
		}
	}
	return true
}
