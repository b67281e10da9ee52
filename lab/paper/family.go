package paper

import (
	"crypto/md5"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/bitset"
)

// UniversalPrime is the p of the universal family that Yan & Cho use in their simulations (section
// V.A, after Ramakrishna).
const UniversalPrime = 2_100_000_011

// ErrUnreachable means that a hash family cannot reach every position of the array.
var ErrUnreachable = errors.New("filter: unreachable positions")

// A FamilyKind is the method by which a [Family] maps an element to positions.
type FamilyKind uint8

// The kinds of hash families.
const (
	// FamilyUniversal is ((c x + d) mod p) mod m, Yan & Cho Eq. 2.
	FamilyUniversal FamilyKind = iota + 1
	// FamilyMD5 is the i-th of k chunks of MD5, mod m (Fan et al., as in Yan & Cho section III).
	FamilyMD5
	// FamilySHA1 is the i-th of k chunks of SHA-1, mod m.
	FamilySHA1
	// FamilyKeyed is independent 64-bit words drawn from the keyed 128-bit hash. It is the only
	// safe family for elements that an attacker may choose.
	FamilyKeyed
)

// String returns "universal", "md5", "sha1", "keyed" or "invalid".
func (k FamilyKind) String() string {
	switch k {
	case FamilyUniversal:
		return "universal"
	case FamilyMD5:
		return "md5"
	case FamilySHA1:
		return "sha1"
	case FamilyKeyed:
		return "keyed"
	}
	return "invalid"
}

// A Family is a set of k hash functions into the positions 0 to m-1 of an array. It is an immutable
// value. Use [Universal], [ChunkedMD5], [ChunkedSHA1] or [Keyed] to make one, and
// [Family.Partitioned] for its partitioned form. The zero Family maps nothing, and every filter
// refuses it.
type Family struct {
	kind   FamilyKind
	parts  bool // function i maps into part i of the array
	k      int
	m      uint64
	c, d   []uint64      // universal only
	secret filter.Secret // keyed only
}

// Universal returns k functions h(x) = ((c x + d) mod p) mod m with c and d drawn from rnd, 0 < c <
// p, 0 <= d < p, p = [UniversalPrime] (Yan & Cho Eq. 2). An element is read as one big-endian
// integer, of which the functions use only the remainder mod p: with n elements the false-positive
// rate cannot fall below about n/p. It is meant for studies, not for signatures that others choose.
func Universal(m uint64, k int, rnd *rand.Rand) (Family, error) {
	if err := bitset.Check(m, k); err != nil {
		return Family{}, err
	}
	f := Family{kind: FamilyUniversal, m: m, k: k, c: make([]uint64, k), d: make([]uint64, k)}
	for i := range f.c {
		f.c[i] = 1 + rnd.Uint64N(UniversalPrime-1)
		f.d[i] = rnd.Uint64N(UniversalPrime)
	}
	return f, nil
}

// universalFrom rebuilds a universal family from its parameters.
func universalFrom(m uint64, c, d []uint64) (Family, error) {
	if err := bitset.Check(m, len(c)); err != nil {
		return Family{}, err
	}
	for i := range c {
		if c[i] == 0 || c[i] >= UniversalPrime || d[i] >= UniversalPrime {
			return Family{}, fmt.Errorf("filter: universal function %d has c = %d, d = %d, want 0 < c < p, d < p = %d",
				i, c[i], d[i], uint64(UniversalPrime))
		}
	}
	return Family{kind: FamilyUniversal, m: m, k: len(c), c: c, d: d}, nil
}

// ChunkedMD5 returns k functions: MD5 of the element cut into k chunks of 128/k bits, each taken
// mod m. k must divide 128. The family reaches min(m, 2^(128/k)) positions.
func ChunkedMD5(m uint64, k int) (Family, error) { return chunked(FamilyMD5, m, k) }

// ChunkedSHA1 is [ChunkedMD5] with SHA-1: k must divide 160, and the family
// reaches min(m, 2^(160/k)) positions.
func ChunkedSHA1(m uint64, k int) (Family, error) { return chunked(FamilySHA1, m, k) }

func chunked(kind FamilyKind, m uint64, k int) (Family, error) {
	if err := bitset.Check(m, k); err != nil {
		return Family{}, err
	}
	f := Family{kind: kind, m: m, k: k}
	if w := f.digestBits(); w%k != 0 {
		return Family{}, fmt.Errorf("filter: %d hash functions do not divide the %d bits of %s", k, w, kind)
	}
	return f, nil
}

func (f *Family) digestBits() int {
	if f.kind == FamilySHA1 {
		return 8 * sha1.Size
	}
	return 8 * md5.Size
}

// Keyed returns k independent functions drawn from the 128-bit hash of the element under secret.
// Without the secret it is impossible to aim at chosen positions. Unlike double hashing, the family
// has no error floor in small arrays.
func Keyed(secret filter.Secret, m uint64, k int) (Family, error) {
	if err := bitset.Check(m, k); err != nil {
		return Family{}, err
	}
	return Family{kind: FamilyKeyed, m: m, k: k, secret: secret}, nil
}

// Partitioned returns the form of f whose function i maps into the i-th of k parts of the array, of
// m/k positions each (sizes differ by one where k does not divide m). m must be at least k.
func (f Family) Partitioned() (Family, error) {
	if f.m < uint64(f.k) {
		return Family{}, fmt.Errorf("filter: %d positions in %d parts", f.m, f.k)
	}
	f.parts = true
	return f, nil
}

// Kind returns the method of hashing.
func (f *Family) Kind() FamilyKind { return f.kind }

// M returns the number of positions of the array that f maps into.
func (f *Family) M() uint64 { return f.m }

// K returns the number of hash functions.
func (f *Family) K() int { return f.k }

// IsPartitioned reports whether each function has its own part of the array.
func (f *Family) IsPartitioned() bool { return f.parts }

// Utilisable returns how many of the m positions at least one function of f can reach: the
// "utilisable size" of Yan & Cho section III.
func (f *Family) Utilisable() uint64 {
	if !f.parts {
		return min(f.m, f.span())
	}
	var sum uint64
	for i := range f.k {
		lo, hi := f.part(i)
		sum += min(hi-lo, f.span())
	}
	return sum
}

// span returns how many different values one function has before the reduction to the array, capped
// at 2^63.
func (f *Family) span() uint64 {
	switch f.kind {
	case FamilyUniversal:
		return UniversalPrime
	case FamilyMD5, FamilySHA1:
		if w := f.digestBits() / f.k; w < 63 {
			return 1 << w
		}
	}
	return 1 << 63
}

// Reachable returns an error that wraps [ErrUnreachable] if f leaves positions
// of its array unused.
func (f *Family) Reachable() error {
	if u := f.Utilisable(); u < f.m {
		return fmt.Errorf("%w: %s with k = %d reaches %d of %d", ErrUnreachable, f.kind, f.k, u, f.m)
	}
	return nil
}

// part returns the positions [lo, hi) of function i in the partitioned form.
func (f *Family) part(i int) (lo, hi uint64) {
	k := uint64(f.k)
	q, r := f.m/k, f.m%k // i*m/k without overflow
	at := func(j uint64) uint64 { return j*q + j*r/k }
	return at(uint64(i)), at(uint64(i) + 1)
}

// Append appends the k positions of x to dst. Positions may repeat, except in the partitioned form.
func (f *Family) Append(dst []uint64, x []byte) []uint64 {
	switch f.kind {
	case FamilyUniversal:
		return f.appendUniversal(dst, residue(x))
	case FamilyMD5:
		sum := md5.Sum(x)
		return f.appendChunks(dst, sum[:])
	case FamilySHA1:
		sum := sha1.Sum(x)
		return f.appendChunks(dst, sum[:])
	case FamilyKeyed:
		return f.AppendKey(dst, f.secret.Key(x))
	}
	return dst
}

// AppendKey appends the positions of an element of a keyed family whose key is already known. It is
// only for [FamilyKeyed].
func (f *Family) AppendKey(dst []uint64, key filter.Key) []uint64 {
	for i := range f.k {
		n, base := f.m, uint64(0)
		if f.parts {
			lo, hi := f.part(i)
			n, base = hi-lo, lo
		}
		dst = append(dst, base+key.Position(i, n))
	}
	return dst
}

// residue returns the big-endian integer x mod p.
func residue(x []byte) uint64 {
	var r uint64
	for ; len(x) >= 4; x = x[4:] {
		r = (r<<32 | uint64(binary.BigEndian.Uint32(x))) % UniversalPrime
	}
	for _, b := range x {
		r = (r<<8 | uint64(b)) % UniversalPrime
	}
	return r
}

func (f *Family) appendUniversal(dst []uint64, x uint64) []uint64 {
	for i := range f.k {
		dst = append(dst, f.reduce(i, (f.c[i]*x+f.d[i])%UniversalPrime))
	}
	return dst
}

func (f *Family) reduce(i int, h uint64) uint64 {
	if !f.parts {
		return h % f.m
	}
	lo, hi := f.part(i)
	return lo + h%(hi-lo)
}

// appendChunks reduces each chunk of the digest, a big-endian integer of up to 160 bits. It works
// bit by bit where the chunk does not end on a byte.
func (f *Family) appendChunks(dst []uint64, digest []byte) []uint64 {
	w := len(digest) * 8 / f.k
	for i := range f.k {
		n, base := f.m, uint64(0)
		if f.parts {
			lo, hi := f.part(i)
			n, base = hi-lo, lo
		}
		var r uint64
		for at, end := i*w, (i+1)*w; at < end; {
			take := min(8-at%8, end-at)
			b := uint64(digest[at/8]) >> (8 - at%8 - take) & (1<<take - 1)
			r = (r<<take | b) % n
			at += take
		}
		dst = append(dst, base+r)
	}
	return dst
}

// Equal reports whether f and g map every element to the same positions.
func (f *Family) Equal(g *Family) bool {
	if f.kind != g.kind || f.parts != g.parts || f.m != g.m || f.k != g.k || f.secret != g.secret ||
		len(f.c) != len(g.c) || len(f.d) != len(g.d) {
		return false
	}
	for i := range f.c {
		if f.c[i] != g.c[i] || f.d[i] != g.d[i] {
			return false
		}
	}
	return true
}
