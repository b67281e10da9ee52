package filter_test

import (
	"bytes"
	"fmt"
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

func ExampleTwoPart() {
	shape := try(filter.SizeTwoPart(1000, 1e-6, filter.EigenHash))
	list := try(filter.NewTwoPart(shape, filter.Secret{1}))
	list.Add([]byte("spammer@example.net"))
	list.Publish() // every holder of the file may query it

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
		m := try(rule.Measure(&state, now, []byte(recipient), 1))
		fmt.Printf("%s: %.0f of %.0f, over: %v\n", recipient, m.Rate, rule.Limit(), m.Over)
	}
	// Output:
	// ann: 1 of 2, over: false
	// ben: 2 of 2, over: false
	// ann: 2 of 2, over: false
	// ann: 2 of 2, over: false
	// cat: 3 of 2, over: true
}
