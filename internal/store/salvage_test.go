package store

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// entriesOf returns the entries that a store replays from an index on.
func entriesOf(t *testing.T, s *Store, from uint64) map[uint64]string {
	t.Helper()
	all := make(map[uint64]string)
	last := from - 1
	err := s.Replay(t.Context(), from, func(index uint64, entry []byte) error {
		if index <= last {
			t.Errorf("entry %d after entry %d", index, last)
		}
		last, all[index] = index, string(entry)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestSalvage damages every file of a store in several ways. A salvage passes on each entry as it was written
// or as its replacement, keeps the damaged file, and takes entries again once all was written anew.
func TestSalvage(t *testing.T) {
	dir, _, paths := victims(t)
	o := Options{SegmentBytes: 40_000, FS: fastFS{}}
	s := open(t, copyTree(t, dir), o)
	start, last := s.Manifest().Start, s.LastIndex()
	want := entriesOf(t, s, start)
	elsewhere := make(map[uint64][]byte)
	for i := range want {
		elsewhere[i] = fmt.Appendf(nil, "entry %d from elsewhere", i)
	}
	elsewhere[start-1], elsewhere[last+1] = []byte("an entry before"), []byte("an entry behind")
	rng := rand.New(rand.NewPCG(5, 6))
	for _, path := range paths {
		for what, change := range map[string]func([]byte) []byte{
			"deleted":  func([]byte) []byte { return nil },
			"cut":      func(b []byte) []byte { return b[:rng.IntN(len(b))] },
			"zeroed":   func(b []byte) []byte { clear(b[len(b)/3 : 2*len(b)/3+1]); return b },
			"replaced": func(b []byte) []byte { return bytes.Repeat([]byte("x"), len(b)) },
		} {
			name := path + " " + what
			c, aside := copyTree(t, dir), filepath.Join(t.TempDir(), "aside")
			file := filepath.Join(c, path)
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			damaged := change(b)
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			if damaged != nil {
				if err := os.WriteFile(file, damaged, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			o.Salvage = &Salvage{Aside: aside, Entries: elsewhere}
			s := open(t, c, o)
			n := s.Salvaged()
			if n == nil {
				t.Errorf("%s: no damage is found", name)
				continue
			}
			got := entriesOf(t, s, start)
			for i := start; i <= last; i++ {
				if got[i] != want[i] && got[i] != string(elsewhere[i]) {
					t.Errorf("%s: entry %d is %.40q", name, i, got[i])
				}
			}
			if got[start-1] != "" || got[last+1] != "" {
				t.Errorf("%s: entries outside of the journal are passed on", name)
			}
			if _, err := s.Append(nil); !errors.Is(err, ErrFailed) {
				t.Errorf("%s: an entry is taken before all is written anew: %v", name, err)
			}
			kept, err := os.ReadFile(filepath.Join(aside, path))
			if damaged != nil && (err != nil || !bytes.Equal(kept, damaged)) {
				t.Errorf("%s: the damaged file is not kept: %d bytes, %v", name, len(kept), err)
			}
			next := s.LastIndex() + 1
			if err := s.Recover(t.Context(), next, nil, []File{text("all", "anew")}); err != nil || s.Salvaged() != nil {
				t.Errorf("%s: recovery: %v", name, err)
			}
			if index, err := s.Append([]byte("new")); err != nil || index < last+salvageGap {
				t.Errorf("%s: entry %d after the recovery, %v; want one beyond the gap", name, index, err)
			}
			o.Salvage = nil
			s = reopen(t, s, o)
			if readFile(t, s, "all") != "anew" {
				t.Errorf("%s: the store is not whole after the recovery", name)
			}
		}
	}
}

// TestSalvageWithoutReplacements checks that a salvage leaves out what is lost, and passes on the rest.
func TestSalvageWithoutReplacements(t *testing.T) {
	dir, _, paths := victims(t)
	o := Options{SegmentBytes: 40_000, FS: fastFS{}}
	s := open(t, copyTree(t, dir), o)
	start := s.Manifest().Start
	want := entriesOf(t, s, start)
	for _, path := range paths {
		if filepath.Dir(path) != journalDir {
			continue
		}
		c := copyTree(t, dir)
		if err := os.Remove(filepath.Join(c, path)); err != nil {
			t.Fatal(err)
		}
		o.Salvage = &Salvage{Aside: filepath.Join(t.TempDir(), "aside")}
		s := open(t, c, o)
		lost := uint64(0)
		for _, f := range s.Salvaged().Faults {
			lost += f.Lost()
		}
		got := entriesOf(t, s, start)
		if lost == 0 || len(got)+int(lost) != len(want) {
			t.Errorf("%s: %d entries, %d lost, of %d", path, len(got), lost, len(want))
		}
		for i, e := range got {
			if e != want[i] {
				t.Errorf("%s: entry %d is %.40q", path, i, e)
			}
		}
	}
}

// TestSalvageForeignFile checks that a file that never belonged to the journal is set aside and removed.
func TestSalvageForeignFile(t *testing.T) {
	dir, _, _ := victims(t)
	foreign := filepath.Join(dir, journalDir, "notes.txt")
	if err := os.WriteFile(foreign, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	aside := filepath.Join(t.TempDir(), "aside")
	s := open(t, dir, Options{FS: fastFS{}, Salvage: &Salvage{Aside: aside}})
	if s.Salvaged() == nil {
		t.Fatal("a foreign file is no damage")
	}
	if _, err := os.Stat(foreign); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is still in the journal: %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(aside, journalDir, "notes.txt")); string(b) != "mine" {
		t.Errorf("set aside: %q, %v", b, err)
	}
}

// TestNoManifest checks that neither a start nor a salvage begins a new store over the remains of one, be it of a
// single entry.
func TestNoManifest(t *testing.T) {
	s := open(t, newDir(t), Options{FS: fastFS{}})
	appendN(t, s, 1, 10)
	dir := s.Dir()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{manifestFile, manifestCopy} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	refused := func(salvage *Salvage, want string) {
		t.Helper()
		s, err := Open(dir, Options{FS: fastFS{}, Salvage: salvage})
		if err == nil {
			s.Close()
		}
		var damage *DamageError
		if !errors.As(err, &damage) || !strings.Contains(err.Error(), want) {
			t.Errorf("salvage %v: error %v, want %q", salvage != nil, err, want)
		}
	}
	refused(nil, "holds 1 files")
	refused(&Salvage{Aside: filepath.Join(t.TempDir(), "aside")}, "neither the manifest nor its copy")
	for _, sub := range []string{journalDir, filesDir} {
		if err := os.RemoveAll(filepath.Join(dir, sub)); err != nil {
			t.Fatal(err)
		}
	}
	refused(nil, "the watermark counts 1 entries")
}

// TestKeep checks that a file gets a second name where the file system can do so, and is copied elsewhere.
func TestKeep(t *testing.T) {
	here := ramDir(t)
	from := filepath.Join(here, "from")
	if err := os.WriteFile(from, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	stat := func(path string) os.FileInfo {
		t.Helper()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	device := func(path string) any {
		t.Helper()
		sys, ok := stat(path).Sys().(*syscall.Stat_t)
		if !ok {
			t.Skip("the device of a file is not known")
		}
		return sys.Dev
	}
	for to, linked := range map[string]bool{here: true, t.TempDir(): false} {
		if !linked && device(to) == device(here) {
			continue // there is no second file system
		}
		path := filepath.Join(to, "to")
		if err := keep(from, path); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); string(b) != "content" || os.SameFile(stat(from), stat(path)) != linked {
			t.Errorf("linked %v: %q, %v", linked, b, err)
		}
		if linked {
			if err := keep(from, path); err != nil {
				t.Errorf("what was kept before: %v", err)
			}
		}
	}
	if err := keep(filepath.Join(here, "none"), filepath.Join(here, "kept")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// TestSalvageFailedRecovery has a disk fail at each step of the first checkpoint of a salvaged store. Until the disk
// takes the checkpoint, the entries are read as before; later the store opens with what it then had.
func TestSalvageFailedRecovery(t *testing.T) {
	for _, part := range []string{filesDir, journalDir, manifestFile, watermarkFile} {
		dir, readable := damagedStore(t)
		fsys := newPowerFS()
		s := open(t, dir, Options{FS: fsys, Salvage: &Salvage{Aside: filepath.Join(ramDir(t), "aside")}})
		start, old := s.Manifest().Start, s.Manifest().Incarnation
		recover := func() error {
			return s.Recover(t.Context(), s.LastIndex()+1, nil, []File{text("a", "new")})
		}
		fsys.fault = func(op, path string) bool {
			return (op == "open" || op == "write") && strings.Contains(path, part)
		}
		if err := recover(); !errors.Is(err, errFault) {
			t.Fatalf("a disk that takes no %s: %v", part, err)
		}
		fsys.fault = nil
		if s.Salvaged() != nil {
			if got := entriesOf(t, s, start); !maps.Equal(got, readable) {
				t.Errorf("a recovery that %s stopped: %d entries, want %d", part, len(got), len(readable))
			}
		}
		if err := recover(); err != nil {
			t.Fatal(err)
		}
		appendN(t, s, 2, 50)
		s = reopen(t, s, Options{FS: fsys})
		if m := s.Manifest(); m.Incarnation == old || readFile(t, s, "a") != "new" || len(entriesOf(t, s, m.Start)) != 2 {
			t.Errorf("a recovery that %s stopped: %+v", part, m)
		}
	}
}
