package signature

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bulkhead-mail/bulkhead/digest/dcc"
	"github.com/bulkhead-mail/bulkhead/digest/pyzor"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
)

// TestUnquoted: what the reader of messages makes of quoted-printable is what the readers for DCC
// and Pyzor make of it, wherever it is handed to them.
func TestUnquoted(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	plain := []string{" word and", " a <b>page</b>", "=3D", "=C3=A4", "=0A", "=0D=0A", "=3EFrom", "\n", "=\n",
		"\n>From", " http://www.shop.example/x", " many letters of a text that goes on"}
	broken := []string{"=", "==", "=\r", "=4", "=G1", " \n", "\t\n", "=20 =\n", "= \n"}
	handed := 0
	for i := range rounds(3000) {
		var body []byte
		for range 1 + r.IntN(40)*r.IntN(60) {
			pieces := plain
			if i%2 == 1 && r.IntN(200) == 0 {
				pieces = broken
			}
			body = append(body, pieces[r.IntN(len(pieces))]...)
		}
		kind := []string{"text/plain", "text/html"}[r.IntN(2)]
		raw := mailtest.Composed(kind, "quoted-printable", string(body))
		if r.IntN(2) == 0 {
			raw = slices.Concat([]byte("Content-Type: multipart/mixed; boundary=b\n\n--b\n"), raw,
				[]byte("\n--b\n\nword\n--b--\n"))
		}
		if r.IntN(2) == 0 {
			raw = bytes.ReplaceAll(raw, []byte("\n"), []byte("\r\n"))
		}
		m := mailtest.Must(mail.Read(t.Context(), raw))
		unquoted := func(body []byte) ([]byte, int) {
			text, size := m.Unquoted(body)
			if size > 0 {
				handed++
			}
			return text, size
		}
		opts := dcc.Options{BothRules: true}
		want := mailtest.Must(dcc.Sums(t.Context(), raw, opts))
		opts.Unquoted = unquoted
		if got := mailtest.Must(dcc.Sums(t.Context(), raw, opts)); !slices.Equal(got, want) {
			t.Fatalf("DCC: %v, want %v of %q", got, want, raw)
		}
		digest := mailtest.Must(pyzor.Signatures(t.Context(), raw))
		if got := mailtest.Must(pyzor.SignaturesKnowing(t.Context(), raw, unquoted)); !slices.Equal(got, digest) {
			t.Fatalf("Pyzor: %v, want %v of %q", got, digest, raw)
		}
	}
	if handed < rounds(1000) {
		t.Errorf("%d times", handed)
	}
}
