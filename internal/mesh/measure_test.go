package mesh

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/natsdial"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// TestJoinLarge measures how long a node takes to join a network of origins with many signatures
// each, with and without a store in a folder. Set BULKHEAD_MEASURE to run it at full size.
func TestJoinLarge(t *testing.T) {
	t.Run("memory", func(t *testing.T) { joinLarge(t, false) })
	t.Run("disk", func(t *testing.T) { joinLarge(t, true) })
}

func joinLarge(t *testing.T, disk bool) {
	origins, signatures := 3, 20_000
	if os.Getenv("BULKHEAD_MEASURE") != "" {
		origins, signatures = 10, 1_000_000
	}
	address := serveBroker(t)
	var st *store.Store
	if disk {
		var err error
		if st, err = store.Open(filepath.Join(t.TempDir(), "store"), store.Options{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	home := enginetest.Big(t, uint64(signatures), st)
	dir, id := meshtest.Folder(t)
	var meshes []*Mesh
	var engines []*engine.Engine
	for range origins {
		e := enginetest.Big(t, uint64(signatures), nil)
		fill(t, e, len(engines), signatures)
		d, i := meshtest.Folder(t)
		m, _ := start(t, member.Options{Dir: d, Identity: i, Engine: e, Mode: member.External,
			Servers:     []string{"nats://" + address},
			Credentials: natsdial.NoCredentials, Role: member.Publish})
		if err := m.AddPeer(t.Context(), id.ID(), "", 1); err != nil {
			t.Fatal(err)
		}
		meshes, engines = append(meshes, m), append(engines, e)
	}
	joiner, _ := start(t, member.Options{Dir: dir, Identity: id, Engine: home, Mode: member.External,
		Servers: []string{"nats://" + address}, Credentials: natsdial.NoCredentials})
	begun := time.Now()
	for _, m := range meshes {
		if err := joiner.AddPeer(t.Context(), m.opts.Identity.ID(), "", 1); err != nil {
			t.Fatal(err)
		}
	}
	slowest := time.Duration(0)
	enginetest.Eventually(t, 5*time.Minute, "all signatures are here", func() bool {
		asked := time.Now()
		enginetest.Check(t, home, 7)
		slowest = max(slowest, time.Since(asked))
		for i, m := range meshes {
			own := engines[i].Own()[0]
			held := home.Replica(m.opts.Identity.ID())
			if len(held) == 0 || held[0].Version != own.Version || held[0].Partial != 0 {
				return false
			}
		}
		return true
	})
	s := joiner.Status()
	var bytes uint64
	for _, p := range s.Peers {
		bytes += p.Bytes
	}
	t.Logf("joined %d origins x %d signatures in %v: %.1f MB received, %.2f bytes a signature, %.1f MB of memory; "+
		"slowest check meanwhile %v",
		origins, signatures, time.Since(begun).Round(time.Millisecond), float64(bytes)/1e6,
		float64(bytes)/float64(origins*signatures), float64(s.Memory.Bytes)/1e6, slowest)
	if got := enginetest.Check(t, home, signatures/2).Sightings; got < uint32(origins) {
		t.Errorf("%d sightings of a signature that %d origins have", got, origins)
	}
}

// fill reports signatures in batches; all origins share half of them.
func fill(t *testing.T, e *engine.Engine, origin, signatures int) {
	t.Helper()
	const batch = 500
	for n := 0; n < signatures; n += batch {
		r := bulkhead.Report{}
		for k := n; k < min(n+batch, signatures); k++ {
			x := k
			if k > signatures/2 {
				x = k + (origin+1)*signatures
			}
			r.Signatures = append(r.Signatures, enginetest.Signature(x))
		}
		if _, err := e.Report(context.Background(), r); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSteadyCPU measures the processor time of 32 origins that publish, a node that counts them all
// and the broker, all in this process, at two rates of new signatures. It runs with
// BULKHEAD_MEASURE set.
func TestSteadyCPU(t *testing.T) {
	if os.Getenv("BULKHEAD_MEASURE") == "" {
		t.Skip("a measurement: set BULKHEAD_MEASURE to run it")
	}
	address := serveBroker(t)
	options := member.Options{Mode: member.External, Servers: []string{"nats://" + address},
		Credentials: natsdial.NoCredentials}
	home := options
	home.Dir, home.Identity = meshtest.Folder(t)
	home.Engine = enginetest.Big(t, 200_000, nil)
	m, _ := start(t, home)
	var engines []*engine.Engine
	for range 32 {
		o := options
		o.Dir, o.Identity = meshtest.Folder(t)
		e := enginetest.Big(t, 20_000, nil)
		o.Engine, o.Role = e, member.Publish
		from, _ := start(t, o)
		if err := from.AddPeer(t.Context(), home.Identity.ID(), "", 1); err != nil {
			t.Fatal(err)
		}
		if err := m.AddPeer(t.Context(), o.Identity.ID(), "", 1); err != nil {
			t.Fatal(err)
		}
		enginetest.Report(t, e, 1<<30, bulkhead.Sighting, 1)
		engines = append(engines, e)
	}
	at := home.Engine.(*engine.Engine)
	enginetest.Eventually(t, time.Minute, "all origins are known", func() bool {
		return enginetest.Check(t, at,
			1<<30).Sightings == 32
	})
	n, rng := 0, rand.New(rand.NewPCG(1, 1))
	for _, perMinute := range []int{0, 1000, 32_000} {
		before, begun := processor(t), time.Now()
		for time.Since(begun) < 20*time.Second {
			<-time.After(50 * time.Millisecond)
			for due := int(time.Since(begun).Minutes() * float64(perMinute)); n < due; n++ {
				enginetest.Report(t, engines[rng.IntN(len(engines))], n, bulkhead.Sighting, 1)
			}
		}
		used := processor(t) - before
		t.Logf(
			"%d new signatures a minute by 32 origins: %.1f %% of one processor for 33 nodes and the broker, %.2f %% a node",
			perMinute, 100*used.Seconds()/time.Since(begun).Seconds(), 100*used.Seconds()/time.Since(begun).Seconds()/33)
		n = 0
	}
}

// processor returns the processor time that this process has used.
func processor(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
