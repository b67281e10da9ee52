//go:build interop

package mesh

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// TestHeal damages the pages of a node's counts and lists on its disk. It refuses to start, starts
// with --salvage, goes on counting, and has them back in the background from the replicas of its
// peers: every node then counts exactly the reports to all nodes. A node that was killed after it
// had published more than its last snapshot has rebuilds those pages from its own publications.
func TestHeal(t *testing.T) {
	t.Parallel()
	for _, external := range []bool{false, true} {
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprintf("external %v, killed %v", external, killed), func(t *testing.T) {
				t.Parallel()
				nodes := healers(t, external)
				hurt := nodes[len(nodes)-1]
				for i, n := range nodes {
					for sig := range signatures {
						n.report(sig, uint32(1+i))
					}
				}
				agree(t, nodes, signatures)
				hurt.stop()
				if killed {
					hurt.start()
					for sig := range signatures / 2 {
						hurt.report(sig, 3)
					}
					agree(t, nodes, signatures)
					hurt.report(1, 1) // perhaps no peer receives it
					hurt.kill()
				}
				hurt.damage("counts-", "spam-")
				if out, code := hurt.examine(); code != 65 || !strings.Contains(out, "lost page") {
					t.Fatalf("doctor --data: code %d: %s", code, out)
				}
				if out, err := exec.Command(hurt.bin, "serve", "--config", filepath.Join(hurt.dir, "bulkhead.toml"), "--data",
					hurt.data()).CombinedOutput(); err == nil || !strings.Contains(string(out), "counts-") {
					t.Fatalf("a damaged store is not refused by name: %v: %s", err, out)
				}

				hurt.start("--salvage")
				hurt.report(2, 4)
				hurt.report(0, 1)
				healed, broker := uint64(0), false
				nodetest.Settle(t, 2*nodetest.Patience, "the pages are back", func() string {
					s := hurt.state()
					if len(s.Doubts) > 0 || len(s.Healed) == 0 {
						return fmt.Sprintf("doubts %+v, healed %+v", s.Doubts, s.Healed)
					}
					healed = 0
					for _, h := range s.Healed {
						healed += h.Pages
						broker = broker || h.Peer == admin.FromBroker
					}
					return ""
				})
				agree(t, nodes, signatures)
				exact(t, nodes)
				if shown := hurt.metric("bulkhead_pages_healed_total"); shown != healed || healed < 2 {
					t.Errorf("the metric tells of %d pages, the state of %d; want 2 at least", shown, healed)
				}
				if killed && !broker {
					t.Error("pages that were told of after the snapshot came from elsewhere than the broker")
				}
				if hurt.metric("bulkhead_mesh_healing") != 0 {
					t.Error("the node still heals")
				}

				hurt.kill()
				hurt.start() // without --salvage: all is on the disk
				for i, n := range nodes {
					for sig := range signatures {
						n.report(sig, uint32(1+i))
					}
				}
				agree(t, nodes, signatures)
				exact(t, nodes)
				hurt.stop()
				if out, code := hurt.examine(); code != 0 {
					t.Errorf("doctor --data in the end: code %d: %s", code, out)
				}
			})
		}
	}
}

// healers returns three nodes that are peers: of a hub, or through a nats-server.
func healers(t *testing.T, external bool) []*node {
	t.Helper()
	address := ownAddress(t)
	hub, join := fmt.Sprintf("mode = \"hub\"\nlisten = %q", address),
		fmt.Sprintf("mode = \"join\"\nservers = [%q]", address)
	if external {
		nodetest.Run(t, t.TempDir(), nodetest.Program(t, "nats-server"), "-a", host(address), "-p", port(address), "-js",
			"-sd", t.TempDir())
		nodetest.AwaitTCP(t, address)
		hub = fmt.Sprintf("mode = \"external\"\nservers = [\"nats://%s\"]\ncredentials = \"none\"", address)
		join = hub
	}
	var nodes []*node
	secret := ""
	for i, mesh := range []string{hub, join, join} {
		n := newNode(t, fmt.Sprint("node ", i), secret, mesh)
		n.settings("capacity = 5000", "capacity = 5000\nerror = 1e-9")
		n.settings("capacity = 1000", "capacity = 1000\nerror = 1e-9")
		if secret == "" {
			secret = n.secret()
		}
		n.start()
		nodes = append(nodes, n)
	}
	befriend(t, nodes...)
	return nodes
}

func host(address string) string {
	host, _, _ := strings.Cut(address, ":")
	return host
}

func port(address string) string {
	_, port, _ := strings.Cut(address, ":")
	return port
}

// damage overwrites bytes of every page in the files of a stopped node's last snapshot whose names
// begin so. A page has more than 64 bytes, and none is mended if a whole byte is wrong.
func (n *node) damage(prefixes ...string) {
	n.t.Helper()
	for _, prefix := range prefixes {
		files, err := filepath.Glob(filepath.Join(n.data(), "store", "files", prefix+"*"))
		if err != nil || len(files) == 0 {
			n.t.Fatalf("no file %s: %v", prefix, err)
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				n.t.Fatal(err)
			}
			for i := 50; i < len(b); i += 50 {
				b[i] ^= 0xff
			}
			if err := os.WriteFile(file, b, 0o600); err != nil {
				n.t.Fatal(err)
			}
		}
	}
}

// examine examines the folder of a stopped node, and returns what is said and the exit code.
func (n *node) examine() (string, int) {
	n.t.Helper()
	code, out := nodetest.Command(n.t, "", n.bin, "doctor", "--config", filepath.Join(n.dir, "bulkhead.toml"),
		"--data", n.data())
	return out, code
}

// exact requires every count to equal the reports to all nodes.
func exact(t *testing.T, nodes []*node) {
	t.Helper()
	for _, n := range nodes {
		if over, lacks := compare(n, nodes, signatures); over > 0 || lacks != "" {
			t.Errorf("%s: %d counts are too high; %s", n.name, over, lacks)
		}
	}
}

// metric returns the sum of what a node's metric of a name says.
func (n *node) metric(name string) (sum uint64) {
	n.t.Helper()
	resp, err := http.Get("http://" + n.http + "/metrics")
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	lines := regexp.MustCompile(`(?m)^`+name+`(?:\{.*\})? (\d+)$`).FindAllSubmatch(b, -1)
	if err != nil || len(lines) == 0 {
		n.t.Fatalf("no metric %s: %v", name, err)
	}
	for _, l := range lines {
		v, err := strconv.ParseUint(string(l[1]), 10, 64)
		if err != nil {
			n.t.Fatal(err)
		}
		sum += v
	}
	return sum
}
