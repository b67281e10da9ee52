//go:build interop

package mta

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// A node is a running bulkhead with all doors for mail servers open.
type node struct {
	bin, dir, config          string
	http, milter, policy, dns string // addresses
	cmd                       *exec.Cmd
	process                   *nodetest.Process
}

func TestMain(m *testing.M) { nodetest.Main(m) }

// newNode prepares a node; config is what follows [listen].
func newNode(t testing.TB, config string) *node {
	t.Helper()
	n := &node{bin: nodetest.Binary(t), dir: t.TempDir()}
	for _, a := range []*string{&n.http, &n.milter, &n.policy, &n.dns} {
		*a = nodetest.Address(t)
	}
	n.config = filepath.Join(n.dir, "bulkhead.toml")
	writeFile(t, n.config, "[listen]\nhttp = %q\nmilter = %q\npolicy = %q\ndnsbl = %q\n%s", n.http, n.milter, n.policy,
		n.dns, config)
	return n
}

// start runs the node until the test ends, or n.process is stopped.
func (n *node) start(t testing.TB) {
	t.Helper()
	n.cmd = exec.Command(n.bin, "serve", "--config", n.config, "--data", filepath.Join(n.dir, "data"))
	n.process = nodetest.Start(t, n.cmd)
	nodetest.AwaitTCP(t, n.milter)
	nodetest.Await(t, "node ready", func() bool {
		resp, err := http.Get("http://" + n.http + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == 200
	})
}

// bulkhead runs the program and returns what it printed.
func (n *node) bulkhead(t testing.TB, stdin string, args ...string) string {
	t.Helper()
	return nodetest.Output(t, stdin, n.bin, args...)
}

// list builds a list of lines and returns its path.
func (n *node) list(t testing.TB, name string, args []string, lines ...string) string {
	t.Helper()
	path := filepath.Join(n.dir, name)
	n.bulkhead(t, strings.Join(lines, "\n"), append([]string{"list", "build", path, "-"}, args...)...)
	return path
}
