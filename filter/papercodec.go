package filter

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

// The stored form of the filters of the papers. All numbers are little-endian.
//
//	0   4  magic "BHPF"
//	4   1  version of the format, 1
//	5   1  type: 1 Bloom, 2 TwoPart, 3 Intuitive, 4 Refined, 5 and 6 CellDelta
//	       of them, 7 states of a UniqueRate, 8 Window
//	6   .  shape and contents, see the Encode method of the type
//	end 4  CRC-32C of everything before
//
// A decoder checks every size against its limit before it allocates, and
// allocates a large array only as fast as its bytes arrive.
const (
	paperMagic   = "BHPF"
	paperVersion = 1
)

type paperType uint8

const (
	paperBloom paperType = iota + 1
	paperTwoPart
	paperIntuitive
	paperRefined
	paperIntuitiveDelta
	paperRefinedDelta
	paperRateStates
	paperWindow
)

// crcUpdate adds b to a CRC-32C.
func crcUpdate(crc uint32, b []byte) uint32 {
	return crc32.Update(crc, crc32.MakeTable(crc32.Castagnoli), b)
}

// paperWriter writes numbers and remembers the first error.
type paperWriter struct {
	w   io.Writer
	crc uint32
	err error
	buf []byte
}

func newPaperWriter(w io.Writer, t paperType) *paperWriter {
	p := &paperWriter{w: w, buf: make([]byte, 0, 1<<15)}
	p.bytes([]byte(paperMagic))
	p.uint8(paperVersion)
	p.uint8(uint8(t))
	return p
}

func (p *paperWriter) flush() {
	if p.err == nil && len(p.buf) > 0 {
		p.crc = crcUpdate(p.crc, p.buf)
		_, p.err = p.w.Write(p.buf)
	}
	p.buf = p.buf[:0]
}

func (p *paperWriter) room(n int) {
	if len(p.buf)+n > cap(p.buf) {
		p.flush()
	}
}

func (p *paperWriter) uint8(v uint8) {
	p.room(1)
	p.buf = append(p.buf, v)
}

func (p *paperWriter) uint32(v uint32) {
	p.room(4)
	p.buf = binary.LittleEndian.AppendUint32(p.buf, v)
}

func (p *paperWriter) uint64(v uint64) {
	p.room(8)
	p.buf = binary.LittleEndian.AppendUint64(p.buf, v)
}

func (p *paperWriter) bytes(b []byte) {
	for len(b) > 0 {
		p.room(1)
		n := min(len(b), cap(p.buf)-len(p.buf))
		p.buf = append(p.buf, b[:n]...)
		b = b[n:]
	}
}

func (p *paperWriter) words(ws []uint64) {
	for _, w := range ws {
		p.uint64(w)
	}
}

// close writes the checksum and returns the first error.
func (p *paperWriter) close() error {
	p.flush()
	if p.err == nil {
		_, p.err = p.w.Write(binary.LittleEndian.AppendUint32(nil, p.crc))
	}
	if p.err != nil {
		return fmt.Errorf("filter: write: %w", p.err)
	}
	return nil
}

// paperReader reads numbers and remembers the first error; after one, every
// number reads as zero. It never reads past the end of one encoded filter.
type paperReader struct {
	r     io.Reader
	crc   uint32
	err   error
	limit int64 // bytes that may still be allocated
	tmp   [8]byte
}

// newPaperReader reads the header. limit bounds the memory, in bytes, that
// decoding may take.
func newPaperReader(r io.Reader, t paperType, limit int64) *paperReader {
	p := &paperReader{r: r, limit: limit}
	var head [6]byte
	p.full(head[:])
	switch {
	case p.err != nil:
	case string(head[:4]) != paperMagic:
		p.fail("starts with %q, want %q", head[:4], paperMagic)
	case head[4] != paperVersion:
		p.fail("version %d, want %d", head[4], paperVersion)
	case head[5] != uint8(t):
		p.fail("type %d, want %d", head[5], t)
	}
	return p
}

func (p *paperReader) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
	}
}

// tooLarge fails for n units of size bytes.
func (p *paperReader) tooLarge(n, size uint64) {
	if p.err == nil {
		p.err = fmt.Errorf("%w: needs %d x %d bytes, %d are allowed", ErrTooLarge, n, size, max(p.limit, 0))
	}
}

func (p *paperReader) full(b []byte) {
	if p.err != nil {
		clear(b)
		return
	}
	if _, err := io.ReadFull(p.r, b); err != nil {
		clear(b)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		p.err = fmt.Errorf("%w: %w", ErrCorrupt, err)
		return
	}
	p.crc = crcUpdate(p.crc, b)
}

func (p *paperReader) uint8() uint8 {
	p.full(p.tmp[:1])
	return p.tmp[0]
}

func (p *paperReader) uint32() uint32 {
	p.full(p.tmp[:4])
	return binary.LittleEndian.Uint32(p.tmp[:4])
}

func (p *paperReader) uint64() uint64 {
	p.full(p.tmp[:8])
	return binary.LittleEndian.Uint64(p.tmp[:8])
}

// grow takes n units of size bytes off the limit and reports whether that is
// allowed.
func (p *paperReader) grow(n uint64, size int64) bool {
	if p.err != nil {
		return false
	}
	if p.limit < 0 || n > uint64(p.limit/size) {
		p.tooLarge(n, uint64(size))
		return false
	}
	p.limit -= int64(n) * size
	return true
}

// words reads n words. Memory grows with what has arrived.
func (p *paperReader) words(n uint64) []uint64 {
	if !p.grow(n, 8) {
		return nil
	}
	const step = 1 << 12
	out := make([]uint64, 0, min(n, step))
	buf := make([]byte, 8*min(n, step))
	for uint64(len(out)) < n && p.err == nil {
		part := buf[:8*min(n-uint64(len(out)), step)]
		p.full(part)
		if need := len(out) + len(part)/8; need > cap(out) {
			bigger := make([]uint64, len(out), min(n, uint64(2*need)))
			adviseHuge(bigger[:cap(bigger)]) // before it is touched, or it has small pages already
			copy(bigger, out)
			out = bigger
		}
		for i := 0; i < len(part); i += 8 {
			out = append(out, binary.LittleEndian.Uint64(part[i:]))
		}
	}
	if p.err != nil {
		return nil
	}
	return out
}

// bytes reads n bytes. Memory grows with what has arrived.
func (p *paperReader) bytes(n uint64) []byte {
	if !p.grow(n, 1) {
		return nil
	}
	const step = 1 << 15
	out := make([]byte, 0, min(n, step))
	for uint64(len(out)) < n && p.err == nil {
		take := int(min(n-uint64(len(out)), step))
		if len(out)+take > cap(out) {
			bigger := make([]byte, len(out), min(n, uint64(2*(len(out)+take))))
			copy(bigger, out)
			out = bigger
		}
		out = out[:len(out)+take]
		p.full(out[len(out)-take:])
	}
	if p.err != nil {
		return nil
	}
	return out
}

// close checks the checksum and returns the first error.
func (p *paperReader) close() error {
	want := p.crc
	if got := p.uint32(); p.err == nil && got != want {
		p.fail("checksum %#08x, want %#08x", got, want)
	}
	return p.err
}

// The key of a filter, as stored: its fingerprint alone, or the key itself.
const (
	keyOutside = 0
	keyInside  = 1
)

// secret writes a key: its bytes if public, else its fingerprint.
func (p *paperWriter) secret(s Secret, public bool) {
	if public {
		p.uint8(keyInside)
		p.bytes(s[:])
		return
	}
	p.uint8(keyOutside)
	p.uint64(s.ID())
}

// secret reads a key, and finds one that is not inside among the known ones.
func (p *paperReader) secret(known []Secret) (s Secret, public bool) {
	switch mode := p.uint8(); mode {
	case keyInside:
		p.full(s[:])
		return s, true
	case keyOutside:
		id := p.uint64()
		for _, k := range known {
			if k.ID() == id {
				return k, false
			}
		}
		p.fail("made with a key of fingerprint %#016x, which is not among the %d given", id, len(known))
	default:
		p.fail("key mode %d", mode)
	}
	return Secret{}, false
}

// family writes a hash family: kind, partitioned, m, k, then the pairs c, d of
// a universal family or the key of a keyed one.
func (p *paperWriter) family(f *Family, public bool) {
	p.uint8(uint8(f.kind))
	p.bool(f.parts)
	p.uint64(f.m)
	p.uint8(uint8(f.k))
	switch f.kind {
	case FamilyUniversal:
		p.words(f.c)
		p.words(f.d)
	case FamilyKeyed:
		p.secret(f.secret, public)
	}
}

func (p *paperWriter) bool(b bool) {
	if b {
		p.uint8(1)
	} else {
		p.uint8(0)
	}
}

func (p *paperReader) bool() bool {
	v := p.uint8()
	if v > 1 {
		p.fail("flag %d", v)
	}
	return v == 1
}

func (p *paperReader) family(known []Secret) (f Family, public bool) {
	kind, parts := FamilyKind(p.uint8()), p.bool()
	m, k := p.uint64(), int(p.uint8())
	if p.err != nil {
		return Family{}, false
	}
	err := checkShape(m, k)
	switch {
	case err != nil:
	case kind == FamilyUniversal:
		c, d := p.words(uint64(k)), p.words(uint64(k))
		if p.err == nil {
			f, err = universalFrom(m, c, d)
		}
	case kind == FamilyMD5, kind == FamilySHA1:
		f, err = chunked(kind, m, k)
	case kind == FamilyKeyed:
		var s Secret
		s, public = p.secret(known)
		f, err = Keyed(s, m, k)
	default:
		p.fail("hash family of kind %d", kind)
	}
	if err == nil && parts && p.err == nil {
		f, err = f.Partitioned()
	}
	if err != nil {
		p.fail("%v", err)
	}
	if p.err != nil {
		return Family{}, false
	}
	return f, public
}
