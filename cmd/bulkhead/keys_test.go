package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
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
		if err := readKey(filepath.Join(dir, networkKeyFile), kept[:]); err != nil {
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

// TestOwnFolder: root leaves nothing in a folder of another user, who could not
// read it. What is there already is read and left as it is.
func TestOwnFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can write into the folders of others")
	}
	dir := t.TempDir()
	node := filepath.Join(dir, "node.toml")
	if err := os.WriteFile(node, []byte("[listen]\nhttp = \"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var none bytes.Buffer
	if code := run([]string{"restore", "--data", dir, "-"}, &none, &none, &none); code != int(cli.Data) {
		t.Fatalf("restore of nothing exits with %d, want %d: %s", code, cli.Data, none.String())
	}
	theirs := filepath.Join(dir, "theirs")
	if err := errors.Join(os.Mkdir(theirs, 0o700), os.Chown(theirs, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"serve", "--config", node, "--data", theirs},
		{"network", "new", "--data", theirs},
		{"restore", "--data", theirs, "-"},
	} {
		var out, errs bytes.Buffer
		code := run(args, strings.NewReader(""), &out, &errs)
		if code != int(cli.NoPerm) || !strings.Contains(errs.String(), "owned by user 65534") {
			t.Errorf("%s exits with %d, want %d: %s", args[0], code, cli.NoPerm, errs.String())
		}
		if names, err := os.ReadDir(theirs); err != nil || len(names) != 0 {
			t.Fatalf("%s has left %v, %v", args[0], names, err)
		}
	}
	// A node of theirs: root changes nothing in it either.
	made := filepath.Join(dir, "made")
	if code := run([]string{"network", "new", "--data", made}, strings.NewReader(""), &none, &none); code != cli.OK {
		t.Fatal(none.String())
	}
	if err := errors.Join(os.Chown(made, 65534, 65534), os.Chown(filepath.Join(made, meshFolder), 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"rotate", "show"} { // which makes the node's key if it is missing
		if code := run([]string{"network", what, "--data", made}, strings.NewReader(""), &none, &none); code != int(cli.NoPerm) {
			t.Errorf("network %s exits with %d, want %d", what, code, cli.NoPerm)
		}
	}
}
