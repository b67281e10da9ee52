package resolve

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
)

// TestTable compares a table with sums in a map, over batches of which some are large.
func TestTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var got table
		key := rapid.Custom(func(t *rapid.T) filter.Key {
			return filter.Key{Hi: rapid.Uint64Range(0, 40).Draw(t, "hi"), Lo: 1<<20 - rapid.Uint64Range(1, 3).Draw(t, "lo")}
		})
		for range rapid.IntRange(1, 5).Draw(t, "batches") {
			got.empty()
			want := make(map[filter.Key]uint32)
			for i := range rapid.SampledFrom([]uint64{0, 0, 300, mostKeys}).Draw(t, "many") {
				k := filter.Key{Hi: i, Lo: i}
				got.add(k, 1)
				want[k]++
			}
			for range rapid.IntRange(0, 100).Draw(t, "adds") {
				k, n := key.Draw(t, "key"), rapid.SampledFrom([]uint32{1, 2, filter.Many}).Draw(t, "n")
				got.add(k, n)
				want[k] = book.Add(want[k], n)
			}
			keys, n, has := []filter.Key{{Hi: 99}}, []uint32{3}, []bool{false}
			for k := range want {
				keys, n, has = append(keys, k), append(n, 1), append(has, false)
			}
			got.raise(keys, n)
			got.also(keys, has)
			for i, k := range keys {
				if got.count(k) != want[k] || i > 0 && n[i] != book.Add(1, want[k]) || has[i] != (want[k] > 0) {
					t.Fatalf("%v: %d, raised 1 to %d, has %v; want %d", k, got.count(k), n[i], has[i], want[k])
				}
			}
			if n[0] != 3 {
				t.Fatalf("a key that was never added raises 3 to %d", n[0])
			}
		}
	})
}

// TestTableBatches checks that an emptied table has no keys, and gives the memory of a large batch
// back.
func TestTableBatches(t *testing.T) {
	var x table
	k := filter.Key{Hi: 1, Lo: 2}
	x.add(k, 1)
	if x.empty(); x.has(k) {
		t.Error("it has a key of the batch before")
	}
	for i := range uint64(mostKeys + 1) {
		x.add(filter.Key{Hi: i, Lo: i}, 1)
	}
	if x.empty(); x.counts != nil {
		t.Error("emptied, it keeps the memory of a large batch")
	}
}
