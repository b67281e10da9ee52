package paper_test

import (
	"fmt"
	"math/rand/v2"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/lab/paper"
)

// try stands for the caller's error handling.
func try[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func ExampleFamily() {
	// SHA-1 in 8 chunks of 20 bits cannot reach more than 2^20 positions.
	f := try(paper.ChunkedSHA1(1<<24, 8))
	fmt.Println(f.Utilisable(), f.Reachable())
	u := try(paper.Universal(80_000, 4, rand.New(rand.NewPCG(1, 1))))
	fmt.Println(u.Utilisable(), u.Reachable())
	// Output:
	// 1048576 filter: unreachable positions: sha1 with k = 8 reaches 1048576 of 16777216
	// 80000 <nil>
}

func ExampleBloom() {
	secret := filter.Secret{1}                     // of the network
	family := try(paper.Keyed(secret, 16*1000, 8)) // 16 bits for each of 1000 elements
	spam := try(paper.NewBloom(family))
	spam.Add([]byte("a signature"))
	fmt.Println(spam.Contains([]byte("a signature")), spam.Contains([]byte("another")))
	// Output: true false
}

func ExampleIntuitive() {
	family := try(paper.Keyed(filter.Secret{1}, 1000, 4))
	counts := try(paper.NewIntuitive(family, paper.FixedCells(5)))
	counts.Insert([]byte("a message"), 3)
	if err := counts.Delete([]byte("a message"), 1); err != nil {
		panic(err)
	}
	fmt.Println(counts.Count([]byte("a message")))
	// Output: 2
}

func ExampleRefined() {
	family := try(paper.Keyed(filter.Secret{1}, 1000, 4))
	// Two servers count for themselves; a third adds up what they saw.
	here := try(paper.NewRefined(family, paper.FixedCells(5)))
	there := here.Clone()
	here.Insert([]byte("a message"), 12)
	there.Insert([]byte("a message"), 9)
	merged := here.Clone()
	if err := merged.Merge(there); err != nil {
		panic(err)
	}
	fmt.Println(merged.Count([]byte("a message")), merged.Count([]byte("another")))
	// Output: 21 0
}

func ExampleCellLayout() {
	for _, l := range []paper.CellLayout{paper.FixedCells(5), paper.SplitCells(4, 16)} {
		fmt.Printf("%v: counts up to %d\n", l, l.Max())
	}
	// Output:
	// 5 bits: counts up to 31
	// 4+1 bits, 16 tables: counts up to 16777215
}

func ExampleDCCFalsePositive() {
	const m, n, k, t = 1_100_000, 100_000, 6, 20
	// Every message seen once: the paper's Eq. 4. Skewed counts: see
	// BulkFalsePositive, here with 3 % of the messages seen 20 times or more.
	fmt.Printf("%.0e %.0e\n", paper.DCCFalsePositive(m, n, k, t, 0), paper.BulkFalsePositive(m, n, k, 0.03))
	// Output: 6e-144 2e-11
}
