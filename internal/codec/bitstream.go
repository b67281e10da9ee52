package codec

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// A BitWriter appends bits to a byte slice, the lowest bit of a byte first.
type BitWriter struct {
	Dst []byte // the bytes written, without the bits of the last incomplete byte
	acc uint64
	n   uint // number of bits in acc, below 8 after every call
}

// Put appends the low n bits of v, n at most 56. The other bits must be 0.
func (w *BitWriter) Put(v uint64, n uint) {
	w.acc |= v << w.n
	w.n += n
	for w.n >= 8 {
		w.Dst = append(w.Dst, byte(w.acc))
		w.acc >>= 8
		w.n -= 8
	}
}

// unary appends q zeros and a one.
func (w *BitWriter) unary(q uint64) {
	for ; q >= 48; q -= 48 {
		w.Put(0, 48)
	}
	w.Put(1<<q, uint(q)+1)
}

// Gamma appends Elias' gamma code of v, 1 to 2^24: short for small values.
func (w *BitWriter) Gamma(v uint64) {
	n := uint(bits.Len64(v)) - 1
	w.Put(1<<n, n+1)
	w.Put(v&^(1<<n), n)
}

// Rice appends v in Rice's code with r low bits.
func (w *BitWriter) Rice(v uint64, r uint) {
	w.unary(v >> r)
	w.Put(v&(1<<r-1), r)
}

// Bytes ends the stream with zero bits up to a whole byte.
func (w *BitWriter) Bytes() []byte {
	if w.n > 0 {
		w.Put(0, 8-w.n)
	}
	return w.Dst
}

// A BitReader reads the output of a [BitWriter]. Reading past the end sets short and yields zeros.
type BitReader struct {
	Src   []byte // bytes left to read
	acc   uint64
	n     uint // bits in acc
	short bool
}

func (r *BitReader) fill() {
	if len(r.Src) >= 8 {
		r.acc |= binary.LittleEndian.Uint64(r.Src) << r.n
		took := (63 - r.n) / 8
		r.Src = r.Src[took:]
		r.n += took * 8
		return
	}
	for r.n <= 56 && len(r.Src) > 0 {
		r.acc |= uint64(r.Src[0]) << r.n
		r.Src = r.Src[1:]
		r.n += 8
	}
}

// Get reads n bits, at most 56.
func (r *BitReader) Get(n uint) uint64 {
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

// unary reads zeros up to a one and returns the number of zeros. More than limit zeros count as a
// short read.
func (r *BitReader) unary(limit uint64) (q uint64) {
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

// Gamma reads the output of [BitWriter.Gamma].
func (r *BitReader) Gamma() uint64 {
	n := r.unary(25)
	if n > 24 {
		r.short = true
		return 1
	}
	return 1<<n | r.Get(uint(n))
}

// Rice reads the output of [BitWriter.Rice], at most limit.
func (r *BitReader) Rice(k uint, limit uint64) uint64 {
	q := r.unary(limit >> k)
	return q<<k | r.Get(k)
}

// End returns an error unless exactly the whole stream was read and its padding is zero.
func (r *BitReader) End() error {
	switch {
	case r.short:
		return fmt.Errorf("%w: the coded cells end early", ErrCorrupt)
	case len(r.Src) > 0 || r.n >= 8:
		return fmt.Errorf("%w: bytes after the coded cells", ErrCorrupt)
	case r.acc != 0:
		return fmt.Errorf("%w: the padding of the coded cells is not zero", ErrCorrupt)
	}
	return nil
}

// RiceBits returns the parameter for count gaps that add up to about slots: log2 of 0.69 times the
// mean gap, rounded down.
func RiceBits(slots, count int) uint {
	if count == 0 {
		return 0
	}
	return uint(max(bits.Len64(uint64(slots)*11/(16*uint64(count))), 1) - 1)
}

// A Slots is an ascending set of cells or bits of one page, with a value from 1 to maxValue for
// each. There are no values in bit arrays, where each stands for 1.
type Slots struct {
	At     []uint32
	Values []uint32
}

// Append encodes s: the gaps between the positions in Rice's code, each followed by its value in
// Elias' gamma code. slots is the number of positions in a page. The measured size is within 2 % of
// the entropy at the sizes that matter.
func (s Slots) Append(dst []byte, slots int) []byte {
	w := BitWriter{Dst: dst}
	r := RiceBits(slots, len(s.At))
	next := uint32(0)
	for i, at := range s.At {
		w.Rice(uint64(at-next), r)
		next = at + 1
		if s.Values != nil {
			w.Gamma(uint64(s.Values[i]))
		}
	}
	return w.Bytes()
}

// ParseSlots decodes all of b as count positions below slots, with or without values. It allocates
// in proportion to len(b), whatever count is.
func ParseSlots(b []byte, slots, count int, valued bool) (s Slots, err error) {
	least := 1 + RiceBits(slots, count)
	if valued {
		least++
	}
	if count < 0 || count > slots || uint64(count)*uint64(least) > uint64(len(b))*8 {
		return s, fmt.Errorf("%w: %d cells in %d bytes of a page of %d", ErrCorrupt, count, len(b), slots)
	}
	s.At = make([]uint32, count)
	if valued {
		s.Values = make([]uint32, count)
	}
	rd := BitReader{Src: b}
	k := RiceBits(slots, count)
	next := uint64(0)
	for i := range s.At {
		at := next + rd.Rice(k, uint64(slots))
		if at >= uint64(slots) {
			return Slots{}, fmt.Errorf("%w: cell %d of a page of %d", ErrCorrupt, at, slots)
		}
		s.At[i], next = uint32(at), at+1
		if valued {
			v := rd.Gamma()
			if v > MaxValue {
				return Slots{}, fmt.Errorf("%w: cell value %d, limit %d", ErrCorrupt, v, MaxValue)
			}
			s.Values[i] = uint32(v)
		}
	}
	if err := rd.End(); err != nil {
		return Slots{}, err
	}
	return s, nil
}
