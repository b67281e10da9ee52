package fuzzy_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/fuzzy"
)

// empty knows nothing, and discards reports.
type empty struct{}

func (empty) Check(_ context.Context, q bulkhead.Query) (bulkhead.Verdict, error) {
	var v bulkhead.Verdict
	for _, sig := range q.Signatures {
		v.Findings = append(v.Findings, bulkhead.Finding{Signature: sig})
	}
	return v, nil
}

func (empty) Report(_ context.Context, r bulkhead.Report) (bulkhead.Receipt, error) {
	return bulkhead.Receipt{Counted: len(r.Signatures)}, nil
}

func ExampleServer() {
	ctx := context.Background()
	pair, err := fuzzy.NewKeyPair(rand.Reader)
	if err != nil {
		fmt.Println(err)
		return
	}
	s := &fuzzy.Server{Clearinghouse: empty{}, Keys: []*fuzzy.Key{{KeyPair: pair, Name: "all"}}, EncryptedOnly: true}
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	served := make(chan error, 1)
	go func() { served <- s.ServePacket(pc) }()

	c, err := fuzzy.Dial(ctx, pc.LocalAddr().String(), &fuzzy.Options{ServerKey: &pair.Public})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	reply, err := c.Check(ctx, [fuzzy.DigestSize]byte{1, 2, 3}, nil)
	fmt.Println(reply.OK(), err)
	fmt.Println(s.Shutdown(ctx))
	fmt.Println(<-served)
	// Output:
	// false <nil>
	// <nil>
	// door: server closed
}
