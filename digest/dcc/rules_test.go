package dcc

import (
	"encoding/hex"
	"slices"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
)

// TestBothRules: with both rules a message has the Fuz1 of each, the one that was asked for
// first, and no sum twice.
func TestBothRules(t *testing.T) {
	different := 0
	for _, v := range vectors(t) {
		for rules := range []Rules{Rules2, Rules1} {
			var want, got []string
			for _, fuz1 := range []string{v.fuz1For[rules], v.fuz1For[1-rules]} {
				if fuz1 != "-" && !slices.Contains(want, fuz1) {
					want = append(want, fuz1)
				}
			}
			for _, s := range mailtest.Must(Sums(t.Context(), v.message, Options{Rules: Rules(rules), BothRules: true})) {
				if s.Type == TypeFuz1 {
					got = append(got, hex.EncodeToString(s.Sum[:]))
				}
				if wantOther := s.Type == TypeFuz1 && got[len(got)-1] != v.fuz1For[rules]; s.Other != wantOther {
					t.Errorf("%s, rules %d: %v is of other rules: %v", v.name, rules, s, s.Other)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, rules %d: %v, want %v", v.name, rules, got, want)
			}
			different += len(want) / 2
		}
	}
	if different < 4 {
		t.Errorf("%d times two sums: the vectors do not tell the rules apart", different)
	}
}
