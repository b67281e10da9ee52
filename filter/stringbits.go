package filter

import (
	"fmt"
	"io"
	"unsafe"

	"github.com/bulkhead-mail/bulkhead/internal/codec"
)

// A StringBits is a set of strings in a [Bits]: the fastest filter for lists, since a query reads
// one cache line. It takes more memory than a [TwoPart] of the same error rate, and the difference
// grows as the rate falls. There are no false negatives. Add, Merge and SetMeta must not run
// concurrently with each other or with other methods. The other methods may be called concurrently.
//
// Source: Putze, Sanders and Singler, "Cache-, Hash- and Space-Efficient Bloom Filters" (2007).
type StringBits struct {
	head
	bits *Bits
}

// NewStringBits returns an empty filter for n elements, 1 or more, with a false-positive rate of at
// most rate once they have been added. Its hashes are keyed with secret. The limits are those of
// [SizeFor].
func NewStringBits(n uint64, rate float64, secret Secret) (*StringBits, error) {
	g, err := SizeFor(Target{Kind: Bitmap, Signatures: n, Error: Ghost, Rate: rate})
	if err != nil {
		return nil, err
	}
	b, err := NewBits(g)
	if err != nil {
		return nil, err
	}
	return &StringBits{head{secret: secret}, b}, nil
}

// Empty returns an empty filter of the same size and key, which can be merged with s.
func (s *StringBits) Empty() (*StringBits, error) {
	b, err := NewBits(s.bits.Geometry())
	if err != nil {
		return nil, err
	}
	return &StringBits{head{secret: s.secret, public: s.public}, b}, nil
}

// Add adds x and reports whether it was new.
func (s *StringBits) Add(x []byte) bool { return !s.bits.Set(s.secret.Key(x)) }

// Contains reports whether x was added or is a false positive.
func (s *StringBits) Contains(x []byte) bool { return s.bits.Has(s.secret.Key(x)) }

// ContainsString is Contains for an element that is a string, which is not copied.
func (s *StringBits) ContainsString(x string) bool {
	return s.Contains(unsafe.Slice(unsafe.StringData(x), len(x)))
}

// Merge adds everything in o to s. If sizes and keys are not equal, Merge leaves s unchanged and
// returns an error that wraps [ErrGeometry].
func (s *StringBits) Merge(o *StringBits) error {
	if s.secret != o.secret {
		return fmt.Errorf("%w: filters of other keys", ErrGeometry)
	}
	return s.bits.Merge(o.bits)
}

// Count returns the approximate number of different elements, estimated from the number of set
// bits.
func (s *StringBits) Count() uint64 { return uint64(s.bits.Stats().Effective + 0.5) }

// Bytes returns the memory size of the bits.
func (s *StringBits) Bytes() uint64 { return s.bits.Geometry().Bytes() }

// Geometry returns the size of the array.
func (s *StringBits) Geometry() Geometry { return s.bits.Geometry() }

// ErrorRate returns the probability that an element that was never added is found, at the
// present fill.
func (s *StringBits) ErrorRate() float64 { return s.bits.Stats().Ghost }

// Encode writes s: key, length of the metadata (4 bytes) and the metadata, and then the array, as
// [Bits.Encode] does.
func (s *StringBits) Encode(w io.Writer) error {
	p := codec.NewWriter(w, codec.StringBits)
	s.write(p)
	if err := p.Close(); err != nil {
		return err
	}
	return s.bits.Encode(w)
}

// IsStringBits reports whether head, at least the first 6 bytes of a stored filter, belongs to a
// [StringBits].
func IsStringBits(head []byte) bool { return codec.Is(head, codec.StringBits) }

// DecodeStringBits reads the output of [StringBits.Encode], and nothing beyond it, as
// [DecodeTwoPart] does. The array has at most limit bytes, and errors wrap [ErrCorrupt] or
// [ErrTooLarge].
func DecodeStringBits(r io.Reader, limit int64, known ...Secret) (*StringBits, error) {
	p := codec.NewReader(r, codec.StringBits, limit)
	s := &StringBits{}
	s.read(p, known)
	if err := p.Close(); err != nil {
		return nil, err
	}
	var err error
	if s.bits, err = DecodeBits(r, limit); err != nil {
		return nil, err
	}
	return s, nil
}
