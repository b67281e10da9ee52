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
		want     bulkhead.Class
	}{
		{"imitated", history{3, 6, 6}, history{3, 1, 0}, false, bulkhead.ClassSuspected},
		{"delivered on two days", history{2, 6, 6}, history{3, 1, 0}, false, bulkhead.ClassSpam},
		{"delivered less often than reported", history{3, 5, 6}, history{3, 1, 0}, false, bulkhead.ClassSpam},
		{"from a network of two days", history{3, 6, 6}, history{2, 9, 0}, false, bulkhead.ClassSpam},
		{"reported from there", history{3, 6, 6}, history{3, 72, 6}, false, bulkhead.ClassSuspected},
		{"reported from there more often", history{3, 6, 6}, history{3, 71, 6}, false, bulkhead.ClassSpam},
		{"with a verified sender", history{3, 6, 6}, history{3, 72, 6}, true, bulkhead.ClassSpam},
	} {
		of := func(h history) Evidence {
			e := voted(h.reports, 0)
			e.Own, e.Old, e.Days = Nothing, uint32(h.sent), h.days
			return e
		}
		text := of(tt.text)
		text.Own = Listed
		parts := append(nearly(text), network(of(tt.from)))
		if tt.verified {
			parts = append(nearly(text), from("new.example", of(tt.from)), link("other.example", Evidence{}))
		}
		if v, _, _ := judge(parts, nil, ""); v.Class != tt.want {
			t.Errorf("%s: %v by %s, want %v", tt.name, v.Class, v.Rule, tt.want)
		}
	}
}
