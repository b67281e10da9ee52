package stream_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/store/stream"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/natstest"
)

// BenchmarkReports measures acknowledged reports: with the journal in files alone, in a stream of one server, and in a
// stream of a cluster of three. Each of 1 or 256 clients waits for its answers.
func BenchmarkReports(b *testing.B) {
	for _, where := range []string{"files", "stream", "cluster"} {
		for _, clients := range []int{1, 256} {
			b.Run(fmt.Sprintf("%s/clients=%d", where, clients), func(b *testing.B) { benchmarkReports(b, where, clients) })
		}
	}
}

func benchmarkReports(b *testing.B, where string, clients int) {
	st, err := store.Open(filepath.Join(b.TempDir(), "store"), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	o := engine.Options{Secret: enginetest.Secret, Store: st,
		Tally: engine.BookOptions{Generation: 24 * time.Hour, Keep: 3, Capacity: 1_000_000, Error: 1e-3},
		Block: engine.BookOptions{Generation: 7 * 24 * time.Hour, Keep: 2, Capacity: 10_000, Error: 1e-6}}
	var urls []string
	switch where {
	case "stream":
		urls = []string{"nats://" + natstest.Start(b)}
	case "cluster":
		urls = natstest.StartCluster(b).URLs()
	}
	if urls != nil {
		j, err := stream.Open(stream.Options{Servers: urls, Name: "test", MaxBytes: 1 << 30, Key: [32]byte{1}})
		if err != nil {
			b.Fatal(err)
		}
		defer j.Close()
		o.Shared = j
	}
	e, err := engine.Open(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	var next atomic.Int64
	b.SetParallelism(max(1, clients/runtime.GOMAXPROCS(0)))
	b.ResetTimer()
	if clients == 1 {
		for b.Loop() {
			send(b, e, next.Add(1))
		}
	} else {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				send(b, e, next.Add(1))
			}
		})
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reports/s")
	b.ReportMetric(float64(b.N)/float64(st.LastIndex()), "reports/entry")
	if err := errors.Join(e.Close(context.Background()), st.Close()); err != nil {
		b.Fatal(err)
	}
}

func send(b *testing.B, e *engine.Engine, n int64) {
	_, err := e.Report(b.Context(), bulkhead.Report{Vote: bulkhead.Sighting, Count: 1, ID: fmt.Sprint(n),
		Signatures: []bulkhead.Signature{enginetest.Signature(int(n))}})
	if err != nil {
		b.Error(err)
	}
}
