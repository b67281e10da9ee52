package verdict

import (
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

func TestFinding(t *testing.T) {
	const spam, revoked, open = bulkhead.JudgedSpam, bulkhead.Revoked, bulkhead.Unjudged
	votes := func(spam, ham int64) Evidence { return Evidence{Votes: trust.Balance{Spam: spam, Ham: ham}} }
	tests := []struct {
		name       string
		judged     bulkhead.Judgement
		evidence   Evidence
		confidence int
		contested  bool
	}{
		{"nothing", open, Evidence{}, 0, false},
		{"listed by one", spam, votes(100, 0), 80, false},
		{"listed by ten", spam, votes(1000, 0), 98, false},
		{"its votes have aged out", spam, Evidence{}, 80, false},
		{"one against", spam, votes(200, 100), 62, true},
		{"a fourth against", spam, votes(400, 100), 76, true},
		{"less than a fourth against", spam, votes(400, 99), 76, false},
		{"not yet listed", open, votes(50, 0), 49, false},
		{"hardly anybody", open, votes(10, 0), 29, false},
		{"against by four times", open, votes(25, 100), 17, true},
		{"against by more", open, votes(24, 100), 16, false},
		{"ham alone", open, votes(0, 100), 0, false},
		{"revoked", revoked, votes(1000, 0), 0, false},
		{"a peer lists", spam, Evidence{Peers: Peers{Spam: 1}}, 80, false},
		{"peers disagree", spam, Evidence{Peers: Peers{Spam: 2, Revoked: 1}}, 62, true},
		{"strangers count for half a promotion", open, Evidence{Votes: trust.Balance{StrangerSpam: 1000}}, 49, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := bulkhead.Finding{Judged: tt.judged, Sightings: 3}
			Policy{Promotion: 1, NearMatch: 2}.Finding(&f, tt.evidence, Exact())
			if f.Confidence != tt.confidence || f.Contested != tt.contested {
				t.Errorf("confidence %d, contested %v; want %d, %v", f.Confidence, f.Contested, tt.confidence, tt.contested)
			}
		})
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
	o.AddCounts(tail(200))
	o.AddCounts(tail(200))
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
		o.AddCounts(tail(1))
		o.AddSpam(0.9)
	}
	if c, l := o.Count(20), o.Finding(&bulkhead.Finding{Judged: bulkhead.JudgedSpam}); c != 1 || l != 1 {
		t.Errorf("odds of full filters are %v and %v, want 1", c, l)
	}
}

func near(got, want float64) bool { return got >= want*(1-1e-9) && got <= want*(1+1e-9) }
