package arrays

import (
	"math/bits"
	"sync/atomic"

	"github.com/bulkhead-mail/bulkhead/filter/shape"
)

// A cells is the set of k distinct cells, 0 to 127, that a key has in its line: one byte per cell,
// lowest byte first. Bytes from k on hold 0x80 plus their position, which is not a valid cell.
type cells uint64

const (
	lanes    = 0x0101010101010101 // one in each byte
	escape   = 15                 // nibble of a cell whose value is in the overflow table
	maxLight = escape - 1         // largest value stored in a nibble itself
)

// cellMasks returns two masks for cells of k bytes: the bits that are kept from a hash, and the
// bits that fill the remaining bytes.
func cellMasks(k uint8) (keep, fill uint64) {
	return 0x7f * (lanes >> (64 - 8*k)), 0x8786858483828180 &^ (1<<(8*k) - 1)
}

// pick returns the cells of a key: seven bits of each of its low k bytes. A draw with two equal
// cells is discarded and the hash mixed again, so all sets of k distinct cells are equally likely
// (H2 by construction).
func pick(lo, keep, fill uint64) cells {
	x := lo&keep | fill
	if distinct(x) {
		return cells(x)
	}
	return repick(lo, keep, fill)
}

func repick(lo, keep, fill uint64) cells {
	for {
		lo += shape.Weyl // a sequence of 2^64 different states: it cannot get stuck
		if x := shape.Mix(lo)&keep | fill; distinct(x) {
			return cells(x)
		}
	}
}

// distinct reports whether the eight bytes of x differ from each other: every pair of bytes meets
// in one of four rotations.
func distinct(x uint64) bool {
	const high = lanes << 7
	a := x ^ bits.RotateLeft64(x, 8)
	b := x ^ bits.RotateLeft64(x, 16)
	c := x ^ bits.RotateLeft64(x, 24)
	d := x ^ bits.RotateLeft64(x, 32)
	zero := (a-lanes)&^a | (b-lanes)&^b | (c-lanes)&^c | (d-lanes)&^d
	return zero&high == 0
}

// load returns a copy of the line, each word read atomically.
func load(l *words) (w words) {
	for i := range w {
		w[i] = atomic.LoadUint64(&l[i])
	}
	return w
}

// lightest returns the smallest nibble among the k cells c of line l.
func lightest(l *words, c cells, k uint8) uint64 {
	x := uint64(c)
	v := min(nibble(l, x), nibble(l, x>>8))
	if v == 0 {
		return 0 // the case for most keys that were never added
	}
	switch k { // unrolled: this is most of the work of a count
	case 8:
		v = min(v, nibble(l, x>>56))
		fallthrough
	case 7:
		v = min(v, nibble(l, x>>48))
		fallthrough
	case 6:
		v = min(v, nibble(l, x>>40))
		fallthrough
	case 5:
		v = min(v, nibble(l, x>>32))
		fallthrough
	case 4:
		v = min(v, nibble(l, x>>24))
		fallthrough
	case 3:
		v = min(v, nibble(l, x>>16))
	}
	return v
}

// nibble returns the nibble of the cell in the low byte of x.
func nibble(l *words, x uint64) uint64 {
	return atomic.LoadUint64(&l[x>>4&7]) >> (x << 2 & 60) & 15
}

// raise raises the nibbles of the k cells c of w to at least value, 1 to 15.
func (w *words) raise(c cells, k uint8, value uint64) {
	for x := uint64(c); k > 0; k-- {
		i, shift := x>>4&7, x<<2&60
		v := w[i] >> shift & 15
		w[i] += (max(v, value) - v) << shift
		x >>= 8
	}
}

// raiseLine raises the nibbles of the k cells c of l to at least value, 1 to 15. There must be one
// writer.
func raiseLine(l *words, c cells, k uint8, value uint64) {
	w := load(l)
	w.raise(c, k, value)
	publish(l, &w)
}

// packed returns the first k cells of c, k at most 6, as the low 42 bits of an
// entry of an overflow table.
func (c cells) packed(k uint8) (e uint64) {
	x, last := uint64(c), uint64(c)>>(8*(k-1))&127
	for i := range uint64(narrowRefs) {
		if i < uint64(k) {
			e |= (x & 127) << (7 * i)
		} else {
			e |= last << (7 * i)
		}
		x >>= 8
	}
	return e
}

// A mask is a set of cells of one line: bit c of the 128 bits stands for cell c.
type mask struct{ lo, hi uint64 }

func (m mask) or(o mask) mask      { return mask{m.lo | o.lo, m.hi | o.hi} }
func (m mask) and(o mask) mask     { return mask{m.lo & o.lo, m.hi & o.hi} }
func (m mask) without(o mask) mask { return mask{m.lo &^ o.lo, m.hi &^ o.hi} }
func (m mask) empty() bool         { return m.lo|m.hi == 0 }
func (m mask) len() int            { return bits.OnesCount64(m.lo) + bits.OnesCount64(m.hi) }
func (m mask) within(o mask) bool  { return m.without(o).empty() }

// with returns m with cell c, 0 to 127.
func (m mask) with(c uint64) mask {
	bit, up := uint64(1)<<(c&63), -(c >> 6 & 1)
	return mask{m.lo | bit&^up, m.hi | bit&up}
}

// pop returns the lowest cell of m, which must not be empty, and m without that cell.
func (m mask) pop() (uint64, mask) {
	if m.lo != 0 {
		return uint64(bits.TrailingZeros64(m.lo)), mask{m.lo & (m.lo - 1), m.hi}
	}
	return 64 + uint64(bits.TrailingZeros64(m.hi)), mask{0, m.hi & (m.hi - 1)}
}

// first returns the n lowest cells of m, or m if it has at most n.
func (m mask) first(n int) mask {
	var f mask
	for ; n > 0 && !m.empty(); n-- {
		var c uint64
		c, m = m.pop()
		f = f.with(c)
	}
	return f
}

// set returns the first k cells of c as a mask.
func (c cells) set(k uint8) (m mask) {
	for x := uint64(c); k > 0; k-- {
		m = m.with(x & 127)
		x >>= 8
	}
	return m
}
