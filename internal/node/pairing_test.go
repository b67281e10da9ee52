package node

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/api"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

const quickMesh = "publish_interval = \"20ms\"\nheartbeat = \"200ms\"\nshare_counts_from = 1\n"

// startIn starts a node with a section [mesh].
func startIn(t *testing.T, dir, mesh string) (*Node, func() error) {
	t.Helper()
	return start(t, Options{Config: parse(t, "[listen]\nhttp = \"127.0.0.1:0\"\n[mesh]\n"+quickMesh+mesh), Dir: dir})
}

func hubMesh(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("mode = \"hub\"\nlisten = %q\n", nodetest.Address(t))
}

func sees(t *testing.T, n *Node, sig bulkhead.Signature) uint32 {
	t.Helper()
	v, err := n.Clearinghouse().Check(t.Context(), bulkhead.Query{Signatures: []bulkhead.Signature{sig}})
	if err != nil {
		t.Fatal(err)
	}
	return v.Findings[0].Sightings
}

func counts(t *testing.T, n *Node, sig bulkhead.Signature, times uint32) {
	t.Helper()
	if _, err := n.Clearinghouse().Report(t.Context(),
		bulkhead.Report{Signatures: []bulkhead.Signature{sig}, Count: times}); err != nil {
		t.Fatal(err)
	}
}

// TestJoin has a node that has counted alone join a hub and leave it again, while it runs. Its own
// counts are always there, and the counts made in between are there for both.
func TestJoin(t *testing.T) {
	alice, _ := startIn(t, t.TempDir(), hubMesh(t))
	dir := t.TempDir()
	bob, stop := startIn(t, dir, "")
	old, fresh := bulkhead.MustSignature(bulkhead.Exact, []byte("old")), bulkhead.MustSignature(bulkhead.Exact,
		[]byte("new"))
	counts(t, bob, old, 3)
	ctx := t.Context()

	if _, err := bob.peers.Invite(ctx, admin.NewInvitation{}); !errors.Is(err, api.ErrNoMesh) {
		t.Errorf("who shares with nobody invites: %v", err)
	}
	v, err := alice.peers.Invite(ctx, admin.NewInvitation{Name: "bob", Weight: 1})
	if err != nil {
		t.Fatal(err)
	}
	was := bob.secret()
	dry, err := bob.peers.Join(ctx, admin.Join{Line: v.Line, Weight: 1, Dry: true})
	if err != nil || dry.State != "possible" || !dry.Rekey || dry.Network != fingerprint(alice.secret()) ||
		dry.From != fingerprint(was) {
		t.Errorf("%+v, %v", dry, err)
	}
	if j, err := bob.peers.Join(ctx, admin.Join{Line: v.Line, Weight: 1}); err != nil || j.State != "waiting" ||
		bob.secret() != was {
		t.Errorf("%+v, %v", j, err)
	}
	list, err := alice.peers.Invitations(ctx)
	if err != nil || len(list) != 1 || len(list[0].Joiners) != 1 || list[0].Line != "" {
		t.Fatalf("%+v, %v", list, err)
	}
	if err := alice.peers.Decide(ctx, list[0].Joiners[0].Key, true); err != nil {
		t.Fatal(err)
	}
	joined := func() {
		t.Helper()
		if j, err := bob.peers.Join(ctx, admin.Join{Line: v.Line, Weight: 1}); err != nil || j.State != "joined" {
			t.Fatalf("%+v, %v", j, err)
		}
		if bob.secret() != alice.secret() || bob.state.State(ctx).Network != fingerprint(alice.secret()) {
			t.Error("the node is not in the network")
		}
	}
	joined()
	if got := sees(t, bob, old); got != 3 {
		t.Errorf("%d sightings from before, want 3", got)
	}
	counts(t, bob, old, 2)
	counts(t, alice, fresh, 5)
	nodetest.Await(t, "both know all", func() bool {
		return sees(t, alice, old) == 2 && sees(t, bob, old) == 5 && sees(t, bob, fresh) == 5
	})
	joined() // joining again changes nothing

	// After a restart the node is where it was.
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	bob, _ = startIn(t, dir, "")
	counts(t, alice, fresh, 1)
	nodetest.Await(t, "bob hears alice after a restart", func() bool {
		return sees(t, bob, fresh) == 6 && sees(t, bob, old) == 5
	})

	other, _ := startIn(t, t.TempDir(), hubMesh(t))
	astray, err := other.peers.Invite(ctx, admin.NewInvitation{Accept: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bob.peers.Join(ctx, admin.Join{Line: astray.Line}); !errors.Is(err, bulkhead.ErrForbidden) ||
		!strings.Contains(err.Error(), "leave that first") {
		t.Errorf("a second network: %v", err)
	}
	left, err := bob.peers.Leave(ctx)
	if err != nil || left.Peers != 1 || left.Network != fingerprint(bob.secret()) || bob.secret() == alice.secret() ||
		bob.secret() == was {
		t.Errorf("%+v, %v", left, err)
	}
	if sees(t, bob, old) != 5 || sees(t, bob, fresh) != 0 {
		t.Errorf("after leaving %d and %d sightings, want his own 5 and none of alice's", sees(t, bob, old),
			sees(t, bob, fresh))
	}
	if _, err := bob.peers.Leave(ctx); !errors.Is(err, api.ErrNoMesh) {
		t.Errorf("left twice: %v", err)
	}
	if out, err := bob.peers.Join(ctx, admin.Join{Line: astray.Line}); err != nil || out.State != "joined" {
		t.Errorf("a fourth secret: %+v, %v", out, err)
	}
	if sees(t, bob, old) != 5 {
		t.Errorf("%d sightings in the other network, want his own 5", sees(t, bob, old))
	}
	if _, err := bob.peers.Leave(ctx); err != nil {
		t.Errorf("leaving the other network: %v", err)
	}
	joined() // back in the former network, under a known secret
	nodetest.Await(t, "bob is back", func() bool { return sees(t, bob, fresh) == 6 })

	dead, err := alice.peers.Invite(ctx, admin.NewInvitation{Hubs: []string{nodetest.Address(t)}})
	if err != nil {
		t.Fatal(err)
	}
	var problem *client.Problem
	if _, err := bob.peers.Join(ctx, admin.Join{Line: dead.Line}); !errors.As(err, &problem) || problem.Status != 502 {
		t.Errorf("a hub that is away: %v", err)
	}
	if err := alice.peers.Withdraw(ctx, dead.ID); err != nil {
		t.Error(err)
	}
}

// TestShareCountsFrom checks that by default a node does not share a signature counted once, and
// shares the full count from the second time on. It shares a listing at once.
func TestShareCountsFrom(t *testing.T) {
	at := func(dir, mesh string) (*Node, func() error) {
		return start(t, Options{Config: parse(t,
			"[listen]\nhttp = \"127.0.0.1:0\"\n[mesh]\npublish_interval = \"20ms\"\nheartbeat = \"200ms\"\n"+mesh), Dir: dir})
	}
	dir, hub := t.TempDir(), hubMesh(t)
	alice, stop := at(dir, hub)
	bob, _ := at(t.TempDir(), "")
	joinAll(t, alice, bob)
	text := func(s string) bulkhead.Signature { return bulkhead.MustSignature(bulkhead.Exact, []byte(s)) }
	vote := func(s string) {
		t.Helper()
		if _, err := alice.Clearinghouse().Report(t.Context(),
			bulkhead.Report{Signatures: []bulkhead.Signature{text(s)}, Vote: bulkhead.Spam}); err != nil {
			t.Fatal(err)
		}
	}
	// A later listing is shared with the counts, or after them.
	report := func(s string) {
		t.Helper()
		vote(s)
		nodetest.Await(t, "bob hears what is listed: "+s, func() bool {
			v, err := bob.Clearinghouse().Check(t.Context(), bulkhead.Query{Signatures: []bulkhead.Signature{text(s)}})
			return err == nil && v.Findings[0].Judged == bulkhead.JudgedSpam
		})
	}
	counts(t, alice, text("one"), 1)
	counts(t, alice, text("two"), 2)
	report("marker")
	nodetest.Await(t, "bob sees what was counted twice", func() bool { return sees(t, bob, text("two")) == 2 })
	if got := sees(t, bob, text("one")); got != 0 {
		t.Errorf("bob sees %d sightings of what was counted once", got)
	}
	counts(t, alice, text("one"), 1)
	nodetest.Await(t, "bob sees both times", func() bool { return sees(t, bob, text("one")) == 2 })

	if err := stop(); err != nil {
		t.Fatal(err)
	}
	alice, _ = at(dir, hub+"share_counts_from = 4\n")
	counts(t, alice, text("one"), 3)
	counts(t, alice, text("four"), 4)
	report("another marker")
	nodetest.Await(t, "bob sees what was counted four times", func() bool { return sees(t, bob, text("four")) == 4 })
	if got := sees(t, bob, text("one")); got != 2 {
		t.Errorf("bob sees %d sightings, of which he was told 2", got)
	}
}
