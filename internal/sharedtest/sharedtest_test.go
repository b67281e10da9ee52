package sharedtest

import (
	"os"
	"path/filepath"
	"testing"
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
			t.Errorf("%s: path %s, required %v, error %v; want found %v, required %v", tt.name, path, required, err, tt.found, tt.required)
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
