package verdict

import (
	"testing"

	"github.com/bulkhead-mail/bulkhead"
)

// TestUsualText: the notices of an office's telephones come from one network for days, and are verified by nothing. A
// few reports of spam that came from there, or that has the same text, make a changed copy suspected, and no more.
func TestUsualText(t *testing.T) {
	type history struct{ days, sent, reports int } // of a text or of a network
	for _, tt := range []struct {
		name     string
		text     history
		from     history
		verified bool
		inside   bool
		want     bulkhead.Class
	}{
		{"imitated", history{3, 6, 6}, history{3, 1, 0}, false, false, bulkhead.ClassSuspected},
		{"delivered on two days", history{2, 6, 6}, history{3, 1, 0}, false, false, bulkhead.ClassSpam},
		{"delivered less often than reported", history{3, 5, 6}, history{3, 1, 0}, false, false, bulkhead.ClassSpam},
		{"from a network of two days", history{3, 6, 6}, history{2, 9, 0}, false, false, bulkhead.ClassSpam},
		{"reported from there", history{3, 6, 6}, history{3, 72, 6}, false, false, bulkhead.ClassSuspected},
		{"reported from there more often", history{3, 6, 6}, history{3, 71, 6}, false, false, bulkhead.ClassSpam},
		{"with a verified sender", history{3, 6, 6}, history{3, 72, 6}, true, false, bulkhead.ClassSpam},
		{"from a private address", history{3, 6, 6}, history{}, false, true, bulkhead.ClassSuspected},
		{"from a private address on two days", history{2, 6, 6}, history{}, false, true, bulkhead.ClassSpam},
		{"from an unknown address", history{3, 6, 6}, history{}, false, false, bulkhead.ClassSpam},
	} {
		of := func(h history) Evidence {
			e := voted(h.reports, 0)
			e.Own, e.Old, e.Days = Nothing, uint32(h.sent), h.days
			return e
		}
		text := of(tt.text)
		text.Own = Listed
		parts := nearly(text)
		if tt.from.days > 0 {
			parts = append(parts, network(of(tt.from)))
		}
		if tt.verified {
			parts = append(nearly(text), from("new.example", of(tt.from)), link("other.example", Evidence{}))
		}
		m := drawn{policy: Policy{Promotion: 1, NearMatch: 2, Mature: true}, parts: parts, inside: tt.inside}
		if v := m.judge(); v.Class != tt.want {
			t.Errorf("%s: %v by %s, want %v", tt.name, v.Class, v.Rule, tt.want)
		}
	}
}
