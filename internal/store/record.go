package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/syndtr/goleveldb/leveldb/journal"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// MaxEntry is the size of the largest journal entry, in bytes.
const MaxEntry = 64 << 20

const (
	chunkBlock  = 32 << 10 // LevelDB's log format: block size,
	chunkHead   = 7        // and CRC u32, length u16, type u8 before each chunk
	chunkFull   = 1
	chunkFirst  = 2
	recordHead  = 32
	kindEntry   = 1
	kindSegment = 2

	segmentMagic   = "bulkhead-journal"
	segmentVersion = 1
)

// A record is what the journal's library frames. Layout, little-endian: CRC-32C
// of the rest u32, kind u32, salt u64, index u64, durable u64, data.
//
// The first record of a segment has kindSegment, the index of the segment's
// first entry, and as data magic, version u16, epoch u64 and incarnation.
type record struct {
	kind    uint32
	salt    uint64 // random, the same in the whole segment and told to nobody
	index   uint64
	durable uint64 // every entry up to this index was on disk when this was written
	data    []byte
}

// head returns the bytes before r.data.
func (r *record) head() [recordHead]byte {
	var b [recordHead]byte
	binary.LittleEndian.PutUint32(b[4:], r.kind)
	binary.LittleEndian.PutUint64(b[8:], r.salt)
	binary.LittleEndian.PutUint64(b[16:], r.index)
	binary.LittleEndian.PutUint64(b[24:], r.durable)
	sum := crc32.Update(crc32.Checksum(b[4:], castagnoli), castagnoli, r.data)
	binary.LittleEndian.PutUint32(b[:], sum)
	return b
}

// parseRecord keeps a reference to b.
func parseRecord(b []byte) (record, error) {
	if len(b) < recordHead {
		return record{}, fmt.Errorf("record of %d bytes, want %d or more", len(b), recordHead)
	}
	if binary.LittleEndian.Uint32(b) != crc32.Checksum(b[4:], castagnoli) {
		return record{}, fmt.Errorf("record checksum mismatch")
	}
	return record{
		kind:    binary.LittleEndian.Uint32(b[4:]),
		salt:    binary.LittleEndian.Uint64(b[8:]),
		index:   binary.LittleEndian.Uint64(b[16:]),
		durable: binary.LittleEndian.Uint64(b[24:]),
		data:    b[recordHead:],
	}, nil
}

// writeRecord frames r with w, and flushes it.
func writeRecord(w *journal.Writer, r *record) error {
	rw, err := w.Next()
	if err != nil {
		return err
	}
	head := r.head()
	if _, err := rw.Write(head[:]); err != nil {
		return err
	}
	if _, err := rw.Write(r.data); err != nil {
		return err
	}
	return w.Flush()
}

// chunkEnd returns where a record of n bytes begins that is framed at offset,
// behind the padding of a block, and where it ends.
func chunkEnd(offset int64, n int) (start, end int64) {
	if left := chunkBlock - offset%chunkBlock; left < chunkHead {
		offset += left
	}
	start = offset
	for {
		c := min(n, int(chunkBlock-offset%chunkBlock)-chunkHead)
		offset += int64(chunkHead + c)
		if n -= c; n == 0 {
			return start, offset
		}
	}
}

// A badRecord says where a segment stops making sense.
type badRecord struct {
	offset int64
	what   string
}

func (e *badRecord) Error() string { return fmt.Sprintf("offset %d: %s", e.offset, e.what) }

// A scanner reads the records of one segment in order.
type scanner struct {
	src    *trackedReader
	r      *journal.Reader
	size   int64
	offset int64 // end of the last good record
	start  int64 // its begin
	buf    []byte
	drop   error // what the library skipped over
}

// trackedReader remembers a failed read, which is no damage.
type trackedReader struct {
	r   io.Reader
	err error
}

func (t *trackedReader) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	if err != nil && err != io.EOF {
		t.err = err
	}
	return n, err
}

// Drop implements journal.Dropper.
func (s *scanner) Drop(err error) { s.drop = err }

// newScanner reads the first size bytes of r.
func newScanner(r io.ReaderAt, size int64) *scanner {
	s := &scanner{src: &trackedReader{r: io.NewSectionReader(r, 0, size)}, size: size}
	s.r = journal.NewReader(s.src, s, true, true)
	return s
}

// next returns the next record, whose data is valid until the next call. It
// returns io.EOF at the end, a *badRecord where the file is not readable as a
// sequence of records, and any other error if it could not be read.
func (s *scanner) next() (record, error) {
	raw, err := s.raw()
	if s.src.err != nil {
		return record{}, s.src.err
	}
	bad := func(what string) (record, error) { return record{}, &badRecord{s.offset, what} }
	switch {
	case s.drop != nil:
		return bad(s.drop.Error())
	case err == io.EOF && s.offset != s.size:
		return bad(fmt.Sprintf("%d bytes that are no record", s.size-s.offset))
	case err == io.EOF:
		return record{}, io.EOF
	case err != nil:
		return bad(err.Error())
	}
	rec, err := parseRecord(raw)
	if err != nil {
		return bad(err.Error())
	}
	s.start, s.offset = chunkEnd(s.offset, len(raw))
	return rec, nil
}

func (s *scanner) raw() ([]byte, error) {
	rr, err := s.r.Next()
	if err != nil {
		return nil, err
	}
	s.buf = s.buf[:0]
	for {
		if len(s.buf) == cap(s.buf) {
			s.buf = append(s.buf, 0)[:len(s.buf)]
		}
		n, err := rr.Read(s.buf[len(s.buf):cap(s.buf)])
		s.buf = s.buf[:len(s.buf)+n]
		if err == io.EOF {
			return s.buf, nil
		}
		if err != nil {
			return nil, err
		}
		if len(s.buf) > MaxEntry+recordHead {
			return nil, fmt.Errorf("record of more than %d bytes", MaxEntry+recordHead)
		}
	}
}

// findLater looks behind offset for the remains of a record that proves that
// everything up to index was once durable. It tries every byte of the damaged
// block and of the following ones, since the damage may have hit the length
// from which the next chunk's place is known. The salt keeps those who choose
// what is in an entry from forging such a record inside it; 0 means that it is
// not known, because the segment's own first record is unreadable.
func findLater(r io.ReaderAt, offset, size int64, salt, index uint64) (int64, bool, error) {
	block := make([]byte, chunkBlock)
	for base := offset - offset%chunkBlock; base < size; base += chunkBlock {
		b := block[:min(chunkBlock, size-base)]
		if _, err := r.ReadAt(b, base); err != nil {
			return 0, false, err
		}
		for i := int(max(offset-base, 0)); i+chunkHead+recordHead <= len(b); i++ {
			if laterChunk(b[i:], salt, index) {
				return base + int64(i), true, nil
			}
		}
	}
	return 0, false, nil
}

// laterChunk reports whether b starts with an intact chunk that starts an entry
// which was written when index was durable.
func laterChunk(b []byte, salt, index uint64) bool {
	kind := b[6]
	n := int(binary.LittleEndian.Uint16(b[4:]))
	if kind != chunkFull && kind != chunkFirst || n < recordHead || chunkHead+n > len(b) {
		return false
	}
	head := b[chunkHead:]
	if binary.LittleEndian.Uint32(head[4:]) != kindEntry ||
		salt != 0 && binary.LittleEndian.Uint64(head[8:]) != salt ||
		binary.LittleEndian.Uint64(head[16:]) <= index ||
		binary.LittleEndian.Uint64(head[24:]) < index {
		return false
	}
	return binary.LittleEndian.Uint32(b) == util.NewCRC(b[6:chunkHead+n]).Value()
}
