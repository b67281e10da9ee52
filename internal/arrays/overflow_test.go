package arrays

import (
	"testing"

	"github.com/bulkhead-mail/bulkhead/filter/shape"
)

// TestOverflowMemory checks the figure of the package documentation: at most 0.45 bytes a key for
// overflow tables where one key in 26 is heavy, in whatever order the counts came.
func TestOverflowMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("measures memory, for long under the race detector, in one goroutine")
	}
	const n = 100_000
	g, err := shape.SizeFor(shape.Target{Kind: Cells, Signatures: n, Error: shape.CountWrong, Rate: 1e-3, K: 6})
	if err != nil {
		t.Fatal(err)
	}
	keys, rng := seeded(3, n)
	counts, adds := skew(rng, n, shape.DefaultTail)
	single, whole := mustCounting(t, g), mustCounting(t, g)
	added, ones := make([]Key, len(adds)), make([]uint32, len(adds))
	for i, k := range adds {
		single.Add(keys[k], 1)
		added[i], ones[i] = keys[k], 1
	}
	whole.AddBatch(0, keys, counts, nil)
	batched, half, merged, loaded := mustCounting(t, g), mustCounting(t, g), mustCounting(t, g), mustCounting(t, g)
	batched.AddBatch(0, added, ones, nil)
	for _, k := range adds[:len(adds)/2] {
		half.Add(keys[k], 1)
	}
	for _, k := range adds[len(adds)/2:] {
		merged.Add(keys[k], 1)
	}
	if err := merged.Merge(half); err != nil {
		t.Fatal(err)
	}
	for p := range single.Pages() {
		if err := loaded.Load(single.Image(p)); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]*Counting{"one by one": single, "in batches": batched, "at once": whole,
		"merged": merged, "loaded": loaded} {
		check(t, c)
		if got := float64(c.overflow.Load()) / n; got < 0.3 || got > 0.45 {
			t.Errorf("%s: overflow tables take %.3f bytes a key, want 0.45 at most", name, got)
		}
	}
}
