package resolve

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// BenchmarkVote decides and applies spam votes on 40 signatures, most of them new, in books
// of seven days and eight weeks with a million keys: on text alone, and on a message whose
// text makes 32 pairs with its sender and links.
func BenchmarkVote(b *testing.B) {
	for _, facets := range []bool{false, true} {
		b.Run(fmt.Sprintf("facets=%v", facets), func(b *testing.B) {
			books := newBooksOf(b, false, 2_000_000)
			books.put("a", trust.Trusted, 1)
			for range 55 {
				books.pass(day)
			}
			load(books, 1_000_000)
			messages := make([]*Message, b.N)
			for n := range messages {
				messages[n] = message(by("a", bulkhead.Spam, votedOn(1000+n, facets)...))
			}
			sources := books.sources()
			b.ReportAllocs()
			b.ResetTimer()
			began := processor(b)
			for _, m := range messages {
				books.r.Begin(books.view, sources)
				if _, err := books.r.Report(m); err != nil {
					b.Fatal(err)
				}
				books.apply()
			}
			b.ReportMetric(float64((processor(b)-began).Microseconds())/float64(b.N), "cpu-us/op")
		})
	}
}

// processor returns the processor time that this process has used.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Skipf("the time of processors cannot be told here: %v", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func votedOn(n int, facets bool) []bulkhead.Signature {
	sigs := append(text(n), sig(bulkhead.Exact, n))
	if facets {
		sigs = append(sigs, sender(fmt.Sprint("s", n, ".example")), sender(fmt.Sprint("a@s", n, ".example")),
			network("192.0.2.0/24"))
		for i := range 3 {
			sigs = append(sigs, link(fmt.Sprint("l", n, "-", i, ".example")), link(fmt.Sprint("l", n, "-", i, ".example/a")))
		}
	}
	for i := 0; len(sigs) < 40; i++ {
		sigs = append(sigs, sig(bulkhead.RazorE8, 100*n+i))
	}
	return sigs
}

// load spreads keys over all arrays of all generations.
func load(b *books, n int) {
	each := n / (len(b.view.Tally.Live) + len(b.view.Block.Live))
	at := uint64(0)
	adds := func() (keys []filter.Key, ones []uint32) {
		for range each {
			at++
			keys = append(keys, maker.Secret.Key([]byte(fmt.Sprint(at))))
			ones = append(ones, 1)
		}
		return keys, ones
	}
	for _, g := range b.view.Tally.Live {
		keys, ones := adds()
		g.Counts.AddBatch(1, keys, ones, nil)
		g.Unique.SetBatch(1, keys[:each/4], nil)
	}
	for _, g := range b.view.Block.Live {
		keys, ones := adds()
		g.Weights.AddBatch(1, keys, ones, nil)
		g.Votes.SetBatch(1, keys, nil)
		g.Names.AddBatch(1, keys[:each/2], ones[:each/2], nil)
		g.Spam.SetBatch(1, keys[:each/4], nil)
		g.Revoked.SetBatch(1, keys[:each/16], nil)
	}
	b.index = 1
}
