package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math/rand/v2"
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

// A frame is one of a forged backup.
type frame struct {
	kind    byte
	payload []byte
}

// forge returns a backup of frames, with right checksums.
func forge(t *testing.T, frames ...frame) []byte {
	t.Helper()
	b := bytes.NewBuffer(binary.LittleEndian.AppendUint16([]byte(backupMagic), backupVersion))
	w := &frameWriter{w: b}
	for _, f := range frames {
		if err := w.write(f.kind, f.payload); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// TestForgedBackup restores backups with right checksums whose frames do not belong together. None leaves a store.
func TestForgedBackup(t *testing.T) {
	content := []byte("content")
	m := Manifest{Checkpoint: 1, Incarnation: strings.Repeat("0a", incarnationBytes), Start: 4, epoch: 1,
		Files: []FileInfo{{Name: "a", Size: int64(len(content)), CRC: crc32.Checksum(content, castagnoli), seq: 1}}}
	text, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	entry := func(index uint64, data string) frame {
		return frame{frameEntry, append(binary.LittleEndian.AppendUint64(nil, index), data...)}
	}
	end := func(index uint64) frame { return frame{frameEnd, binary.LittleEndian.AppendUint64(nil, index)} }
	manifest, whole := frame{frameManifest, text}, frame{frameContent, content}
	for name, tt := range map[string]struct {
		frames []frame
		ok     bool
	}{
		"whole":      {[]frame{manifest, whole, entry(4, "x"), entry(5, ""), end(5)}, true},
		"no entries": {[]frame{manifest, whole, end(3)}, true},
		"content in two": {[]frame{manifest, {frameContent, content[:3]}, {frameContent, content[3:]},
			end(3)}, true},
		"content byte by byte at first": {[]frame{manifest, {frameContent, content[:1]}, {frameContent, content[1:]},
			end(3)}, true},
		"content too long":          {[]frame{manifest, {frameContent, []byte("contents")}, end(3)}, false},
		"content too short":         {[]frame{manifest, {frameContent, content[:3]}, end(3)}, false},
		"empty content":             {[]frame{manifest, {frameContent, nil}, whole, end(3)}, false},
		"other content":             {[]frame{manifest, {frameContent, []byte("CONTENT")}, end(3)}, false},
		"content twice":             {[]frame{manifest, whole, whole, end(3)}, false},
		"no manifest":               {[]frame{whole, end(3)}, false},
		"two manifests":             {[]frame{manifest, manifest, whole, end(3)}, false},
		"an entry too early":        {[]frame{manifest, whole, entry(3, "x"), end(3)}, false},
		"an entry is missing":       {[]frame{manifest, whole, entry(5, "x"), end(5)}, false},
		"an entry twice":            {[]frame{manifest, whole, entry(4, "x"), entry(4, "x"), end(4)}, false},
		"an entry without index":    {[]frame{manifest, whole, {frameEntry, make([]byte, 7)}, end(4)}, false},
		"the last entry is missing": {[]frame{manifest, whole, entry(4, "x"), end(5)}, false},
		"an end of another length":  {[]frame{manifest, whole, {frameEnd, []byte{3, 0, 0, 0}}}, false},
		"no end":                    {[]frame{manifest, whole, entry(4, "x")}, false},
		"two ends":                  {[]frame{manifest, whole, end(3), end(3)}, false},
		"another kind":              {[]frame{manifest, whole, {9, nil}, end(3)}, false},
	} {
		parent := ramDir(t)
		dir := filepath.Join(parent, "store")
		_, err := Restore(t.Context(), bytes.NewReader(forge(t, tt.frames...)), dir, Options{FS: fastFS{}})
		var damage *DamageError
		if tt.ok != (err == nil) || err != nil && !errors.As(err, &damage) {
			t.Errorf("%s: %v", name, err)
		}
		if name == "no manifest" && (damage == nil || damage.Offset != int64(len(backupMagic)+2)) {
			t.Errorf("%s: %v, want the offset of the frame", name, err)
		}
		if names, _ := os.ReadDir(parent); (len(names) == 1) != tt.ok {
			t.Errorf("%s: left %v", name, names)
		}
	}
}

// TestBackupOfDamaged backs up stores of which one file is damaged, missing or of another moment. A backup that
// succeeds has what the store had; otherwise the error names what is wrong.
func TestBackupOfDamaged(t *testing.T) {
	dir, want, paths := victims(t)
	_, want, _ = strings.Cut(want, " ") // without the incarnation, which a restore renews
	rng := rand.New(rand.NewPCG(13, 14))
	refused := 0
	for _, path := range paths {
		for what, change := range map[string]func([]byte) []byte{
			"deleted":  func([]byte) []byte { return nil },
			"cut":      func(b []byte) []byte { return b[:rng.IntN(len(b))] },
			"a bit":    func(b []byte) []byte { b[rng.IntN(len(b))] ^= 1 << rng.IntN(8); return b },
			"appended": func(b []byte) []byte { return append(b, 0) },
			"later": func(b []byte) []byte {
				if path != watermarkFile {
					return b
				}
				return watermark{epoch: 2, acked: 20, durable: 20}.encode()
			},
		} {
			c := copyTree(t, dir)
			file := filepath.Join(c, path)
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if b = change(b); b == nil {
				err = os.Remove(file)
			} else {
				err = os.WriteFile(file, b, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			var saved bytes.Buffer
			if _, err := Backup(t.Context(), c, &saved); err != nil {
				var damage *DamageError
				if errors.As(err, &damage) && damage.Offset > 0 && damage.Offset > fileSize(t, damage.File) ||
					!strings.Contains(err.Error(), c) {
					t.Errorf("%s %s: %v", path, what, err)
				}
				refused++
				continue
			}
			to := newDir(t)
			if _, err := Restore(t.Context(), &saved, to, Options{FS: fastFS{}}); err != nil {
				t.Errorf("%s %s: %v", path, what, err)
				continue
			}
			got, err := readAll(to, Options{FS: fastFS{}})
			if _, got, _ = strings.Cut(got, " "); err != nil || got != want {
				t.Errorf("%s %s: the backup has other content, %v", path, what, err)
			}
		}
	}
	if refused < 3*len(paths) {
		t.Errorf("%d backups of damaged stores were refused, of %d files", refused, len(paths))
	}
}
