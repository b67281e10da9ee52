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
	v.sums = sized(v.sums, len(words))
	switch h.algorithm {
	case MumHash:
		v.place(v.bySize(ids, words), len(words))
		return h.minMum(v, words)
	case SipHash:
		for j := range shingles {
			shingles[j] = h.minSip(j, words)
		}
	default:
		v.place(ids, len(words))
		for j := range shingles {
			shingles[j] = h.minXX(j, v, words)
		}
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

// minXX: each position mixes the hashes of a word and the two before it.
func (h *Hasher) minXX(j int, v *vocabulary, words []string) uint64 {
	seed := binary.LittleEndian.Uint64(h.keys[j][:])
	var digest xxhash.Digest
	bound := uint64(math.MaxUint64)
	v.near = v.near[:0]
	for id, w := range words {
		digest.ResetWithSeed(seed)
		digest.WriteString(w)
		v.sums[id] = digest.Sum64()
		if v.sums[id] <= bound {
			bound = v.isNear(id)
		}
	}
	return v.leastMix(bound)
}

// isNear notes a word whose sum is up to the bound of leastMix, and returns the bound from now on.
func (v *vocabulary) isNear(id int) uint64 {
	v.near = append(v.near, int32(id))
	return v.sums[id] | math.MaxUint64>>8
}

// leastMix returns the least mix of a placed word and the two words before it. The first byte of
// a mix is the first byte of the word's own sum, so only words whose sum begins like the least
// sum can give the least mix: the words in near, if their sum is up to the bound.
func (v *vocabulary) leastMix(bound uint64) uint64 {
	least := uint64(math.MaxUint64)
	for _, id := range v.near {
		if v.sums[id] > bound {
			continue
		}
		for at := v.last[id]; at >= 0; at = v.before[at] {
			mix := v.sums[id]
			if at >= 1 {
				mix ^= v.sums[v.placed[at-1]] >> 8
			}
			if at >= 2 {
				mix ^= v.sums[v.placed[at-2]] >> 16
			}
			least = min(least, mix)
		}
	}
	return least
}

// minMum does the same for all shingles. The contribution of a word of up to one block to its
// hash depends on no seed and is computed once. The contribution of its length is computed once
// for all words of that length, which are adjacent.
func (h *Hasher) minMum(v *vocabulary, words []string) (shingles [Shingles]uint64) {
	for j := range shingles {
		seed := binary.LittleEndian.Uint64(h.keys[j][:])
		bound := uint64(math.MaxUint64)
		v.near = v.near[:0]
		from := int32(0)
		for size, to := range &v.sizes {
			if from < to {
				bound = v.mumGroup(int(from), int(to), mum(seed+uint64(size), mumBlockStart), bound)
				from = to
			}
		}
		for i, id := range v.long {
			at := int(from) + i
			v.sums[at] = mumHash(words[id], seed)
			if v.sums[at] <= bound {
				bound = v.isNear(at)
			}
		}
		shingles[j] = v.leastMix(bound)
	}
	return shingles
}

// mumGroup hashes the words with the numbers from to to-1, which have one size. start is the
// contribution of the size to the hash.
func (v *vocabulary) mumGroup(from, to int, start, bound uint64) uint64 {
	for from < to {
		if from += mumSums(v.sums[from:to], v.tails[from:to], start, bound); from < to {
			bound = v.isNear(from)
			from++
		}
	}
	return bound
}

// mumSums sets sums to the sums of the words with these tails, at least up to and including the
// first sum that is not above the bound, and returns the number of sums before that one.
func mumSums(sums, tails []uint64, start, bound uint64) int {
	sums = sums[:len(tails)]
	i := 0
	for ; i+1 < len(tails); i += 2 {
		one, two := mumFinish(start^tails[i]), mumFinish(start^tails[i+1])
		sums[i], sums[i+1] = one, two
		if one <= bound {
			return i
		}
		if two <= bound {
			return i + 1
		}
	}
	if i < len(tails) {
		if sums[i] = mumFinish(start ^ tails[i]); sums[i] > bound {
			i++
		}
	}
	return i
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
