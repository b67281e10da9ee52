package pages

import (
	"io"
	"math/rand/v2"
	"testing"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
)

// BenchmarkWriter writes an array of a million keys, with sums.
func BenchmarkWriter(b *testing.B) {
	const keys = 1_000_000
	g, err := filter.SizeFor(filter.Target{Kind: filter.Cells, Signatures: keys, Error: filter.CountWrong, Rate: 1e-3})
	if err != nil {
		b.Fatal(err)
	}
	array, err := arrays.NewCounting(g)
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range keys {
		array.Add(filter.Key{Hi: rng.Uint64(), Lo: rng.Uint64()}, 1)
	}
	b.ReportAllocs()
	for b.Loop() {
		write, _ := Summed(array, func(f func()) { f() })
		if err := write(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/1e3/float64(b.N)/float64(g.Pages()), "us/page")
}
