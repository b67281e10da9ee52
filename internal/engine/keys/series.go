package keys

import (
	"encoding/binary"
	"math/bits"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
)

// A Series makes keys of many bases that differ in nothing else, see [Maker.Votes] and
// [Maker.Records]. What they have in common is hashed once. One goroutine uses it.
type Series struct {
	maker   Maker
	who, id string
	vote    bulkhead.Vote
	begun   stem
}

// Votes returns the series of the keys that [Maker.Vote] makes for one voice and vote.
func (m Maker) Votes(who string, vote bulkhead.Vote) Series { return m.series(who, vote, "") }

// Records returns the series of the keys that [Maker.Record] makes for one voice.
func (m Maker) Records(voice string) Series { return m.series(voice, bulkhead.Spam, record) }

func (m Maker) series(who string, vote bulkhead.Vote, id string) Series {
	return Series{m, who, id, vote, stemOf(m.Secret, [...]string{uniqueKey, who, id})}
}

// Of returns the key of a base.
func (s *Series) Of(base filter.Key) filter.Key {
	k := s.begun.key(base, s.vote)
	if past := s.maker.Past; past != nil {
		past.note(k, func(e int, secret filter.Secret) filter.Key {
			return unique(secret, s.who, s.vote, s.id, s.maker.At(e, base))
		})
	}
	return k
}

// A stem is [filter.Secret.Key] of some parts, up to the last one. Source: Aumasson and
// Bernstein, "SipHash: a fast short-input PRF" (2012), in the form of 128 bits.
type stem struct {
	v0, v1, v2, v3 uint64
	rest           uint64 // bytes that are not yet a block
	n              int    // bytes so far
}

func stemOf(secret filter.Secret, parts [3]string) stem {
	k0, k1 := binary.LittleEndian.Uint64(secret[:8]), binary.LittleEndian.Uint64(secret[8:])
	s := stem{v0: k0 ^ 0x736f6d6570736575, v1: k1 ^ 0x646f72616e646f6d ^ 0xee, v2: k0 ^ 0x6c7967656e657261, v3: k1 ^ 0x7465646279746573}
	for _, p := range parts {
		var size [binary.MaxVarintLen64]byte
		for _, c := range size[:binary.PutUvarint(size[:], uint64(len(p)))] {
			s.byte(c)
		}
		for i := range len(p) {
			s.byte(p[i])
		}
	}
	return s
}

func (s *stem) byte(c byte) {
	s.rest |= uint64(c) << (s.n % 8 * 8)
	if s.n++; s.n%8 == 0 {
		s.block(s.rest)
		s.rest = 0
	}
}

func (s *stem) block(m uint64) {
	s.v0, s.v1, s.v2, s.v3 = rounds(s.v0, s.v1, s.v2, s.v3^m)
	s.v0 ^= m
}

// rounds are two rounds of SipHash.
func rounds(v0, v1, v2, v3 uint64) (w0, w1, w2, w3 uint64) {
	for range 2 {
		v0 += v1
		v1 = bits.RotateLeft64(v1, 13) ^ v0
		v0 = bits.RotateLeft64(v0, 32)
		v2 += v3
		v3 = bits.RotateLeft64(v3, 16) ^ v2
		v0 += v3
		v3 = bits.RotateLeft64(v3, 21) ^ v0
		v2 += v1
		v1 = bits.RotateLeft64(v1, 17) ^ v2
		v2 = bits.RotateLeft64(v2, 32)
	}
	return v0, v1, v2, v3
}

// key returns the key with a last part of 17 bytes, a base and a vote.
func (s *stem) key(base filter.Key, vote bulkhead.Vote) filter.Key {
	// The part with its length before it, as three words, the last of two bytes.
	a, b, c := 17|base.Hi<<8, base.Hi>>56|base.Lo<<8, base.Lo>>56|uint64(vote)<<8
	h, up := *s, uint(s.n%8*8)
	down := 64 - up // shifts by 64 leave nothing
	h.block(s.rest | a<<up)
	h.block(a>>down | b<<up)
	last := b>>down | c<<up
	if up > 40 { // the two bytes do not fit, beside the length
		h.block(last)
		last = c >> down
	}
	h.block(last | uint64(s.n+18)<<56)
	v0, v1, v2, v3 := rounds(h.v0, h.v1, h.v2^0xee, h.v3)
	v0, v1, v2, v3 = rounds(v0, v1, v2, v3)
	k := filter.Key{Hi: v0 ^ v1 ^ v2 ^ v3}
	v0, v1, v2, v3 = rounds(v0, v1^0xdd, v2, v3)
	v0, v1, v2, v3 = rounds(v0, v1, v2, v3)
	k.Lo = v0 ^ v1 ^ v2 ^ v3
	return k
}
