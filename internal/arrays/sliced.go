package arrays

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"sync/atomic"
	"unsafe"
)

// A Sliced reports which of many arrays of one geometry may have a key, in less time than asking
// each array. One row has a bit for every array, and a key that no array has needs two or three
// rows, however many arrays there are. It never misses an array that has the key. It wrongly names
// an array about as often as that array itself errs, so the caller asks the arrays that it names.
//
// An array occupies a column; see [Counting.Attach]. From then on it also writes there whatever is
// added to it. Any number of goroutines may query a Sliced while arrays are attached and written
// to; an add is visible once the call that made it has returned.
//
// Source: Faloutsos and Christodoulakis, "Signature Files" (1984), bit-sliced; Bingmann et al.,
// "COBS: a Compact Bit-Sliced Signature Index" (2019).
type Sliced struct {
	geo        Geometry
	columns    int
	words      int // 64-bit words in a row
	rows       int // rows in a line
	keep, fill uint64
	table      slicedRows
	exact      atomic.Pointer[slicedExact] // nil: none
	watches    *watches                    // nil for bit arrays
}

// A slicedChunk is the unit in which a Sliced allocates memory: 16 KiB, or 64 to 2048 rows.
type slicedChunk [2048]uint64

// blankChunk stands for every chunk that is not in memory. It is never written to.
var blankChunk slicedChunk

// MaxColumns is the maximum number of arrays in one Sliced. A row is then up to four consecutive
// cache lines, which take little longer to read than one.
const MaxColumns = 2048

// slicedWords is how many words of a bit array's line have rows: four or eight bits of a key rule
// out most keys that an array does not have.
const slicedWords = 4

// NewSliced returns an empty Sliced for up to columns arrays, 1 to [MaxColumns], of geometry g, or
// an error that wraps [ErrGeometry].
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
		s.watches = new(watches)
	}
	s.table.make(s.words, uint64(s.rows)*g.Lines)
	return s, nil
}

// Geometry returns the geometry of the arrays.
func (s *Sliced) Geometry() Geometry { return s.geo }

// Columns returns the maximum number of arrays.
func (s *Sliced) Columns() int { return s.columns }

// Words returns the number of words that [Sliced.Find] sets for each hit.
func (s *Sliced) Words() int { return s.words }

// Bytes returns the present memory size, which grows as arrays are filled.
func (s *Sliced) Bytes() uint64 {
	sum := s.table.bytes() + s.exact.Load().bytes()
	if s.watches != nil {
		sum += uint64(unsafe.Sizeof(*s.watches)) + s.watches.bytes.Load()
	}
	return sum
}

// Find looks up keys in groups of several consecutive keys, 1 or more. It appends to hits the
// numbers of the groups that some array may have, and returns hits. For the n'th hit, it sets the bits
// of out[n*Words():(n+1)*Words()] whose arrays may have any key of the group: bit c of word w stands
// for column 64*w + c. out must have Words() words for each group. hits must be empty.
//
// Rows are rarely cached, so Find runs a pipeline of three stages: it prefetches the first rows of
// batch n, tests those of batch n-1 and prefetches the remaining ones, and finishes batch n-2.
func (s *Sliced) Find(keys []Key, several int, out []uint64, hits []int) []int {
	out = out[:len(keys)/several*s.words]
	var all [3]search
	steps := (len(keys) + searched - 1) / searched
	for step := range steps + 2 {
		if step < steps {
			s.aim(&all[step%3], keys[step*searched:min(len(keys), (step+1)*searched)])
		}
		if step > 0 && step <= steps {
			s.thin(&all[(step-1)%3])
		}
		if step < 2 {
			continue
		}
		f := &all[(step-2)%3]
		for i := range f.n {
			if f.alive[i] == 0 || !s.finish(f, i) {
				continue
			}
			n, row := ((step-2)*searched+i)/several, f.left[i][:s.words]
			if len(hits) == 0 || hits[len(hits)-1] != n {
				hits = append(hits, n)
				copy(out[(len(hits)-1)*s.words:], row)
				continue
			}
			to := out[(len(hits)-1)*s.words:]
			for w := range row {
				to[w] |= row[w]
			}
		}
	}
	return hits
}

const (
	searched = 8               // how many keys Find processes together
	most     = 2 * slicedWords // maximum number of rows of a key
	ahead    = 3               // rows read first: in half-full arrays they leave one array in ten or fewer
)

// A search is the state of Find for several keys.
type search struct {
	n     int
	line  [searched]uint64                  // the first row of each key's line
	of    [searched]int                     // the number of rows of the key
	rows  [searched][most]uint8             // which rows of the line
	left  [searched][MaxColumns / 64]uint64 // the arrays that have all rows read so far
	alive [searched]uint8                   // a bit for each line of left that is not empty
}

// aim starts loading the first rows of keys.
func (s *Sliced) aim(f *search, keys []Key) {
	f.n = len(keys)
	var load lineList
	for i := range keys {
		s.rowsOf(f, i, keys[i])
		for j := range min(ahead, f.of[i]) {
			row := s.rowAt(f, i, j)
			for at := 0; at < len(row); at += lineWords {
				load.add(&row[at])
			}
		}
	}
	load.prefetch()
}

// thin reads the first rows of keys, and starts loading as many more rows if some array has the
// first ones.
func (s *Sliced) thin(f *search) {
	var load lineList
	for i := range f.n {
		f.alive[i] = 0
		n := min(ahead, f.of[i])
		for at := 0; at < s.words; at += lineWords {
			if !s.and(f, i, at, 0, n) {
				continue
			}
			f.alive[i] |= 1 << (at / lineWords)
			for j := n; j < min(n+ahead, f.of[i]); j++ {
				load.add(&s.rowAt(f, i, j)[at])
			}
		}
	}
	load.prefetch()
}

// finish reads the other rows of a key, and reports whether any array may have it.
func (s *Sliced) finish(f *search, i int) (any bool) {
	for at := 0; at < s.words; at += lineWords {
		if f.alive[i]>>(at/lineWords)&1 != 0 {
			any = s.and(f, i, at, min(ahead, f.of[i]), f.of[i]) || any
		}
	}
	return any
}

// and keeps, in the line of left at a word, the arrays that also have the rows from the given row
// on, and reports whether any array is left.
func (s *Sliced) and(f *search, i, at, from, to int) bool {
	if s.words >= lineWords {
		left, with := (*words)(f.left[i][at:]), (*words)(f.left[i][at:])
		if from == 0 {
			with = &ones
		}
		for j := from; j < to; j++ {
			if and(left, (*words)(s.rowAt(f, i, j)[at:]), with) == 0 {
				return false
			}
			with = left
		}
		return true
	}
	any := uint64(0)
	for w := range s.words {
		left := f.left[i][w]
		if from == 0 {
			left = ^uint64(0)
		}
		for j := from; j < to && left != 0; j++ {
			left &= atomic.LoadUint64(&s.rowAt(f, i, j)[w])
		}
		f.left[i][w] = left
		any |= left
	}
	return any != 0
}

// ones is a line whose bits are all set.
var ones = words{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}

// and sets to to the bits that both row and with have, and returns a word that is 0 if there are
// none. It is unrolled because it does most of the work of a look-up.
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

// rowsOf sets the rows of the i'th key.
func (s *Sliced) rowsOf(f *search, i int, k Key) {
	f.line[i] = line(k.Hi, s.geo.Lines) * uint64(s.rows)
	rows := &f.rows[i]
	if s.geo.Kind == Cells {
		f.of[i] = int(s.geo.K)
		binary.LittleEndian.PutUint64(rows[:], uint64(pick(k.Lo, s.keep, s.fill)))
		return
	}
	n := 0
	m := pattern(k.Lo, s.geo.K == 16)
	for j := range slicedWords {
		for w := m[j]; w != 0; w &= w - 1 {
			rows[n] = uint8(j*64 + bits.TrailingZeros64(w))
			n++
		}
	}
	f.of[i] = n
}

// rowAt returns the j'th row of the i'th key.
func (s *Sliced) rowAt(f *search, i, j int) []uint64 {
	return s.table.row(f.line[i] + uint64(f.rows[i][j]))
}

// A lineList is a list of cache lines to be loaded.
type lineList struct {
	n  int
	at [searched * ahead * MaxColumns / 64 / lineWords]uint64
}

func (l *lineList) add(at *uint64) {
	l.at[l.n] = uint64(uintptr(unsafe.Pointer(at))) / LineBytes
	l.n++
}

func (l *lineList) prefetch() {
	if l.n > 0 {
		prefetchLines(nil, &l.at[0], l.n)
	}
}

// slicedRows is a sequence of rows of words.
type slicedRows struct {
	words  uint64 // words in a row
	chunks []atomic.Pointer[slicedChunk]
	held   atomic.Int64                            // chunks in memory
	parts  []atomic.Pointer[[gathered]slicedChunk] // chunks in groups, where they are contiguous in memory
}

func (t *slicedRows) make(words int, rows uint64) {
	n := (uint64(words)*rows + uint64(len(blankChunk)) - 1) / uint64(len(blankChunk))
	t.words, t.chunks = uint64(words), make([]atomic.Pointer[slicedChunk], n)
	t.parts = make([]atomic.Pointer[[gathered]slicedChunk], (n+gathered-1)/gathered)
}

// bytes returns the memory size of the rows.
func (t *slicedRows) bytes() uint64 {
	return uint64(len(t.chunks))*directoryEntry + uint64(t.held.Load())*uint64(unsafe.Sizeof(blankChunk))
}

// row returns a row for reading.
func (t *slicedRows) row(row uint64) []uint64 {
	word := row * t.words
	n, at := word/uint64(len(blankChunk)), word%uint64(len(blankChunk))
	// The pointers to chunks are too many to stay in a cache.
	if p := t.parts[n/gathered].Load(); p != nil {
		return p[n%gathered][at : at+t.words]
	}
	c := t.chunks[n].Load()
	if c == nil {
		c = &blankChunk
	}
	return c[at : at+t.words]
}

// mark sets or clears the bit of a column in a row.
func (t *slicedRows) mark(row uint64, column int, to bool) {
	word := row*t.words + uint64(column/64)
	p := &t.chunks[word/uint64(len(blankChunk))]
	c := p.Load()
	if c == nil {
		if !to {
			return
		}
		if c = new(slicedChunk); p.CompareAndSwap(nil, c) {
			t.held.Add(1)
		} else {
			c = p.Load()
		}
	}
	at, bit := &c[word%uint64(len(blankChunk))], uint64(1)<<(column%64)
	switch {
	case atomic.LoadUint64(at)&bit != 0 == to: // the common case: nothing to change
	case to:
		atomic.OrUint64(at, bit)
	default:
		atomic.AndUint64(at, ^bit)
	}
}

// gathered is how many chunks are contiguous after [Sliced.Gather].
const gathered = 512

// Gather moves the part'th 8 MiB of s, counted from 0, into contiguous memory if most of it is in
// memory: on pages of 2 MiB, reads take much less time. It reports whether such a part exists. The
// caller must stop all writers to s's arrays for the duration.
func (s *Sliced) Gather(part int) (exists bool) {
	tables := []*slicedRows{&s.table}
	if e := s.exact.Load(); e != nil {
		for i := range e.tables {
			tables = append(tables, &e.tables[i])
		}
	}
	parts := len(s.table.chunks) / gathered // a smaller remainder stays as it is
	if part >= parts*len(tables) {
		return false
	}
	tables[part/parts].gather(part % parts)
	return true
}

func (t *slicedRows) gather(part int) {
	chunks, n := t.chunks[part*gathered:][:gathered], 0
	for i := range chunks {
		if chunks[i].Load() != nil {
			n++
		}
	}
	if t.parts[part].Load() != nil || 2*n < gathered {
		return
	}
	to := (*[gathered]slicedChunk)(unsafe.Pointer(&alignedLines(gathered * len(blankChunk) / lineWords)[0]))
	for i := range chunks {
		if c := chunks[i].Load(); c != nil {
			to[i] = *c
		}
		chunks[i].Store(&to[i])
	}
	t.parts[part].Store(to)
	t.held.Add(int64(gathered - n))
}

// A Column is the position of an array in a [Sliced].
type Column struct {
	In *Sliced
	N  int // from 0
}

// Columns returns the array's positions.
func (a *array) Columns() []Column {
	if c := a.columns.Load(); c != nil {
		return *c
	}
	return nil
}

// Attach puts the array into a column that was never used. When it returns, the column has the
// array's whole content, and Columns includes it. It locks the array for one page at a time. The
// error wraps [ErrGeometry] if there is no such column, or the array has a different geometry.
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

// Detach ends the effect of Attach: nothing more is written to the Sliced.
func (a *array) Detach(from *Sliced) {
	other := func(all []Column) []Column {
		return slices.DeleteFunc(all, func(c Column) bool { return c.In == from })
	}
	a.setColumns(other)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writes = other(slices.Clone(a.writes))
}

// setColumns replaces the columns with the result of change.
func (a *array) setColumns(change func([]Column) []Column) {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := change(slices.Clone(a.Columns()))
	a.columns.Store(&all)
}

// slicePage writes the content of page p to columns, for the holder of a.mu. The columns hold the
// content old, or nothing if old is nil; columns of bit arrays may hold more than that.
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

// oldPage returns a copy of page p for slicePage, or nil if no column needs one.
func (a *array) oldPage(p int) []words {
	if len(a.writes) == 0 {
		return nil
	}
	return slices.Clone(a.pageWords(p))
}

// setLine writes the cells or bits of a line to its rows, where they have changed.
func (c Column) setLine(line uint64, was, l *words) {
	s, row := c.In, line*uint64(c.In.rows)
	e := s.exact.Load()
	if s.geo.Kind == Bitmap {
		for i, w := range l {
			table, at := &s.table, row+uint64(i*64)
			if i >= slicedWords {
				if e == nil {
					return
				}
				table, at = &e.tables[0], row+uint64((i-slicedWords)*64)
			}
			for other := w ^ was[i]; other != 0; other &= other - 1 {
				bit := bits.TrailingZeros64(other)
				table.mark(at+uint64(bit), c.N, w>>bit&1 != 0)
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

// slice writes line at to the columns of c, for the holder of c.mu. was is the former content of
// the line.
func (c *Counting) slice(at uint64, was *words) {
	if len(c.writes) == 0 {
		return
	}
	l := load(c.at(at))
	for _, col := range c.writes {
		col.setLine(at, was, &l)
	}
	c.notify(at, was)
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
