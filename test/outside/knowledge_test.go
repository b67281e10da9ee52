package outside_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"example.com/outside"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/digest/rspamd"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/filter/shape"
	"github.com/bulkhead-mail/bulkhead/signature"
)

func Example_bulkhead() {
	sig, err := bulkhead.ParseSignature("pyzor/digest:dc2f1aac4a98fe905e0d362276084a814b77f391")
	must(err)
	var house bulkhead.Clearinghouse = new(outside.House)
	_, err = house.Report(context.Background(),
		bulkhead.Report{Signatures: []bulkhead.Signature{sig}, Vote: bulkhead.Spam})
	must(err)
	v, err := house.Check(context.Background(), bulkhead.Query{Signatures: []bulkhead.Signature{sig}})
	must(err)
	fmt.Println(sig, v.Spam())
	// Output: pyzor/digest:dc2f1aac4a98fe905e0d362276084a814b77f391 true
}

func Example_signature() {
	sigs, err := signature.Compute(context.Background(), []byte(mail),
		signature.Options{Skip: []bulkhead.Scheme{bulkhead.RspamdShingle}})
	must(err)
	seen := make(map[bulkhead.Scheme]bool)
	for _, sig := range sigs {
		seen[sig.Scheme()] = true
	}
	fmt.Println(len(sigs) > 0, seen[bulkhead.RspamdShingle])
	// Output: true false
}

func Example_digestRspamd() {
	hashes, err := rspamd.NewHasher("", "", rspamd.MumHash).Hashes(context.Background(), []byte(mail),
		rspamd.Policy{MinBytes: -1})
	must(err)
	for _, h := range hashes {
		sig := h.Signature()
		fmt.Println(sig.Scheme(), h.Shingles != nil)
	}
	// Output: rspamd/text false
}

func Example_filter() {
	secret := filter.Secret{1, 2, 3}
	g, err := filter.SizeFor(filter.Target{Kind: filter.Cells, Signatures: 1000, Error: filter.CountWrong, Rate: 1e-3,
		KeyID: secret.ID()})
	must(err)
	seen, err := filter.NewCounting(g)
	must(err)
	key := secret.KeyOf("example", []byte("a digest"))
	seen.Add(key, 3)
	fmt.Println(seen.Count(key))
	// Output: 3
}

func Example_filterShape() {
	g := shape.Geometry{Kind: shape.Bitmap, Lines: 1024, K: 8}
	fmt.Printf("%.1e\n", g.GhostError(32_768))
	// Output: 9.1e-04
}

func Example_client() {
	// This server stands in for a node.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		must(json.NewEncoder(w).Encode(client.Verdict{Class: "spam", Confidence: 97}))
	}))
	defer server.Close()
	node := &client.Client{Server: server.URL}
	v, err := node.CheckMessage(context.Background(), []byte(mail), client.MessageOptions{})
	must(err)
	fmt.Println(v.Class, v.Confidence)
	// Output: spam 97
}

func Example_clientAdmin() {
	// This server stands in for a node.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `[{"name":"ann","role":"trusted"}]`)
	}))
	defer server.Close()
	users, err := admin.New(server.URL, "an administrator's token").Users(context.Background())
	must(err)
	for _, u := range users {
		fmt.Println(u.Name, u.Role)
	}
	// Output: ann trusted
}
