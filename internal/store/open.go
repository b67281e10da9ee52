package store

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	lockFile      = "LOCK"
	manifestFile  = "MANIFEST"
	manifestCopy  = "MANIFEST.copy"
	watermarkFile = "watermark"
	filesDir      = "files"
	journalDir    = "journal"
)

// Open opens the store in dir, or makes an empty one if dir is empty or does not exist; its parent
// must exist. It locks the directory against other processes, checks that no other user can read
// it, and reads the manifest. It finds the end of the journal, and drops the remains of a torn
// write there.
//
// Errors wrap [ErrInUse], [ErrPermission], [ErrFormat], a [*DamageError], or the operating system's
// error. A failed Open has removed nothing that a later one would need.
func Open(dir string, o Options) (*Store, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	s := &Store{dir: dir, opts: o, log: o.Logger, fs: o.FS, stop: make(chan struct{})}
	if err := prepareDir(s.fs, dir); err != nil {
		return nil, err
	}
	lock, err := lockDir(s.fs, s.path(lockFile))
	if err != nil {
		return nil, err
	}
	s.lock = lock
	load := s.load
	if o.Salvage != nil {
		load = s.salvage
	}
	if err := load(); err != nil {
		if s.mark != nil {
			err = errors.Join(err, s.mark.Close())
		}
		return nil, errors.Join(err, lock.Close())
	}
	if o.Durability == Relaxed {
		s.syncing.Go(s.syncLoop)
	}
	return s, nil
}

// prepareDir creates dir if necessary and checks that only this user has access.
func prepareDir(fsys FS, dir string) error {
	st, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fmt.Errorf("store: %w", err)
		}
		if err := fsys.SyncDir(filepath.Dir(dir)); err != nil {
			return fmt.Errorf("store: %w", err)
		}
		st, err = os.Stat(dir)
	}
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if !st.IsDir() {
		return fmt.Errorf("store: %s: %w", dir, syscall.ENOTDIR)
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok && int(sys.Uid) != os.Geteuid() {
		return fmt.Errorf("store: %s: %w: owned by user %d, and this process runs as %d; run it as the owner, or use chown",
			dir, ErrPermission, sys.Uid, os.Geteuid())
	}
	if perm := st.Mode().Perm(); perm != 0o700 {
		return fmt.Errorf("store: %s: %w: mode %04o, want 0700; use chmod 0700 %s", dir, ErrPermission, perm, dir)
	}
	return nil
}

// lockDir takes the lock, which the system releases when the process ends.
func lockDir(fsys FS, file string) (Handle, error) {
	f, err := fsys.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	if fd, ok := f.(interface{ Fd() uintptr }); ok {
		err = syscall.Flock(int(fd.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		pid, _ := io.ReadAll(io.LimitReader(f, 20))
		err = fmt.Errorf("store: %s: %w by process %s", filepath.Dir(file), ErrInUse, strings.TrimSpace(string(pid)))
	} else if err == nil {
		pid := fmt.Appendf(nil, "%d\n", os.Getpid())
		if err = f.Truncate(0); err == nil {
			_, err = f.WriteAt(pid, 0)
		}
		if err != nil {
			err = fmt.Errorf("store: %w", err)
		}
	} else {
		err = fmt.Errorf("store: lock %s: %w", file, err)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// load reads everything except the content of checkpoint files and finished segments. It repairs a
// torn tail only after everything else was found intact.
func (s *Store) load() error {
	m, err := readManifest(s.fs, s.path(manifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		m, err = s.create()
	}
	if err != nil {
		return err
	}
	s.manifest, s.id, s.epoch = m, m.Incarnation, m.epoch
	kept := s.keepFormer()
	if err := s.loadRest(); err != nil {
		return errors.Join(err, os.RemoveAll(kept)) // nothing was changed
	}
	return nil
}

// loadRest is load after the manifest was read.
func (s *Store) loadRest() error {
	m := &s.manifest
	// The process that renamed the manifest may not have made the rename durable. Files that the
	// manifest does not name must not be removed before it is.
	if err := s.fs.SyncDir(s.dir); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	content, err := m.encode()
	if err != nil {
		return err
	}
	if spare, err := os.ReadFile(s.path(manifestCopy)); err != nil || !bytes.Equal(spare, content) {
		s.copyManifest(content)
	}
	mark, found, err := readWatermark(s.fs, s.path(watermarkFile))
	if err != nil {
		return err
	}
	if !found {
		s.log.Warn("the journal has no watermark", "file", s.path(watermarkFile),
			"consequence", "the end of the journal itself is trusted")
	}
	for i := range m.Files {
		r, err := openBlocks(s.fs, s.path(filesDir, m.Files[i].stored()), m.Files[i])
		if err != nil {
			return err
		}
		if err := r.Close(); err != nil {
			return fmt.Errorf("store: %w", err)
		}
	}
	if err := s.openJournal(mark); err != nil {
		return err
	}
	if err := s.sweepFiles(); err != nil {
		return err
	}
	return s.openMark(!found)
}

// create makes an empty store and writes the manifest last: without a manifest the next Open starts
// over, and with it the store is complete.
func (s *Store) create() (Manifest, error) {
	if err := s.mustBeEmpty(); err != nil {
		return Manifest{}, err
	}
	m := Manifest{Start: 1, epoch: 1}
	var err error
	if m.Incarnation, err = newIncarnation(s.opts.Random); err != nil {
		return Manifest{}, err
	}
	if err := makeDirs(s.dir); err != nil {
		return Manifest{}, err
	}
	if err := writeNew(s.fs, s.path(watermarkFile), watermark{epoch: m.epoch}.encode()); err != nil {
		return Manifest{}, err
	}
	content, err := m.encode()
	if err != nil {
		return Manifest{}, err
	}
	_, err = replaceFile(s.fs, s.dir, s.path(manifestFile), content)
	return m, err
}

func makeDirs(dir string) error {
	for _, sub := range []string{filesDir, journalDir} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("store: %w", err)
		}
	}
	return nil
}

// mustBeEmpty refuses to begin a new store over the remains of another.
func (s *Store) mustBeEmpty() error {
	for _, sub := range []string{filesDir, journalDir} {
		names, err := os.ReadDir(s.path(sub))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("store: %w", err)
		}
		if len(names) > 0 {
			return unusable(s.path(manifestFile), "the file is missing, and %s holds %d files", s.path(sub), len(names))
		}
	}
	mark, _, err := readWatermark(s.fs, s.path(watermarkFile))
	if err == nil && mark.acked > 0 {
		return unusable(s.path(manifestFile), "the file is missing, but the watermark counts %d entries", mark.acked)
	}
	return nil // a crash in create leaves only an unreadable watermark
}

func newIncarnation(random io.Reader) (string, error) {
	var id [incarnationBytes]byte
	if _, err := io.ReadFull(random, id[:]); err != nil {
		return "", fmt.Errorf("store: random source: %w", err)
	}
	return hex.EncodeToString(id[:]), nil
}

// openMark opens the watermark for writing and raises it to the state that was found.
func (s *Store) openMark(create bool) error {
	if create {
		m := watermark{epoch: s.epoch, acked: s.last, durable: s.durable}
		if _, err := replaceFile(s.fs, s.dir, s.path(watermarkFile), m.encode()); err != nil {
			return err
		}
	}
	f, err := s.fs.OpenFile(s.path(watermarkFile), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	s.mark = f
	if err := s.writeMark(s.last, s.durable); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}
