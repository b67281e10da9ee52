package arrays

import (
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// A slicedExact is the additional data of a [Sliced] that makes reading the found arrays
// unnecessary.
//
// For bit arrays it is the rows of the other half of a line. For counting arrays it is small
// counts: next to the row that marks the arrays in which a cell is not empty, there are three rows
// with the binary digits of the cell's value, up to 8, less 1. The smallest cell of a key is thus
// found for 64 arrays at a time.
//
// Without it and the sums of watched keys, a check beside 100 origins took 4 to 14 times as long as
// one beside none; the bound is 2.
//
// Source: O'Neil and Quass, "Improved Query Performance with Variant Indexes" (1997), bit-sliced
// indexes.
type slicedExact struct {
	tables []slicedRows // one for each binary digit, or a single table for the other half of a line
	lines  [exactMarks]lineMark
}

const (
	countDigits = 3
	moreThan    = 1<<countDigits - 1 // the largest count that rows hold
	exactMarks  = 1024
)

// A lineMark lets readers detect whether one of several lines changed during a read. Several arrays
// may be written to at once. Nothing changed if all writers that had begun by the end of the read
// were done when the read began.
type lineMark struct{ begun, done atomic.Uint64 }

// A CountWord holds the counts of a key in 64 arrays. Bit c of N[i] is binary digit i of the count
// in column c. If the count is larger than 7, bit c is 0 in all of N and 1 in More.
type CountWord struct {
	N    [countDigits]uint64
	More uint64
}

// Has returns the columns whose arrays have the key.
func (w *CountWord) Has() uint64 { return w.N[0] | w.N[1] | w.N[2] | w.More }

// NewSlicedExact is [NewSliced], but the result also supports [Sliced.Counts] and [Sliced.Narrow].
// For bit arrays it takes twice the memory, for counting arrays four times: about as much as the
// arrays themselves.
func NewSlicedExact(g Geometry, columns int) (*Sliced, error) {
	s, err := NewSliced(g, columns)
	if err != nil {
		return nil, err
	}
	e := &slicedExact{tables: make([]slicedRows, 1)}
	if g.Kind == Cells {
		e.tables = make([]slicedRows, countDigits)
	}
	for i := range e.tables {
		e.tables[i].make(s.words, uint64(s.rows)*g.Lines)
	}
	s.exact.Store(e)
	return s, nil
}

// Exact reports whether s was made by [NewSlicedExact] and DropExact has not been called.
func (s *Sliced) Exact() bool { return s.exact.Load() != nil }

// DropExact frees the memory that makes s exact. s still finds arrays as before.
func (s *Sliced) DropExact() {
	s.exact.Store(nil)
	if s.watches != nil {
		s.watches.forget() // they may take much
	}
}

// bytes returns the memory size of e.
func (e *slicedExact) bytes() uint64 {
	if e == nil {
		return 0
	}
	sum := uint64(unsafe.Sizeof(*e))
	for i := range e.tables {
		sum += e.tables[i].bytes()
	}
	return sum
}

// Narrow keeps in row, which is the result of [Sliced.Find] for the key k in bit arrays, only the
// arrays that have the key. ok is false, and row unchanged, if s is not exact.
func (s *Sliced) Narrow(k Key, row []uint64) (ok bool) {
	e := s.exact.Load()
	if e == nil || s.geo.Kind != Bitmap {
		return false
	}
	first, m := line(k.Hi, s.geo.Lines)*uint64(s.rows), pattern(k.Lo, s.geo.K == 16)
	var rows [most][]uint64
	var load lineList
	n := 0
	for i := range uint64(slicedWords) {
		for w := m[slicedWords+i]; w != 0; w &= w - 1 {
			rows[n] = e.tables[0].row(first + i*64 + uint64(bits.TrailingZeros64(w)))[:len(row)]
			for at := 0; at < len(row); at += lineWords {
				load.add(&rows[n][at])
			}
			n++
		}
	}
	load.prefetch()
	for _, with := range rows[:n] {
		if s.words >= lineWords {
			for at := 0; at < len(row); at += lineWords {
				to := (*words)(row[at:])
				and(to, (*words)(with[at:]), to)
			}
			continue
		}
		for j := range row {
			row[j] &= atomic.LoadUint64(&with[j])
		}
	}
	return true
}

// Counts sets out[i*Words():(i+1)*Words()] to the counts of keys[i] in all arrays at one moment.
// All keys must be kinds of one key, see [Key.With], and out must have Words() elements for each.
// ok is false, and out has no meaning, if s is not exact or the line keeps changing. The caller
// must then ask the arrays.
func (s *Sliced) Counts(keys []Key, out []CountWord) (ok bool) {
	e := s.exact.Load()
	if e == nil || s.geo.Kind != Cells || len(keys) == 0 {
		return false
	}
	at := line(keys[0].Hi, s.geo.Lines)
	mark := &e.lines[at%exactMarks]
	for range 3 {
		done := mark.done.Load()
		for i, k := range keys {
			s.countsOf(e, at, pick(k.Lo, s.keep, s.fill), out[i*s.words:(i+1)*s.words])
		}
		if mark.begun.Load() == done {
			return true
		}
	}
	return false
}

// countsOf is Counts for one key: the smallest of its cells, array by array.
func (s *Sliced) countsOf(e *slicedExact, at uint64, x cells, out []CountWord) {
	var has [maxCells][]uint64
	var digits [maxCells][countDigits][]uint64
	k := int(s.geo.K)
	for i := range k {
		row := at*lineCells + uint64(x)>>(8*i)&127
		has[i] = s.table.row(row)[:len(out)]
		for d := range digits[i] {
			digits[i][d] = e.tables[d].row(row)[:len(out)]
		}
	}
	for w := range out {
		all := ^uint64(0)
		for i := range k {
			if all &= atomic.LoadUint64(&has[i][w]); all == 0 {
				break
			}
		}
		if all == 0 {
			out[w] = CountWord{}
			continue
		}
		var least [countDigits]uint64
		for d := range least {
			least[d] = atomic.LoadUint64(&digits[0][d][w])
		}
		for i := 1; i < k; i++ {
			a, b, c := atomic.LoadUint64(&digits[i][0][w]), atomic.LoadUint64(&digits[i][1][w]),
				atomic.LoadUint64(&digits[i][2][w])
			keep := ^least[0] & a // among the lowest digits alone, least is less
			keep = ^least[1]&b | ^(least[1]^b)&keep
			keep = ^least[2]&c | ^(least[2]^c)&keep
			least[0] = a ^ (least[0]^a)&keep
			least[1] = b ^ (least[1]^b)&keep
			least[2] = c ^ (least[2]^c)&keep
		}
		// Digits encode the count less one; 7 stands for 8 and more.
		above := all & least[0] & least[1] & least[2]
		all &^= above
		out[w] = CountWord{
			N:    [countDigits]uint64{all &^ least[0], all & (least[1] ^ least[0]), all & (least[2] ^ least[1]&least[0])},
			More: above,
		}
	}
}

// digitsOf returns the digits that rows hold for a cell.
func digitsOf(nibble uint64) uint64 { return min(max(nibble, 1)-1, moreThan) }

// begin is called before a line is changed, and end afterwards.
func (e *slicedExact) begin(line uint64) {
	if e != nil {
		e.lines[line%exactMarks].begun.Add(1)
	}
}

func (e *slicedExact) end(line uint64) {
	if e != nil {
		e.lines[line%exactMarks].done.Add(1)
	}
}

// put writes one changed cell, between begin and end.
func (c Column) put(e *slicedExact, row, was, nibble uint64) {
	if was == 0 || nibble == 0 {
		c.In.table.mark(row, c.N, nibble != 0)
	}
	if e == nil {
		return
	}
	n := digitsOf(nibble)
	for other := n ^ digitsOf(was); other != 0; other &= other - 1 {
		d := bits.TrailingZeros64(other)
		e.tables[d].mark(row, c.N, n>>d&1 != 0)
	}
}
