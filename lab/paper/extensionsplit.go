package paper

import "github.com/bulkhead-mail/bulkhead/filter"

// maxChunkCells keeps the offset of a cell in its chunk within 16 bits.
const maxChunkCells = 1 << 16

// chunkCells returns the number of cells in each of n chunks of m cells; the last chunk may have
// fewer.
func chunkCells(m uint64, n int) uint64 { return (m + uint64(n) - 1) / uint64(n) }

// A splitStore is the split storage of Yan & Cho section IV. Base cells have s+1 bits: the low s
// bits of a count, and a flag that is set if the count has further bits. The hash table of the
// chunk holds these under the cell's offset.
type splitStore struct {
	s      uint
	chunk  uint64 // cells in a chunk
	base   *packedCells
	tables []chunkTable
}

func newSplitStore(l CellLayout, m uint64) *splitStore {
	return &splitStore{
		s: uint(l.Base), chunk: chunkCells(m, l.Chunks),
		base: newPackedCells(l.Base+1, m), tables: make([]chunkTable, l.Chunks),
	}
}

func (t *splitStore) get(i uint64) uint32 {
	v := t.base.get(i)
	if v>>t.s == 0 {
		return v
	}
	low := v & (1<<t.s - 1)
	return t.tables[i/t.chunk].get(uint16(i%t.chunk))<<t.s | low
}

func (t *splitStore) set(i uint64, v uint32) {
	low, high := v&(1<<t.s-1), v>>t.s
	flagged := t.base.get(i)>>t.s != 0
	if high != 0 {
		t.tables[i/t.chunk].put(uint16(i%t.chunk), high)
		low |= 1 << t.s
	} else if flagged {
		t.tables[i/t.chunk].remove(uint16(i % t.chunk))
	}
	t.base.set(i, low)
}

func (t *splitStore) add(o cellStore) {
	src := o.(*splitStore)
	for w, word := range src.base.words {
		if word == 0 {
			continue
		}
		first := uint64(w) * src.base.lanes
		for i := first; i < first+src.base.lanes && i < t.chunk*uint64(len(t.tables)); i++ {
			if src.base.get(i) == 0 {
				continue
			}
			t.set(i, min(t.get(i)+src.get(i), filter.Many))
		}
	}
}

func (t *splitStore) bytes() uint64 {
	n := t.base.bytes()
	for i := range t.tables {
		n += t.tables[i].bytes()
	}
	return n
}

// large returns the number of counts with bits in the tables.
func (t *splitStore) large() (n int) {
	for i := range t.tables {
		n += t.tables[i].used
	}
	return n
}

// A chunkTable is an open-addressing hash table from a cell's offset in its chunk to the high bits
// of its count, with linear probing. A slot with high bits 0 is free. The table grows by a half at
// seven eighths full. A slot takes 5 bytes, since high bits take at most 23 bits.
type chunkTable struct {
	offsets []uint16
	low     []uint16 // of the high bits
	high    []uint8
	used    int
}

func (c *chunkTable) bytes() uint64 { return 5 * uint64(len(c.offsets)) }

func (c *chunkTable) at(i int) uint32 { return uint32(c.high[i])<<16 | uint32(c.low[i]) }

// home spreads offsets over the slots by a multiplicative hash.
func (c *chunkTable) home(offset uint16) int {
	return int(uint64(uint32(offset)*0x9E3779B1) * uint64(len(c.offsets)) >> 32)
}

// find returns the slot of an offset, or the free slot where it would go.
func (c *chunkTable) find(offset uint16) int {
	for i := c.home(offset); ; {
		if c.at(i) == 0 || c.offsets[i] == offset {
			return i
		}
		if i++; i == len(c.offsets) {
			i = 0
		}
	}
}

func (c *chunkTable) get(offset uint16) uint32 {
	if c.used == 0 {
		return 0
	}
	return c.at(c.find(offset))
}

func (c *chunkTable) put(offset uint16, v uint32) {
	if c.used+1 > len(c.offsets)*7/8 {
		c.grow()
	}
	i := c.find(offset)
	if c.at(i) == 0 {
		c.used++
		c.offsets[i] = offset
	}
	c.low[i], c.high[i] = uint16(v), uint8(v>>16)
}

func (c *chunkTable) grow() {
	n := max(8, len(c.offsets)*3/2)
	old := *c
	*c = chunkTable{offsets: make([]uint16, n), low: make([]uint16, n), high: make([]uint8, n)}
	for i, offset := range old.offsets {
		if v := old.at(i); v != 0 {
			j := c.find(offset)
			c.offsets[j], c.low[j], c.high[j] = offset, old.low[i], old.high[i]
			c.used++
		}
	}
}

// remove frees the slot of an offset and closes the gap, so that every other entry
// stays reachable from its home.
func (c *chunkTable) remove(offset uint16) {
	if c.used == 0 {
		return
	}
	n := len(c.offsets)
	gap := c.find(offset)
	if c.at(gap) == 0 {
		return
	}
	c.used--
	for i := gap; ; {
		if i++; i == n {
			i = 0
		}
		if c.at(i) == 0 {
			break
		}
		// The entry may move back unless its home lies after the gap.
		if h := c.home(c.offsets[i]); (i-h+n)%n >= (i-gap+n)%n {
			c.offsets[gap], c.low[gap], c.high[gap] = c.offsets[i], c.low[i], c.high[i]
			gap = i
		}
	}
	c.low[gap], c.high[gap] = 0, 0
}
