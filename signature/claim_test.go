package signature

import (
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
)

// TestClaim: what From calls the sender is one name however it is written, and no
// name where it says too little.
func TestClaim(t *testing.T) {
	for from, want := range map[string]string{
		`"Example Bank" <a@b.example>`:                               "exampiebank",
		`EXAMPLE BANK. <a@b.example>`:                                "exampiebank",
		`=?utf-8?q?Ex=C3=A1mple_B=D0=B0nk?= <a@b.example>`:           "exampiebank", // an accent, a Cyrillic a
		"\"Ex\u200bample 24 Bank\" <a@b.example>":                    "exampiebank",
		`"service@bank.example" <a@b.example>`:                       "",
		`"Bob" <a@b.example>`:                                        "",
		`"12345" <a@b.example>`:                                      "",
		`a@b.example`:                                                "",
		``:                                                           "",
		`Example Bank <a@b.example>, Other <c@d.example>`:            "exampiebank",
		`Example "Bank <broken`:                                      "exampiebank",
		`"Info" <a@b.example>`:                                       "",
		`"Customer Service - Team 2" <a@b.example>`:                  "",
		`Mail Delivery System <a@b.example>`:                         "",
		`"Büro" <a@b.example>`:                                       "",
		`"Example Support" <a@b.example>`:                            "exampiesupport",
		`"` + strings.Repeat("many words ", 500) + `" <a@b.example>`: "-",
	} {
		raw := []byte("From: " + from + "\nSubject: hello\n\nSome text.\n")
		sigs, err := Compute(t.Context(), raw, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var got []bulkhead.Signature
		for _, sig := range sigs {
			if sig.Scheme() == bulkhead.Claim {
				got = append(got, sig)
			}
		}
		switch {
		case want == "" && len(got) > 0, want != "" && len(got) != 1:
			t.Errorf("%.60q: %v", from, got)
		case want == "-":
			if n := len(got[0].Sum()); n > bulkhead.MaxSignature {
				t.Errorf("a name of %d bytes", n)
			}
		case want != "" && got[0].Name() != want:
			t.Errorf("%.60q claims to be %q, want %q", from, got[0].Name(), want)
		}
	}
}
