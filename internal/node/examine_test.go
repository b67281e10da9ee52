package node

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/client/admin"
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
