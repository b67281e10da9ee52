//go:build interop

package razorpyzor

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// rate is how bulkhead-lab prints requests per second.
var rate = regexp.MustCompile(`: ([0-9]+)(?: requests)?/s`)

// TestSpeed measures the node and pyzord (Debian's, on gdbm; needs python3-gdbm)
// in turns, with one generator, in one run. It fails only if a request does: what
// the figures are worth depends on what else runs on the machine.
//
//	BULKHEAD_SPEED=1 go test -tags interop -v -run TestSpeed ./test/razorpyzor
func TestSpeed(t *testing.T) {
	if os.Getenv("BULKHEAD_SPEED") != "1" {
		t.Skip("measures only with BULKHEAD_SPEED=1")
	}
	n := startNode(t, "")
	dir := t.TempDir()
	peer := nodetest.Address(t)
	_, port, err := net.SplitHostPort(peer)
	if err != nil {
		t.Fatal(err)
	}
	nodetest.Run(t, dir, nodetest.Program(t, "pyzord"), "--homedir", dir, "-a", "127.0.0.1", "-p", port, "-e", "gdbm",
		"--dsn", filepath.Join(dir, "db"))
	ping := &pyzorHome{t: t, dir: t.TempDir(), server: peer}
	ping.write("servers", peer+"\n")
	ping.write("config", "[client]\nTimeout = 1\n")
	nodetest.Settle(t, nodetest.Patience, "pyzord answers (is python3-gdbm installed?)", func() string {
		code, out := nodetest.Command(t, "", "pyzor", "--homedir", ping.dir, "ping")
		if code == 0 {
			return ""
		}
		return out
	})
	measure := func(args ...string) float64 {
		t.Helper()
		out := nodetest.Output(t, "", nodetest.LabBinary(t), append([]string{"load"}, args...)...)
		t.Logf("%s", out)
		m := rate.FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("no rate in %s", out)
		}
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for range 3 {
		for _, op := range []string{"check", "report"} {
			theirs := measure("pyzor", "--address", peer, "--op", op, "--sockets", "4", "--window", "8", "--digests", "1000")
			ours := measure("pyzor", "--address", n.pyzor, "--op", op)
			t.Logf("pyzor %s: %.1f x pyzord", op, ours/theirs)
		}
	}
	measure("razor2", "--address", n.razor)
}
