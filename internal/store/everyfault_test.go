package store

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A flakyFS fails one operation of another FS, and counts the files that are open.
type flakyFS struct {
	FS
	left int    // operations before the one that fails
	last string // operation
	hit  string // the operation that failed
	hint bool   // the store can do without its result
	open int    // files
	done string // name of a file whose content is no longer needed
	// prunes: a checkpoint removes what it made obsolete, and the next one what that could not remove.
	prunes bool
}

func (f *flakyFS) step(op, path string) error {
	before := f.last
	f.last = op + " " + filepath.Base(path)
	if f.left--; f.left != -1 {
		return nil
	}
	f.hit = f.last
	f.hint = strings.Contains(f.hit, watermarkFile) || strings.Contains(f.hit, manifestCopy) ||
		op == "sync" && strings.Contains(before, manifestCopy) || op == "remove" && f.prunes
	return fmt.Errorf("%s: %w", path, errFault)
}

func (f *flakyFS) OpenFile(name string, flag int, perm fs.FileMode) (Handle, error) {
	if err := f.step("open", name); err != nil {
		return nil, err
	}
	h, err := f.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	f.open++
	return &flakyFile{Handle: h, fs: f, name: name}, nil
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
	fs      *flakyFS
	name    string
	written bool
}

// do calls an operation unless it is the one that fails.
func (f *flakyFile) do(what string, op func() (int, error)) (int, error) {
	if err := f.fs.step(what, f.name); err != nil {
		return 0, err
	}
	return op()
}

func (f *flakyFile) Read(b []byte) (int, error) {
	return f.do("read", func() (int, error) { return f.Handle.Read(b) })
}

func (f *flakyFile) ReadAt(b []byte, at int64) (int, error) {
	return f.do("read", func() (int, error) { return f.Handle.ReadAt(b, at) })
}

func (f *flakyFile) Write(b []byte) (int, error) {
	f.written = true
	return f.do("write", func() (int, error) { return f.Handle.Write(b) })
}

func (f *flakyFile) WriteAt(b []byte, at int64) (int, error) {
	f.written = true
	return f.do("write", func() (int, error) { return f.Handle.WriteAt(b, at) })
}

func (f *flakyFile) Truncate(size int64) error {
	f.written = true
	return errors.Join(f.fs.step("truncate", f.name), f.Handle.Truncate(size))
}
func (f *flakyFile) Sync() error { return errors.Join(f.fs.step("sync", f.name), f.Handle.Sync()) }

func (f *flakyFile) Stat() (fs.FileInfo, error) {
	if err := f.fs.step("stat", f.name); err != nil {
		return nil, err
	}
	return f.Handle.Stat()
}

// Close closes the file even if it fails. A file that was only read loses nothing by that.
func (f *flakyFile) Close() error {
	f.fs.open--
	err := f.fs.step("close", f.name)
	f.fs.hint = f.fs.hint || err != nil && (!f.written || filepath.Base(f.name) == f.fs.done)
	return errors.Join(err, f.Handle.Close())
}

// A faultySubject is something that a store does, of which each operation fails once.
type faultySubject struct {
	// prepare makes the folder of a store, and do works with it on a file system. check compares what do has left, after
	// it returned an error or nil, with what it must have left.
	prepare func() (dir string)
	do      func(dir string, fsys FS) error
	check   func(dir string, err error)
}

// everyFault fails the first, second, ... operation of a subject. Its error is returned and names the file, and all
// files are closed.
func everyFault(t *testing.T, name string, s faultySubject) {
	t.Helper()
	for n := 0; ; n++ {
		dir := s.prepare()
		fsys := &flakyFS{FS: fastFS{}, left: n}
		err := s.do(dir, fsys)
		if !fsys.hint && (fsys.hit != "") != errors.Is(err, errFault) {
			t.Errorf("%s, %d: %q failed, and the error is %v", name, n, fsys.hit, err)
		}
		if _, file, _ := strings.Cut(fsys.hit, " "); err != nil && !strings.Contains(err.Error(), file) {
			t.Errorf("%s, %d: %q failed, and the error does not name the file: %v", name, n, fsys.hit, err)
		}
		if fsys.open != 0 {
			t.Errorf("%s, %d: %q failed, and %d files are left open", name, n, fsys.hit, fsys.open)
		}
		s.check(dir, err)
		if t.Failed() {
			t.Fatalf("%s, %d: %q failed: %v", name, n, fsys.hit, err)
		}
		if fsys.hit == "" {
			return
		}
	}
}

// A remembered is what the caller of a store knows of it.
type remembered struct {
	t     *testing.T
	acked map[uint64]string
	tried uint64 // the entry whose Append failed; 0 for none
}

func (r *remembered) append(s *Store, n int) error {
	for range n {
		next := s.LastIndex() + 1
		index, err := s.Append(entry(next, 50))
		if err != nil {
			r.tried = next
			return err
		}
		if index != next {
			r.t.Errorf("entry %d is acknowledged as %d", next, index)
		}
		r.acked[index] = string(entry(index, 50))
	}
	return nil
}

// all returns a file with the entries below an index, which contentOfAll reads.
func all(entries map[uint64]string, below uint64) File {
	return File{"all", func(w io.Writer) error {
		for i, e := range entries {
			if i >= below {
				continue
			}
			if _, err := fmt.Fprintf(w, "%d %x.\n", i, e); err != nil {
				return err
			}
		}
		return nil
	}}
}

// contentOfAll returns the entries in the file that all has written.
func contentOfAll(t *testing.T, s *Store) map[uint64]string {
	t.Helper()
	got := make(map[uint64]string)
	if len(s.Manifest().Files) == 0 {
		return got
	}
	for line := range strings.Lines(readFile(t, s, "all")) {
		number, rest, _ := strings.Cut(strings.TrimSuffix(line, ".\n"), " ")
		i, err := strconv.ParseUint(number, 10, 64)
		e, herr := hex.DecodeString(rest)
		if err := errors.Join(err, herr); err != nil {
			t.Fatal(err)
		}
		got[i] = string(e)
	}
	return got
}

// check opens the store on a sound disk: it has every acknowledged entry, at most the one besides that was tried, and
// no file that the manifest does not name.
func (r *remembered) check(dir string, _ error) {
	r.t.Helper()
	s, err := Open(dir, Options{FS: fastFS{}})
	if err != nil {
		r.t.Errorf("the next start: %v", err)
		return
	}
	got := contentOfAll(r.t, s)
	maps.Copy(got, entriesOf(r.t, s, s.Manifest().Start))
	if text, has := got[r.tried]; has && text == string(entry(r.tried, 50)) {
		delete(got, r.tried)
	}
	if !maps.Equal(got, r.acked) {
		r.t.Errorf("%d entries after %d were acknowledged", len(got), len(r.acked))
	}
	names, err := os.ReadDir(s.path(filesDir))
	if err != nil || len(names) != len(s.Manifest().Files) {
		r.t.Errorf("files %v, %v; the manifest names %d", names, err, len(s.Manifest().Files))
	}
	if err := s.Close(); err != nil {
		r.t.Error(err)
	}
}

// damagedStore returns a store with damage in a segment, in a file and in the manifest, and what can be read of its
// journal.
func damagedStore(t *testing.T) (dir string, readable map[uint64]string) {
	t.Helper()
	dir, _, paths := victims(t)
	o := Options{FS: fastFS{}}
	s := open(t, copyTree(t, dir), o)
	readable = entriesOf(t, s, s.Manifest().Start)
	segments := 0
	for _, path := range paths {
		b, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case path == manifestFile:
			b[len(b)/2] ^= 4 // one bit, which is mended
		case filepath.Dir(path) == filesDir && strings.HasPrefix(filepath.Base(path), "pages"):
			b[blockBytes+500] ^= 0xff
		case filepath.Dir(path) == journalDir:
			if segments++; segments == 1 {
				b[segmentHead+recordHead+5] ^= 4 // one bit of entry 1, which the checkpoint covers
			} else if segments == 2 {
				clear(b[segmentHead+1 : segmentHead+recordHead])
			}
		}
		if err := os.WriteFile(filepath.Join(dir, path), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n, err := Inspect(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	lost := 0
	for _, f := range n.Faults {
		for i := f.First; i <= f.Last && f.Last > 0; i++ {
			delete(readable, i)
			lost++
		}
	}
	if lost == 0 || len(readable) < 5 {
		t.Fatalf("%d entries are lost, and %d can be read", lost, len(readable))
	}
	return dir, readable
}

// TestEveryFault fails the first, second, ... operation of what reads, writes, mends or restores a store. The error is
// returned, except for what the store can do without, and a later attempt on a sound disk finds all that it must.
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
	last, sound := s.LastIndex(), s.Dir()
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
	damaged, readable := damagedStore(t)
	reference, err := Inspect(t.Context(), damaged)
	if err != nil {
		t.Fatal(err)
	}
	memory := &remembered{t: t}
	fresh := func() string {
		memory.acked, memory.tried = make(map[uint64]string), 0
		return newDir(t)
	}
	renamed := false
	salvage := func(dir string, fsys FS) (*Store, error) {
		return Open(dir, Options{FS: fsys, Salvage: &Salvage{Aside: filepath.Join(filepath.Dir(dir), "aside")}})
	}
	for name, subject := range map[string]faultySubject{
		"open": {
			prepare: func() string { return sound },
			do:      whole,
			check:   func(dir string, _ error) { noError(t, whole(dir, fastFS{})) },
		},
		"restore": {
			prepare: func() string { return filepath.Join(ramDir(t), "restored") },
			do: func(dir string, fsys FS) error {
				_, err := Restore(t.Context(), bytes.NewReader(saved.Bytes()), dir, Options{FS: fsys})
				renamed = fsys.(*flakyFS).hit == "rename restored" // it fails, and the folder has its name all the same
				return err
			},
			check: func(dir string, err error) {
				if err == nil {
					noError(t, whole(dir, fastFS{}))
				}
				if left, _ := os.ReadDir(filepath.Dir(dir)); err != nil && len(left) > 0 && !renamed {
					t.Errorf("left %v", left)
				}
			},
		},
		"append and checkpoint": {
			prepare: fresh,
			do: func(dir string, fsys FS) error {
				fsys.(*flakyFS).prunes = true
				s, err := Open(dir, Options{FS: fsys, SegmentBytes: 200})
				if err != nil {
					return err
				}
				if err = memory.append(s, 5); err == nil {
					err = s.Checkpoint(t.Context(), 4, []byte("m"), []File{all(memory.acked, 4)})
				}
				if err == nil {
					err = memory.append(s, 4)
				}
				return errors.Join(err, s.Close())
			},
			check: memory.check,
		},
		"recover": {
			prepare: fresh,
			do: func(dir string, fsys FS) error {
				s, err := Open(dir, Options{FS: fsys})
				if err != nil {
					return err
				}
				if err = memory.append(s, 3); err == nil {
					fsys.(*flakyFS).done, fsys.(*flakyFS).prunes = segmentName(1, 1), true
					err = s.Recover(t.Context(), 4, []byte("m"), []File{all(memory.acked, 4)})
				}
				if err == nil {
					err = memory.append(s, 2)
				}
				return errors.Join(err, s.Close())
			},
			check: memory.check,
		},
		"a torn entry": {
			prepare: func() string {
				dir := copyTree(t, sound)
				segs, err := listSegments(filepath.Join(dir, journalDir))
				if err != nil {
					t.Fatal(err)
				}
				path := segs[len(segs)-1].path
				mark := watermark{epoch: 1, acked: last - 1, durable: last - 1}
				if err := errors.Join(os.Truncate(path, fileSize(t, path)-3),
					os.WriteFile(filepath.Join(dir, watermarkFile), mark.encode(), 0o600)); err != nil {
					t.Fatal(err)
				}
				return dir
			},
			do: func(dir string, fsys FS) error {
				fsys.(*flakyFS).prunes = true // a segment without entries
				s, err := Open(dir, Options{FS: fsys})
				if err != nil {
					return err
				}
				return s.Close()
			},
			check: func(dir string, _ error) {
				s, err := Open(dir, Options{FS: fastFS{}})
				if err != nil {
					t.Error(err)
					return
				}
				checkReplay(t, s, 3, last-1, 50)
				noError(t, s.Close())
			},
		},
		"an entry that may not be on the disk": {
			prepare: func() string {
				dir := copyTree(t, sound)
				mark := watermark{epoch: 1, acked: last, durable: last - 1}
				if err := os.WriteFile(filepath.Join(dir, watermarkFile), mark.encode(), 0o600); err != nil {
					t.Fatal(err)
				}
				return dir
			},
			do:    whole,
			check: func(dir string, _ error) { noError(t, whole(dir, fastFS{})) },
		},
		"a folder of version 0.1": {
			prepare: func() string { return oldStore(t, "checkpointed") },
			do: func(dir string, fsys FS) error {
				s, err := Open(dir, Options{FS: fsys})
				if err != nil {
					return err
				}
				return s.Close()
			},
			check: func(dir string, _ error) {
				if s := open(t, dir, Options{FS: fastFS{}}); s.LastIndex() != 5 || readFile(t, s, "state") != "what was known" {
					t.Errorf("last entry %d", s.LastIndex())
				}
			},
		},
		"inspect": {
			prepare: func() string { return damaged },
			do: func(dir string, fsys FS) error {
				n, err := inspect(t.Context(), fsys, dir)
				if err == nil && n.Readable && !fsys.(*flakyFS).hint && !slices.Equal(n.Faults, reference.Faults) {
					t.Errorf("faults %+v, want %+v", n.Faults, reference.Faults)
				}
				return err
			},
			check: func(string, error) {},
		},
		"salvage": {
			prepare: func() string { return copyTree(t, damaged) },
			do: func(dir string, fsys FS) error {
				s, err := salvage(dir, fsys)
				if err != nil {
					return err
				}
				fsys.(*flakyFS).prunes = true
				got := make(map[uint64]string)
				err = s.Replay(t.Context(), s.Manifest().Start, func(i uint64, e []byte) error {
					got[i] = string(e)
					return nil
				})
				if err == nil {
					err = s.Recover(t.Context(), s.LastIndex()+1, nil, []File{all(got, s.LastIndex()+1)})
				}
				if err == nil {
					_, err = s.Append([]byte("after"))
				}
				return errors.Join(err, s.Close())
			},
			check: func(dir string, err error) {
				s, serr := salvage(dir, fastFS{})
				if serr != nil {
					t.Errorf("the next salvage: %v", serr)
					return
				}
				defer s.Close()
				got, m := entriesOf(t, s, s.Manifest().Start), s.Manifest()
				if _, ferr := m.find("all"); ferr == nil { // written anew
					for i, e := range got {
						if e != "after" {
							t.Errorf("entry %d is %.40q", i, e)
						}
					}
					got = contentOfAll(t, s)
				} else if err == nil {
					t.Error("nothing was written anew")
				}
				if !maps.Equal(got, readable) {
					t.Errorf("%d entries can be read, want %d", len(got), len(readable))
				}
			},
		},
	} {
		everyFault(t, name, subject)
	}
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}
