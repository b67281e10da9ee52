package store

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// A flakyFS fails one operation of another FS, of any kind but Close.
type flakyFS struct {
	FS
	left int    // operations before the one that fails
	last string // operation
	hit  string // the operation that failed
	hint bool   // it is about a file that the store can do without
}

func (f *flakyFS) step(op, path string) error {
	before := f.last
	f.last = op + " " + filepath.Base(path)
	if f.left--; f.left != -1 {
		return nil
	}
	f.hit = f.last
	f.hint = strings.Contains(f.hit, watermarkFile) || strings.Contains(f.hit, manifestCopy) ||
		op == "sync" && strings.Contains(before, manifestCopy)
	return errFault
}

func (f *flakyFS) OpenFile(name string, flag int, perm fs.FileMode) (Handle, error) {
	if err := f.step("open", name); err != nil {
		return nil, err
	}
	h, err := f.FS.OpenFile(name, flag, perm)
	return flakyFile{h, f, name}, err
}

func (f *flakyFS) Rename(from, to string) error {
	return errors.Join(f.step("rename", to), f.FS.Rename(from, to))
}
func (f *flakyFS) SyncDir(name string) error {
	return errors.Join(f.step("sync", name), f.FS.SyncDir(name))
}

func (f *flakyFS) Remove(name string) error {
	if err := f.step("remove", name); err != nil {
		return err
	}
	return f.FS.Remove(name)
}

type flakyFile struct {
	Handle
	fs   *flakyFS
	name string
}

// do calls an operation unless it is the one that fails.
func (f flakyFile) do(what string, op func() (int, error)) (int, error) {
	if err := f.fs.step(what, f.name); err != nil {
		return 0, err
	}
	return op()
}

func (f flakyFile) Read(b []byte) (int, error) {
	return f.do("read", func() (int, error) { return f.Handle.Read(b) })
}

func (f flakyFile) ReadAt(b []byte, at int64) (int, error) {
	return f.do("read", func() (int, error) { return f.Handle.ReadAt(b, at) })
}

func (f flakyFile) Write(b []byte) (int, error) {
	return f.do("write", func() (int, error) { return f.Handle.Write(b) })
}

func (f flakyFile) WriteAt(b []byte, at int64) (int, error) {
	return f.do("write", func() (int, error) { return f.Handle.WriteAt(b, at) })
}

func (f flakyFile) Truncate(size int64) error {
	return errors.Join(f.fs.step("truncate", f.name), f.Handle.Truncate(size))
}
func (f flakyFile) Sync() error { return errors.Join(f.fs.step("sync", f.name), f.Handle.Sync()) }

func (f flakyFile) Stat() (fs.FileInfo, error) {
	if err := f.fs.step("stat", f.name); err != nil {
		return nil, err
	}
	return f.Handle.Stat()
}

// TestEveryFault fails the first, second, ... operation of what reads a store or makes one of a backup. The error is
// returned, except for the watermark and the copy of the manifest, and a later attempt finds all entries.
func TestEveryFault(t *testing.T) {
	s := open(t, newDir(t), Options{SegmentBytes: 200})
	appendN(t, s, 4, 50)
	if err := s.Checkpoint(t.Context(), 3, []byte("meta"), []File{text("a", "content")}); err != nil {
		t.Fatal(err)
	}
	appendN(t, s, 8, 50)
	var saved bytes.Buffer
	if _, err := s.Backup(t.Context(), &saved); err != nil {
		t.Fatal(err)
	}
	last, dir := s.LastIndex(), s.Dir()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole := func(dir string, fsys FS) error {
		s, err := Open(dir, Options{FS: fsys})
		if err != nil {
			return err
		}
		var b bytes.Buffer
		_, err = s.Backup(t.Context(), &b)
		n := s.Manifest().Start
		err = errors.Join(err, s.Replay(t.Context(), n, func(i uint64, e []byte) error {
			if i != n || !bytes.Equal(e, entry(i, 50)) {
				t.Errorf("entry %d is %q, want entry %d", i, e, n)
			}
			n++
			return nil
		}))
		if err == nil && n != last+1 {
			t.Errorf("the entries end before %d, want %d", n, last+1)
		}
		return errors.Join(err, s.Close())
	}
	for name, do := range map[string]func(dir string, fsys FS) error{
		"restore": func(dir string, fsys FS) error {
			_, err := Restore(t.Context(), bytes.NewReader(saved.Bytes()), dir, Options{FS: fsys})
			return err
		},
		"open": func(_ string, fsys FS) error { return whole(dir, fsys) },
	} {
		t.Run(name, func(t *testing.T) {
			for n := 0; ; n++ {
				to := filepath.Join(ramDir(t), "restored")
				fsys := &flakyFS{FS: fastFS{}, left: n}
				err := do(to, fsys)
				if !fsys.hint && (fsys.hit != "") != errors.Is(err, errFault) {
					t.Errorf("%d: %q failed, and the error is %v", n, fsys.hit, err)
				}
				at := dir
				if name == "restore" && err == nil {
					at = to
				}
				if err := whole(at, fastFS{}); err != nil {
					t.Fatalf("after a fault in %q: %v", fsys.hit, err)
				}
				if fsys.hit == "" {
					return
				}
			}
		})
	}
}
