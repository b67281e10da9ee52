package scan

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
)

// TestLines compares the search in windows with a search byte by byte.
func TestLines(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 4000 {
		text := mailtest.Text(r)
		want := bytes.IndexAny(text, "\r\n")
		if got := LineEnd(text); got != want {
			t.Fatalf("line end of %q at %d, want %d", text, got, want)
		}
		wantEnd, wantNext := len(text), len(text)
		if want >= 0 {
			wantEnd, wantNext = want, want+1
			if bytes.HasPrefix(text[want:], []byte("\r\n")) {
				wantNext++
			}
		}
		end, next := FirstLine(text)
		stringEnd, stringNext := FirstLine(Bytes(string(text)))
		if end != wantEnd || next != wantNext || stringEnd != wantEnd || stringNext != wantNext {
			t.Fatalf("first line of %q ends at %d, %d and %d, %d as a string, want %d, %d", text, end, next, stringEnd,
				stringNext, wantEnd, wantNext)
		}
	}
}
