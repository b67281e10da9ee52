package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// BenchmarkVote casts votes on 40 signatures, most of them new, in a tally of seven generations: the
// first vote on them, the vote of a second voter, and a vote by which the first one changes its mind.
// The other votes on each message are not measured.
func BenchmarkVote(b *testing.B) {
	for _, tt := range []struct {
		name   string
		before []bulkhead.Report
		vote   bulkhead.Report
	}{
		{"first", nil, by("a", bulkhead.Spam)},
		{"second", []bulkhead.Report{by("a", bulkhead.Spam)}, by("b", bulkhead.Spam)},
		{"changed", []bulkhead.Report{by("a", bulkhead.Spam)}, by("a", bulkhead.Ham)},
	} {
		b.Run(tt.name, func(b *testing.B) {
			c := newClock()
			e := open(b, Options{Now: c.Now, Tally: BookOptions{Generation: 24 * time.Hour, Keep: 7, Capacity: 1_000_000,
				Error: 1e-3}})
			votersOf(b, e)
			for range 7 {
				report(b, e, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 0)}})
				c.Advance(24 * time.Hour)
			}
			n := 0
			message := func() []bulkhead.Signature {
				sigs := make([]bulkhead.Signature, 40)
				for i := range sigs {
					n++
					sigs[i] = sig(bulkhead.Near, n)
				}
				return sigs
			}
			cast := func(votes []bulkhead.Report, sigs []bulkhead.Signature) {
				for _, r := range votes {
					r.Signatures = sigs
					report(b, e, r)
				}
			}
			for range 2000 { // so that the memory of the arrays is there
				sigs := message()
				cast(append(slices.Clone(tt.before), tt.vote), sigs)
			}
			const round = 500
			b.ReportAllocs()
			b.ResetTimer()
			for done := 0; done < b.N; done += round {
				b.StopTimer()
				asked := make([][]bulkhead.Signature, min(round, b.N-done))
				for i := range asked {
					asked[i] = message()
					cast(tt.before, asked[i])
				}
				b.StartTimer()
				for _, sigs := range asked {
					cast([]bulkhead.Report{tt.vote}, sigs)
				}
			}
		})
	}
}
