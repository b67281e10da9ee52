//go:build interop

package store

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// mount mounts a tmpfs.
func mount(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "tmpfs", dir).CombinedOutput(); err != nil {
		nodetest.Unavailable(t, "needs a tmpfs of its own, which takes root: %v, %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v, %s", err, out)
		}
	})
	return dir
}

// remount changes a mounted tmpfs, and only the given options: the command of that name repeats the
// owner, which a user namespace does not know.
func remount(t *testing.T, dir string, flags uintptr, options string) {
	t.Helper()
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|flags, options); err != nil {
		t.Fatalf("remount: %v", err)
	}
}

// TestDiskFull fills a real file system: entries and checkpoints are refused, nothing is lost, and
// Recover succeeds when there is room again.
func TestDiskFull(t *testing.T) {
	root := mount(t, "size=1m,mode=0700")
	o := Options{SegmentBytes: 100_000}
	s := open(t, filepath.Join(root, "store"), o)
	t.Cleanup(func() { s.Close() }) // before the unmount
	appendN(t, s, 10, 5000)
	if err := s.Checkpoint(t.Context(), 11, []byte("old"),
		[]File{text("state", strings.Repeat("x", 200_000))}); err != nil {
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
	remount(t, root, 0, "size=8m")
	if err := s.Recover(t.Context(), last+1, []byte("all"), []File{tooBig}); err != nil {
		t.Fatalf("Recover with room again: %v", err)
	}
	index, err := s.Append(entry(last+2, 10))
	if err != nil || index != last+2 { // last+1 is the failed entry
		t.Fatalf("Append after Recover = %d, %v, want %d", index, err, last+2)
	}
	s = reopen(t, s, o)
	checkReplay(t, s, last+2, last+2, 10)
	if string(s.Manifest().Meta) != "all" || len(readFile(t, s, "state")) != 2<<20 {
		t.Error("the recovery's checkpoint is not there")
	}
}

// TestDiskFullAtSegmentRoll fills the disk to the last page, so that a new segment cannot be
// created.
func TestDiskFullAtSegmentRoll(t *testing.T) {
	root := mount(t, "size=1m,mode=0700")
	s := open(t, filepath.Join(root, "store"), Options{SegmentBytes: 1000})
	t.Cleanup(func() { s.Close() })
	var err error
	for err == nil {
		_, err = s.Append(entry(s.LastIndex()+1, 1000)) // one segment for each entry
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	last := s.LastIndex()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// Even now the store opens, since a torn entry only needs to be cut off.
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
	remount(t, root, syscall.MS_RDONLY, "")
	for _, dir := range []string{s.Dir(), filepath.Join(root, "other")} {
		if _, err := Open(dir, Options{}); !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), dir) {
			t.Errorf("Open(%s) = %v, want EROFS", dir, err)
		}
	}
}
