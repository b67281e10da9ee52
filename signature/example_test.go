package signature_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// The exact signature depends on the text alone, whoever it is sent to.
func ExampleCompute() {
	exact := func(to, body string) (all []string) {
		sigs, err := signature.Compute(context.Background(), []byte("From: ann@example.com\nTo: "+to+"\n\n"+body),
			signature.Options{})
		if err != nil {
			fmt.Println(err)
		}
		for _, sig := range sigs {
			if sig.Scheme() == bulkhead.Exact {
				all = append(all, sig.String())
			}
		}
		return all
	}
	const offer = "Dear friend, our bookshelf holds every novel that you could ever want to read," +
		" and some that you would not.\n"
	one, same, other := exact("bob@example.net", offer), exact("carol@example.org", offer),
		exact("bob@example.net", "Not today.\n"+offer)
	fmt.Println(len(one), slices.Equal(one, same), slices.Equal(one, other))
	// Output: 1 true false
}
