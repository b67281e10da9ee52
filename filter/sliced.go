package filter

import (
	"fmt"
	"math/bits"
	"slices"
	"sync/atomic"
	"unsafe"
)

// A Sliced says which of many arrays of one geometry may have a key, for less than it
// takes to ask each: one row of it has a bit for every array, and one key needs two or
// three rows, if nobody has it, however many arrays there are. It never misses an array
// that has the key, and names one that has not about as often as that array errs itself;
// whoever uses it asks the arrays that it names.
//
// An array stands in a column, see [Counting.Attach]. From then on it writes there what is
// put into it. Any number of goroutines may ask a Sliced while arrays are attached and
// written to; an add is seen once the call that made it has returned.
//
// Source: Faloutsos and Christodoulakis, "Signature Files" (1984), bit-sliced; Bingmann
// et al., "COBS: a Compact Bit-Sliced Signature Index" (2019).
type Sliced struct {
	geo        Geometry
	columns    int
	words      int // 64-bit words of a row
	rows       int // of a line
	keep, fill uint64
	chunks     []atomic.Pointer[slicedChunk]
	held       atomic.Int64 // chunks in memory
}

// A slicedChunk is the unit in which a Sliced takes memory: 16 KiB, of 64 to 2048 rows.
type slicedChunk [2048]uint64

// blankChunk stands for every chunk that is not in memory. Nobody writes to it.
var blankChunk slicedChunk

// MaxColumns is how many arrays one Sliced holds: a row is up to four cache lines in a row,
// which take little longer to read than one.
const MaxColumns = 2048

// slicedWords is how many words of the line of a bit array have rows: four bits of a key,
// or eight, tell most keys apart from what an array has.
const slicedWords = 4

// NewSliced returns an empty one for up to the given number of arrays, 1 to [MaxColumns],
// of geometry g, or an error that wraps [ErrGeometry].
func NewSliced(g Geometry, columns int) (*Sliced, error) {
	if err := g.Validate(); err != nil {
		return nil, err
	}
	if columns < 1 || columns > MaxColumns {
		return nil, fmt.Errorf("%w: sliced for %d arrays, want 1 to %d", ErrGeometry, columns, MaxColumns)
	}
	s := &Sliced{geo: g, columns: columns, words: 1, rows: lineCells}
	for s.words*64 < columns {
		s.words *= 2
	}
	if g.Kind == Bitmap {
		s.rows = slicedWords * 64
	} else {
		s.keep, s.fill = cellMasks(g.K)
	}
	words := uint64(s.words*s.rows) * g.Lines
	s.chunks = make([]atomic.Pointer[slicedChunk], (words+uint64(len(blankChunk))-1)/uint64(len(blankChunk)))
	return s, nil
}

// Geometry returns the geometry of its arrays.
func (s *Sliced) Geometry() Geometry { return s.geo }

// Columns returns how many arrays it can hold.
func (s *Sliced) Columns() int { return s.columns }

// Words returns how many words [Sliced.Which] sets for each key.
func (s *Sliced) Words() int { return s.words }

// Bytes returns the memory that it takes at present, which grows as arrays are filled.
func (s *Sliced) Bytes() uint64 {
	return uint64(len(s.chunks))*directoryEntry + uint64(s.held.Load())*uint64(unsafe.Sizeof(blankChunk))
}

// Which sets the bits of out[i*Words():(i+1)*Words()] whose arrays may have keys[i]: bit c
// of word w is that of column 64*w + c. It overlaps the cache misses of its keys. out must
// have Words() words for each key.
func (s *Sliced) Which(keys []Key, out []uint64) {
	out = out[:len(keys)*s.words]
	s.prefetch(keys)
	for len(keys) > 0 {
		n := min(len(keys), batch)
		s.prefetch(keys[n:])
		for i := range n {
			s.which(keys[i], out[i*s.words:(i+1)*s.words])
		}
		keys, out = keys[n:], out[n*s.words:]
	}
}

// which is Which for one key. It stops at the first row that leaves no array.
func (s *Sliced) which(k Key, out []uint64) {
	row := line(k.Hi, s.geo.Lines) * uint64(s.rows)
	if s.geo.Kind == Cells {
		x := uint64(pick(k.Lo, s.keep, s.fill))
		for i := range int(s.geo.K) {
			if !s.and(row+x>>(8*i)&127, out, i == 0) {
				return
			}
		}
		return
	}
	m := pattern(k.Lo, s.geo.K == 16)
	first := true
	for i := range uint64(slicedWords) {
		for w := m[i]; w != 0; w &= w - 1 {
			if !s.and(row+i*64+uint64(bits.TrailingZeros64(w)), out, first) {
				return
			}
			first = false
		}
	}
}

// and leaves in out the bits that a row has, too, or sets them if it is the first. It
// reports whether there are any.
func (s *Sliced) and(row uint64, out []uint64, first bool) bool {
	at := s.row(row)
	any := uint64(0)
	for i := range out {
		w := atomic.LoadUint64(&at[i])
		if !first {
			w &= out[i]
		}
		out[i] = w
		any |= w
	}
	return any != 0
}

// row returns a row to read it.
func (s *Sliced) row(row uint64) []uint64 {
	word := row * uint64(s.words)
	c := s.chunks[word/uint64(len(blankChunk))].Load()
	if c == nil {
		c = &blankChunk
	}
	at := word % uint64(len(blankChunk))
	return c[at : at+uint64(s.words)]
}

// ahead is how many rows of a key are prefetched: in arrays half full, a row leaves one of
// ten or fewer.
const ahead = 3

// prefetch prefetches the first rows of up to batch keys.
func (s *Sliced) prefetch(keys []Key) {
	if len(keys) == 0 {
		return
	}
	var addresses [ahead * batch * MaxColumns / 512]uint64 // in lines
	n := 0
	want := func(row uint64) {
		at := s.row(row)
		for i := 0; i < len(at); i += lineWords {
			addresses[n] = uint64(uintptr(unsafe.Pointer(&at[i]))) / LineBytes
			n++
		}
	}
	for _, k := range keys[:min(len(keys), batch)] {
		row := line(k.Hi, s.geo.Lines) * uint64(s.rows)
		if s.geo.Kind == Cells {
			x := uint64(pick(k.Lo, s.keep, s.fill))
			for i := range min(ahead, int(s.geo.K)) {
				want(row + x>>(8*i)&127)
			}
			continue
		}
		m := pattern(k.Lo, s.geo.K == 16)
		for i := range uint64(ahead) {
			want(row + i*64 + uint64(bits.TrailingZeros64(m[i])))
		}
	}
	prefetchLines(nil, &addresses[0], n)
}

// set sets the bit of a column in a row.
func (s *Sliced) set(row uint64, column int) {
	word := row*uint64(s.words) + uint64(column/64)
	p := &s.chunks[word/uint64(len(blankChunk))]
	c := p.Load()
	if c == nil {
		if c = new(slicedChunk); p.CompareAndSwap(nil, c) {
			s.held.Add(1)
		} else {
			c = p.Load()
		}
	}
	atomic.OrUint64(&c[word%uint64(len(blankChunk))], 1<<(column%64))
}

// A Column is where an array stands in a [Sliced].
type Column struct {
	In *Sliced
	N  int // from 0
}

// Columns returns where the array stands.
func (a *array) Columns() []Column {
	if c := a.columns.Load(); c != nil {
		return *c
	}
	return nil
}

// Attach puts the array into a column that no array has stood in. When it returns, the
// column has all that the array has, and Columns tells of it. It locks the array for a page
// at a time. The error wraps [ErrGeometry] if there is no such column, or the array has
// another geometry.
func (c *Counting) Attach(to *Sliced, column int) error { return c.attach(Column{to, column}) }

// Attach puts the array into a column, as [Counting.Attach] does.
func (b *Bits) Attach(to *Sliced, column int) error { return b.attach(Column{to, column}) }

func (a *array) attach(c Column) error {
	if a.geo != c.In.geo || c.N < 0 || c.N >= c.In.columns {
		return fmt.Errorf("%w: %v in column %d of %d for %v", ErrGeometry, a.geo, c.N, c.In.columns, c.In.geo)
	}
	a.mu.Lock()
	a.writes = append(slices.Clone(a.writes), c)
	a.mu.Unlock()
	for p := range a.pages {
		a.mu.Lock()
		a.slicePage(p, []Column{c})
		a.mu.Unlock()
	}
	a.setColumns(func(all []Column) []Column { return append(all, c) })
	return nil
}

// Detach ends what Attach began: nothing more is written to s.
func (a *array) Detach(from *Sliced) {
	other := func(all []Column) []Column {
		return slices.DeleteFunc(all, func(c Column) bool { return c.In == from })
	}
	a.setColumns(other)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writes = other(slices.Clone(a.writes))
}

// setColumns publishes what change makes of the columns.
func (a *array) setColumns(change func([]Column) []Column) {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := change(slices.Clone(a.Columns()))
	a.columns.Store(&all)
}

// slicePage writes what page p holds to columns, for the holder of a.mu.
func (a *array) slicePage(p int, to []Column) {
	if len(to) == 0 || a.blankAt(p) {
		return
	}
	for i := range a.pageWords(p) {
		l := load(&a.pageWords(p)[i])
		if l == (words{}) {
			continue
		}
		for _, c := range to {
			c.setLine(uint64(p*PageLines+i), &l)
		}
	}
}

// setLine writes the cells or bits of l to the rows of a line.
func (c Column) setLine(line uint64, l *words) {
	row := line * uint64(c.In.rows)
	if c.In.geo.Kind == Cells {
		for i, w := range l {
			for w = occupied(w); w != 0; w &= w - 1 {
				c.In.set(row+uint64(i*16+bits.TrailingZeros64(w)/4), c.N)
			}
		}
		return
	}
	for i, w := range l[:slicedWords] {
		for ; w != 0; w &= w - 1 {
			c.In.set(row+uint64(i*64+bits.TrailingZeros64(w)), c.N)
		}
	}
}

// slice writes a key that is new to line at to the columns of a, for the holder of a.mu.
func (c *Counting) slice(at uint64, x cells) {
	for _, col := range c.writes {
		for i := range int(c.k) {
			col.In.set(at*lineCells+uint64(x)>>(8*i)&127, col.N)
		}
	}
}

// slice writes a key that is new to line at to the columns of b, for the holder of b.mu.
func (b *Bits) slice(at, lo uint64) {
	if len(b.writes) == 0 {
		return
	}
	m := pattern(lo, b.twice)
	for _, c := range b.writes {
		c.setLine(at, &m)
	}
}
