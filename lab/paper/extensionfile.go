package paper

import (
	"fmt"
	"io"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/codec"
)

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

// codeBlock is the number of cells that are encoded together.
const codeBlock = 1 << 16

// encode writes family and layout (width, base: 1 byte each, chunks: 4). Then, for every 65536
// cells, it writes the number that are not zero (4 bytes), the length of their code (4) and the
// code: Rice-coded gaps and gamma-coded values. The size is close to the entropy, and the same for
// every layout.
func (c *counters) encode(w io.Writer, t codec.Type) error {
	p := codec.NewWriter(w, t)
	writeFamily(p, &c.family, c.public)
	p.Uint8(uint8(c.layout.Width))
	p.Uint8(uint8(c.layout.Base))
	p.Uint32(uint32(c.layout.Chunks))
	var list codec.Slots
	for first := uint64(0); first < c.family.m; first += codeBlock {
		n := min(codeBlock, c.family.m-first)
		list.At, list.Values = list.At[:0], list.Values[:0]
		for i := range n {
			if v := c.cells.get(first + i); v != 0 {
				list.At = append(list.At, uint32(i))
				list.Values = append(list.Values, v)
			}
		}
		code := list.Append(nil, int(n))
		p.Uint32(uint32(len(list.At)))
		p.Uint32(uint32(len(code)))
		p.Bytes(code)
	}
	return p.Close()
}

func decodeCounters(r io.Reader, t codec.Type, limit int64, known []filter.Secret) (counters, error) {
	p := codec.NewReader(r, t, limit)
	var c counters
	c.family, c.public = readFamily(p, known)
	c.layout = CellLayout{Width: int(p.Uint8()), Base: int(p.Uint8()), Chunks: int(p.Uint32())}
	if p.Err == nil {
		if err := c.layout.validate(c.family.m); err != nil {
			p.Fail("%v", err)
		}
	}
	// The whole code is read before cells are allocated: it grows with the bytes that arrive, at
	// least 8 for every block, but the cells would not.
	var coded [][]byte
	var counts []uint32
	for first := uint64(0); p.Err == nil && first < c.family.m; first += codeBlock {
		count, size := p.Uint32(), p.Uint32()
		coded, counts = append(coded, p.Bytes(uint64(size))), append(counts, count)
	}
	if err := p.Close(); err != nil {
		return counters{}, err
	}
	need := c.layout.leastBytes(c.family.m)
	if c.layout.Width == 0 {
		for _, count := range counts {
			need += 16 * uint64(count) // at most, while a table grows
		}
	}
	if !p.Grow(need, 1) {
		return counters{}, p.Err
	}
	c.cells = newCells(c.layout, c.family.m)
	for i, code := range coded {
		if err := c.decodeBlock(code, uint64(i)*codeBlock, int(counts[i])); err != nil {
			return counters{}, err
		}
	}
	return c, nil
}

// leastBytes returns the memory size of m empty cells.
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
	list, err := codec.ParseSlots(code, int(n), count, true)
	if err != nil {
		return err
	}
	for i, at := range list.At {
		if list.Values[i] > c.layout.Max() {
			return fmt.Errorf("%w: count %d in a cell of %v", filter.ErrCorrupt, list.Values[i], c.layout)
		}
		c.cells.set(first+uint64(at), list.Values[i])
	}
	return nil
}

// Encode writes c in the package's file format; cells take about as many bytes as their
// information.
func (c *Intuitive) Encode(w io.Writer) error { return c.encode(w, codec.Intuitive) }

// Encode is [Intuitive.Encode].
func (c *Refined) Encode(w io.Writer) error { return c.encode(w, codec.Refined) }

// DecodeIntuitive reads the output of [Intuitive.Encode]. limit and known are as in
// [filter.DecodeTwoPart].
func DecodeIntuitive(r io.Reader, limit int64, known ...filter.Secret) (*Intuitive, error) {
	c, err := decodeCounters(r, codec.Intuitive, limit, known)
	if err != nil {
		return nil, err
	}
	return &Intuitive{c}, nil
}

// DecodeRefined reads the output of [Refined.Encode], as [DecodeIntuitive] does.
func DecodeRefined(r io.Reader, limit int64, known ...filter.Secret) (*Refined, error) {
	c, err := decodeCounters(r, codec.Refined, limit, known)
	if err != nil {
		return nil, err
	}
	return &Refined{c}, nil
}

// CellStats describes the cells of a counting filter of either extension.
type CellStats struct {
	Cells     uint64 // m
	Used      uint64 // cells that are not zero
	Above     uint64 // cells with a count above the given threshold
	Saturated uint64 // cells at the layout's Max
	Largest   uint32
	Large     int    // counts with bits in the hash tables of split storage
	Bytes     uint64 // memory of the cells, including tables
}

// Cells returns a description of the cells, including how many are above the threshold.
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
