package dcc_test

import (
	"context"
	"fmt"
	"net"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/dcc"
	digests "github.com/bulkhead-mail/bulkhead/digest/dcc"
)

// busy has seen everything five times.
type busy struct{}

func (busy) Check(_ context.Context, q bulkhead.Query) (bulkhead.Verdict, error) {
	var v bulkhead.Verdict
	for _, sig := range q.Signatures {
		v.Findings = append(v.Findings, bulkhead.Finding{Signature: sig, Sightings: 5})
	}
	return v, nil
}

func (busy) Report(_ context.Context, r bulkhead.Report) (bulkhead.Receipt, error) {
	return bulkhead.Receipt{Counted: len(r.Signatures)}, nil
}

func ExampleServer() {
	ctx := context.Background()
	s := &dcc.Server{Clearinghouse: busy{}, Brand: "example"}
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	served := make(chan error, 1)
	go func() { served <- s.ServePacket(pc) }()

	// The client's side, as in dccproc -Q.
	c, err := dcc.Dial(ctx, pc.LocalAddr().String(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	totals, err := c.Query(ctx, []dcc.Checksum{{Type: digests.TypeBody, Sum: [16]byte{1, 2, 3}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(totals[0].Current)
	fmt.Println(s.Shutdown(ctx))
	fmt.Println(<-served)
	// Output:
	// 5
	// <nil>
	// door: server closed
}

func ExampleParseThreshold() {
	thresholds, err := dcc.ParseThreshold("Body,20")
	fmt.Println(thresholds[digests.TypeBody], err)
	// Output: 20 <nil>
}
