//go:build interop

package mesh

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// lose kills a node and removes its store.
func (n *node) lose() {
	n.t.Helper()
	n.kill()
	if err := os.RemoveAll(filepath.Join(n.data(), "store")); err != nil {
		n.t.Fatal(err)
	}
}

// recovered waits until a node has taken back what its peers held of it.
func (n *node) recovered() {
	n.t.Helper()
	nodetest.Settle(n.t, nodetest.Patience, n.name+" has its counts back", func() string {
		_, err := os.Stat(filepath.Join(n.data(), "mesh", "recovery.json"))
		if err == nil {
			return "it still asks its peers"
		}
		return ""
	})
}

// alone checks that the node itself has what was reported to it, when it has evicted its peers.
func (n *node) alone() {
	n.t.Helper()
	list, err := n.client.Peers(n.ctx())
	if err != nil {
		n.t.Fatal(err)
	}
	for _, p := range list {
		if err := n.client.EvictPeer(n.ctx(), p.Key); err != nil {
			n.t.Fatal(err)
		}
	}
	over, lacks := compare(n, []*node{n}, signatures)
	if lacks != "" || over > 1 {
		n.t.Errorf("%s alone: %s, %d counts too high", n.name, lacks, over)
	}
}

// TestLostStore: nodes whose stores are removed take everything back that they had shared, whether
// they are the hub or not, while reports go on, and when the peer that holds it comes back only
// later.
func TestLostStore(t *testing.T) {
	t.Parallel()
	nodes, _ := three(t)
	report := func(count uint32, who ...*node) {
		for i, n := range who {
			for sig := range signatures {
				if (sig+i)%3 != 0 {
					n.report(sig, count)
				}
			}
		}
	}
	report(2, nodes...)
	agree(t, nodes, signatures)

	nodes[1].lose()
	report(1, nodes[0], nodes[2])
	nodes[1].start()
	report(1, nodes[1]) // counted anew, before and after the old counts are back
	nodes[1].recovered()
	agree(t, nodes, signatures)

	nodes[0].lose() // the hub
	nodes[0].start()
	nodes[0].recovered()
	report(1, nodes...)
	agree(t, nodes, signatures)

	// Both peers are away when the node starts without its store, and one comes back later.
	nodes[1].stop()
	nodes[2].lose()
	nodes[2].start()
	report(1, nodes[2])
	nodes[1].start()
	nodes[2].recovered()
	agree(t, nodes, signatures)
	nodes[2].kill() // what came back is on disk
	nodes[2].start()
	agree(t, nodes, signatures)
	nodes[2].alone()
}
