package signature

import (
	"crypto/sha256"
	"encoding/binary"
	"math"

	"github.com/dchest/siphash"

	"github.com/bulkhead-mail/bulkhead"
)

// The shape of bulkhead/near. It was chosen on the maintainers' corpus of 15,063
// messages (corpus_test.go and shape_test.go print the figures). More rows and wider
// shingles keep unrelated messages apart when millions are known; more bands and
// fewer rows withstand more deliberate changes. With this shape two texts of Jaccard
// similarity J share a band with probability J^4.
const (
	// NearBands is the number of bulkhead/near signatures of a message that has any. The first byte
	// of each sum is the number of its band, from 0.
	NearBands = 20
	// NearMatch is the number of bands of a message that must be known for a near match. One band in
	// common may be chance: of unrelated pairs of messages 1 in 10,000 share one band, 1 in 21,000
	// share two, and most of these are revisions of one text after all. The probability that a band
	// of a ham equals the same band of a given spam is 4e-9. Where a million different spams are
	// listed, at most 1 ham in 400 has two known bands.
	NearMatch = 2

	nearRows = 4  // MinHash values that one band joins
	nearSum  = 16 // bytes of a sum

	nearMinWords    = 12 // words of a skeleton; below it there is no signature
	nearMinDistinct = 8  // different words
	nearMinLetters  = 48 // total bytes of the different words
)

// A nearKey holds the keys from which the MinHash functions are derived.
type nearKey struct {
	k0, k1 uint64
	mul    [NearBands * nearRows]uint64
	add    [NearBands * nearRows]uint64
}

func newNearKey(key [16]byte) *nearKey {
	sum := sha256.Sum256(append([]byte("bulkhead/near\x00"), key[:]...))
	k := &nearKey{k0: binary.BigEndian.Uint64(sum[:]), k1: binary.BigEndian.Uint64(sum[8:])}
	var number [2]byte
	word := func(i int) uint64 {
		binary.BigEndian.PutUint16(number[:], uint16(i))
		return siphash.Hash(binary.BigEndian.Uint64(sum[16:]), binary.BigEndian.Uint64(sum[24:]), number[:])
	}
	for i := range k.mul {
		k.mul[i] = word(2*i) | 1
		k.add[i] = word(2*i + 1)
	}
	return k
}

// word returns the keyed hash of a word.
func (k *nearKey) word(w []byte) uint64 { return siphash.Hash(k.k0, k.k1, w) }

// bands returns the MinHash bands of the words, which have the given hashes, or nil
// below the floor.
func (k *nearKey) bands(words *wordList, hashes []uint64, salt uint64) [][nearSum]byte {
	if words.len() < nearMinWords || !enough(nearMinDistinct, nearMinLetters, words) {
		return nil
	}
	var minima [NearBands * nearRows]uint64
	for i := range minima {
		minima[i] = math.MaxUint64
	}
	var block [nearBlock]uint64
	filled := 0
	before := mix(salt ^ hashes[0])
	for _, word := range hashes[1:] {
		block[filled] = mix(before ^ word) // a shingle is two words
		before = mix(salt ^ word)
		if filled++; filled == len(block) {
			k.lower(&minima, block[:])
			filled = 0
		}
	}
	k.lower(&minima, block[:filled])
	bands := make([][nearSum]byte, NearBands)
	for b := range bands {
		var block [1 + 8*nearRows]byte
		block[0] = byte(b)
		for r := range nearRows {
			binary.BigEndian.PutUint64(block[1+8*r:], minima[b*nearRows+r])
		}
		hi, lo := siphash.Hash128(k.k0, k.k1, block[:])
		binary.BigEndian.PutUint64(bands[b][:], hi)
		binary.BigEndian.PutUint64(bands[b][8:], lo)
		bands[b][0] = byte(b)
	}
	return bands
}

// nearBlock is the number of shingles that go through the MinHash functions at a time.
const nearBlock = 256

// lower applies the MinHash functions to shingles and lowers the minima. Four functions at a time
// keep their constants in registers. A new minimum is rare, a few in a thousand, so a predicted branch
// costs less than computing the lesser of two numbers each time.
func (k *nearKey) lower(minima *[NearBands * nearRows]uint64, shingles []uint64) {
	for i := 0; i < len(minima); i += 4 {
		least, mul, add := (*[4]uint64)(minima[i:]), (*[4]uint64)(k.mul[i:]), (*[4]uint64)(k.add[i:])
		mul0, mul1, mul2, mul3 := mul[0], mul[1], mul[2], mul[3]
		add0, add1, add2, add3 := add[0], add[1], add[2], add[3]
		for _, x := range shingles {
			if v := x*mul0 + add0; v < least[0] {
				least[0] = v
			}
			if v := x*mul1 + add1; v < least[1] {
				least[1] = v
			}
			if v := x*mul2 + add2; v < least[2] {
				least[2] = v
			}
			if v := x*mul3 + add3; v < least[3] {
				least[3] = v
			}
		}
	}
}

// mix is the finalizer of SplitMix64: a bijection that spreads every bit.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// quotedSalt keeps the shingles of a message that only quotes apart from the shingles of the
// quoted message.
const quotedSalt = 0x71756f746564

// near returns the bulkhead/near signatures of a skeleton: NearBands of them,
// in the order of the bands, or none.
func (k *nearKey) near(s *skeleton, h *hashes) []bulkhead.Signature {
	if !s.distinctive() {
		return nil // the floor here is higher
	}
	bands := k.bands(&s.words, h.words, 0)
	if bands == nil {
		bands = k.bands(&s.quoted, h.quoted, quotedSalt)
	}
	sigs := make([]bulkhead.Signature, 0, len(bands))
	for i := range bands {
		sigs = appendSignature(sigs, bulkhead.Near, bands[i][:])
	}
	return sigs
}
