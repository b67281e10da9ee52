package filter

import (
	"encoding/hex"
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

// TestKeyDoesNotAllocate checks that keys of short input take no memory.
func TestKeyDoesNotAllocate(t *testing.T) {
	secret, sum, sink := Secret{1}, make([]byte, 64), uint64(0)
	for name, f := range map[string]func(){
		"Key":   func() { secret.Key(sum, sum[:8]) },
		"KeyOf": func() { sink += secret.KeyOf("razor/e8", sum).With(2).Lo },
	} {
		if got := testing.AllocsPerRun(100, f); got != 0 {
			t.Errorf("%s allocates %g times", name, got)
		}
	}
}
