package filter

import (
	"encoding/binary"

	"github.com/dchest/siphash"

	"github.com/bulkhead-mail/bulkhead/internal/bitset"
)

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
