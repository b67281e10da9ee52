// Package nodetest runs the program itself, and the programs that it is tested
// against, as processes of tests.
//
//	func TestMain(m *testing.M) { nodetest.Main(m) }
//
//	nodetest.Run(t, dir, nodetest.Binary(t), "serve", "--config", file, "--data", data)
//	nodetest.AwaitTCP(t, address)
package nodetest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Patience is how long the functions of this package wait for a process.
const Patience = time.Minute

// built is the program under test.
var built struct {
	once sync.Once
	dir  string
	err  error
}

// Binary returns the path of the program under test, built once in a run.
func Binary(t testing.TB) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "bulkhead-test-"); built.err != nil {
			return
		}
		cmd := exec.Command("go", "build", "-o", built.dir, "github.com/bulkhead-mail/bulkhead/cmd/bulkhead")
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("build: %v\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, "bulkhead")
}

// Main runs the tests of a package, removes the program that was built for them
// and exits.
func Main(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// Run starts a program in a process group of its own, with dir as its folder.
// The test's end ends it, children included, and shows what it said if the test
// failed. stop does so before, and returns once it has ended; if it has to be
// killed for that, the test has failed.
func Run(t testing.TB, dir, path string, args ...string) (stop func()) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
			select {
			case <-exited:
			case <-time.After(Patience):
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
				<-exited
				t.Errorf("%s had to be killed", filepath.Base(path))
			}
		})
	}
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("%s said:\n%.8000s", filepath.Base(path), out.String())
		}
	})
	return stop
}

// Program returns the path of a program that the test needs. Without it the test
// is skipped; under CI it has failed.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is missing under CI", name)
	}
	t.Skipf("needs %s: %v", name, err)
	return ""
}

// FreePort returns a loopback port that is free in TCP and UDP.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		u, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		l.Close()
		if err == nil {
			u.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

// Address returns a loopback address with a free port.
func Address(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", FreePort(t))
}

// Await polls until ok.
func Await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within %v", what, Patience)
		case <-tick.C:
		}
	}
}

// AwaitTCP waits until a server takes connections.
func AwaitTCP(t testing.TB, address string) {
	t.Helper()
	Await(t, "a server on "+address, func() bool {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}
