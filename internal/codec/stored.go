package codec

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/bulkhead-mail/bulkhead/internal/huge"
)

// The stored form of filters that are not arrays of pages. All numbers are little-endian.
//
//	0   4  magic "BHPF"
//	4   1  version of the format, 1
//	5   1  what it is, see Type
//	6   .  shape and contents, see the Encode method of the type
//	end 4  CRC-32C of everything before
//
// A decoder checks every size against its limit before it allocates, and allocates a large array
// only as fast as its bytes arrive.
const (
	magic   = "BHPF"
	version = 1
)

// A Type identifies the content of a stored form. 5 to 8 are no longer in use.
type Type uint8

// The types.
const (
	Bloom      Type = 1
	TwoPart    Type = 2
	Intuitive  Type = 3
	Refined    Type = 4
	RateStates Type = 9
	Fuse       Type = 10
	StringBits Type = 11
)

// Is reports whether head is the beginning of a stored form of type t, in the present version.
func Is(head []byte, t Type) bool {
	return len(head) >= 6 && string(head[:4]) == magic && head[4] == version && head[5] == uint8(t)
}

// crcUpdate adds b to a CRC-32C.
func crcUpdate(crc uint32, b []byte) uint32 {
	return crc32.Update(crc, crc32.MakeTable(crc32.Castagnoli), b)
}

// Writer writes numbers and records the first error.
type Writer struct {
	w   io.Writer
	crc uint32
	err error
	buf []byte
}

// NewWriter returns a Writer for a stored form of type t, and writes the header.
func NewWriter(w io.Writer, t Type) *Writer {
	p := &Writer{w: w, buf: make([]byte, 0, 1<<15)}
	p.Bytes([]byte(magic))
	p.Uint8(version)
	p.Uint8(uint8(t))
	return p
}

func (p *Writer) flush() {
	if p.err == nil && len(p.buf) > 0 {
		p.crc = crcUpdate(p.crc, p.buf)
		_, p.err = p.w.Write(p.buf)
	}
	p.buf = p.buf[:0]
}

func (p *Writer) room(n int) {
	if len(p.buf)+n > cap(p.buf) {
		p.flush()
	}
}

// Uint8 writes one byte.
func (p *Writer) Uint8(v uint8) {
	p.room(1)
	p.buf = append(p.buf, v)
}

// Uint32 writes four bytes.
func (p *Writer) Uint32(v uint32) {
	p.room(4)
	p.buf = binary.LittleEndian.AppendUint32(p.buf, v)
}

// Uint64 writes eight bytes.
func (p *Writer) Uint64(v uint64) {
	p.room(8)
	p.buf = binary.LittleEndian.AppendUint64(p.buf, v)
}

// Bytes writes b unchanged.
func (p *Writer) Bytes(b []byte) {
	for len(b) > 0 {
		p.room(1)
		n := min(len(b), cap(p.buf)-len(p.buf))
		p.buf = append(p.buf, b[:n]...)
		b = b[n:]
	}
}

// Words writes eight bytes for each of ws.
func (p *Writer) Words(ws []uint64) {
	for _, w := range ws {
		p.Uint64(w)
	}
}

// Close writes the checksum and returns the first error.
func (p *Writer) Close() error {
	p.flush()
	if p.err == nil {
		_, p.err = p.w.Write(binary.LittleEndian.AppendUint32(nil, p.crc))
	}
	if p.err != nil {
		return fmt.Errorf("filter: write: %w", p.err)
	}
	return nil
}

// Reader reads numbers and records the first error; after an error, every number reads as zero. It
// never reads past the end of one encoded filter.
type Reader struct {
	r     io.Reader
	crc   uint32
	Err   error // the first error
	Limit int64 // bytes that may still be allocated
	tmp   [8]byte
}

// NewReader returns a Reader for a stored form of type t, and reads the header. limit is the
// maximum amount of memory, in bytes, that decoding may take.
func NewReader(r io.Reader, t Type, limit int64) *Reader {
	p := &Reader{r: r, Limit: limit}
	var head [6]byte
	p.full(head[:])
	switch {
	case p.Err != nil:
	case string(head[:4]) != magic:
		p.Fail("starts with %q, want %q", head[:4], magic)
	case head[4] != version:
		p.Fail("version %d, want %d", head[4], version)
	case head[5] != uint8(t):
		p.Fail("type %d, want %d", head[5], t)
	}
	return p
}

// Fail records an error that wraps [ErrCorrupt], if it is the first error.
func (p *Reader) Fail(format string, args ...any) {
	if p.Err == nil {
		p.Err = fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
	}
}

// TooLarge fails for n units of size bytes.
func (p *Reader) TooLarge(n, size uint64) {
	if p.Err == nil {
		p.Err = fmt.Errorf("%w: needs %d x %d bytes, %d are allowed", ErrTooLarge, n, size, max(p.Limit, 0))
	}
}

func (p *Reader) full(b []byte) {
	if p.Err != nil {
		clear(b)
		return
	}
	if _, err := io.ReadFull(p.r, b); err != nil {
		clear(b)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		p.Err = fmt.Errorf("%w: %w", ErrCorrupt, err)
		return
	}
	p.crc = crcUpdate(p.crc, b)
}

// Uint8 reads one byte.
func (p *Reader) Uint8() uint8 {
	p.full(p.tmp[:1])
	return p.tmp[0]
}

// Uint32 reads four bytes.
func (p *Reader) Uint32() uint32 {
	p.full(p.tmp[:4])
	return binary.LittleEndian.Uint32(p.tmp[:4])
}

// Uint64 reads eight bytes.
func (p *Reader) Uint64() uint64 {
	p.full(p.tmp[:8])
	return binary.LittleEndian.Uint64(p.tmp[:8])
}

// Grow deducts n units of size bytes from the limit and reports whether that is allowed.
func (p *Reader) Grow(n uint64, size int64) bool {
	if p.Err != nil {
		return false
	}
	if p.Limit < 0 || n > uint64(p.Limit/size) {
		p.TooLarge(n, uint64(size))
		return false
	}
	p.Limit -= int64(n) * size
	return true
}

// Words reads n words. Memory grows with the bytes that have arrived.
func (p *Reader) Words(n uint64) []uint64 {
	if !p.Grow(n, 8) {
		return nil
	}
	const step = 1 << 12
	out := make([]uint64, 0, min(n, step))
	buf := make([]byte, 8*min(n, step))
	for uint64(len(out)) < n && p.Err == nil {
		part := buf[:8*min(n-uint64(len(out)), step)]
		p.full(part)
		if need := len(out) + len(part)/8; need > cap(out) {
			bigger := make([]uint64, len(out), min(n, uint64(2*need)))
			huge.Advise(bigger[:cap(bigger)]) // before it is first touched, when it would get small pages
			copy(bigger, out)
			out = bigger
		}
		for i := 0; i < len(part); i += 8 {
			out = append(out, binary.LittleEndian.Uint64(part[i:]))
		}
	}
	if p.Err != nil {
		return nil
	}
	return out
}

// Bytes reads n bytes. Memory grows with the bytes that have arrived.
func (p *Reader) Bytes(n uint64) []byte {
	if !p.Grow(n, 1) {
		return nil
	}
	const step = 1 << 15
	out := make([]byte, 0, min(n, step))
	for uint64(len(out)) < n && p.Err == nil {
		take := int(min(n-uint64(len(out)), step))
		if len(out)+take > cap(out) {
			bigger := make([]byte, len(out), min(n, uint64(2*(len(out)+take))))
			copy(bigger, out)
			out = bigger
		}
		out = out[:len(out)+take]
		p.full(out[len(out)-take:])
	}
	if p.Err != nil {
		return nil
	}
	return out
}

// Close checks the checksum and returns the first error.
func (p *Reader) Close() error {
	want := p.crc
	if got := p.Uint32(); p.Err == nil && got != want {
		p.Fail("checksum %#08x, want %#08x", got, want)
	}
	return p.Err
}

// The key of a filter as stored: its fingerprint alone, or the key itself.
const (
	keyOutside = 0
	keyInside  = 1
)

// A secret is a key with a fingerprint.
type secret interface {
	~[16]byte
	ID() uint64
}

// WriteSecret writes a key: its bytes if public, else its fingerprint.
func WriteSecret[S secret](p *Writer, s S, public bool) {
	if public {
		p.Uint8(keyInside)
		p.Bytes(s[:])
		return
	}
	p.Uint8(keyOutside)
	p.Uint64(s.ID())
}

// ReadSecret reads a key, and looks up a key that is not stored itself among the known ones.
func ReadSecret[S secret](p *Reader, known []S) (s S, public bool) {
	switch mode := p.Uint8(); mode {
	case keyInside:
		p.full(s[:])
		return s, true
	case keyOutside:
		id := p.Uint64()
		for _, k := range known {
			if k.ID() == id {
				return k, false
			}
		}
		p.Fail("made with a key of fingerprint %#016x, which is not among the %d given", id, len(known))
	default:
		p.Fail("key mode %d", mode)
	}
	return s, false
}

// Bool writes one byte, 0 or 1.
func (p *Writer) Bool(b bool) {
	if b {
		p.Uint8(1)
	} else {
		p.Uint8(0)
	}
}

// Bool reads one byte, which must be 0 or 1.
func (p *Reader) Bool() bool {
	v := p.Uint8()
	if v > 1 {
		p.Fail("flag %d", v)
	}
	return v == 1
}
