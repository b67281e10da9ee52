package filter

import (
	"io"

	"github.com/bulkhead-mail/bulkhead/internal/arrays"
)

// A Counting counts how often each key was added. The count of a key is never too low. It is too
// high for the share of keys given by [Geometry.CountError], and an unseen key has a count with
// probability [Geometry.GhostError].
//
// It is the refined extension of the Bloom filter with split storage. H1: an add of n raises every
// cell of the key to at least the key's present count + n. H2: the k cells of a key are distinct. A
// cell is a nibble, 128 of them in a cache line, and all cells of a key are in one line. Nibble 15
// is an escape: the value, exact up to [Many], is then in the page's overflow table.
//
// Any number of goroutines may read counts while one writes: reads take no lock and never miss an
// add that has returned. A mutex orders writers, so concurrent adds are safe and never undercount;
// a single writer that adds in batches is fastest.
//
// Subtraction is impossible: in a refined filter it would undercount other keys. Arrays of several
// servers are combined by [Counting.Merge]; each server must add only to an array of its own.
//
// Source: Yan and Cho, "Enhancing Collaborative Spam Detection with Bloom Filters" (2006), sections
// 4 and 5.
type Counting struct{ array *arrays.Counting }

// NewCounting returns an empty array, or an error that wraps [ErrGeometry] if g is not valid or not
// of kind [Cells].
func NewCounting(g Geometry) (*Counting, error) {
	array, err := arrays.NewCounting(g)
	if err != nil {
		return nil, err
	}
	return &Counting{array}, nil
}

// DecodeCounting reads the output of [Counting.Encode], and not a byte more. limit is the maximum
// size of the array's lines in bytes. A larger array is refused with an error that wraps
// [ErrTooLarge] before any memory is allocated, and memory is allocated no faster than pages
// arrive. Damaged or missing bytes cause an error that wraps [ErrCorrupt].
func DecodeCounting(r io.Reader, limit int64) (*Counting, error) {
	array, err := arrays.DecodeCounting(r, limit)
	if err != nil {
		return nil, err
	}
	return &Counting{array}, nil
}

// Encode writes all of c to w: a header, then the pages in order. Adds may continue concurrently;
// each page stands still while it is copied.
func (c *Counting) Encode(w io.Writer) error { return c.array.Encode(w) }

// Geometry returns the geometry with which the array was made.
func (c *Counting) Geometry() Geometry { return c.array.Geometry() }

// Generation returns the time slice that was stored with the array, 0 if there is none.
func (c *Counting) Generation() uint64 { return c.array.Generation() }

// Count returns how often k was added: never less, rarely more. It allocates nothing, takes no lock
// and reads one cache line, or three for a key that was added 15 times or more.
func (c *Counting) Count(k Key) uint32 { return c.array.Count(k) }

// CountBatch sets out[i] to the count of keys[i]. It overlaps the cache misses of the keys, which
// in arrays larger than the caches is several times faster than single calls. out must be as long
// as keys.
func (c *Counting) CountBatch(keys []Key, out []uint32) { c.array.CountBatch(keys, out) }

// Add counts k n more times and returns the count before. Counts stop at [Many]. An add of 0
// changes nothing.
func (c *Counting) Add(k Key, n uint32) (before uint32) { return c.array.Add(k, n) }

// AddBatch counts keys[i] n[i] more times, for all i in order. Unless before is nil, it sets
// before[i] to the count before. n must be as long as keys, and so must before unless it is nil.
func (c *Counting) AddBatch(keys []Key, n, before []uint32) { c.array.AddBatch(0, keys, n, before) }

// Merge adds to each cell of c the value of the same cell of o, saturating at [Many]: the result
// counts what either counted. The geometries must be equal; otherwise Merge changes nothing and
// returns an error that wraps [ErrGeometry]. o may be in use concurrently. Merge is commutative and
// associative but not idempotent.
func (c *Counting) Merge(o *Counting) error { return c.array.Merge(o.array) }

// Stats returns the state of c. It reads up to 64 MiB of the array, without a lock, in some ten
// milliseconds.
func (c *Counting) Stats() Stats { return c.array.Stats() }

// A Bits is an approximate set of keys: a key that was set is always found, and a key that was not
// set is found with probability [Geometry.GhostError].
//
// It is a blocked Bloom filter: all bits of a key lie in one 64-byte line. With K = 8 a key has one
// bit in each of the eight 64-bit words, which is the fastest form, for error rates down to 1e-4.
// With K = 16 it has one bit in each of the sixteen 32-bit half words, which is smaller below that
// rate.
//
// Merge is OR: commutative, associative, idempotent. Any number of goroutines may test membership
// while one writes, as in [Counting].
//
// Source: Bloom, "Space/Time Trade-offs in Hash Coding with Allowable Errors" (1970); Putze,
// Sanders and Singler, "Cache-, Hash- and Space-Efficient Bloom Filters" (2010).
type Bits struct{ array *arrays.Bits }

// NewBits returns an empty array, or an error that wraps [ErrGeometry] if g is not valid or not of
// kind [Bitmap].
func NewBits(g Geometry) (*Bits, error) {
	array, err := arrays.NewBits(g)
	if err != nil {
		return nil, err
	}
	return &Bits{array}, nil
}

// DecodeBits reads the output of [Bits.Encode], under the conditions of [DecodeCounting].
func DecodeBits(r io.Reader, limit int64) (*Bits, error) {
	array, err := arrays.DecodeBits(r, limit)
	if err != nil {
		return nil, err
	}
	return &Bits{array}, nil
}

// Encode writes all of b to w, as [Counting.Encode] does.
func (b *Bits) Encode(w io.Writer) error { return b.array.Encode(w) }

// Geometry returns the geometry with which the array was made.
func (b *Bits) Geometry() Geometry { return b.array.Geometry() }

// Generation returns the time slice that was stored with the array, 0 if there is none.
func (b *Bits) Generation() uint64 { return b.array.Generation() }

// Has reports whether k was set. It allocates nothing, takes no lock and reads one cache line.
func (b *Bits) Has(k Key) bool { return b.array.Has(k) }

// HasBatch sets out[i] to whether keys[i] was set, overlapping the cache misses of the keys. out
// must be as long as keys.
func (b *Bits) HasBatch(keys []Key, out []bool) { b.array.HasBatch(keys, out) }

// Set puts k into the set and reports whether it seemed to be there already.
func (b *Bits) Set(k Key) (before bool) { return b.array.Set(k) }

// SetBatch puts the keys into the set. Unless before is nil, it sets before[i] to whether keys[i]
// seemed to be there already; before must be as long as keys.
func (b *Bits) SetBatch(keys []Key, before []bool) { b.array.SetBatch(0, keys, before) }

// Merge sets in b every bit that is set in o: the result holds the keys of both. The geometries
// must be equal; otherwise Merge changes nothing and returns an error that wraps [ErrGeometry]. o
// may be in use concurrently. Merge is commutative, associative and idempotent.
func (b *Bits) Merge(o *Bits) error { return b.array.Merge(o.array) }

// Stats returns the state of b, as [Counting.Stats] does.
func (b *Bits) Stats() Stats { return b.array.Stats() }
