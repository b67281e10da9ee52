package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
)

// A refusal wraps the reason that package bulkhead has for it.
func ExampleClient() {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"title": "Unauthorized", "status": 401, "detail": "the token is unknown"}`)
	}))
	defer node.Close()
	var house bulkhead.Clearinghouse = &client.Client{Server: node.URL, Token: "an old one"}
	sig := bulkhead.MustSignature(bulkhead.PyzorDigest, make([]byte, 20))
	_, err := house.Check(context.Background(), bulkhead.Query{Signatures: []bulkhead.Signature{sig}})
	fmt.Println(errors.Is(err, bulkhead.ErrUnauthorised))
	// Output: true
}
