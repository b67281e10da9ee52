package filter_test

import (
	"bytes"
	"fmt"

	"github.com/bulkhead-mail/bulkhead/filter"
)

func ExampleCounting() {
	secret := filter.Secret{1, 2, 3}
	g, err := filter.SizeFor(filter.Target{
		Kind: filter.Cells, Signatures: 100_000,
		Error: filter.CountWrong, Rate: 1e-3, KeyID: secret.ID(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	seen, err := filter.NewCounting(g)
	if err != nil {
		fmt.Println(err)
		return
	}
	offer := secret.KeyOf("bulkhead/exact", []byte("the digest of an offer"))
	for range 1000 {
		seen.Add(offer, 1)
	}
	letter := secret.KeyOf("bulkhead/exact", []byte("the digest of a letter"))
	fmt.Println(seen.Count(offer), seen.Count(letter))
	fmt.Printf("%d KiB for 100000 signatures\n", g.Bytes()>>10)
	// Output:
	// 1000 0
	// 640 KiB for 100000 signatures
}

// Two servers count into arrays of their own; a third array is their sum.
func ExampleCounting_Merge() {
	g := filter.Geometry{Kind: filter.Cells, Lines: 1024, K: 6}
	key := filter.Secret{}.KeyOf("razor/e8", []byte("digest"))
	a, _ := filter.NewCounting(g)
	b, _ := filter.NewCounting(g)
	a.Add(key, 12)
	b.Add(key, 30)
	sum, _ := filter.NewCounting(g)
	for _, server := range []*filter.Counting{a, b} {
		if err := sum.Merge(server); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(sum.Count(key))
	// Output: 42
}

// A batch overlaps the cache misses of its keys.
func ExampleCounting_AddBatch() {
	c, _ := filter.NewCounting(filter.Geometry{Kind: filter.Cells, Lines: 2048, K: 6})
	secret := filter.Secret{7}
	keys := []filter.Key{secret.Key([]byte("one")), secret.Key([]byte("two"))}
	c.AddBatch(keys, []uint32{5, 20}, nil)
	counts := make([]uint32, len(keys))
	c.CountBatch(keys, counts)
	fmt.Println(counts)
	// Output: [5 20]
}

func ExampleBits() {
	secret := filter.Secret{1}
	g, err := filter.SizeFor(filter.Target{Kind: filter.Bitmap, Signatures: 1_000_000, Rate: 1e-3, KeyID: secret.ID()})
	if err != nil {
		fmt.Println(err)
		return
	}
	listed, err := filter.NewBits(g)
	if err != nil {
		fmt.Println(err)
		return
	}
	k := secret.KeyOf("pyzor/digest", []byte("digest"))
	fmt.Println(listed.Has(k), listed.Set(k), listed.Has(k))
	fmt.Printf("%.1f bytes a signature\n", float64(g.Bytes())/1e6)
	// Output:
	// false false true
	// 2.0 bytes a signature
}

// Votes of different kinds on one signature are counted separately, in one line.
func ExampleKey_With() {
	const spam, ham = 1, 2
	c, _ := filter.NewCounting(filter.Geometry{Kind: filter.Cells, Lines: 1024, K: 6})
	k := filter.Secret{}.KeyOf("razor/e8", []byte("digest"))
	c.Add(k.With(spam), 9)
	c.Add(k.With(ham), 2)
	fmt.Println(c.Count(k.With(spam)), c.Count(k.With(ham)))
	// Output: 9 2
}

func ExampleDecodeCounting() {
	c, _ := filter.NewCounting(filter.Geometry{Kind: filter.Cells, Lines: 4096, K: 6})
	var file bytes.Buffer
	if err := c.Encode(&file); err != nil {
		fmt.Println(err)
	}
	_, err := filter.DecodeCounting(&file, 1<<10)
	fmt.Println(err)
	// Output: filter: array over limit: 262144 bytes, limit 1024
}

func ExampleSizeFor() {
	for _, t := range []filter.Target{
		{Kind: filter.Cells, Error: filter.CountWrong, Rate: 1e-3},
		{Kind: filter.Cells, Error: filter.BulkWrong, Rate: 1e-5},
		{Kind: filter.Cells, Error: filter.Ghost, Rate: 1e-2},
		{Kind: filter.Bitmap, Error: filter.Ghost, Rate: 1e-3},
	} {
		t.Signatures = 10_000_000
		g, err := filter.SizeFor(t)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s, %s at most %g: k=%d, %.1f bytes a signature\n",
			t.Kind, t.Error, t.Rate, g.K, float64(g.Bytes())/float64(t.Signatures))
	}
	// Output:
	// cells, count wrong at most 0.001: k=6, 6.6 bytes a signature
	// cells, bulk decision wrong at most 1e-05: k=6, 1.0 bytes a signature
	// cells, ghost at most 0.01: k=6, 5.4 bytes a signature
	// bits, ghost at most 0.001: k=8, 2.0 bytes a signature
}
