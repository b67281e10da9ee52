package arrays

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"testing"
)

func FuzzLoadPage(f *testing.F) {
	for _, fill := range fills {
		f.Add(filled(f, cellsGeo, fill.keys, fill.size).AppendPage(nil, 0))
		f.Add(filledBits(f, bitsGeo, fill.keys).AppendPage(nil, 0))
	}
	small := Geometry{Kind: Cells, Lines: 2, K: 3, KeyID: 0xabc}
	f.Add(filled(f, small, 20, 100).AppendPage(nil, 0))
	hiding := floored(f, small, 3)
	for i := range 40 {
		hiding.Add(Key{Hi: uint64(i) << 60, Lo: uint64(i % 9)}, 1)
	}
	f.Add(hiding.AppendPage(nil, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= pageHeader {
			b = reseal(slices.Clone(b)) // otherwise the checksum rejects every input
		}
		for _, g := range []Geometry{cellsGeo, bitsGeo, small} {
			m, err := ParseImage(b, g)
			if err != nil {
				continue
			}
			// Every accepted input must be a page that an array can hold and write again.
			again, err := ParseImage(m.Append(nil), g)
			if err != nil || !m.Equal(again) {
				t.Fatalf("an accepted page differs after a round trip: %v", err)
			}
			if g.Kind != Cells {
				continue
			}
			c := floored(t, g, m.Floor())
			c.SetGeneration(m.Generation)
			if err := c.Load(m); err != nil {
				t.Fatal(err)
			}
			check(t, c)
			if !c.Image(m.Page).Equal(m) {
				t.Fatal("the array differs from the page that was loaded")
			}
		}
	})
}

func FuzzDecodeArray(f *testing.F) {
	for _, fill := range fills[:4] {
		var b bytes.Buffer
		g := cellsGeo
		g.Lines = 12
		if err := filled(f, g, fill.keys, fill.size).Encode(&b); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
		var e bytes.Buffer
		g = bitsGeo
		g.Lines = 12
		if err := filledBits(f, g, fill.keys).Encode(&e); err != nil {
			f.Fatal(err)
		}
		f.Add(e.Bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		const limit = 4 * PageBytes
		b = resealArray(slices.Clone(b))
		if c, err := DecodeCounting(bytes.NewReader(b), limit); err == nil {
			check(t, c)
			if c.Geometry().Bytes() > limit {
				t.Fatalf("array of %d bytes, limit %d", c.Geometry().Bytes(), limit)
			}
		}
		if e, err := DecodeBits(bytes.NewReader(b), limit); err == nil && e.Geometry().Bytes() > limit {
			t.Fatalf("array of %d bytes, limit %d", e.Geometry().Bytes(), limit)
		}
	})
}

// resealArray gives the header and the pages of an encoded array valid checksums, as far as their
// lengths are plausible.
func resealArray(b []byte) []byte {
	if len(b) < fileHeader {
		return b
	}
	le := binary.LittleEndian
	le.PutUint32(b[36:], crc32.Checksum(b[:36], castagnoli()))
	for page := b[fileHeader:]; len(page) >= pageHeader; {
		end := uint64(pageHeader) + uint64(le.Uint32(page[52:]))
		if end > uint64(len(page)) {
			break
		}
		le.PutUint32(page[60:], pageSum(page[:end]))
		page = page[end:]
	}
	return b
}
