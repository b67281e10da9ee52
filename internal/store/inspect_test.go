package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// inspected returns the result of Inspect for a copy of a store in which one file was changed.
func inspected(t *testing.T, dir, path string, change func([]byte) []byte) *Inspection {
	t.Helper()
	c := copyTree(t, dir)
	file := filepath.Join(c, path)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if b = change(bytes.Clone(b)); b == nil {
		err = os.Remove(file)
	} else {
		err = os.WriteFile(file, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	n, err := Inspect(t.Context(), c)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return n
}

// TestInspectSound checks that Inspect finds no fault in an undamaged store, whether or not it is
// in use.
func TestInspectSound(t *testing.T) {
	dir, _, _ := victims(t)
	check := func(want uint64) {
		t.Helper()
		n, err := Inspect(t.Context(), dir)
		if err != nil || !n.Readable || len(n.Faults) > 0 || n.LastIndex != want {
			t.Fatalf("%+v, %v; want no fault and last entry %d", n, err, want)
		}
	}
	check(14)
	s := open(t, dir, Options{FS: fastFS{}})
	appendN(t, s, 3, 100)
	check(17)
	if err := s.Checkpoint(t.Context(), s.LastIndex()+1, nil, []File{text("pages", "new")}); err != nil {
		t.Fatal(err)
	}
	check(17)
}

// TestInspectNames damages every file in every way, and checks that the fault is found and named.
// The reported losses of the journal are compared with the entries that are still readable.
func TestInspectNames(t *testing.T) {
	dir, _, paths := victims(t)
	rng := rand.New(rand.NewPCG(3, 4))
	for _, path := range paths {
		size := fileSize(t, filepath.Join(dir, path))
		changes := map[string]func([]byte) []byte{
			"deleted":   func([]byte) []byte { return nil },
			"appended":  func(b []byte) []byte { return append(b, make([]byte, 100)...) },
			"emptied":   func([]byte) []byte { return []byte{} },
			"replaced":  func(b []byte) []byte { return bytes.Repeat([]byte("x"), len(b)) },
			"cut":       func(b []byte) []byte { return b[:rng.Int64N(size)] },
			"zeroed":    func(b []byte) []byte { clear(b[len(b)/3 : 2*len(b)/3+1]); return b },
			"bit":       func(b []byte) []byte { b[rng.Int64N(size)] ^= 1 << rng.IntN(8); return b },
			"first bit": func(b []byte) []byte { b[0] ^= 1; return b },
			"last bit":  func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		}
		for what, change := range changes {
			n := inspected(t, dir, path, change)
			name := fmt.Sprintf("%s: %s", path, what)
			tail := filepath.Dir(path) == journalDir && path == paths[len(paths)-2]
			if len(n.Faults) == 0 && !(what == "appended" && tail) {
				t.Errorf("%s: nothing found", name)
				continue
			}
			lost := uint64(0)
			for _, f := range n.Faults {
				lost += f.Lost()
			}
			if n.Readable && path != watermarkFile && n.Entries+lost != 12 {
				t.Errorf("%s: %d entries can be read and %d are lost, of 12: %+v", name, n.Entries, lost, n.Faults)
			}
		}
	}
}

// TestInspectForeign checks that a replaced checkpoint file is distinguished from a damaged one.
func TestInspectForeign(t *testing.T) {
	dir, _, paths := victims(t)
	var files []string
	for _, p := range paths {
		if filepath.Dir(p) == filesDir {
			files = append(files, p)
		}
	}
	other, err := os.ReadFile(filepath.Join(dir, files[1]))
	if err != nil {
		t.Fatal(err)
	}
	n := inspected(t, dir, files[0], func([]byte) []byte { return other })
	if !n.Foreign("pages") || n.Foreign("small") || len(n.Faults) == 0 {
		t.Errorf("foreign %v and %v, %+v", n.Foreign("pages"), n.Foreign("small"), n.Faults)
	}
}
