//go:build interop

package fuzzydcc

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

// startNode runs a node whose configuration is the given text until the test
// ends. It returns its data folder.
func startNode(t *testing.T, config string) (data string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "bulkhead.toml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	data = filepath.Join(dir, "data")
	nodetest.Run(t, dir, nodetest.Binary(t), "serve", "--config", file, "--data", data)
	return data
}
