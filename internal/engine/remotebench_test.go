package engine

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// BenchmarkRemote is what a peer counted, 100 rounds of 1000 signatures and the images
// of all pages, taken into a replica ("apply-ms") and replayed after a kill ("replay-ms"). The
// journal does not wait for the disk.
func BenchmarkRemote(b *testing.B) {
	ctx, c := context.Background(), newClock()
	o := Options{Now: c.Now, Tally: BookOptions{Generation: 24 * time.Hour, Keep: 2, Capacity: 200_000, Error: 1e-3},
		CheckpointEvery: time.Hour, CheckpointBytes: 1 << 40}
	from := open(b, o)
	if err := from.Record(ctx, true); err != nil {
		b.Fatal(err)
	}
	var entries [][]Part
	for n := 0; n < 100_000; n += 1000 {
		var r bulkhead.Report
		for i := range 1000 {
			r.Signatures = append(r.Signatures, sig(bulkhead.Exact, n+i))
		}
		report(b, from, r)
		rounds, _, err := from.TakeRounds(ctx)
		if err != nil {
			b.Fatal(err)
		}
		entries = append(entries, rounds)
	}
	for _, a := range from.Own() {
		_, images, err := from.Images(ctx, a.Array, a.Start)
		if err != nil {
			b.Fatal(err)
		}
		for i := 0; i < len(images); i += 16 {
			entries = append(entries, images[i:min(len(images), i+16)])
		}
	}
	var apply, replay time.Duration
	var size uint64
	for b.Loop() {
		dir := filepath.Join(b.TempDir(), "data")
		begin := func() (*Engine, *store.Store) {
			st, err := store.Open(dir, store.Options{Durability: store.Relaxed})
			if err != nil {
				b.Fatal(err)
			}
			o := o
			o.Store = st
			e, err := Open(ctx, small(o))
			if err != nil {
				b.Fatal(err)
			}
			return e, st
		}
		e, st := begin()
		if err := e.SetOrigins(ctx, []Origin{{ID: "a", Weight: 1}}); err != nil {
			b.Fatal(err)
		}
		t0 := time.Now()
		for _, parts := range entries {
			if err := applyParts(e, "a", parts); err != nil {
				b.Fatal(err)
			}
		}
		apply += time.Since(t0)
		size = e.journal.bytes
		st.Close() // no checkpoint is written
		e.Close(ctx)
		t0 = time.Now()
		e, st = begin()
		replay += time.Since(t0)
		st.Close()
		e.Close(ctx)
	}
	b.ReportMetric(apply.Seconds()*1e3/float64(b.N), "apply-ms")
	b.ReportMetric(replay.Seconds()*1e3/float64(b.N), "replay-ms")
	b.ReportMetric(float64(size), "journal-bytes")
}
