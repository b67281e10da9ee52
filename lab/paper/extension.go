package paper

import (
	"fmt"
	"slices"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/bitset"
)

// counters is the common part of both extensions: cells under a hash family.
type counters struct {
	family Family
	public bool
	layout CellLayout
	cells  cellStore
}

func newCounters(f Family, l CellLayout) (counters, error) {
	if err := bitset.Check(f.m, f.k); err != nil {
		return counters{}, err
	}
	if err := f.Reachable(); err != nil {
		return counters{}, err
	}
	if err := l.validate(f.m); err != nil {
		return counters{}, err
	}
	return counters{family: f, layout: l, cells: newCells(l, f.m)}, nil
}

// Family returns the hash functions of the filter.
func (c *counters) Family() Family { return c.family }

// Layout returns how the cells are stored.
func (c *counters) Layout() CellLayout { return c.layout }

// Bytes returns the memory size of the cells, including hash tables.
func (c *counters) Bytes() uint64 { return c.cells.bytes() }

// Publish makes Encode write the key of a keyed family into the file; see [filter.TwoPart.Publish].
func (c *counters) Publish() { c.public = true }

// Count returns how often x was inserted, saturating at the layout's Max: the smallest of its
// cells. It is never too low as long as no cell of x was decreased, and too high if all of x's
// cells are shared with other elements.
func (c *counters) Count(x []byte) uint32 {
	var buf [filter.MaxHashes]uint64
	least := c.layout.Max()
	for _, pos := range c.family.Append(buf[:0], x) {
		least = min(least, c.cells.get(pos))
	}
	return least
}

// Cell returns the count of cell i, 0 <= i < m.
func (c *counters) Cell(i uint64) uint32 { return c.cells.get(i) }

func (c *counters) alike(o *counters) error {
	if c.layout != o.layout || !c.family.Equal(&o.family) {
		return fmt.Errorf("%w: %v x %d into %v x %d", filter.ErrGeometry, o.layout, o.family.m, c.layout, c.family.m)
	}
	return nil
}

// distinctPositions sorts ps and drops repeated positions. By H2, a cell that several of an
// element's functions hit is changed once.
func distinctPositions(ps []uint64) []uint64 {
	slices.Sort(ps)
	return slices.Compact(ps)
}

// An Intuitive is the intuitive counting extension of the Bloom filter (Fan et al., with H2 of Yan
// & Cho): inserting an element increases each of its different cells, and deleting it decreases
// them. It is kept for studies and as a baseline; a [Refined] filter of the same size is wrong less
// often.
//
// Methods that only read may run concurrently; the others need exclusive access.
type Intuitive struct{ counters }

// NewIntuitive returns an empty filter. It refuses a family that cannot reach every cell
// ([ErrUnreachable]).
func NewIntuitive(f Family, l CellLayout) (*Intuitive, error) {
	c, err := newCounters(f, l)
	if err != nil {
		return nil, err
	}
	return &Intuitive{c}, nil
}

// Insert counts n occurrences of x and returns the count before.
func (c *Intuitive) Insert(x []byte, n uint32) (before uint32) {
	var buf [filter.MaxHashes]uint64
	limit := c.layout.Max()
	before = limit
	for _, pos := range distinctPositions(c.family.Append(buf[:0], x)) {
		v := c.cells.get(pos)
		before = min(before, v)
		c.cells.set(pos, v+min(n, limit-v))
	}
	return before
}

// Delete removes n occurrences of x, which must have been inserted. The filter cannot verify that,
// and deleting others corrupts the counts of other elements. Delete fails, and changes nothing, if
// the count is less than n. A saturated cell has lost its true count, and stays.
func (c *Intuitive) Delete(x []byte, n uint32) error {
	var buf [filter.MaxHashes]uint64
	ps := distinctPositions(c.family.Append(buf[:0], x))
	limit := c.layout.Max()
	for _, pos := range ps {
		if v := c.cells.get(pos); v < n && v != limit {
			return fmt.Errorf("filter: delete %d of an element counted %d times", n, v)
		}
	}
	for _, pos := range ps {
		if v := c.cells.get(pos); v != limit {
			c.cells.set(pos, v-n)
		}
	}
	return nil
}

// Merge adds the cells of o, saturating: the filter then counts what both have counted. If families
// and layouts are not equal, Merge changes nothing and returns an error that wraps
// [filter.ErrGeometry].
func (c *Intuitive) Merge(o *Intuitive) error {
	if err := c.alike(&o.counters); err != nil {
		return err
	}
	c.cells.add(o.cells)
	return nil
}

// A Refined is the refined counting extension of Yan & Cho. An insertion increases only the
// cells of the element that hold its present count (H1), and each at most once (H2). It is never
// wrong where the intuitive extension is right.
//
// There is no Delete. Cells are no longer the sum of insertions, so a decrease removes counts of
// other elements. In a measurement, deleting 1 % of the elements by decreasing all their cells
// makes 2.8 % of all elements count too low, and the gentlest rule that was tried still 0.4 %
// (docs/study.md). Let counts expire by generations, or hold revocations in a filter of their own.
//
// A merged filter must not be inserted into and sent on: a difference of a merged array undercounts
// (docs/study.md). Each origin inserts into its own filter.
//
// Methods that only read may run concurrently; the others need exclusive access. The production
// form of this filter is [filter.Counting].
type Refined struct{ counters }

// NewRefined returns an empty filter. It refuses a family that cannot reach every cell
// ([ErrUnreachable]).
func NewRefined(f Family, l CellLayout) (*Refined, error) {
	c, err := newCounters(f, l)
	if err != nil {
		return nil, err
	}
	return &Refined{c}, nil
}

// Insert counts n occurrences of x and returns the count before. Every cell of x is raised to at
// least the count before + n. For n = 1 this is the paper's H1, and it is the only form of H1 that
// is right for n > 1. A cell that two functions hit is raised to the same value twice, which is H2.
func (c *Refined) Insert(x []byte, n uint32) (before uint32) {
	var buf [filter.MaxHashes]uint64
	ps := c.family.Append(buf[:0], x)
	limit := c.layout.Max()
	before = limit
	for _, pos := range ps {
		before = min(before, c.cells.get(pos))
	}
	after := before + min(n, limit-before)
	for _, pos := range ps {
		if c.cells.get(pos) < after {
			c.cells.set(pos, after)
		}
	}
	return before
}

// Merge adds the cells of o, saturating: the count of every element is then at least the sum of
// both counts. If families and layouts are not equal, Merge changes nothing and returns an error
// that wraps [filter.ErrGeometry].
func (c *Refined) Merge(o *Refined) error {
	if err := c.alike(&o.counters); err != nil {
		return err
	}
	c.cells.add(o.cells)
	return nil
}
