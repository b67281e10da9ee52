package signature_test

import (
	"context"
	"fmt"

	"github.com/bulkhead-mail/bulkhead/signature"
)

const exampleMail = `From: Ana <ana@sender.example>
Subject: lamps

Dear reader, our lamps are cheap today,
and tomorrow they are not: http://www.lamps.example/
`

func ExampleRazorParts() {
	parts, err := signature.RazorParts(context.Background(), []byte(exampleMail))
	if err != nil {
		fmt.Println(err)
	}
	for _, p := range parts {
		fmt.Println("e4", signature.RazorText(p.E4.Sum()))
		for i, s := range p.E8 {
			fmt.Println("e8", signature.RazorText(s.Sum()), p.Hosts[i])
		}
	}
	// Output:
	// e4 fTvTbUsUH3xpGpv3AAHKk9oEmGsA
	// e8 pYpJI6Rw1qEA www.lamps.example
}

func ExamplePyzorLines() {
	lines, ok, err := signature.PyzorLines(context.Background(), []byte(exampleMail))
	fmt.Printf("%q %v %v\n", lines, ok, err)
	// Output: ["Dearreader,ourlampsarecheaptoday," "andtomorrowtheyarenot:"] true <nil>
}
