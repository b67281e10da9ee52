package rspamd

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/dchest/siphash"
	"golang.org/x/crypto/blake2b"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/pace"
)

// Shingles is the number of shingles of a text.
const Shingles = 32

// An Algorithm is the hash from which shingles are made.
type Algorithm uint8

// The algorithms. Rspamd's own configuration selects mumhash; a rule without a
// choice uses siphash.
const (
	MumHash Algorithm = iota
	SipHash
	XXHash
)

// String returns the name that rspamd's option "algorithm" takes.
func (a Algorithm) String() string {
	switch a {
	case MumHash:
		return "mumhash"
	case SipHash:
		return "siphash"
	case XXHash:
		return "xxhash"
	}
	return "invalid"
}

// ParseAlgorithm returns the algorithm that rspamd calls name; "old" is
// siphash. Its error wraps bulkhead.ErrMalformed.
func ParseAlgorithm(name string) (Algorithm, error) {
	for _, a := range [...]Algorithm{MumHash, SipHash, XXHash} {
		if a.String() == name {
			return a, nil
		}
	}
	if name == "old" {
		return SipHash, nil
	}
	return 0, fmt.Errorf("rspamd: %w: unknown shingle algorithm %.20q", bulkhead.ErrMalformed, name)
}

// A Hasher computes the digests and shingles of rspamd's fuzzy_check for
// one pair of keys. It may be shared.
//
// Source: docs/specs/rspamd-fuzzy.md#digests.
type Hasher struct {
	algorithm Algorithm
	key       [blake2b.Size]byte
	partKey   [blake2b.Size]byte
	keys      [Shingles][16]byte
	stems     *stemCache
	stopWords *stopWords
	model     *trigrams // nil if there is none
	spaces    sync.Pool // of *workspace
}

// NewHasher returns a hasher for a rule's fuzzy_key and
// fuzzy_shingles_key; "" means rspamd's default for either.
func NewHasher(key, shinglesKey string, algorithm Algorithm) *Hasher {
	const defaultKey = "rspamd"
	if key == "" {
		key = defaultKey
	}
	if shinglesKey == "" {
		shinglesKey = defaultKey
	}
	h := &Hasher{algorithm: algorithm, stems: newStemCache(), stopWords: ownWords}
	h.key = blake2b.Sum512([]byte(key))
	h.partKey = blake2b.Sum512([]byte(defaultKey))
	root := blake2b.Sum512([]byte(shinglesKey))
	previous := root[:16]
	for i := range h.keys {
		sum := blake2b.Sum512(previous)
		copy(h.keys[i][:], sum[:])
		previous = h.keys[i][:]
	}
	return h
}

// Part returns the digest of a decoded part that is not text. It depends on no
// key.
func (h *Hasher) Part(data []byte) [blake2b.Size]byte { return keyed(&h.partKey, nil, data) }

// Words returns the digest of the words of a text, as they are after stemming.
func (h *Hasher) Words(words []string) [blake2b.Size]byte {
	return keyed(&h.key, nil, appendAll(nil, words))
}

// Direct returns the digest of a text that is too short for words: of the
// stripped text and the decoded subject, which follows it.
func (h *Hasher) Direct(stripped []byte, subject string) [blake2b.Size]byte {
	return keyed(&h.key, nil, stripped, []byte(subject))
}

func appendAll(dst []byte, words []string) []byte {
	for _, w := range words {
		dst = append(dst, w...)
	}
	return dst
}

// keyed returns the keyed hash of data, of which nothing comes between.
func keyed(key *[blake2b.Size]byte, p *pace.Pace, data ...[]byte) (sum [blake2b.Size]byte) {
	h, err := blake2b.New512(key[:])
	if err != nil {
		// Only a key longer than 64 bytes is refused.
		panic(err)
	}
	for _, d := range data {
		pace.Write(h, d, p)
	}
	h.Sum(sum[:0])
	return sum
}

// Shingles returns the shingles of the words of a text, as they are after
// stemming. Texts of fewer than 3 words have shingles too; no words give all
// zeroes.
func (h *Hasher) Shingles(words []string) (shingles [Shingles]uint64) {
	var list wordList
	for _, w := range words {
		list.add(w)
	}
	var v vocabulary
	v.take(&list, h.stems.seed)
	return h.shingles(&v)
}

func (h *Hasher) shingles(v *vocabulary) (shingles [Shingles]uint64) {
	if v.len() == 0 {
		return shingles
	}
	// The last two words begin nothing. Those before them are the first of the vocabulary.
	ids := v.ids[:max(v.len()-2, 1)]
	words := v.words[:slices.Max(ids)+1]
	if h.algorithm == SipHash {
		for j := range shingles {
			shingles[j] = h.minSip(j, words)
		}
		return shingles
	}
	v.sums = slices.Grow(v.sums[:0], len(words))[:len(words)]
	v.tails = v.tails[:0]
	for _, w := range words {
		v.tails = append(v.tails, mumTailOf(w[:min(len(w), mumBlock)]))
	}
	for j := range shingles {
		seed := binary.LittleEndian.Uint64(h.keys[j][:])
		for id, w := range words {
			switch {
			case h.algorithm != MumHash:
				v.sums[id] = xxHash(w, seed)
			case len(w) > mumBlock:
				v.sums[id] = mumHash(w, seed)
			default:
				v.sums[id] = mumFinish(mum(seed+uint64(len(w)), mumBlockStart) ^ v.tails[id])
			}
		}
		shingles[j] = leastMix(v.sums, ids)
	}
	return shingles
}

// minSip: each position is one word, written three times.
func (h *Hasher) minSip(j int, words []string) uint64 {
	k0, k1 := binary.LittleEndian.Uint64(h.keys[j][:]), binary.LittleEndian.Uint64(h.keys[j][8:])
	least := uint64(math.MaxUint64)
	var thrice []byte
	for _, w := range words {
		thrice = append(append(append(thrice[:0], w...), w...), w...)
		least = min(least, siphash.Hash(k0, k1, thrice))
	}
	return least
}

// leastMix returns the least mix of the hash of a word and the hashes of the two before it.
func leastMix(sums []uint64, ids []int32) uint64 {
	least, before, before2 := uint64(math.MaxUint64), uint64(0), uint64(0)
	for _, id := range ids {
		sum := sums[id]
		least = min(least, sum^before>>8^before2>>16)
		before, before2 = sum, before
	}
	return least
}

func xxHash(word string, seed uint64) uint64 {
	var digest xxhash.Digest
	digest.ResetWithSeed(seed)
	digest.WriteString(word)
	return digest.Sum64()
}

// The multipliers of MUM hash, version 1, by V. Makarov.
const (
	mumBlockStart = 0xc42b5e2e6480b23b
	mumUnroll     = 0x7b51ec3d22f7096f
	mumTail       = 0xaf47d47c99b1461b
	mumStep       = 0x2e0bb864e9ea7df5
	mumKey        = 0xcdb32970830fcaa1
	mumFinish1    = 0xa9a7ae7ceff79f3f
	mumFinish2    = 0xaf47d47c99b1461b
)

var mumPrimes = [...]uint64{0x9ebdcae10d981691, 0x32b9b9b97a27ac7d, 0x29b5584d83d35bbd, 0x4b04e0e61401255f}

// mumHash is MUM hash, version 1, of a word.
func mumHash(w string, seed uint64) uint64 {
	h := mum(seed+uint64(len(w)), mumBlockStart)
	for len(w) > mumBlock {
		for i, p := range mumPrimes {
			h ^= mum(le64(w[8*i:8*i+8]), p)
		}
		w = w[mumBlock:]
		h = mum(h, mumUnroll)
	}
	return mumFinish(h ^ mumTailOf(w))
}

// mumBlock is the number of bytes that one round takes.
const mumBlock = 8 * len(mumPrimes)

// mumTailOf is what the last bytes of a word, at most a block, add to its hash.
func mumTailOf(w string) (h uint64) {
	for i := 0; len(w) >= 8; i++ {
		h ^= mum(le64(w[:8]), mumPrimes[i])
		w = w[8:]
	}
	if len(w) > 0 {
		h ^= mum(le64(w), mumTail)
	}
	return h
}

func mumFinish(h uint64) uint64 {
	h ^= mum(h, mumFinish1)
	return h ^ mum(h, mumFinish2)
}

// mum multiplies and mixes.
func mum(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi + lo
}

// le64 reads up to 8 bytes, the least significant first.
func le64(s string) uint64 {
	switch n := len(s); {
	case n >= 8:
		return le32(s) | le32(s[4:])<<32
	case n >= 4:
		return le32(s) | le32(s[n-4:])<<(8*(n-4))
	case n > 0: // the one in the middle may be one of the others
		return uint64(s[0]) | uint64(s[n/2])<<(8*(n/2)) | uint64(s[n-1])<<(8*(n-1))
	}
	return 0
}

// le32 reads 4 bytes.
func le32(s string) uint64 {
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24
}
