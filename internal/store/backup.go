package store

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
)

const (
	backupMagic   = "bulkhead-backup\n"
	backupVersion = 1

	frameManifest = 1 // a manifest file
	frameContent  = 2 // a piece of the files' content, in the order of the files
	frameEntry    = 3 // index u64, entry
	frameEnd      = 4 // last index u64
	maxFrame      = maxManifestFile
	frameOverhead = 9        // kind u8, payload length u32, and the CRC-32C u32 after the payload
	leastPiece    = 64 << 10 // of a payload, which is read in pieces
)

// A BackupInfo describes a backup.
type BackupInfo struct {
	Manifest  Manifest // of the backup's checkpoint
	LastIndex uint64   // of the backup's journal
	From      string   // incarnation of the store that was backed up
}

// Backup writes a consistent copy of the store in dir to w: the last checkpoint and every entry
// acknowledged since. The store may be in use, by this process or another, and is not blocked. If
// the store makes a checkpoint during the backup, the copy is of the earlier one. Everything is
// checked while it is copied.
//
// The copy is complete only if Backup returns no error; [Restore] refuses an incomplete one.
// Format, little-endian: "bulkhead-backup\n", version u16, frames. A frame is kind u8, length u32,
// payload, and the CRC-32C u32 of the frame's number u64, kind and payload.
func Backup(ctx context.Context, dir string, w io.Writer) (BackupInfo, error) {
	return backup(ctx, osFS{}, dir, w)
}

// Backup is the function [Backup] for the store's own directory.
func (s *Store) Backup(ctx context.Context, w io.Writer) (BackupInfo, error) {
	if s.isClosed() {
		return BackupInfo{}, ErrClosed
	}
	return backup(ctx, s.fs, s.dir, w)
}

func backup(ctx context.Context, fsys FS, dir string, w io.Writer) (BackupInfo, error) {
	src, err := openSource(ctx, fsys, dir)
	if err != nil {
		return BackupInfo{}, err
	}
	defer src.close()
	head := binary.LittleEndian.AppendUint16([]byte(backupMagic), backupVersion)
	bw := bufio.NewWriterSize(&stopper{ctx, w}, bufferBytes)
	if _, err := bw.Write(head); err != nil {
		return BackupInfo{}, fmt.Errorf("store: backup: %w", err)
	}
	fw := &frameWriter{w: bw}
	if err := src.copyTo(ctx, fw); err != nil {
		return BackupInfo{}, err
	}
	if err := bw.Flush(); err != nil {
		return BackupInfo{}, fmt.Errorf("store: backup: %w", err)
	}
	return BackupInfo{src.manifest, src.last, src.manifest.Incarnation}, nil
}

// A source is a checkpoint and a journal that stay readable because their files are open, even if
// the files are renamed or removed.
type source struct {
	manifest Manifest
	files    []*blockReader
	segs     []segment
	handles  []Handle // the open files of segs
	last     uint64
}

func (s *source) close() {
	for _, f := range s.files {
		f.Close()
	}
	for _, f := range s.handles {
		f.Close()
	}
}

// openSource opens the source, and tries again if a checkpoint was written in between.
func openSource(ctx context.Context, fsys FS, dir string) (*source, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		m, err := readManifest(fsys, filepath.Join(dir, manifestFile))
		if err != nil {
			return nil, err
		}
		src := &source{manifest: m}
		if err = src.open(fsys, dir); err == nil {
			return src, nil
		}
		src.close()
		again, merr := readManifest(fsys, filepath.Join(dir, manifestFile))
		if merr != nil {
			return nil, merr
		}
		if again.Checkpoint == m.Checkpoint {
			return nil, err
		}
	}
}

func (s *source) open(fsys FS, dir string) error {
	m := &s.manifest
	s.last = m.Start - 1
	// The watermark is read first: the segments read later then hold everything it covers.
	mark, err := steadyWatermark(fsys, filepath.Join(dir, watermarkFile))
	if err != nil {
		return err
	}
	if mark.epoch > m.epoch {
		return unusable(filepath.Join(dir, manifestFile),
			"the manifest is of journal epoch %d, the watermark of %d: the manifest is out of date", m.epoch, mark.epoch)
	}
	if mark.epoch == m.epoch {
		s.last = max(s.last, mark.acked)
	}
	for i := range m.Files {
		r, err := openBlocks(fsys, filepath.Join(dir, filesDir, m.Files[i].stored()), m.Files[i])
		if err != nil {
			return err
		}
		s.files = append(s.files, r)
	}
	all, err := listSegments(filepath.Join(dir, journalDir))
	if err != nil {
		return err
	}
	for _, seg := range all {
		if seg.epoch == m.epoch && seg.first <= s.last && m.Start <= s.last {
			s.segs = append(s.segs, seg)
		}
	}
	for len(s.segs) > 1 && s.segs[1].first <= m.Start {
		s.segs = s.segs[1:]
	}
	if s.last >= m.Start && (len(s.segs) == 0 || s.segs[0].first > m.Start) {
		return unusable(filepath.Join(dir, journalDir), "no segment holds entry %d", m.Start)
	}
	for i := range s.segs {
		f, _, err := s.segs[i].open(fsys)
		if err != nil {
			return err
		}
		s.handles = append(s.handles, f)
	}
	return nil
}

// steadyWatermark reads a file that another process may be overwriting. It reports damage only if
// three reads in a row fail. Without the file, its error wraps [fs.ErrNotExist].
func steadyWatermark(fsys FS, file string) (m watermark, err error) {
	for range 3 {
		var found bool
		if m, found, err = readWatermark(fsys, file); err == nil {
			if !found {
				err = fmt.Errorf("store: %s: %w, so the journal's end is not known; start the node once to make it", file,
					fs.ErrNotExist)
			}
			break
		}
	}
	return m, err
}

func (s *source) copyTo(ctx context.Context, w *frameWriter) error {
	content, err := s.manifest.encode()
	if err != nil {
		return err
	}
	if err := w.write(frameManifest, content); err != nil {
		return err
	}
	for _, f := range s.files {
		if _, err := io.Copy(contentWriter{w}, f); err != nil {
			return err
		}
	}
	for i := range s.segs {
		if err := s.copySegment(ctx, w, i); err != nil {
			return err
		}
	}
	return w.write(frameEnd, binary.LittleEndian.AppendUint64(nil, s.last))
}

// copySegment copies the entries of a segment that the checkpoint does not cover.
func (s *source) copySegment(ctx context.Context, w *frameWriter, i int) error {
	seg := &s.segs[i]
	size, err := dataSize(s.handles[i])
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	sc := newScanner(s.handles[i], size)
	if err := seg.begin(sc, s.manifest.Incarnation); err != nil {
		return seg.fault(err)
	}
	end := s.last
	if i+1 < len(s.segs) {
		end = s.segs[i+1].first - 1
	}
	return seg.entries(ctx, sc, s.manifest.Start, end, func(index uint64, entry []byte) error {
		return w.write(frameEntry, binary.LittleEndian.AppendUint64(nil, index), entry)
	})
}

// A frameWriter numbers and checksums frames.
type frameWriter struct {
	w io.Writer
	n uint64
}

func (f *frameWriter) write(kind byte, payload ...[]byte) error {
	n := 0
	for _, p := range payload {
		n += len(p)
	}
	head := binary.LittleEndian.AppendUint32([]byte{kind}, uint32(n))
	sum := frameSum(f.n, kind, payload...)
	f.n++
	parts := append([][]byte{head}, payload...)
	for _, p := range append(parts, binary.LittleEndian.AppendUint32(nil, sum)) {
		if _, err := f.w.Write(p); err != nil {
			return fmt.Errorf("store: backup: %w", err)
		}
	}
	return nil
}

func frameSum(n uint64, kind byte, payload ...[]byte) uint32 {
	head := append(binary.LittleEndian.AppendUint64(nil, n), kind)
	sum := crc32.Checksum(head, castagnoli)
	for _, p := range payload {
		sum = crc32.Update(sum, castagnoli, p)
	}
	return sum
}

// contentWriter turns every write into a frame.
type contentWriter struct{ f *frameWriter }

func (c contentWriter) Write(p []byte) (int, error) { return len(p), c.f.write(frameContent, p) }

// A frameReader reads a backup. It never allocates more bytes than the stream has.
type frameReader struct {
	r      *bufio.Reader
	n      uint64 // number of frames read
	offset int64  // end of the last good frame
	buf    []byte
}

var errTruncated = errors.New("the backup ends in the middle")

func newFrameReader(r *bufio.Reader) (*frameReader, error) {
	head := make([]byte, len(backupMagic)+2)
	if _, err := io.ReadFull(r, head); err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
		return nil, fmt.Errorf("store: restore: %w", err)
	}
	v := binary.LittleEndian.Uint16(head[len(backupMagic):])
	if string(head[:len(backupMagic)]) != backupMagic || v != backupVersion {
		return nil, fmt.Errorf("store: restore: %w: not a backup of version %d", ErrFormat, backupVersion)
	}
	return &frameReader{r: r, offset: int64(len(head))}, nil
}

// next returns the next frame, whose payload is valid until the next call.
func (f *frameReader) next() (kind byte, payload []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(f.r, head[:]); err != nil {
		return 0, nil, f.fault(err)
	}
	n := binary.LittleEndian.Uint32(head[1:])
	if n > maxFrame {
		return 0, nil, f.fault(fmt.Errorf("a frame of %d bytes, limit %d", n, maxFrame))
	}
	f.buf = f.buf[:0]
	for want := int(n) + 4; len(f.buf) < want; {
		have := len(f.buf)
		piece := min(want-have, max(leastPiece, have))
		f.buf = append(f.buf, make([]byte, piece)...)
		if _, err := io.ReadFull(f.r, f.buf[have:]); err != nil {
			return 0, nil, f.fault(err)
		}
	}
	payload = f.buf[:n]
	if binary.LittleEndian.Uint32(f.buf[n:]) != frameSum(f.n, head[0], payload) {
		return 0, nil, f.fault(errors.New("checksum mismatch"))
	}
	f.n++
	f.offset += int64(n) + frameOverhead
	return head[0], payload, nil
}

// want returns the payload of the next frame, which must be of the given kind.
func (f *frameReader) want(kind byte) ([]byte, error) {
	before := f.offset
	k, p, err := f.next()
	if err == nil && k != kind {
		f.offset = before
		err = f.fault(fmt.Errorf("a frame of kind %d, want %d", k, kind))
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (f *frameReader) fault(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = errTruncated
	}
	return &DamageError{"backup", f.offset, err.Error(), "use another backup"}
}
