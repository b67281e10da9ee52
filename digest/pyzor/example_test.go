package pyzor_test

import (
	"context"
	"fmt"

	"github.com/bulkhead-mail/bulkhead/digest/pyzor"
)

const exampleMail = `From: Ana <ana@sender.example>
Subject: lamps

Dear reader, our lamps are cheap today,
and tomorrow they are not: http://www.lamps.example/
`

func ExampleLines() {
	lines, ok, err := pyzor.Lines(context.Background(), []byte(exampleMail))
	fmt.Printf("%q %v %v\n", lines, ok, err)
	// Output: ["Dearreader,ourlampsarecheaptoday," "andtomorrowtheyarenot:"] true <nil>
}
