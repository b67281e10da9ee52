package paper

import (
	"fmt"
	"io"
	"math"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/bitset"
	"github.com/bulkhead-mail/bulkhead/internal/codec"
)

// A Bloom is the classic Bloom filter: a set of byte strings in m bits, with any m and k and any
// hash [Family]. It has no false negatives. An element that was never added is contained with
// probability [Bloom.ErrorRate]. An element touches k cache lines; for large sets of signatures use
// [filter.Bits], which touches one.
//
// Methods that only read may run concurrently; Add and Merge need exclusive access.
//
// Source: Bloom 1970, as given in Yan & Cho section II.
type Bloom struct {
	family Family
	public bool
	bits   []uint64
	set    uint64
}

// NewBloom returns an empty filter. It refuses a family that cannot reach every bit, with an error
// that wraps [ErrUnreachable].
func NewBloom(f Family) (*Bloom, error) {
	if err := f.Reachable(); err != nil {
		return nil, err
	}
	return NewStudyBloom(f)
}

// NewStudyBloom is [NewBloom] for measuring the effect of unreachable bits: it accepts every
// family.
func NewStudyBloom(f Family) (*Bloom, error) {
	if err := bitset.Check(f.m, f.k); err != nil {
		return nil, err
	}
	return &Bloom{family: f, bits: make([]uint64, bitset.Words(f.m))}, nil
}

// Family returns the hash functions of b.
func (b *Bloom) Family() Family { return b.family }

// Add adds x and reports whether it was new to the filter.
func (b *Bloom) Add(x []byte) bool {
	if b.family.kind == FamilyKeyed && !b.family.parts {
		return b.AddKey(b.family.secret.Key(x))
	}
	var buf [filter.MaxHashes]uint64
	added := false
	for _, pos := range b.family.Append(buf[:0], x) {
		if bitset.Set(b.bits, pos) {
			b.set++
			added = true
		}
	}
	return added
}

// Contains reports whether x was added or is a false positive.
func (b *Bloom) Contains(x []byte) bool {
	if b.family.kind == FamilyKeyed && !b.family.parts {
		return b.ContainsKey(b.family.secret.Key(x))
	}
	var buf [filter.MaxHashes]uint64
	for _, pos := range b.family.Append(buf[:0], x) {
		if b.bits[pos>>6]>>(pos&63)&1 == 0 {
			return false
		}
	}
	return true
}

// AddKey is Add for an element whose key is already known. The family must be keyed and not
// partitioned.
func (b *Bloom) AddKey(key filter.Key) bool {
	added := false
	for i := range b.family.k {
		if bitset.Set(b.bits, key.Position(i, b.family.m)) {
			b.set++
			added = true
		}
	}
	return added
}

// ContainsKey is Contains for an element as in [Bloom.AddKey].
func (b *Bloom) ContainsKey(key filter.Key) bool {
	for i := range b.family.k {
		if pos := key.Position(i, b.family.m); b.bits[pos>>6]>>(pos&63)&1 == 0 {
			return false
		}
	}
	return true
}

// Merge adds everything in o to b: bit by bit OR. If the families are not equal, Merge leaves b
// unchanged and returns an error that wraps [filter.ErrGeometry]. The result does not depend on
// order or repetition.
func (b *Bloom) Merge(o *Bloom) error {
	if !b.family.Equal(&o.family) {
		return fmt.Errorf("%w: %v of %d bits into %v of %d bits", filter.ErrGeometry,
			o.family.kind, o.family.m, b.family.kind, b.family.m)
	}
	b.set = bitset.Or(b.bits, o.bits)
	return nil
}

// Fill returns the share of set bits, 0 to 1.
func (b *Bloom) Fill() float64 { return float64(b.set) / float64(b.family.m) }

// ErrorRate returns the false-positive rate at the present fill, Fill^k.
func (b *Bloom) ErrorRate() float64 { return math.Pow(b.Fill(), float64(b.family.k)) }

// Estimate returns an estimate, from the fill, of how many different elements were added.
func (b *Bloom) Estimate() uint64 { return bitset.Estimate(b.family.m, b.set, b.family.k) }

// Encode writes b: the hash family (kind, partitioned, m, k, then its parameters or key), then the
// words of the bit array.
func (b *Bloom) Encode(w io.Writer) error {
	p := codec.NewWriter(w, codec.Bloom)
	writeFamily(p, &b.family, b.public)
	p.Words(b.bits)
	return p.Close()
}

// DecodeBloom reads the output of [Bloom.Encode]. limit and known are as in [filter.DecodeTwoPart].
// Like [NewStudyBloom] it accepts every family.
func DecodeBloom(r io.Reader, limit int64, known ...filter.Secret) (*Bloom, error) {
	p := codec.NewReader(r, codec.Bloom, limit)
	b := &Bloom{}
	b.family, b.public = readFamily(p, known)
	if p.Err == nil {
		b.bits = p.Words(bitset.Words(b.family.m))
	}
	if err := p.Close(); err != nil {
		return nil, err
	}
	if bitset.Overhang(b.bits, b.family.m) {
		return nil, fmt.Errorf("%w: bits set beyond the %d of the filter", filter.ErrCorrupt, b.family.m)
	}
	b.set = bitset.Count(b.bits)
	return b, nil
}
