package paper

import (
	"bytes"
	"crypto/sha1"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/bulkhead-mail/bulkhead/filter"
)

func testRandom() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func item(i int) []byte { return fmt.Appendf(nil, "user%d@example.com", i) }

// families returns one family of every construction with m positions.
func families(t testing.TB, m uint64) map[string]Family {
	fs := map[string]Family{
		"universal": must(Universal(m, 6, testRandom()))(t),
		"md5":       must(ChunkedMD5(m, 4))(t),
		"sha1":      must(ChunkedSHA1(m, 5))(t),
		"keyed":     must(Keyed(filter.Secret{3}, m, 7))(t),
	}
	for _, name := range []string{"universal", "md5", "sha1", "keyed"} {
		f := fs[name]
		fs["partitioned "+name] = must(f.Partitioned())(t)
	}
	return fs
}

func TestUniversalPrime(t *testing.T) {
	if !big.NewInt(UniversalPrime).ProbablyPrime(20) {
		t.Error("p is not prime")
	}
}

// TestPositionsByHand recomputes positions with big integers.
func TestPositionsByHand(t *testing.T) {
	x := []byte("a signature of twenty bytes.")
	const m = 99_991
	u := must(Universal(m, 5, testRandom()))(t)
	for i, got := range u.Append(nil, x) {
		v := new(big.Int).SetBytes(x)
		v.Mul(v, new(big.Int).SetUint64(u.c[i])).Add(v, new(big.Int).SetUint64(u.d[i]))
		v.Mod(v, big.NewInt(UniversalPrime)).Mod(v, big.NewInt(m))
		if got != v.Uint64() {
			t.Errorf("universal %d: %d, want %d", i, got, v)
		}
	}
	// The digests of "abc" come from RFC 1321 and RFC 3174.
	digests := map[FamilyKind]string{
		FamilyMD5: "900150983cd24fb0d6963f7d28e17f72", FamilySHA1: "a9993e364706816aba3e25717850c26c9cd0d89d",
	}
	for kind, digest := range digests {
		all, _ := new(big.Int).SetString(digest, 16)
		for k := 1; k <= len(digest)*4; k++ {
			f, err := chunked(kind, m, k)
			if (err == nil) != (len(digest)*4%k == 0) {
				t.Fatalf("%v with k = %d: %v", kind, k, err)
			}
			if err != nil {
				continue
			}
			w := uint(len(digest) * 4 / k)
			for i, got := range f.Append(nil, []byte("abc")) {
				v := new(big.Int).Rsh(all, w*uint(k-1-i))
				v.Mod(v, new(big.Int).Lsh(big.NewInt(1), w)).Mod(v, big.NewInt(m))
				if got != v.Uint64() {
					t.Errorf("%v, k = %d: position %d is %d, want %d", kind, k, i, got, v)
				}
			}
		}
	}
}

func TestUtilisable(t *testing.T) {
	tests := []struct {
		f    Family
		want uint64
	}{
		{must(ChunkedMD5(1<<20, 4))(t), 1 << 20},                           // Fan et al.: all reachable
		{must(ChunkedMD5(1<<20, 8))(t), 1 << 16},                           // the paper's example, 2^(128/8)
		{must(ChunkedSHA1(1<<24, 8))(t), 1 << 20},                          // the paper's example, 2^(160/8)
		{must(ChunkedSHA1(1<<30, 1))(t), 1 << 30},                          // a chunk wider than a word
		{must(Universal(1<<32, 4, testRandom()))(t), UniversalPrime},       // no value of p and more
		{must(Keyed(filter.Secret{}, 1<<40, 4))(t), 1 << 40},               //
		{must(must(ChunkedMD5(1<<20, 8))(t).Partitioned())(t), 8 << 16},    // k x 2^(w/k)
		{must(must(ChunkedMD5(1000, 8))(t).Partitioned())(t), 1000},        //
		{must(must(ChunkedMD5(1<<17+3, 32))(t).Partitioned())(t), 32 * 16}, // parts of 4096 and 4097, 16 of each
	}
	for _, tt := range tests {
		if got := tt.f.Utilisable(); got != tt.want {
			t.Errorf("%v of %d with k = %d: %d utilisable, want %d", tt.f.kind, tt.f.m, tt.f.k, got, tt.want)
		}
		err := tt.f.Reachable()
		if full := tt.want == tt.f.m; full != (err == nil) || !full && !errors.Is(err, ErrUnreachable) {
			t.Errorf("%v of %d with k = %d: Reachable says %v", tt.f.kind, tt.f.m, tt.f.k, err)
		}
		if tt.want < tt.f.m {
			if _, err := NewRefined(tt.f, FixedCells(4)); !errors.Is(err, ErrUnreachable) {
				t.Errorf("NewRefined says %v, want ErrUnreachable", err)
			}
			if _, err := NewBloom(tt.f); !errors.Is(err, ErrUnreachable) {
				t.Errorf("NewBloom says %v, want ErrUnreachable", err)
			}
		}
	}
}

// TestUtilisableMeasured fills a small construction until no new position is hit.
func TestUtilisableMeasured(t *testing.T) {
	f := must(ChunkedMD5(2000, 16))(t) // chunks of 8 bits: 256 of 2000
	for _, f := range []Family{f, must(f.Partitioned())(t)} {
		b := must(NewStudyBloom(f))(t)
		for i := range 20_000 {
			b.Add(item(i))
		}
		if b.set != f.Utilisable() {
			t.Errorf("partitioned %v: %d bits set, want all utilisable %d", f.parts, b.set, f.Utilisable())
		}
	}
}

func TestFamilyRefuses(t *testing.T) {
	for name, err := range map[string]error{
		"no positions": second(Keyed(filter.Secret{}, 0, 1)), "no functions": second(Keyed(filter.Secret{}, 1, 0)),
		"too many functions":    second(Keyed(filter.Secret{}, 1, filter.MaxHashes+1)),
		"too large":             second(Keyed(filter.Secret{}, filter.MaxPositions+1, 1)),
		"6 does not divide 128": second(ChunkedMD5(100, 6)), "3 does not divide 160": second(ChunkedSHA1(100, 3)),
		"c is 0":         second(universalFrom(10, []uint64{0}, []uint64{0})),
		"c is p":         second(universalFrom(10, []uint64{UniversalPrime}, []uint64{0})),
		"d is p":         second(universalFrom(10, []uint64{1}, []uint64{UniversalPrime})),
		"zero family":    second(NewStudyBloom(Family{})),
		"more parts":     second(must(Keyed(filter.Secret{}, 3, 4))(t).Partitioned()),
		"zero refined":   second(NewRefined(Family{}, FixedCells(4))),
		"zero intuitive": second(NewIntuitive(Family{}, FixedCells(4))),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestPositionsWithinParts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := rapid.Uint64Range(200, 100_000).Draw(rt, "m")
		x := rapid.SliceOf(rapid.Byte()).Draw(rt, "x")
		for name, f := range families(t, m) {
			ps := f.Append([]uint64{7}, x)
			if len(ps) != 1+f.k || ps[0] != 7 {
				rt.Fatalf("%s: %d positions", name, len(ps)-1)
			}
			for i, pos := range ps[1:] {
				lo, hi := uint64(0), m
				if f.parts {
					lo, hi = f.part(i)
				}
				if pos < lo || pos >= hi {
					rt.Fatalf("%s: position %d of function %d, want [%d, %d)", name, pos, i, lo, hi)
				}
			}
		}
	})
}

// signature returns an element like a mail signature: 20 random-looking bytes. Consecutive texts
// would be arithmetic progressions mod p, which the universal family maps more evenly than chance.
func signature(i int) []byte {
	sum := sha1.Sum(item(i))
	return sum[:]
}

// TestBloomErrorRate compares the measured rate of every family with Eq. 1.
func TestBloomErrorRate(t *testing.T) {
	if testing.Short() {
		t.Skip("measures rates, for minutes under the race detector, in one goroutine")
	}
	const n, m, asked = 5000, 50_000, 200_000
	for name, f := range families(t, m) {
		b := must(NewBloom(f))(t)
		for i := range n {
			b.Add(signature(i))
		}
		hits := 0
		for i := n; i < n+asked; i++ {
			if b.Contains(signature(i)) {
				hits++
			}
		}
		got, want := float64(hits)/asked, FalsePositiveRate(m, n, f.k)
		if math.Abs(got-want) > 0.08*want+4*math.Sqrt(want/asked) {
			t.Errorf("%s: %g, Eq. 1 says %g", name, got, want)
		}
		if math.Abs(b.ErrorRate()-want) > 0.08*want {
			t.Errorf("%s: ErrorRate %g, Eq. 1 says %g", name, b.ErrorRate(), want)
		}
		if e := float64(b.Estimate()); !f.parts && math.Abs(e-n) > 0.03*n {
			t.Errorf("%s: Estimate %g, want about %d", name, e, n)
		}
	}
}

func TestBloomOracle(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := rapid.Uint64Range(10, 3000).Draw(rt, "m")
		for name, f := range families(t, m) {
			a, b, all := must(NewBloom(f))(t), must(NewBloom(f))(t), must(NewBloom(f))(t)
			set := map[string]bool{}
			for range rapid.IntRange(0, 40).Draw(rt, "adds") {
				x := rapid.String().Draw(rt, "x")
				set[x] = true
				if rapid.Bool().Draw(rt, "which") {
					a.Add([]byte(x))
				} else {
					b.Add([]byte(x))
				}
				before := all.Contains([]byte(x))
				if all.Add([]byte(x)) == before {
					rt.Fatalf("%s: Add reports %v for an element contained: %v", name, !before, before)
				}
			}
			for range 2 {
				if err := a.Merge(b); err != nil {
					rt.Fatal(err)
				}
			}
			if !slices.Equal(a.bits, all.bits) || a.set != all.set {
				rt.Fatalf("%s: merged filter differs from one that saw all", name)
			}
			for x := range set {
				if !a.Contains([]byte(x)) {
					rt.Fatalf("%s: %q is lost", name, x)
				}
			}
		}
	})
}

func TestBloomMergeRefuses(t *testing.T) {
	f := families(t, 1000)
	b := must(NewBloom(f["universal"]))(t)
	b.Add([]byte("x"))
	before := b.set
	for name, g := range f {
		err := b.Merge(must(NewBloom(g))(t))
		if (name == "universal") != (err == nil) || err != nil && !errors.Is(err, filter.ErrGeometry) {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := must(Universal(1000, 6, rand.New(rand.NewPCG(9, 9))))(t)
	if err := b.Merge(must(NewBloom(other))(t)); !errors.Is(err, filter.ErrGeometry) {
		t.Errorf("other universal functions: %v", err)
	}
	if b.set != before {
		t.Error("a refused merge changed the filter")
	}
}

func encodeBloom(t testing.TB, f Family) []byte {
	b := must(NewStudyBloom(f))(t)
	for i := range 20 {
		b.Add(item(i))
	}
	var buf bytes.Buffer
	if err := b.Encode(&buf); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestBloomCodec(t *testing.T) {
	for name, f := range families(t, 500) {
		good := encodeBloom(t, f)
		b, err := DecodeBloom(bytes.NewReader(good), 4096, filter.Secret{3})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := b.Family(); !got.Equal(&f) || !b.Contains(item(7)) {
			t.Errorf("%s: changed on the way", name)
		}
		for n := range good {
			if _, err := DecodeBloom(bytes.NewReader(good[:n]), 4096, filter.Secret{3}); !errors.Is(err, filter.ErrCorrupt) {
				t.Fatalf("%s cut to %d bytes: %v", name, n, err)
			}
		}
		for n := range len(good) * 8 {
			bad := bytes.Clone(good)
			bad[n/8] ^= 1 << (n % 8)
			if b, err := DecodeBloom(bytes.NewReader(bad), 4096, filter.Secret{3}); err == nil || b != nil {
				t.Fatalf("%s: bit %d flipped goes unnoticed", name, n)
			}
		}
		if _, err := DecodeBloom(bytes.NewReader(good), 60, filter.Secret{3}); !errors.Is(err, filter.ErrTooLarge) {
			t.Errorf("%s beyond the limit: %v", name, err)
		}
		if _, err := DecodeRefined(bytes.NewReader(good), 4096, filter.Secret{3}); !errors.Is(err, filter.ErrCorrupt) {
			t.Errorf("%s read as another type: %v", name, err)
		}
	}
}

type failingWriter struct{ left int }

func (w *failingWriter) Write(b []byte) (int, error) {
	if w.left -= len(b); w.left < 0 {
		return 0, errors.New("disk full")
	}
	return len(b), nil
}

func TestEncodeReportsWriteErrors(t *testing.T) {
	b := must(NewBloom(must(Keyed(filter.Secret{}, 1<<20, 3))(t)))(t)
	for _, room := range []int{0, 10, 1000, 1<<17 + 3} {
		if err := b.Encode(&failingWriter{room}); err == nil {
			t.Errorf("no error with room for %d bytes", room)
		}
	}
}

func FuzzBloom(f *testing.F) {
	for _, g := range families(f, 100) {
		f.Add(encodeBloom(f, g))
	}
	f.Add([]byte("BHPF\x01\x01\x04\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := DecodeBloom(bytes.NewReader(b), 1<<20, filter.Secret{3})
		if err != nil {
			return
		}
		g.Add([]byte("x"))
		var buf bytes.Buffer
		if err := g.Encode(&buf); err != nil {
			t.Fatal(err)
		}
		h, err := DecodeBloom(&buf, 1<<20, filter.Secret{3})
		if err != nil || !h.Contains([]byte("x")) {
			t.Errorf("does not survive a round trip: %v", err)
		}
	})
}

func BenchmarkBloom(b *testing.B) {
	f := must(NewBloom(must(Keyed(filter.Secret{}, 16*100_000, 8))(b)))(b)
	for i := range 100_000 {
		f.Add(item(i))
	}
	for name, x := range map[string][]byte{"hit": item(5), "miss": []byte("nobody")} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f.Contains(x)
			}
		})
	}
}
