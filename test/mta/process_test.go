//go:build interop

package mta

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

func run(t testing.TB, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// start runs a program in the foreground until the test ends, and returns when
// it answers at address ("" for no waiting).
func start(t testing.TB, address string, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	nodetest.Start(t, cmd)
	if address != "" {
		nodetest.AwaitTCP(t, address)
	}
	return cmd
}

// await polls until ok.
func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	nodetest.Await(t, what, ok)
}

// freePort returns an unused loopback port.
func freePort(t testing.TB) int {
	t.Helper()
	return nodetest.FreePort(t)
}

func writeFile(t testing.TB, path, format string, args ...any) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, fmt.Appendf(nil, format, args...), 0o644); err != nil {
		t.Fatal(err)
	}
}
