package letters

import (
	"context"
	"errors"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// numbers yields 0 to n-1, and then err unless it is nil.
func numbers(n int, err error) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		for i := range n {
			if !yield(i, nil) {
				return
			}
		}
		if err != nil {
			yield(0, err)
		}
	}
}

func TestRead(t *testing.T) {
	begun := 0
	begin := func(n int) *int { begun++; return new(int) }
	square := func(_ context.Context, n int, l *int) { *l = n * n }
	all, err := Read(t.Context(), numbers(500, nil), begin, square)
	if err != nil || len(all) != 500 {
		t.Fatalf("%d letters, %v", len(all), err)
	}
	for i, l := range all {
		if *l != i*i {
			t.Errorf("letter %d is %d, want %d", i, *l, i*i)
		}
	}
	broken := errors.New("broken")
	if all, err := Read(t.Context(), numbers(3, broken), begin, square); all != nil || !errors.Is(err, broken) {
		t.Errorf("a broken collection: %d letters, %v", len(all), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	begun = 0
	all, err = Read(ctx, numbers(1000, nil), func(n int) *int {
		if begun++; begun == 5 {
			cancel()
		}
		return new(int)
	}, square)
	if all != nil || !errors.Is(err, context.Canceled) || begun != 5 {
		t.Errorf("cancelled: %d letters of %d, %v", len(all), begun, err)
	}
}

// TestSigned checks that a note that could not be reported has no signature, whatever the name in
// its From.
func TestSigned(t *testing.T) {
	for raw, want := range map[string]bool{
		"From: Ann Example <a@b.example>\n\nhi\n":                                false,
		"From: Ann Example <a@b.example>\n\nhi, see http://offers.example/now\n": true,
	} {
		m, err := mail.Read(t.Context(), []byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		network := []bulkhead.Signature{bulkhead.NamedSignature(bulkhead.Network, "192.0.2.0/24")}
		sigs, err := Signed(t.Context(), m, network, signature.Options{})
		if err != nil || len(sigs) > 0 != want {
			t.Errorf("%q: %v, %v", raw, sigs, err)
		}
	}
}

// TestSource: what a server found out is read from its results; ham from before there were
// any counts as signed, spam does not.
func TestSource(t *testing.T) {
	const from = "From: Ann <ann@author.example>\n"
	for _, tt := range []struct {
		name, header string
		spam         bool
		dkim         []string
		sender       string
		client       string
	}{
		{"results", "Authentication-Results: mx.example; dkim=pass header.d=Signer.example; spf=pass (sender ip is " +
			"192.0.2.9) smtp.mailfrom=x@bounce.example\n" + from,
			true, []string{"Signer.example"}, "", "192.0.2.9"},
		{"failed", "Authentication-Results: mx.example; dkim=fail header.d=signer.example; spf=softfail " +
			"smtp.mailfrom=bounce.example\n" + from, false, nil, "", ""},
		{"ham of old", from + "Received: from a ([10.0.0.1]) by b\nReceived: from c ([198.51.100.7])\n\tby a\n", false,
			[]string{"author.example"}, "ann@author.example", "198.51.100.7"},
		{"list of old", from + "List-Id: friends <friends.lists.example>\n", false, []string{"friends.lists.example"}, "",
			""},
		{"spam of old", from, true, nil, "", ""},
	} {
		raw := []byte(strings.ReplaceAll(tt.header, "\n", "\r\n") + "\r\nhello\r\n\r\nDKIM: not of the header\r\n")
		m, err := mail.Read(t.Context(), raw)
		if err != nil {
			t.Fatal(err)
		}
		header := Header(raw)
		if string(header)+"\n" != tt.header {
			t.Errorf("%s: header %q", tt.name, header)
		}
		got := Source(m, header, tt.spam)
		if !slices.Equal(got.DKIM, tt.dkim) || got.Sender != tt.sender {
			t.Errorf("%s: DKIM %q, sender %q; want %q, %q", tt.name, got.DKIM, got.Sender, tt.dkim, tt.sender)
		}
		if tt.client != "" && got.Client != netip.MustParseAddr(tt.client) || !got.Client.IsValid() {
			t.Errorf("%s: client %v, want %q or one of its own", tt.name, got.Client, tt.client)
		}
	}
}
