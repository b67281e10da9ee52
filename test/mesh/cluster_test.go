//go:build interop

package mesh

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

func checkOf(sig int) bulkhead.Query {
	return bulkhead.Query{Signatures: []bulkhead.Signature{signature(sig)}, Terse: true}
}

func reportOf(sig int, id string) bulkhead.Report {
	return bulkhead.Report{Signatures: []bulkhead.Signature{signature(sig)}, Count: 1, ID: id}
}

// restoreInto fills the empty data folder of a stopped node with its snapshot.
func restoreInto(n *node) {
	n.t.Helper()
	from := filepath.Join(n.dir, "snapshot")
	for _, name := range []string{"store", "mesh"} {
		n.copyFolder(filepath.Join(from, name), filepath.Join(n.data(), name))
	}
	files, err := os.ReadDir(from)
	if err != nil {
		n.t.Fatal(err)
	}
	for _, f := range files {
		if f.IsDir() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(from, f.Name()))
		if err == nil {
			err = os.WriteFile(filepath.Join(n.data(), f.Name()), text, 0o600)
		}
		if err != nil {
			n.t.Fatal(err)
		}
	}
	n.truth = n.copies["snapshot"]
}

// TestCluster: three nodes through a cluster of three nats-server processes, each
// beginning with another; one server is killed, then a node.
func TestCluster(t *testing.T) {
	t.Parallel()
	path := nodetest.Program(t, "nats-server")
	var clients, routes []string
	for range 3 {
		clients, routes = append(clients, ownAddress(t)), append(routes, "nats-route://"+ownAddress(t))
	}
	var servers []*nodetest.Process
	for i := range 3 {
		conf := fmt.Sprintf(
			"listen: %q\nserver_name: n%d\njetstream { store_dir: %q }\ncluster { name: c, listen: %q, routes: [%s] }\n",
			clients[i], i, t.TempDir(), strings.TrimPrefix(routes[i], "nats-route://"), strings.Join(routes, ", "))
		file := filepath.Join(t.TempDir(), "nats.conf")
		if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
			t.Fatal(err)
		}
		servers = append(servers, nodetest.Run(t, filepath.Dir(file), path, "-c", file))
	}
	var nodes []*node
	secret := ""
	for i := range 3 {
		urls := fmt.Sprintf("%q, %q, %q", "nats://"+clients[i], "nats://"+clients[(i+1)%3], "nats://"+clients[(i+2)%3])
		n := newNode(t, fmt.Sprint("node ", i), secret,
			fmt.Sprintf("mode = \"external\"\nservers = [%s]\ncredentials = \"none\"\nstream_replicas = 3", urls))
		if secret == "" {
			secret = n.secret()
		}
		n.start()
		nodes = append(nodes, n)
	}
	befriend(t, nodes...)
	for i, n := range nodes {
		for sig := range signatures {
			n.report(sig, uint32(1+i*10))
		}
	}
	agree(t, nodes, signatures)
	servers[1].Kill()
	for i, n := range nodes {
		for sig := range signatures {
			n.report(sig, uint32(2+i*20))
		}
	}
	agree(t, nodes, signatures)
	nodes[1].kill()
	nodes[0].report(1, 5)
	nodes[1].start()
	nodes[1].report(1, 6)
	agree(t, nodes, signatures)
}

// TestPaperMerging is Yan and Cho's example of two filters in which x has the cells (2,5,8)
// and (4,4,3): x was reported twice at one node and three times at the other. Both must say 5,
// and further reports at both must add up exactly, where a merged filter that both raise would
// lose some. Package filter has the example cell by cell.
func TestPaperMerging(t *testing.T) {
	t.Parallel()
	nodes, _ := three(t)
	a, b := nodes[1], nodes[2]
	const x = 1 // sightings
	a.report(x, 2)
	b.report(x, 3)
	agree(t, nodes, signatures)
	for _, n := range []*node{a, b} {
		if got, err := check(n, x); err != nil || got != 5 {
			t.Errorf("%s: %d sightings, %v; want 2 + 3", n.name, got, err)
		}
	}
	for range 3 {
		for range 2 {
			a.report(x, 1)
			b.report(x, 1)
		}
		agree(t, nodes, signatures)
	}
	for _, n := range nodes {
		if got, err := check(n, x); err != nil || got != 17 {
			t.Errorf("%s: %d sightings after three rounds of two more at each, %v; want 17", n.name, got, err)
		}
	}
}
