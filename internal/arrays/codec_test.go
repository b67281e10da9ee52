package arrays

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"slices"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/codec"
)

// fills bring an array to every form of a page: empty, sparse, dense, with light, narrow and wide
// values.
var fills = []struct {
	name string
	keys int
	size uint32 // counts are below it
}{
	{"empty", 0, 1},
	{"one light key", 1, 1},
	{"sparse", 100, 60},
	{"sparse and wide", 60, Many},
	{"dense", 9000, 12},
	{"dense with overflow", 9000, 60},
}

func filled(t testing.TB, g Geometry, keys int, size uint32) *Counting {
	c := mustCounting(t, g)
	c.SetGeneration(77)
	all, rng := seeded(uint64(keys)+uint64(size), keys)
	for i, k := range all {
		c.AddBatch(uint64(i+1), []Key{k}, []uint32{1 + rng.Uint32N(size)}, nil)
	}
	return c
}

func filledBits(t testing.TB, g Geometry, keys int) *Bits {
	b := mustBits(t, g)
	b.SetGeneration(77)
	all, _ := seeded(uint64(keys), keys)
	b.SetBatch(4, all, nil)
	return b
}

var (
	cellsGeo = Geometry{Kind: Cells, Lines: PageLines, K: 6, KeyID: 0xabc}
	bitsGeo  = Geometry{Kind: Bitmap, Lines: PageLines, K: 8, KeyID: 0xabc}
)

func TestPageRoundTrip(t *testing.T) {
	for _, f := range fills {
		c := filled(t, cellsGeo, f.keys, f.size)
		enc := c.AppendPage(nil, 0)
		d := mustCounting(t, cellsGeo)
		d.SetGeneration(77)
		page, err := d.LoadPage(enc)
		if err != nil || page != 0 {
			t.Fatalf("%s: LoadPage = %d, %v", f.name, page, err)
		}
		check(t, d)
		if !slices.Equal(logical(c), logical(d)) || c.PageInfo(0) != d.PageInfo(0) {
			t.Errorf("%s: page differs after a round trip: %+v, was %+v", f.name, d.PageInfo(0), c.PageInfo(0))
		}
		if f.keys == 0 && len(enc) != pageHeader {
			t.Errorf("an empty page takes %d bytes", len(enc))
		}
		compact := appendCompact(c.Image(0))
		m, err := ParseImage(compact, cellsGeo)
		if err != nil || !m.Equal(c.Image(0)) || len(compact) > len(enc) {
			t.Errorf("%s: compact page of %d bytes, plain %d: %v", f.name, len(compact), len(enc), err)
		}
		t.Logf("%s: %d bytes, compact %d, %d escaped cells", f.name, len(enc), len(compact), c.PageInfo(0).Overflow)
		for _, k := range []uint8{8, 16} {
			g := bitsGeo
			g.K = k
			b := filledBits(t, g, f.keys)
			e := mustBits(t, g)
			e.SetGeneration(77)
			if _, err := e.LoadPage(b.AppendPage(nil, 0)); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(b.lines, e.lines) || b.PageInfo(0) != e.PageInfo(0) {
				t.Errorf("%s, bits, k=%d: page differs after a round trip", f.name, k)
			}
		}
	}
}

// TestEqual checks that images are equal only if nothing in them differs.
func TestEqual(t *testing.T) {
	c := filled(t, cellsGeo, 3000, 60)
	m := c.Image(0)
	if !m.Equal(c.Image(0)) {
		t.Error("two images of a page differ")
	}
	for name, change := range map[string]func(*Image){
		"geometry":   func(o *Image) { o.Geometry.KeyID++ },
		"generation": func(o *Image) { o.Generation++ },
		"page":       func(o *Image) { o.Page++ },
		"version":    func(o *Image) { o.Info.Version++ },
		"index":      func(o *Image) { o.Info.Index++ },
		"keys":       func(o *Image) { o.Info.Keys++ },
		"a cell":     func(o *Image) { o.lines[len(o.lines)-1][lineWords-1] ^= 1 << 60 },
		"a value":    func(o *Image) { o.high[len(o.high)-1]++ },
		"values":     func(o *Image) { o.high = o.high[1:] },
	} {
		o := c.Image(0)
		change(o)
		if m.Equal(o) || o.Equal(m) {
			t.Errorf("an image with another %s is equal", name)
		}
	}
}

// TestPageDamage flips bits and cuts at every offset of a sparse page and at many offsets of a
// dense one. No damaged page may be accepted, or change anything.
func TestPageDamage(t *testing.T) {
	for _, f := range fills {
		c := filled(t, cellsGeo, f.keys, f.size)
		enc := c.AppendPage(nil, 0)
		want := logical(c)
		step := 1 + len(enc)/2000
		for at := 0; at < len(enc); at += step {
			bad := slices.Clone(enc)
			bad[at] ^= 1 << (at % 8)
			if _, err := c.LoadPage(bad); err == nil {
				t.Fatalf("%s: bit %d of byte %d flipped: accepted", f.name, at%8, at)
			}
			if _, err := c.LoadPage(enc[:at]); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%s: cut at %d of %d: %v", f.name, at, len(enc), err)
			}
		}
		if _, err := c.LoadPage(append(slices.Clone(enc), 0)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: a byte too many: %v", f.name, err)
		}
		if !slices.Equal(want, logical(c)) {
			t.Errorf("%s: a refused page changed the array", f.name)
		}
	}
}

// reseal gives a modified page or delta a valid checksum, as an attacker would.
func reseal(b []byte) []byte {
	binary.LittleEndian.PutUint32(b[52:], uint32(len(b)-pageHeader))
	binary.LittleEndian.PutUint32(b[60:], pageSum(b))
	return b
}

func TestHostilePages(t *testing.T) {
	le := binary.LittleEndian
	dense := filled(t, cellsGeo, 9000, 60).AppendPage(nil, 0)
	sparse := filled(t, cellsGeo, 100, 60).AppendPage(nil, 0)
	for _, tt := range []struct {
		name string
		base []byte
		edit func(b []byte) []byte
		want error
	}{
		{"other magic", dense, func(b []byte) []byte { b[0]++; return b }, ErrCorrupt},
		{"later codec", dense, func(b []byte) []byte { b[4]++; return b }, ErrCorrupt},
		{"other kind", dense, func(b []byte) []byte { b[5]++; return b }, ErrGeometry},
		{"unknown form", dense, func(b []byte) []byte { b[6] = 9; return b }, ErrCorrupt},
		{"reserved byte", dense, func(b []byte) []byte { b[7] = 9; return b }, ErrCorrupt},
		{"other geometry", dense, func(b []byte) []byte { b[8]++; return b }, ErrGeometry},
		{"other generation", dense, func(b []byte) []byte { b[16]++; return b }, ErrVersion},
		{"page beyond the array", dense, func(b []byte) []byte { le.PutUint32(b[48:], 1); return b }, ErrCorrupt},
		{"page near 2^32", dense, func(b []byte) []byte { le.PutUint32(b[48:], 1<<32-1); return b }, ErrCorrupt},
		{"too many cells claimed", sparse, func(b []byte) []byte { le.PutUint32(b[56:], 1<<32-1); return b }, ErrCorrupt},
		{"all cells claimed", sparse, func(b []byte) []byte { le.PutUint32(b[56:], pageCells); return b }, ErrCorrupt},
		{"one cell more claimed", sparse, func(b []byte) []byte { b[56]++; return b }, ErrCorrupt},
		{"one cell less claimed", sparse, func(b []byte) []byte { b[56]--; return b }, ErrCorrupt},
		{"dense as sparse", dense, func(b []byte) []byte { b[6] = formSparse; return b }, ErrCorrupt},
		{"sparse as dense", sparse, func(b []byte) []byte { b[6] = formDense; return b }, ErrCorrupt},
		{"dense as empty", dense, func(b []byte) []byte { b[6] = formEmpty; return b }, ErrCorrupt},
		{"no payload", dense, func(b []byte) []byte { return b[:pageHeader] }, ErrCorrupt},
		{"escape without a value", dense, func(b []byte) []byte { b[pageHeader+firstLight(b)] |= 0x0f; return b },
			ErrCorrupt},
		{"value without an escape", dense, func(b []byte) []byte { b[pageHeader+firstEscape(b)] &= 0xf0; return b },
			ErrCorrupt},
		{"a value less", dense, func(b []byte) []byte { return b[:len(b)-2] }, ErrCorrupt},
		{"values after the last", dense, func(b []byte) []byte { return append(b, 1, 1, 1) }, ErrCorrupt},
	} {
		c := mustCounting(t, cellsGeo)
		c.SetGeneration(77)
		_, err := c.LoadPage(reseal(tt.edit(slices.Clone(tt.base))))
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: error %v, want %v", tt.name, err, tt.want)
		}
		if c.Stats().Fill != 0 || c.PageInfo(0) != (PageInfo{}) {
			t.Errorf("%s: the refused page changed the array", tt.name)
		}
		var file bytes.Buffer
		if err := c.Encode(&file); err != nil {
			t.Fatal(err)
		}
		whole := append(file.Bytes()[:fileHeader], reseal(tt.edit(slices.Clone(tt.base)))...)
		if d, err := DecodeCounting(bytes.NewReader(whole), 1<<20); err == nil || d != nil {
			t.Errorf("%s: a file with that page is taken", tt.name)
		}
	}
}

// TestImplausibleKeys checks the number of keys that a page states. A number too small for the
// cells or bits that are set, or above the possible maximum, is refused and changes nothing.
func TestImplausibleKeys(t *testing.T) {
	for k := uint8(2); k <= 8; k++ {
		g := Geometry{Kind: Cells, Lines: 8, K: k}
		c := mustCounting(t, g)
		c.Add(Key{Lo: 0x0706050403020100}, 3)
		c.Add(Key{Hi: 1 << 63, Lo: 0x0706050403020100}, 3)
		c.Add(Key{Lo: 0x0f0e0d0c0b0a0901}, 1) // shares one cell with the first
		try := func(keys uint64, ok bool) {
			m := c.Image(0)
			m.Info.Keys = keys
			for _, enc := range [][]byte{m.Append(nil), appendCompact(m), m.append(nil, 0)} {
				d := mustCounting(t, g)
				if _, err := d.LoadPage(enc); (err == nil) != ok || !ok && (!errors.Is(err, ErrCorrupt) ||
					d.Stats().Fill != 0) || ok && d.Keys() != keys {
					t.Errorf("k=%d: %d keys: %v", k, keys, err)
				}
			}
		}
		for keys, ok := range map[uint64]bool{0: false, 1: false, 2: false, 3: true, 4: true, 1 << 48: true,
			1<<48 + 1: false, 1<<64 - 1: false} {
			try(keys, ok)
		}
	}
	for _, k := range []uint8{8, 16} {
		g := Geometry{Kind: Bitmap, Lines: 8, K: k}
		b := mustBits(t, g)
		b.Set(Key{Lo: 0})
		b.Set(Key{Hi: 1 << 63})
		for keys, ok := range map[uint64]bool{0: false, 1: false, 2: true, 3: true, 1 << 48: true, 1<<48 + 1: false} {
			m := b.Image(0)
			m.Info.Keys = keys
			for _, enc := range [][]byte{m.Append(nil), m.append(nil, 0)} {
				d := mustBits(t, g)
				if _, err := d.LoadPage(enc); (err == nil) != ok || ok && d.Keys() != keys {
					t.Errorf("bits, k=%d: %d keys: %v", k, keys, err)
				}
			}
		}
	}
}

// firstLight and firstEscape return the first byte of a dense page whose low
// nibble is not, or is, the escape.
func firstLight(b []byte) int {
	return slices.IndexFunc(b[pageHeader:], func(x byte) bool { return x&15 != 15 })
}

func firstEscape(b []byte) int {
	return slices.IndexFunc(b[pageHeader:], func(x byte) bool { return x&15 == 15 })
}

func TestValueAboveManyIsRefused(t *testing.T) {
	w := codec.BitWriter{}
	w.Rice(0, codec.RiceBits(pageCells, 1))
	w.Gamma(Many + 1)
	if _, err := codec.ParseSlots(w.Bytes(), pageCells, 1, true); !errors.Is(err, ErrCorrupt) {
		t.Errorf("sparse value %d: %v", Many+1, err)
	}
	m := &Image{Geometry: cellsGeo, plane: plane{lines: make([]words, PageLines)}}
	m.lines[0][0] = escape
	w = codec.BitWriter{}
	w.Gamma(Many - maxLight + 1)
	if err := m.parseHigh(w.Bytes(), 1); !errors.Is(err, ErrCorrupt) {
		t.Errorf("dense value %d: %v", Many+1, err)
	}
}

func TestArrayRoundTrip(t *testing.T) {
	for _, lines := range []uint64{1, 3, 1024, 4096} {
		c := filled(t, Geometry{Kind: Cells, Lines: lines, K: 5, KeyID: 3}, 5000, 40)
		var file bytes.Buffer
		if err := c.Encode(&file); err != nil {
			t.Fatal(err)
		}
		whole := slices.Clone(file.Bytes())
		file.WriteString("what follows")
		d, err := DecodeCounting(&file, int64(lines*LineBytes))
		if err != nil {
			t.Fatal(err)
		}
		if rest := file.String(); rest != "what follows" {
			t.Errorf("decoding left %q", rest)
		}
		check(t, d)
		if !slices.Equal(logical(c), logical(d)) || d.Generation() != 77 || d.Keys() != c.Keys() ||
			d.Geometry() != c.Geometry() {
			t.Errorf("%d lines: array differs after a round trip", lines)
		}
		if _, err := DecodeCounting(bytes.NewReader(whole), int64(lines*LineBytes)-1); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%d lines, limit one byte below: %v", lines, err)
		}
		if _, err := DecodeBits(bytes.NewReader(whole), 1<<30); !errors.Is(err, ErrGeometry) {
			t.Errorf("cells decoded as bits: %v", err)
		}
		for at := 0; at < len(whole); at += 1 + len(whole)/300 {
			if _, err := DecodeCounting(bytes.NewReader(whole[:at]), 1<<30); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("cut at %d of %d: %v", at, len(whole), err)
			}
			bad := slices.Clone(whole)
			bad[at] ^= 0x10
			if c, err := DecodeCounting(bytes.NewReader(bad), 1<<30); err == nil || c != nil {
				t.Fatalf("bit flipped in byte %d of %d: accepted", at, len(whole))
			}
		}
	}
	b := filledBits(t, Geometry{Kind: Bitmap, Lines: 2048, K: 16}, 3000)
	var file bytes.Buffer
	if err := b.Encode(&file); err != nil {
		t.Fatal(err)
	}
	e, err := DecodeBits(&file, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(b.lines, e.lines) || e.Keys() != b.Keys() {
		t.Error("bit array differs after a round trip")
	}
}

// TestSwappedPages checks that pages of the right array in the wrong position are refused.
func TestSwappedPages(t *testing.T) {
	c := mustCounting(t, Geometry{Kind: Cells, Lines: 2048, K: 6})
	var file bytes.Buffer
	if err := c.Encode(&file); err != nil {
		t.Fatal(err)
	}
	b := file.Bytes()
	p0, p1 := slices.Clone(b[fileHeader:fileHeader+pageHeader]), b[fileHeader+pageHeader:]
	swapped := slices.Concat(b[:fileHeader], p1, p0)
	if _, err := DecodeCounting(bytes.NewReader(swapped), 1<<20); !errors.Is(err, ErrCorrupt) {
		t.Errorf("pages swapped: %v", err)
	}
}

// TestHostileFileTakesLittleMemory checks that a header that claims a large array, without pages,
// does not make the decoder allocate it.
func TestHostileFileTakesLittleMemory(t *testing.T) {
	h := make([]byte, fileHeader)
	copy(h, fileMagic)
	h[4], h[5], h[6] = pageVersion, byte(Cells), 6
	binary.LittleEndian.PutUint64(h[8:], 1<<24) // 1 GiB
	binary.LittleEndian.PutUint32(h[36:], crc32.Checksum(h[:36], castagnoli()))
	r := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodeCounting(bytes.NewReader(h), 1<<31); !errors.Is(err, ErrCorrupt) {
				b.Fatal(err)
			}
		}
	})
	if r.AllocedBytesPerOp() > 1<<16 {
		t.Errorf("decoding a header alone takes %d bytes", r.AllocedBytesPerOp())
	}
}

type shortWriter struct{ n int }

func (w *shortWriter) Write(b []byte) (int, error) {
	if w.n--; w.n < 0 {
		return 0, io.ErrShortWrite
	}
	return len(b), nil
}

func TestEncodeArrayReportsWriteErrors(t *testing.T) {
	c := mustCounting(t, Geometry{Kind: Cells, Lines: 2048, K: 6})
	for n := range 3 {
		if err := c.Encode(&shortWriter{n}); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("write %d fails: Encode = %v", n, err)
		}
	}
}

// appendCompact returns the encoding of m in the sparse form however full the page is.
func appendCompact(m *Image) []byte { return m.append(nil, m.Geometry.Slots()/3*2) }
