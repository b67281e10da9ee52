package node

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// TestAggregate has a hub that publishes the sum of itself and a member to another hub, where the
// sum is one peer. A node that counts the member itself does not count the sum.
func TestAggregate(t *testing.T) {
	ctx := t.Context()
	above := nodetest.Address(t)
	reader, _ := startIn(t, t.TempDir(), fmt.Sprintf("mode = \"hub\"\nlisten = %q\n", above))
	invite := func(hub *Node) string {
		t.Helper()
		v, err := hub.peers.Invite(ctx, admin.NewInvitation{Accept: true, Weight: 1, Uses: 2})
		if err != nil {
			t.Fatal(err)
		}
		return v.Line
	}
	join := func(n *Node, hub *Node) {
		t.Helper()
		if j, err := n.peers.Join(ctx, admin.Join{Line: invite(hub), Weight: 1}); err != nil || j.State != "joined" {
			t.Fatalf("%+v, %v", j, err)
		}
	}
	// All are in one network: the group's hub has the secret of the higher hub.
	dir := t.TempDir()
	first, stop := startIn(t, dir, "")
	join(first, reader)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	hub, _ := startIn(t, dir, hubMesh(t)+fmt.Sprintf("[aggregate]\nmembers = [\"*\"]\nservers = [%q]\n", above))
	if err := hub.peers.WeighPeer(ctx, keyOf(t, reader), 0); err != nil { // otherwise it would be in the sum
		t.Fatal(err)
	}
	if err := reader.peers.WeighPeer(ctx, keyOf(t, hub), 0); err != nil {
		t.Fatal(err)
	}
	member, _ := startIn(t, t.TempDir(), "")
	join(member, hub)
	total := func() *admin.Aggregate {
		s, err := hub.peers.Network(ctx)
		if err != nil || s.Aggregate == nil {
			t.Fatalf("%+v, %v", s, err)
		}
		return s.Aggregate
	}
	if id, err := ReadNetwork(dir); err != nil || id.Aggregate != total().Key || id.Aggregate == id.Key {
		t.Errorf("%+v, %v; want the key %s of the sum", id, err, total().Key)
	}
	if err := reader.peers.AddPeer(ctx, admin.NewPeer{Key: total().Key, Name: "group", Weight: 1}); err != nil {
		t.Fatal(err)
	}
	a, b := bulkhead.MustSignature(bulkhead.Exact, []byte("a")), bulkhead.MustSignature(bulkhead.Exact, []byte("b"))
	counts(t, member, a, 3)
	counts(t, hub, a, 4)
	counts(t, hub, b, 5)
	group := func() admin.Peer {
		s, err := reader.peers.Network(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range s.Peers {
			if p.Key == total().Key {
				return p
			}
		}
		t.Fatal("the sum is no peer")
		return admin.Peer{}
	}
	nodetest.Await(t, "the reader counts the sum", func() bool {
		return sees(t, reader, a) == 7 && sees(t, reader, b) == 5 && group().Organisations >= 1 && sees(t, hub, a) == 7
	})
	if s := total(); s.Fault != "" || s.Organisations != 2 || s.Memory == 0 || s.Sums == 0 {
		t.Errorf("%+v", s)
	}
	// The reader also counts the hub itself, and reports that.
	if err := reader.peers.WeighPeer(ctx, keyOf(t, hub), 1); err != nil {
		t.Fatal(err)
	}
	nodetest.Await(t, "the sum is refused", func() bool { return strings.Contains(group().Quarantine, "counted already") })
}

func keyOf(t *testing.T, n *Node) string {
	t.Helper()
	s, err := n.peers.Network(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.Key
}
