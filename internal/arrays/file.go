package arrays

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// The encoded array is a header of 40 bytes, then its pages in order, each as in page.go. Numbers
// are little-endian.
//
//	 0  4  magic "bkhA"
//	 4  1  version of the codec, 1
//	 5  1  kind
//	 6  1  k
//	 7  1  zero
//	 8  8  lines
//	16  8  key ID
//	24  8  generation
//	32  4  zero
//	36  4  CRC-32C of the 36 bytes before
const (
	fileMagic  = "bkhA"
	fileHeader = 40
)

// Encode writes all of c to w: a header, then the pages in order. Adds may continue concurrently;
// each page stands still while it is copied.
func (c *Counting) Encode(w io.Writer) error { return c.encode(w, c.AppendPage) }

// Encode writes all of b to w, as [Counting.Encode] does.
func (b *Bits) Encode(w io.Writer) error { return b.encode(w, b.AppendPage) }

func (a *array) encode(w io.Writer, appendPage func([]byte, int) []byte) error {
	h := make([]byte, fileHeader)
	copy(h, fileMagic)
	h[4], h[5], h[6] = pageVersion, byte(a.geo.Kind), a.geo.K
	le := binary.LittleEndian
	le.PutUint64(h[8:], a.geo.Lines)
	le.PutUint64(h[16:], a.geo.KeyID)
	le.PutUint64(h[24:], a.Generation())
	le.PutUint32(h[36:], crc32.Checksum(h[:36], castagnoli()))
	if _, err := w.Write(h); err != nil {
		return err
	}
	var buf []byte
	for p := range a.pages {
		buf = appendPage(buf[:0], p)
		if _, err := w.Write(buf); err != nil {
			return err
		}
	}
	return nil
}

// DecodeCounting reads the output of [Counting.Encode], and not a byte more. limit is the maximum
// size of the array's lines in bytes. A larger array is refused with an error that wraps
// [ErrTooLarge] before any memory is allocated, and memory is allocated no faster than pages
// arrive. Damaged or missing bytes cause an error that wraps [ErrCorrupt].
func DecodeCounting(r io.Reader, limit int64) (*Counting, error) {
	return decodeArray(r, Cells, limit, NewCounting, func(c *Counting) *array { return c.array }, (*Counting).LoadPage)
}

// DecodeBits reads the output of [Bits.Encode], under the conditions of [DecodeCounting].
func DecodeBits(r io.Reader, limit int64) (*Bits, error) {
	return decodeArray(r, Bitmap, limit, NewBits, func(b *Bits) *array { return b.array }, (*Bits).LoadPage)
}

// decodeArray reads an array of a kind: empty makes an array, inner returns the part common to all
// kinds, and load accepts an encoded page.
func decodeArray[A any](r io.Reader, kind Kind, limit int64, empty func(Geometry) (*A, error),
	inner func(*A) *array, load func(*A, []byte) (int, error)) (*A, error) {
	g, generation, err := readFileHeader(r, kind, limit)
	if err != nil {
		return nil, err
	}
	pages, err := readPages(r, g, generation)
	if err != nil {
		return nil, err
	}
	a, err := empty(g)
	if err != nil {
		return nil, err
	}
	inner(a).generation = generation
	for p, page := range pages {
		if _, err := load(a, page); err != nil {
			return nil, fmt.Errorf("page %d: %w", p, err)
		}
		pages[p] = nil // the array holds the page now
	}
	return a, nil
}

func readFileHeader(r io.Reader, kind Kind, limit int64) (g Geometry, generation uint64, err error) {
	h := make([]byte, fileHeader)
	if err := readFull(r, h); err != nil {
		return g, 0, fmt.Errorf("header of an array: %w", err)
	}
	le := binary.LittleEndian
	g = Geometry{Kind: Kind(h[5]), K: h[6], Lines: le.Uint64(h[8:]), KeyID: le.Uint64(h[16:])}
	switch {
	case string(h[:4]) != fileMagic:
		return g, 0, fmt.Errorf("%w: magic %q, want %q", ErrCorrupt, h[:4], fileMagic)
	case h[4] != pageVersion:
		return g, 0, fmt.Errorf("%w: codec version %d, known is %d", ErrCorrupt, h[4], pageVersion)
	case crc32.Checksum(h[:36], castagnoli()) != le.Uint32(h[36:]):
		return g, 0, fmt.Errorf("%w: checksum of the header of an array", ErrCorrupt)
	case h[7] != 0 || le.Uint32(h[32:]) != 0:
		return g, 0, fmt.Errorf("%w: reserved bytes of an array are not zero", ErrCorrupt)
	}
	if err := g.Validate(); err != nil {
		return g, 0, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if g.Kind != kind {
		return g, 0, fmt.Errorf("%w: array of %s, want %s", ErrGeometry, g.Kind, kind)
	}
	if limit < 0 || g.Bytes() > uint64(limit) {
		return g, 0, fmt.Errorf("%w: %d bytes, limit %d", ErrTooLarge, g.Bytes(), limit)
	}
	return g, le.Uint64(h[24:]), nil
}

// readPages reads the encoded pages of an array and checks as much as possible without decoding
// them, so that the array itself is allocated only when all of its bytes are present.
func readPages(r io.Reader, g Geometry, generation uint64) ([][]byte, error) {
	var pages [][]byte
	head := make([]byte, pageHeader)
	for p := range g.Pages() {
		if err := readFull(r, head); err != nil {
			return nil, fmt.Errorf("header of page %d: %w", p, err)
		}
		size := binary.LittleEndian.Uint32(head[52:])
		if size > maxPayload {
			return nil, fmt.Errorf("%w: payload of %d bytes, limit %d", ErrCorrupt, size, maxPayload)
		}
		b := make([]byte, pageHeader+int(size))
		copy(b, head)
		if err := readFull(r, b[pageHeader:]); err != nil {
			return nil, fmt.Errorf("page %d: %w", p, err)
		}
		h, err := parseHeader(b, pageMagic, g)
		if err != nil {
			return nil, fmt.Errorf("page %d: %w", p, err)
		}
		if h.page != p || h.generation != generation {
			return nil, fmt.Errorf("%w: page %d of generation %d where page %d of %d belongs",
				ErrCorrupt, h.page, h.generation, p, generation)
		}
		pages = append(pages, b)
	}
	return pages, nil
}

// readFull fills b. Too few bytes mean corruption; other errors are returned unchanged.
func readFull(r io.Reader, b []byte) error {
	n, err := io.ReadFull(r, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: %d bytes, want %d", ErrCorrupt, n, len(b))
	}
	return err
}
