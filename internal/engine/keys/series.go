package keys

import (
	"encoding/binary"
	"math/bits"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
)

// A Series makes keys that differ in their bases alone, see [Maker.Votes], [Maker.Records],
// [Maker.Backs] and [Maker.Pairs]. It hashes the common part once. Only one goroutine may use it.
type Series struct {
	maker   Maker
	who, id string
	vote    bulkhead.Vote
	text    filter.Key // of pairs
	begun   stem
	rest    int // bytes of the last part that are not in begun: a base, and a vote except for pairs
}

// The numbers of bytes that a series adds to its stem.
const (
	baseBytes = 16
	voteBytes = baseBytes + 1
)

// Votes returns the series of the keys that [Maker.Vote] makes for one voice and vote.
func (m Maker) Votes(who string, vote bulkhead.Vote) Series { return m.series(who, vote, "") }

// Records returns the series of the keys that [Maker.Record] makes for one voice.
func (m Maker) Records(voice string) Series { return m.series(voice, bulkhead.Spam, record) }

// Backs returns the series of the keys that [Maker.Back] makes.
func (m Maker) Backs() Series { return m.series(backKey, bulkhead.Spam, "") }

func (m Maker) series(who string, vote bulkhead.Vote, id string) Series {
	s := Series{maker: m, who: who, id: id, vote: vote, begun: stemOf(m.Secret), rest: voteBytes}
	for _, part := range [...]string{uniqueKey, who, id} {
		s.begun.part(part)
	}
	s.begun.byte(voteBytes)
	return s
}

// Pairs returns the series of the keys that [Maker.Pair] makes for one text; its bases are the
// contexts.
func (m Maker) Pairs(text filter.Key) Series {
	s := Series{maker: m, text: text, begun: stemOf(m.Secret), rest: baseBytes}
	s.begun.part(pairKey)
	s.begun.byte(2 * baseBytes)
	for _, w := range [...]uint64{text.Hi, text.Lo} {
		for i := range 8 {
			s.begun.byte(byte(w >> (8 * i)))
		}
	}
	return s
}

// Of returns the key of a base.
func (s *Series) Of(base filter.Key) filter.Key {
	k := s.begun.key(base, s.vote, s.rest)
	if past := s.maker.Past; past != nil {
		past.note(k, func(e int, secret filter.Secret) filter.Key {
			if s.rest == baseBytes {
				return pair(secret, s.maker.At(e, s.text), s.maker.At(e, base))
			}
			return unique(secret, s.who, s.vote, s.id, s.maker.At(e, base))
		})
	}
	return k
}

// A stem is the state of [filter.Secret.Key] after some parts, up to a position within the last
// one. Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF" (2012), in the 128-bit
// form.
type stem struct {
	v0, v1, v2, v3 uint64
	rest           uint64 // bytes that are not yet a block
	n              int    // bytes so far
}

func stemOf(secret filter.Secret) stem {
	k0, k1 := binary.LittleEndian.Uint64(secret[:8]), binary.LittleEndian.Uint64(secret[8:])
	return stem{v0: k0 ^ 0x736f6d6570736575, v1: k1 ^ 0x646f72616e646f6d ^ 0xee, v2: k0 ^ 0x6c7967656e657261,
		v3: k1 ^ 0x7465646279746573}
}

// part adds a part, preceded by its length.
func (s *stem) part(p string) {
	var size [binary.MaxVarintLen64]byte
	for _, c := range size[:binary.PutUvarint(size[:], uint64(len(p)))] {
		s.byte(c)
	}
	for i := range len(p) {
		s.byte(p[i])
	}
}

func (s *stem) byte(c byte) {
	s.rest |= uint64(c) << (s.n % 8 * 8)
	if s.n++; s.n%8 == 0 {
		s.v0, s.v1, s.v2, s.v3 = rounds(s.v0, s.v1, s.v2, s.v3^s.rest)
		s.v0 ^= s.rest
		s.rest = 0
	}
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

// key returns the key after the last part is completed with a base and, if rest is voteBytes, a
// vote.
func (s *stem) key(base filter.Key, vote bulkhead.Vote, rest int) filter.Key {
	up := uint(s.n % 8 * 8)
	down := 64 - up // shifts by 64 leave nothing
	a, b, last := s.rest|base.Hi<<up, base.Hi>>down|base.Lo<<up, base.Lo>>down|uint64(vote)<<up
	v0, v1, v2, v3 := rounds(s.v0, s.v1, s.v2, s.v3^a)
	v0, v1, v2, v3 = rounds(v0^a, v1, v2, v3^b)
	v0 ^= b
	if up == 56 && rest == voteBytes { // the vote fills the block, so the length needs another
		v0, v1, v2, v3 = rounds(v0, v1, v2, v3^last)
		v0 ^= last
		last = 0
	}
	last |= uint64(s.n+rest) << 56
	v0, v1, v2, v3 = rounds(v0, v1, v2, v3^last)
	v0, v1, v2, v3 = rounds(v0^last, v1, v2^0xee, v3)
	v0, v1, v2, v3 = rounds(v0, v1, v2, v3)
	k := filter.Key{Hi: v0 ^ v1 ^ v2 ^ v3}
	v0, v1, v2, v3 = rounds(v0, v1^0xdd, v2, v3)
	v0, v1, v2, v3 = rounds(v0, v1, v2, v3)
	k.Lo = v0 ^ v1 ^ v2 ^ v3
	return k
}
