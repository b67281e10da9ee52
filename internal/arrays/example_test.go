package arrays_test

import (
	"fmt"

	"github.com/bulkhead-mail/bulkhead/internal/arrays"
)

// A page survives a restart; a damaged one is refused.
func ExampleImage() {
	g := arrays.Geometry{Kind: arrays.Cells, Lines: 1024, K: 6}
	c, _ := arrays.NewCounting(g)
	key := arrays.Key{Hi: 1 << 60, Lo: 0x010203040506}
	c.Add(key, 3)
	file := c.Image(0).Append(nil)

	restarted, _ := arrays.NewCounting(g)
	page, err := restarted.LoadPage(file)
	fmt.Println(page, err, restarted.Count(key))

	file[70] ^= 1
	_, err = arrays.ParseImage(file, g)
	fmt.Println(err != nil)
	// Output:
	// 0 <nil> 3
	// true
}

// The journal index makes it harmless to apply an entry twice.
func ExampleCounting_AddBatch() {
	c, _ := arrays.NewCounting(arrays.Geometry{Kind: arrays.Cells, Lines: 2048, K: 6})
	keys := []arrays.Key{{Hi: 1 << 60, Lo: 0x010203040506}, {Hi: 1 << 62, Lo: 0x111213141516}}
	for range 3 { // the entry with index 1, and two replays of it
		c.AddBatch(1, keys, []uint32{5, 20}, nil)
	}
	counts := make([]uint32, len(keys))
	c.CountBatch(keys, counts)
	fmt.Println(counts)
	// Output: [5 20]
}
