package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/syndtr/goleveldb/leveldb/journal"
)

// A segment is one file of the journal.
type segment struct {
	path  string
	epoch uint64
	first uint64 // index of its first entry
	last  uint64 // first-1 if it has none
	size  int64  // bytes that hold records
	salt  uint64 // of its records; 0 until the first was read
}

func segmentName(epoch, first uint64) string {
	return fmt.Sprintf("%016x-%016x.log", epoch, first)
}

// parseSegmentName accepts only what segmentName returns.
func parseSegmentName(name string) (epoch, first uint64, ok bool) {
	_, err := fmt.Sscanf(name, "%016x-%016x.log", &epoch, &first)
	return epoch, first, err == nil && name == segmentName(epoch, first)
}

// listSegments returns the segments in the directory by epoch and first index,
// with last and size unset.
func listSegments(dir string) ([]segment, error) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	var segs []segment
	for _, n := range names {
		epoch, first, ok := parseSegmentName(n.Name())
		if !ok {
			return nil, fmt.Errorf("store: %s: not a journal segment; move the file out of the store's directory", filepath.Join(dir, n.Name()))
		}
		segs = append(segs, segment{path: filepath.Join(dir, n.Name()), epoch: epoch, first: first})
	}
	slices.SortFunc(segs, func(a, b segment) int {
		return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.first, b.first))
	})
	return segs, nil
}

// A segmentWriter appends to a new segment. It is never used on a file that
// existed before: a restart begins the next segment.
type segmentWriter struct {
	segment
	f   Handle
	buf bytes.Buffer // what is not yet in the file
	w   *journal.Writer
}

// createSegment makes the file and prepares its first record, which reaches the
// disk with the first write.
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
	s.w = journal.NewWriter(&s.buf)
	rec := &record{kind: kindSegment, salt: salt, index: first, data: segmentData(epoch, incarnation)}
	if err := writeRecord(s.w, rec); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return s, nil
}

// newSalt returns a random number that is not 0.
func newSalt(random io.Reader) (uint64, error) {
	var b [8]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return 0, fmt.Errorf("random source: %w", err)
	}
	return max(1, binary.LittleEndian.Uint64(b[:])), nil
}

func segmentData(epoch uint64, incarnation string) []byte {
	b := binary.LittleEndian.AppendUint16([]byte(segmentMagic), segmentVersion)
	b = binary.LittleEndian.AppendUint64(b, epoch)
	id, _ := hex.DecodeString(incarnation) // validated by the manifest
	return append(b, id...)
}

// write puts what is buffered into the file and returns its new size. It leaves
// s.size, which readers may be looking at, to the caller.
func (s *segmentWriter) write() (size int64, err error) {
	n, err := s.f.WriteAt(s.buf.Bytes(), s.size)
	if err != nil {
		return 0, err
	}
	if n != s.buf.Len() {
		return 0, fmt.Errorf("%s: %w after %d bytes", s.path, io.ErrShortWrite, n)
	}
	s.buf.Reset()
	// One large batch is no reason to hold its memory for ever.
	if s.buf.Cap() > 1<<20 {
		s.buf = bytes.Buffer{}
	}
	return s.size + int64(n), nil
}

// begin reads the segment's first record and checks that it belongs here.
// A *badRecord is for the caller to judge.
func (s *segment) begin(sc *scanner, incarnation string) error {
	s.last, s.size = s.first-1, 0
	rec, err := sc.next()
	if err == io.EOF {
		return &badRecord{0, "the file is empty"}
	}
	if err != nil {
		return err
	}
	if rec.kind != kindSegment || len(rec.data) < len(segmentMagic)+2 || string(rec.data[:len(segmentMagic)]) != segmentMagic {
		return fmt.Errorf("store: %s: %w: not a journal segment", s.path, ErrFormat)
	}
	if v := binary.LittleEndian.Uint16(rec.data[len(segmentMagic):]); v != segmentVersion {
		return fmt.Errorf("store: %s: %w: version %d, this release reads %d; use the release that wrote it", s.path, ErrFormat, v, segmentVersion)
	}
	if !bytes.Equal(rec.data, segmentData(s.epoch, incarnation)) || rec.index != s.first || rec.salt == 0 {
		return damaged(s.path, 0, "the segment says index %d and %x; its name and the manifest say %d and %x",
			rec.index, rec.data[len(segmentMagic):], s.first, segmentData(s.epoch, incarnation)[len(segmentMagic):])
	}
	s.salt = rec.salt
	s.size = sc.offset
	return nil
}

// entry reads the next entry, which must have the index after s.last. It
// advances s.last and s.size.
func (s *segment) entry(sc *scanner) (record, error) {
	rec, err := sc.next()
	if err != nil {
		return record{}, err
	}
	if rec.kind != kindEntry || rec.salt != s.salt || rec.index != s.last+1 {
		return record{}, &badRecord{sc.start, fmt.Sprintf("a record of kind %d, index %d, salt %x; want %d, %d, %x",
			rec.kind, rec.index, rec.salt, kindEntry, s.last+1, s.salt)}
	}
	s.last, s.size = rec.index, sc.offset
	return rec, nil
}

// fault turns what a scan returned into what the caller of the store gets.
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
