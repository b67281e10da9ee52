package verdict

import (
	"math"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
)

// TestStanding: from where on a sender or link is of good standing, a domain
// everybody's, a text guarded.
func TestStanding(t *testing.T) {
	p := Policy{Promotion: 1, NearMatch: 2}
	for _, tt := range []struct {
		name                  string
		e                     Evidence
		good, shared, guarded bool
	}{
		{"nothing", Evidence{}, false, false, false},
		{"three deliveries on two days", Evidence{Old: 3, Days: 2}, true, false, false},
		{"two deliveries", Evidence{Old: 2, Days: 2}, false, false, false},
		{"one day", Evidence{Old: 3, Days: 1}, false, false, false},
		{"today's do not count", Evidence{Old: 2, New: 50, Days: 2}, false, false, false},
		{"a vote that is a suspicion", Evidence{Old: 10, Days: 2, Votes: voted(1, 0).Votes}, false, false, false},
		{"one that is none", Evidence{Old: 17, Days: 2, Votes: voted(1, 0).Votes}, true, false, false},
		{"a vote, denied", Evidence{Old: 10, Days: 2, Votes: voted(2, 2).Votes}, true, false, false},
		{"seven addresses", Evidence{Addresses: 7}, false, false, false},
		{"eight", Evidence{Addresses: 8}, false, true, false},
		{"eight for many deliveries", Evidence{Addresses: 8, Old: 260, New: 7}, false, false, false},
		{"eight for less", Evidence{Addresses: 8, Old: 260, New: 6}, false, true, false},
		{"two copies from good senders", Evidence{Good: 2}, false, false, false},
		{"three", Evidence{Good: 3}, false, false, true},
	} {
		if good, shared, guarded := p.Good(bulkhead.SenderFacet, &tt.e), tt.e.Shared(), tt.e.Guarded(); good != tt.good ||
			shared != tt.shared || guarded != tt.guarded {
			t.Errorf("%s: good %v, everybody's %v, guarded %v; want %v, %v, %v", tt.name, good, shared, guarded, tt.good,
				tt.shared, tt.guarded)
		}
	}
}

// TestShare: how much of a vote falls on a part, by what speaks for it.
func TestShare(t *testing.T) {
	for _, tt := range []struct {
		e                          Evidence
		established, novelty, full float64 // full: the share where nothing is newer
	}{
		{Evidence{}, 0, 1.0 / 20, 1},
		{Evidence{Old: 80}, 80, 1.0 / 100, 20.0 / 100},
		{Evidence{New: 100}, 30, 1.0 / 50, 20.0 / 50},
		{Evidence{Old: 100, New: 100, Unblamed: 2 * Unit}, 90, 1.0 / 110, 20.0 / 110},
		{Evidence{Old: 30, Unblamed: 9 * Unit}, 0, 1.0 / 20, 1}, // votes outweigh all of it
	} {
		est := tt.e.Established()
		if math.Abs(est-tt.established) > 1e-9 || !near(tt.e.Novelty(), tt.novelty) || !near(Share(0, est), tt.full) ||
			!near(Share(est, est), 1) {
			t.Errorf("%+v: established %v, novelty %v, share %v, of the newest %v; want %v, %v, %v, 1",
				tt.e, est, tt.e.Novelty(), Share(0, est), Share(est, est), tt.established, tt.novelty, tt.full)
		}
	}
	if got := Share(10, 40); !near(got, 0.5) {
		t.Errorf("share %v beside one for which 10 deliveries speak, want a half", got)
	}
}

// TestStrength: votes are in promotion weights, peers in what listing takes; where the
// node itself lists, peers only help.
func TestStrength(t *testing.T) {
	half := func(e Evidence) Evidence { e.Peers = Peers{Spam: 0.5}; return e }
	against := func(e Evidence) Evidence { e.Peers = Peers{Spam: 0.5, Revoked: 2}; return e }
	for _, tt := range []struct {
		name      string
		e         Evidence
		promotion float64
		base      float64
		want      float64
	}{
		{"votes", voted(3, 1), 1, 1, 2},
		{"votes against", voted(0, 2), 1, 1, -2},
		{"votes where half is enough", voted(3, 1), 0.5, 1, 4},
		{"a peer", half(Evidence{}), 1, 1.5, 0.75},
		{"a peer where half is enough", half(Evidence{}), 0.5, 1.5, 1.5},
		{"a peer helps votes", half(voted(2, 0)), 1, 1, 2.5},
		{"peers against take nothing off", against(voted(2, 0)), 1, 1, 2},
		{"they do of what is not listed", against(Evidence{Votes: voted(1, 0).Votes}), 1, 1, -0.5},
		{"what is listed is worth a listing", Evidence{Own: Listed}, 1, 1, 1},
		{"and a peer beside it", half(Evidence{Own: Listed}), 1, 1, 1.5},
		{"no weight at all", voted(0, 0), 0.001, 1, 0},
	} {
		if got := (Policy{Promotion: tt.promotion}).Strength(&tt.e, tt.base); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%s: strength %v, want %v", tt.name, got, tt.want)
		}
	}
	for promotion, want := range map[float64]int64{1: 100, 0.5: 50, 0.004: 1, 0.126: 13} {
		if got := (Policy{Promotion: promotion}).Units(); got != want {
			t.Errorf("a promotion weight of %v is %d hundredths, want %d", promotion, got, want)
		}
	}
}

// TestListsPair: a pair needs votes by the shorter of the histories of its
// text and its context.
func TestListsPair(t *testing.T) {
	p := Policy{Promotion: 1, NearMatch: 2}
	for _, tt := range []struct {
		spam          int
		text, context uint32
		good, lists   bool
	}{
		{1, 0, 0, false, true},
		{1, 0, 500, false, true},
		{1, 500, 0, false, true},
		{1, 50, 1, false, false},
		{2, 50, 80, false, true},
		{2, 51, 51, false, false},
		{2, 0, 0, true, false},
		{3, 25, 400, true, true},
		{3, 26, 26, true, false},
	} {
		e := Evidence{Votes: voted(tt.spam, 0).Votes}
		if got := p.ListsPair(&e, &Evidence{Old: tt.text}, &Evidence{Old: tt.context}, tt.good); got != tt.lists {
			t.Errorf("%+v: lists %v", tt, got)
		}
	}
}
