//go:build unix

package engine

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
)

// BenchmarkApply measures the processor time of applying rounds of one origin to its replica, in a
// node that also has replicas of other origins. The journal does not wait for the disk.
func BenchmarkApply(b *testing.B) {
	ctx, c := b.Context(), newClock()
	o := Options{Now: c.Now, Tally: BookOptions{Generation: 24 * time.Hour, Keep: 2, Capacity: 200_000, Error: 1e-3},
		CheckpointEvery: time.Hour, CheckpointBytes: 1 << 40}
	const keys = 20_000
	for _, x := range []struct{ round, origins int }{{20, 1}, {1000, 1}, {20, 100}, {20, 1000}} {
		from := open(b, o)
		if err := from.Record(ctx, true); err != nil {
			b.Fatal(err)
		}
		var entries [][]Part
		for n := 0; n < keys; n += x.round {
			var r bulkhead.Report
			for i := range x.round {
				r.Signatures = append(r.Signatures, sig(bulkhead.Exact, n+i))
			}
			report(b, from, r)
			rounds, _, err := from.TakeRounds(ctx)
			if err != nil {
				b.Fatal(err)
			}
			entries = append(entries, rounds)
		}
		b.Run(fmt.Sprintf("keys=%d/origins=%d", x.round, x.origins), func(b *testing.B) {
			used := time.Duration(0)
			for b.Loop() {
				st, err := store.Open(filepath.Join(b.TempDir(), "data"), store.Options{Durability: store.Relaxed})
				if err != nil {
					b.Fatal(err)
				}
				o := o
				o.Store, o.RemoteBytes = st, 1<<40
				e, err := Open(ctx, small(o))
				if err != nil {
					b.Fatal(err)
				}
				var all []Origin
				for i := range x.origins {
					all = append(all, Origin{ID: fmt.Sprint("o", i), Weight: 1})
				}
				if err := e.SetOrigins(ctx, all); err != nil {
					b.Fatal(err)
				}
				for _, other := range all[1:] {
					if err := applyParts(e, other.ID, entries[0]); err != nil {
						b.Fatal(err)
					}
				}
				await.True(b, "all indexes are made", func() bool {
					_, waiting := e.replicas.Indexed()
					return waiting == 0
				})
				began := processor(b)
				for _, parts := range entries {
					if err := applyParts(e, all[0].ID, parts); err != nil {
						b.Fatal(err)
					}
				}
				used += processor(b) - began
				e.Close(ctx)
				st.Close()
			}
			b.ReportMetric(used.Seconds()*1e6/float64(b.N)/keys, "cpu-us/key")
			b.ReportMetric(used.Seconds()*1e6/float64(b.N)/float64(len(entries)), "cpu-us/round")
		})
	}
}
