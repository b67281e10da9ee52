//go:build interop

package start

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

// TestRun: the first run shows the samples to a new node; the second finds it at
// work and says where; a third, after a stop, goes on with what it knew. Doctor has
// nothing to complain of.
func TestRun(t *testing.T) {
	nodetest.Program(t, "ps")
	script, err := filepath.Abs("../../samples/run.sh")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run := func(wants ...string) (pid int) {
		t.Helper()
		cmd := exec.Command(script, nodetest.Binary(t))
		cmd.Dir = dir
		// A process that is left running keeps a pipe open: a file does not wait for it.
		output, err := os.Create(filepath.Join(t.TempDir(), "said"))
		if err != nil {
			t.Fatal(err)
		}
		defer output.Close()
		cmd.Stdout, cmd.Stderr = output, output
		err = cmd.Run()
		out, _ := os.ReadFile(output.Name())
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, want := range wants {
			if strings.Contains(string(out), strings.TrimPrefix(want, "!")) == strings.HasPrefix(want, "!") {
				t.Errorf("want %q in\n%s", want, out)
			}
		}
		found := regexp.MustCompile(`stop it +kill (\d+)`).FindSubmatch(out)
		if found == nil {
			t.Fatalf("no word of how to stop it in\n%s", out)
		}
		pid, err = strconv.Atoi(string(found[1]))
		if err != nil {
			t.Fatal(err)
		}
		return pid
	}
	// The node is no child of this process: it is gone when its name is.
	stop := func(pid int) {
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			return // by the test itself, before
		}
		nodetest.Await(t, "the node's end", func() bool { return exec.Command("ps", "-p", strconv.Itoa(pid)).Run() != nil })
	}
	first := run("Nobody has told the node anything yet", "wave-2.eml: suspected", "wave-3.eml: suspected",
		"wave-3.eml: SPAM", "wave-4.eml: SPAM", "newsletter.eml: BULK", "revoked.eml: revoked", "The node goes on running")
	t.Cleanup(func() { stop(first) })
	if second := run("A node of this folder runs already", "!Starting"); second != first {
		t.Errorf("the second run names process %d, the first %d", second, first)
	}
	stop(first)
	nodetest.Output(t, "", nodetest.Binary(t), "doctor", "--data", filepath.Join(dir, "bulkhead-data")) // finds no fault
	third := run("What the node says of all samples", "!Nobody has told", "The node goes on running")
	t.Cleanup(func() { stop(third) })
	if third == first {
		t.Error("the node that was stopped runs")
	}
}
