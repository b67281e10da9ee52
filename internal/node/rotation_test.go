package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/api"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// joinAll makes nodes join a hub.
func joinAll(t *testing.T, hub *Node, nodes ...*Node) {
	t.Helper()
	for _, n := range nodes {
		v, err := hub.peers.Invite(t.Context(), admin.NewInvitation{Weight: 1, Accept: true, Group: "all"})
		if err != nil {
			t.Fatal(err)
		}
		if j, err := n.peers.Join(t.Context(), admin.Join{Line: v.Line, Weight: 1}); err != nil || j.State != "joined" {
			t.Fatalf("%+v, %v", j, err)
		}
	}
}

func network(t *testing.T, n *Node) admin.Network {
	t.Helper()
	s, err := n.peers.Network(t.Context())
	if err != nil && !errors.Is(err, api.ErrNoMesh) { // briefly, while it begins anew
		t.Fatal(err)
	}
	return s
}

// TestRotateUnderTraffic has three nodes change the secret of their network while reports arrive.
// No report is refused and no answer is too small. At the end all nodes have the counts of a plain
// map, from before, during and after.
func TestRotateUnderTraffic(t *testing.T) {
	ctx := t.Context()
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	hubConfig := hubMesh(t)
	hub, _ := startIn(t, dirs[0], hubConfig)
	bob, _ := startIn(t, dirs[1], "")
	carol, stopCarol := startIn(t, dirs[2], "")
	joinAll(t, hub, bob, carol)
	nodes := []*Node{hub, bob, carol}
	before := hub.secret()

	const sigs = 8
	var counted [3][sigs]atomic.Uint32
	text := func(i int) bulkhead.Signature {
		return bulkhead.MustSignature(bulkhead.Exact, fmt.Append(nil, "text ", i))
	}
	agree := func(what string) {
		t.Helper()
		for i := range sigs {
			want := uint32(0)
			for n := range counted {
				want += counted[n][i].Load()
			}
			for k, n := range nodes {
				nodetest.Await(t, fmt.Sprintf("%s: node %d shows %d of text %d", what, k, want, i), func() bool {
					return sees(t, n, text(i)) == want
				})
			}
		}
	}
	traffic := func() (stop func()) {
		done, wg := make(chan struct{}), sync.WaitGroup{}
		for k, n := range nodes {
			wg.Go(func() {
				for step := 0; ; step++ {
					select {
					case <-done:
						return
					default:
					}
					i := step % sigs
					own := counted[k][i].Load()
					if _, err := n.Clearinghouse().Report(ctx,
						bulkhead.Report{Signatures: []bulkhead.Signature{text(i)}, Count: 2}); err != nil {
						t.Errorf("node %d refuses a report: %v", k, err)
						return
					}
					counted[k][i].Add(2)
					v, err := n.Clearinghouse().Check(ctx, bulkhead.Query{Signatures: []bulkhead.Signature{text(i)}})
					if err != nil || v.Findings[0].Sightings < own+2 {
						t.Errorf("node %d shows %+v, %v, of which it has counted %d itself", k, v.Findings, err, own+2)
						return
					}
				}
			})
		}
		return func() { close(done); wg.Wait() }
	}
	stop := traffic()
	s, err := hub.peers.ChangeSecret(ctx, admin.NewSecret{Seconds: 3600})
	if err != nil || s.Done || s.From != fingerprint(before) {
		t.Fatalf("%+v, %v", s, err)
	}
	if _, err := hub.peers.ChangeSecret(ctx, admin.NewSecret{}); !errors.Is(err, bulkhead.ErrForbidden) {
		t.Errorf("announced twice: %v", err)
	}
	nodetest.Await(t, "both have fetched the secret", func() bool {
		s := network(t, hub).Secret
		return s != nil && len(s.Fetched) == 2 && len(s.Missing) == 0
	})
	stop()
	agree("before the change")

	// One node is away at the time, and returns later.
	if err := stopCarol(); err != nil {
		t.Fatal(err)
	}
	nodes = nodes[:2]
	stop = traffic()
	if _, err := hub.peers.KeepSecret(ctx); err != nil {
		t.Fatal(err)
	}
	if s, err = hub.peers.ChangeSecret(ctx, admin.NewSecret{}); err != nil {
		t.Fatal(err)
	}
	changed := func(n *Node) bool {
		change := network(t, n).Secret // nil, briefly, while the node begins anew
		return fingerprint(n.secret()) == s.To && change != nil && change.Done
	}
	nodetest.Await(t, "both use it", func() bool { return changed(hub) && changed(bob) })
	carol, _ = startIn(t, dirs[2], "")
	nodes = append(nodes, carol)
	nodetest.Await(t, "the third has caught up", func() bool { return changed(carol) })
	stop()
	stop = traffic()
	stop()
	agree("after the change")
	for _, n := range nodes {
		if got := n.engine.Former(); len(got) != 1 || got[0] != before {
			t.Errorf("former secrets %v", got)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dirs[1], pastKeysFile)); err != nil ||
		!strings.Contains(string(text), ofNetwork) {
		t.Errorf("%s: %q, %v", pastKeysFile, text, err)
	}
	// A node that joins now gets the counts from now on, and the former secret from no node.
	late, _ := startIn(t, t.TempDir(), "")
	joinAll(t, hub, late)
	fresh := bulkhead.MustSignature(bulkhead.Exact, []byte("fresh"))
	counts(t, hub, fresh, 3)
	nodetest.Await(t, "the newcomer knows what is new", func() bool { return sees(t, late, fresh) == 3 })
	if late.engine.Knows(before.ID()) {
		t.Error("a newcomer has a former secret")
	}
	if got := network(t, late).Peers; len(got) == 0 {
		t.Error("no peer")
	} else {
		for _, p := range got {
			if len(p.Refused) > 0 {
				t.Errorf("refused of %s: %v", p.Name, p.Refused)
			}
		}
	}
}

// TestExpelledBeforeRotation checks that an evicted node keeps its former counts, and neither
// learns the new secret nor can look up counts under it.
func TestExpelledBeforeRotation(t *testing.T) {
	ctx := t.Context()
	hub, _ := startIn(t, t.TempDir(), hubMesh(t))
	bob, _ := startIn(t, t.TempDir(), "")
	eve, _ := startIn(t, t.TempDir(), "")
	joinAll(t, hub, bob, eve)
	old, fresh := bulkhead.MustSignature(bulkhead.Exact, []byte("old")), bulkhead.MustSignature(bulkhead.Exact,
		[]byte("fresh"))
	counts(t, bob, old, 3)
	nodetest.Await(t, "all know", func() bool { return sees(t, hub, old) == 3 && sees(t, eve, old) == 3 })
	if _, err := hub.peers.ChangeSecret(ctx, admin.NewSecret{Seconds: 3600}); err != nil {
		t.Fatal(err)
	}
	nodetest.Await(t, "she has fetched it", func() bool { return network(t, eve).Secret != nil })
	next := network(t, eve).Secret.To
	for _, p := range network(t, hub).Peers {
		if p.Key == network(t, eve).Key {
			if err := hub.peers.EvictPeer(ctx, p.Key); err != nil {
				t.Fatal(err)
			}
		}
	}
	nodetest.Await(t, "the other has another one", func() bool {
		s := network(t, bob).Secret
		return s != nil && s.To != next && s.To == network(t, hub).Secret.To
	})
	if _, err := hub.peers.KeepSecret(ctx); err != nil {
		t.Fatal(err)
	}
	s, err := hub.peers.ChangeSecret(ctx, admin.NewSecret{})
	if err != nil {
		t.Fatal(err)
	}
	nodetest.Await(t, "both use it", func() bool {
		return fingerprint(hub.secret()) == s.To && fingerprint(bob.secret()) == s.To
	})
	counts(t, hub, fresh, 5)
	nodetest.Await(t, "the members share", func() bool {
		return sees(t, bob, fresh) == 5 && sees(t, bob, old) == 3 && sees(t, hub, old) == 3
	})
	if eve.secret() == hub.secret() || eve.engine.Knows(hub.secret().ID()) || sees(t, eve, fresh) != 0 {
		t.Error("an expelled member has the new secret, or sees what is counted under it")
	}
}

// TestSwitchRefused checks which changes cannot be announced, and which a node cannot follow.
func TestSwitchRefused(t *testing.T) {
	ctx := context.Background()
	hub, _ := startIn(t, t.TempDir(), hubMesh(t))
	bob, _ := startIn(t, t.TempDir(), "")
	if _, err := bob.peers.ChangeSecret(ctx, admin.NewSecret{}); !errors.Is(err, api.ErrNoMesh) {
		t.Errorf("who shares with nobody: %v", err)
	}
	if _, err := bob.peers.KeepSecret(ctx); !errors.Is(err, api.ErrNoMesh) {
		t.Errorf("who shares with nobody: %v", err)
	}
	joinAll(t, hub, bob)
	if _, err := bob.peers.ChangeSecret(ctx, admin.NewSecret{}); !errors.Is(err, bulkhead.ErrForbidden) {
		t.Errorf("on no hub: %v", err)
	}
	for _, bad := range []string{"0a", strings.Repeat("x", 32), strings.Repeat("0a", 17)} {
		if _, err := hub.peers.ChangeSecret(ctx, admin.NewSecret{Secret: bad}); !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("secret %q: %v", bad, err)
		}
	}
	// A node with counts under as many secrets as it can answer under stays where it is, and reports
	// that. It can leave.
	seen, err := bulkhead.NewSignature(bulkhead.Exact, make([]byte, 20))
	if err != nil {
		t.Fatal(err)
	}
	for i := byte(1); len(bob.engine.Secrets()) < engine.MaxSecrets || bob.engine.CanRekey(filter.Secret{}) == nil; i++ {
		if _, err := bob.engine.Report(ctx, bulkhead.Report{Signatures: []bulkhead.Signature{seen}}); err != nil {
			t.Fatal(err)
		}
		if bob.engine.CanRekey(filter.Secret{}) != nil {
			break
		}
		if err := bob.rekeyAll(ctx, filter.Secret{i}); err != nil {
			t.Fatal(err)
		}
	}
	was := bob.secret()
	bob.follow(filter.Secret{99})
	if _, err := bob.peers.Mesh(); err != nil || bob.secret() != was {
		t.Error("the node has left its network, or shares no more")
	}
	if _, err := bob.peers.ChangeSecret(ctx, admin.NewSecret{Secret: strings.Repeat("0a", 16)}); !errors.Is(err,
		bulkhead.ErrOverLimit) {
		t.Errorf("a secret too many: %v", err)
	}
	left, err := bob.leave(ctx)
	if now := bob.engine.Secrets(); err != nil || left.Network != fingerprint(bob.secret()) || bob.secret() == was ||
		len(now) != engine.MaxSecrets {
		t.Errorf("leaving with the most secrets: %+v, %v, %d secrets", left, err, len(now))
	}
}

// TestSwitchWhileMeshEnds checks that a mesh can end while it asks for another secret. A stop of the node,
// or an earlier request, holds the lock until the mesh has returned.
func TestSwitchWhileMeshEnds(t *testing.T) {
	hub, _ := startIn(t, t.TempDir(), hubMesh(t))
	next := filter.Secret{7}
	asked := make(chan struct{})
	hub.sharing.mu.Lock()
	go func() {
		defer close(asked)
		hub.switchSecret(next)
	}()
	ended := await.Within(10*time.Second, func() bool {
		select {
		case <-asked:
			return true
		default:
			return false
		}
	})
	hub.sharing.mu.Unlock()
	if !ended {
		t.Fatal("the mesh waits for the lock of the one who waits for the mesh")
	}
	await.True(t, "the other secret", func() bool { return hub.engine.Secret() == next })
}

// TestYield checks that a node that was replaced by the other node of its pair stops sharing at once, although
// its doors still serve.
func TestYield(t *testing.T) {
	hub, _ := startIn(t, t.TempDir(), hubMesh(t))
	bob, _ := startIn(t, t.TempDir(), "")
	joinAll(t, hub, bob)
	hub.yield()
	hub.sharing.mu.Lock()
	runs := hub.sharing.stop != nil
	hub.sharing.mu.Unlock()
	if runs || hub.ready() != nil {
		t.Errorf("the mesh runs: %t; the doors: %v", runs, hub.ready())
	}
	if _, err := hub.leave(t.Context()); !errors.Is(err, errStopping) {
		t.Errorf("a change of the membership: %v", err)
	}
}
