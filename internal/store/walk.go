package store

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strings"
)

// A Fault is a part of a store that does not contain what was written to it.
type Fault struct {
	File   string // path
	Offset int64  // in bytes from the file's start, where the damage was noticed
	What   string // description of the damage
	Name   string // the caller's name of a checkpoint file; "" for all other files
	// First and Last are the journal entries that this fault makes unreadable; 0 for none.
	First, Last uint64
	// Bytes is how much content of a checkpoint file is in damaged blocks, from Offset on.
	Bytes int64
	// Mended means that the damage is one flipped bit that was identified: nothing is lost.
	Mended bool
	Absent bool // the file is not there
}

// Lost returns how many journal entries are unreadable.
func (f *Fault) Lost() uint64 {
	if f.First == 0 || f.Last < f.First {
		return 0
	}
	return f.Last - f.First + 1
}

// walk passes every readable entry of the segment to fn, in order, and returns the unreadable
// places. It leaves the index of the last entry in s.last, and the end of the last good record in
// s.size. torn means that no good record follows the last fault: it may be a write that never
// finished.
func (s *segment) walk(ctx context.Context, fsys FS, incarnation string,
	fn func(index uint64, entry []byte) error) (faults []Fault, torn bool, err error) {
	f, size, err := s.open(fsys)
	if err != nil {
		return faults, torn, err
	}
	defer f.Close()
	w := &walker{segment: s, f: f, end: size, sc: newScanner(f, size), fn: fn}
	at, err := w.begin(incarnation)
	for err == nil && at == onTheWay {
		if err = ctx.Err(); err == nil {
			at, err = w.step()
		}
	}
	return w.faults, err == nil && at == atTornEnd, err
}

// A walker is a walk over a segment.
type walker struct {
	*segment
	f      Handle
	end    int64 // of the file
	sc     *scanner
	fn     func(index uint64, entry []byte) error
	faults []Fault
}

// A stage is how far a walk is.
type stage int

const (
	onTheWay  stage = iota
	atEnd           // after the last record
	atTornEnd       // after a fault that no good record follows
)

// begin reads the header. Without it, the salt of the first record replaces the header's.
func (w *walker) begin(incarnation string) (stage, error) {
	err := w.segment.begin(w.sc, incarnation)
	var bad *badRecord
	var damage *DamageError
	switch {
	case err == nil:
		return onTheWay, nil
	case errors.As(err, &damage): // another segment's content, none of which belongs to this one
		w.note(Fault{Offset: damage.Offset, What: damage.What})
		return atTornEnd, nil
	case !errors.As(err, &bad):
		return onTheWay, w.fault(err)
	}
	w.note(Fault{Offset: bad.offset, What: bad.what})
	if w.end <= segmentHead {
		return atTornEnd, nil
	}
	if w.salt, err = saltAt(w.f); err != nil {
		return onTheWay, w.fault(err)
	}
	w.size = segmentHead
	w.resume(segmentHead)
	return onTheWay, nil
}

// step reads the next record.
func (w *walker) step() (stage, error) {
	rec, err := w.sc.next()
	if err == io.EOF {
		return atEnd, nil
	}
	if err == nil && (w.salt != 0 && rec.salt != w.salt || rec.index <= w.last) {
		err = &badRecord{w.sc.start,
			fmt.Sprintf("a record of index %d behind entry %d; its salt matches the segment: %v",
				rec.index, w.last, rec.salt == w.salt)}
	}
	var bad *badRecord
	switch {
	case errors.As(err, &bad):
		return w.pass(bad)
	case err != nil:
		return onTheWay, w.fault(err)
	}
	if rec.index > w.last+1 {
		w.lacks(rec.index - 1)
	}
	return onTheWay, w.take(rec, w.sc.offset)
}

// pass mends the record that should begin at a bad place, or else continues at the next good one.
func (w *walker) pass(bad *badRecord) (stage, error) {
	rec, ok, err := mendRecord(w.f, bad.offset, w.end, w.salt, w.last+1)
	if err != nil {
		return onTheWay, w.fault(err)
	}
	if ok {
		w.note(Fault{Offset: bad.offset, What: bad.what + ": one bit was flipped", Mended: true})
		end := bad.offset + recordHead + int64(len(rec.data))
		w.resume(end)
		return onTheWay, w.take(rec, end)
	}
	w.note(Fault{Offset: bad.offset, What: bad.what})
	next, found, err := findRecord(w.f, bad.offset+1, w.end, w.salt, w.last)
	if err != nil {
		return onTheWay, w.fault(err)
	}
	if !found {
		return atTornEnd, nil
	}
	w.resume(next)
	return onTheWay, nil
}

// take passes on a record that ends at an offset.
func (w *walker) take(rec record, end int64) error {
	w.salt, w.last, w.size = rec.salt, rec.index, end
	return w.fn(rec.index, rec.data)
}

// lacks notes that the entries from the last one to an index are unreadable: with the fault that is
// behind the last one, or else with a fault of their own.
func (w *walker) lacks(index uint64) {
	n := len(w.faults)
	if n == 0 || w.faults[n-1].Offset < w.size {
		w.note(Fault{Offset: w.sc.start, What: fmt.Sprintf("entry %d follows entry %d", index+1, w.last)})
		n++
	}
	w.faults[n-1].First, w.faults[n-1].Last = w.last+1, index
}

// note adds a fault of the segment.
func (w *walker) note(f Fault) {
	f.File = w.path
	w.faults = append(w.faults, f)
}

// resume continues at an offset.
func (w *walker) resume(at int64) { w.sc = scannerAt(w.f, at, w.end) }

// saltAt returns the salt of the first record after an unreadable header; 0 if that record is
// unreadable as well.
func saltAt(r io.ReaderAt) (salt uint64, err error) {
	head := make([]byte, recordHead)
	if _, err := r.ReadAt(head, segmentHead); err != nil && err != io.EOF {
		return salt, err
	}
	rec, _, _, _ := parseHead(head)
	return rec.salt, nil
}

// findRecord returns the start of the next intact record with the salt and an index above last.
// Without a salt any record is a candidate, and an attacker who chooses the content of an entry
// could have placed a forged one there. Such a record counts only if the next record, or the end of
// the file, follows it directly.
func findRecord(r io.ReaderAt, offset, size int64, salt, last uint64) (int64, bool, error) {
	return findHead(r, offset, size, func(at int64, head []byte) (bool, error) {
		if salt != 0 && binary.LittleEndian.Uint64(head[16:]) != salt {
			return false, nil // the usual case, decided without a checksum
		}
		rec, length, _, err := parseHead(head)
		end := at + recordHead + int64(length)
		if err != nil || rec.index <= last || rec.index > maxNumber || length > MaxEntry || end > size {
			return false, nil
		}
		if salt != 0 || end == size {
			return true, nil
		}
		next := make([]byte, recordHead)
		if _, err := r.ReadAt(next, end); err != nil && err != io.EOF {
			return false, err
		}
		after, _, _, err := parseHead(next)
		return err == nil && after.salt == rec.salt && after.index == rec.index+1, nil
	})
}

// inspectBlocks returns the damage of a stored file: each run of damaged blocks is one fault.
// foreign means that the header is intact but belongs to a different file.
func inspectBlocks(ctx context.Context, fsys FS, path string, info FileInfo) (faults []Fault, foreign bool, err error) {
	fault := func(offset int64, bytes int64, what string, args ...any) Fault {
		return Fault{File: path, Name: info.Name, Offset: offset, Bytes: bytes, What: fmt.Sprintf(what, args...)}
	}
	f, err := openRead(fsys, path)
	if errors.Is(err, os.ErrNotExist) {
		return []Fault{fault(0, info.Size, "the file is missing, and the manifest names it")}, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("store: %w", err)
	}
	defer f.Close()
	id, whole, err := readID(f)
	if err != nil {
		return nil, false, fmt.Errorf("store: %s: %w", path, err)
	}
	foreign = whole && id != info.id
	r := newBlockReader(f, path, info)
	if err := r.open(); err != nil {
		var damage *DamageError
		if !errors.As(err, &damage) {
			return nil, false, err
		}
		faults = append(faults, fault(damage.Offset, 0, "%s", damage.What))
	}
	blocks := (info.Size + blockBytes - 1) / blockBytes
	run := false // the block before was bad, and the last fault is of it
	for ; r.next < blocks; r.next++ {
		if err := ctx.Err(); err != nil {
			return faults, foreign, err
		}
		offset := fileHead + r.next*(blockBytes+4)
		size := min(info.Size-r.next*blockBytes, blockBytes)
		good, err := r.check(offset, r.page[:size+4])
		if err != nil {
			return faults, foreign, err
		}
		switch {
		case good:
		case !run:
			faults = append(faults, fault(offset, size, "block %d of %d is not as it was written", r.next+1, blocks))
		default:
			f := &faults[len(faults)-1]
			f.Bytes += size
			f.What = fmt.Sprintf("blocks %d to %d of %d are not as they were written",
				(f.Offset-fileHead)/(blockBytes+4)+1, r.next+1, blocks)
		}
		run = !good
	}
	if len(faults) == 0 && r.crc != info.CRC {
		faults = append(faults, fault(0, info.Size, "checksum of the content is %08x, the manifest says %08x",
			r.crc, info.CRC))
	}
	return faults, foreign, nil
}

// readID returns the id in the header of a stored file; whole means that the header is a valid one.
func readID(f Handle) (id uint64, whole bool, err error) {
	head := make([]byte, fileHead)
	if _, err := f.ReadAt(head, 0); err == io.EOF {
		return 0, false, nil
	} else if err != nil {
		return 0, false, err
	}
	sum := crc32.Checksum(head[:fileHead-4], castagnoli)
	return binary.LittleEndian.Uint64(head[8:]), sum == binary.LittleEndian.Uint32(head[fileHead-4:]), nil
}

// check reads one block and reports whether it is intact. A block that the file cuts short is not.
func (r *blockReader) check(offset int64, page []byte) (bool, error) {
	if _, err := r.f.ReadAt(page, offset); err == io.EOF {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("store: %s: offset %d: %w", r.path, offset, err)
	}
	content := page[:len(page)-4]
	r.crc = crc32.Update(r.crc, castagnoli, content)
	return blockSum(r.info.id, uint64(r.next), content) == binary.LittleEndian.Uint32(page[len(content):]), nil
}

// A rawReader returns the content of a stored file without checks. Missing bytes are not filled in,
// so the result may be shorter than the original.
type rawReader struct {
	f    Handle
	r    *bufio.Reader
	left int // bytes left before the checksum of the block
}

// openRaw opens a stored file for reading without checks. A missing file is empty.
func openRaw(fsys FS, path string) (io.ReadCloser, error) {
	f, err := openRead(fsys, path)
	if errors.Is(err, os.ErrNotExist) {
		return io.NopCloser(strings.NewReader("")), nil
	}
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	content := io.NewSectionReader(f, fileHead, maxFileBytes)
	return &rawReader{f: f, r: bufio.NewReaderSize(content, bufferBytes), left: blockBytes}, nil
}

func (r *rawReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		if _, err := r.r.Discard(4); err != nil {
			return 0, io.EOF
		}
		r.left = blockBytes
	}
	n, err := r.r.Read(p[:min(len(p), r.left)])
	r.left -= n
	return n, err
}

func (r *rawReader) Close() error { return r.f.Close() }
