package filter

import (
	"encoding/binary"
	"math/bits"

	"github.com/dchest/siphash"

	"github.com/bulkhead-mail/bulkhead/filter/internal/bitset"
)

// A Key is the 128-bit keyed hash of a signature. In each array, all data about the signature lies
// in one cache line, which Hi selects; Lo selects the cells or bits inside that line.
type Key struct{ Hi, Lo uint64 }

// With returns the key of one kind of vote on k's signature: the same line, but different cells.
// All votes on one signature thus share one cache line per array, while their counts are as
// independent as the counts of different signatures.
func (k Key) With(kind uint8) Key {
	return Key{Hi: k.Hi, Lo: mix64(k.Lo + uint64(kind)*weyl)}
}

// A Secret is the key that all servers of one network share. It makes keys unpredictable: clients
// choose the signatures that they submit, so without a secret an attacker could aim at chosen
// cells. Arrays can be merged only under the same secret; see [Secret.ID].
type Secret [16]byte

// MaxHashes is the largest number of hash functions of a [TwoPart] or a [UniqueRate].
const MaxHashes = bitset.MaxHashes

// MaxPositions is the largest number of bits of a [TwoPart].
const MaxPositions = bitset.MaxPositions

// stackInput is the maximum length of input, in bytes, that is hashed without an allocation.
const stackInput = 192

// shortInput is the maximum length of input, in bytes, that is cheap to lay out.
const shortInput = 64

// Key returns SipHash-2-4-128 of the parts, each preceded by its length, so that ("ab", "c") and
// ("a", "bc") differ. It does not allocate if the parts are shorter than 160 bytes in total.
//
// Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF" (2012).
func (s Secret) Key(parts ...[]byte) Key {
	var buf [stackInput]byte
	in := buf[:0]
	for _, p := range parts {
		in = binary.AppendUvarint(in, uint64(len(p)))
		in = append(in, p...)
	}
	return s.sum(in)
}

// KeyOf returns Key(scheme, sum) for a scheme given as a string. This is the common form of a
// signature, and it needs no slice.
func (s Secret) KeyOf(scheme string, sum []byte) Key {
	if n := len(scheme) + len(sum); n <= shortInput-2 { // nearly all; lengths take one byte
		var in [shortInput]byte
		in[0] = byte(len(scheme))
		copy(in[1:], scheme)
		in[1+len(scheme)] = byte(len(sum))
		copy(in[2+len(scheme):], sum)
		return s.sum(in[:n+2])
	}
	var buf [stackInput]byte
	in := binary.AppendUvarint(buf[:0], uint64(len(scheme)))
	in = append(in, scheme...)
	in = binary.AppendUvarint(in, uint64(len(sum)))
	in = append(in, sum...)
	return s.sum(in)
}

func (s Secret) sum(in []byte) Key {
	k0, k1 := s.words()
	hi, lo := siphash.Hash128(k0, k1, in)
	return Key{Hi: hi, Lo: lo}
}

// ID returns a fingerprint of s that may be published. It goes into every [Geometry], so that
// arrays of different networks are never merged. It is a pseudorandom function of s and reveals
// nothing else about it.
func (s Secret) ID() uint64 {
	k0, k1 := s.words()
	return siphash.Hash(k0, k1, []byte("bulkhead/filter: fingerprint of the network's secret"))
}

func (s Secret) words() (k0, k1 uint64) {
	return binary.LittleEndian.Uint64(s[:8]), binary.LittleEndian.Uint64(s[8:])
}

// weyl is 2^64 divided by the golden ratio, made odd: multiples of it differ in many bits.
const weyl = 0x9e3779b97f4a7c15

// mix64 is a bijection of the 64-bit words in which every bit of the result depends on every bit of
// x.
//
// Source: Steele, Lea and Flood, "Fast splittable pseudorandom number
// generators" (2014), with the constants of Stafford's variant 13.
func mix64(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Position returns the i-th of several independent positions of k in an array of n.
func (k Key) Position(i int, n uint64) uint64 {
	hi, _ := bits.Mul64(mix64(k.Hi+uint64(i+1)*weyl)^k.Lo, n)
	return hi
}
