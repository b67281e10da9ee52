package filter

import (
	"fmt"
	"io"
	"math"
	"unsafe"

	"github.com/bulkhead-mail/bulkhead/filter/shape"
	"github.com/bulkhead-mail/bulkhead/internal/bitset"
	"github.com/bulkhead-mail/bulkhead/internal/codec"
	"github.com/bulkhead-mail/bulkhead/internal/huge"
)

// A TwoPartShape defines the size of a [TwoPart] filter: section one has M1 bits and K hash
// functions over the element, section two M2 bits and D hash functions over its eigenvalue.
type TwoPartShape struct {
	M1, M2 uint64 // bits, at least 1 each
	K, D   int    // hash functions, at least 1 each
	Eigen  Eigenvalue
}

func (s TwoPartShape) validate() error {
	if err := bitset.Check(s.M1, s.K); err != nil {
		return fmt.Errorf("%w in section one", err)
	}
	if err := bitset.Check(s.M2, s.D); err != nil {
		return fmt.Errorf("%w in section two", err)
	}
	if !s.Eigen.Valid() {
		return fmt.Errorf("filter: eigenvalue %d is unknown", s.Eigen)
	}
	return nil
}

// Bytes returns the memory size of both sections.
func (s TwoPartShape) Bytes() uint64 { return 8 * (bitset.Words(s.M1) + bitset.Words(s.M2)) }

// SizeTwoPart returns the shape for n elements at false-positive rate p, 0 < p < 1.
//
// For [EigenHash] the sections are independent, the product of formula 5 is true, and the rate is
// split between them: together they are as large as a classic filter of rate p, with about three
// hash functions in section one for each in section two. For every other eigenvalue, section one
// alone is sized for p by formula 3, since only section one distinguishes elements with equal
// eigenvalues. Section two, with d = k/3, is additional, as in the paper.
func SizeTwoPart(n uint64, p float64, eigen Eigenvalue) (TwoPartShape, error) {
	if n < 1 || !(p > 0 && p < 1) {
		return TwoPartShape{}, fmt.Errorf("filter: size for %d elements at rate %g, want at least 1 and 0 < rate < 1", n, p)
	}
	k := max(1, int(math.Round(-math.Log2(p))))
	p1, p2 := p, 1.0
	d := max(1, k/3)
	if eigen == EigenHash {
		d = max(1, k/4)
		k = max(1, k-d)
		share := float64(k) / float64(k+d)
		p1, p2 = math.Pow(p, share), math.Pow(p, 1-share)
	} else {
		p2 = math.Pow(p, float64(d)/float64(k))
	}
	s := TwoPartShape{K: k, D: d, Eigen: eigen}
	m1 := math.Ceil(BitsPerElement(k, p1) * float64(n))
	m2 := math.Ceil(BitsPerElement(d, p2) * float64(n))
	if !(m1+m2 <= MaxPositions) {
		return TwoPartShape{}, fmt.Errorf("filter: %d elements at rate %g take %g bits, want at most %d",
			n, p, m1+m2, uint64(MaxPositions))
	}
	s.M1, s.M2 = max(1, uint64(m1)), max(1, uint64(m2))
	return s, s.validate()
}

// BitsPerElement returns formula 3 of Jiang & Zhao, m/n = -k / ln(1-p^(1/k)): the number of bits
// that an element needs for false-positive rate p, 0 < p < 1, with k functions.
func BitsPerElement(k int, p float64) float64 {
	return -float64(k) / math.Log1p(-math.Exp(math.Log(p)/float64(k)))
}

// A TwoPart is the improved Bloom filter of Jiang & Zhao: a set of strings (addresses, domains,
// URLs) in two sections of one bit array. K functions place the element in section one. D functions
// place its eigenvalue, a feature derived from it, in section two. An element is a member if all K
// and then all D bits are set. There are no false negatives.
//
// The paper claims that the error rates of the sections multiply (formula 5). That holds for
// [EigenHash] alone; for every other eigenvalue [TwoPart.ErrorRate] is the rate of section one. See
// docs/study.md for the measurement.
//
// Elements are bytes, used unchanged: fold case and normalise them first. Methods that only read
// may run concurrently, without locks and without allocating. Add, Merge and SetMeta need exclusive
// access. To change a filter that is being read, decode or build another one and swap the pointer.
type TwoPart struct {
	head
	shape TwoPartShape
	one   []uint64 // section one
	two   []uint64 // section two
	set1  uint64   // bits set in section one
	set2  uint64
	count uint64
}

// NewTwoPart returns an empty filter whose hash functions are keyed with secret.
func NewTwoPart(shape TwoPartShape, secret Secret) (*TwoPart, error) {
	if err := shape.validate(); err != nil {
		return nil, err
	}
	t := &TwoPart{
		head: head{secret: secret}, shape: shape,
		one: make([]uint64, bitset.Words(shape.M1)), two: make([]uint64, bitset.Words(shape.M2)),
	}
	huge.Advise(t.one)
	huge.Advise(t.two)
	return t, nil
}

// Empty returns an empty filter of the shape and key of t. It can be merged into t, and t into it.
func (t *TwoPart) Empty() (*TwoPart, error) {
	e, err := NewTwoPart(t.shape, t.secret)
	if err != nil {
		return nil, err
	}
	e.public = t.public
	return e, nil
}

// Shape returns the sizes of t.
func (t *TwoPart) Shape() TwoPartShape { return t.shape }

// Count returns how many different elements were added, as far as the filter itself could
// distinguish them (too low by about the error rate). After [TwoPart.Merge] it is an estimate from
// the fill.
func (t *TwoPart) Count() uint64 { return t.count }

// keys returns the hashes that place x in the two sections.
func (t *TwoPart) keys(x []byte) (one, two Key) {
	one = t.secret.Key(x)
	return one, t.eigenKey(x, one)
}

func (t *TwoPart) eigenKey(x []byte, one Key) Key {
	if t.shape.Eigen == EigenHash {
		// A different stream of the same hash: independent of section one.
		return Key{Hi: shape.Mix(one.Lo), Lo: shape.Mix(^one.Hi)}
	}
	var buf [64]byte
	return t.secret.Key(t.shape.Eigen.Append(buf[:0], x))
}

// Contains reports whether x was added or is a false positive.
func (t *TwoPart) Contains(x []byte) bool {
	one := t.secret.Key(x)
	for i := range t.shape.K {
		if pos := one.Position(i, t.shape.M1); t.one[pos>>6]>>(pos&63)&1 == 0 {
			return false
		}
	}
	two := t.eigenKey(x, one)
	for i := range t.shape.D {
		if pos := two.Position(i, t.shape.M2); t.two[pos>>6]>>(pos&63)&1 == 0 {
			return false
		}
	}
	return true
}

// ContainsString is Contains for an element that is a string, which is not copied.
func (t *TwoPart) ContainsString(x string) bool {
	return t.Contains(unsafe.Slice(unsafe.StringData(x), len(x)))
}

// Add adds x and reports whether it was new to the filter.
func (t *TwoPart) Add(x []byte) bool {
	one, two := t.keys(x)
	changed := false
	for i := range t.shape.K {
		if bitset.Set(t.one, one.Position(i, t.shape.M1)) {
			t.set1++
			changed = true
		}
	}
	for i := range t.shape.D {
		if bitset.Set(t.two, two.Position(i, t.shape.M2)) {
			t.set2++
			changed = true
		}
	}
	if changed {
		t.count++
	}
	return changed
}

// Merge adds everything in o to t. If shapes and keys are not equal, Merge leaves t unchanged and
// returns an error that wraps [ErrGeometry]. The result does not depend on order or repetition.
func (t *TwoPart) Merge(o *TwoPart) error {
	if t.shape != o.shape || t.secret != o.secret {
		return fmt.Errorf("%w: %+v into %+v", ErrGeometry, o.shape, t.shape)
	}
	lo, hi := max(t.count, o.count), t.count+o.count
	t.set1, t.set2 = bitset.Or(t.one, o.one), bitset.Or(t.two, o.two)
	t.count = min(max(bitset.Estimate(t.shape.M1, t.set1, t.shape.K), lo), hi)
	return nil
}

// Fill returns the share of set bits of the two sections, 0 to 1.
func (t *TwoPart) Fill() (one, two float64) {
	return float64(t.set1) / float64(t.shape.M1), float64(t.set2) / float64(t.shape.M2)
}

// ErrorRate returns the probability that an element that was never added is found, at the present
// fill. For [EigenHash] it is the product of both sections. For other eigenvalues it is the rate of
// section one alone, because the eigenvalue may have been added with another element.
func (t *TwoPart) ErrorRate() float64 {
	one, two := t.Fill()
	rate := math.Pow(one, float64(t.shape.K))
	if t.shape.Eigen == EigenHash {
		rate *= math.Pow(two, float64(t.shape.D))
	}
	return rate
}

// ProductRate returns formula 5 of the paper at the present fill: the error rate if the sections
// failed independently of each other.
func (t *TwoPart) ProductRate() float64 {
	one, two := t.Fill()
	return math.Pow(one, float64(t.shape.K)) * math.Pow(two, float64(t.shape.D))
}

// Encode writes t: eigenvalue, K, D (one byte each), M1, M2, count (8 bytes each), key, length of
// the metadata (4 bytes) and the metadata, then the words of section one and of section two.
func (t *TwoPart) Encode(w io.Writer) error {
	p := codec.NewWriter(w, codec.TwoPart)
	p.Uint8(uint8(t.shape.Eigen))
	p.Uint8(uint8(t.shape.K))
	p.Uint8(uint8(t.shape.D))
	p.Uint64(t.shape.M1)
	p.Uint64(t.shape.M2)
	p.Uint64(t.count)
	t.write(p)
	p.Words(t.one)
	p.Words(t.two)
	return p.Close()
}

// IsTwoPart reports whether head, at least the first 6 bytes of a stored filter, belongs to a [TwoPart].
func IsTwoPart(head []byte) bool { return codec.Is(head, codec.TwoPart) }

// DecodeTwoPart reads the output of [TwoPart.Encode], and nothing beyond it. It allocates at most
// limit bytes, and no more than a small multiple of what r delivers. known are the keys with which
// the filter may have been made; none is needed for a filter that carries its key. Errors wrap
// [ErrCorrupt] or [ErrTooLarge].
func DecodeTwoPart(r io.Reader, limit int64, known ...Secret) (*TwoPart, error) {
	p := codec.NewReader(r, codec.TwoPart, limit)
	t := &TwoPart{}
	t.shape.Eigen = Eigenvalue(p.Uint8())
	t.shape.K, t.shape.D = int(p.Uint8()), int(p.Uint8())
	t.shape.M1, t.shape.M2 = p.Uint64(), p.Uint64()
	t.count = p.Uint64()
	if err := t.shape.validate(); err != nil {
		p.Fail("%v", err) // unless reading failed before
	}
	t.read(p, known)
	if p.Err != nil {
		return nil, p.Err
	}
	if total := t.shape.Bytes(); p.Limit < 0 || total > uint64(p.Limit) {
		p.TooLarge(total, 1)
	}
	t.one = p.Words(bitset.Words(t.shape.M1))
	t.two = p.Words(bitset.Words(t.shape.M2))
	if err := p.Close(); err != nil {
		return nil, err
	}
	t.set1, t.set2 = bitset.Count(t.one), bitset.Count(t.two)
	if bitset.Overhang(t.one, t.shape.M1) || bitset.Overhang(t.two, t.shape.M2) {
		return nil, fmt.Errorf("%w: bits set beyond the end of a section", ErrCorrupt)
	}
	if (t.count == 0) != (t.set1 == 0) {
		return nil, fmt.Errorf("%w: %d elements in %d set bits", ErrCorrupt, t.count, t.set1)
	}
	return t, nil
}
