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
	"os"
	"path/filepath"
	"syscall"
)

// Restore makes a store from a backup in dir, which must be empty or not exist; its parent must
// exist. The store gets a new incarnation. Everything is checked while it is read, and again on the
// disk. After an error dir is empty or does not exist, as before.
func Restore(ctx context.Context, r io.Reader, dir string, o Options) (info BackupInfo, err error) {
	if err := o.complete(); err != nil {
		return BackupInfo{}, err
	}
	if err := mustBeFree(dir); err != nil {
		return BackupInfo{}, err
	}
	// An interrupted restore must not look like a store, so it has another name until it is
	// complete.
	dir = filepath.Clean(dir)
	temp, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".restore-")
	if err != nil {
		return BackupInfo{}, fmt.Errorf("store: restore: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(temp))
		}
	}()
	from, err := fill(ctx, r, temp, o)
	if err != nil {
		return BackupInfo{}, err
	}
	if info, err = verify(ctx, temp, o); err != nil {
		return BackupInfo{}, err
	}
	info.From = from
	if err := removeIfThere(o.FS, dir); err != nil { // dir is empty, or this fails
		return BackupInfo{}, err
	}
	if err := o.FS.Rename(temp, dir); err != nil {
		return BackupInfo{}, fmt.Errorf("store: restore: %w", err)
	}
	temp = dir // what the next error removes
	if err := o.FS.SyncDir(filepath.Dir(dir)); err != nil {
		return BackupInfo{}, fmt.Errorf("store: restore: %w", err)
	}
	return info, nil
}

func mustBeFree(dir string) error {
	names, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("store: restore: %w", err)
	}
	if len(names) > 0 {
		return fmt.Errorf("store: restore: %s: %w; it holds %s and %d other files: restore into an empty directory", dir,
			syscall.ENOTEMPTY, names[0].Name(), len(names)-1)
	}
	return nil
}

// fill copies the backup into a new store, and returns the incarnation of the original.
func fill(ctx context.Context, r io.Reader, dir string, o Options) (from string, err error) {
	fr, err := newFrameReader(bufio.NewReaderSize(r, bufferBytes))
	if err != nil {
		return "", err
	}
	content, err := fr.want(frameManifest)
	if err != nil {
		return "", err
	}
	m, err := decodeManifest("backup", content)
	if err != nil {
		return "", err
	}
	o.Durability = Relaxed // one sync at the end is enough
	s, err := Open(dir, o)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	// A new store whose journal failed at the entry before the checkpoint is in the state that
	// Recover repairs.
	s.mu.Lock()
	s.last, s.burned = m.Start-1, m.Start-1
	s.mu.Unlock()
	if err := s.Recover(ctx, m.Start, m.Meta, contents(fr, &m)); err != nil {
		return "", err
	}
	if err := fillJournal(ctx, fr, s); err != nil {
		return "", err
	}
	return m.Incarnation, nil // the store is synced when it is closed
}

// contents returns the files of m, each of which reads its content from fr. They must be written in
// order.
func contents(fr *frameReader, m *Manifest) []File {
	files := make([]File, len(m.Files))
	for i, info := range m.Files {
		files[i] = File{info.Name, func(w io.Writer) error {
			var crc uint32
			for left := info.Size; left > 0; {
				p, err := fr.want(frameContent)
				if err != nil {
					return err
				}
				if int64(len(p)) > left || len(p) == 0 {
					return fr.fault(fmt.Errorf("%d bytes for file %s, want 1 to %d", len(p), info.Name, left))
				}
				left -= int64(len(p))
				crc = crc32.Update(crc, castagnoli, p)
				if _, err := w.Write(p); err != nil {
					return err
				}
			}
			if crc != info.CRC {
				return fr.fault(fmt.Errorf("checksum of file %s is %08x, the manifest says %08x", info.Name, crc, info.CRC))
			}
			return nil
		}}
	}
	return files
}

func fillJournal(ctx context.Context, fr *frameReader, s *Store) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		kind, p, err := fr.next()
		if err != nil {
			return err
		}
		last := s.LastIndex()
		switch {
		case kind == frameEnd && len(p) == 8 && binary.LittleEndian.Uint64(p) == last:
			if _, err := fr.r.ReadByte(); err != io.EOF {
				return fr.fault(errors.New("bytes after the end of the backup"))
			}
			return nil
		case kind == frameEntry && len(p) >= 8 && binary.LittleEndian.Uint64(p) == last+1:
			if _, err := s.Append(p[8:]); err != nil {
				return err
			}
		default:
			return fr.fault(fmt.Errorf("a frame of kind %d and %d bytes is not what follows entry %d", kind, len(p), last))
		}
	}
}

// verify reads the whole store as a starting node does.
func verify(ctx context.Context, dir string, o Options) (info BackupInfo, err error) {
	s, err := Open(dir, o)
	if err != nil {
		return BackupInfo{}, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	m := s.Manifest()
	for _, f := range m.Files {
		if err := verifyFile(ctx, s.fs, s.path(filesDir, f.stored()), f); err != nil {
			return BackupInfo{}, err
		}
	}
	if err := s.Replay(ctx, m.Start, func(uint64, []byte) error { return nil }); err != nil {
		return BackupInfo{}, err
	}
	return BackupInfo{Manifest: m, LastIndex: s.LastIndex(), From: m.Incarnation}, nil
}
