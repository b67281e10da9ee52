package experiment

import (
	"crypto/md5"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/bulkhead-mail/bulkhead/filter"
)

// A HashFamily is the way in which the simulations choose the cells of an element.
type HashFamily string

// The hash families. Each round draws new functions.
const (
	// FamilyUniversal is the paper's: ((c x + d) mod p) mod m, c and d drawn.
	FamilyUniversal HashFamily = "universal"
	// FamilyIndependent are k functions whose every value is drawn at random: what
	// the paper leaves to future work.
	FamilyIndependent HashFamily = "independent"
	// FamilyKeyed is the keyed 128-bit hash of a node, under a drawn key.
	FamilyKeyed HashFamily = "keyed"
	// FamilyMD5 and FamilySHA1 cut the digest of a drawn number and the element into k
	// chunks, each taken mod m (Fan et al.). Where k does not divide the digest's bits,
	// the last ones are left over.
	FamilyMD5  HashFamily = "md5"
	FamilySHA1 HashFamily = "sha1"
)

// HashFamilies returns all of them, the paper's first.
func HashFamilies() []HashFamily {
	return []HashFamily{FamilyUniversal, FamilyIndependent, FamilyKeyed, FamilyMD5, FamilySHA1}
}

func (f HashFamily) validate() error {
	if !slices.Contains(HashFamilies(), f) {
		return fmt.Errorf("study: hash family %q, want one of %q", f, HashFamilies())
	}
	return nil
}

// hashBy computes the cells of all keys under new functions of any family but the
// universal one.
func (s *Simulator) hashBy(m uint64, k int, r *rand.Rand) {
	var element [16]byte
	binary.BigEndian.PutUint64(element[:], r.Uint64())
	secret := SecretOf(r.Uint64(), r.Uint64())
	for i, x := range s.keys {
		cells := s.Index[i*k : i*k+k]
		binary.BigEndian.PutUint64(element[8:], x)
		switch s.family {
		case FamilyIndependent:
			for j := range cells {
				cells[j] = uint32(r.Uint64N(m))
			}
		case FamilyKeyed:
			key := secret.Key(element[8:])
			for j := range cells {
				cells[j] = uint32(key.Position(j, m))
			}
		case FamilyMD5:
			sum := md5.Sum(element[:])
			chunks(cells, sum[:], m)
		case FamilySHA1:
			sum := sha1.Sum(element[:])
			chunks(cells, sum[:], m)
		}
	}
}

// chunks sets cells to the chunks of a digest, a big-endian number cut into as many
// parts as there are cells, each taken mod m.
func chunks(cells []uint32, digest []byte, m uint64) {
	width := len(digest) * 8 / len(cells)
	for i := range cells {
		var v uint64
		for bit := i * width; bit < (i+1)*width; bit++ {
			v = v<<1 | uint64(digest[bit/8]>>(7-bit%8)&1)
		}
		cells[i] = uint32(v % m)
	}
}

// Reach returns how many of m cells the chunks of the family can reach.
func (f HashFamily) Reach(m uint64, k int) uint64 {
	bits := map[HashFamily]int{FamilyMD5: 8 * md5.Size, FamilySHA1: 8 * sha1.Size}[f]
	if bits == 0 || bits/k > 62 {
		return m
	}
	return min(m, 1<<(bits/k))
}

// SecretOf returns the n-th key of a seed.
func SecretOf(seed, n uint64) (s filter.Secret) {
	binary.LittleEndian.PutUint64(s[:], seed)
	binary.LittleEndian.PutUint64(s[8:], n)
	return s
}
