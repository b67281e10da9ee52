package main

import (
	"os"
	"path/filepath"
	"strings"
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
				if err := os.Mkdir(filepath.Join(dir, storeFolder), 0o700); err != nil {
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

func TestDataFolder(t *testing.T) {
	for _, tt := range []struct{ flag, configured, systemd, want string }{
		{"", "", "", "bulkhead-data"},
		{"", "", "/var/lib/a:/var/lib/b", "/var/lib/a"},
		{"", "conf", "/var/lib/a", "conf"},
		{"flag", "conf", "/var/lib/a", "flag"},
	} {
		t.Setenv("STATE_DIRECTORY", tt.systemd)
		if got := dataFolder(tt.flag, tt.configured); got != tt.want {
			t.Errorf("dataFolder(%q, %q) with STATE_DIRECTORY=%q = %q, want %q", tt.flag, tt.configured, tt.systemd, got, tt.want)
		}
	}
}
