package node

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// TestLostStoreCountsAtPeer checks that, after a node's store is gone and the node starts with its
// keys, it takes its counts back from a peer of full weight. A peer of less weight goes on counting
// the former counts exactly, in addition to the new ones, until an administrator drops them.
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
	// Generations are named by the second in which they begin, and the new one needs another name.
	begun := time.Now().Unix()
	nodetest.Await(t, "the next second", func() bool { return time.Now().Unix() > begun })
	bob, stop = startIn(t, dir, "")
	anew := func(i int) (n uint32) {
		if i >= all-50 {
			n = 3
		}
		return n
	}
	for i := all - 50; i < all+50; i++ {
		counts(t, bob, text(i), 3)
	}
	exact("both count, what came back and what is new", func(i int) uint32 { return old(i) + anew(i) })
	nodetest.Await(t, "bob has his counts again", func() bool {
		for i := range all + 50 {
			if sees(t, bob, text(i)) != old(i)+anew(i) {
				return false
			}
		}
		return true
	})
	nodetest.Await(t, "no former incarnation is left", func() bool { return network(t, hub).Peers[0].FormerKeys() == 0 })

	// A peer of less weight is not asked. The hub goes on counting what it holds until an
	// administrator drops it.
	if err := bob.peers.WeighPeer(ctx, keyOf(t, hub), 0.5); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "store")); err != nil {
		t.Fatal(err)
	}
	bob, _ = startIn(t, dir, "")
	for i := all - 50; i < all+50; i++ {
		counts(t, bob, text(i), 3)
	}
	exact("both incarnations count", func(i int) uint32 { return old(i) + 2*anew(i) })
	if p := network(t, hub).Peers[0]; p.FormerKeys() < all {
		t.Errorf("the peer is shown with %+v", p.Former)
	}
	if err := hub.peers.ForgetPeer(ctx, keyOf(t, bob)); err != nil {
		t.Fatal(err)
	}
	exact("only the new incarnation counts", anew)
}
