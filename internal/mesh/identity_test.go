package mesh

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

func TestIdentity(t *testing.T) {
	dir, id := meshtest.Folder(t)
	again, err := member.OpenIdentity(dir)
	if err != nil || again.ID() != id.ID() || len(id.ID()) != 56 || !isID(id.ID()) {
		t.Errorf("opened again: %v, %v; want %s", again, err, id.ID())
	}
	for _, bad := range []string{"", "U", strings.Replace(id.ID(), id.ID()[9:10], "1", 1), "S" + id.ID()[1:],
		id.ID() + "A"} {
		if isID(bad) {
			t.Errorf("%q is taken for the key of a node", bad)
		}
	}
	if err := os.Chmod(filepath.Join(dir, member.KeyFile), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := member.OpenIdentity(dir); err == nil || !strings.Contains(err.Error(), "chmod 0600") {
		t.Errorf("key that others can read: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, member.KeyFile), []byte("SU\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	os.Chmod(filepath.Join(dir, member.KeyFile), 0o600)
	if _, err := member.OpenIdentity(dir); err == nil {
		t.Error("damaged key accepted")
	}
}

// isID reports whether text is the public key of a node.
func isID(text string) bool {
	_, err := wire.ParsePublic(text)
	return err == nil
}
