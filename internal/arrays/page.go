package arrays

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"
	"unsafe"

	"github.com/bulkhead-mail/bulkhead/internal/codec"
)

// The encoded page is a header of 64 bytes and a payload. Numbers are little-endian.
//
//	 0  4  magic "bkhP"
//	 4  1  version of the codec, 1
//	 5  1  kind of the array
//	 6  1  form of the payload: 0 empty page, 1 sparse, 2 dense
//	 7  1  floor of a counting array, 2 to 15, or zero
//	 8  8  fingerprint of the geometry
//	16  8  generation
//	24  8  page version
//	32  8  journal index
//	40  8  keys
//	48  4  page number
//	52  4  length of the payload in bytes
//	56  4  sparse: cells or bits that are not zero; dense: cells of 15 or more
//	60  4  CRC-32C of the 60 bytes before and of the payload
//
// With a floor the payload begins with the version (8 bytes) and the keys (8 bytes) of what the
// page shows to others.
//
// A sparse payload lists cells or bits as [codec.Slots.Append] writes them. A dense payload is the
// lines, followed by the values of the escaped cells, less 14 each, in the order of the cells and
// in Elias' gamma code.
const (
	pageMagic   = "bkhP"
	pageVersion = 1
	pageHeader  = 64

	formEmpty  = 0
	formSparse = 1
	formDense  = 2

	pageShown = 16

	// maxPayload is the maximum size of a payload: a page with all cells at Many.
	maxPayload = pageShown + PageBytes + pageCells*6
)

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// AppendPage appends the encoding of page p to dst: its header, and its cells in the sparse or the
// dense form. The page stands still while it is copied, so it never contains half of a batch.
func (c *Counting) AppendPage(dst []byte, p int) []byte { return c.Image(p).Append(dst) }

// AppendPage appends the encoding of page p to dst, as [Counting.AppendPage] does.
func (b *Bits) AppendPage(dst []byte, p int) []byte { return b.Image(p).Append(dst) }

// LoadPage replaces a page with the encoding b, which must be complete and nothing more, and
// returns its number. It returns an error that wraps [ErrCorrupt], [ErrGeometry] or [ErrVersion],
// and changes nothing, if b is damaged or is a page of a different geometry or generation.
func (c *Counting) LoadPage(b []byte) (page int, err error) {
	m, err := ParseImage(b, c.geo)
	if err != nil {
		return 0, err
	}
	return m.Page, c.Load(m)
}

// LoadPage replaces a page with the encoding enc, as [Counting.LoadPage] does.
func (b *Bits) LoadPage(enc []byte) (page int, err error) {
	m, err := ParseImage(enc, b.geo)
	if err != nil {
		return 0, err
	}
	return m.Page, b.Load(m)
}

// Append appends the encoding of m to dst. It uses the sparse form for up to one cell or bit in 16.
// Above that it uses the dense form, which is written and read at the speed of memory.
func (m *Image) Append(dst []byte) []byte { return m.append(dst, m.Geometry.Slots()/16) }

// append encodes m, in the sparse form if at most limit cells or bits are not zero.
func (m *Image) append(dst []byte, limit int) []byte {
	head := len(dst)
	dst = append(dst, make([]byte, pageHeader)...)
	if m.floor > 0 {
		dst = binary.LittleEndian.AppendUint64(dst, m.Info.Shown)
		dst = binary.LittleEndian.AppendUint64(dst, m.Info.ShownKeys)
	}
	dst, form, count := m.appendPayload(dst, limit)
	h := dst[head:]
	copy(h, pageMagic)
	h[4], h[5], h[6], h[7] = pageVersion, byte(m.Geometry.Kind), form, byte(m.floor)
	le := binary.LittleEndian
	le.PutUint64(h[8:], m.Geometry.ID())
	le.PutUint64(h[16:], m.Generation)
	le.PutUint64(h[24:], m.Info.Version)
	le.PutUint64(h[32:], m.Info.Index)
	le.PutUint64(h[40:], m.Info.Keys)
	le.PutUint32(h[48:], uint32(m.Page))
	le.PutUint32(h[52:], uint32(len(h)-pageHeader))
	le.PutUint32(h[56:], uint32(count))
	le.PutUint32(h[60:], pageSum(h))
	return dst
}

// pageSum returns the checksum of an encoded page.
func pageSum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:pageHeader-4], castagnoli()), castagnoli(), b[pageHeader:])
}

func (m *Image) appendPayload(dst []byte, limit int) (out []byte, form byte, count int) {
	count = m.population()
	switch {
	case count == 0:
		return dst, formEmpty, 0
	case count <= limit:
		list := setBits
		if m.Geometry.Kind == Cells {
			list = func([]words) codec.Slots { return m.slots() }
		}
		return list(m.lines).Append(dst, m.Geometry.Slots()), formSparse, count
	}
	for i := range m.lines {
		for _, w := range m.lines[i] {
			dst = binary.LittleEndian.AppendUint64(dst, w)
		}
	}
	bw := codec.BitWriter{Dst: dst}
	for _, v := range m.high {
		bw.Gamma(uint64(v - maxLight))
	}
	return bw.Bytes(), formDense, len(m.high)
}

// population returns the number of cells or bits that are not zero.
func (m *Image) population() (n int) {
	for i := range m.lines {
		for _, w := range m.lines[i] {
			if m.Geometry.Kind == Cells {
				w = occupied(w)
			}
			n += bits.OnesCount64(w)
		}
	}
	return n
}

// ParseImage decodes b, all of which must be one page of an array of geometry g. Its error wraps
// [ErrCorrupt], or [ErrGeometry] for a page of a different array. Memory is allocated in proportion
// to len(b) and to the size of a page.
func ParseImage(b []byte, g Geometry) (*Image, error) {
	if err := g.Validate(); err != nil {
		return nil, err
	}
	h, err := parseHeader(b, pageMagic, g)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	m := &Image{
		Geometry:   g,
		Generation: h.generation,
		Page:       h.page,
		Info:       PageInfo{Version: le.Uint64(b[24:]), Index: le.Uint64(b[32:]), Keys: le.Uint64(b[40:])},
	}
	payload, err := m.parseShown(b[pageHeader:], b[7])
	if err != nil {
		return nil, err
	}
	if err := m.parsePayload(payload, b[6], h.count); err != nil {
		return nil, err
	}
	m.Info.Overflow = len(m.high)
	if err := m.plausibleKeys(); err != nil {
		return nil, err
	}
	return m, nil
}

// parseShown parses the beginning of a payload if the array has a floor, and returns the remainder.
func (m *Image) parseShown(b []byte, floor byte) ([]byte, error) {
	if floor == 0 {
		return b, nil
	}
	if floor == 1 || floor > MaxFloor || m.Geometry.Kind != Cells || len(b) < pageShown {
		return nil, fmt.Errorf("%w: floor %d of a page of %s with a payload of %d bytes", ErrCorrupt, floor,
			m.Geometry.Kind, len(b))
	}
	m.floor = uint32(floor)
	m.Info.Shown, m.Info.ShownKeys = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	if m.Info.Shown > m.Info.Version || m.Info.ShownKeys > min(m.Info.Shown, maxPageKeys) {
		return nil, fmt.Errorf("%w: a page shows %d changes of %d and %d keys", ErrCorrupt, m.Info.Shown, m.Info.Version,
			m.Info.ShownKeys)
	}
	return b[pageShown:], nil
}

// maxPageKeys is more keys than a page ever sees, and small enough for the sum over 32,768 pages
// not to overflow.
const maxPageKeys = 1 << 48

// plausibleKeys returns an error unless the content of m can come from the number of keys that it
// states.
func (m *Image) plausibleKeys() error {
	if least := m.leastKeys(); m.Info.Keys > maxPageKeys || m.Info.Keys < least {
		return fmt.Errorf("%w: a page of %d keys that was filled by %d at least", ErrCorrupt, m.Info.Keys, least)
	}
	return nil
}

// leastKeys returns the fewest keys that can have filled the page: each key sets at most K cells or
// bits, and is counted when it sets the first of them.
func (m *Image) leastKeys() uint64 {
	k := uint64(m.Geometry.K)
	return (uint64(m.population()) + k - 1) / k
}

// header is what the remainder of a page is checked against.
type header struct {
	generation uint64
	page       int
	count      int
}

// parseHeader checks lengths, checksum and identity of an encoded page.
func parseHeader(b []byte, magic string, g Geometry) (h header, err error) {
	if len(b) < pageHeader {
		return h, fmt.Errorf("%w: %d bytes, a header has %d", ErrCorrupt, len(b), pageHeader)
	}
	le := binary.LittleEndian
	size, count, page := le.Uint32(b[52:]), le.Uint32(b[56:]), le.Uint32(b[48:])
	switch {
	case string(b[:4]) != magic:
		return h, fmt.Errorf("%w: magic %q, want %q", ErrCorrupt, b[:4], magic)
	case b[4] != pageVersion:
		return h, fmt.Errorf("%w: codec version %d, known is %d", ErrCorrupt, b[4], pageVersion)
	case uint64(size) != uint64(len(b)-pageHeader) || size > maxPayload:
		return h, fmt.Errorf("%w: payload of %d bytes, header says %d, limit %d", ErrCorrupt, len(b)-pageHeader,
			size, maxPayload)
	case le.Uint32(b[60:]) != pageSum(b):
		return h, fmt.Errorf("%w: checksum %08x, header says %08x", ErrCorrupt, pageSum(b), le.Uint32(b[60:]))
	case Kind(b[5]) != g.Kind || le.Uint64(b[8:]) != g.ID():
		return h, fmt.Errorf("%w: %s page of geometry %016x, want %s of %016x", ErrGeometry, Kind(b[5]), le.Uint64(b[8:]),
			g.Kind, g.ID())
	case uint64(page) >= uint64(g.Pages()):
		return h, fmt.Errorf("%w: page %d in an array of %d", ErrCorrupt, page, g.Pages())
	case uint64(count) > uint64(g.Slots()):
		return h, fmt.Errorf("%w: %d cells in a page of %d", ErrCorrupt, count, g.Slots())
	}
	return header{generation: le.Uint64(b[16:]), page: int(page), count: int(count)}, nil
}

func (m *Image) parsePayload(b []byte, form byte, count int) error {
	n := m.Geometry.LinesInPage()
	switch form {
	case formEmpty:
		if len(b) != 0 || count != 0 {
			return fmt.Errorf("%w: empty page with %d bytes and %d cells", ErrCorrupt, len(b), count)
		}
		m.lines = make([]words, n)
		return nil
	case formSparse:
		s, err := codec.ParseSlots(b, m.Geometry.Slots(), count, m.Geometry.Kind == Cells)
		if err != nil {
			return err
		}
		m.lines = make([]words, n)
		m.scatter(s)
		return nil
	case formDense:
		if len(b) < n*LineBytes {
			return fmt.Errorf("%w: %d bytes of lines, want %d", ErrCorrupt, len(b), n*LineBytes)
		}
		m.lines = make([]words, n)
		for i := range m.lines {
			for j := range m.lines[i] {
				m.lines[i][j] = binary.LittleEndian.Uint64(b[i*LineBytes+j*8:])
			}
		}
		return m.parseHigh(b[n*LineBytes:], count)
	}
	return fmt.Errorf("%w: form %d of a page", ErrCorrupt, form)
}

// parseHigh parses the values of the escaped cells of a dense page. There must be exactly one for
// each.
func (m *Image) parseHigh(b []byte, count int) error {
	escaped := 0
	if m.Geometry.Kind == Cells {
		for i := range m.lines {
			for _, w := range m.lines[i] {
				escaped += bits.OnesCount64(escapes(w))
			}
		}
	}
	if escaped != count || count > len(b)*8 {
		return fmt.Errorf("%w: %d values in %d bytes for %d escaped cells", ErrCorrupt, count, len(b), escaped)
	}
	rd := codec.BitReader{Src: b}
	if count > 0 {
		m.high = make([]uint32, count)
	}
	for i := range m.high {
		v := rd.Gamma() + maxLight
		if v > Many {
			return fmt.Errorf("%w: cell value %d, limit %d", ErrCorrupt, v, Many)
		}
		m.high[i] = uint32(v)
	}
	return rd.End()
}

// scatter writes the cells or bits of s into the blank lines of m.
func (m *Image) scatter(s codec.Slots) {
	if len(m.lines) == 0 {
		return
	}
	flat := unsafe.Slice(&m.lines[0][0], len(m.lines)*lineWords)
	if m.Geometry.Kind == Bitmap {
		for _, at := range s.At {
			flat[at>>6] |= 1 << (at & 63)
		}
		return
	}
	for i, at := range s.At {
		v := s.Values[i]
		if v > maxLight {
			m.high = append(m.high, v)
			v = escape
		}
		flat[at>>4] |= uint64(v) << (at & 15 << 2)
	}
}
