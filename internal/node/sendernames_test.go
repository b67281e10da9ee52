package node

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/config"
)

// TestNamesOfSenders checks by which names the HTTP door knows senders whose DKIM signatures a client has verified.
// Doors that verify by themselves give the same names. A sender would otherwise have one history at each kind of door.
func TestNamesOfSenders(t *testing.T) {
	_, address := startWith(t, config.Default(), "http")
	for _, tt := range []struct{ field, signer, want string }{
		{"List-Id: <trees.lists.example.org>\n", "example.org", "trees.lists.example.org|example.org"},
		{"List-Id: <trees.lists.example.org>\n", "Lists.Example.ORG", "trees.lists.example.org|example.org"},
		{"List-Id: <trees.lists.example.org>\n", "example.net", "example.net|authors.example"},
		{"DKIM-Signature: v=1; d=example.org; l=20\n", "example.org", ""},
		{"", "authors.example", "ann@authors.example"},
	} {
		raw := tt.field + "From: Ann <ann@authors.example>\nSubject: trees\n\n" + newsletterBody
		w, err := http.Post(address["http"]+"/v1/check?dkim="+tt.signer, "message/rfc822", strings.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(w.Body)
		w.Body.Close()
		if err != nil || w.StatusCode != http.StatusOK {
			t.Fatalf("%d %s, %v", w.StatusCode, body, err)
		}
		want := bulkhead.Sender.String() + ":" // no sender has a name
		if tt.want != "" {
			want = bulkhead.NamedSignature(bulkhead.Sender, tt.want).String()
		}
		if got := strings.Contains(string(body), want); got != (tt.want != "") {
			t.Errorf("%q signed by %s: want sender %q: %s", tt.field, tt.signer, tt.want, body)
		}
	}
}
