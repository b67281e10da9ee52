//go:build interop

package mesh

import (
	"encoding/json"
	"testing"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// TestFiveRekeys: the network of a hub, an aggregator and its members changes its secret five times in
// a row, with counts under each. A member is away for the first three changes, the aggregator for the
// third, and the hub is killed after the fourth. In the end all share, and each count is exact. One
// member then leaves, and joins again with the usual commands.
func TestFiveRekeys(t *testing.T) {
	t.Parallel()
	w := newTier(t)
	away := w.members[1]
	w.report(1)
	w.settle("at first", w.group()...)
	var last string
	change := func(who ...*node) {
		t.Helper()
		var s admin.SecretChange
		nodetest.Settle(t, nodetest.Patience, "the hub announces", func() string {
			out, code := w.reader.try("rekey", "--in", "1s", "--json")
			if code != 0 {
				return out
			}
			if err := json.Unmarshal([]byte(out), &s); err != nil {
				t.Fatalf("%s: %v", out, err)
			}
			return ""
		})
		last = s.To
		for _, n := range who {
			nodetest.Settle(t, 2*nodetest.Patience, n.name+" counts under the secret", func() string {
				if got := n.state().Network; got != last {
					return got
				}
				return ""
			})
		}
	}
	away.kill()
	present := []*node{w.reader, w.hub, w.members[0]}
	report := func(who ...*node) {
		for _, n := range who {
			for sig := range signatures / 2 {
				n.report(sig, 1)
			}
		}
	}
	change(present...)
	report(present...)
	change(present...)
	w.hub.kill()
	report(w.reader, w.members[0])
	change(w.reader)
	w.hub.start()
	away.start()
	change(w.all()...)
	report(w.all()...)
	w.reader.kill()
	w.reader.start()
	change(w.all()...)
	report(w.all()...)
	w.settle("after five changes", w.group()...)
	for _, n := range w.all() {
		if got := n.state().Network; got != last {
			t.Errorf("%s is in network %s, want %s", n.name, got, last)
		}
	}

	line := w.hub.invite("--accept", "--name", "back", "--weight", "1", "--hub", w.below)
	away.admin("leave", "--yes")
	away.admin("join", "--yes", "--weight", "1", line)
	if got := away.state().Network; got != last {
		t.Errorf("who joined again is in network %s, want %s", got, last)
	}
	sig := signatures + 1
	w.members[0].report(sig, 4)
	w.hub.report(sig, 3)
	nodetest.Settle(t, nodetest.Patience, "who joined again counts what the keeper counts", func() string {
		return lacking(away, []*node{{truth: votes{sig: w.hub.truth[sig]}}}, sig+1)
	})
}
