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
	held       atomic.Int64                // chunks in memory
	exact      atomic.Pointer[slicedExact] // nil: none
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
	return uint64(len(s.chunks))*directoryEntry + uint64(s.held.Load())*uint64(unsafe.Sizeof(blankChunk)) + s.exact.Load().bytes()
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

// Find looks up keys, several of which in a row, 1 or more, count as one. It appends the numbers
// of those that some array may have to hits, and returns them. For the n'th hit of all,
// out[n*Words():(n+1)*Words()] is as [Sliced.Which] sets it, of all arrays that may have any of
// the several. out must have Words() words for each of these. hits must be empty.
func (s *Sliced) Find(keys []Key, several int, out []uint64, hits []int) []int {
	out = out[:len(keys)/several*s.words]
	s.prefetch(keys)
	var row [MaxColumns / 64]uint64
	for i, k := range keys {
		if i%batch == 0 && i+batch < len(keys) {
			s.prefetch(keys[i+batch:])
		}
		if !s.which(k, row[:s.words]) {
			continue
		}
		n := i / several
		if len(hits) == 0 || hits[len(hits)-1] != n {
			hits = append(hits, n)
			copy(out[(len(hits)-1)*s.words:], row[:s.words])
			continue
		}
		to := out[(len(hits)-1)*s.words:]
		for w := range s.words {
			to[w] |= row[w]
		}
	}
	return hits
}

// most is how many rows a key has at most.
const most = 2 * slicedWords

// which is Which for one key. It reports whether any array may have it.
func (s *Sliced) which(k Key, out []uint64) bool {
	var rows [most][]uint64
	n := s.rowsOf(k, &rows)
	any := uint64(0)
	if s.words < lineWords {
		for w := range out {
			all := atomic.LoadUint64(&rows[0][w])
			for i := 1; i < n && all != 0; i++ {
				all &= atomic.LoadUint64(&rows[i][w])
			}
			out[w] = all
			any |= all
		}
		return any != 0
	}
	for at := 0; at < len(out); at += lineWords {
		to := (*words)(out[at:])
		if left := and(to, (*words)(rows[0][at:]), &ones); left != 0 {
			for i := 1; i < n && left != 0; i++ {
				left = and(to, (*words)(rows[i][at:]), to)
			}
			any |= left
		}
	}
	return any != 0
}

// ones is a line of one bits.
var ones = words{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}

// and sets to to the bits that both row and with have, and returns a word that is 0 if there
// are none. It is unrolled: most of the work of a look-up is here.
func and(to, row, with *words) uint64 {
	a := atomic.LoadUint64(&row[0]) & with[0]
	b := atomic.LoadUint64(&row[1]) & with[1]
	c := atomic.LoadUint64(&row[2]) & with[2]
	d := atomic.LoadUint64(&row[3]) & with[3]
	e := atomic.LoadUint64(&row[4]) & with[4]
	f := atomic.LoadUint64(&row[5]) & with[5]
	g := atomic.LoadUint64(&row[6]) & with[6]
	h := atomic.LoadUint64(&row[7]) & with[7]
	*to = words{a, b, c, d, e, f, g, h}
	return a | b | c | d | e | f | g | h
}

// rowsOf sets the rows of a key, and returns how many there are.
func (s *Sliced) rowsOf(k Key, rows *[most][]uint64) (n int) {
	row := line(k.Hi, s.geo.Lines) * uint64(s.rows)
	if s.geo.Kind == Cells {
		x := uint64(pick(k.Lo, s.keep, s.fill))
		for i := range int(s.geo.K) {
			rows[i] = s.row(s.chunks, row+x>>(8*i)&127)
		}
		return int(s.geo.K)
	}
	m := pattern(k.Lo, s.geo.K == 16)
	for i := range uint64(slicedWords) {
		for w := m[i]; w != 0; w &= w - 1 {
			rows[n] = s.row(s.chunks, row+i*64+uint64(bits.TrailingZeros64(w)))
			n++
		}
	}
	return n
}

// row returns a row of chunks to read it.
func (s *Sliced) row(chunks []atomic.Pointer[slicedChunk], row uint64) []uint64 {
	word := row * uint64(s.words)
	c := chunks[word/uint64(len(blankChunk))].Load()
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
		at := s.row(s.chunks, row)
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

// mark sets the bit of a column in a row of chunks, of which held are in memory.
func (s *Sliced) mark(chunks []atomic.Pointer[slicedChunk], held *atomic.Int64, row uint64, column int, to bool) {
	word := row*uint64(s.words) + uint64(column/64)
	p := &chunks[word/uint64(len(blankChunk))]
	c := p.Load()
	if c == nil {
		if !to {
			return
		}
		if c = new(slicedChunk); p.CompareAndSwap(nil, c) {
			held.Add(1)
		} else {
			c = p.Load()
		}
	}
	at, bit := &c[word%uint64(len(blankChunk))], uint64(1)<<(column%64)
	switch {
	case atomic.LoadUint64(at)&bit != 0 == to: // as mostly
	case to:
		atomic.OrUint64(at, bit)
	default:
		atomic.AndUint64(at, ^bit)
	}
}

// gathered is how many chunks lie together after [Sliced.Gather].
const gathered = 512

// Gather moves the part'th 8 MiB of s, from 0, to where they lie together, if they are mostly in
// memory: on pages of 2 MiB they take much less time to read. It reports whether there is such a
// part. Nobody may write to an array in s meanwhile.
func (s *Sliced) Gather(part int) (more bool) {
	all, held := [][]atomic.Pointer[slicedChunk]{s.chunks}, []*atomic.Int64{&s.held}
	if e := s.exact.Load(); e != nil {
		for i := range e.rows {
			all, held = append(all, e.rows[i]), append(held, &e.held)
		}
	}
	parts := len(s.chunks) / gathered // a smaller rest stays as it is
	if part >= parts*len(all) {
		return false
	}
	some := all[part/parts][part%parts*gathered:][:gathered]
	n, together := 0, true
	for i := range some {
		c := some[i].Load()
		if c != nil {
			n++
		}
		together = together && c != nil && (i == 0 || uintptr(unsafe.Pointer(c)) == uintptr(unsafe.Pointer(some[i-1].Load()))+unsafe.Sizeof(*c))
	}
	if together || 2*n < gathered {
		return true
	}
	lines := alignedLines(gathered * len(blankChunk) / lineWords)
	for i := range some {
		to := (*slicedChunk)(unsafe.Pointer(&lines[i*len(blankChunk)/lineWords]))
		if c := some[i].Load(); c != nil {
			*to = *c
		}
		some[i].Store(to)
	}
	held[part/parts].Add(int64(gathered - n))
	return true
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
		a.slicePage(p, []Column{c}, nil)
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

// slicePage writes what page p holds to columns, for the holder of a.mu. They have what is in
// old, nothing if that is nil; columns of bit arrays may have more than that.
func (a *array) slicePage(p int, to []Column, old []words) {
	if len(to) == 0 || old == nil && a.blankAt(p) {
		return
	}
	lines := a.pageWords(p)
	for i := range lines {
		var was words
		if old != nil {
			was = old[i]
		}
		l := load(&lines[i])
		if l == was {
			continue
		}
		for _, c := range to {
			c.setLine(uint64(p*PageLines+i), &was, &l)
		}
	}
}

// oldPage returns a copy of page p for slicePage, nil if nobody wants one.
func (a *array) oldPage(p int) []words {
	if len(a.writes) == 0 {
		return nil
	}
	return slices.Clone(a.pageWords(p))
}

// setLine writes to the rows of a line what its cells or bits are, where they were others.
func (c Column) setLine(line uint64, was, l *words) {
	s, row := c.In, line*uint64(c.In.rows)
	e := s.exact.Load()
	if s.geo.Kind == Bitmap {
		for i, w := range l {
			chunks, held, at := s.chunks, &s.held, row+uint64(i*64)
			if i >= slicedWords {
				if e == nil {
					return
				}
				chunks, held, at = e.rows[0], &e.held, row+uint64((i-slicedWords)*64)
			}
			for other := w ^ was[i]; other != 0; other &= other - 1 {
				bit := bits.TrailingZeros64(other)
				s.mark(chunks, held, at+uint64(bit), c.N, w>>bit&1 != 0)
			}
		}
		return
	}
	e.begin(line)
	defer e.end(line)
	for i, w := range l {
		for other := occupied(w ^ was[i]); other != 0; other &= other - 1 {
			cell := uint64(i*16 + bits.TrailingZeros64(other)/4)
			c.put(e, row+cell, nibble(was, cell), nibble(l, cell))
		}
	}
}

// slice writes line at, which was another one, to the columns of c, for the holder of c.mu.
func (c *Counting) slice(at uint64, was *words) {
	if len(c.writes) == 0 {
		return
	}
	l := load(c.at(at))
	for _, col := range c.writes {
		col.setLine(at, was, &l)
	}
	c.tell(at)
}

// slice writes a key that is new to line at to the columns of b, for the holder of b.mu.
func (b *Bits) slice(at, lo uint64) {
	if len(b.writes) == 0 {
		return
	}
	m := pattern(lo, b.twice)
	for _, c := range b.writes {
		c.setLine(at, &words{}, &m)
	}
}
