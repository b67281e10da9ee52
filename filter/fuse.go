package filter

import (
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/FastFilter/xorfilter"

	"github.com/bulkhead-mail/bulkhead/internal/codec"
	"github.com/bulkhead-mail/bulkhead/internal/huge"
)

// MaxFuse is the largest number of elements of a [Fuse].
const MaxFuse = 1 << 28

// maxSegment is the longest segment of a [Fuse], in fingerprints.
const maxSegment = 1 << 18

// A Fuse is a binary fuse filter, a set of strings that does not change: the smallest filter for
// lists that are built once and published. Each element has three places in an array of
// fingerprints, and their exclusive or is the element's own fingerprint. At a false-positive rate
// of 2^-w an element takes about 1.13 w bits (a Bloom filter 1.44 w), and a query reads three
// places. There are no false negatives, nothing can be added, and two filters cannot be merged.
//
// Use a [FuseBuilder] to make one. The methods may be called concurrently, except SetMeta.
//
// Source: Graf and Lemire, "Binary Fuse Filters: Fast and Smaller Than Xor Filters" (2022).
type Fuse struct {
	head
	seed     uint64
	segment  uint32 // fingerprints in a segment, a power of two
	segments uint32 // number of segments for an element's first place; two more follow
	width    int    // bits in a fingerprint
	words    []uint64
	count    uint64
}

// A FuseBuilder collects the elements of a [Fuse]. It takes 8 bytes for each element, and about 40
// while Build runs. It must not be used concurrently.
type FuseBuilder struct {
	secret Secret
	width  int
	keys   []uint64
}

// NewFuseBuilder returns a builder for a filter with a false-positive rate of at most rate, 2^-32
// to 1/2, whose hashes are keyed with secret.
func NewFuseBuilder(rate float64, secret Secret) (*FuseBuilder, error) {
	if !(rate >= 0x1p-32 && rate <= 0.5) {
		return nil, fmt.Errorf("filter: fuse filter of rate %g, want 2^-32 to 0.5", rate)
	}
	return &FuseBuilder{secret: secret, width: int(math.Ceil(-math.Log2(rate)))}, nil
}

// Add adds x, which may have been added before. It fails when there are [MaxFuse] elements.
func (b *FuseBuilder) Add(x []byte) error {
	if len(b.keys) >= MaxFuse {
		return fmt.Errorf("filter: more than %d elements in a fuse filter", MaxFuse)
	}
	b.keys = append(b.keys, b.secret.Key(x).Hi)
	return nil
}

// Build returns the filter of the added elements. The builder is empty afterwards.
func (b *FuseBuilder) Build() (*Fuse, error) {
	keys := b.keys
	b.keys = nil
	slices.Sort(keys)
	keys = slices.Compact(keys)
	made, err := xorfilter.NewBinaryFuse[uint32](keys)
	if err != nil {
		return nil, fmt.Errorf("filter: %w", err)
	}
	f := &Fuse{
		head: head{secret: b.secret}, seed: made.Seed, segment: made.SegmentLength, segments: made.SegmentCount,
		width: b.width, count: uint64(len(keys)),
	}
	f.words = make([]uint64, f.size())
	huge.Advise(f.words)
	// The equation that makes an element found holds for each bit separately: the lowest bits are
	// the fingerprints of a filter with fewer bits.
	mask := uint64(1)<<f.width - 1
	for i, print := range made.Fingerprints {
		f.store(uint64(i), uint64(print)&mask)
	}
	return f, nil
}

// places returns the number of fingerprints of f.
func (f *Fuse) places() uint64 { return (uint64(f.segments) + 2) * uint64(f.segment) }

// size returns the number of words that the fingerprints take.
func (f *Fuse) size() uint64 { return (f.places()*uint64(f.width) + 63) / 64 }

func (f *Fuse) store(i, print uint64) {
	at, shift := i*uint64(f.width)>>6, i*uint64(f.width)&63
	f.words[at] |= print << shift
	if rest := 64 - shift; rest < uint64(f.width) {
		f.words[at+1] |= print >> rest
	}
}

func (f *Fuse) load(i uint32) uint64 {
	bit := uint64(i) * uint64(f.width)
	at, shift := bit>>6, bit&63
	v := f.words[at] >> shift
	if rest := 64 - shift; rest < uint64(f.width) {
		v |= f.words[at+1] << rest
	}
	return v
}

// Contains reports whether x was added or is a false positive.
func (f *Fuse) Contains(x []byte) bool {
	h := murmur(f.secret.Key(x).Hi + f.seed)
	hi, _ := bits.Mul64(h, uint64(f.segments)*uint64(f.segment))
	mask := f.segment - 1
	first := uint32(hi)
	second := (first + f.segment) ^ uint32(h>>18)&mask
	third := (first + 2*f.segment) ^ uint32(h)&mask
	return (h^h>>32^f.load(first)^f.load(second)^f.load(third))&(1<<f.width-1) == 0
}

// murmur is the hash of xorfilter, MurmurHash3's finalizer. It must match, because xorfilter places
// the elements.
func murmur(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// ContainsString is Contains for an element that is a string, which is not copied.
func (f *Fuse) ContainsString(x string) bool {
	return f.Contains(unsafe.Slice(unsafe.StringData(x), len(x)))
}

// Count returns how many different elements were added.
func (f *Fuse) Count() uint64 { return f.count }

// Bytes returns the memory size of the fingerprints.
func (f *Fuse) Bytes() uint64 { return 8 * uint64(len(f.words)) }

// Width returns the number of bits of a fingerprint.
func (f *Fuse) Width() int { return f.width }

// ErrorRate returns the probability that an element that was never added is found.
func (f *Fuse) ErrorRate() float64 { return math.Ldexp(1, -f.width) }

// Encode writes f: width (1 byte), length of a segment and number of segments (4 bytes each), seed
// and count (8 bytes each), key, length of the metadata (4 bytes) and the metadata, then the words
// of the fingerprints.
func (f *Fuse) Encode(w io.Writer) error {
	p := codec.NewWriter(w, codec.Fuse)
	p.Uint8(uint8(f.width))
	p.Uint32(f.segment)
	p.Uint32(f.segments)
	p.Uint64(f.seed)
	p.Uint64(f.count)
	f.write(p)
	p.Words(f.words)
	return p.Close()
}

// IsFuse reports whether head, at least the first 6 bytes of a stored filter, belongs to a [Fuse].
func IsFuse(head []byte) bool { return codec.Is(head, codec.Fuse) }

// DecodeFuse reads the output of [Fuse.Encode], and nothing beyond it, as [DecodeTwoPart] does. At
// most limit bytes are allocated, and errors wrap [ErrCorrupt] or [ErrTooLarge].
func DecodeFuse(r io.Reader, limit int64, known ...Secret) (*Fuse, error) {
	p := codec.NewReader(r, codec.Fuse, limit)
	f := &Fuse{width: int(p.Uint8()), segment: p.Uint32(), segments: p.Uint32(), seed: p.Uint64(), count: p.Uint64()}
	switch {
	case f.width < 1 || f.width > 32:
		p.Fail("fingerprints of %d bits, want 1 to 32", f.width)
	case f.segment == 0 || f.segment > maxSegment || f.segment&(f.segment-1) != 0:
		p.Fail("segments of %d fingerprints, want a power of two up to %d", f.segment, maxSegment)
	case f.segments == 0 || f.places() > 2*MaxFuse:
		p.Fail("%d segments of %d fingerprints", f.segments, f.segment)
	case f.count > f.places():
		p.Fail("%d elements in %d fingerprints", f.count, f.places())
	}
	f.read(p, known)
	if p.Err != nil {
		return nil, p.Err
	}
	f.words = p.Words(f.size())
	if err := p.Close(); err != nil {
		return nil, err
	}
	if used := f.places() * uint64(f.width) & 63; used != 0 && f.words[len(f.words)-1]>>used != 0 {
		return nil, fmt.Errorf("%w: bits set beyond the last fingerprint", ErrCorrupt)
	}
	return f, nil
}
