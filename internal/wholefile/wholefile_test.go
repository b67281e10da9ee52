package wholefile

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// content returns the content of the files in dir, by name.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(b)
	}
	return all
}

// TestMakeFolder checks that the entry of every folder is synced in its parent folder, before a folder in it is made. A
// folder that is there may be of an earlier call that failed.
func TestMakeFolder(t *testing.T) {
	sync := syncFolder
	defer func() { syncFolder = sync }()
	var synced []string
	failing := ""
	syncFolder = func(dir string) error {
		if dir == failing {
			return io.ErrShortWrite
		}
		synced = append(synced, dir)
		return sync(dir)
	}
	top := t.TempDir()
	for _, c := range []struct {
		dir  string
		want []string
	}{
		{"a/b/c", []string{"..", ".", "a", "a/b"}}, {"a/b/c", []string{"a/b"}}, {"a/b/d/", []string{"a", "a/b"}},
		{".", []string{".."}},
	} {
		synced = nil
		if err := MakeFolder(filepath.Join(top, c.dir)); err != nil {
			t.Fatalf("%s: %v", c.dir, err)
		}
		for i := range c.want {
			c.want[i] = filepath.Join(top, c.want[i])
		}
		if !slices.Equal(synced, c.want) {
			t.Errorf("%s: synced %q instead of %q", c.dir, synced, c.want)
		}
		if info, err := os.Stat(filepath.Join(top, c.dir)); err != nil || c.dir != "." && info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", c.dir, info, err)
		}
	}
	if failing = filepath.Join(top, "a"); !errors.Is(MakeFolder(filepath.Join(top, "a/e")), io.ErrShortWrite) {
		t.Error("a folder whose entry cannot be synced was called durable")
	}
	if !errors.Is(MakeFolder(filepath.Join(top, "a/e")), io.ErrShortWrite) {
		t.Error("a folder of a call that failed was called durable")
	}
	file := filepath.Join(top, "file")
	if err := Replace(file, Bytes(nil)); err != nil {
		t.Fatal(err)
	}
	if err := MakeFolder(filepath.Join(file, "below")); err == nil {
		t.Error("a folder below a file")
	}
}

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	large := bytes.Repeat([]byte("0123456789"), 50_000)
	for _, data := range [][]byte{[]byte("old"), large, nil} {
		if err := Replace(path, Bytes(data)); err != nil {
			t.Fatal(err)
		}
		if got := content(t, dir); len(got) != 1 || got["file"] != string(data) {
			t.Fatalf("%d files, %d bytes in it, want %d alone", len(got), len(got["file"]), len(data))
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
	}
	if err := Replace(path, Bytes(large), func(f *os.File) error { return f.Chmod(0o640) }); err != nil {
		t.Fatal(err)
	}
	if info, err = os.Stat(path); err != nil || info.Mode().Perm() != 0o640 || info.Size() != int64(len(large)) {
		t.Errorf("mode %v, %d bytes, %v", info.Mode(), info.Size(), err)
	}
}

// TestFailed checks that a failure at any step leaves the old file, and no leftovers next to it.
func TestFailed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := Replace(path, Bytes([]byte("old"))); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	for name, try := range map[string]func() error{
		"write": func() error {
			return Replace(path, func(w io.Writer) error { _, err := w.Write([]byte("new")); return errors.Join(err, broken) })
		},
		"prepare": func() error {
			return Replace(path, Bytes([]byte("new")), func(*os.File) error { return broken }, func(*os.File) error {
				t.Error("what prepares the file went on after a failure")
				return nil
			})
		},
		"name": func() error {
			return errors.Join(Create(path, Bytes([]byte("new"))), broken)
		},
	} {
		if err := try(); !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
		if got := content(t, dir); len(got) != 1 || got["file"] != "old" {
			t.Errorf("%s: %q, want the old file alone", name, got)
		}
	}
	if err := Replace(filepath.Join(dir, "missing", "file"), Bytes(nil)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a folder that is not there: %v", err)
	}
	for _, folder := range []string{"", dir} {
		written := func(io.Writer) error { t.Errorf("something was written in place of %q", folder); return nil }
		if err := Replace(folder, written); !errors.Is(err, syscall.EISDIR) {
			t.Errorf("in place of %q: %v", folder, err)
		}
	}
}

// TestCreate checks that exactly one of many goroutines that create a file concurrently succeeds,
// and that the whole file is its own.
func TestCreate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	var wg sync.WaitGroup
	var won atomic.Int32
	for i := range 20 {
		wg.Go(func() {
			err := Create(path, Bytes(bytes.Repeat([]byte{'a' + byte(i)}, 10_000)))
			switch {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, fs.ErrExist):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got := content(t, dir)
	if text := got["file"]; won.Load() != 1 || len(got) != 1 || len(text) != 10_000 ||
		bytes.Count([]byte(text), []byte(text[:1])) != 10_000 {
		t.Errorf("%d created it; %d files, %d bytes", won.Load(), len(got), len(text))
	}
}

func TestLeftovers(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	var seen string
	err := Replace(path, func(io.Writer) error {
		for name := range content(t, dir) {
			seen = name
		}
		return nil
	})
	if matched, bad := filepath.Match(Leftovers(path), seen); err != nil || bad != nil || !matched {
		t.Errorf("%v; %q does not match %q", err, seen, Leftovers(path))
	}
}

// TestStamp checks that versions of a file have different stamps: written, replaced by one of the same size and time,
// and removed.
func TestStamp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	none := StampOf(path)
	if !none.Same(Stamp{}) {
		t.Error("a file that does not exist has a version")
	}
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(path, "one")
	first := StampOf(path)
	if first.Same(none) || none.Same(first) || !first.Same(StampOf(path)) {
		t.Error("a new file has no version of its own")
	}
	write(path, "three")
	longer := StampOf(path)
	if longer.Same(first) {
		t.Error("a longer file has the same version")
	}
	write(path+"2", "other")
	info, err := os.Stat(path)
	if err == nil {
		err = os.Chtimes(path+"2", info.ModTime(), info.ModTime())
	}
	if err == nil {
		err = os.Rename(path+"2", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	if StampOf(path).Same(longer) {
		t.Error("another file of the same size and time has the same version")
	}
}

// TestReadJSON checks that an absent file changes nothing, and that any other file that cannot be
// read is an error that names it.
func TestReadJSON(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.json")
	v := map[string]int{"a": 1}
	if err := ReadJSON(path, &v); err != nil || v["a"] != 1 {
		t.Errorf("absent: %v, %v", v, err)
	}
	for text, ok := range map[string]bool{`{"b":2}`: true, ``: false, `{"b":`: false, `[]`: false} {
		if err := Replace(path, Bytes([]byte(text))); err != nil {
			t.Fatal(err)
		}
		v := map[string]int{}
		err := ReadJSON(path, &v)
		if (err == nil) != ok || ok && v["b"] != 2 {
			t.Errorf("%q: %v, %v", text, v, err)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "state.json: ") {
			t.Errorf("%q: %v does not name the file", text, err)
		}
	}
	if err := ReadJSON(dir, &v); err == nil {
		t.Error("a folder was read")
	}
}
