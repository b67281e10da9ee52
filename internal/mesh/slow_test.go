package mesh

import (
	"os"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// TestSlowLink checks that counts arrive through a link of 2 kB/s that takes longer for one interval's counts
// than several heartbeats, and that is cut in the middle of them: each piece that has arrived is kept, so
// that a few times the bytes are sent at most.
func TestSlowLink(t *testing.T) {
	if testing.Short() {
		t.Skip("takes most of a minute")
	}
	const rate = 2000
	signatures := 8000
	if os.Getenv("BULKHEAD_MEASURE") != "" {
		signatures = 30_000
	}
	address := freePort(t)
	w := nodetest.NewWire(t, address)
	w.Rate.Store(rate)
	hubDir, hubID := meshtest.Folder(t)
	home := enginetest.Big(t, uint64(signatures), nil)
	hub, _ := start(t, member.Options{Dir: hubDir, Identity: hubID, Engine: home, Mode: member.Hub, Listen: address})
	dir, id := meshtest.Folder(t)
	e := enginetest.Big(t, uint64(signatures), nil)
	m, _ := start(t, member.Options{Dir: dir, Identity: id, Engine: e, Mode: member.Join,
		Servers: []string{w.Address()}})
	befriend(t, hub, m)
	enginetest.Eventually(t, 2*time.Minute, "both know each other", func() bool {
		return !peerOf(t, hub, m).Heard.IsZero() && !peerOf(t, m, hub).Heard.IsZero()
	})
	before := w.Up.Load()
	fill(t, e, 0, signatures)
	want := e.Own()[0].Version
	held := func() uint64 {
		for _, a := range home.Replica(m.opts.Identity.ID()) {
			if a.Array == engine.ArrayCounts {
				return a.Version
			}
		}
		return 0
	}
	// The first piece has arrived, and the next one is on its way.
	enginetest.Eventually(t, 2*time.Minute, "a first piece", func() bool { return held() > 0 })
	first, cut := held(), w.Up.Load()
	if first >= want {
		t.Fatalf("%d of %d changes at once: the link is not slow", first, want)
	}
	enginetest.Eventually(t, 2*time.Minute, "a part of the next piece", func() bool { return w.Up.Load() > cut+4000 })
	w.Sever()
	began := time.Now()
	enginetest.Eventually(t, 15*time.Minute, "all counts", func() bool { return held() == want })
	sent := w.Up.Load() - before
	t.Logf("%d signatures in %d bytes; all %v after the cut", signatures, sent, time.Since(began).Round(time.Second))
	if most := int64(3 * 7 * signatures); sent > most {
		t.Errorf("%d bytes sent, want %d at most", sent, most)
	}
	if got := enginetest.Check(t, home, signatures/3).Sightings; got != 1 {
		t.Errorf("%d sightings, want 1", got)
	}
}
