package bulkhead_test

import (
	"testing"

	"github.com/bulkhead-mail/bulkhead"
)

func TestMailbox(t *testing.T) {
	for address, want := range map[string]string{
		"ann@example.com":       "ann@example.com",
		"Ann+Shops@Example.COM": "ann@example.com",
		"ann+a+b@example.com":   "ann@example.com",
		"+ann@example.com":      "+ann@example.com",
		"ann@plus+sign.example": "ann@plus+sign.example",
		"\"a@b\"+c@example.com": "\"a@b\"@example.com",
		"postmaster":            "postmaster",
		"":                      "",
	} {
		if got := bulkhead.Mailbox(address); got != want {
			t.Errorf("Mailbox(%q) = %q, want %q", address, got, want)
		}
	}
}
