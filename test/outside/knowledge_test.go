package outside_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io/fs"
	"net/http/httptest"
	"slices"
	"strings"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/api"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/filter/paper"
	"github.com/bulkhead-mail/bulkhead/plugins"
	"github.com/bulkhead-mail/bulkhead/signature"
	"github.com/bulkhead-mail/bulkhead/signature/document"
	"github.com/bulkhead-mail/bulkhead/signature/link"
	sigmail "github.com/bulkhead-mail/bulkhead/signature/mail"
	"github.com/bulkhead-mail/bulkhead/signature/picture"
	"github.com/bulkhead-mail/bulkhead/signature/rspamd"

	"example.com/outside"
)

func Example_bulkhead() {
	sig, err := bulkhead.ParseSignature("pyzor/digest:dc2f1aac4a98fe905e0d362276084a814b77f391")
	must(err)
	var house bulkhead.Clearinghouse = new(outside.House)
	_, err = house.Report(context.Background(), bulkhead.Report{Signatures: []bulkhead.Signature{sig}, Vote: bulkhead.Spam})
	must(err)
	v, err := house.Check(context.Background(), bulkhead.Query{Signatures: []bulkhead.Signature{sig}})
	must(err)
	fmt.Println(sig, v.Spam())
	// Output: pyzor/digest:dc2f1aac4a98fe905e0d362276084a814b77f391 true
}

func Example_signature() {
	sigs, err := signature.Compute(context.Background(), []byte(mail), signature.Options{Skip: []bulkhead.Scheme{bulkhead.RspamdShingle}})
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
	fmt.Println(slices.ContainsFunc(keys(smaller.Bytes()), func(k [picture.KeySize]byte) bool { return slices.Contains(known, k) }))
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
	g, err := filter.SizeFor(filter.Target{Kind: filter.Cells, Signatures: 1000, Error: filter.CountWrong, Rate: 1e-3, KeyID: secret.ID()})
	must(err)
	seen, err := filter.NewCounting(g)
	must(err)
	key := secret.KeyOf("example", []byte("a digest"))
	seen.Add(key, 3)
	fmt.Println(seen.Count(key))
	// Output: 3
}

func Example_filterPaper() {
	fmt.Printf("%.2f\n", paper.OptimalHashes(10))
	// Output: 6.93
}

// A node over HTTP, and a door's view of it.
func Example_plugins() {
	names, err := fs.Glob(plugins.Files, "*/*")
	must(err)
	fmt.Println(names)
	// Output: [rspamd/bulkhead.lua spamassassin/Bulkhead.pm spamassassin/bulkhead.cf]
}

func Example_client() {
	node, err := api.New(api.Options{
		Clearinghouse: new(outside.House),
		Read: func(ctx context.Context, raw []byte) ([]bulkhead.Signature, bulkhead.Source, error) {
			sigs, err := signature.Compute(ctx, raw, signature.Options{})
			return sigs, bulkhead.Source{}, err
		},
		Access: api.Access{AnonymousCheck: api.Loopback, AnonymousReport: api.Loopback},
	})
	must(err)
	server := httptest.NewServer(node)
	defer server.Close()
	var house bulkhead.Counter = &client.Client{Server: server.URL}
	sig := bulkhead.MustSignature(bulkhead.PyzorDigest, make([]byte, 20))
	_, err = house.Report(context.Background(), bulkhead.Report{Signatures: []bulkhead.Signature{sig}, Vote: bulkhead.Spam})
	must(err)
	v, err := house.Check(context.Background(), bulkhead.Query{Signatures: []bulkhead.Signature{sig}})
	must(err)
	fmt.Println(v.Spam())
	// Output: true
}
