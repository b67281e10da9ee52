package mesh

import (
	"fmt"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/natsdial"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// serveBroker starts a NATS server without TLS, so that its traffic can be counted.
func serveBroker(t testing.TB) string {
	t.Helper()
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true,
		JetStream: true, StoreDir: t.TempDir(), JetStreamMaxStore: 1 << 40})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	if !ns.ReadyForConnections(20 * time.Second) {
		t.Fatal("the broker does not start")
	}
	t.Cleanup(func() {
		ns.Shutdown()
		ns.WaitForShutdown()
	})
	u, err := url.Parse(ns.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// TestBytesOnTheWire counts every byte that a publisher sends to its broker, and that a subscriber
// receives from its broker: TCP payload with NATS's lines, our headers, signatures and the share of
// heartbeats, for new signatures at two rates. It runs with BULKHEAD_MEASURE set; a minute of the
// lower rate takes a minute.
func TestBytesOnTheWire(t *testing.T) {
	if os.Getenv("BULKHEAD_MEASURE") == "" {
		t.Skip("a measurement: set BULKHEAD_MEASURE to run it")
	}
	for _, rate := range []struct {
		perMinute int
		run       time.Duration
		limit     float64
	}{{1000, time.Minute, 14}, {100_000, 15 * time.Second, 9}} {
		t.Run(fmt.Sprint(rate.perMinute, " a minute"), func(t *testing.T) {
			address := serveBroker(t)
			out, in := nodetest.NewWire(t, address), nodetest.NewWire(t, address)
			a, b := enginetest.Big(t, 1_000_000, nil), enginetest.Big(t, 1_000_000, nil)
			aDir, aID := meshtest.Folder(t)
			bDir, bID := meshtest.Folder(t)
			from, _ := start(t, member.Options{Dir: aDir, Identity: aID, Engine: a, Mode: member.External,
				Credentials: natsdial.NoCredentials,
				Servers:     []string{"nats://" + out.Address()}})
			to, _ := start(t, member.Options{Dir: bDir, Identity: bID, Engine: b, Mode: member.External,
				Credentials: natsdial.NoCredentials,
				Servers:     []string{"nats://" + in.Address()}, Role: member.Subscribe})
			if err := to.AddPeer(t.Context(), aID.ID(), "", 1); err != nil {
				t.Fatal(err)
			}
			enginetest.Eventually(t, time.Minute, "connected", func() bool {
				return from.Status().Brokers[0].Connected && to.Status().Brokers[0].Connected
			})
			enginetest.Report(t, a, 1<<30, bulkhead.Sighting, 1)
			enginetest.Eventually(t, time.Minute, "known", func() bool { return enginetest.Check(t, b, 1<<30).Sightings == 1 })
			sent, got := out.Up.Load(), in.Down.Load()
			begun := time.Now()
			total := int(float64(rate.perMinute) * rate.run.Minutes())
			const batch = 50 * time.Millisecond
			for n := 0; n < total; {
				<-time.After(batch)
				for due := min(total, int(time.Since(begun).Minutes()*float64(rate.perMinute))); n < due; n++ {
					enginetest.Report(t, a, n, bulkhead.Sighting, 1)
				}
			}
			enginetest.Eventually(t, time.Minute, "all known", func() bool {
				return enginetest.Check(t, b,
					total-1).Sightings > 0
			})
			up := float64(out.Up.Load()-sent) / float64(total)
			down := float64(in.Down.Load()-got) / float64(total)
			t.Logf("%d new signatures at %d a minute: %.2f bytes each to the broker, %.2f to each subscriber; "+
				"DCC's flood: 24 for each checksum; raw SHA-1: 20",
				total, rate.perMinute, up, down)
			if up > rate.limit || down > rate.limit {
				t.Errorf("%.2f bytes up, %.2f down, limit %v", up, down, rate.limit)
			}
		})
	}
}
