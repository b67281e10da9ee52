package mesh

import (
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/replica"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// A rig is a mesh that does not run, on a stub of an engine, with one peer.
type rig struct {
	*Mesh
	Engine *meshtest.Engine
	Peer   *member.Identity
}

func newRig(t *testing.T, k *meshtest.Broker, change func(*member.Options)) *rig {
	t.Helper()
	r := &rig{Engine: &meshtest.Engine{Engine: enginetest.Small(t, nil)}, Peer: meshtest.Identity(t)}
	r.Mesh = closed(t, func(o *member.Options) {
		o.Engine = r.Engine
		if change != nil {
			change(o)
		}
	})
	r.use(k.Connect())
	if err := r.AddPeer(t.Context(), r.Peer.ID(), "peer", 1); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestNetworkForgotten checks that a status has a peer's other network for an hour after its last head
// from there.
func TestNetworkForgotten(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		r.Figures(r.Peer.Hint(), func(s *member.Stats) { s.Network, s.NetworkAt = "cafe", time.Now() })
		bubble.Advance(replica.NetworkRest - time.Nanosecond)
		if got := r.Status().Peers[0].Network; got != "cafe" {
			t.Errorf("in %q before an hour is over", got)
		}
		bubble.Advance(time.Nanosecond)
		if got := r.Status().Peers[0].Network; got != "" {
			t.Errorf("in %q after an hour of silence", got)
		}
	})
}
