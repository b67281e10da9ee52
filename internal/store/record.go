package store

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
)

// MaxEntry is the size of the largest journal entry, in bytes.
const MaxEntry = 64 << 20

// The layout is specified in docs/specs/journal.md#records.
const (
	recordHead = 40
	typeEntry  = 1
)

// A record is one entry with its surroundings in a segment.
type record struct {
	salt    uint64 // random, the same in the whole segment, and never disclosed
	index   uint64
	durable uint64 // when this was written, every entry up to this index was on disk
	data    []byte
}

// append appends the encoding of r.
func (r *record) append(b []byte) []byte {
	at := len(b)
	b = append(b, make([]byte, recordHead)...)
	head := b[at:]
	binary.LittleEndian.PutUint32(head[4:], crc32.Checksum(r.data, castagnoli))
	binary.LittleEndian.PutUint32(head[8:], uint32(len(r.data)))
	binary.LittleEndian.PutUint32(head[12:], typeEntry)
	binary.LittleEndian.PutUint64(head[16:], r.salt)
	binary.LittleEndian.PutUint64(head[24:], r.index)
	binary.LittleEndian.PutUint64(head[32:], r.durable)
	binary.LittleEndian.PutUint32(head, crc32.Checksum(head[4:], castagnoli))
	return append(b, r.data...)
}

// parseHead parses a record's head, and returns it with the length and the checksum of the data. An
// error describes the fault, for a *badRecord.
func parseHead(head []byte) (r record, length, sum uint32, err error) {
	if binary.LittleEndian.Uint32(head) != crc32.Checksum(head[4:recordHead], castagnoli) {
		return r, 0, 0, errors.New("checksum mismatch in the head of a record")
	}
	if t := binary.LittleEndian.Uint32(head[12:]); t != typeEntry {
		return r, 0, 0, fmt.Errorf("a record of type %d, want %d", t, typeEntry)
	}
	r.salt = binary.LittleEndian.Uint64(head[16:])
	r.index = binary.LittleEndian.Uint64(head[24:])
	r.durable = binary.LittleEndian.Uint64(head[32:])
	return r, binary.LittleEndian.Uint32(head[8:]), binary.LittleEndian.Uint32(head[4:]), nil
}

// A badRecord is the place where a segment becomes unreadable.
type badRecord struct {
	offset int64
	what   string
}

func (e *badRecord) Error() string { return fmt.Sprintf("offset %d: %s", e.offset, e.what) }

// A scanner reads one segment in order.
type scanner struct {
	r      *bufio.Reader
	size   int64
	offset int64 // end of the last good record
	start  int64 // start of that record
	buf    []byte
}

// newScanner reads the first size bytes of r.
func newScanner(r io.ReaderAt, size int64) *scanner { return scannerAt(r, 0, size) }

// scannerAt is newScanner starting at an offset.
func scannerAt(r io.ReaderAt, offset, size int64) *scanner {
	section := io.NewSectionReader(r, offset, size-offset)
	return &scanner{r: bufio.NewReaderSize(section, bufferBytes), size: size, offset: offset}
}

func (s *scanner) bad(what string, args ...any) error {
	return &badRecord{s.offset, fmt.Sprintf(what, args...)}
}

// read returns the next n bytes after skipping skip bytes from s.offset. They are valid until the
// next call. If the file is too short, the error is a *badRecord, and nothing is allocated; a
// failed read is a different error.
func (s *scanner) read(skip int64, n int) ([]byte, error) {
	if left := s.size - s.offset - skip; int64(n) > left {
		return nil, s.bad("%d bytes where %d are left", n, left)
	}
	s.buf = slices.Grow(s.buf[:0], n)[:n]
	_, err := io.ReadFull(s.r, s.buf)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil, s.bad("the file has become shorter")
	}
	return s.buf, err
}

// next returns the next record, whose data is valid until the next call. It returns io.EOF at the
// end, a *badRecord where the file is not readable as a sequence of records, and any other error if
// the file could not be read. After an error it must not be called again.
func (s *scanner) next() (record, error) {
	if s.offset == s.size {
		return record{}, io.EOF
	}
	head, err := s.read(0, recordHead)
	if err != nil {
		return record{}, err
	}
	rec, length, sum, err := parseHead(head)
	if err != nil {
		return record{}, s.bad("%v", err)
	}
	if length > MaxEntry {
		return record{}, s.bad("an entry of %d bytes, limit %d", length, MaxEntry)
	}
	if rec.data, err = s.read(recordHead, int(length)); err != nil {
		return record{}, err
	}
	if crc32.Checksum(rec.data, castagnoli) != sum {
		return record{}, s.bad("checksum mismatch in an entry of %d bytes", length)
	}
	s.start, s.offset = s.offset, s.offset+recordHead+int64(length)
	return rec, nil
}

// findLater searches after offset for the head of a record that proves that everything up to index
// was once durable. It tries every byte, since the damage may have hit the length that locates the
// next record, or have moved the following bytes. The salt prevents clients who choose the content
// of an entry from forging such a head inside it. A salt of 0 means that it is unknown, because the
// segment's own header is unreadable.
func findLater(r io.ReaderAt, offset, size int64, salt, index uint64) (int64, bool, error) {
	return findHead(r, offset, size, func(_ int64, head []byte) (bool, error) {
		return laterHead(head, salt, index), nil
	})
}

// findHead returns the first position from offset on for which the function is reports a record's
// head. It tries every byte.
func findHead(r io.ReaderAt, offset, size int64, is func(at int64, head []byte) (bool, error)) (at int64, found bool,
	err error) {
	window := make([]byte, bufferBytes)
	for size-offset >= recordHead {
		b := window[:min(int64(len(window)), size-offset)]
		if _, err := r.ReadAt(b, offset); err != nil && err != io.EOF {
			return at, found, err
		}
		for i := 0; i+recordHead <= len(b); i++ {
			at = offset + int64(i)
			if found, err = is(at, b[i:i+recordHead]); found || err != nil {
				return at, found, err
			}
		}
		offset += int64(len(b)) - recordHead + 1
	}
	return at, found, nil
}

// laterHead reports whether head belongs to an entry that was written when index was durable.
func laterHead(head []byte, salt, index uint64) bool {
	if salt != 0 && binary.LittleEndian.Uint64(head[16:]) != salt {
		return false // the usual case, decided without a checksum
	}
	rec, _, _, err := parseHead(head)
	return err == nil && rec.index > index && rec.durable >= index
}
