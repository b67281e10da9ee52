package mesh

import (
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// TestGivenUp checks that an origin that has given up generations for want of memory has not lost
// content in the sense of its peers. They keep their replicas.
func TestGivenUp(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		first, err := engine.TallyBytes(engine.BookOptions{Generation: 24 * time.Hour, Keep: 4, Capacity: 20_000,
			Error: 1e-3})
		if err != nil {
			t.Fatal(err)
		}
		slow := func(o *member.Options) { o.Heartbeat = time.Minute }
		origin := newSiteOf(t, k, engine.Options{Tally: engine.BookOptions{Memory: 3 * first}}, slow)
		home := newSite(t, k, slow)
		defer home.stop()
		defer origin.stop()
		trust(t, home, 1, origin)
		const reports, each = 150, 1000
		for i := range reports {
			sigs, ones := make([]bulkhead.Signature, each), make([]uint32, each)
			for j := range sigs {
				sigs[j], ones[j] = enginetest.Signature(i*each+j), 1
			}
			if err := origin.engine.Count(t.Context(), sigs, ones); err != nil {
				t.Fatal(err)
			}
			bubble.Advance(20 * time.Second)
		}
		bubble.Advance(5 * time.Minute)
		if n := origin.engine.Info().Forgotten; n == 0 {
			t.Fatal("the origin has given up no generation")
		}
		if p := home.peer(t, origin); len(p.Refusals) > 0 || p.Missing != 0 || p.Asked > 1 || p.Pages != 0 {
			t.Errorf("refused %v, %d missing, %d asked, %d images: want rounds alone", p.Refusals, p.Missing, p.Asked, p.Pages)
		}
		if enginetest.Check(t, origin.engine, 0).Sightings != 0 || enginetest.Check(t, home.engine, 0).Sightings != 1 {
			t.Errorf("the first signature: %d at the origin, %d at its peer", enginetest.Check(t, origin.engine, 0).Sightings,
				enginetest.Check(t, home.engine, 0).Sightings)
		}
		// A new peer gets what is left, and misses nothing.
		late := newSite(t, k, slow)
		defer late.stop()
		trust(t, late, 1, origin)
		bubble.Advance(10 * time.Minute)
		if p := late.peer(t, origin); len(p.Refusals) > 0 || p.Missing != 0 ||
			enginetest.Check(t, late.engine, reports*each-1).Sightings != 1 {
			t.Errorf("a peer that came late: refused %v, %d missing, %d sightings of the last", p.Refusals, p.Missing,
				enginetest.Check(t, late.engine, reports*each-1).Sightings)
		}
		if p := home.peer(t, origin); len(p.Refusals) > 0 || p.Missing != 0 {
			t.Errorf("afterwards: refused %v, %d missing", p.Refusals, p.Missing)
		}
	})
}
