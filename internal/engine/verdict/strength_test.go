package verdict

import (
	"testing"

	"github.com/bulkhead-mail/bulkhead"
)

// TestRevokedPair: votes for spam on a pair of a text with a sender or link do not help once the pair
// was taken off the list, neither alone nor against votes that the text itself has.
func TestRevokedPair(t *testing.T) {
	p := Policy{Promotion: 1, NearMatch: 2}
	listed, revoked := voted(9, 0), voted(9, 0)
	revoked.Own = ListedRevoked
	if s := p.together([]Evidence{listed}); s < twoVotes {
		t.Errorf("a listed pair has strength %v, want at least %v", s, twoVotes)
	}
	if s := p.together([]Evidence{revoked}); s != 0 {
		t.Errorf("a revoked pair has strength %v, want 0", s)
	}
	known := from("bank.example", Evidence{}.delivered(200))
	for name, tt := range map[string]struct {
		pair Evidence
		want bulkhead.Class
	}{"listed": {listed, bulkhead.ClassSpam}, "revoked": {revoked, bulkhead.ClassGood}} {
		parts := []part{body(bulkhead.Exact, voted(1, 0)), known}
		v, _, _ := judge(parts, map[string]Evidence{"bank.example": tt.pair}, "")
		if v.Class != tt.want {
			t.Errorf("known sender with a %s pair: %v, want %v; %q", name, v.Class, tt.want, v.Reasons)
		}
	}
}

// TestHere: the evidence of the node alone has no lists and no deliveries of peers, and no fewer than none.
func TestHere(t *testing.T) {
	e := Evidence{Old: 9, New: 8, Late: 7, Good: 6, Days: 3, Peers: Peers{Spam: 1}, Own: Listed,
		Elsewhere: Deliveries{Old: 4, New: 3, Late: 9, Good: 1}}
	want := Evidence{Old: 5, New: 5, Late: 0, Good: 5, Days: 3, Own: Listed}
	if got := e.Here(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
