package filter_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
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
	f := try(filter.ChunkedSHA1(1<<24, 8))
	fmt.Println(f.Utilisable(), f.Reachable())
	u := try(filter.Universal(80_000, 4, rand.New(rand.NewPCG(1, 1))))
	fmt.Println(u.Utilisable(), u.Reachable())
	// Output:
	// 1048576 filter: unreachable positions: sha1 with k = 8 reaches 1048576 of 16777216
	// 80000 <nil>
}

func ExampleBloom() {
	secret := filter.Secret{1}                      // of the network
	family := try(filter.Keyed(secret, 16*1000, 8)) // 16 bits for each of 1000 elements
	spam := try(filter.NewBloom(family))
	spam.Add([]byte("a signature"))
	fmt.Println(spam.Contains([]byte("a signature")), spam.Contains([]byte("another")))
	// Output: true false
}

func ExampleIntuitive() {
	family := try(filter.Keyed(filter.Secret{1}, 1000, 4))
	counts := try(filter.NewIntuitive(family, filter.FixedCells(5)))
	counts.Insert([]byte("a message"), 3)
	if err := counts.Delete([]byte("a message"), 1); err != nil {
		panic(err)
	}
	fmt.Println(counts.Count([]byte("a message")))
	// Output: 2
}

func ExampleRefined() {
	family := try(filter.Keyed(filter.Secret{1}, 1000, 4))
	// Two servers count for themselves; a third adds up what they saw.
	here := try(filter.NewRefined(family, filter.FixedCells(5)))
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
	for _, l := range []filter.CellLayout{filter.FixedCells(5), filter.SplitCells(4, 16)} {
		fmt.Printf("%v: counts up to %d\n", l, l.Max())
	}
	// Output:
	// 5 bits: counts up to 31
	// 4+1 bits, 16 tables: counts up to 16777215
}

func ExampleCellDelta() {
	family := try(filter.Keyed(filter.Secret{1}, 100_000, 6))
	mine := try(filter.NewRefined(family, filter.FixedCells(5)))
	mine.Insert([]byte("a message"), 3)
	peer := mine.Clone() // the first round: the whole filter

	sent := mine.Clone()
	mine.Insert([]byte("a message"), 4)
	delta := try(mine.Since(sent)) // a later round: what changed
	var wire bytes.Buffer
	if err := delta.Encode(&wire); err != nil {
		panic(err)
	}
	fmt.Println(wire.Len() < 100)

	got := try(filter.DecodeCellDelta(&wire, true, 1<<20, filter.Secret{1}))
	if err := peer.Apply(got); err != nil {
		panic(err)
	}
	fmt.Println(peer.Count([]byte("a message")))
	// Output:
	// true
	// 7
}

func ExampleTwoPart() {
	shape := try(filter.SizeTwoPart(1000, 1e-6, filter.EigenHash))
	list := try(filter.NewTwoPart(shape, filter.Secret{1}))
	list.Add([]byte("spammer@example.net"))
	list.Publish() // whoever has the file may ask it

	var file bytes.Buffer
	if err := list.Encode(&file); err != nil {
		panic(err)
	}
	read := try(filter.DecodeTwoPart(&file, 1<<20))
	fmt.Println(read.Count(), read.Contains([]byte("spammer@example.net")), read.Contains([]byte("friend@example.net")))
	// Output: 1 true false
}

func ExampleEigenvalue() {
	address := []byte("abc.def.ghi@mail.example.com")
	fmt.Printf("%s %s\n", filter.EigenChars.Append(nil, address), filter.EigenDomain.Append(nil, address))
	// Output: adg mail.example.com
}

func ExampleUniqueRate() {
	rule := try(filter.NewUniqueRate(filter.UniqueRateConfig{Limit: 2, Period: time.Hour}))
	state := make([]byte, rule.StateBytes()) // one for each sender
	now := time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	for _, recipient := range []string{"ann", "ben", "ann", "ann", "cat"} {
		m := try(rule.Measure(state, now, []byte(recipient), 1))
		fmt.Printf("%s: %.0f of %.0f, over: %v\n", recipient, m.Rate, rule.Limit(), m.Over)
	}
	// Output:
	// ann: 1 of 2, over: false
	// ben: 2 of 2, over: false
	// ann: 2 of 2, over: false
	// ann: 2 of 2, over: false
	// cat: 3 of 2, over: true
}

func ExampleWindow() {
	family := try(filter.Keyed(filter.Secret{1}, 1000, 4))
	fresh := func() (*filter.Refined, error) { return filter.NewRefined(family, filter.FixedCells(5)) }
	week := try(filter.NewWindow(filter.WindowConfig{Period: 24 * time.Hour, Keep: 7}, fresh))

	x := []byte("a message")
	count := func() uint32 { return week.Sum(func(f *filter.Refined) uint32 { return f.Count(x) }) }
	monday := time.Date(2024, 2, 26, 8, 0, 0, 0, time.UTC)
	try(week.At(monday)).Insert(x, 5)
	try(week.At(monday.AddDate(0, 0, 3))).Insert(x, 1)
	fmt.Println(count())
	week.Expire(monday.AddDate(0, 0, 7))
	fmt.Println(count())
	// Output:
	// 6
	// 1
}

func ExampleDCCFalsePositive() {
	const m, n, k, t = 1_100_000, 100_000, 6, 20
	// Every message seen once: the paper's Eq. 4. Skewed counts: see
	// BulkFalsePositive, here with 3 % of the messages seen 20 times or more.
	fmt.Printf("%.0e %.0e\n", filter.DCCFalsePositive(m, n, k, t, 0), filter.BulkFalsePositive(m, n, k, 0.03))
	// Output: 6e-144 2e-11
}
