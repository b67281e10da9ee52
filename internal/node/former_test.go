package node

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// TestLostStoreCountsAtPeer checks that, after a node's store is gone and the node starts with its
// keys, its peer goes on counting the former counts exactly, in addition to the new ones, until an
// administrator drops them.
func TestLostStoreCountsAtPeer(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	hub, _ := startIn(t, t.TempDir(), hubMesh(t))
	bob, stop := startIn(t, dir, "")
	joinAll(t, hub, bob)
	const all = 400
	text := func(i int) bulkhead.Signature {
		return bulkhead.MustSignature(bulkhead.Exact, []byte{byte(i), byte(i >> 8)})
	}
	for i := range all {
		counts(t, bob, text(i), 2)
	}
	exact := func(when string, want func(i int) uint32) {
		t.Helper()
		nodetest.Await(t, when, func() bool {
			for i := range all + 50 {
				if uint32(sees(t, hub, text(i))) != want(i) {
					return false
				}
			}
			return true
		})
	}
	old := func(i int) (n uint32) {
		if i < all {
			n = 2
		}
		return n
	}
	exact("the hub has what bob counts", old)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "store")); err != nil {
		t.Fatal(err)
	}
	bob, _ = startIn(t, dir, "")
	anew := func(i int) (n uint32) {
		if i >= all-50 {
			n = 3
		}
		return n
	}
	for i := all - 50; i < all+50; i++ {
		counts(t, bob, text(i), 3)
	}
	exact("both incarnations count", func(i int) uint32 { return old(i) + anew(i) })
	if p := network(t, hub).Peers[0]; p.FormerKeys() < all {
		t.Errorf("the peer is shown with %+v", p.Former)
	}
	if err := hub.peers.ForgetPeer(ctx, keyOf(t, bob)); err != nil {
		t.Fatal(err)
	}
	exact("only the new incarnation counts", anew)
}
