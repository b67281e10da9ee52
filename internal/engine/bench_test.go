package engine

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/filter/shape"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// BenchmarkCheck checks one message with one signature, in a node that knows 100,000 signatures.
func BenchmarkCheck(b *testing.B) {
	e := open(b, Options{Tally: BookOptions{Generation: 24 * time.Hour, Keep: 7, Capacity: 200_000, Error: 1e-3}})
	const known = 100_000
	for n := 0; n < known; n += 1000 {
		r := bulkhead.Report{}
		for i := range 1000 {
			r.Signatures = append(r.Signatures, sig(bulkhead.Exact, n+i))
		}
		report(b, e, r)
	}
	for _, tt := range []struct {
		name  string
		first int
	}{{"hit", 0}, {"miss", known}} {
		b.Run(tt.name, func(b *testing.B) {
			sigs := make([]bulkhead.Signature, 4096)
			for i := range sigs {
				sigs[i] = sig(bulkhead.Exact, tt.first+i*7)
			}
			queries := []bulkhead.Query{{Terse: true}}
			verdicts := make([]bulkhead.Verdict, 1)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				queries[0].Signatures = sigs[i&4095 : i&4095+1]
				if err := e.CheckBatch(context.Background(), queries, verdicts); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}

// BenchmarkCheckMessage checks messages of 40 signatures in a tally of seven generations: all
// unknown, all seen every day, or all seen every day and reported.
func BenchmarkCheckMessage(b *testing.B) {
	c := newClock()
	e := open(b, Options{Now: c.Now, Tally: BookOptions{Generation: 24 * time.Hour, Keep: 7, Capacity: 400_000,
		Error: 1e-3}})
	const messages, signatures = 2000, 40
	message := func(n int) (sigs []bulkhead.Signature) {
		sigs = append(sigs, sig(bulkhead.Exact, n))
		for i := range 20 {
			sigs = append(sigs, sig(bulkhead.Near, n*signatures+i))
		}
		for i := range 12 {
			sigs = append(sigs, bulkhead.NamedSignature(bulkhead.Link, fmt.Sprintf("l%d-%d.example", n, i)))
		}
		for i := range 7 {
			sigs = append(sigs, sig(bulkhead.Contact, n*signatures+i))
		}
		return sigs
	}
	for day := range 7 {
		for n := range messages {
			report(b, e, bulkhead.Report{Signatures: message(n)})
			if n%2 == 1 && day == 6 {
				report(b, e, bulkhead.Report{Signatures: message(n), Vote: bulkhead.Spam})
			}
		}
		if day < 6 {
			c.Advance(24 * time.Hour)
		}
	}
	for _, tt := range []struct {
		name        string
		first, step int
	}{{"unknown", messages, 1}, {"seen", 0, 2}, {"reported", 1, 2}} {
		b.Run(tt.name, func(b *testing.B) {
			var asked [messages / 2][]bulkhead.Signature
			for i := range asked {
				asked[i] = message(tt.first + i*tt.step)
			}
			queries, verdicts := []bulkhead.Query{{Terse: true}}, make([]bulkhead.Verdict, 1)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				queries[0].Signatures = asked[i%len(asked)]
				if err := e.CheckBatch(context.Background(), queries, verdicts); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkReport makes durable reports from 64 concurrent clients.
func BenchmarkReport(b *testing.B) {
	st, err := store.Open(filepath.Join(b.TempDir(), "data"), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	e, err := Open(context.Background(), small(Options{Store: st,
		Tally: BookOptions{Generation: 24 * time.Hour, Keep: 2, Capacity: 1_000_000, Error: 1e-3}}))
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close(context.Background())
	var n atomic.Int64
	b.SetParallelism(32) // times GOMAXPROCS
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			s := []bulkhead.Signature{sig(bulkhead.Exact, int(n.Add(1)))}
			if _, err := e.Report(context.Background(), bulkhead.Report{Signatures: s}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkOpen measures a start after a kill, with ten or a hundred million keys in the last checkpoint and a
// hundred thousand signatures in the journal after it: the processor time of all threads, and the resident memory.
func BenchmarkOpen(b *testing.B) {
	for _, known := range []int{1e7, 1e8} {
		b.Run(fmt.Sprintf("%.0e", float64(known)), func(b *testing.B) { benchmarkOpen(b, known) })
	}
}

func benchmarkOpen(b *testing.B, known int) {
	const journalled = 100_000
	debug.FreeOSMemory()
	before := resident(b)
	dir := filepath.Join(b.TempDir(), "data")
	o := Options{
		Tally: BookOptions{Generation: 24 * time.Hour, Keep: 2, Capacity: uint64(known + journalled),
			Error: 1e-3},
		CheckpointEvery: time.Hour, CheckpointBytes: 1 << 40,
		Now: newClock().Now,
	}
	start := func() (*Engine, *store.Store) {
		st, err := store.Open(dir, store.Options{})
		if err != nil {
			b.Fatal(err)
		}
		o.Store = st
		e, err := Open(context.Background(), small(o))
		if err != nil {
			b.Fatal(err)
		}
		return e, st
	}
	e, st := start()
	if err := e.queue.inTurn(b.Context(), func() { countKeys(e.current.Books().Tally.Live[0], 0, known) }); err != nil {
		b.Fatal(err)
	}
	writeCheckpoint(b, e)
	for n := 0; n < journalled; n += 1000 {
		r := bulkhead.Report{}
		for i := range 1000 {
			r.Signatures = append(r.Signatures, sig(bulkhead.Exact, n+i))
		}
		report(b, e, r)
	}
	// As after a kill: the store goes away under the engine, no checkpoint is
	// written.
	st.Close()
	e.Close(context.Background())
	e = nil
	spentBefore := spent(b)
	var memory int64
	opens := 0
	for b.Loop() {
		e, st := start()
		b.StopTimer()
		took := spent(b)
		if v := verdictOf(b, e, sig(bulkhead.Exact, journalled-1)); v.Sightings == 0 {
			b.Fatal("the last report is lost")
		}
		debug.FreeOSMemory()
		memory = resident(b) - before
		b.ReportMetric(float64(e.Info().Bytes)/float64(known+journalled), "B/key")
		st.Close()
		e.Close(context.Background())
		b.StartTimer()
		opens++
		spentBefore += spent(b) - took // what closing took
	}
	b.ReportMetric((spent(b)-spentBefore).Seconds()/float64(opens), "cpu-s/open")
	b.ReportMetric(float64(memory)/float64(known+journalled), "B-resident/key")
}

// countKeys counts made-up keys, each once, in a generation.
func countKeys(g *book.Tally, from, n int) {
	part, ones := make([]filter.Key, 4096), make([]uint32, 4096)
	for i := range ones {
		ones[i] = 1
	}
	for ; n > 0; from, n = from+len(part), n-len(part) {
		part = part[:min(n, len(part))]
		for i := range part {
			x := uint64(from + i)
			part[i] = filter.Key{Hi: shape.Mix(x), Lo: shape.Mix(x + 1<<60)}
		}
		g.Counts.AddBatch(0, part, ones[:len(part)], nil)
	}
}
