package mail

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/mail/seen"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
)

// TestPageBounds checks that only the first links of an excessive number are kept, and that
// another part of the message adds none. Asking twice gives the same page.
func TestPageBounds(t *testing.T) {
	var b strings.Builder
	for i := range 2 * seen.MaxLinks {
		fmt.Fprintf(&b, "<a href=http://a.example/%d>x</a>\n", i)
	}
	part := "--b\nContent-Type: text/html\n\n" + b.String() + strings.Repeat("word ", MaxVisible/5) + "\n"
	m := mailtest.Must(Read(t.Context(), mailtest.Composed("multipart/mixed; boundary=b", "7bit",
		strings.Repeat(part, 6)+"--b--\n")))
	links := 0
	for i := range m.Parts {
		page := mailtest.Must(m.Page(t.Context(), i))
		again := mailtest.Must(m.Page(t.Context(), i))
		if string(page.Text) != string(again.Text) || len(page.Links) != len(again.Links) ||
			len(page.Anchors) != len(again.Anchors) || len(page.Text) < MaxVisible {
			t.Errorf("part %d: %d bytes and %d links, then %d and %d", i, len(page.Text), len(page.Links),
				len(again.Text), len(again.Links))
		}
		links += len(page.Links)
	}
	if links != seen.MaxLinks {
		t.Errorf("%d links, want %d", links, seen.MaxLinks)
	}
}
