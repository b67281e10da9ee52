package node

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
		{"of another check", good + " 00000000", 0o600, false, "do not belong together"},
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

// TestDamagedKey checks that the key of secrets with a changed bit, or a truncated file, is never
// taken for another key. A key that was written by hand has no check.
func TestDamagedKey(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, sealKeyFile)
	var key [32]byte
	if err := loadKey(dir, sealKeyFile, key[:]); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	try := func(what string, text []byte) {
		t.Helper()
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		var got [32]byte
		switch err := loadKey(dir, sealKeyFile, got[:]); {
		case err != nil && !strings.Contains(err.Error(), sealKeyFile):
			t.Errorf("%s: %v, which does not name the file", what, err)
		case err != nil:
			refused++
		case got != key:
			t.Errorf("%s: %q is read as another key", what, text)
		}
	}
	for i := range whole {
		for bit := range 8 {
			text := slices.Clone(whole)
			text[i] ^= 1 << bit
			try(fmt.Sprintf("bit %d of byte %d", bit, i), text)
		}
		try(fmt.Sprintf("%d bytes", i), whole[:i])
	}
	if refused < 8*64 {
		t.Errorf("%d damaged files are refused", refused)
	}
	refused = 0
	try("by hand", []byte(hex.EncodeToString(key[:])))
	if refused != 0 {
		t.Error("a key without its check is refused")
	}
}

// TestLoadKeyAtOnce: of two first starts in one folder, only one can go on, but both make keys. The
// one that goes on must have the key that stays.
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
