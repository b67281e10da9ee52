package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
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
		{"pause", filepath.Join(base, "a"), Options{SyncEvery: -1}, nil, "-1"},
		{"segment size", filepath.Join(base, "a"), Options{SegmentBytes: -1}, nil, "-1"},
		{"random source", filepath.Join(base, "b"), Options{Random: strings.NewReader("short")}, io.ErrUnexpectedEOF,
			"random source"},
	}
	for _, tt := range tests {
		_, err := Open(tt.dir, tt.o)
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v, want %v with %q", tt.name, err, tt.want, tt.text)
		}
	}
	open(t, filepath.Join(base, "b"), Options{}) // an earlier failure does not prevent it
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

// TestPermissions opens files of another owner as a user without privileges.
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
	// The test's own binary is in a folder that others cannot access.
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
	if got := try(filepath.Join(base, "new")); !strings.Contains(got, "permission denied") ||
		!strings.Contains(got, "new") {
		t.Errorf("no permission to create: %s", got)
	}
}

// TestPrivate checks that no file or folder that a store, a copy of it or a salvage makes lets other users in.
func TestPrivate(t *testing.T) {
	root := ramDir(t)
	dir, former := filepath.Join(root, "store"), filepath.Join(root, "former")
	s := open(t, dir, Options{FS: fastFS{}, SegmentBytes: 100})
	appendN(t, s, 5, 50)
	if err := s.Checkpoint(t.Context(), 3, nil, []File{text("a", "content")}); err != nil {
		t.Fatal(err)
	}
	appendN(t, s, 5, 50)
	var saved bytes.Buffer
	if _, err := s.Backup(t.Context(), &saved); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, s, Options{FS: fastFS{}, Former: func([]byte) string { return former }})
	path := s.segs[len(s.segs)-1].path
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), &saved, filepath.Join(root, "restored"), Options{FS: fastFS{}}); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, Options{FS: fastFS{}, Salvage: &Salvage{Aside: filepath.Join(root, "set", "aside")}})
	if err := s.Recover(t.Context(), s.LastIndex()+1, nil, nil); err != nil {
		t.Fatal(err)
	}
	seen := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if seen++; err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil || seen < 30 {
		t.Errorf("%d files and folders, %v", seen, err)
	}
}

// TestQuiet checks that nothing is logged about a sound store, whether it has entries in one segment or several.
func TestQuiet(t *testing.T) {
	var log bytes.Buffer
	o := Options{FS: fastFS{}, SegmentBytes: 200, Logger: logTo(&log)}
	s := open(t, newDir(t), o)
	for range 4 {
		appendN(t, s, 3, 50)
		s = reopen(t, s, o)
		if err := s.Checkpoint(t.Context(), s.LastIndex(), nil, []File{text("a", "content")}); err != nil {
			t.Fatal(err)
		}
		s = reopen(t, s, o)
	}
	if log.Len() > 0 {
		t.Errorf("log: %s", log.String())
	}
}

// TestQuietRecovery checks that a recovery on a sound disk warns of nothing.
func TestQuietRecovery(t *testing.T) {
	var log bytes.Buffer
	o := Options{FS: fastFS{}, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	s := open(t, newDir(t), o)
	for range 2 {
		appendN(t, s, 3, 50)
		if err := s.Recover(t.Context(), s.LastIndex()+1, nil, []File{text("a", "content")}); err != nil {
			t.Fatal(err)
		}
	}
	if log.Len() > 0 {
		t.Errorf("log: %s", log.String())
	}
}
