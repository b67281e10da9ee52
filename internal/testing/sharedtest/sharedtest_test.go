package sharedtest

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func TestCorpus(t *testing.T) {
	base := t.TempDir()
	present, absent := filepath.Join(base, "a", "module"), filepath.Join(base, "b", "module")
	if err := os.MkdirAll(filepath.Join(base, "a", "shared", "corpus", "samples"), 0o700); err != nil {
		t.Fatal(err)
	}
	named := filepath.Join(base, "a", "shared", "corpus")
	tests := []struct {
		name, setting, root string
		found, required     bool
	}{
		{"default place", "", present, true, false},
		{"default place, absent", "", absent, false, false},
		{"required", "required", present, true, true},
		{"required, absent", "required", absent, false, true},
		{"named", named, absent, true, true},
		{"named, absent", filepath.Join(base, "nowhere"), present, false, true},
	}
	t.Setenv("CI", "true") // says nothing about the corpus
	for _, tt := range tests {
		path, required, err := corpus(tt.setting, tt.root, "samples")
		if (err == nil) != tt.found || required != tt.required {
			t.Errorf("%s: path %s, required %v, error %v; want found %v, required %v", tt.name, path, required, err,
				tt.found, tt.required)
		}
		if tt.found && path != filepath.Join(named, "samples") {
			t.Errorf("%s: path %s", tt.name, path)
		}
	}
}

func TestVector(t *testing.T) {
	path := Vector(t, "dcc", "checksums.tsv")
	if fi, err := os.Stat(path); err != nil || fi.Size() == 0 {
		t.Errorf("%s: %v", path, err)
	}
}

// TestUnpack checks that an archive is unpacked, and that nothing of it lands elsewhere.
func TestUnpack(t *testing.T) {
	write := func(w io.Writer) error {
		_, err := io.WriteString(w, "mail")
		return err
	}
	archive := func(name string) string {
		var b bytes.Buffer
		z, err := zstd.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		w := tar.NewWriter(z)
		err = errors.Join(w.WriteHeader(&tar.Header{Name: name, Size: 4, Mode: 0o644}), write(w), w.Close(), z.Close())
		path := filepath.Join(t.TempDir(), "a.tar.zst")
		if err = errors.Join(err, os.WriteFile(path, b.Bytes(), 0o600)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	dir := t.TempDir()
	if err := unpack(dir, archive("./a/b/1.eml")); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "a", "b", "1.eml")); string(text) != "mail" {
		t.Errorf("unpacked %q, %v", text, err)
	}
	inner := filepath.Join(dir, "inner")
	if err := os.Mkdir(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unpack(inner, archive("../1.eml")); err == nil {
		t.Error("a name that leads out is unpacked")
	}
	if _, err := os.Stat(filepath.Join(dir, "1.eml")); err == nil {
		t.Error("a file lies outside")
	}
}
