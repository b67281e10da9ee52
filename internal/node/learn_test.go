package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// letter returns mail n of a kind: its words are drawn from the words of the kind, so that no two mails
// have nearly the same text.
func letter(kind string, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "From: %[1]s%[2]d@%[1]s%[2]d.example\r\nSubject: about %[1]s\r\n"+
		"Message-ID: <%[1]s%[2]d@x.example>\r\n\r\n", kind, n)
	x := uint32(n)*2654435761 + 12345
	for i := range 60 {
		x = x*1664525 + 1013904223
		fmt.Fprintf(&b, "%s%s ", kind, strings.Repeat(string(rune('a'+x>>16%23)), 1+int(x>>24%3)))
		if i%3 == 2 {
			fmt.Fprintf(&b, "common%c%c%s", 'a'+x>>8%25, 'a'+x>>20%25, "\r\n")
		}
	}
	return b.String()
}

// learntOf returns what a node has learnt.
func learntOf(t *testing.T, c *admin.Client) admin.Learned {
	t.Helper()
	state, err := c.Node(t.Context())
	if err != nil || state.Learned == nil {
		t.Fatalf("learnt %+v, %v", state.Learned, err)
	}
	return *state.Learned
}

// TestWordsThroughTheDoors checks that a node learns from the deliveries and the votes at its doors, also
// from votes by a digest alone, that it judges fresh mail by it, and still does so after a restart.
func TestWordsThroughTheDoors(t *testing.T) {
	dir := t.TempDir()
	c, stop := historyNode(t, dir, "")
	for n := range 120 {
		deliver(t, c, letter("minutes", n), "198.51.100.7", "ann@example.com")
	}
	for n := range 60 {
		spam := letter("prize", n)
		deliver(t, c, spam, "203.0.113.7", "bob@example.com")
		if n%2 == 0 {
			if _, err := c.ReportMessage(t.Context(), []byte(spam), client.MessageOptions{Vote: bulkhead.Spam}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		sigs, err := signature.Compute(t.Context(), []byte(spam), signature.Options{})
		if err != nil {
			t.Fatal(err)
		}
		digest := slices.IndexFunc(sigs, func(s bulkhead.Signature) bool { return s.Scheme() == bulkhead.PyzorDigest })
		if _, err := c.Report(t.Context(), bulkhead.Report{Signatures: sigs[digest : digest+1],
			Vote: bulkhead.Spam}); err != nil {
			t.Fatal(err)
		}
	}
	got := learntOf(t, c)
	if got.Reported < 58 || got.Reported > 60 || got.Delivered < 118 || !got.Judges {
		t.Errorf("learnt %+v", got)
	}
	for range 2 {
		v, err := c.CheckMessage(t.Context(), []byte(letter("prize", 900)), client.MessageOptions{})
		if err != nil || v.Class != "suspected" || v.Rule != "words" || v.Learned < 0.99 {
			t.Errorf("fresh spam: %+v, %v", v, err)
		}
		v, err = c.CheckMessage(t.Context(), []byte(letter("minutes", 900)), client.MessageOptions{})
		if err != nil || v.Class != "unknown" || v.Learned > 0 {
			t.Errorf("fresh mail: %+v, %v", v, err)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if c, stop = historyNode(t, dir, ""); learntOf(t, c) != got {
			t.Errorf("learnt %+v after a restart, want %+v", learntOf(t, c), got)
		}
	}
}

// TestNothingLearnt checks that a node that is not to learn neither learns nor shows a score.
func TestNothingLearnt(t *testing.T) {
	c, _ := historyNode(t, t.TempDir(), "[learn]\nenabled = false\n")
	deliver(t, c, letter("prize", 1), "198.51.100.7", "ann@example.com")
	if state, err := c.Node(t.Context()); err != nil || state.Learned != nil {
		t.Errorf("learnt %+v, %v", state.Learned, err)
	}
}
