package razor2_test

import (
	"fmt"

	"github.com/bulkhead-mail/bulkhead/razor2"
)

func ExampleParseValues() {
	v := razor2.ParseValues("a=reg&pass=s3cret&registrar=Razor-Agents%20v2.84&user=ana%40example.org")
	fmt.Println(v.Get("user"), v.Has("ep4"))
	fmt.Println(razor2.Values{{Key: "res", Value: "1"}, {Key: "user", Value: "ana@example.org"}})
	// Output:
	// ana@example.org false
	// res=1&user=ana%40example.org
}

func ExampleResponse() {
	fmt.Println(razor2.Response("hunter2", "abcdefghij0123456789"))
	// Output: 9jhrdDVnjO-ChlNTo5d6clw_fmcA
}
