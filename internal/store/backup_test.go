package store

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// backupOf returns a store with files and entries, and a backup of it.
func backupOf(t testing.TB, o Options) (*Store, []byte) {
	t.Helper()
	s := open(t, newDir(t), o)
	appendN(t, s, 8, 500)
	big := strings.Repeat("content ", 20000)
	if err := s.Checkpoint(t.Context(), 5, []byte("meta"), []File{text("big", big), text("empty", ""),
		text("z", "zz")}); err != nil {
		t.Fatal(err)
	}
	appendN(t, s, 12, 500)
	var b bytes.Buffer
	info, err := s.Backup(t.Context(), &b)
	if err != nil || info.LastIndex != 20 || info.Manifest.Start != 5 {
		t.Fatalf("Backup = %+v, %v", info, err)
	}
	return s, b.Bytes()
}

func TestBackupRestore(t *testing.T) {
	o := Options{SegmentBytes: 2000}
	s, b := backupOf(t, o)
	dir := newDir(t)
	info, err := Restore(t.Context(), bytes.NewReader(b), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if info.LastIndex != 20 || info.Manifest.Start != 5 || string(info.Manifest.Meta) != "meta" {
		t.Errorf("Restore = %+v", info)
	}
	r := open(t, dir, o)
	if r.Manifest().Incarnation == s.Manifest().Incarnation {
		t.Error("the incarnation was not renewed")
	}
	checkReplay(t, r, 5, 20, 500)
	for _, f := range s.Manifest().Files {
		if readFile(t, r, f.Name) != readFile(t, s, f.Name) {
			t.Errorf("file %s differs", f.Name)
		}
	}
	appendN(t, r, 3, 500)
	r = reopen(t, r, o)
	checkReplay(t, r, 5, 23, 500)
	if names, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), "*")); len(names) != 1 {
		t.Errorf("left beside the store: %v", names)
	}
}

// TestBackupOfRestored backs up and restores several times in a cycle, into an empty directory that
// exists, and without entries at first.
func TestBackupOfRestored(t *testing.T) {
	s := open(t, newDir(t), Options{})
	appendN(t, s, 3, 10)
	if err := s.Checkpoint(t.Context(), 4, nil, nil); err != nil {
		t.Fatal(err)
	}
	for last := uint64(3); last < 6; last++ {
		var b bytes.Buffer
		if _, err := s.Backup(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		dir := newDir(t)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := Restore(t.Context(), &b, dir, Options{}); err != nil {
			t.Fatal(err)
		}
		s = open(t, dir, Options{})
		if s.LastIndex() != last || s.Manifest().Start != 4 {
			t.Fatalf("restored store: last %d, start %d, want %d, 4", s.LastIndex(), s.Manifest().Start, last)
		}
		checkReplay(t, s, 4, last, 10)
		appendN(t, s, 1, 10)
	}
}

func TestRestoreRefuses(t *testing.T) {
	_, b := backupOf(t, Options{})
	full := newDir(t)
	if err := os.MkdirAll(filepath.Join(full, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), bytes.NewReader(b), full, Options{}); err == nil ||
		!strings.Contains(err.Error(), "it holds x") {
		t.Errorf("into a full directory: %v", err)
	}
	parent := ramDir(t)
	dir := filepath.Join(parent, "store")
	refuse := func(name string, b []byte, want error) {
		t.Helper()
		_, err := Restore(t.Context(), bytes.NewReader(b), dir, Options{})
		var damage *DamageError
		if want != nil && !errors.Is(err, want) || want == nil && !errors.As(err, &damage) {
			t.Errorf("%s: %v", name, err)
		}
		if names, _ := os.ReadDir(parent); len(names) != 0 {
			t.Fatalf("%s: left %v", name, names)
		}
	}
	refuse("empty", nil, ErrFormat)
	refuse("another file", []byte("From: someone\r\nSubject: hello\r\n\r\n"), ErrFormat)
	newer := bytes.Clone(b)
	newer[len(backupMagic)]++
	refuse("newer", newer, ErrFormat)
	refuse("bytes behind the end", append(bytes.Clone(b), 0), nil)
	for i := range 60 {
		cut := len(backupMagic) + 2 + i*(len(b)-len(backupMagic)-2)/60
		refuse("cut", b[:cut], nil)
		_, err := Restore(t.Context(), bytes.NewReader(b[:cut]), dir, Options{})
		var damage *DamageError
		if !errors.As(err, &damage) || damage.What != errTruncated.Error() || damage.Offset > int64(cut) {
			t.Errorf("cut to %d bytes: %v", cut, err)
		}
		flipped := bytes.Clone(b)
		flipped[cut] ^= 1 << (i % 8)
		refuse("flipped", flipped, nil)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Restore(ctx, bytes.NewReader(b), dir, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestBackupWhileRunning takes backups of a store that appends and makes checkpoints. Each backup
// must hold everything that was acknowledged before it began.
func TestBackupWhileRunning(t *testing.T) {
	o := Options{SegmentBytes: 3000, Durability: Relaxed, FS: fastFS{}}
	s := open(t, newDir(t), o)
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- func() error {
			for i := 1; ; i++ {
				select {
				case <-stop:
					return nil
				default:
				}
				if _, err := s.Append(entry(s.LastIndex()+1, 200)); err != nil {
					return err
				}
				if i%7 == 0 {
					if err := s.Checkpoint(context.Background(), s.LastIndex()-3, nil,
						[]File{text("a", strings.Repeat("x", i%100000))}); err != nil {
						return err
					}
				}
			}
		}()
	}()
	for range 25 {
		acked := s.LastIndex()
		var b bytes.Buffer
		info, err := Backup(t.Context(), s.Dir(), &b)
		if err != nil {
			t.Fatal(err)
		}
		if info.LastIndex < acked {
			t.Errorf("backup ends with entry %d, %d was acknowledged before", info.LastIndex, acked)
		}
		dir := newDir(t)
		if _, err := Restore(t.Context(), &b, dir, o); err != nil {
			t.Fatal(err)
		}
		r := open(t, dir, o)
		checkReplay(t, r, info.Manifest.Start, info.LastIndex, 200)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

type brokenWriter struct{ left int }

func (w *brokenWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

func TestBackupToBrokenWriter(t *testing.T) {
	s, b := backupOf(t, Options{})
	for left := 0; left < len(b); left += 10000 {
		if _, err := s.Backup(t.Context(), &brokenWriter{left}); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("writer that takes %d of %d bytes: %v", left, len(b), err)
		}
	}
}
