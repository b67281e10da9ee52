package signature

import (
	"testing"
	"unicode/utf8"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
)

// FuzzCompute checks that signatures are valid, unique, repeatable, and the
// same however the lines of the mail end.
func FuzzCompute(f *testing.F) {
	for _, raw := range mailtest.Seeds() {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		sigs, err := Compute(t.Context(), raw, Options{})
		if err != nil {
			if len(raw) > 0 || sigs != nil {
				t.Fatalf("Compute of %d bytes: %v, %d signatures", len(raw), err, len(sigs))
			}
			return
		}
		again, err := Compute(t.Context(), raw, Options{})
		if err != nil || len(again) != len(sigs) {
			t.Fatalf("second Compute: %d signatures, %v, want %d", len(again), err, len(sigs))
		}
		near := 0
		seen := make(map[bulkhead.Signature]bool)
		for i, sig := range sigs {
			if sig != again[i] || seen[sig] || !sig.Valid() {
				t.Fatalf("signature %d, %v: changed, repeated or invalid", i, sig)
			}
			seen[sig] = true
			if sig.Scheme() == bulkhead.Near {
				near++
			}
		}
		if near != 0 && near != NearBands {
			t.Fatalf("%d bands, want none or %d", near, NearBands)
		}
	})
}

// FuzzFold checks that the words of a skeleton are words, whatever the visible
// text of a page.
func FuzzFold(f *testing.F) {
	for _, raw := range mailtest.Seeds() {
		f.Add(string(raw))
	}
	f.Fuzz(func(t *testing.T, source string) {
		m, err := mail.Read(t.Context(), mailtest.Page(source))
		if err != nil {
			t.Fatal(err)
		}
		var fold folder
		fold.add(mailtest.Must(m.Visible(t.Context(), 0)), false)
		for _, words := range []*wordList{&fold.words, &fold.quoted} {
			for i := range words.len() {
				if w := words.at(i); len(w) == 0 || len(w) > 4*maxWord || !utf8.Valid(w) {
					t.Fatalf("word %q", w)
				}
			}
		}
	})
}
