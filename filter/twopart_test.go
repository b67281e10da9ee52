package filter

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func testTwoPart(t testing.TB, n uint64, p float64, e Eigenvalue) *TwoPart {
	t.Helper()
	shape, err := SizeTwoPart(n, p, e)
	if err != nil {
		t.Fatal(err)
	}
	f, err := NewTwoPart(shape, Secret{7})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func allEigenvalues() []Eigenvalue {
	return []Eigenvalue{EigenHash, EigenChars, EigenDomain, EigenLength, EigenMidSquare, EigenDivision}
}

func TestEigenvalueAppend(t *testing.T) {
	tests := []struct {
		e       Eigenvalue
		x, want string
	}{
		{EigenChars, "x12.y45.z78@mail.example.com", "xyz"},
		{EigenChars, "http://www.abc.def.ghi.example", "adg"},
		{EigenChars, "ab@example.org", "a"},
		{EigenChars, "", ""},
		{EigenChars, "@example.org", ""},
		{EigenChars, "a-b_c+d.e12345@example.org", "ad2"},
		{EigenChars, "://www.abcd", "ad"},
		{EigenChars, "example.org", "eme"},
		{EigenDomain, "a@b@example.org", "example.org"},
		{EigenDomain, "https://user@host.example:8443/path?q#f", "host.example"},
		{EigenDomain, "https://[2001:db8::1]/x", "[2001:db8::1]"},
		{EigenDomain, "https://[2001:db8::1]:8080", "[2001:db8::1]"},
		{EigenDomain, "https://a:b@c@host.example?q", "host.example"},
		{EigenDomain, "https://host.example#f", "host.example"},
		{EigenDomain, "://:1", ""},
		{EigenDomain, "://h", "h"},
		{EigenDomain, "example.net", "example.net"},
		{EigenDomain, "@example.net", "example.net"},
		{EigenLength, "a@example.org", "\x0b\x00\x00\x00"},
		// 'A' = 65; 65 x 65 = 4225 = 0x1081, whose bits 16 to 47 are 0.
		{EigenMidSquare, "A", "\x00\x00\x00\x00"},
		// "AA" = 0x4141 = 16705; squared 279057025 = 0x10A21281, less its last 16 bits.
		{EigenMidSquare, "AA", "\xa2\x10\x00\x00"},
		// 0x010000 = 65536 = 65521 + 15.
		{EigenDivision, "\x01\x00\x00", "\x0f\x00\x00\x00"},
	}
	for _, tt := range tests {
		if got := string(tt.e.Append(nil, []byte(tt.x))); got != tt.want {
			t.Errorf("%v of %q = %q, want %q", tt.e, tt.x, got, tt.want)
		}
	}
	for _, e := range allEigenvalues() {
		if got, err := ParseEigenvalue(e.String()); got != e || err != nil {
			t.Errorf("ParseEigenvalue(%v) = %v, %v", e, got, err)
		}
	}
	if _, err := ParseEigenvalue("random"); err == nil {
		t.Error("an unknown eigenvalue was taken")
	}
}

func TestSizeTwoPart(t *testing.T) {
	for _, p := range []float64{1e-2, 1e-3, 1e-6, 1e-9} {
		s, err := SizeTwoPart(10000, p, EigenHash)
		if err != nil {
			t.Fatal(err)
		}
		classic := 10000 * math.Log(1/p) / (math.Ln2 * math.Ln2)
		if got := float64(s.M1 + s.M2); got > 1.03*classic || got < 0.99*classic {
			t.Errorf("rate %g: %g bits, want about the classic filter's %g", p, got, classic)
		}
		if s.D >= s.K {
			t.Errorf("rate %g: d = %d, k = %d, want d < k", p, s.D, s.K)
		}
	}
	for _, tt := range []struct {
		n uint64
		p float64
	}{{0, 0.1}, {1, 0}, {1, 1}, {1, -1}, {1, math.NaN()}, {math.MaxUint64, 1e-9}} {
		if s, err := SizeTwoPart(tt.n, tt.p, EigenHash); err == nil {
			t.Errorf("size for %d at %g = %+v, want an error", tt.n, tt.p, s)
		}
	}
	if _, err := SizeTwoPart(1, 0.1, 0); err == nil {
		t.Error("the zero eigenvalue was taken")
	}
}

// TestTwoPartErrorRate checks that the wanted rate is kept, for elements that share eigenvalues
// with members and for the independent hash.
func TestTwoPartErrorRate(t *testing.T) {
	const n, asked, p = 20_000, 200_000, 2e-3
	for _, e := range allEigenvalues() {
		f := testTwoPart(t, n, p, e)
		for i := range n {
			f.Add(fmt.Appendf(nil, "abc%d.def@host%d.example", i, i%50))
		}
		for i := range n {
			if x := fmt.Appendf(nil, "abc%d.def@host%d.example", i, i%50); !f.Contains(x) {
				t.Fatalf("%v: %s was added and is not contained", e, x)
			}
		}
		hits := 0
		for i := n; i < n+asked; i++ {
			if f.Contains(fmt.Appendf(nil, "abc%d.def@host%d.example", i, i%50)) {
				hits++
			}
		}
		got := float64(hits) / asked
		slack := 4 * math.Sqrt(p/asked)
		if got > p+slack {
			t.Errorf("%v: rate %g, wanted %g", e, got, p)
		}
		// The published figure must not be too low: it is exact for the independent hash, and an
		// upper bound otherwise.
		if want := f.ErrorRate(); got > want*1.1+slack || e == EigenHash && got < want*0.9-slack {
			t.Errorf("%v: rate %g, ErrorRate says %g", e, got, want)
		}
		if math.Abs(float64(f.Count())-n) > 0.005*n {
			t.Errorf("%v: Count = %d, want about %d", e, f.Count(), n)
		}
	}
}

func TestTwoPartOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := rapid.SampledFrom(allEigenvalues()).Draw(t, "eigenvalue")
		shape := TwoPartShape{
			M1: rapid.Uint64Range(1, 3000).Draw(t, "m1"), M2: rapid.Uint64Range(1, 1000).Draw(t, "m2"),
			K: rapid.IntRange(1, 12).Draw(t, "k"), D: rapid.IntRange(1, 12).Draw(t, "d"), Eigen: e,
		}
		var fs [3]*TwoPart
		for i := range fs {
			fs[i], _ = NewTwoPart(shape, Secret{9})
		}
		set := map[string]bool{}
		for range rapid.IntRange(0, 60).Draw(t, "adds") {
			x := rapid.String().Draw(t, "x")
			set[x] = true
			fs[rapid.IntRange(0, 1).Draw(t, "which")].Add([]byte(x))
			fs[2].Add([]byte(x))
		}
		ab, ba := cloneTwoPart(t, fs[0]), cloneTwoPart(t, fs[1])
		if err := ab.Merge(fs[1]); err != nil {
			t.Fatal(err)
		}
		if err := ba.Merge(fs[0]); err != nil {
			t.Fatal(err)
		}
		if err := ba.Merge(fs[0]); err != nil {
			t.Fatal(err)
		}
		for name, got := range map[string]*TwoPart{"a+b": ab, "b+a+a": ba} {
			if !equalWords(got.one, fs[2].one) || !equalWords(got.two, fs[2].two) || got.set1 != fs[2].set1 ||
				got.set2 != fs[2].set2 {
				t.Fatalf("%s differs from one filter that saw all", name)
			}
			for x := range set {
				if !got.Contains([]byte(x)) {
					t.Fatalf("%s lost %q", name, x)
				}
			}
		}
	})
}

func equalWords(a, b []uint64) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

// cloneTwoPart copies a filter through the codec.
func cloneTwoPart(t interface{ Fatal(...any) }, f *TwoPart) *TwoPart {
	var buf bytes.Buffer
	if err := f.Encode(&buf); err != nil {
		t.Fatal(err)
	}
	if !IsTwoPart(buf.Bytes()) || IsFuse(buf.Bytes()) {
		t.Fatal("the file is not known as what it is")
	}
	size := buf.Len()
	buf.WriteString("next")
	g, err := DecodeTwoPart(&buf, int64(size), f.secret)
	if err != nil {
		t.Fatal(err)
	}
	if buf.String() != "next" {
		t.Fatal("decoding read beyond the end")
	}
	return g
}

// TestTwoPartEmpty checks that an empty filter equals its source except for the elements, merges
// with it, and is published if the source is.
func TestTwoPartEmpty(t *testing.T) {
	f := testTwoPart(t, 100, 0.01, EigenHash)
	f.Add(item(1))
	for _, public := range []bool{false, true} {
		if public {
			f.Publish()
		}
		e, err := f.Empty()
		if err != nil || e.Shape() != f.Shape() || e.Count() != 0 || e.Contains(item(1)) {
			t.Fatalf("%+v, %v", e, err)
		}
		var buf bytes.Buffer
		if err := e.Encode(&buf); err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeTwoPart(&buf, 1<<20); (err == nil) != public {
			t.Errorf("read without the key: %v, public: %v", err, public)
		}
		if err := e.Merge(f); err != nil || !e.Contains(item(1)) || e.Contains(item(2)) {
			t.Errorf("merged into an empty one: %v", err)
		}
	}
}

func TestTwoPartMergeRefuses(t *testing.T) {
	f := testTwoPart(t, 100, 0.01, EigenHash)
	g := testTwoPart(t, 101, 0.01, EigenHash)
	if err := f.Merge(g); !errors.Is(err, ErrGeometry) {
		t.Errorf("other size: %v, want ErrGeometry", err)
	}
	h, err := NewTwoPart(f.shape, Secret{8})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Merge(h); !errors.Is(err, ErrGeometry) {
		t.Errorf("other key: %v, want ErrGeometry", err)
	}
}

func TestTwoPartCodec(t *testing.T) {
	f := testTwoPart(t, 300, 1e-3, EigenDomain)
	for i := range 300 {
		f.Add(item(i))
	}
	if err := f.SetMeta([]byte("made up, 2024-02-29")); err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if err := f.Encode(&buf); err != nil {
		t.Fatal(err)
	}
	good := buf.Bytes()
	g, err := DecodeTwoPart(bytes.NewReader(good), 1<<20, Secret{1}, Secret{7})
	if err != nil {
		t.Fatal(err)
	}
	if g.shape != f.shape || g.count != f.count || string(g.Meta()) != string(f.Meta()) ||
		g.ErrorRate() != f.ErrorRate() ||
		!equalWords(g.one, f.one) || !equalWords(g.two, f.two) {
		t.Error("the filter changed on the way")
	}
	if _, err := DecodeTwoPart(bytes.NewReader(good), 1<<20, Secret{1}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("without the key: %v, want ErrCorrupt", err)
	}
	if _, err := DecodeTwoPart(bytes.NewReader(good), int64(f.shape.Bytes())-1, Secret{7}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("beyond the limit: %v, want ErrTooLarge", err)
	}
	for n := range good {
		if _, err := DecodeTwoPart(bytes.NewReader(good[:n]), 1<<20, Secret{7}); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut to %d bytes: %v, want ErrCorrupt", n, err)
		}
	}
	for n := range len(good) * 8 {
		bad := bytes.Clone(good)
		bad[n/8] ^= 1 << (n % 8)
		if g, err := DecodeTwoPart(bytes.NewReader(bad), 1<<20, Secret{7}); !errors.Is(err, ErrCorrupt) &&
			!errors.Is(err, ErrTooLarge) || g != nil {
			t.Fatalf("bit %d flipped: %v, want ErrCorrupt", n, err)
		}
	}
	for _, change := range []func(*TwoPart){
		func(g *TwoPart) { g.one[len(g.one)-1] |= 1 << 63 },
		func(g *TwoPart) { g.two[len(g.two)-1] |= 1 << 63 },
		func(g *TwoPart) { g.count = 0 },
		func(g *TwoPart) { clear(g.one) },
	} {
		bad := cloneTwoPart(t, f)
		if bad.shape.M1%64 == 0 || bad.shape.M2%64 == 0 {
			t.Fatalf("%+v: sections without an end", bad.shape)
		}
		change(bad)
		var buf bytes.Buffer
		if err := bad.Encode(&buf); err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeTwoPart(&buf, 1<<20, Secret{7}); !errors.Is(err, ErrCorrupt) {
			t.Errorf("a section that no elements have made: %v, want ErrCorrupt", err)
		}
	}
	f.Publish()
	buf.Reset()
	if err := f.Encode(&buf); err != nil {
		t.Fatal(err)
	}
	if g, err := DecodeTwoPart(&buf, 1<<20); err != nil || !g.Contains(item(5)) {
		t.Errorf("a filter with its key inside: %v", err)
	}
}

// TestTwoPartHostileSizes checks that sizes in the header alone cost nothing.
func TestTwoPartHostileSizes(t *testing.T) {
	f, err := NewTwoPart(TwoPartShape{M1: 64, M2: 64, K: 2, D: 1, Eigen: EigenHash}, Secret{})
	if err != nil {
		t.Fatal(err)
	}
	f.Publish()
	var buf bytes.Buffer
	if err := f.Encode(&buf); err != nil {
		t.Fatal(err)
	}
	b := buf.Bytes()
	b[9+3] = 1 // M1 becomes 2^24+64 bits, 2 MiB, of which 16 bytes follow
	least := testing.AllocsPerRun(5, func() {
		if _, err := DecodeTwoPart(bytes.NewReader(b), 1<<40); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%v, want ErrCorrupt", err)
		}
	})
	if r := testing.Benchmark(func(b2 *testing.B) {
		for b2.Loop() {
			DecodeTwoPart(bytes.NewReader(b), 1<<40)
		}
	}); r.AllocedBytesPerOp() > 200<<10 {
		t.Errorf("%d bytes allocated for %d bytes of input (%g allocations)", r.AllocedBytesPerOp(), len(b), least)
	}
}

func TestTwoPartAllocations(t *testing.T) {
	for _, e := range allEigenvalues() {
		f := testTwoPart(t, 100, 1e-3, e)
		x := []byte("abc.def.ghi@mail.example.com")
		f.Add(x)
		if n := testing.AllocsPerRun(100, func() { f.Contains(x) }); n != 0 {
			t.Errorf("%v: Contains allocates %g times", e, n)
		}
	}
}

func FuzzTwoPart(f *testing.F) {
	for _, e := range []Eigenvalue{EigenHash, EigenChars} {
		g := testTwoPart(f, 20, 0.1, e)
		g.Add([]byte("a@example.org"))
		g.Publish()
		g.SetMeta([]byte("meta"))
		var buf bytes.Buffer
		if err := g.Encode(&buf); err != nil {
			f.Fatal(err)
		}
		f.Add(buf.Bytes())
		f.Add(buf.Bytes()[:40])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := DecodeTwoPart(bytes.NewReader(b), 1<<20)
		if err != nil {
			return
		}
		g.Add([]byte("b@example.org"))
		if h := cloneTwoPart(t, g); !h.Contains([]byte("b@example.org")) {
			t.Error("an added element is lost")
		}
	})
}

func FuzzEigenvalue(f *testing.F) {
	f.Add("abc.def@example.org")
	f.Add("http://u:p@[::1]:80/x?y#z@q")
	f.Add("://@:")
	f.Fuzz(func(t *testing.T, x string) {
		for _, e := range allEigenvalues() {
			a, b := e.Append(nil, []byte(x)), e.Append([]byte("p"), []byte(x))
			if string(b) != "p"+string(a) {
				t.Errorf("%v of %q differs between calls: %q, %q", e, x, a, b)
			}
		}
	})
}

func BenchmarkTwoPart(b *testing.B) {
	f := testTwoPart(b, 100_000, 1e-4, EigenHash)
	for i := range 100_000 {
		f.Add(item(i))
	}
	hit, miss := item(77), []byte("nobody@example.net")
	b.Run("hit", func(b *testing.B) {
		for b.Loop() {
			f.Contains(hit)
		}
	})
	b.Run("miss", func(b *testing.B) {
		for b.Loop() {
			f.Contains(miss)
		}
	})
}

// BenchmarkTwoPartLarge queries a list larger than the caches for present and absent elements, in
// turn.
func BenchmarkTwoPartLarge(b *testing.B) {
	const n = 5_000_000
	shape, err := SizeTwoPart(n, 1e-6, EigenHash)
	if err != nil {
		b.Fatal(err)
	}
	f, err := NewTwoPart(shape, Secret{7})
	if err != nil {
		b.Fatal(err)
	}
	name := func(i uint64) string { return fmt.Sprintf("%x.example.com", mix(i)) }
	var asked [1 << 16]string
	for i := range asked {
		asked[i] = name(uint64(i)*n/uint64(len(asked)) + uint64(i%2)*n)
	}
	for i := range uint64(n) {
		f.Add([]byte(name(i)))
	}
	b.ReportAllocs()
	found := 0
	for i := range b.N {
		if f.Contains([]byte(asked[i%len(asked)])) {
			found++
		}
	}
	if found < b.N/2 {
		b.Fatalf("%d of %d found, want every second one", found, b.N)
	}
}
