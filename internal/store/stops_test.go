package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A countedContext is cancelled after a number of questions whether it is.
type countedContext struct {
	context.Context
	left int
}

func (c *countedContext) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestCancelled cancels what reads or writes a whole store at each moment. It ends with the error of the context,
// leaves no file open, and changes nothing.
func TestCancelled(t *testing.T) {
	dir, want, _ := victims(t)
	damaged, _ := damagedStore(t)
	var saved bytes.Buffer
	if _, err := Backup(t.Context(), dir, &saved); err != nil {
		t.Fatal(err)
	}
	big := []File{text("big", strings.Repeat("x", 3<<20)), text("small", "y")}
	opened := func(ctx context.Context, dir string, fsys FS, do func(*Store) error) error {
		s, err := Open(dir, Options{FS: fsys})
		if err != nil {
			return err
		}
		return errors.Join(do(s), s.Close())
	}
	for name, do := range map[string]func(ctx context.Context, dir string, fsys FS) error{
		"backup": func(ctx context.Context, dir string, fsys FS) error {
			_, err := backup(ctx, fsys, dir, io.Discard)
			return err
		},
		"inspect": func(ctx context.Context, dir string, fsys FS) error {
			_, err := inspect(ctx, fsys, dir)
			return err
		},
		"inspect a damaged one": func(ctx context.Context, _ string, fsys FS) error {
			_, err := inspect(ctx, fsys, damaged)
			return err
		},
		"replay": func(ctx context.Context, dir string, fsys FS) error {
			return opened(ctx, dir, fsys, func(s *Store) error {
				return s.Replay(ctx, 3, func(uint64, []byte) error { return nil })
			})
		},
		"checkpoint": func(ctx context.Context, dir string, fsys FS) error {
			return opened(ctx, dir, fsys, func(s *Store) error { return s.Checkpoint(ctx, 3, nil, big) })
		},
		"recover": func(ctx context.Context, dir string, fsys FS) error {
			return opened(ctx, dir, fsys, func(s *Store) error { return s.Recover(ctx, s.LastIndex()+1, nil, big) })
		},
		"restore": func(ctx context.Context, _ string, fsys FS) error {
			parent := ramDir(t)
			_, err := Restore(ctx, bytes.NewReader(saved.Bytes()), filepath.Join(parent, "store"), Options{FS: fsys})
			if names, _ := os.ReadDir(parent); err != nil && len(names) > 0 {
				t.Errorf("a restore that was cancelled leaves %v", names)
			}
			return err
		},
	} {
		cancelled := 0
		for n := 0; ; n++ {
			c := copyTree(t, dir)
			fsys := &flakyFS{FS: fastFS{}, left: -1}
			err := do(&countedContext{t.Context(), n}, c, fsys)
			if fsys.open != 0 {
				t.Fatalf("%s, cancelled at moment %d: %d files are left open", name, n, fsys.open)
			}
			if err == nil {
				break
			}
			cancelled++
			if got, rerr := readAll(c, Options{FS: fastFS{}}); !errors.Is(err, context.Canceled) || rerr != nil || got != want {
				t.Fatalf("%s, cancelled at moment %d: %v; the store is as before: %v, %v", name, n, err, got == want, rerr)
			}
			if left, err := filepath.Glob(filepath.Join(c, filesDir, "*")); err != nil || len(left) != 2 {
				t.Fatalf("%s, cancelled at moment %d: files %v, %v", name, n, left, err)
			}
		}
		if cancelled < 3 {
			t.Errorf("%s was cancelled at %d moments", name, cancelled)
		}
	}
}

// TestReplayStops ends a replay at each entry by an error of the caller, who gets that error unchanged and no further
// entry: of a sound store, of an inspection, and of a salvage that has replacements for lost entries.
func TestReplayStops(t *testing.T) {
	dir, _, _ := victims(t)
	damaged, readable := damagedStore(t)
	sound := open(t, copyTree(t, dir), Options{FS: fastFS{}})
	entries := make(map[uint64][]byte)
	for i := uint64(3); i <= 14; i++ {
		if _, ok := readable[i]; !ok {
			entries[i] = []byte("from elsewhere")
		}
	}
	salvaged := open(t, copyTree(t, damaged), Options{FS: fastFS{},
		Salvage: &Salvage{Aside: filepath.Join(ramDir(t), "aside"), Entries: entries}})
	n, err := Inspect(t.Context(), damaged)
	if err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	for name, tt := range map[string]struct {
		replay func(context.Context, func(uint64, []byte) error) error
		want   int
	}{
		"sound": {func(ctx context.Context, fn func(uint64, []byte) error) error { return sound.Replay(ctx, 3, fn) }, 12},
		"salvaged": {func(ctx context.Context, fn func(uint64, []byte) error) error { return salvaged.Replay(ctx, 3, fn) },
			12},
		"inspected": {n.Replay, len(readable)},
	} {
		for stop := range tt.want + 1 {
			got := 0
			err := tt.replay(t.Context(), func(uint64, []byte) error {
				if got == stop {
					return enough
				}
				got++
				return nil
			})
			if got != stop || err != enough && stop < tt.want || err != nil && stop == tt.want {
				t.Errorf("%s, stopped after %d of %d entries: %d entries, %v", name, stop, tt.want, got, err)
			}
		}
	}
}

// TestOtherFormats gives files and segments other versions and magic numbers, with right checksums. A start, an
// inspection and a backup name the file, and report whether a newer program wrote it.
func TestOtherFormats(t *testing.T) {
	dir, _, paths := victims(t)
	for _, path := range paths {
		head, version := 0, 0
		switch filepath.Dir(path) {
		case filesDir:
			head, version = fileHead, 4
		case journalDir:
			head, version = segmentHead, len(segmentMagic)
		default:
			continue
		}
		for what, tt := range map[string]struct {
			change func(b []byte)
			want   error
		}{
			"newer":   {func(b []byte) { b[version] += 3 }, ErrNewer},
			"older":   {func(b []byte) { b[version] = 0 }, ErrFormat},
			"another": {func(b []byte) { b[0] = 'X' }, ErrFormat},
		} {
			c := copyTree(t, dir)
			file := filepath.Join(c, path)
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			tt.change(b)
			binary.LittleEndian.PutUint32(b[head-4:], crc32.Checksum(b[:head-4], castagnoli))
			if err := os.WriteFile(file, b, 0o600); err != nil {
				t.Fatal(err)
			}
			_, rerr := readAll(c, Options{FS: fastFS{}})
			_, ierr := Inspect(t.Context(), c)
			_, berr := Backup(t.Context(), c, io.Discard)
			for i, err := range []error{rerr, ierr, berr} {
				if !errors.Is(err, tt.want) || errors.Is(err, ErrNewer) != (tt.want == ErrNewer) ||
					!strings.Contains(err.Error(), file) {
					t.Errorf("%s, %s, call %d: %v", path, what, i, err)
				}
			}
		}
	}
}

// TestFoldersThatAreFiles puts a file in the place of each folder of a store. Each call names it, and changes nothing.
func TestFoldersThatAreFiles(t *testing.T) {
	dir, _, _ := victims(t)
	for _, sub := range []string{filesDir, journalDir} {
		c := copyTree(t, dir)
		path := filepath.Join(c, sub)
		if err := errors.Join(os.RemoveAll(path), os.WriteFile(path, []byte("mine"), 0o600)); err != nil {
			t.Fatal(err)
		}
		_, oerr := Open(c, Options{FS: fastFS{}})
		_, serr := Open(c, Options{FS: fastFS{}, Salvage: &Salvage{Aside: filepath.Join(ramDir(t), "aside")}})
		_, ierr := Inspect(t.Context(), c)
		_, berr := Backup(t.Context(), c, io.Discard)
		for i, err := range []error{oerr, serr, ierr, berr} {
			if err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%s, call %d: %v", sub, i, err)
			}
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != "mine" {
			t.Errorf("%s was changed: %q, %v", sub, b, err)
		}
	}
}

// TestFormerFails checks that a store is opened when it cannot be copied, and that half of a copy is removed.
func TestFormerFails(t *testing.T) {
	dir, _, _ := victims(t)
	parent := filepath.Join(ramDir(t), "file")
	if err := os.WriteFile(parent, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, folder := range map[string]string{"below a file": filepath.Join(parent, "kept"), "none": ""} {
		var log bytes.Buffer
		s := open(t, copyTree(t, dir), Options{FS: fastFS{}, Logger: logTo(&log), Former: func(meta []byte) string {
			if string(meta) != "meta" {
				t.Errorf("metadata %q", meta)
			}
			return folder
		}})
		if s.LastIndex() != 14 || strings.Contains(log.String(), "cannot be copied") != (folder != "") {
			t.Errorf("%s: last entry %d, log %s", name, s.LastIndex(), log.String())
		}
	}
}

// TestOldManifest puts the manifest of an earlier checkpoint back. An inspection and a salvage take the copy, and lose
// nothing.
func TestOldManifest(t *testing.T) {
	s := open(t, newDir(t), Options{FS: fastFS{}})
	appendN(t, s, 3, 50)
	if err := s.Checkpoint(t.Context(), 2, []byte("old"), []File{text("a", "old")}); err != nil {
		t.Fatal(err)
	}
	path := s.path(manifestFile)
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Checkpoint(t.Context(), 3, []byte("new"), []File{text("a", "new")}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), os.WriteFile(path, old, 0o600)); err != nil {
		t.Fatal(err)
	}
	n, err := Inspect(t.Context(), s.Dir())
	if err != nil || len(n.Faults) != 1 || !n.Faults[0].Mended || n.Faults[0].File != path ||
		string(n.Manifest.Meta) != "new" || n.Entries != 1 {
		t.Fatalf("%+v, %v", n, err)
	}
	// A later copy of another store says nothing about this one.
	other := n.Manifest
	other.Incarnation, other.Checkpoint = strings.Repeat("0a", incarnationBytes), 99
	text, err := other.encode()
	if err != nil {
		t.Fatal(err)
	}
	c := copyTree(t, s.Dir())
	if err := os.WriteFile(filepath.Join(c, manifestCopy), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := Inspect(t.Context(), c); err != nil || string(n.Manifest.Meta) != "old" {
		t.Errorf("with a copy of another store: %+v, %v", n, err)
	}
	s = open(t, s.Dir(), Options{FS: fastFS{}, Salvage: &Salvage{Aside: filepath.Join(ramDir(t), "aside")}})
	if got := entriesOf(t, s, 3); readFile(t, s, "a") != "new" || len(got) != 1 || got[3] != string(entry(3, 50)) {
		t.Errorf("a salvage has entries %v", got)
	}
}

// TestShrunk cuts a segment of an open store, and adds to one. A replay reports both.
func TestShrunk(t *testing.T) {
	for _, longer := range []bool{false, true} {
		s := open(t, newDir(t), Options{FS: fastFS{}, SegmentBytes: 150})
		appendN(t, s, 5, 50)
		path, size := s.segs[1].path, s.segs[1].size
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if longer {
			rec := &record{salt: s.segs[1].salt, index: s.segs[1].last + 1, data: []byte("more")}
			b = rec.append(slices.Clone(b))
			s.segs[1].size = int64(len(b)) // as after a start
		} else {
			b = b[:size-1]
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		err = s.Replay(t.Context(), 1, func(uint64, []byte) error { return nil })
		var damage *DamageError
		if !errors.As(err, &damage) || damage.File != path {
			t.Errorf("longer %v: %v", longer, err)
		}
	}
}
