package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// text is a File with the given content.
func text(name, content string) File {
	return File{name, func(w io.Writer) error { _, err := io.WriteString(w, content); return err }}
}

func open(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func reopen(t testing.TB, s *Store, o Options) *Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, s.Dir(), o)
}

// newDir returns a directory that does not exist yet, in memory if the system has a place for that.
// These tests make thousands of files, and no test can detect whether a disk has really written.
func newDir(t testing.TB) string {
	t.Helper()
	return filepath.Join(ramDir(t), "store")
}

func ramDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "store")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// entry returns the content of entry i, which can be checked. Its size depends on i.
func entry(i uint64, size int) []byte {
	b := fmt.Appendf(nil, "%d:", i)
	for len(b) < size {
		b = append(b, byte(uint64(len(b))*(2*i+1)>>3))
	}
	return b
}

func appendN(t testing.TB, s *Store, n, size int) {
	t.Helper()
	for range n {
		want := s.LastIndex() + 1
		got, err := s.Append(entry(want, size))
		if err != nil || got != want {
			t.Fatalf("Append = %d, %v, want %d", got, err, want)
		}
	}
}

// checkReplay checks that a replay returns the entries from..to, each as appendN wrote it.
func checkReplay(t testing.TB, s *Store, from, to uint64, size int) {
	t.Helper()
	next := from
	err := s.Replay(t.Context(), from, func(i uint64, e []byte) error {
		if i != next || !bytes.Equal(e, entry(i, size)) {
			return fmt.Errorf("entry %d, want %d: %.40q", i, next, e)
		}
		next++
		return nil
	})
	if err != nil || next != to+1 {
		t.Fatalf("replay from %d ended before %d, %v, want %d", from, next, err, to+1)
	}
}

func readFile(t testing.TB, s *Store, name string) string {
	t.Helper()
	r, err := s.OpenFile(name)
	return drain(t, r, err)
}

// drain returns all that r has, and closes it. err is the error of opening it.
func drain(t testing.TB, r io.ReadCloser, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestAppendReplayReopen(t *testing.T) {
	for _, size := range []int{0, 1, 50, 4000, 32735, 32736, 32761, 70000} {
		for _, d := range []Durability{Always, Relaxed} {
			t.Run(fmt.Sprint(size, d), func(t *testing.T) {
				o := Options{Durability: d, SegmentBytes: 100_000}
				s := open(t, newDir(t), o)
				if s.LastIndex() != 0 || s.Manifest().Start != 1 {
					t.Fatalf("new store: last %d, start %d", s.LastIndex(), s.Manifest().Start)
				}
				for round := uint64(1); round <= 4; round++ {
					appendN(t, s, 10, size)
					checkReplay(t, s, 1, round*10, size)
					s = reopen(t, s, o)
					if s.LastIndex() != round*10 {
						t.Fatalf("last index %d after reopening, want %d", s.LastIndex(), round*10)
					}
					checkReplay(t, s, 1, round*10, size)
					checkReplay(t, s, 7, round*10, size)
				}
				s = reopen(t, s, o) // twice without an entry
				s = reopen(t, s, o)
				checkReplay(t, s, 1, 40, size)
			})
		}
	}
}

func TestCheckpoint(t *testing.T) {
	o := Options{SegmentBytes: 1000}
	s := open(t, newDir(t), o)
	incarnation := s.Manifest().Incarnation
	big := strings.Repeat("0123456789abcdef", 3*blockBytes/16) // whole blocks
	appendN(t, s, 20, 300)
	if err := s.Checkpoint(t.Context(), 11, []byte("first"), []File{text("b", big+"x"), text("a", ""),
		text("c", big)}); err != nil {
		t.Fatal(err)
	}
	check := func(start, last uint64, meta, names string) {
		t.Helper()
		m := s.Manifest()
		var got []string
		for _, f := range m.Files {
			got = append(got, f.Name)
			if c := readFile(t, s, f.Name); int64(len(c)) != f.Size {
				t.Errorf("file %s has %d bytes, manifest says %d", f.Name, len(c), f.Size)
			}
		}
		if m.Start != start || string(m.Meta) != meta || strings.Join(got, " ") != names || m.Incarnation != incarnation {
			t.Fatalf("manifest %+v, want start %d, meta %s, files %s", m, start, meta, names)
		}
		checkReplay(t, s, start, last, 300)
	}
	check(11, 20, "first", "a b c")
	s = reopen(t, s, o)
	check(11, 20, "first", "a b c")
	if got := readFile(t, s, "b"); got != big+"x" {
		t.Errorf("file b: %d bytes, want %d", len(got), len(big)+1)
	}
	old, err := s.OpenFile("b")
	if err != nil {
		t.Fatal(err)
	}
	appendN(t, s, 5, 300)
	if err := s.Checkpoint(t.Context(), 26, nil, []File{{Name: "a"}, text("b", "new")}); err != nil {
		t.Fatal(err)
	}
	check(26, 25, "", "a b")
	if b, err := io.ReadAll(old); err != nil || string(b) != big+"x" {
		t.Errorf("a reader from before the checkpoint got %d bytes, %v", len(b), err)
	}
	old.Close()
	s = reopen(t, s, o)
	check(26, 25, "", "a b")
	appendN(t, s, 5, 300)
	s = reopen(t, s, o)
	check(26, 30, "", "a b")
	if names, _ := os.ReadDir(s.path(filesDir)); len(names) != 2 {
		t.Errorf("%d files left, want 2: %v", len(names), names)
	}
	if names, _ := os.ReadDir(s.path(journalDir)); len(names) > 3 {
		t.Errorf("%d segments left: %v", len(names), names)
	}
	if _, err := s.OpenFile("c"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("OpenFile(c) = %v, want not exist", err)
	}
	if err := s.Replay(t.Context(), 25, nil); err == nil {
		t.Error("replay from before the start: no error")
	}
}

func TestCheckpointRefuses(t *testing.T) {
	s := open(t, newDir(t), Options{})
	appendN(t, s, 3, 10)
	if err := s.Checkpoint(t.Context(), 3, []byte("m"), []File{text("a", "1")}); err != nil {
		t.Fatal(err)
	}
	cause := errors.New("the caller's reason")
	tests := []struct {
		name  string
		start uint64
		files []File
		want  string
	}{
		{"start too early", 2, nil, "from index 2, want 3 to 4"},
		{"start too late", 5, nil, "from index 5, want 3 to 4"},
		{"same name twice", 4, []File{text("a", "2"), text("a", "3")}, `two files "a"`},
		{"empty name", 4, []File{text("", "2")}, "name of 0 bytes"},
		{"path", 4, []File{text("../a", "2")}, `byte 0 is '.'`},
		{"slash", 4, []File{text("x/a", "2")}, `byte 1 is '/'`},
		{"long name", 4, []File{text(strings.Repeat("x", 181), "2")}, "name of 181 bytes"},
		{"carry over nothing", 4, []File{{Name: "zz"}}, `no file "zz"`},
		{"writer fails", 4, []File{text("a", "2"), {"b", func(w io.Writer) error {
			w.Write(make([]byte, 1<<20))
			return cause
		}}}, "the caller's reason"},
	}
	for _, tt := range tests {
		err := s.Checkpoint(t.Context(), tt.start, []byte("other"), tt.files)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if m := s.Manifest(); m.Start != 3 || string(m.Meta) != "m" || readFile(t, s, "a") != "1" {
			t.Errorf("%s: manifest changed to %+v", tt.name, m)
		}
		if names, _ := os.ReadDir(s.path(filesDir)); len(names) != 1 {
			t.Errorf("%s: files left: %v", tt.name, names)
		}
	}
	if _, err := s.Append(make([]byte, MaxEntry+1)); err == nil || s.Err() != nil {
		t.Errorf("entry over the limit: %v, store %v", err, s.Err())
	}
	appendN(t, s, 1, 10)
}

func TestClosed(t *testing.T) {
	s := open(t, newDir(t), Options{Durability: Relaxed})
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	_, aerr := s.Append(nil)
	_, ferr := s.OpenFile("a")
	_, berr := s.Backup(t.Context(), io.Discard)
	for i, err := range []error{aerr, ferr, s.Replay(t.Context(), 1, nil), s.Err(), s.Sync(),
		s.Checkpoint(t.Context(), 1, nil, nil), s.Recover(t.Context(), 1, nil, nil), berr} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("call %d on a closed store: %v, want ErrClosed", i, err)
		}
	}
}

// logTo returns a logger that writes to b.
func logTo(b *bytes.Buffer) *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

// noContext is a context that is never done, for helpers without a test.
type noContext struct{ context.Context }

func (noContext) Err() error { return nil }

// withHead prepends the first line of a manifest to body.
func withHead(body []byte) []byte {
	head := fmt.Sprintf("%s %d %08x %d\n", manifestMagic, manifestVersion, crc32.Checksum(body, castagnoli), len(body))
	return append([]byte(head), body...)
}

// withSum appends a checksum to b.
func withSum(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(bytes.Clone(b), crc32.Checksum(b, castagnoli))
}

// fastFS never waits for the disk. It is for tests that open hundreds of stores and do not cut the
// power.
type fastFS struct{ osFS }

type fastFile struct{ osFile }

func (fastFS) OpenFile(name string, flag int, perm fs.FileMode) (Handle, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return fastFile{osFile{f}}, nil
}

func (fastFS) SyncDir(string) error { return nil }
func (fastFile) Sync() error        { return nil }
func (fastFile) DropCache()         {}
