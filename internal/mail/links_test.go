package mail

import (
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/mail/link"
	"github.com/bulkhead-mail/bulkhead/internal/pace"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
)

// TestLinkWalkEnds checks that EachLink stops where visit returns false.
func TestLinkWalkEnds(t *testing.T) {
	m := mailtest.Must(Read(t.Context(),
		mailtest.Page(`<a href="http://a.example/?u=http://b.example">x</a><a href="http://c.example">y</a>`+
			` http://d.example http://e.example`)))
	for n := 1; n <= 5; n++ {
		seen := 0
		if err := m.EachLink(t.Context(), func(link.Link, LinkUse) bool { seen++; return seen < n }); err != nil ||
			seen != n {
			t.Errorf("%d links seen, %v, want %d", seen, err, n)
		}
	}
}

// TestLinksAcrossSteps checks that no link is lost or cut between two steps of a text.
func TestLinksAcrossSteps(t *testing.T) {
	const url = "http://a.example/one"
	for at := pace.Step - len(url) - 3; at < pace.Step+3; at++ {
		for name, filler := range map[string]string{"words": "x ", "lines": "x\n", "one word": "x"} {
			text := strings.Repeat(filler, at/len(filler)) + " " + url + " y " +
				strings.Repeat(filler, 2*pace.Step/len(filler)) + " http://b.example/two"
			m := &Message{Parts: []Part{{Type: "text/plain", Text: text}}}
			var got []string
			err := m.EachLink(t.Context(), func(l link.Link, _ LinkUse) bool {
				got = append(got, l.Place())
				return true
			})
			if want := []string{"a.example/one", "b.example/two"}; err != nil || !slices.Equal(got, want) {
				t.Fatalf("%s, a link at %d: %q, %v; want %q", name, at, got, err, want)
			}
		}
	}
	for text, want := range map[string]int{"": -1, "abc": -1, " abc": 0, "a b\ncd": 3, "a\nb cd": 3, "ab ": 2} {
		if got := lastBlank([]byte(text)); got != want {
			t.Errorf("%q: the last blank at %d, want %d", text, got, want)
		}
	}
}
