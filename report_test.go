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
		"ann@example.com.":      "ann@example.com",
		"ann.+a@Example.com.":   "ann.@example.com",
		"postmaster":            "postmaster",
		"postmaster.":           "postmaster.",
		"":                      "",
	} {
		if got := bulkhead.Mailbox(address); got != want {
			t.Errorf("Mailbox(%q) = %q, want %q", address, got, want)
		}
	}
}

// TestParseVote: a vote is parsed from the text that String writes, and no other text is a vote.
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

// TestRefused: a report was refused if nothing of it was counted.
func TestRefused(t *testing.T) {
	for _, tt := range []struct {
		r    bulkhead.Receipt
		want bool
	}{
		{bulkhead.Receipt{}, false},
		{bulkhead.Receipt{Whitelisted: 2}, true},
		{bulkhead.Receipt{Whitelisted: 2, Counted: 1}, false},
		{bulkhead.Receipt{Whitelisted: 2, Duplicate: 1}, false},
		{bulkhead.Receipt{Whitelisted: 2, Pending: 1}, false},
		{bulkhead.Receipt{Whitelisted: 2, Listed: 1}, false},
		{bulkhead.Receipt{Whitelisted: 2, Revoked: 1}, false},
		{bulkhead.Receipt{Counted: 1}, false},
	} {
		if got := tt.r.Refused(); got != tt.want {
			t.Errorf("%+v: refused %v, want %v", tt.r, got, tt.want)
		}
	}
}
