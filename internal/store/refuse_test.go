package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestOpenRefuses(t *testing.T) {
	base := t.TempDir()
	file := filepath.Join(base, "file")
	wide := filepath.Join(base, "wide")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Mkdir(wide, 0o755), os.Chmod(wide, 0o755)); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, dir string
		o         Options
		want      error
		text      string
	}{
		{"parent missing", filepath.Join(base, "no", "store"), Options{}, fs.ErrNotExist, filepath.Join(base, "no")},
		{"a file", file, Options{}, syscall.ENOTDIR, file},
		{"below a file", filepath.Join(file, "store"), Options{}, syscall.ENOTDIR, file},
		{"open to others", wide, Options{}, ErrPermission, "chmod 0700 " + wide},
		{"durability", filepath.Join(base, "a"), Options{Durability: 2}, nil, "durability 2"},
		{"segment size", filepath.Join(base, "a"), Options{SegmentBytes: -1}, nil, "-1"},
		{"random source", filepath.Join(base, "b"), Options{Random: strings.NewReader("short")}, io.ErrUnexpectedEOF, "random source"},
	}
	for _, tt := range tests {
		_, err := Open(tt.dir, tt.o)
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v, want %v with %q", tt.name, err, tt.want, tt.text)
		}
	}
	open(t, filepath.Join(base, "b"), Options{}) // what failed before is no obstacle
}

func TestSecondOpener(t *testing.T) {
	s := open(t, newDir(t), Options{})
	_, err := Open(s.Dir(), Options{})
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), fmt.Sprintf("by process %d", os.Getpid())) {
		t.Errorf("second Open: %v, want ErrInUse and process %d", err, os.Getpid())
	}
	appendN(t, s, 1, 10)
	reopen(t, s, Options{})
}

func TestForeignFiles(t *testing.T) {
	s := open(t, newDir(t), Options{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	note := s.path(journalDir, "note.txt")
	if err := os.WriteFile(note, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(s.Dir(), Options{}); err == nil || !strings.Contains(err.Error(), note) {
		t.Errorf("foreign file among the segments: %v", err)
	}
	note2 := s.path(filesDir, "note.txt")
	if err := os.Rename(note, note2); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	open(t, s.Dir(), Options{Logger: logTo(&log)})
	if _, err := os.Stat(note2); err != nil || !strings.Contains(log.String(), note2) {
		t.Errorf("foreign file among the checkpoint's: %v, log %s", err, log.String())
	}
}

// mount mounts a tmpfs, or skips the test where that is not allowed.
func mount(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "tmpfs", dir).CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" && os.Geteuid() == 0 {
			t.Fatalf("mount: %v, %s", err, out)
		}
		t.Skipf("needs a tmpfs of its own, which takes root: %v, %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v, %s", err, out)
		}
	})
	return dir
}

// TestDiskFull fills a real file system: entries and checkpoints are refused,
// nothing is lost, and when there is room again Recover goes on.
func TestDiskFull(t *testing.T) {
	root := mount(t, "size=1m,mode=0700")
	o := Options{SegmentBytes: 100_000}
	s := open(t, filepath.Join(root, "store"), o)
	t.Cleanup(func() { s.Close() }) // before the mount goes
	appendN(t, s, 10, 5000)
	if err := s.Checkpoint(t.Context(), 11, []byte("old"), []File{text("state", strings.Repeat("x", 200_000))}); err != nil {
		t.Fatal(err)
	}
	appendN(t, s, 5, 5000)
	tooBig := text("state", strings.Repeat("y", 2<<20))
	if err := s.Checkpoint(t.Context(), 16, []byte("new"), []File{tooBig}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("checkpoint larger than the disk: %v", err)
	}
	if names, _ := os.ReadDir(s.path(filesDir)); len(names) != 1 || string(s.Manifest().Meta) != "old" {
		t.Fatalf("after the failed checkpoint: %v, %q", names, s.Manifest().Meta)
	}
	var err error
	for err == nil {
		_, err = s.Append(entry(s.LastIndex()+1, 5000))
	}
	if !errors.Is(err, ErrFailed) || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("Append on a full disk: %v", err)
	}
	last := s.LastIndex()
	if _, err := s.Append(nil); !errors.Is(err, ErrFailed) {
		t.Fatalf("next Append: %v", err)
	}
	checkReplay(t, s, 11, last, 5000)
	if err := s.Recover(t.Context(), last+1, nil, []File{tooBig}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("Recover on a full disk: %v", err)
	}
	checkReplay(t, s, 11, last, 5000)
	if readFile(t, s, "state") != strings.Repeat("x", 200_000) {
		t.Fatal("the old checkpoint changed")
	}
	if out, err := exec.Command("mount", "-o", "remount,size=8m", root).CombinedOutput(); err != nil {
		t.Fatalf("remount: %v, %s", err, out)
	}
	if err := s.Recover(t.Context(), last+1, []byte("all"), []File{tooBig}); err != nil {
		t.Fatalf("Recover with room again: %v", err)
	}
	index, err := s.Append(entry(last+2, 10))
	if err != nil || index != last+2 { // last+1 is what failed
		t.Fatalf("Append after Recover = %d, %v, want %d", index, err, last+2)
	}
	s = reopen(t, s, o)
	checkReplay(t, s, last+2, last+2, 10)
	if string(s.Manifest().Meta) != "all" || len(readFile(t, s, "state")) != 2<<20 {
		t.Error("the recovery's checkpoint is not there")
	}
}

// TestDiskFullAtSegmentRoll fills the disk to the last page, so that a new
// segment cannot be begun.
func TestDiskFullAtSegmentRoll(t *testing.T) {
	root := mount(t, "size=1m,mode=0700")
	s := open(t, filepath.Join(root, "store"), Options{SegmentBytes: 1000})
	t.Cleanup(func() { s.Close() })
	var err error
	for err == nil {
		_, err = s.Append(entry(s.LastIndex()+1, 1000)) // a segment for each
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	last := s.LastIndex()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// Even now the store opens, since what is torn only needs to be cut off.
	s, err = Open(s.Dir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.LastIndex() != last {
		t.Errorf("last index %d, want %d", s.LastIndex(), last)
	}
	checkReplay(t, s, 1, last, 1000)
}

func TestReadOnlyFileSystem(t *testing.T) {
	root := mount(t, "size=1m,mode=0700")
	s := open(t, filepath.Join(root, "store"), Options{})
	appendN(t, s, 3, 100)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-o", "remount,ro", root).CombinedOutput(); err != nil {
		t.Fatalf("remount: %v, %s", err, out)
	}
	for _, dir := range []string{s.Dir(), filepath.Join(root, "other")} {
		if _, err := Open(dir, Options{}); !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), dir) {
			t.Errorf("Open(%s) = %v, want EROFS", dir, err)
		}
	}
}

// TestPermissions lets a user without privileges meet files that are not his.
func TestPermissions(t *testing.T) {
	if dir := os.Getenv("BULKHEAD_STORE_OPEN"); dir != "" {
		_, err := Open(dir, Options{})
		fmt.Println(err)
		os.Exit(0)
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, to become somebody else")
	}
	const nobody = 65534
	base, err := os.MkdirTemp("", "store")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(base)
	// The test's own binary lies where others cannot reach it.
	binary, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(base, "store.test")
	if err := errors.Join(os.Chmod(base, 0o755), os.WriteFile(exe, binary, 0o755), os.Chmod(exe, 0o755)); err != nil {
		t.Fatal(err)
	}
	try := func(dir string) string {
		t.Helper()
		cmd := exec.Command(exe, "-test.run=^TestPermissions$")
		cmd.Dir = base
		cmd.Env = append(os.Environ(), "BULKHEAD_STORE_OPEN="+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("child: %v, %s", err, out)
		}
		return string(out)
	}
	s := open(t, filepath.Join(base, "store"), Options{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := try(s.Dir()); !strings.Contains(got, "unsafe permissions: owned by user 0") {
		t.Errorf("somebody else's store: %s", got)
	}
	if err := os.Chown(s.Dir(), nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if got := try(s.Dir()); !strings.Contains(got, "permission denied") || !strings.Contains(got, lockFile) {
		t.Errorf("own directory with somebody else's files: %s", got)
	}
	if got := try(filepath.Join(base, "new")); !strings.Contains(got, "permission denied") || !strings.Contains(got, "new") {
		t.Errorf("no permission to create: %s", got)
	}
}
