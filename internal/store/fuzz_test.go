package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// wantNamed fails unless err is one of the two kinds of error that name a file.
func wantNamed(t *testing.T, err error) {
	t.Helper()
	var damage *DamageError
	if !errors.As(err, &damage) && !errors.Is(err, ErrFormat) {
		t.Errorf("error without a kind: %v", err)
	}
}

func FuzzManifest(f *testing.F) {
	m := Manifest{Checkpoint: 7, Incarnation: "00112233445566778899aabbccddeeff", Start: 12, Meta: []byte("meta"),
		epoch: 3,
		Files: []FileInfo{{"a", 1, 2, 3, 4}, {"b.c-d_e", 1 << 40, 0, 1<<64 - 1, 7}}}
	for _, m := range []Manifest{m, {Incarnation: m.Incarnation, Start: 1, epoch: 1}} {
		b, err := m.encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)-1])
	}
	for _, body := range []string{"{}", "[]", "", `{"checkpoint":1e99}`, `{"unknown":1}`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		// The checksum would keep the fuzzer from reaching the parser behind it.
		for _, b := range [][]byte{b, withHead(b)} {
			m, err := decodeManifest("MANIFEST", b)
			if err != nil {
				wantNamed(t, err)
				continue
			}
			again, err := m.encode()
			if err != nil {
				t.Fatal(err)
			}
			m2, err := decodeManifest("MANIFEST", again)
			if err != nil {
				t.Fatalf("%v: %q", err, again)
			}
			again2, err := m2.encode()
			if err != nil || !bytes.Equal(again, again2) {
				t.Fatalf("%v: %q and %q", err, again, again2)
			}
			for _, file := range m.Files {
				if !isStored(file.stored()) || filepath.Base(file.stored()) != file.stored() {
					t.Errorf("stored name %q", file.stored())
				}
			}
		}
	})
}

func FuzzWatermark(f *testing.F) {
	f.Add(watermark{1, 5, 4}.encode())
	f.Add(watermark{}.encode())
	f.Add([]byte(watermarkMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeWatermark("watermark", b)
		if err != nil {
			wantNamed(t, err)
		} else if !bytes.Equal(m.encode(), b) {
			t.Errorf("%x decodes to %+v, which encodes to %x", b, m, m.encode())
		}
		if len(b) < watermarkBytes-4 {
			return
		}
		w := withSum(b[:watermarkBytes-4])
		if m, err := decodeWatermark("watermark", w); err == nil && !bytes.Equal(m.encode(), w) {
			t.Errorf("%x decodes to %+v, which encodes to %x", w, m, m.encode())
		}
	})
}

// FuzzBackup restores arbitrary input. The result must be a good store or none.
func FuzzBackup(f *testing.F) {
	_, b := backupOf(f, Options{FS: fastFS{}})
	f.Add(b[:1000])
	s := open(f, newDir(f), Options{FS: fastFS{}})
	appendN(f, s, 2, 10)
	if err := s.Checkpoint(f.Context(), 2, []byte("m"), []File{text("a", "content")}); err != nil {
		f.Fatal(err)
	}
	var small bytes.Buffer
	if _, err := s.Backup(f.Context(), &small); err != nil {
		f.Fatal(err)
	}
	f.Add(small.Bytes())
	f.Add([]byte(backupMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		parent := ramDir(t)
		dir := filepath.Join(parent, "store")
		if _, err := Restore(t.Context(), bytes.NewReader(b), dir, Options{FS: fastFS{}}); err != nil {
			wantNamed(t, err)
			if names, _ := os.ReadDir(parent); len(names) > 0 {
				t.Errorf("left behind: %v", names)
			}
			return
		}
		if _, err := readAll(dir, Options{FS: fastFS{}}); err != nil {
			t.Errorf("restored store: %v", err)
		}
	})
}

// FuzzFrames reads frames with valid checksums.
func FuzzFrames(f *testing.F) {
	f.Add(byte(frameManifest), []byte("{}"), byte(frameEnd), []byte("12345678"))
	f.Add(byte(frameEntry), []byte{}, byte(frameContent), []byte("x"))
	f.Fuzz(func(t *testing.T, k1 byte, p1 []byte, k2 byte, p2 []byte) {
		m := Manifest{Incarnation: "00112233445566778899aabbccddeeff", Start: 1, epoch: 1,
			Files: []FileInfo{{Name: "a", Size: int64(len(p1))}}}
		head, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		b.WriteString(backupMagic + "\x01\x00")
		w := &frameWriter{w: &b}
		if err := errors.Join(w.write(frameManifest, head), w.write(k1, p1), w.write(k2, p2)); err != nil {
			t.Fatal(err)
		}
		dir := newDir(t)
		if _, err := Restore(t.Context(), &b, dir, Options{FS: fastFS{}}); err != nil {
			wantNamed(t, err)
		} else if _, err := readAll(dir, Options{FS: fastFS{}}); err != nil {
			t.Errorf("restored store: %v", err)
		}
	})
}

// FuzzSegment reads arbitrary bytes as the only segment of a store. The segment may be refused or
// cut short, and must not be changed if it is refused.
func FuzzSegment(f *testing.F) {
	s := open(f, newDir(f), Options{FS: fastFS{}})
	appendN(f, s, 3, 40)
	path := s.tail.path
	if err := s.Close(); err != nil {
		f.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(b[:len(b)-5])
	f.Add([]byte{})
	f.Add(make([]byte, 100))
	// The test's stores need the segment's incarnation.
	manifest, err := os.ReadFile(s.path(manifestFile))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := newDir(t)
		if err := errors.Join(os.Mkdir(dir, 0o700), makeDirs(dir)); err != nil {
			t.Fatal(err)
		}
		seg := filepath.Join(dir, journalDir, filepath.Base(path))
		if err := errors.Join(os.WriteFile(filepath.Join(dir, manifestFile), manifest, 0o600),
			os.WriteFile(seg, b, 0o600)); err != nil {
			t.Fatal(err)
		}
		first, err := readAll(dir, Options{FS: fastFS{}})
		if err != nil {
			wantNamed(t, err)
			if now, err := os.ReadFile(seg); err != nil || !bytes.Equal(now, b) {
				t.Errorf("refused and changed: %v", err)
			}
			return
		}
		if again, err := readAll(dir, Options{FS: fastFS{}}); err != nil || again != first {
			t.Errorf("the second time: %v", err)
		}
	})
}

// FuzzCheckpointFile reads arbitrary bytes as a checkpoint file.
func FuzzCheckpointFile(f *testing.F) {
	var b bytes.Buffer
	w := newBlockWriter(&b, 99)
	w.Write([]byte("content"))
	if err := w.finish(); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes(), int64(7))
	f.Add(fileHeader(99), int64(0))
	f.Add([]byte("BHCF"), int64(1<<40))
	f.Fuzz(func(t *testing.T, b []byte, size int64) {
		if size < 0 || size > maxFileBytes {
			return // the manifest does not list such a file
		}
		path := filepath.Join(ramDir(t), "f")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		err := verifyFile(t.Context(), osFS{}, path, FileInfo{Size: size, CRC: w.crc, id: 99})
		if err != nil {
			wantNamed(t, err)
		} else if size != 7 {
			t.Errorf("%d bytes with the checksum of other content", size)
		}
	})
}
