package pyzor_test

import (
	"fmt"

	"github.com/bulkhead-mail/bulkhead/pyzor"
)

func ExampleParseReply() {
	r, err := pyzor.ParseReply([]byte("Code: 200\nDiag: OK\nPV: 2.1\nThread: 31741\nCount: 3\nWL-Count: 0\n\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	n, err := r.Count("Count")
	fmt.Println(r.Err(), n, err)
	// Output: <nil> 3 <nil>
}

func ExampleRequest_Append() {
	r := pyzor.Request{Op: []byte(pyzor.OpPing), Thread: []byte("30051"), Time: []byte("1795267705")}
	fmt.Printf("%s", r.Append(nil, nil))
	// Output:
	// Op: ping
	// Thread: 30051
	// PV: 2.1
	// User: anonymous
	// Time: 1795267705
	// Sig: 13283d56397995f0dbc16a091093b33da33d1f69
}
