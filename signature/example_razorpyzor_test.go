package signature_test

import (
	"fmt"

	"github.com/bulkhead-mail/bulkhead/signature"
)

const exampleMail = `From: Ana <ana@sender.example>
Subject: lamps

Dear reader, our lamps are cheap today,
and tomorrow they are not: http://www.lamps.example/
`

func ExampleRazorParts() {
	for _, p := range signature.RazorParts([]byte(exampleMail)) {
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
	lines, ok := signature.PyzorLines([]byte(exampleMail))
	fmt.Printf("%q %v\n", lines, ok)
	// Output: ["Dearreader,ourlampsarecheaptoday," "andtomorrowtheyarenot:"] true
}
