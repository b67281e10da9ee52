package razor_test

import (
	"context"
	"fmt"

	"github.com/bulkhead-mail/bulkhead/digest/razor"
)

const exampleMail = `From: Ana <ana@sender.example>
Subject: lamps

Dear reader, our lamps are cheap today,
and tomorrow they are not: http://www.lamps.example/
`

func ExampleParts() {
	parts, err := razor.Parts(context.Background(), []byte(exampleMail))
	if err != nil {
		fmt.Println(err)
	}
	for _, p := range parts {
		fmt.Println("e4", razor.Text(p.E4.Sum()))
		for i, s := range p.E8 {
			fmt.Println("e8", razor.Text(s.Sum()), p.Hosts[i])
		}
	}
	// Output:
	// e4 fTvTbUsUH3xpGpv3AAHKk9oEmGsA
	// e8 pYpJI6Rw1qEA www.lamps.example
}
