package mesh

import (
	"errors"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
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

// TestStatusSums checks that the status of a peer sums over its arrays, and that the probability of an error in one
// of them is at most one.
func TestStatusSums(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		for _, tt := range []struct{ each, want float64 }{{0.25, 0.75}, {0.5, 1}} {
			r.Engine.HeldOf = map[string][]engine.ArrayState{r.Peer.ID(): {{Keys: 3, Bytes: 100, Ghost: tt.each},
				{Keys: 4, Bytes: 1000, Ghost: tt.each, Merged: true}, {Ghost: tt.each, Merged: true}}}
			want := Replica{Keys: 7, Memory: 1100, Merged: 2, Ghost: tt.want}
			if got := r.Status().Peers[0].Replica; got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
	})
}

// TestFailedStart checks that a mesh whose engine does not record what it counts does not start: peers would miss it.
func TestFailedStart(t *testing.T) {
	dir, id := meshtest.Folder(t)
	broken := errors.New("broken")
	e := &meshtest.Engine{Engine: enginetest.Small(t, nil), Repairs: meshtest.Repairs{RecordErr: broken}}
	m, err := prepare(t.Context(), member.Options{Dir: dir, Identity: id, Engine: e, KeyID: enginetest.Secret.ID(),
		Mode: member.Join})
	if m != nil || !errors.Is(err, broken) {
		t.Errorf("%v, %v", m, err)
	}
}
