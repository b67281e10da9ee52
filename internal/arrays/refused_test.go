package arrays

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"

	"github.com/bulkhead-mail/bulkhead/filter/shape"
)

// TestFileHeader checks that an intact but invalid header is refused for the right reason.
func TestFileHeader(t *testing.T) {
	c := filled(t, Geometry{Kind: Cells, Lines: 3, K: 5, KeyID: 3}, 10, 5)
	var file bytes.Buffer
	if err := c.Encode(&file); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change func(h []byte)
		want   error
	}{
		"nothing":         {func([]byte) {}, nil},
		"magic":           {func(h []byte) { h[0] ^= 1 }, ErrCorrupt},
		"version":         {func(h []byte) { h[4]++ }, ErrCorrupt},
		"kind":            {func(h []byte) { h[5], h[6] = byte(Bitmap), 8 }, ErrGeometry},
		"no kind":         {func(h []byte) { h[5] = 9 }, ErrCorrupt},
		"no lines":        {func(h []byte) { clear(h[8:16]) }, ErrCorrupt},
		"more lines":      {func(h []byte) { h[8]++ }, ErrGeometry},
		"another key":     {func(h []byte) { h[16]++ }, ErrGeometry},
		"generation":      {func(h []byte) { h[24]++ }, ErrCorrupt},
		"a reserved byte": {func(h []byte) { h[7] = 1 }, ErrCorrupt},
		"another one":     {func(h []byte) { h[35] = 1 }, ErrCorrupt},
	} {
		b := bytes.Clone(file.Bytes())
		tt.change(b[:fileHeader])
		binary.LittleEndian.PutUint32(b[36:], crc32.Checksum(b[:36], castagnoli()))
		if got, err := DecodeCounting(bytes.NewReader(b), 1<<20); !errors.Is(err, tt.want) ||
			(tt.want == nil) != (got != nil) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, tt.want)
		}
	}
	if _, err := DecodeCounting(bytes.NewReader(file.Bytes()), -1); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a negative limit: %v, want %v", err, ErrTooLarge)
	}
}

// TestForeignImages checks that an image can only replace a page of a matching array, and that
// refused images change nothing.
func TestForeignImages(t *testing.T) {
	g := Geometry{Kind: Cells, Lines: 2 * PageLines, K: 6}
	from, c := filled(t, g, 100, 5), mustCounting(t, g)
	bits := Geometry{Kind: Bitmap, Lines: 2 * PageLines, K: 8}
	fromBits, b := filledBits(t, bits, 100), mustBits(t, bits)
	c.SetGeneration(77)
	b.SetGeneration(77)
	for name, tt := range map[string]struct {
		change func(*Image)
		want   error
	}{
		"key":        {func(m *Image) { m.Geometry.KeyID++ }, ErrGeometry},
		"size":       {func(m *Image) { m.Geometry.Lines *= 2 }, ErrGeometry},
		"generation": {func(m *Image) { m.Generation++ }, ErrVersion},
		"page":       {func(m *Image) { m.Page = 2 }, ErrCorrupt},
		"no page":    {func(m *Image) { m.Page = -1 }, ErrCorrupt},
		"half":       {func(m *Image) { m.lines = m.lines[1:] }, ErrCorrupt},
	} {
		m, n := from.Image(1), fromBits.Image(1)
		tt.change(m)
		tt.change(n)
		for _, err := range []error{c.Load(m), c.LoadAt(3, m), b.Load(n), b.LoadAt(3, n)} {
			if !errors.Is(err, tt.want) {
				t.Errorf("%s: %v, want %v", name, err, tt.want)
			}
		}
	}
	if c.Keys() != 0 || b.Keys() != 0 || c.Version() != 0 || b.Version() != 0 {
		t.Error("what was refused has changed the array")
	}
	if err := errors.Join(c.Load(from.Image(1)), b.Load(fromBits.Image(1))); err != nil || c.Keys() == 0 || b.Keys() == 0 {
		t.Errorf("%v, %d and %d keys", err, c.Keys(), b.Keys())
	}
}

// TestSmallArrays checks that arrays of one page, sparse or not, work like larger ones.
func TestSmallArrays(t *testing.T) {
	for _, lines := range []uint64{1, 7, PageLines} {
		c, err := NewSparseCounting(Geometry{Kind: Cells, Lines: lines, K: 6})
		if err != nil {
			t.Fatal(err)
		}
		b, err := NewSparseBits(Geometry{Kind: Bitmap, Lines: lines, K: 16})
		if err != nil {
			t.Fatal(err)
		}
		c.SetGeneration(5)
		if c.Generation() != 5 || c.Pages() != 1 {
			t.Errorf("%d lines: generation %d, %d pages", lines, c.Generation(), c.Pages())
		}
		for i := range uint64(10) {
			k := Key{Hi: shape.Mix(i), Lo: shape.Mix(^i)}
			if before, was := c.Add(k, 3), b.Set(k); before != 0 && lines > 7 || was && lines > 7 {
				t.Errorf("%d lines: %d, %v before the first add", lines, before, was)
			}
			if c.Count(k) < 3 || !b.Has(k) || !b.Set(k) {
				t.Errorf("%d lines: counted %d, %v", lines, c.Count(k), b.Has(k))
			}
		}
	}
}

// TestWrongGeometry checks that no array is made of a geometry that is not valid or of another kind.
func TestWrongGeometry(t *testing.T) {
	for _, g := range []Geometry{
		{}, {Kind: Cells, Lines: 1, K: 9}, {Kind: Bitmap, Lines: 1, K: 9}, {Kind: 3, Lines: 1, K: 8},
	} {
		if _, err := NewCounting(g); !errors.Is(err, ErrGeometry) {
			t.Errorf("NewCounting(%v): %v, want %v", g, err, ErrGeometry)
		}
		if _, err := NewBits(g); !errors.Is(err, ErrGeometry) {
			t.Errorf("NewBits(%v): %v, want %v", g, err, ErrGeometry)
		}
	}
	if _, err := NewCounting(Geometry{Kind: Bitmap, Lines: 1, K: 8}); !errors.Is(err, ErrGeometry) {
		t.Errorf("a bit geometry as counting array: %v", err)
	}
	if _, err := NewBits(Geometry{Kind: Cells, Lines: 1, K: 8}); !errors.Is(err, ErrGeometry) {
		t.Errorf("a cell geometry as bit array: %v", err)
	}
}
