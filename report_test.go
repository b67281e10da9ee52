package bulkhead_test

import (
	"errors"
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

// TestParseVote: a vote is read as it is written, and nothing else is one.
func TestParseVote(t *testing.T) {
	for v := range bulkhead.NumVotes {
		if got, err := bulkhead.ParseVote(v.String()); got != v || err != nil {
			t.Errorf("%v is read as %v, %v", v, got, err)
		}
	}
	for _, text := range []string{"", "Spam", "spam ", "invalid", bulkhead.NumVotes.String()} {
		if _, err := bulkhead.ParseVote(text); !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("%q: %v, want malformed", text, err)
		}
	}
}
