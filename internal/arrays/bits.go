package arrays

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/bulkhead-mail/bulkhead/filter/shape"
)

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
type Bits struct {
	*array
	twice bool // K is 16
}

// NewBits returns an empty array, or an error that wraps [ErrGeometry] if g is not valid or not of
// kind [Bitmap].
func NewBits(g Geometry) (*Bits, error) { return newBitsOf(g, newArray) }

func newBitsOf(g Geometry, array func(Geometry) *array) (*Bits, error) {
	if err := g.Validate(); err != nil {
		return nil, err
	}
	if g.Kind != Bitmap {
		return nil, fmt.Errorf("%w: %s array as bit array, want %s", ErrGeometry, g.Kind, Bitmap)
	}
	return &Bits{array: array(g), twice: g.K == 16}, nil
}

// Has reports whether k was set. It allocates nothing, takes no lock and reads one cache line.
func (b *Bits) Has(k Key) bool {
	return b.has(line(k.Hi, b.geo.Lines), k.Lo)
}

func (b *Bits) has(at, lo uint64) bool {
	l := b.at(at)
	if b.twice {
		return hasTwice(l, lo)
	}
	return hasOnce(l, lo)
}

// hasOnce reports whether each word of l has its bit of lo: byte i selects the bit of word i.
func hasOnce(l *words, lo uint64) bool {
	return atomic.LoadUint64(&l[0])>>(lo&63)&
		(atomic.LoadUint64(&l[1])>>(lo>>8&63))&
		(atomic.LoadUint64(&l[2])>>(lo>>16&63))&
		(atomic.LoadUint64(&l[3])>>(lo>>24&63))&
		(atomic.LoadUint64(&l[4])>>(lo>>32&63))&
		(atomic.LoadUint64(&l[5])>>(lo>>40&63))&
		(atomic.LoadUint64(&l[6])>>(lo>>48&63))&
		(atomic.LoadUint64(&l[7])>>(lo>>56&63))&1 != 0
}

// hasTwice is hasOnce for two bits in each word; see pattern. Four bits are enough to rule out most
// absent keys.
func hasTwice(l *words, lo uint64) bool {
	hi := shape.Mix(lo + shape.Weyl)
	return hasBoth(l, 0, lo, hi)&hasBoth(l, 1, lo, hi)&1 != 0 && hasRest(l, lo, hi)
}

// hasRest is hasBoth for all words from the third one on.
func hasRest(l *words, lo, hi uint64) bool {
	return hasBoth(l, 2, lo, hi)&hasBoth(l, 3, lo, hi)&hasBoth(l, 4, lo, hi)&
		hasBoth(l, 5, lo, hi)&hasBoth(l, 6, lo, hi)&hasBoth(l, 7, lo, hi)&1 != 0
}

// hasBoth returns a word whose lowest bit is set if word i of l has the bits of both halves.
func hasBoth(l *words, i, lo, hi uint64) uint64 {
	w := atomic.LoadUint64(&l[i])
	return w >> (lo >> (8 * i) & 31) & (w >> 32 >> (hi >> (8 * i) & 31))
}

// pattern returns the bits of a key.
func pattern(lo uint64, twice bool) (m words) {
	if !twice {
		for i := range m {
			m[i] = 1 << (lo >> (8 * i) & 63)
		}
		return m
	}
	// Sixteen positions of five bits are more than lo holds.
	hi := shape.Mix(lo + shape.Weyl)
	for i := range m {
		m[i] = 1<<(lo>>(8*i)&31) | 1<<(32+hi>>(8*i)&31)
	}
	return m
}

// HasBatch sets out[i] to whether keys[i] was set, overlapping the cache misses of the keys. out
// must be as long as keys.
func (b *Bits) HasBatch(keys []Key, out []bool) {
	out = out[:len(keys)]
	var now, next [batch]uint64
	b.prefetch(keys, &now)
	for len(keys) > 0 {
		n := min(len(keys), batch)
		b.prefetch(keys[n:], &next)
		for i := range n {
			out[i] = b.has(now[i], keys[i].Lo)
		}
		keys, out, now = keys[n:], out[n:], next
	}
}

// Set puts k into the set and reports whether it seemed to be there already. The page keeps its
// journal index; see [Bits.SetBatch].
func (b *Bits) Set(k Key) (before bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before = b.set(line(k.Hi, b.geo.Lines), k.Lo)
	b.flushKeys()
	return before
}

// SetBatch puts the keys into the set. Unless before is nil, it sets before[i] to whether keys[i]
// seemed to be there already. index is a journal index, or 0, as in [Counting.AddBatch].
func (b *Bits) SetBatch(index uint64, keys []Key, before []bool) {
	if before != nil {
		before = before[:len(keys)]
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	var now, next [batch]uint64
	b.prefetch(keys, &now)
	for done := 0; done < len(keys); done += batch {
		size := min(len(keys)-done, batch)
		b.prefetch(keys[done+size:], &next)
		var due [batch]bool
		for i, at := range now[:size] { // all before any is used, since each may be a cache miss
			due[i] = b.due(&b.pages[at/PageLines], index, b.calls)
		}
		for i, k := range keys[done : done+size] {
			was := false
			if due[i] {
				was = b.set(now[i], k.Lo)
			} else {
				was = b.has(now[i], k.Lo)
			}
			if before != nil {
				before[done+i] = was
			}
		}
		now = next
	}
	b.flushKeys()
}

// set is Set for the holder of b.mu.
func (b *Bits) set(at, lo uint64) (before bool) {
	if b.dir != nil && b.has(at, lo) {
		return true
	}
	l := b.own(at)
	if b.twice {
		before = setTwice(l, lo)
	} else {
		before = setOnce(l, lo)
	}
	if !before {
		b.slice(at, lo)
		b.count(&b.pages[at/PageLines])
	}
	return before
}

// count records that a key was new to page p.
func (b *Bits) count(p *page) {
	p.Version++
	p.Keys++
	b.fresh++
}

// setOnce sets the bit of lo in each word of l and reports whether all of them were set before. It
// combines pattern and OR, unrolled, all in registers: the loop of setTwice takes three times as
// long.
func setOnce(l *words, lo uint64) (before bool) {
	old := atomic.LoadUint64(&l[0])
	w0 := old | 1<<(lo&63)
	fresh := w0 ^ old
	old = atomic.LoadUint64(&l[1])
	w1 := old | 1<<(lo>>8&63)
	fresh |= w1 ^ old
	old = atomic.LoadUint64(&l[2])
	w2 := old | 1<<(lo>>16&63)
	fresh |= w2 ^ old
	old = atomic.LoadUint64(&l[3])
	w3 := old | 1<<(lo>>24&63)
	fresh |= w3 ^ old
	old = atomic.LoadUint64(&l[4])
	w4 := old | 1<<(lo>>32&63)
	fresh |= w4 ^ old
	old = atomic.LoadUint64(&l[5])
	w5 := old | 1<<(lo>>40&63)
	fresh |= w5 ^ old
	old = atomic.LoadUint64(&l[6])
	w6 := old | 1<<(lo>>48&63)
	fresh |= w6 ^ old
	old = atomic.LoadUint64(&l[7])
	w7 := old | 1<<(lo>>56&63)
	fresh |= w7 ^ old
	if fresh == 0 {
		return true
	}
	w := words{w0, w1, w2, w3, w4, w5, w6, w7}
	publish(l, &w)
	return false
}

// setTwice is setOnce for two bits in each word.
func setTwice(l *words, lo uint64) (before bool) {
	hi := shape.Mix(lo + shape.Weyl)
	var m words
	var fresh uint64
	for i := range m { // the same bits as in pattern
		bits := uint64(1)<<(lo&31) | 1<<32<<(hi&31)
		old := atomic.LoadUint64(&l[i])
		fresh |= bits &^ old
		m[i] = old | bits
		lo, hi = lo>>8, hi>>8
	}
	if fresh == 0 {
		return true
	}
	publish(l, &m)
	return false
}

func lineAt(base *words, at uint64) *words {
	return (*words)(unsafe.Add(unsafe.Pointer(base), at*LineBytes))
}
