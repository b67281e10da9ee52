package bulkhead_test

import (
	"fmt"

	"github.com/bulkhead-mail/bulkhead"
)

func ExampleParseSignature() {
	sig, err := bulkhead.ParseSignature("pyzor/digest:dc2f1aac4a98fe905e0d362276084a814b77f391")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(sig.Scheme(), len(sig.Sum()))
	_, err = bulkhead.ParseSignature("abacus:dc2f")
	fmt.Println(err != nil)
	// Output:
	// pyzor/digest 20
	// true
}

// Bulk mail is unwanted, unless a white list has it.
func ExampleVerdict() {
	v := bulkhead.Verdict{Sightings: 25, Threshold: 20, Bulk: true}
	fmt.Println(v.Spam(), v.Unwanted())
	v.Whitelisted = "list example.com"
	fmt.Println(v.Spam(), v.Unwanted())
	// Output:
	// false true
	// false false
}
