package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// The layout is specified in docs/specs/journal.md#header.
const (
	segmentHead    = 64
	segmentMagic   = "bulkhead-journal"
	segmentVersion = 2 // version 1 had the framing of LevelDB's log
)

// A segment is one file of the journal.
type segment struct {
	path  string
	epoch uint64
	first uint64 // index of its first entry
	last  uint64 // first-1 if there is none
	size  int64  // bytes that hold records
	salt  uint64 // of its records; 0 until the header has been read
}

func segmentName(epoch, first uint64) string {
	return fmt.Sprintf("%016x-%016x.log", epoch, first)
}

// parseSegmentName accepts only what segmentName returns.
func parseSegmentName(name string) (epoch, first uint64, ok bool) {
	_, err := fmt.Sscanf(name, "%016x-%016x.log", &epoch, &first)
	return epoch, first, err == nil && name == segmentName(epoch, first)
}

// listSegments returns the segments in the directory by epoch and first index, with last and size
// unset.
func listSegments(dir string) ([]segment, error) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	var segs []segment
	for _, n := range names {
		epoch, first, ok := parseSegmentName(n.Name())
		if !ok {
			return nil, fmt.Errorf("store: %s: not a journal segment; move the file out of the store's directory",
				filepath.Join(dir, n.Name()))
		}
		segs = append(segs, segment{path: filepath.Join(dir, n.Name()), epoch: epoch, first: first})
	}
	slices.SortFunc(segs, func(a, b segment) int {
		return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.first, b.first))
	})
	return segs, nil
}

// A segmentWriter appends to a new segment. It is never used on an existing file: a restart begins
// the next segment.
type segmentWriter struct {
	segment
	f   Handle
	buf []byte // bytes not yet written to the file
}

// createSegment makes the file and prepares its header, which reaches the disk with the first
// write.
func createSegment(fsys FS, dir, incarnation string, random io.Reader, epoch, first uint64) (*segmentWriter, error) {
	salt, err := newSalt(random)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, segmentName(epoch, first))
	f, err := fsys.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	s := &segmentWriter{segment: segment{path: path, epoch: epoch, first: first, last: first - 1, salt: salt}, f: f}
	s.buf = s.header(incarnation)
	return s, nil
}

// newSalt returns a random number other than 0.
func newSalt(random io.Reader) (uint64, error) {
	var b [8]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return 0, fmt.Errorf("random source: %w", err)
	}
	return max(1, binary.LittleEndian.Uint64(b[:])), nil
}

// header returns the header of the segment in a store with the given incarnation.
func (s *segment) header(incarnation string) []byte {
	b := make([]byte, 0, segmentHead)
	b = append(b, segmentMagic...)
	b = binary.LittleEndian.AppendUint32(b, segmentVersion)
	b = binary.LittleEndian.AppendUint64(b, s.epoch)
	b = binary.LittleEndian.AppendUint64(b, s.first)
	b = binary.LittleEndian.AppendUint64(b, s.salt)
	id, _ := hex.DecodeString(incarnation) // validated by the manifest
	b = append(b, id...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// write writes the buffer to the file and returns its new size. It leaves s.size, which readers may
// be using, to the caller.
func (s *segmentWriter) write() (size int64, err error) {
	n, err := s.f.WriteAt(s.buf, s.size)
	if err != nil {
		return size, err
	}
	s.buf = s.buf[:0]
	// A single large batch must not hold on to its memory.
	if cap(s.buf) > 1<<20 {
		s.buf = nil
	}
	return s.size + int64(n), nil
}

// begin reads the segment's header and checks that it belongs here. It is up to the caller to judge
// a *badRecord.
func (s *segment) begin(sc *scanner, incarnation string) error {
	s.last, s.size, s.salt = s.first-1, 0, 0
	b, err := sc.read(0, segmentHead)
	if err != nil {
		return err
	}
	if isOld(b) {
		return s.tooOld()
	}
	sum := len(b) - 4
	if binary.LittleEndian.Uint32(b[sum:]) != crc32.Checksum(b[:sum], castagnoli) {
		return sc.bad("checksum mismatch in the segment's header")
	}
	if string(b[:len(segmentMagic)]) != segmentMagic {
		return fmt.Errorf("store: %s: %w: not a journal segment", s.path, ErrFormat)
	}
	if v := binary.LittleEndian.Uint32(b[len(segmentMagic):]); v != segmentVersion {
		return fmt.Errorf("store: %s: %w: format %d, this program reads %d; use the program that wrote it", s.path,
			formatOf(v > segmentVersion), v, segmentVersion)
	}
	says := segment{epoch: s.epoch, first: s.first, salt: binary.LittleEndian.Uint64(b[36:])}
	if says.salt == 0 || !bytes.Equal(b, says.header(incarnation)) {
		return unusable(s.path,
			"the segment says epoch %d, index %d and store %x; its name and the manifest say %d, %d and %s",
			binary.LittleEndian.Uint64(b[20:]), binary.LittleEndian.Uint64(b[28:]), b[44:60], s.epoch, s.first, incarnation)
	}
	s.salt, s.size = says.salt, segmentHead
	sc.offset = segmentHead
	return nil
}

// entry reads the next entry, which must have the index after s.last. It
// advances s.last and s.size.
func (s *segment) entry(sc *scanner) (record, error) {
	rec, err := sc.next()
	if err != nil {
		return record{}, err
	}
	if rec.salt != s.salt || rec.index != s.last+1 {
		return record{}, &badRecord{sc.start,
			fmt.Sprintf("a record of index %d, want %d; its salt matches the segment: %v",
				rec.index, s.last+1, rec.salt == s.salt)}
	}
	s.last, s.size = rec.index, sc.offset
	return rec, nil
}

// entries passes the entries up to the index end, which must all be there, on to fn, from the index from on.
func (s *segment) entries(ctx context.Context, sc *scanner, from, end uint64,
	fn func(index uint64, entry []byte) error) error {
	for s.last < end {
		if err := ctx.Err(); err != nil {
			return err
		}
		rec, err := s.entry(sc)
		if err == io.EOF {
			return damaged(s.path, sc.offset, "the file ends after entry %d, want %d", s.last, end)
		}
		if err != nil {
			return s.fault(err)
		}
		if rec.index < from {
			continue
		}
		if err := fn(rec.index, rec.data); err != nil {
			return err
		}
	}
	return nil
}

// fault converts an error of a scan for the caller of the store.
func (s *segment) fault(err error) error {
	var bad *badRecord
	if errors.As(err, &bad) {
		return damaged(s.path, bad.offset, "entry %d: %s", s.last+1, bad.what)
	}
	var damage *DamageError
	if errors.As(err, &damage) || errors.Is(err, ErrFormat) {
		return err
	}
	return fmt.Errorf("store: %s: entry %d: %w", s.path, s.last+1, err)
}

// dataSize returns the size of an open file.
func dataSize(f Handle) (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}
