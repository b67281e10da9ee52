package engine

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
)

// A crowd is ten origins, one after the other, and a node that has replicas of them all. Half of
// the n signatures of an origin are common to all origins.
type crowd struct {
	home      *Engine
	n         uint64
	geometry  uint64 // bytes of one origin's counting array
	images    uint64 // bytes of all images
	transfers time.Duration
}

const crowdOrigins = 10

// newCrowd makes a crowd whose arrays are sized for capacity. limit is the share of
// the memory of all counting arrays that the node may use; 0: all.
func newCrowd(tb testing.TB, n, capacity uint64, limit float64) *crowd {
	tb.Helper()
	ctx := tb.Context()
	c := &crowd{n: n}
	books := Options{Tally: BookOptions{Generation: 24 * time.Hour, Keep: 3, Capacity: capacity, Error: 1e-3},
		Votes: 1000, CheckpointBytes: 1 << 40}
	opts := books
	if limit > 0 {
		st, err := store.Open(filepath.Join(tb.TempDir(), "data"), store.Options{Durability: store.Relaxed})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() {
			if err := st.Close(); err != nil {
				tb.Error(err)
			}
		})
		opts.Store = st
	}
	var origins []Origin
	for i := range crowdOrigins {
		origins = append(origins, Origin{ID: fmt.Sprint("origin", i), Weight: 1})
	}
	for i := range uint64(crowdOrigins) {
		origin, err := Open(ctx, small(books))
		if err != nil {
			tb.Fatal(err)
		}
		own := origin.Own()[0]
		if c.home == nil {
			c.geometry = own.Bytes
			opts.RemoteBytes = uint64(limit * crowdOrigins * float64(own.Bytes))
			c.home = open(tb, opts)
			if err := c.home.SetOrigins(ctx, origins); err != nil {
				tb.Fatal(err)
			}
		}
		sigs, times := make([]bulkhead.Signature, 0, 8192), make([]uint32, 0, 8192)
		for k := range n {
			sigs, times = append(sigs, numbered(tb, c.key(i, k))), append(times, 1+uint32(k%3))
			if len(sigs) == cap(sigs) || k == n-1 {
				if err := origin.Count(ctx, sigs, times); err != nil {
					tb.Fatal(err)
				}
				sigs, times = sigs[:0], times[:0]
			}
		}
		begun := time.Now()
		await.True(tb, "there is room", func() bool {
			if limit == 0 {
				return true
			}
			now, later := c.home.Room(origins[i].ID, Need{Geometry: own.Geometry, Pages: own.Geometry.Pages()})
			return now || !later
		})
		_, parts, err := origin.Images(ctx, own.Array, own.Start)
		if err != nil {
			tb.Fatal(err)
		}
		for _, p := range parts {
			c.images += uint64(len(p.Image))
			if err := applyParts(c.home, origins[i].ID, []Part{p}); err != nil {
				tb.Fatal(err)
			}
		}
		c.transfers += time.Since(begun)
		if err := origin.Close(context.WithoutCancel(ctx)); err != nil {
			tb.Fatal(err)
		}
	}
	return c
}

// key returns the number of the k-th signature of an origin.
func (c *crowd) key(origin, k uint64) uint64 {
	if k < c.n/2 {
		return k
	}
	return k + (origin+1)<<40
}

// wrong returns the shares of the origins' signatures, and of others, whose counts are too high. A
// count that is too low fails the test.
func (c *crowd) wrong(tb testing.TB) (counts, ghosts float64) {
	tb.Helper()
	const sample = 100_000
	look := func(name uint64) uint32 {
		out := make([]bulkhead.Look, 1)
		if err := c.home.Look(tb.Context(), []bulkhead.Signature{numbered(tb, name)}, out, bulkhead.Counts); err != nil {
			tb.Fatal(err)
		}
		return out[0].Sightings
	}
	for i := range uint64(sample) {
		k := i * max(1, c.n/sample) % c.n
		want := 1 + uint32(k%3)
		if k < c.n/2 {
			want *= crowdOrigins
		}
		got := look(c.key(i%crowdOrigins, k))
		if got < want {
			tb.Fatalf("signature %d is counted %d times, want %d", k, got, want)
		}
		if got > want {
			counts += 1. / sample
		}
		if look(i+1<<60) > 0 {
			ghosts += 1. / sample
		}
	}
	return counts, ghosts
}

// evict takes out a peer that is merged, and returns how long it still counts.
func (c *crowd) evict(tb testing.TB) time.Duration {
	tb.Helper()
	out := c.home.replicas.View().Merged[0].Origins()[0]
	var list []Origin
	for _, o := range c.home.Origins() {
		if o.ID != out {
			list = append(list, o)
		}
	}
	begun := time.Now()
	if err := c.home.SetOrigins(tb.Context(), list); err != nil {
		tb.Fatal(err)
	}
	await.True(tb, "the evicted peer counts no more", func() bool {
		return !slices.ContainsFunc(c.home.replicas.View().Merged,
			func(m *replica.Merged) bool { return slices.Contains(m.Origins(), out) })
	})
	return time.Since(begun)
}

// TestMergedError: the error of merged counts is not above the stated one, and
// memory stays within its limit.
func TestMergedError(t *testing.T) {
	c := newCrowd(t, 20_000, 20_000, 0.65)
	counts, ghosts := c.wrong(t)
	m := c.home.RemoteMemory()
	stated := 0.0
	for _, merged := range c.home.replicas.View().Merged {
		stated += merged.Ghost()
	}
	t.Logf("%d of %d arrays merged into %d: %.2g of counts too high, %.2g of absent signatures seen, %.2g said",
		m.Merged, crowdOrigins, m.Into, counts, ghosts, stated)
	if m.Bytes > m.Limit || m.Merged < 6 {
		t.Errorf("%+v", m)
	}
	// Each array that is not merged adds its own error, one in a thousand.
	if limit := 1.1*stated + 0.01; counts > limit || ghosts > limit || stated > replica.MergedGhost*float64(m.Into) {
		t.Errorf("more errors than said")
	}
}

// BenchmarkReplicas prints a table of the sizes of ten origins' replicas and, with less memory than
// they need, of the savings and costs of merging. Run it once, with -benchtime 1x; the largest
// needs 10 GB and a quarter of an hour.
func BenchmarkReplicas(b *testing.B) {
	for _, x := range []struct {
		n, capacity uint64
		limit       float64
	}{
		{1_000_000, 1_000_000, 0}, {1_000_000, 1_000_000, 0.8}, {1_000_000, 1_000_000, 0.6},
		{100_000, 1_000_000, 0}, {100_000, 1_000_000, 0.2},
		{10_000_000, 10_000_000, 0}, {10_000_000, 10_000_000, 0.6}, {100_000_000, 100_000_000, 0},
	} {
		b.Run(fmt.Sprintf("n=%d/capacity=%d/memory=%v", x.n, x.capacity, x.limit), func(b *testing.B) {
			for range b.N {
				debug.FreeOSMemory()
				before := resident(b)
				c := newCrowd(b, x.n, x.capacity, x.limit)
				debug.FreeOSMemory()
				total := float64(crowdOrigins * x.n)
				m := c.home.RemoteMemory()
				b.ReportMetric(float64(resident(b)-before)/1e6, "MB-resident")
				b.ReportMetric(float64(m.Bytes)/1e6, "MB-arrays")
				b.ReportMetric(float64(m.Bytes)/total, "B-arrays/sig")
				b.ReportMetric(float64(c.images)/total, "B-images/sig")
				b.ReportMetric(c.transfers.Seconds(), "s-transfers")
				b.ReportMetric(float64(m.Merged), "merged")
				b.ReportMetric(float64(m.Into), "into")
				counts, ghosts := c.wrong(b)
				b.ReportMetric(counts, "wrong-count-share")
				b.ReportMetric(ghosts, "ghost-share")
				if m.Merged > 0 {
					b.ReportMetric(c.evict(b).Seconds(), "s-evicted")
				}
			}
		})
	}
}
