package node

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestLoadKey(t *testing.T) {
	dir := t.TempDir()
	var first, again, other [16]byte
	if err := loadKey(dir, networkKeyFile, first[:]); err != nil || first == [16]byte{} {
		t.Fatalf("first start: key %x, %v", first, err)
	}
	if err := loadKey(dir, networkKeyFile, again[:]); err != nil || again != first {
		t.Errorf("second start: key %x, %v; want %x", again, err, first)
	}
	if err := loadKey(t.TempDir(), networkKeyFile, other[:]); err != nil || other == first {
		t.Errorf("another node has the same key %x, %v", other, err)
	}
	path := filepath.Join(dir, networkKeyFile)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
}

func TestLoadKeyRefuses(t *testing.T) {
	good := strings.Repeat("0f", 16)
	tests := []struct {
		name, content string
		mode          os.FileMode
		store         bool
		want          string
	}{
		{"short", good[2:], 0o600, false, "want 32 hexadecimal digits"},
		{"long", good + "00", 0o600, false, "want 32 hexadecimal digits"},
		{"not hexadecimal", "zz" + good[2:], 0o600, false, "want 32 hexadecimal digits"},
		{"empty", "", 0o600, false, "want 32 hexadecimal digits"},
		{"readable for others", good, 0o640, false, "lets others read it"},
		{"huge", strings.Repeat("0", 5000), 0o600, false, "limit 4096"},
		{"missing beside a store", "", 0, true, "put it back from a backup"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, sealKeyFile)
			if tt.mode != 0 {
				if err := os.WriteFile(path, []byte(tt.content), tt.mode); err != nil {
					t.Fatal(err)
				}
			}
			if tt.store {
				if err := os.Mkdir(filepath.Join(dir, StoreFolder), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			var key [16]byte
			if err := loadKey(dir, sealKeyFile, key[:]); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("loadKey = %v, want %q", err, tt.want)
			}
			after, _ := os.ReadFile(path)
			if string(after) != tt.content {
				t.Errorf("the file was changed to %q", after)
			}
		})
	}
}

// TestLoadKeyAtOnce: of two first starts in one folder, only one can go on, but
// both make keys. The one that goes on must have the key that stays.
func TestLoadKeyAtOnce(t *testing.T) {
	for range 20 {
		dir := t.TempDir()
		var keys [8][16]byte
		var wg sync.WaitGroup
		for i := range keys {
			wg.Go(func() {
				if err := loadKey(dir, networkKeyFile, keys[i][:]); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		var kept [16]byte
		if err := ReadKey(filepath.Join(dir, networkKeyFile), kept[:]); err != nil {
			t.Fatal(err)
		}
		for i := range keys {
			if keys[i] != kept {
				t.Fatalf("start %d of %d goes on with key %x, the file has %x", i+1, len(keys), keys[i], kept)
			}
		}
		if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
			t.Fatalf("%d files are left, %v; want the key alone", len(names), err)
		}
	}
}
