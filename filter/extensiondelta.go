package filter

import (
	"fmt"
	"io"
)

// A CellDelta is the paper's delta filter, c^t1 - c^t0 cell by cell: what a
// server sends in a later round of synchronisation instead of its whole filter.
// It is a difference, not a filter: it holds no counts of elements. Immutable.
type CellDelta struct {
	refined bool
	counters
}

// Since returns what changed from earlier, a copy of c of some time ago, to c.
// It fails with an error that wraps [ErrGeometry] if the two are not alike, and
// with [ErrVersion] if a cell has decreased. Cells that were saturated already
// show no change.
func (c *Intuitive) Since(earlier *Intuitive) (*CellDelta, error) {
	return c.since(&earlier.counters, false)
}

// Since is [Intuitive.Since]. c must be an array that one origin alone inserted
// into. A difference of arrays into which others were merged undercounts.
func (c *Refined) Since(earlier *Refined) (*CellDelta, error) {
	return c.since(&earlier.counters, true)
}

func (c *counters) since(earlier *counters, refined bool) (*CellDelta, error) {
	if err := c.alike(earlier); err != nil {
		return nil, err
	}
	d := &CellDelta{refined, counters{c.family, c.public, c.layout, newCells(c.layout, c.family.m)}}
	for i := range c.family.m {
		now, then := c.cells.get(i), earlier.cells.get(i)
		if now < then {
			return nil, fmt.Errorf("%w: cell %d went from %d to %d", ErrVersion, i, then, now)
		}
		if now > then {
			d.cells.set(i, now-then)
		}
	}
	return d, nil
}

// Apply adds the cells of d, saturating. It fails, and changes nothing, with an
// error that wraps [ErrGeometry] if d is not of a filter like c.
func (c *Intuitive) Apply(d *CellDelta) error { return c.apply(d, false) }

// Apply is [Intuitive.Apply].
func (c *Refined) Apply(d *CellDelta) error { return c.apply(d, true) }

func (c *counters) apply(d *CellDelta, refined bool) error {
	if err := c.alike(&d.counters); err != nil {
		return err
	}
	if d.refined != refined {
		return fmt.Errorf("%w: delta of the other extension", ErrGeometry)
	}
	c.cells.add(d.cells)
	return nil
}

// Increase returns by how much cell i has grown.
func (d *CellDelta) Increase(i uint64) uint32 { return d.cells.get(i) }

// Clone returns an independent copy of c.
func (c *Intuitive) Clone() *Intuitive { return &Intuitive{c.clone()} }

// Clone returns an independent copy of c.
func (c *Refined) Clone() *Refined { return &Refined{c.clone()} }

func (c *counters) clone() counters {
	d := *c
	d.cells = newCells(c.layout, c.family.m)
	d.cells.add(c.cells)
	return d
}

// codeBlock is the number of cells that are coded together.
const codeBlock = 1 << 16

// encode writes family and layout (width, base: 1 byte each, chunks: 4), then
// for every 65536 cells the number that are not zero (4 bytes), the length of
// their code (4) and the code: Rice-coded gaps and gamma-coded values, close to
// the entropy, and the same for every layout.
func (c *counters) encode(w io.Writer, t paperType) error {
	p := newPaperWriter(w, t)
	p.family(&c.family, c.public)
	p.uint8(uint8(c.layout.Width))
	p.uint8(uint8(c.layout.Base))
	p.uint32(uint32(c.layout.Chunks))
	var list slotList
	for first := uint64(0); first < c.family.m; first += codeBlock {
		n := min(codeBlock, c.family.m-first)
		list.at, list.values = list.at[:0], list.values[:0]
		for i := range n {
			if v := c.cells.get(first + i); v != 0 {
				list.at = append(list.at, uint32(i))
				list.values = append(list.values, v)
			}
		}
		code := list.append(nil, int(n))
		p.uint32(uint32(len(list.at)))
		p.uint32(uint32(len(code)))
		p.bytes(code)
	}
	return p.close()
}

func decodeCounters(r io.Reader, t paperType, limit int64, known []Secret) (counters, error) {
	p := newPaperReader(r, t, limit)
	var c counters
	c.family, c.public = p.family(known)
	c.layout = CellLayout{Width: int(p.uint8()), Base: int(p.uint8()), Chunks: int(p.uint32())}
	if p.err == nil {
		if err := c.layout.validate(c.family.m); err != nil {
			p.fail("%v", err)
		}
	}
	// The code is read whole before cells are allocated: it grows with what
	// arrives, 8 bytes at least for every block, the cells would not.
	var coded [][]byte
	var counts []uint32
	for first := uint64(0); p.err == nil && first < c.family.m; first += codeBlock {
		count, size := p.uint32(), p.uint32()
		coded, counts = append(coded, p.bytes(uint64(size))), append(counts, count)
	}
	if err := p.close(); err != nil {
		return counters{}, err
	}
	need := c.layout.leastBytes(c.family.m)
	if c.layout.Width == 0 {
		for _, count := range counts {
			need += 16 * uint64(count) // at most, while a table grows
		}
	}
	if !p.grow(need, 1) {
		return counters{}, p.err
	}
	c.cells = newCells(c.layout, c.family.m)
	for i, code := range coded {
		if err := c.decodeBlock(code, uint64(i)*codeBlock, int(counts[i])); err != nil {
			return counters{}, err
		}
	}
	return c, nil
}

// leastBytes returns the memory of m empty cells.
func (l CellLayout) leastBytes(m uint64) uint64 {
	width := l.Width
	if width == 0 {
		width = l.Base + 1
	}
	lanes := uint64(64 / width)
	return 8*((m+lanes-1)/lanes) + 80*uint64(l.Chunks)
}

func (c *counters) decodeBlock(code []byte, first uint64, count int) error {
	n := min(codeBlock, c.family.m-first)
	list, err := parseSlots(code, int(n), count, true)
	if err != nil {
		return err
	}
	for i, at := range list.at {
		if list.values[i] > c.layout.Max() {
			return fmt.Errorf("%w: count %d in a cell of %v", ErrCorrupt, list.values[i], c.layout)
		}
		c.cells.set(first+uint64(at), list.values[i])
	}
	return nil
}

// Encode writes c, see the package's file format; cells take about as many
// bytes as their information.
func (c *Intuitive) Encode(w io.Writer) error { return c.encode(w, paperIntuitive) }

// Encode is [Intuitive.Encode].
func (c *Refined) Encode(w io.Writer) error { return c.encode(w, paperRefined) }

// Encode writes d, as [Intuitive.Encode].
func (d *CellDelta) Encode(w io.Writer) error {
	if d.refined {
		return d.encode(w, paperRefinedDelta)
	}
	return d.encode(w, paperIntuitiveDelta)
}

// DecodeIntuitive reads what [Intuitive.Encode] wrote. limit and known are
// those of [DecodeTwoPart].
func DecodeIntuitive(r io.Reader, limit int64, known ...Secret) (*Intuitive, error) {
	c, err := decodeCounters(r, paperIntuitive, limit, known)
	if err != nil {
		return nil, err
	}
	return &Intuitive{c}, nil
}

// DecodeRefined reads what [Refined.Encode] wrote, as [DecodeIntuitive].
func DecodeRefined(r io.Reader, limit int64, known ...Secret) (*Refined, error) {
	c, err := decodeCounters(r, paperRefined, limit, known)
	if err != nil {
		return nil, err
	}
	return &Refined{c}, nil
}

// DecodeCellDelta reads a delta of a refined filter, or of an intuitive one, as
// the caller expects.
func DecodeCellDelta(r io.Reader, refined bool, limit int64, known ...Secret) (*CellDelta, error) {
	t := paperIntuitiveDelta
	if refined {
		t = paperRefinedDelta
	}
	c, err := decodeCounters(r, t, limit, known)
	if err != nil {
		return nil, err
	}
	return &CellDelta{refined, c}, nil
}

// CellStats describes the cells of a counting filter of either extension.
type CellStats struct {
	Cells     uint64 // m
	Used      uint64 // cells that are not zero
	Above     uint64 // cells with a count above the threshold asked for
	Saturated uint64 // cells at the layout's Max
	Largest   uint32
	Large     int    // counts with bits in the hash tables of split storage
	Bytes     uint64 // memory of the cells, tables included
}

// Cells describes the cells, and counts those above the threshold.
func (c *counters) Cells(threshold uint32) CellStats {
	s := CellStats{Cells: c.family.m, Bytes: c.cells.bytes()}
	limit := c.layout.Max()
	for i := range c.family.m {
		v := c.cells.get(i)
		s.Largest = max(s.Largest, v)
		if v != 0 {
			s.Used++
		}
		if v > threshold {
			s.Above++
		}
		if v == limit {
			s.Saturated++
		}
	}
	if t, ok := c.cells.(*splitStore); ok {
		s.Large = t.large()
	}
	return s
}
