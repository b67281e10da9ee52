package verdict

import (
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

func TestFinding(t *testing.T) {
	const spam, revoked, open = bulkhead.JudgedSpam, bulkhead.Revoked, bulkhead.Unjudged
	votes := func(own State, spam, ham int64) Evidence {
		return Evidence{Own: own, Votes: trust.Balance{Spam: spam, Ham: ham}}
	}
	tests := []struct {
		name       string
		scheme     bulkhead.Scheme
		evidence   Evidence
		judged     bulkhead.Judgement
		confidence int
		contested  bool
	}{
		{"nothing", bulkhead.Exact, Evidence{}, open, 0, false},
		{"listed by one", bulkhead.Exact, votes(Listed, 100, 0), spam, 80, false},
		{"listed by ten", bulkhead.Exact, votes(Listed, 1000, 0), spam, 98, false},
		{"one against", bulkhead.Exact, votes(Listed, 200, 100), spam, 62, true},
		{"a fourth against", bulkhead.Exact, votes(Listed, 400, 100), spam, 76, true},
		{"less than a fourth against", bulkhead.Exact, votes(Listed, 400, 99), spam, 76, false},
		{"not yet listed", bulkhead.Exact, votes(Nothing, 50, 0), open, 49, false},
		{"weight without a listing", bulkhead.Exact, votes(Nothing, 500, 0), open, 49, false},
		{"hardly anybody", bulkhead.Exact, votes(Nothing, 10, 0), open, 29, false},
		{"against by four times", bulkhead.Exact, votes(Nothing, 25, 100), open, 17, true},
		{"against by more", bulkhead.Exact, votes(Nothing, 24, 100), open, 16, false},
		{"a hundredth each", bulkhead.Exact, votes(Nothing, 1, 1), open, 4, true},
		{"ham alone", bulkhead.Exact, votes(Nothing, 0, 100), open, 0, false},
		{"revoked", bulkhead.Exact, votes(ListedRevoked, 1000, 0), revoked, 0, false},
		{"a peer lists", bulkhead.Exact, Evidence{Peers: Peers{Spam: 1}}, spam, 80, false},
		{"peers disagree", bulkhead.Exact, Evidence{Peers: Peers{Spam: 2, Revoked: 1}}, spam, 62, true},
		{"strangers count for half a promotion", bulkhead.Exact, Evidence{Votes: trust.Balance{StrangerSpam: 1000}}, open,
			49, false},
		{"strangers take nothing off", bulkhead.Exact, Evidence{Own: Listed,
			Votes: trust.Balance{Spam: 100, StrangerHam: 10_000}}, spam, 67, true},

		{"a link by one", bulkhead.Link, votes(Listed, 100, 0), open, 49, false},
		{"a link by two", bulkhead.Link, votes(Listed, 200, 0), spam, 89, false},
		{"a link by one and a trap", bulkhead.Link, votes(Listed, 150, 0), spam, 86, false},
		{"a link by a peer that lists it", bulkhead.Link, Evidence{Peers: Peers{Spam: 1}}, spam, 80, false},
		{"a link by half a peer", bulkhead.Link, Evidence{Peers: Peers{Spam: 0.5}}, open, 49, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := found(tt.scheme, 1, bulkhead.Finding{Sightings: 3})
			Policy{Promotion: 1, NearMatch: 2}.Finding(&f, &tt.evidence, Exact())
			if f.Judged != tt.judged || f.Confidence != tt.confidence || f.Contested != tt.contested {
				t.Errorf("%v, confidence %d, contested %v; want %v, %d, %v", f.Judged, f.Confidence, f.Contested, tt.judged,
					tt.confidence, tt.contested)
			}
		})
	}
}

// TestNeed: the more often the same was delivered, the more votes list it; those of
// today weigh less.
func TestNeed(t *testing.T) {
	for _, tt := range []struct {
		facet    bulkhead.Facet
		old, new uint32
		want     float64
	}{
		{bulkhead.TextFacet, 0, 0, 1},
		{bulkhead.TextFacet, 166, 0, 1},
		{bulkhead.TextFacet, 1000, 0, 2.0/3 + 2},
		{bulkhead.TextFacet, 0, 4000, 2.0/3 + 2},
		{bulkhead.LinkFacet, 0, 0, 1.5},
		{bulkhead.LinkFacet, 100, 40, 4.3},
		{bulkhead.NetworkFacet, 0, 0, 2.5},
		{bulkhead.NetworkFacet, 100, 200, 11.5},
		{bulkhead.SenderFacet, 100, 0, 3.5},
		{bulkhead.SenderFacet, 0, 200, 5.5},
		{bulkhead.AttachmentFacet, 0, 400, 2},
		{bulkhead.ContactFacet, 1000, 400, 7},
		{bulkhead.NoFacet, 1000, 1000, 1},
	} {
		if got := Need(tt.facet, &Evidence{Old: tt.old, New: tt.new}); !near(got, tt.want) {
			t.Errorf("%v with %d and %d deliveries needs %v, want %v", tt.facet, tt.old, tt.new, got, tt.want)
		}
	}
	// Mail of senders of good standing speaks for a link, and for nothing else so.
	good := &Evidence{Old: 100, Good: 50}
	if got := Need(bulkhead.LinkFacet, good); !near(got, 8.5) {
		t.Errorf("a link with 50 of 100 deliveries from senders of good standing needs %v, want 8.5", got)
	}
	if got := Need(bulkhead.SenderFacet, good); !near(got, 3.5) {
		t.Errorf("a sender with 100 deliveries needs %v, want 3.5", got)
	}
	if got := NeedOfPair(100, false); !near(got, 3) {
		t.Errorf("a pair with 100 deliveries needs %v, want 3", got)
	}
	if got := NeedOfPair(100, true); !near(got, 4.5) {
		t.Errorf("a pair of good standing with 100 deliveries needs %v, want 4.5", got)
	}
}

// tail is a counting array that shows n or more with the probability 1 / (base n).
type tail float64

func (b tail) Tail(counts []uint32) []float64 {
	out := make([]float64, len(counts))
	for i, n := range counts {
		out[i] = 1 / (float64(b) * float64(n))
	}
	return out
}

func TestOdds(t *testing.T) {
	o := new(Odds)
	o.AddTail(TailOf(tail(200)))
	o.AddTail(TailOf(tail(200)))
	o.AddSpam(0.002)
	o.AddSpam(0.001)
	tests := []struct {
		name    string
		finding bulkhead.Finding
		want    float64
	}{
		{"nothing known", bulkhead.Finding{}, 0},
		{"seen once", bulkhead.Finding{Sightings: 1}, 0.01},
		{"a count between two levels", bulkhead.Finding{Sightings: 9}, 0.01 / 8},
		{"many", bulkhead.Finding{Sightings: bulkhead.Many}, 0.01 / bulkhead.Many},
		{"the rarest part bounds it", bulkhead.Finding{Sightings: 2, Spam: 5, Ham: 1}, 0.01 / 5},
		{"listed", bulkhead.Finding{Judged: bulkhead.JudgedSpam, Spam: 1}, 0.003},
		{"revoked", bulkhead.Finding{Judged: bulkhead.Revoked}, 0.003},
	}
	for _, tt := range tests {
		if got := o.Finding(&tt.finding); !near(got, tt.want) {
			t.Errorf("%s: odds %v, want %v", tt.name, got, tt.want)
		}
		if got := Exact().Finding(&tt.finding); got != 0 {
			t.Errorf("%s, held exactly: odds %v, want 0", tt.name, got)
		}
	}
	for n, want := range map[uint32]float64{0: 0, 1: 0.01, 9: 0.01 / 8, 20: 0.01 / 20} {
		if got := o.Count(n); !near(got, want) || Exact().Count(n) != 0 {
			t.Errorf("odds of a count of %d are %v, held exactly %v, want %v and 0", n, got, Exact().Count(n), want)
		}
	}
	if got := new(Odds).Count(1); got != leastOdds {
		t.Errorf("odds of a count where nothing is held: %v, want %v", got, leastOdds)
	}
	for range 200 {
		o.AddTail(TailOf(tail(1)))
		o.AddSpam(0.9)
	}
	if c, l := o.Count(20), o.Finding(&bulkhead.Finding{Judged: bulkhead.JudgedSpam}); c != 1 || l != 1 {
		t.Errorf("odds of full filters are %v and %v, want 1", c, l)
	}
}

func near(got, want float64) bool { return got >= want*(1-1e-9) && got <= want*(1+1e-9) }
