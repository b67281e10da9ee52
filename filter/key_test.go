package filter

import (
	"encoding/hex"
	"math"
	"math/bits"
	"testing"
)

// TestKeyIsSipHash checks two entries of the reference implementation's table for SipHash-2-4-128:
// key 00..0f with no input, and with the 15 bytes 00..0e.
func TestKeyIsSipHash(t *testing.T) {
	var s Secret
	for i := range s {
		s[i] = byte(i)
	}
	got := s.sum(nil)
	want := "a3817f04ba25a8e66df67214c7550293"
	if h := leHex(got.Hi) + leHex(got.Lo); h != want {
		t.Errorf("SipHash-2-4-128 of nothing = %s, want %s", h, want)
	}
	in := make([]byte, 15)
	for i := range in {
		in[i] = byte(i)
	}
	got = s.sum(in)
	want = "5493e99933b0a8117e08ec0f97cfc3d9"
	if h := leHex(got.Hi) + leHex(got.Lo); h != want {
		t.Errorf("SipHash-2-4-128 of 15 bytes = %s, want %s", h, want)
	}
}

func leHex(v uint64) string {
	b := make([]byte, 8)
	for i := range b {
		b[i] = byte(v >> (8 * i))
	}
	return hex.EncodeToString(b)
}

func TestKeySeparatesParts(t *testing.T) {
	s := Secret{9}
	long := make([]byte, 5000)
	seen := map[Key]int{}
	for i, parts := range [][][]byte{
		{}, {{}}, {{}, {}}, {{0}}, {[]byte("ab"), []byte("c")}, {[]byte("a"), []byte("bc")}, {[]byte("abc")},
		{{}, []byte("abc")}, {[]byte("abc"), {}}, {long}, {long[:4999]}, {long[:2500], long[:2500]}, {{1}, {0}}, {{1, 0}},
	} {
		k := s.Key(parts...)
		if j, ok := seen[k]; ok {
			t.Errorf("inputs %d and %d have one key", i, j)
		}
		seen[k] = i
	}
	if s.KeyOf("ab", []byte("c")) != s.Key([]byte("ab"), []byte("c")) {
		t.Error("KeyOf and Key differ")
	}
	if s.KeyOf("x", long) != s.Key([]byte("x"), long) {
		t.Error("KeyOf and Key differ for long input")
	}
	if (Secret{1}).ID() == (Secret{2}).ID() || (Secret{1}).Key(long) == (Secret{2}).Key(long) {
		t.Error("two secrets give one result")
	}
}

func TestWithKeepsTheLine(t *testing.T) {
	k := Secret{1}.Key([]byte("x"))
	seen := map[uint64]bool{k.Lo: true}
	for kind := range 256 {
		w := k.With(uint8(kind))
		if w.Hi != k.Hi {
			t.Fatalf("With(%d) is on another line", kind)
		}
		if seen[w.Lo] {
			t.Fatalf("With(%d) repeats the cells of another kind", kind)
		}
		seen[w.Lo] = true
	}
}

// TestWithIsIndependent checks that the cells of two kinds of one signature coincide no more often
// than those of two signatures.
func TestWithIsIndependent(t *testing.T) {
	const n, k = 100_000, 6
	keep, fill := cellMasks(k)
	keys, _ := seeded(8, n)
	shared := 0
	for _, key := range keys {
		a := pick(key.With(0).Lo, keep, fill).set(k)
		b := pick(key.With(1).Lo, keep, fill).set(k)
		shared += a.and(b).len()
	}
	mean := float64(k*k) / lineCells
	got := float64(shared) / n
	if sigma := math.Sqrt(mean / n); math.Abs(got-mean) > 5*sigma {
		t.Errorf("two kinds share %.4f cells in the mean, want %.4f +- %.4f", got, mean, sigma)
	}
}

// TestPickIsUniform checks that all cells occur equally often at every position, and that there are
// always k distinct ones, for every k (H2).
func TestPickIsUniform(t *testing.T) {
	keys, _ := seeded(7, 128*600)
	for k := uint8(2); k <= 8; k++ {
		keep, fill := cellMasks(k)
		var seen [lineCells]int
		for i, key := range keys {
			lo := key.Lo
			if i < 4 {
				lo = []uint64{0, 1<<64 - 1, lanes, weyl}[i] // all cells equal
			}
			set := pick(lo, keep, fill).set(k)
			if set.len() != int(k) {
				t.Fatalf("k=%d: %d distinct cells", k, set.len())
			}
			for m := set; !m.empty(); {
				var c uint64
				c, m = m.pop()
				seen[c]++
			}
		}
		chi, want := 0.0, float64(len(keys))*float64(k)/lineCells
		for _, n := range seen {
			chi += (float64(n) - want) * (float64(n) - want) / want
		}
		// Mean 127, standard deviation 16.
		if chi > 127+6*16 {
			t.Errorf("k=%d: chi-square %.0f over 128 cells", k, chi)
		}
	}
}

func TestDistinctAgainstDefinition(t *testing.T) {
	keys, _ := seeded(6, 50_000)
	for i, key := range keys {
		x := key.Lo
		if i%2 == 0 {
			x &= 0x0f0f0f0f0f0f0f0f // many equal bytes
		}
		want := true
		for a := range 8 {
			for b := range a {
				want = want && byte(x>>(8*a)) != byte(x>>(8*b))
			}
		}
		if distinct(x) != want {
			t.Fatalf("distinct(%016x) = %v", x, !want)
		}
	}
}

func TestMixIsABijectionWithAvalanche(t *testing.T) {
	keys, _ := seeded(5, 2000)
	for bit := range 64 {
		flips := 0
		for _, k := range keys {
			flips += bits.OnesCount64(mix64(k.Lo) ^ mix64(k.Lo^1<<bit))
		}
		if mean := float64(flips) / float64(len(keys)); math.Abs(mean-32) > 1 {
			t.Errorf("bit %d changes %.1f bits in the mean, want 32", bit, mean)
		}
	}
}
