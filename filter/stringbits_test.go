package filter

import (
	"bytes"
	"errors"
	"testing"
)

func testStringBits(t testing.TB, n int, rate float64) *StringBits {
	t.Helper()
	s, err := NewStringBits(uint64(max(n, 1)), rate, Secret{6})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		s.Add(item(i))
	}
	return s
}

// TestStringBits checks that added strings are found, that others are found as often as the filter
// states, that a file holds the same set, and that two halves merge into the whole.
func TestStringBits(t *testing.T) {
	const n, rate = 20_000, 0.01
	s := testStringBits(t, n, rate)
	found := 0
	for i := range n {
		if !s.Contains(item(i)) || !s.ContainsString(string(item(i))) || s.Add(item(i)) {
			t.Fatalf("element %d is missing", i)
		}
		if s.Contains(item(i + 1<<24)) {
			found++
		}
	}
	if e := s.ErrorRate(); found < 120 || found > 280 || e < 0.007 || e > 0.013 {
		t.Errorf("%d of %d others are found, the filter says %v", found, n, e)
	}
	if c := s.Count(); c < n*97/100 || c > n*103/100 {
		t.Errorf("%d elements, want %d", c, n)
	}
	if err := s.SetMeta([]byte("meta")); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := s.Encode(&file); err != nil {
		t.Fatal(err)
	}
	if !IsStringBits(file.Bytes()) || IsFuse(file.Bytes()) || IsTwoPart(file.Bytes()) {
		t.Error("the file is not known as what it is")
	}
	again, err := DecodeStringBits(bytes.NewReader(file.Bytes()), 1<<20, Secret{1}, Secret{6})
	if err != nil || string(again.Meta()) != "meta" || again.Count() != s.Count() || again.Bytes() != s.Bytes() {
		t.Fatalf("read back: %v", err)
	}
	half, err := s.Empty()
	if err != nil {
		t.Fatal(err)
	}
	other, err := s.Empty()
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		[]*StringBits{half, other}[i%2].Add(item(i))
		if !again.Contains(item(i)) {
			t.Fatalf("element %d is missing in the file", i)
		}
	}
	if err := half.Merge(other); err != nil || half.Count() != s.Count() || half.ErrorRate() != s.ErrorRate() {
		t.Errorf("merged: %v, %d elements, want %d", err, half.Count(), s.Count())
	}
	foreign, err := NewStringBits(n, rate, Secret{7})
	if err != nil {
		t.Fatal(err)
	}
	for what, o := range map[string]*StringBits{"another key": foreign, "another size": testStringBits(t, 10, rate)} {
		if err := half.Merge(o); !errors.Is(err, ErrGeometry) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := DecodeStringBits(bytes.NewReader(file.Bytes()), 1<<20); err == nil {
		t.Error("a filter whose key nobody knows is read")
	}
	if _, err := DecodeStringBits(bytes.NewReader(file.Bytes()), 1000, Secret{6}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a filter beyond the limit: %v", err)
	}
	if err := s.SetMeta(make([]byte, MaxMeta+1)); err == nil {
		t.Error("too much meta data is taken")
	}
	for _, bad := range []float64{0, 1, -1} {
		if _, err := NewStringBits(n, bad, Secret{}); err == nil {
			t.Errorf("an error rate of %v is taken", bad)
		}
	}
}

func FuzzStringBits(f *testing.F) {
	for _, n := range []int{0, 1, 50} {
		s := testStringBits(f, n, 0.01)
		s.Publish()
		var buf bytes.Buffer
		if err := s.Encode(&buf); err != nil {
			f.Fatal(err)
		}
		f.Add(buf.Bytes())
		f.Add(buf.Bytes()[:30])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := DecodeStringBits(bytes.NewReader(b), 1<<16)
		if err != nil {
			return
		}
		for i := range 20 {
			got.Contains(item(i))
		}
		if err := got.Encode(new(bytes.Buffer)); err != nil {
			t.Error(err)
		}
	})
}
