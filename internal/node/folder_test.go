package node

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/node/manage"
	"github.com/bulkhead-mail/bulkhead/internal/standby"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// TestForeignFolder checks that neither a start nor a command closes or fills a folder of something else, that
// other users can read.
func TestForeignFolder(t *testing.T) {
	cfg := parse(t, everyPart)
	for _, tt := range []struct {
		name  string
		mode  os.FileMode
		files []string // a name that ends with a slash is a folder
		taken bool
	}{
		{"of a system", 0o755, []string{"etc/", "passwd"}, false},
		{"empty", 0o755, nil, true},
		{"a file system of its own", 0o755, []string{"lost+found/"}, true},
		{"private", 0o700, []string{"lists/"}, true},
		{"with a list", 0o755, []string{"bad.list"}, true},
		{"of a node, opened since", 0o755, []string{"notes/", networkKeyFile}, true},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range tt.files {
			path, err := filepath.Join(dir, name), error(nil)
			if strings.HasSuffix(name, "/") {
				err = os.Mkdir(path, 0o700)
			} else {
				err = os.WriteFile(path, []byte(strings.Repeat("0", 32)), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(dir, tt.mode); err != nil {
			t.Fatal(err)
		}
		_, made := NewNetwork(dir, "")
		n, err := Open(t.Context(), Options{Config: cfg, Dir: dir, Log: slog.New(slog.DiscardHandler)})
		if err == nil {
			err = n.Close(t.Context())
		}
		if tt.taken {
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		left, _ := os.ReadDir(dir)
		info, _ := os.Stat(dir)
		if !errors.Is(made, store.ErrPermission) || !errors.Is(err, store.ErrPermission) ||
			len(left) != len(tt.files) || info.Mode().Perm() != tt.mode {
			t.Errorf("%s: %v, %v; %d files, %v", tt.name, made, err, len(left), info.Mode())
		}
	}
}

// TestFolderFails checks that a start which cannot write into its folder does not call the configuration wrong.
func TestFolderFails(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, rateFolder), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	n, err := Open(t.Context(), Options{Config: httpDoor(t), Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = n.Close(t.Context())
	}
	var wrong *config.Error
	if err == nil || errors.As(err, &wrong) {
		t.Errorf("%v", err)
	}
}

// TestFolderInUse checks that no command changes the data folder of a running node, even if the folder of
// the store, which has a lock of its own, was moved away.
func TestFolderInUse(t *testing.T) {
	cfg := parse(t, everyPart)
	dir := filepath.Join(t.TempDir(), "data")
	_, stop := start(t, Options{Config: cfg, Dir: dir})
	var backup bytes.Buffer
	if _, err := Backup(t.Context(), dir, &backup); err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Join(dir, manage.WhitelistFile)
	if err := os.WriteFile(damaged, []byte("{damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	repair := func() error {
		_, err := Repair(t.Context(), RepairOptions{Config: cfg, Dir: dir, Log: log})
		return err
	}
	if err := repair(); !errors.Is(err, store.ErrInUse) {
		t.Errorf("repair: %v", err)
	}
	if b, err := os.ReadFile(damaged); err != nil || string(b) != "{damaged" {
		t.Errorf("after a repair that was refused: %q, %v", b, err)
	}
	stored, moved := filepath.Join(dir, StoreFolder), filepath.Join(dir, "moved")
	if err := os.Rename(stored, moved); err != nil {
		t.Fatal(err)
	}
	for name, work := range map[string]func() error{
		"repair": repair,
		"restore": func() error {
			_, _, err := Restore(t.Context(), bytes.NewReader(backup.Bytes()), dir)
			return err
		},
		"restore from peers": func() error {
			_, err := RestoreFromPeers(dir)
			return err
		},
		"start": func() error {
			n, err := Open(t.Context(), Options{Config: cfg, Dir: dir, Log: log})
			if err == nil {
				err = errors.Join(errors.New("the node has started"), n.Close(t.Context()))
			}
			return err
		},
	} {
		if err := work(); !errors.Is(err, store.ErrInUse) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Lstat(stored); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder of the store: %v", err)
	}
	if err := errors.Join(os.Rename(moved, stored), stop()); err != nil {
		t.Fatal(err)
	}
	if err := repair(); err != nil {
		t.Errorf("repair of the stopped node: %v", err)
	}
}

// TestUnfinished checks that a restore and a repair remove what interrupted ones have left: it takes as much
// space as a store.
func TestUnfinished(t *testing.T) {
	cfg := parse(t, everyPart)
	dir := everyPartFolder(t, cfg)
	var backup bytes.Buffer
	if _, err := Backup(t.Context(), dir, &backup); err != nil {
		t.Fatal(err)
	}
	left := []string{filepath.Join(dir, "doctor-1", StoreFolder), filepath.Join(dir, StoreFolder+".restore-1", "files")}
	for _, folder := range left {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(dir, StoreFolder, "MANIFEST")); err != nil {
		t.Fatal(err)
	}
	if _, err := Repair(t.Context(), RepairOptions{Config: cfg, Dir: dir, Backup: bytes.NewReader(backup.Bytes()),
		Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, StoreFolder), filepath.Join(dir, "moved")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Restore(t.Context(), bytes.NewReader(backup.Bytes()), dir); err != nil {
		t.Fatal(err)
	}
	for _, folder := range left {
		if _, err := os.Stat(filepath.Dir(folder)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", folder, err)
		}
	}
}

// TestSecondKeepsNoEntry checks that no command leaves entries in the store of a second node that the first one
// does not have: it would refuse the second node for good. A repaired store is no copy any more.
func TestSecondKeepsNoEntry(t *testing.T) {
	cfg := parse(t, everyPart)
	dir := everyPartFolder(t, cfg)
	state := standby.State{Role: standby.Second, Address: "127.0.0.1:1", Source: "a"}
	if err := state.Save(dir); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	if err := RecoverAdmin(t.Context(), cfg, dir, log); !errors.Is(err, bulkhead.ErrForbidden) {
		t.Errorf("recover: %v", err)
	}
	if s, err := standby.LoadState(dir); err != nil || s != state {
		t.Errorf("after a command that was refused: %+v, %v", s, err)
	}
	if err := os.Remove(filepath.Join(dir, StoreFolder, "MANIFEST")); err != nil {
		t.Fatal(err)
	}
	if _, err := Repair(t.Context(), RepairOptions{Config: cfg, Dir: dir, Log: log}); err != nil {
		t.Fatal(err)
	}
	state.Source = ""
	if s, err := standby.LoadState(dir); err != nil || s != state {
		t.Errorf("after a repair: %+v, %v", s, err)
	}
}

// TestForeignFile checks that an examination by root names the files of the data folder that the node's user
// cannot read, and a folder in which that user cannot write.
func TestForeignFile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to others")
	}
	cfg := parse(t, everyPart)
	dir := everyPartFolder(t, cfg)
	aside := filepath.Join(dir, setAsideFolder)
	if err := os.Mkdir(aside, 0o700); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, 65534, 65534))
	})
	if x, failed := Examine(t.Context(), cfg, dir); err != nil || failed != nil || !x.Sound() {
		t.Fatalf("%+v, %v, %v", x, err, failed)
	}
	want := []string{filepath.Join(dir, sealKeyFile), aside}
	for _, path := range want {
		if err := os.Chown(path, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	x, err := Examine(t.Context(), cfg, dir)
	if err != nil || len(x.Faults) != 2 {
		t.Fatalf("%+v, %v", x, err)
	}
	for i, f := range x.Faults {
		if f.File != want[i] || !strings.Contains(f.Problem, "owned by user 0, and the data folder by 65534") ||
			f.Advice != "use chown 65534 "+want[i] {
			t.Errorf("%+v", f)
		}
	}
}

// TestOpenKeyOnce checks that a secret that others can read is one fault, with one advice.
func TestOpenKeyOnce(t *testing.T) {
	cfg := parse(t, everyPart)
	dir := everyPartFolder(t, cfg)
	for _, name := range []string{networkKeyFile, sealKeyFile, AdminTokenFile} {
		path := filepath.Join(dir, name)
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		x, err := Examine(t.Context(), cfg, dir)
		if err != nil || len(x.Faults) != 1 || x.Faults[0].Advice != "use chmod 0600 "+path {
			t.Errorf("%s: %+v, %v", name, x, err)
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLostAgain checks that a repair names what is lost, also if an earlier repair named the same part.
func TestLostAgain(t *testing.T) {
	cfg := parse(t, "[listen]\nhttp = \"127.0.0.1:0\"\n")
	dir := filepath.Join(t.TempDir(), "data")
	sig := bulkhead.NamedSignature(bulkhead.Claim, "somebody")
	for n := range 3 {
		node, stop := start(t, Options{Config: cfg, Dir: dir})
		if _, err := node.engine.Report(t.Context(), bulkhead.Report{Signatures: []bulkhead.Signature{sig}}); err != nil {
			t.Fatal(err)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(dir, StoreFolder, "files", "counts-*"))
		if err != nil || len(files) != 1 {
			t.Fatalf("%q, %v", files, err)
		}
		if err := os.WriteFile(files[0], []byte("damaged"), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Repair(t.Context(), RepairOptions{Config: cfg, Dir: dir, Log: slog.New(slog.DiscardHandler)})
		if err != nil || len(r.Lost) == 0 || !r.After.Sound() {
			t.Errorf("repair %d: lost %+v, then %+v, %v", n, r.Lost, r.After, err)
		}
	}
}
