package paper

import (
	"fmt"

	"github.com/bulkhead-mail/bulkhead/filter"
)

// A CellLayout defines how the cells of a counting filter are stored. Cells either have one fixed
// width, and saturate, or are split (Yan & Cho section IV). Split storage is a base filter with the
// low bits of each count and one flag, and small hash tables with the remaining bits of the few
// large counts.
type CellLayout struct {
	// Width is the number of bits of a cell in the fixed form: 4, 5, 8 or 16. Cells of 5 bits are
	// stored 12 to a word. It is 0 for split storage.
	Width int
	// Base is s, the number of bits of a count in the base filter of split storage, 1 to 15; its
	// cells have s+1 bits. It is 0 for fixed width.
	Base int
	// Chunks is N, the number of hash tables of split storage, each for an equal part of the base
	// filter: at least 1, and at least one for every 65536 cells.
	Chunks int
}

// FixedCells returns the layout of saturating cells of width bits.
func FixedCells(width int) CellLayout { return CellLayout{Width: width} }

// SplitCells returns the layout of split storage with base width s and n hash tables.
func SplitCells(s, n int) CellLayout { return CellLayout{Base: s, Chunks: n} }

// String returns "5 bits" or "4+1 bits, 16 tables".
func (l CellLayout) String() string {
	if l.Width != 0 {
		return fmt.Sprintf("%d bits", l.Width)
	}
	return fmt.Sprintf("%d+1 bits, %d tables", l.Base, l.Chunks)
}

// Max returns the count at which a cell saturates: 2^Width-1, or [filter.Many] for split storage.
func (l CellLayout) Max() uint32 {
	if l.Width != 0 {
		return 1<<l.Width - 1
	}
	return filter.Many
}

func (l CellLayout) validate(m uint64) error {
	split := l.Width == 0
	switch {
	case !split && (l.Base != 0 || l.Chunks != 0):
		return fmt.Errorf("filter: cells of %d bits with base width %d, %d chunks: choose one", l.Width, l.Base, l.Chunks)
	case !split && l.Width != 4 && l.Width != 5 && l.Width != 8 && l.Width != 16:
		return fmt.Errorf("filter: cells of %d bits, want 4, 5, 8 or 16", l.Width)
	case split && (l.Base < 1 || l.Base > 15):
		return fmt.Errorf("filter: base width %d, want 1 to 15", l.Base)
	case split && (l.Chunks < 1 || uint64(l.Chunks) > m):
		return fmt.Errorf("filter: %d chunks of %d cells", l.Chunks, m)
	case split && chunkCells(m, l.Chunks) > maxChunkCells:
		return fmt.Errorf("filter: chunks of %d cells, want at most %d", chunkCells(m, l.Chunks), maxChunkCells)
	}
	return nil
}

// A cellStore is an array of counters. Counts never exceed the layout's Max.
type cellStore interface {
	get(i uint64) uint32
	set(i uint64, v uint32)
	// add adds the cells of o, which has the same layout, saturating.
	add(o cellStore)
	// bytes returns the memory size of all parts.
	bytes() uint64
}

func newCells(l CellLayout, m uint64) cellStore {
	if l.Width == 0 {
		return newSplitStore(l, m)
	}
	return newPackedCells(l.Width, m)
}

// packedCells has cells of width bits, as many to a word as fit, from the low end. Unused bits at
// the high end of a word stay zero.
type packedCells struct {
	width uint
	lanes uint64 // cells in a word
	mask  uint64 // of one cell
	words []uint64
}

func newPackedCells(width int, m uint64) *packedCells {
	lanes := uint64(64 / width)
	return &packedCells{uint(width), lanes, 1<<width - 1, make([]uint64, (m+lanes-1)/lanes)}
}

func (p *packedCells) get(i uint64) uint32 {
	return uint32(p.words[i/p.lanes] >> (uint(i%p.lanes) * p.width) & p.mask)
}

func (p *packedCells) set(i uint64, v uint32) {
	w, shift := &p.words[i/p.lanes], uint(i%p.lanes)*p.width
	*w = *w&^(p.mask<<shift) | uint64(v)<<shift
}

func (p *packedCells) bytes() uint64 { return 8 * uint64(len(p.words)) }

// tops returns the highest bit of every cell of a word.
func (p *packedCells) tops() uint64 {
	var h uint64
	for i := range p.lanes {
		h |= 1 << (uint(i)*p.width + p.width - 1)
	}
	return h
}

// add adds word by word, all cells of a word at once. The sum without the top bits cannot carry
// from cell to cell; the carry out of each top bit is then spread over its cell.
func (p *packedCells) add(o cellStore) {
	h, b := p.tops(), p.width
	src := o.(*packedCells).words
	for i, y := range src {
		if y == 0 {
			continue
		}
		x := p.words[i]
		z := (x &^ h) + (y &^ h)
		z ^= (x ^ y) & h
		c := ((x & y) | ((x | y) &^ z)) & h
		p.words[i] = z | c | (c - c>>(b-1))
	}
}
