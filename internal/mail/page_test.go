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

// TestFlowed checks which lines of a text flow together.
func TestFlowed(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"You have wo \nn a pri \n ze\n", "You have won a prize\n"},
		{"One  \r\nmore\r\nline \r\n", "One more\r\nline"},
		{"> quo \n> ted\n>> other \n> depth\n", "> quoted\n>> other\n> depth\n"},
		{"above \n-- \nAnn\n", "above\n-- \nAnn\n"},
		{"begin the pri \n ze\n", "begin the prize\n"},
		{" \n \n\n", "\n\n"},
		{"", ""},
	} {
		for params, want := range map[string]string{"delsp=YES": tt.want, "delsp=no": tt.text} {
			m := mailtest.Must(Read(t.Context(), mailtest.Composed("text/plain; charset=utf-8; format=flowed; "+params, "7bit",
				tt.text)))
			if got := mailtest.Must(m.Page(t.Context(), 0)); string(got.Text) != want {
				t.Errorf("%q, %s: %q, want %q", tt.text, params, got.Text, want)
			}
		}
	}
}

// FuzzFlowed checks that a text that flows loses nothing but blanks, line ends and marks of quotations.
func FuzzFlowed(f *testing.F) {
	for _, text := range []string{"one \ntwo\r\n", "> a \n> b\n>> c \nd", " \n-- \n --\n", ">"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		bare := strings.NewReplacer(" ", "", "\r", "", "\n", "", ">", "")
		if got := string(unflowed(text)); bare.Replace(got) != bare.Replace(text) || len(got) > len(text) {
			t.Errorf("%q becomes %q", text, got)
		}
	})
}
