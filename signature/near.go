package signature

import (
	"crypto/sha256"
	"encoding/binary"
	"math"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/dchest/siphash"
)

// The shape of bulkhead/near.
const (
	// NearBands is how many bulkhead/near signatures a message has.
	NearBands = 12
	// NearMatch is how many bands of two messages, or of one message and all
	// that is known, must be equal to call it a near match.
	NearMatch = 4

	nearRows    = 3 // MinHash values that one band joins
	nearShingle = 2 // words of one shingle
	nearSum     = 16

	nearMinWords   = 12 // words of a skeleton; below it there is no signature
	nearMinLetters = 48 // total bytes of its different words
)

// A nearKey is what the MinHash functions are derived from.
type nearKey struct {
	k0, k1 uint64
	mul    [NearBands * nearRows]uint64
	add    [NearBands * nearRows]uint64
}

func newNearKey(key [16]byte) *nearKey {
	k := &nearKey{}
	word := func(i int) uint64 {
		var block [40]byte
		copy(block[:], "bulkhead/near minhash")
		copy(block[21:37], key[:])
		binary.BigEndian.PutUint16(block[38:], uint16(i))
		sum := sha256.Sum256(block[:])
		return binary.BigEndian.Uint64(sum[:])
	}
	k.k0, k.k1 = word(0), word(1)
	for i := range k.mul {
		k.mul[i] = word(2+2*i) | 1
		k.add[i] = word(3 + 2*i)
	}
	return k
}

// bands returns the MinHash bands of the words, or nil below the floor.
func (k *nearKey) bands(words []string, salt uint64) [][nearSum]byte {
	if len(words) < nearMinWords {
		return nil
	}
	if total, distinct := letters(words); distinct < nearMinWords/2+2 || total < nearMinLetters {
		return nil
	}
	var minima [NearBands * nearRows]uint64
	for i := range minima {
		minima[i] = math.MaxUint64
	}
	var window [nearShingle]uint64
	for n, word := range words {
		copy(window[:], window[1:])
		window[nearShingle-1] = siphash.Hash(k.k0, k.k1, []byte(word))
		if n+1 < nearShingle {
			continue
		}
		x := salt
		for _, w := range window {
			x = mix(x ^ w)
		}
		for i := range minima {
			minima[i] = min(minima[i], x*k.mul[i]+k.add[i])
		}
	}
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
func (k *nearKey) near(s *skeleton) []bulkhead.Signature {
	bands := k.bands(s.words, 0)
	if bands == nil {
		bands = k.bands(s.quoted, quotedSalt)
	}
	var sigs []bulkhead.Signature
	for i := range bands {
		sigs = appendSignature(sigs, bulkhead.Near, bands[i][:])
	}
	return sigs
}
