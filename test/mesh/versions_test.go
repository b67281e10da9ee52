//go:build interop

package mesh

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// TestReleased lets a node of the last release and one of today's program share a network,
// each as the hub of the other. Each must take what the other counts, or say that the versions
// differ and count its own as before. When the old node runs today's program, both must agree
// on everything.
func TestReleased(t *testing.T) {
	released := nodetest.Released(t)
	for name, bins := range map[string][2]string{
		"hub of today":        {nodetest.Binary(t), released},
		"hub of last release": {released, nodetest.Binary(t)},
	} {
		t.Run(name, func(t *testing.T) {
			const limit = 30
			address := ownAddress(t)
			hub := newNodeOf(t, bins[0], "hub", "", fmt.Sprintf("mode = \"hub\"\nlisten = %q", address))
			leaf := newNodeOf(t, bins[1], "leaf", hub.secret(), fmt.Sprintf("mode = \"join\"\nservers = [%q]", address))
			both := []*node{hub, leaf}
			for _, n := range both {
				n.start()
			}
			befriend(t, both...)
			for i := range limit {
				hub.report(i, 2)
				leaf.report(i, 3)
			}
			for _, n := range both {
				nodetest.Settle(t, nodetest.Patience, n.name+" counts the other, or says why not", func() string {
					if lacks := lacking(n, both, limit); lacks != "" && !strings.Contains(n.logged(), `reason="other version"`) {
						return lacks
					}
					return lacking(n, []*node{n}, limit)
				})
				t.Logf("%s, %s: counts the other: %v", n.name, filepath.Base(n.bin), lacking(n, both, limit) == "")
			}
			for _, n := range both {
				if n.bin == released {
					n.stop()
					n.bin = nodetest.Binary(t)
					n.start()
				}
			}
			agree(t, both, limit)
		})
	}
}

// logged returns what the node has logged.
func (n *node) logged() string {
	n.t.Helper()
	text, err := os.ReadFile(n.log.Name())
	if err != nil {
		n.t.Fatal(err)
	}
	return string(text)
}
