package node

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/audit"
	"github.com/bulkhead-mail/bulkhead/internal/config"
)

// TestExamineRunning checks that a running node finds damage in its own files, and reports it to
// administrators alone.
func TestExamineRunning(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	root, stop := historyNode(t, dir, "")
	if err := stop(); err != nil { // it writes a snapshot
		t.Fatal(err)
	}
	root, _ = historyNode(t, dir, "")
	examine := func() *admin.Examination {
		t.Helper()
		x, err := root.Examine(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	if x := examine(); !x.Sound() || x.Files == 0 || x.Bytes == 0 || x.Folder != dir {
		t.Fatalf("of a sound node: %+v", x)
	}
	files, err := filepath.Glob(filepath.Join(dir, StoreFolder, "files", "weights-*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no file of weights: %v", err)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	broken := slices.Clone(whole)
	for i := len(broken) / 2; i < len(broken)/2+9; i++ {
		broken[i] ^= 0xff
	}
	if err := os.WriteFile(files[0], broken, 0o600); err != nil {
		t.Fatal(err)
	}
	x := examine()
	if len(x.Faults) != 1 || x.Faults[0].Part != "store" || x.Faults[0].File != files[0] || x.Faults[0].Offset == 0 {
		t.Errorf("faults %+v, want one in %s", x.Faults, files[0])
	}
	if len(x.Doubts) != 1 || x.Doubts[0].Array != "weights" || !strings.Contains(x.Doubts[0].Text, "page") {
		t.Errorf("in doubt: %+v", x.Doubts)
	}
	if err := os.WriteFile(files[0], whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if x := examine(); !x.Sound() {
		t.Errorf("when the file is as it was: %+v", x)
	}
	stranger := admin.New(root.Server, "")
	if x, err := stranger.Examine(t.Context()); statusOf(err) != 403 && statusOf(err) != 401 {
		t.Errorf("a client without a token is told %+v, %v", x, err)
	}
}

// TestExamineEveryFile damages, opens and removes each file of a node's data folder in turn. The
// examination of the stopped node names that file each time.
func TestExamineEveryFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	for range 2 { // the second stop writes the inventory with all that the first has made
		_, stop := historyNode(t, dir, "")
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
	faults := func() (list []admin.Fault) {
		t.Helper()
		x, err := Examine(t.Context(), config.Default(), dir)
		if err != nil {
			t.Fatal(err)
		}
		return x.Faults
	}
	if got := faults(); len(got) != 0 {
		t.Fatalf("of a sound folder: %+v", got)
	}
	var files []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && d.Name() != "LOCK" {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) < 15 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	found := func(what, file string) {
		t.Helper()
		for _, f := range faults() {
			if f.File == file || strings.HasPrefix(file, f.File+"/") {
				return
			}
		}
		t.Errorf("%s is %s, and the faults are %+v", file, what, faults())
	}
	for _, file := range files {
		whole, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, 0o644); err != nil {
			t.Fatal(err)
		}
		found("open to others", file)
		if err := os.Chmod(file, 0o600); err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		// A history without rows, and a secret of random bytes, have no check of their own.
		if name != "secret" && filepath.Ext(name) != ".db" && len(whole) > 0 && filepath.Ext(name) != ".log" {
			broken := slices.Clone(whole)
			broken[len(broken)/2] ^= 0x15
			if err := os.WriteFile(file, broken, 0o600); err != nil {
				t.Fatal(err)
			}
			found("damaged", file)
			if err := os.WriteFile(file, whole, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if name == "secret" || filepath.Ext(name) == ".log" || filepath.Ext(name) == ".db" || name == audit.File ||
			name == AdminTokenFile {
			continue // an empty one begins anew, or an administrator has moved it away
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		found("missing", file)
		if err := os.WriteFile(file, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := faults(); len(got) != 0 {
		t.Errorf("when all is as it was: %+v", got)
	}

	other := filepath.Join(t.TempDir(), "other")
	_, stop := historyNode(t, other, "")
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{AdminTokenFile, networkKeyFile} {
		mine, foreign := filepath.Join(dir, name), filepath.Join(other, name)
		whole, err := os.ReadFile(mine)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := os.ReadFile(foreign)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(mine, theirs, 0o600); err != nil {
			t.Fatal(err)
		}
		found("of another node", mine)
		if err := os.WriteFile(mine, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
