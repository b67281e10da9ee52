package origin

import (
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// TestDraw checks that a peer gets twice the size of all arrays, and as much again in ten minutes.
func TestDraw(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		m := newRig(t, k, nil)
		h := m.Peer.Hint()
		own := map[wire.Ref]engine.ArrayState{
			{Array: engine.ArrayCounts, Start: 5}: {Bytes: 1 << 20, Keys: 1 << 30},
			{Array: engine.ArraySpam, Start: 5}:   {Bytes: 1 << 20, Keys: 1 << 10}, // mostly empty: 9 KiB to send
		}
		const most = drawLeast + 2<<20 + 2*(1024+8<<10)
		s := m.sender
		if !s.may(h, own) {
			t.Fatal("a new peer may have nothing")
		}
		for _, step := range []struct {
			wait  time.Duration
			bytes int
			may   bool
		}{
			{0, most - 1, true}, {0, 1, false}, {time.Minute, 0, true}, {0, most/10 + 1, false},
			{time.Minute, most / 10, false}, {5 * time.Minute, most / 3, true}, {24 * time.Hour, most - 1, true}, {0, 2, false},
		} {
			bubble.Advance(step.wait)
			s.may(h, own) // it asks
			s.charge(h, step.bytes)
			if got := s.may(h, own); got != step.may {
				t.Errorf("after %v and %d bytes: %v, want %v", step.wait, step.bytes, got, step.may)
			}
		}
		if got := m.Entry().Served; got < 2*most {
			t.Errorf("%d bytes were served, want those that were charged", got)
		}
		if s.forgetDraws(); len(s.draws) != 1 {
			t.Error("the volume of a peer is forgotten")
		}
		if err := m.EvictPeer(t.Context(), m.Peer.ID()); err != nil {
			t.Fatal(err)
		}
		if s.forgetDraws(); len(s.draws) != 0 {
			t.Error("something is known of a peer that is none")
		}
		// Images that are larger than their keys suggest count with their real size.
		s.arrays[wire.Ref{Array: engine.ArraySpam, Start: 5}] = &ownArray{image: 4 << 20}
		if s.may(h, own); s.draws[h].left != drawLeast+2<<20+8<<20 {
			t.Errorf("%.0f bytes, want twice those of the images", s.draws[h].left)
		}
	})
}
