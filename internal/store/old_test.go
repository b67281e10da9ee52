package store

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The folders of testdata/goleveldb were written by version 0.1: entries 1 to 5, of
// which the third has 33000 bytes and so lies in two blocks; one with a checkpoint
// of all, as a clean stop leaves it, one with a checkpoint of the first four.
const oldSegment = journalDir + "/0000000000000001-0000000000000001.log"

func oldStore(t testing.TB, name string) string {
	t.Helper()
	return copyTree(t, filepath.Join("testdata", "goleveldb", name))
}

// TestOldStore: a folder that the old release left with all in its checkpoint is
// opened, and goes on in the new format.
func TestOldStore(t *testing.T) {
	dir := oldStore(t, "checkpointed")
	var backup bytes.Buffer
	if _, err := Backup(t.Context(), dir, &backup); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, Options{FS: fastFS{}})
	if _, err := os.Stat(filepath.Join(dir, oldSegment)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old segment is still there: %v", err)
	}
	for range 2 {
		if s.LastIndex() != 5 || s.Manifest().Start != 6 || readFile(t, s, "state") != "what was known" {
			t.Fatalf("last index %d, manifest %+v", s.LastIndex(), s.Manifest())
		}
		checkReplay(t, s, 6, 5, 0)
		s = reopen(t, s, Options{FS: fastFS{}})
	}
	appendN(t, s, 3, 20)
	checkReplay(t, reopen(t, s, Options{FS: fastFS{}}), 6, 8, 20)
	restored := newDir(t)
	if _, err := Restore(t.Context(), &backup, restored, Options{FS: fastFS{}}); err != nil {
		t.Fatal(err)
	}
}

// TestOldEntries: a folder whose old journal holds what no checkpoint has, or may
// hold it, is refused with the way out, and not changed. That the watermark is out of
// date, as after a power loss, changes nothing.
func TestOldEntries(t *testing.T) {
	change := map[string]func([]byte) []byte{
		"whole":      func(b []byte) []byte { return b },
		"torn":       func(b []byte) []byte { return b[:len(b)-3] },
		"torn early": func(b []byte) []byte { return b[:100] },
		"few bytes":  func(b []byte) []byte { return append(b, 1, 2, 3) },
		"flipped":    func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
	}
	for name, change := range change {
		for _, old := range []string{"entries", "checkpointed"} {
			if name == "whole" && old == "checkpointed" {
				continue
			}
			dir := oldStore(t, old)
			path := filepath.Join(dir, oldSegment)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			b = change(b)
			mark := watermark{epoch: 1, acked: 4, durable: 4}
			if err := errors.Join(os.WriteFile(path, b, 0o600),
				os.WriteFile(filepath.Join(dir, watermarkFile), mark.encode(), 0o600)); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if _, err := Open(dir, Options{FS: fastFS{}}); !errors.Is(err, ErrFormat) || !named(err, path) ||
					!strings.Contains(err.Error(), "once more and stop it with SIGTERM") {
					t.Errorf("%s, %s: %v", old, name, err)
				}
			}
			if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, b) {
				t.Errorf("%s, %s: the refused segment was changed, %v", old, name, err)
			}
		}
	}
	if _, err := Backup(t.Context(), oldStore(t, "entries"), io.Discard); !errors.Is(err, ErrFormat) ||
		!strings.Contains(err.Error(), "SIGTERM") {
		t.Errorf("backup of a folder with old entries: %v", err)
	}
}

// FuzzOldSegment: no bytes make the reader of old segments fail, or believe in an
// entry that has no right checksum.
func FuzzOldSegment(f *testing.F) {
	b, err := os.ReadFile(filepath.Join("testdata", "goleveldb", "entries", oldSegment))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(b[:300])
	f.Add(b[:90])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		isOld(b)
		last, whole, err := oldLast(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if len(b) == 0 && (last != 0 || !whole) || len(b) > 0 && len(b) < oldChunkHead && whole {
			t.Errorf("%x: last entry %d, whole %v", b, last, whole)
		}
		if longer, _, _ := oldLast(bytes.NewReader(append(bytes.Clone(b), 1))); longer != last {
			t.Errorf("with a byte behind it the last entry is %d, was %d", longer, last)
		}
	})
}

// TestFormer copies a store before it is opened: the copy is a store of the same contents, whatever happens to
// the original afterwards, and it takes the place of an earlier copy. A refused store leaves no copy.
func TestFormer(t *testing.T) {
	dir, kept := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "aside", "kept")
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if _, err := s.Append([]byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for n := uint64(5); n < 7; n++ {
		s, err = Open(dir, Options{Former: func([]byte) string { return kept }})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Append([]byte{9}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		found, err := Inspect(t.Context(), kept)
		if err != nil || found.LastIndex != n || len(found.Faults) > 0 {
			t.Fatalf("the copy: %+v, %v, want %d entries", found, err, n)
		}
	}
	refused := oldStore(t, "entries")
	if _, err := Open(refused, Options{Former: func([]byte) string { return kept }}); !errors.Is(err, ErrFormat) {
		t.Errorf("a store that is refused: %v", err)
	}
	if _, err := os.Stat(kept); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused store leaves a copy: %v", err)
	}
}
