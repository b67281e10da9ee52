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
	// NearBands is how many bulkhead/near signatures a message has, or it has
	// none. The first byte of each sum is the number of its band, from 0.
	NearBands = 20
	// NearMatch is how many bands of a message must be known to call it a near
	// match. One band in common may be chance: of unrelated pairs of messages
	// 1 in 10,000 share one band, 1 in 21,000 share two, and most of these are
	// revisions of one text after all. A band of a ham equals that of a given
	// spam with 4e-9: where a million different spams are listed, 1 ham in 400
	// has two known bands at most.
	NearMatch = 2

	nearRows = 4  // MinHash values that one band joins
	nearSum  = 16 // bytes of a sum

	nearMinWords    = 12 // words of a skeleton; below it there is no signature
	nearMinDistinct = 8  // different words
	nearMinLetters  = 48 // total bytes of the different words
)

// A nearKey is what the MinHash functions are derived from.
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

// nearBlock is how many shingles go through the MinHash functions at a time.
const nearBlock = 256

// lower takes shingles into the minima. Two functions at a time keep their
// constants and minima in registers.
func (k *nearKey) lower(minima *[NearBands * nearRows]uint64, shingles []uint64) {
	for i := 0; i < len(minima); i += 2 {
		mul0, add0, least0 := k.mul[i], k.add[i], minima[i]
		mul1, add1, least1 := k.mul[i+1], k.add[i+1], minima[i+1]
		for _, x := range shingles {
			least0 = min(least0, x*mul0+add0)
			least1 = min(least1, x*mul1+add1)
		}
		minima[i], minima[i+1] = least0, least1
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

// quotedSalt keeps the shingles of a message that only quotes apart from those
// of the message it quotes.
const quotedSalt = 0x71756f746564

// near returns the bulkhead/near signatures of a skeleton: NearBands of them,
// in the order of the bands, or none.
func (k *nearKey) near(s *skeleton, h *hashes) []bulkhead.Signature {
	if !s.tells() {
		return nil // the floor here is higher
	}
	bands := k.bands(&s.words, h.words, 0)
	if bands == nil {
		bands = k.bands(&s.quoted, h.quoted, quotedSalt)
	}
	var sigs []bulkhead.Signature
	for i := range bands {
		sigs = appendSignature(sigs, bulkhead.Near, bands[i][:])
	}
	return sigs
}
