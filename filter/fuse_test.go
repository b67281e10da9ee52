package filter

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/FastFilter/xorfilter"
)

func testFuse(t testing.TB, n int, rate float64) *Fuse {
	t.Helper()
	b, err := NewFuseBuilder(rate, Secret{4, 5})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		for range 1 + i%2 { // some twice
			if err := b.Add(item(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	f, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestFuse checks that every element is found, for any number of them and any width, and other
// strings as rarely as stated, before and after a file.
func TestFuse(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 10, 100, 1000, 30_000} {
		for _, rate := range []float64{0.5, 0.01, 1e-3, 1e-6, 0x1p-32} {
			f := testFuse(t, n, rate)
			if f.Count() != uint64(n) || f.ErrorRate() > rate || f.ErrorRate() <= rate/2 {
				t.Fatalf("%d elements: count %d, rate %g of %g", n, f.Count(), f.ErrorRate(), rate)
			}
			if err := f.SetMeta([]byte("meta")); err != nil {
				t.Fatal(err)
			}
			f.Publish()
			var buf bytes.Buffer
			if err := f.Encode(&buf); err != nil {
				t.Fatal(err)
			}
			if !IsFuse(buf.Bytes()) || IsFuse(buf.Bytes()[:5]) {
				t.Error("the head of the file is none, or half of it is one")
			}
			read, err := DecodeFuse(&buf, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			found, asked := 0, 2000
			for i := range n {
				if !f.Contains(item(i)) || !read.ContainsString(string(item(i))) {
					t.Fatalf("%d elements at %g: element %d is not found", n, rate, i)
				}
			}
			for i := range asked {
				was := f.Contains(item(1<<20 + i))
				if was {
					found++
				}
				if read.Contains(item(1<<20+i)) != was {
					t.Fatal("another answer from the file")
				}
			}
			if want := f.ErrorRate() * float64(asked); math.Abs(float64(found)-want) > 5*math.Sqrt(want)+2 {
				t.Errorf("%d elements at %g: %d of %d others are found, want %.1f", n, rate, found, asked, want)
			}
			if string(read.Meta()) != "meta" || read.Count() != f.Count() || read.Bytes() != f.Bytes() {
				t.Errorf("%d elements: another filter comes back", n)
			}
			if perElement := 8 * float64(f.Bytes()) / float64(n); n == 30_000 && perElement > 1.25*float64(f.Width()) {
				t.Errorf("%.1f bits an element at a width of %d", perElement, f.Width())
			}
		}
	}
}

// TestFuseOracle checks that the answers equal those of xorfilter, at the widths that it supports.
func TestFuseOracle(t *testing.T) {
	f := testFuse(t, 5000, 0x1p-32)
	var keys []uint64
	for i := range 5000 {
		keys = append(keys, f.secret.Key(item(i)).Hi)
	}
	wide, err := xorfilter.NewBinaryFuse[uint32](keys)
	if err != nil {
		t.Fatal(err)
	}
	narrow := testFuse(t, 5000, 0x1p-8)
	small := &xorfilter.BinaryFuse[uint8]{Seed: narrow.seed, SegmentLength: narrow.segment,
		SegmentLengthMask: narrow.segment - 1,
		SegmentCount:      narrow.segments, SegmentCountLength: narrow.segments * narrow.segment}
	for i := range narrow.places() {
		small.Fingerprints = append(small.Fingerprints, uint8(narrow.load(uint32(i))))
	}
	for i := range 50_000 {
		key := f.secret.Key(item(i)).Hi
		if got, want := f.Contains(item(i)), wide.Contains(key); i < 5000 && got != want {
			t.Fatalf("32 bits, element %d: %v, want %v", i, got, want)
		}
		if got, want := narrow.Contains(item(i)), small.Contains(key); got != want {
			t.Fatalf("8 bits, element %d: %v, want %v", i, got, want)
		}
	}
}

// TestFuseRefused checks that invalid files are refused before memory is allocated for them.
func TestFuseRefused(t *testing.T) {
	for _, rate := range []float64{0, -1, 0.51, 1, 1e-10, math.NaN()} {
		if _, err := NewFuseBuilder(rate, Secret{}); err == nil {
			t.Errorf("rate %g is taken", rate)
		}
	}
	f := testFuse(t, 100, 1e-3)
	f.Publish()
	var buf bytes.Buffer
	if err := f.Encode(&buf); err != nil {
		t.Fatal(err)
	}
	good := buf.Bytes()
	for i := range good {
		if _, err := DecodeFuse(bytes.NewReader(good[:i]), 1<<20); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut to %d bytes: %v", i, err)
		}
		bad := bytes.Clone(good)
		bad[i] ^= 0x41
		if _, err := DecodeFuse(bytes.NewReader(bad), 1<<20); !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrTooLarge) {
			t.Fatalf("byte %d changed: %v", i, err)
		}
	}
	if _, err := DecodeFuse(bytes.NewReader(good), 100); !errors.Is(err, ErrTooLarge) {
		t.Errorf("in 100 bytes: %v", err)
	}
	two := testTwoPart(t, 10, 0.1, EigenHash)
	buf.Reset()
	if err := two.Encode(&buf); err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeFuse(bytes.NewReader(buf.Bytes()), 1<<20); !errors.Is(err, ErrCorrupt) || IsFuse(buf.Bytes()) {
		t.Errorf("a two-part filter: %v", err)
	}
	if err := f.SetMeta(make([]byte, MaxMeta+1)); err == nil {
		t.Error("too much meta data is taken")
	}
}

func FuzzFuse(f *testing.F) {
	for _, n := range []int{0, 1, 50} {
		fuse := testFuse(f, n, 0.01)
		fuse.Publish()
		var buf bytes.Buffer
		if err := fuse.Encode(&buf); err != nil {
			f.Fatal(err)
		}
		f.Add(buf.Bytes())
		f.Add(buf.Bytes()[:30])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := DecodeFuse(bytes.NewReader(b), 1<<16)
		if err != nil {
			return
		}
		for i := range 20 {
			got.Contains(item(i))
		}
		var again bytes.Buffer
		if err := got.Encode(&again); err != nil || !bytes.Equal(again.Bytes(), b[:again.Len()]) {
			t.Errorf("another file comes back: %v", err)
		}
	})
}
