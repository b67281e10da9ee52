package filter

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// A bitWriter appends bits to a byte slice, the lowest bit of a byte first.
type bitWriter struct {
	dst []byte
	acc uint64
	n   uint // bits in acc, below 8 after every call
}

// put appends the low n bits of v, n at most 56. The other bits must be 0.
func (w *bitWriter) put(v uint64, n uint) {
	w.acc |= v << w.n
	w.n += n
	for w.n >= 8 {
		w.dst = append(w.dst, byte(w.acc))
		w.acc >>= 8
		w.n -= 8
	}
}

// unary appends q zeros and a one.
func (w *bitWriter) unary(q uint64) {
	for ; q >= 48; q -= 48 {
		w.put(0, 48)
	}
	w.put(1<<q, uint(q)+1)
}

// gamma appends Elias' gamma code of v, 1 to 2^24: short for small values.
func (w *bitWriter) gamma(v uint64) {
	n := uint(bits.Len64(v)) - 1
	w.put(1<<n, n+1)
	w.put(v&^(1<<n), n)
}

// rice appends v in Rice's code with r low bits.
func (w *bitWriter) rice(v uint64, r uint) {
	w.unary(v >> r)
	w.put(v&(1<<r-1), r)
}

// bytes ends the stream with zero bits up to a whole byte.
func (w *bitWriter) bytes() []byte {
	if w.n > 0 {
		w.put(0, 8-w.n)
	}
	return w.dst
}

// A bitReader reads what a bitWriter wrote. Reading past the end sets short and
// yields zeros.
type bitReader struct {
	src   []byte
	acc   uint64
	n     uint // bits in acc
	short bool
}

func (r *bitReader) fill() {
	if len(r.src) >= 8 {
		r.acc |= binary.LittleEndian.Uint64(r.src) << r.n
		took := (63 - r.n) / 8
		r.src = r.src[took:]
		r.n += took * 8
		return
	}
	for r.n <= 56 && len(r.src) > 0 {
		r.acc |= uint64(r.src[0]) << r.n
		r.src = r.src[1:]
		r.n += 8
	}
}

// get reads n bits, at most 56.
func (r *bitReader) get(n uint) uint64 {
	if r.n < n {
		r.fill()
		if r.n < n {
			r.short, r.acc, r.n = true, 0, 0
			return 0
		}
	}
	v := r.acc & (1<<n - 1)
	r.acc >>= n
	r.n -= n
	return v
}

// unary reads zeros up to a one and returns how many there were. More than
// limit of them count as a short read.
func (r *bitReader) unary(limit uint64) (q uint64) {
	for {
		if r.n == 0 {
			r.fill()
			if r.n == 0 {
				r.short = true
				return 0
			}
		}
		z := uint(bits.TrailingZeros64(r.acc))
		if z < r.n {
			r.acc >>= z + 1
			r.n -= z + 1
			return q + uint64(z)
		}
		q += uint64(r.n)
		r.acc, r.n = 0, 0
		if q > limit {
			r.short = true
			return 0
		}
	}
}

func (r *bitReader) gamma() uint64 {
	n := r.unary(25)
	if n > 24 {
		r.short = true
		return 1
	}
	return 1<<n | r.get(uint(n))
}

func (r *bitReader) rice(k uint, limit uint64) uint64 {
	q := r.unary(limit >> k)
	return q<<k | r.get(k)
}

// end returns an error unless exactly the whole stream was read and its padding
// is zero.
func (r *bitReader) end() error {
	switch {
	case r.short:
		return fmt.Errorf("%w: the coded cells end early", ErrCorrupt)
	case len(r.src) > 0 || r.n >= 8:
		return fmt.Errorf("%w: bytes after the coded cells", ErrCorrupt)
	case r.acc != 0:
		return fmt.Errorf("%w: the padding of the coded cells is not zero", ErrCorrupt)
	}
	return nil
}

// riceBits returns the parameter for count gaps that add up to about slots:
// log2 of 0.69 times the mean gap, rounded down.
func riceBits(slots, count int) uint {
	if count == 0 {
		return 0
	}
	return uint(max(bits.Len64(uint64(slots)*11/(16*uint64(count))), 1) - 1)
}

// A slotList is a set of cells or bits of one page, ascending, and a value from
// 1 to Many for each; no values in bit arrays, where each stands for 1.
type slotList struct {
	at     []uint32
	values []uint32
}

// append encodes s: the gaps between the positions in Rice's code, each followed
// by its value in Elias' gamma code. slots is the number of positions that a
// page has. Measured within 2 % of the entropy at sizes that matter.
func (s slotList) append(dst []byte, slots int) []byte {
	w := bitWriter{dst: dst}
	r := riceBits(slots, len(s.at))
	next := uint32(0)
	for i, at := range s.at {
		w.rice(uint64(at-next), r)
		next = at + 1
		if s.values != nil {
			w.gamma(uint64(s.values[i]))
		}
	}
	return w.bytes()
}

// parseSlots decodes all of b as count positions below slots, with values or
// without. It allocates in proportion to len(b), whatever count says.
func parseSlots(b []byte, slots, count int, valued bool) (s slotList, err error) {
	least := 1 + riceBits(slots, count)
	if valued {
		least++
	}
	if count < 0 || count > slots || uint64(count)*uint64(least) > uint64(len(b))*8 {
		return s, fmt.Errorf("%w: %d cells in %d bytes of a page of %d", ErrCorrupt, count, len(b), slots)
	}
	s.at = make([]uint32, count)
	if valued {
		s.values = make([]uint32, count)
	}
	rd := bitReader{src: b}
	k := riceBits(slots, count)
	next := uint64(0)
	for i := range s.at {
		at := next + rd.rice(k, uint64(slots))
		if at >= uint64(slots) {
			return slotList{}, fmt.Errorf("%w: cell %d of a page of %d", ErrCorrupt, at, slots)
		}
		s.at[i], next = uint32(at), at+1
		if valued {
			v := rd.gamma()
			if v > Many {
				return slotList{}, fmt.Errorf("%w: cell value %d, limit %d", ErrCorrupt, v, Many)
			}
			s.values[i] = uint32(v)
		}
	}
	if err := rd.end(); err != nil {
		return slotList{}, err
	}
	return s, nil
}
