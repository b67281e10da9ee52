//go:build unix

package aggregate

import (
	"syscall"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// BenchmarkFeed measures an aggregator's processor time for a round of 20 signatures of a member:
// applying it to the replica and to the sum.
func BenchmarkFeed(b *testing.B) {
	const per, rounds = 20, 2000
	for b.Loop() {
		b.StopTimer()
		w := newWorldOf(b, 2*per*rounds)
		m := w.members[0]
		var parsed []engine.Parsed
		var parts []engine.Part
		for i := range rounds {
			r := bulkhead.Report{Count: 1}
			for j := range per {
				r.Signatures = append(r.Signatures, signature(per*i+j))
			}
			if _, err := m.engine.Report(b.Context(), r); err != nil {
				b.Fatal(err)
			}
			for _, p := range w.rounds(m.engine.TakeRounds) {
				x, err := w.node.ParsePart(p)
				if err != nil {
					b.Fatal(err)
				}
				parts, parsed = append(parts, p), append(parsed, x)
			}
		}
		b.StartTimer()
		from := used(b)
		for i := range parsed {
			if err := w.node.ApplyRemote(b.Context(), m.id, parsed[i:i+1]); err != nil {
				b.Fatal(err)
			}
		}
		replica := used(b)
		for i := range parts {
			w.sum.feed(m.id, &parts[i])
		}
		sum := used(b)
		b.ReportMetric(float64(replica-from)/(per*rounds), "replica-ns/key")
		b.ReportMetric(float64(sum-replica)/(per*rounds), "sum-ns/key")
		size := 0
		for _, p := range parts {
			size += len(p.Round)
		}
		b.ReportMetric(float64(size)/(per*rounds), "B/key")
		a := w.sum.Own()[0]
		for _, x := range w.sum.Own() {
			if x.Array == engine.ArrayCounts && x.Keys > a.Keys {
				a = x
			}
		}
		b.ReportMetric(float64(w.node.FullKeys(a.Geometry))/float64(2*per*rounds), "full/capacity")
		b.ReportMetric(float64(a.Bytes)/float64(w.node.FullKeys(a.Geometry)), "B/key-when-full")
		b.ReportMetric(a.Geometry.GhostError(w.node.FullKeys(a.Geometry)), "ghost-when-full")
	}
}

// used returns the processor time of the process, in nanoseconds.
func used(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
