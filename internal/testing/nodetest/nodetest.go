// Package nodetest runs, as processes of a test, the program itself and the programs that it
// is tested against.
//
//	func TestMain(m *testing.M) { nodetest.Main(m) }
//
//	node := nodetest.Run(t, dir, nodetest.Binary(t), "serve", "--config", file, "--data", data)
//	nodetest.AwaitTCP(t, address)
//	node.Stop()
package nodetest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// built holds the programs under test.
var built struct {
	sync.Mutex
	dir string // "" until the first one is built
}

// Binary returns the path of the program under test, in the folder that $BULKHEAD_PROGRAMS
// names. Without that the program is built, once in a run.
func Binary(t testing.TB) string {
	t.Helper()
	return build(t, ".", "bulkhead", "bulkhead")
}

// LabBinary returns the path of bulkhead-lab, as [Binary] does.
func LabBinary(t testing.TB) string {
	t.Helper()
	return build(t, "lab", "bulkhead-lab", "bulkhead-lab")
}

// Simulated returns the path of the program with a clock that can be moved. Where programs
// were built before and it was not, it is [Unavailable].
func Simulated(t testing.TB) string {
	t.Helper()
	path := build(t, ".", "bulkhead", "simulated", "-tags", "simclock")
	if _, err := os.Stat(path); err != nil {
		Unavailable(t, "no program with a clock that can be moved: %v", err)
	}
	return path
}

// build returns the path of the program of a command of a module, called name. module is
// the module's folder below the repository's root.
func build(t testing.TB, module, command, name string, flags ...string) string {
	t.Helper()
	if dir := os.Getenv("BULKHEAD_PROGRAMS"); dir != "" {
		return filepath.Join(dir, name)
	}
	built.Lock()
	defer built.Unlock()
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "bulkhead-test-")
		if err != nil {
			t.Fatal(err)
		}
		built.dir = dir
	}
	path := filepath.Join(built.dir, name)
	if _, err := os.Stat(path); err != nil {
		root := strings.TrimSpace(Output(t, "", "go", "list", "-m", "-f", "{{.Dir}}", "github.com/bulkhead-mail/bulkhead"))
		args := append([]string{"build", "-C", filepath.Join(root, module), "-o", path}, flags...)
		Output(t, "", "go", append(args, "./cmd/"+command)...)
	}
	return path
}

// Released returns the path of the program of the last release, which was built before or is
// built from this repository's history. Without either it is [Unavailable].
func Released(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv("BULKHEAD_PROGRAMS"); dir != "" {
		path := filepath.Join(dir, "released")
		if _, err := os.Stat(path); err != nil {
			Unavailable(t, "no program of the last release: %v", err)
		}
		return path
	}
	path := filepath.Join(t.TempDir(), "released")
	root := strings.TrimSpace(Output(t, "", "go", "list", "-m", "-f", "{{.Dir}}"))
	if out, err := exec.CommandContext(t.Context(), filepath.Join(root, "test", "released"),
		path).CombinedOutput(); err != nil {
		Unavailable(t, "no program of the last release: %v\n%s", err, out)
	}
	return path
}

// Main runs the tests of a package, removes the programs that were built for them, and
// exits.
func Main(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// Program returns the path of a program that the test needs, found by its name or
// its path. Without it the test is [Unavailable].
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Unavailable(t, "needs %s: %v", name, err)
	}
	return path
}

// Unavailable skips a test that lacks something of the interop root ("make interop"), and
// names it. If $BULKHEAD_INTEROP is "required", the test fails.
func Unavailable(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("BULKHEAD_INTEROP") == "required" {
		t.Fatalf("BULKHEAD_INTEROP=required: "+format, args...)
	}
	t.Skipf(format, args...)
}

// NeedUsers makes a test [Unavailable] that runs a program under users of its own where
// there is but one.
func NeedUsers(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		Unavailable(t, "needs root, to run a program under users of its own")
	}
	if why := os.Getenv("BULKHEAD_ONE_USER"); why != "" {
		Unavailable(t, "needs several users: %s", why)
	}
}

// Output runs a program to its end, with input as its standard input, and returns its
// output. An exit code other than 0 fails the test.
func Output(t testing.TB, input, path string, args ...string) string {
	t.Helper()
	var out, complaint strings.Builder
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &complaint
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", filepath.Base(path), strings.Join(args, " "), err, out.String(), complaint.String())
	}
	return out.String()
}

// Command runs a program that the test needs, with input as its standard input, for at most
// five minutes. It returns the exit code, -1 if the program was killed, and everything that it
// printed. A program that cannot be run fails the test.
func Command(t testing.TB, input, name string, args ...string) (code int, out string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, Program(t, name), args...)
	cmd.Stdin = strings.NewReader(input)
	output, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Errorf("%s: %v", name, err)
		return -1, string(output)
	}
	return cmd.ProcessState.ExitCode(), string(output)
}
