package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// A File is one file of a new checkpoint.
type File struct {
	// Name is 1 to 180 letters, digits, '-', '_' and '.', and does not begin with '.'.
	Name string
	// Write writes the content; its error aborts the checkpoint. Nil means that the last
	// checkpoint's file of this name is carried over unchanged.
	Write func(io.Writer) error
}

func (m *Manifest) find(name string) (FileInfo, error) {
	for _, f := range m.Files {
		if f.Name == name {
			return f, nil
		}
	}
	return FileInfo{}, fmt.Errorf("store: checkpoint %d has no file %q: %w", m.Checkpoint, name, fs.ErrNotExist)
}

// Checkpoint replaces the last checkpoint with files and meta, which must hold the effect of every
// entry below start. They are all that remains of the past: files of the last checkpoint that are
// not named, and journal segments without entries from start on, are removed, except those that Retain
// keeps. Every file is on disk and has been read back before the manifest names it.
//
// Start is at least Manifest().Start and at most LastIndex()+1. Append may run concurrently. After
// an error the last checkpoint is in force, and the new files are removed. If the error came when
// the new manifest was already in place, the new checkpoint may be in force instead. In either case
// one of the two is complete after a crash at any point.
func (s *Store) Checkpoint(ctx context.Context, start uint64, meta []byte, files []File) error {
	s.ckptMu.Lock()
	defer s.ckptMu.Unlock()
	if err := s.Sync(); err != nil {
		return err
	}
	m := s.Manifest()
	if last := s.LastIndex(); start < m.Start || start > last+1 {
		return fmt.Errorf("store: checkpoint from index %d, want %d to %d", start, m.Start, last+1)
	}
	next := Manifest{m.Checkpoint + 1, m.Incarnation, start, bytes.Clone(meta), nil, m.epoch}
	if err := s.writeFiles(ctx, &m, &next, files, false); err != nil {
		return errors.Join(err, s.removeNew(&next))
	}
	committed, err := s.commit(&next)
	if err != nil {
		if !committed {
			err = errors.Join(err, s.removeNew(&next))
		}
		return err
	}
	s.prune()
	return nil
}

// Recover makes a Failed store usable again. It writes the caller's memory as a checkpoint, reads
// all of it back from the disk, including files that are carried over, and begins a new journal.
// Start must be LastIndex()+1: the memory holds every acknowledged entry, and nothing of the failed
// one.
//
// After an error the store is still Failed, and the caller tries again later. Recover does no harm
// to a store that is not Failed.
func (s *Store) Recover(ctx context.Context, start uint64, meta []byte, files []File) (err error) {
	s.ckptMu.Lock()
	defer s.ckptMu.Unlock()
	s.appendMu.Lock()
	defer s.appendMu.Unlock()
	if s.isClosed() {
		return ErrClosed
	}
	if start != s.last+1 {
		return fmt.Errorf("store: recovery from index %d, want %d", start, s.last+1)
	}
	s.release()
	m := s.Manifest()
	next := Manifest{m.Checkpoint + 1, m.Incarnation, s.burned + 1, bytes.Clone(meta), nil, m.epoch + 1}
	if s.salvaged != nil {
		// Peers may have seen later entries than the ones that are left.
		if next.Incarnation, err = newIncarnation(s.opts.Random); err != nil {
			return err
		}
	}
	if err := s.writeFiles(ctx, &m, &next, files, true); err != nil {
		return errors.Join(err, s.removeNew(&next))
	}
	t, err := s.freshSegment(&next)
	if err != nil {
		return errors.Join(err, s.removeNew(&next))
	}
	committed, err := s.commit(&next)
	if err != nil {
		err = errors.Join(err, t.f.Close())
		if !committed {
			err = errors.Join(err, removeIfThere(s.fs, t.path), s.removeNew(&next))
		} else {
			s.fail(err) // the manifest and the journal may be of different epochs
		}
		return err
	}
	return s.restart(t, &next)
}

// release drops the entries that only Retain keeps: the disk may be full.
func (s *Store) release() {
	s.mu.Lock()
	retained := s.keep.from > 0
	s.keep = retention{}
	s.mu.Unlock()
	if retained {
		s.prune()
	}
}

func (s *Store) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// freshSegment writes the empty first segment of a journal, which proves that the disk accepts it.
func (s *Store) freshSegment(next *Manifest) (*segmentWriter, error) {
	dir := s.path(journalDir)
	// An earlier Recover may have failed to remove the segment that it began.
	if err := removeIfThere(s.fs, s.path(journalDir, segmentName(next.epoch, next.Start))); err != nil {
		return nil, err
	}
	t, err := createSegment(s.fs, dir, next.Incarnation, s.opts.Random, next.epoch, next.Start)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	size, err := t.write()
	if err == nil {
		t.size = size
		err = t.f.Sync()
	}
	if err == nil {
		t.f.DropCache()
		_, err = s.checkBegin(t.segment, next.Incarnation)
	}
	if err == nil {
		err = s.fs.SyncDir(dir)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("store: %w", err), t.f.Close(), removeIfThere(s.fs, t.path))
	}
	return t, nil
}

// restart makes t the journal of a manifest that was committed. The old journal is no longer needed.
func (s *Store) restart(t *segmentWriter, m *Manifest) error {
	last := m.Start - 1
	s.mu.Lock()
	old := s.tail
	s.tail, s.segs, s.epoch, s.id = t, nil, t.epoch, m.Incarnation
	s.last, s.durable, s.burned = last, last, last
	s.oldest = last + 1
	s.failure, s.salvaged = nil, nil
	for _, f := range s.followers {
		f.lost, f.queue = true, nil // indexes are skipped
	}
	s.wakeFollowers()
	s.mu.Unlock()
	if old != nil {
		if err := old.f.Close(); err != nil {
			s.log.Warn("closing the failed journal", "err", err)
		}
	}
	if err := s.writeMark(last, last); err != nil {
		s.fail(err)
		return s.Err()
	}
	s.prune()
	s.log.Info("journal recovered", "epoch", t.epoch, "next", t.first)
	return nil
}

// writeFiles fills next.Files. If reread is set, it also reads back carried-over files.
func (s *Store) writeFiles(ctx context.Context, m, next *Manifest, files []File, reread bool) error {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	for i, f := range files {
		if err := checkName(f.Name); err != nil {
			return err
		}
		if i > 0 && files[i-1].Name == f.Name {
			return fmt.Errorf("store: checkpoint with two files %q", f.Name)
		}
	}
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		info, err := m.find(f.Name)
		if f.Write != nil {
			info, err = s.writeFile(ctx, f, next.Checkpoint)
		}
		if err == nil && (f.Write != nil || reread) {
			err = verifyFile(ctx, s.fs, s.path(filesDir, info.stored()), info)
		}
		if info.seq == next.Checkpoint {
			next.Files = append(next.Files, info) // named even after an error, so that the file is removed
		}
		if err != nil {
			return err
		}
		if info.seq != next.Checkpoint {
			next.Files = append(next.Files, info)
		}
	}
	if err := s.fs.SyncDir(s.path(filesDir)); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

// writeFile writes one file under a temporary name, makes it durable and renames it. The result
// names the file even if there is an error.
func (s *Store) writeFile(ctx context.Context, file File, seq uint64) (FileInfo, error) {
	var id [8]byte
	if _, err := io.ReadFull(s.opts.Random, id[:]); err != nil {
		return FileInfo{}, fmt.Errorf("store: random source: %w", err)
	}
	info := FileInfo{Name: file.Name, id: binary.LittleEndian.Uint64(id[:]), seq: seq}
	path := s.path(filesDir, info.stored())
	err := writeBlocks(ctx, s.fs, path+tempSuffix, &info, file.Write)
	if err == nil {
		err = s.fs.Rename(path+tempSuffix, path)
	}
	if err != nil {
		return info, fmt.Errorf("store: file %s: %w", file.Name, err)
	}
	return info, nil
}

// writeBlocks writes a file in blocks, and sets the size and checksum of info.
func writeBlocks(ctx context.Context, fsys FS, path string, info *FileInfo, write func(io.Writer) error) (err error) {
	f, err := fsys.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	b := newBlockWriter(&stopper{ctx, f}, info.id)
	if err := write(b); err != nil {
		return err
	}
	if err := b.finish(); err != nil {
		return err
	}
	info.Size, info.CRC = b.size, b.crc
	if err := f.Sync(); err != nil {
		return err
	}
	f.DropCache()
	return nil
}

func verifyFile(ctx context.Context, fsys FS, path string, info FileInfo) error {
	r, err := openBlocks(fsys, path, info)
	if err != nil {
		return err
	}
	_, err = io.Copy(&stopper{ctx, io.Discard}, r)
	return errors.Join(err, r.Close())
}

// A stopper aborts a copy when its context is done.
type stopper struct {
	ctx context.Context
	w   io.Writer
}

func (s *stopper) Write(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.w.Write(p)
}

// commit puts the manifest in force; see replaceFile.
func (s *Store) commit(next *Manifest) (committed bool, err error) {
	content, err := next.encode()
	if err != nil {
		return false, err
	}
	committed, err = replaceFile(s.fs, s.dir, s.path(manifestFile), content)
	if committed {
		s.mu.Lock()
		s.manifest = *next
		s.mu.Unlock()
	}
	if err == nil {
		s.copyManifest(content)
	}
	return committed, err
}

// copyManifest writes a copy of the current manifest, for [Options].Salvage, before files of the
// previous checkpoint are removed. The store works without a copy, but an outdated copy must not
// remain.
func (s *Store) copyManifest(content []byte) {
	_, err := replaceFile(s.fs, s.dir, s.path(manifestCopy), content)
	if err != nil {
		s.log.Warn("no copy of the manifest", "err", errors.Join(err, removeIfThere(s.fs, s.path(manifestCopy))))
	}
}

// removeNew removes the files that next would have added.
func (s *Store) removeNew(next *Manifest) error {
	var errs []error
	for _, f := range next.Files {
		if f.seq == next.Checkpoint {
			path := s.path(filesDir, f.stored())
			errs = append(errs, removeIfThere(s.fs, path), removeIfThere(s.fs, path+tempSuffix))
		}
	}
	return errors.Join(errs...)
}

// prune removes files that the current manifest does not need. A failure does no harm: the next
// checkpoint, or Open, removes the remaining files.
func (s *Store) prune() {
	s.mu.Lock()
	s.oldest = s.keepFrom()
	var keep []segment
	for _, seg := range s.segs {
		if seg.last >= s.oldest {
			keep = append(keep, seg)
		}
	}
	s.segs = keep
	live := map[string]bool{}
	for _, seg := range keep {
		live[seg.path] = true
	}
	first := s.last + 1 // a segment that is created concurrently begins here or later
	if s.tail != nil {
		live[s.tail.path] = true
	}
	epoch := s.manifest.epoch
	s.mu.Unlock()
	all, err := listSegments(s.path(journalDir))
	for _, seg := range all {
		if !live[seg.path] && (seg.epoch < epoch || seg.epoch == epoch && seg.first < first) {
			// The oldest segment is removed first, and if that fails, none is removed. A gap
			// between segments could not be explained by any crash.
			if err = removeIfThere(s.fs, seg.path); err != nil {
				break
			}
		}
	}
	if err = errors.Join(err, s.sweepFiles()); err != nil {
		s.log.Warn("removing files that the last checkpoint made obsolete", "err", err)
	}
}

// sweepFiles removes checkpoint files that no manifest names. The caller holds ckptMu.
func (s *Store) sweepFiles() error {
	names, err := os.ReadDir(s.path(filesDir))
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	m := s.Manifest()
	live := map[string]bool{}
	for i := range m.Files {
		live[m.Files[i].stored()] = true
	}
	var errs []error
	for _, n := range names {
		if live[n.Name()] {
			continue
		}
		if !isStored(n.Name()) {
			s.log.Warn("unknown file in the store", "file", s.path(filesDir, n.Name()))
			continue
		}
		errs = append(errs, removeIfThere(s.fs, s.path(filesDir, n.Name())))
		yield()
	}
	return errors.Join(errs...)
}

// isStored reports whether FileInfo.stored can return name, possibly with the suffix of a temporary
// file.
func isStored(name string) bool {
	name = strings.TrimSuffix(name, tempSuffix)
	i := max(strings.LastIndexByte(name, '.'), 0)
	seq, _ := strconv.ParseUint(strings.TrimPrefix(name[i:], "."), 16, 64)
	info := FileInfo{Name: name[:i], seq: seq}
	return checkName(info.Name) == nil && name == info.stored()
}
