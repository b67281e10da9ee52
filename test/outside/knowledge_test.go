package outside_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/digest/rspamd"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/filter/paper"
	"github.com/bulkhead-mail/bulkhead/filter/shape"
	"github.com/bulkhead-mail/bulkhead/signature"
	"github.com/bulkhead-mail/bulkhead/signature/document"
	"github.com/bulkhead-mail/bulkhead/signature/link"
	sigmail "github.com/bulkhead-mail/bulkhead/signature/mail"
	"github.com/bulkhead-mail/bulkhead/signature/picture"

	"example.com/outside"
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

func Example_signatureLink() {
	for _, l := range link.All("https://www.example.com/go?url=https%3A%2F%2Fforms.example.net%2Fabc%2Fx") {
		fmt.Println(l.Domain, l.Place())
	}
	// Output:
	// example.com www.example.com/go
	// example.net forms.example.net/abc
}

func Example_signaturePicture() {
	drawn := image.NewGray(image.Rect(0, 0, 300, 200))
	for i := range drawn.Pix {
		x, y := i%300, i/300
		drawn.Pix[i] = uint8(x*x/40 ^ y*y/30)
	}
	var file, smaller bytes.Buffer
	err := png.Encode(&file, drawn)
	if err == nil {
		err = jpeg.Encode(&smaller, drawn, &jpeg.Options{Quality: 60})
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	hasher := picture.NewHasher([16]byte{})
	keys := func(data []byte) [][picture.KeySize]byte {
		look, err := picture.Read(context.Background(), data)
		if err != nil {
			fmt.Println(err)
			return nil
		}
		return hasher.Keys(look)
	}
	known := keys(file.Bytes())
	fmt.Println(slices.ContainsFunc(keys(smaller.Bytes()), func(k [picture.KeySize]byte) bool {
		return slices.Contains(known, k)
	}))
	// Output: true
}

func Example_signatureDocument() {
	budget := document.Budget{Bytes: 1 << 20, Items: 8}
	const file = "%PDF-1.4\n1 0 obj\n<<>>\nstream\nBT (Your invoice) Tj ET\nendstream\nendobj\n"
	for _, item := range document.Open(context.Background(), "invoice.pdf", []byte(file), &budget) {
		fmt.Println(item.Name, strings.TrimSpace(string(item.Data)))
	}
	// Output: invoice.pdf Your invoice
}

func Example_signatureMail() {
	m, err := sigmail.Read(context.Background(), []byte(mail))
	must(err)
	fmt.Println(m.From, m.Subject, len(m.Parts))
	// Output: ann@example.com offer 1
}

func Example_signatureRspamd() {
	m, err := sigmail.Read(context.Background(), []byte(mail))
	must(err)
	hashes, err := rspamd.NewHasher("", "", rspamd.MumHash).Hashes(context.Background(), m, rspamd.Policy{MinBytes: -1})
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

func Example_filterPaper() {
	fmt.Printf("%.2f\n", paper.OptimalHashes(10))
	// Output: 6.93
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
