package api_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/api"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

func Example() {
	// A node, here with an exact clearinghouse in memory.
	server, err := api.New(api.Options{
		Clearinghouse: &prototest.House{},
		Read: func(_ context.Context, raw []byte, _ []string) ([]bulkhead.Signature, bulkhead.Source, error) {
			sum := sha256.Sum256(raw)
			sig, err := bulkhead.NewSignature(bulkhead.Exact, sum[:])
			return []bulkhead.Signature{sig}, bulkhead.Source{}, err
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	node := httptest.NewServer(server)
	defer node.Close()

	ctx := context.Background()
	c := admin.New(node.URL, "")
	message := []byte("Subject: offer\r\n\r\nBuy two, get three.\r\n")
	receipt, err := c.ReportMessage(ctx, message, client.MessageOptions{Vote: bulkhead.Spam})
	if err != nil {
		log.Fatal(err)
	}
	verdict, err := c.CheckMessage(ctx, message, client.MessageOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(receipt.Listed, "listed; spam:", verdict.Spam)
	// Output: 1 listed; spam: true
}
