package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// In version 0.1 the journal was framed as LevelDB's log. Its entries are not read: a
// segment that the checkpoint has made obsolete is removed, and with any other the store
// is refused. docs/specs/journal.md#old-journals has the layout.
const (
	oldBlock      = 32 << 10
	oldChunkHead  = 7 // CRC u32, length u16, type u8
	oldChunkFull  = 1
	oldChunkFirst = 2
	oldChunkLast  = 4
	oldRecordHead = 32 // CRC-32C of the rest u32, kind u32, salt u64, index u64, durable u64
	oldEntry      = 1
	oldVersion    = 1
)

// keepFormer copies the store to the folder of [Options.Former], and returns that folder if it made the copy.
// Without a copy the store is opened all the same.
func (s *Store) keepFormer() (folder string) {
	if s.opts.Former == nil {
		return ""
	}
	if folder = s.opts.Former(bytes.Clone(s.manifest.Meta)); folder == "" {
		return ""
	}
	// If an earlier start has copied this checkpoint, the journal has entries of this version by now, which the
	// older version cannot read.
	if s.isCopiedTo(folder) {
		return ""
	}
	half := folder + ".new" // so that a copy is whole if it has its name
	err := os.RemoveAll(half)
	if err == nil {
		err = copyStore(s.dir, half)
	}
	if err == nil {
		err = os.RemoveAll(folder)
	}
	if err == nil {
		err = os.Rename(half, folder)
	}
	if err != nil {
		s.log.Warn("store of an older version cannot be copied", "folder", folder,
			"err", errors.Join(err, os.RemoveAll(half)),
			"consequence", "the way back to that version needs a backup")
		return ""
	}
	s.log.Info("store of an older version was copied", "folder", folder,
		"hint", "put it in the place of the store to go back to that version; remove it when you will not")
	return folder
}

// isCopiedTo reports whether a folder has a copy of the store's present checkpoint.
func (s *Store) isCopiedTo(folder string) bool {
	copied, err := os.ReadFile(filepath.Join(folder, manifestFile))
	own, wrong := os.ReadFile(s.path(manifestFile))
	return err == nil && wrong == nil && bytes.Equal(copied, own)
}

// copyStore copies a store while nothing changes it. Files of checkpoints never change, so they are
// linked where the file system can do so.
func copyStore(dir, to string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case d.IsDir():
			return os.MkdirAll(target, 0o700)
		case rel == lockFile || !d.Type().IsRegular():
			return nil
		case filepath.Dir(rel) == filesDir:
			return keep(path, target)
		}
		return copyFile(path, target)
	})
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

// isOld reports whether a segment that begins with head is of the old format.
func isOld(head []byte) bool {
	mark := binary.LittleEndian.AppendUint16([]byte(segmentMagic), oldVersion)
	at := oldChunkHead + oldRecordHead
	return len(head) >= at+len(mark) && bytes.Equal(head[at:at+len(mark)], mark)
}

// tooOld returns an error that states what to do with a store whose journal has entries of the old format.
func (s *segment) tooOld() error {
	return fmt.Errorf("store: %s: %w: written by version 0.1, which was not stopped cleanly: "+
		"start that version on this folder once more and stop it with SIGTERM, then start this one", s.path, ErrFormat)
}

// superfluous reports whether the segment is of the old format and holds no entry
// from start on. One of the old format that does, or may, is an error that wraps
// [ErrFormat].
func (s *segment) superfluous(fsys FS, start uint64) (bool, error) {
	f, size, err := s.open(fsys)
	if err != nil {
		return false, err
	}
	defer f.Close()
	head := make([]byte, min(size, segmentHead))
	if _, err := f.ReadAt(head, 0); err != nil {
		return false, fmt.Errorf("store: %w", err)
	}
	if !isOld(head) {
		return false, nil
	}
	last, whole, err := oldLast(io.NewSectionReader(f, 0, size))
	if err != nil {
		return false, fmt.Errorf("store: %s: %w", s.path, err)
	}
	if !whole || last >= start {
		return false, s.tooOld()
	}
	return true, nil
}

// oldLast returns the index of the last entry of an old segment, 0 if it has none.
// whole says that every byte of it is as it was written.
func oldLast(r io.Reader) (last uint64, whole bool, err error) {
	block := make([]byte, oldBlock)
	var records oldRecords
	for {
		n, err := io.ReadFull(r, block)
		if err == io.EOF {
			return records.last, !records.within, nil
		}
		if err != nil && err != io.ErrUnexpectedEOF {
			return 0, false, err
		}
		if rest, ok := records.add(block[:n]); !ok || n < oldBlock && rest > 0 {
			return records.last, false, nil
		}
	}
}

// An oldRecords joins the chunks of an old segment to records.
type oldRecords struct {
	record []byte
	within bool   // the record has begun, and not ended
	last   uint64 // the index of the last entry
}

// add reads the chunks of a block, and returns the number of bytes after them. whole says that the chunks
// and the records that end in them are as they were written.
func (o *oldRecords) add(b []byte) (rest int, whole bool) {
	for len(b) >= oldChunkHead {
		length, kind := int(binary.LittleEndian.Uint16(b[4:])), b[6]
		begins := kind == oldChunkFull || kind == oldChunkFirst
		if length > len(b)-oldChunkHead || begins == o.within || kind == 0 || kind > oldChunkLast {
			return 0, false
		}
		o.record, b = append(o.record, b[oldChunkHead:oldChunkHead+length]...), b[oldChunkHead+length:]
		if o.within = kind != oldChunkFull && kind != oldChunkLast; !o.within && !o.end() {
			return 0, false
		}
	}
	return len(b), true
}

// end takes the index of a record that is complete, and reports whether the record is as it was written.
func (o *oldRecords) end() bool {
	r := o.record
	if len(r) < oldRecordHead || binary.LittleEndian.Uint32(r) != crc32.Checksum(r[4:], castagnoli) {
		return false
	}
	if binary.LittleEndian.Uint32(r[4:]) == oldEntry {
		o.last = binary.LittleEndian.Uint64(r[16:])
	}
	o.record = r[:0]
	return true
}
