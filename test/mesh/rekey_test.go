//go:build interop

package mesh

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// announced returns what a node says of the change of its network's secret; nil if it says
// nothing, or shares nothing at this moment.
func (n *node) announced() *admin.SecretChange {
	s, err := n.client.Network(n.ctx())
	if err != nil {
		return nil
	}
	return s.Secret
}

// TestRekey: three nodes change their network's secret while they count. One is killed
// in the middle of that, one is cut off until all others have changed, the hub is killed
// afterwards. No report that was acknowledged is lost, whichever secret it was counted
// under; a node that was expelled has neither the secret nor what is counted under it.
func TestRekey(t *testing.T) {
	t.Parallel()
	nodes, proxies := three(t)
	hub, killed, away := nodes[0], nodes[1], nodes[2]
	eve := newNode(t, "eve", hub.secret(), fmt.Sprintf("mode = \"join\"\nservers = [%q]", proxies[0].Address()))
	eve.start()
	for _, pair := range [][2]*node{{hub, eve}, {eve, hub}} {
		if _, err := pair[0].client.AddPeer(pair[0].ctx(),
			admin.NewPeer{Key: pair[1].key, Name: pair[1].name, Weight: 1}); err != nil {
			t.Fatal(err)
		}
	}
	rng := rand.New(rand.NewPCG(1, 7))
	traffic := func(rounds int, who ...*node) {
		var wg sync.WaitGroup
		for _, n := range who {
			order := rng.Perm(signatures * rounds)
			wg.Go(func() {
				for _, i := range order {
					n.report(i%signatures, uint32(1+i%4))
				}
			})
		}
		wg.Wait()
	}
	traffic(1, nodes...)
	agree(t, nodes, signatures)
	before := hub.state().Network
	proxies[1].Partition(true)
	if err := hub.client.EvictPeer(hub.ctx(), eve.key); err != nil {
		t.Fatal(err)
	}
	var s admin.SecretChange
	if err := json.Unmarshal([]byte(hub.admin("rekey", "--in", "3s", "--json")), &s); err != nil || s.From != before {
		t.Fatalf("%+v, %v", s, err)
	}
	nodetest.Settle(t, nodetest.Patience, "one has fetched the secret", func() string {
		if a := killed.announced(); a == nil || a.To != s.To {
			return fmt.Sprintf("%+v", a)
		}
		return ""
	})
	var wg sync.WaitGroup
	wg.Go(func() { traffic(6, hub) })
	traffic(1, killed)
	for range 4 { // before the change, in it, or after
		killed.kill()
		killed.start()
		traffic(1, killed)
	}
	wg.Wait()
	changed := func(n *node) {
		t.Helper()
		nodetest.Settle(t, nodetest.Patience, n.name+" counts under the new secret", func() string {
			if got := n.state().Network; got != s.To {
				return got
			}
			return ""
		})
	}
	changed(hub)
	changed(killed)
	if got := away.state().Network; got != before {
		t.Errorf("a node that is cut off is in network %s", got)
	}
	traffic(1, away)
	hub.kill()
	hub.start()
	proxies[1].Partition(false)
	changed(away)
	traffic(1, nodes...)
	agree(t, nodes, signatures)
	for _, n := range nodes {
		if out := n.admin("rekey", "--status"); !strings.Contains(out, "used since") || !strings.Contains(out, hub.key) {
			t.Errorf("%s: %s", n.name, out)
		}
	}
	if got := eve.state().Network; got != before {
		t.Errorf("an expelled node is in network %s", got)
	}
	sig := signatures + 1
	hub.report(sig, 4)
	nodetest.Settle(t, nodetest.Patience, "the members know it", func() string {
		return lacking(killed, []*node{{truth: votes{sig: hub.truth[sig]}}}, sig+1)
	})
	if got, err := check(eve, sig); err != nil || got != 0 {
		t.Errorf("an expelled node shows %d, %v", got, err)
	}
}
