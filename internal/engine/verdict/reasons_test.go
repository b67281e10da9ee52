package verdict

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

func TestReasons(t *testing.T) {
	day := time.Unix(20_000*86400, 0).UTC()
	v := bulkhead.Verdict{Threshold: 20, Whitelisted: "network 192.0.2.0/24", Findings: []bulkhead.Finding{
		found(bulkhead.Exact, 1, bulkhead.Finding{
			Judged: bulkhead.JudgedSpam, Confidence: 62, Contested: true, First: day, Error: 1.0 / 1234,
			Sightings: bulkhead.Many, Spam: 2, Ham: 1,
		}),
	}}
	put(&v, false)
	want := []string{
		"white-listed: network 192.0.2.0/24",
		"reported as spam by reporters that are trusted (" + bulkhead.Exact.String() + "), confidence 62 of 100",
		"seen many times (" + bulkhead.Exact.String() + ") since 2024-10-04: bulk, the threshold is 20",
		"2 spam votes, 1 ham vote: contested",
		"a filter error would show this for one in 1,200 messages that nobody reported",
	}
	if !slices.Equal(v.Reasons, want) {
		t.Errorf("reasons are\n%s\nwant\n%s", strings.Join(v.Reasons, "\n"), strings.Join(want, "\n"))
	}
	v.Reasons = nil
	if put(&v, true); v.Reasons != nil {
		t.Errorf("a terse verdict gives the reasons %q", v.Reasons)
	}
}

// TestVotesInWords: one vote, on whichever side, is told of.
func TestVotesInWords(t *testing.T) {
	for _, tt := range []struct {
		spam, ham uint32
		want      string
	}{
		{1, 0, "1 spam vote, 0 ham votes"},
		{0, 1, "0 spam votes, 1 ham vote"},
		{bulkhead.Many, 2, "many spam votes, 2 ham votes"},
	} {
		v := bulkhead.Verdict{Threshold: 20, Findings: []bulkhead.Finding{found(bulkhead.Exact, 1, bulkhead.Finding{Spam: tt.spam, Ham: tt.ham})}}
		put(&v, false)
		if !slices.Contains(v.Reasons, tt.want) {
			t.Errorf("%d for spam, %d against: %q, want %q", tt.spam, tt.ham, v.Reasons, tt.want)
		}
	}
}

func TestErrorReason(t *testing.T) {
	for _, tt := range []struct {
		p    float64
		want string
	}{
		{0, "held exactly"},
		{1e-19, "all but impossible"},
		{0.5, "too full"},
		{0.4, "one in 3 "},
		{1.0 / 57, "one in 57 "},
		{1.0 / 12_345, "one in 12,000 "},
		{1 / 2.34e6, "one in 2.3 million "},
		{1 / 5.6e9, "one in 5.6 billion "},
		{1 / 7.8e12, "one in 7.8 trillion "},
		{1 / 9.1e15, "one in 9.1 quadrillion "},
	} {
		if got := errorReason(tt.p); !strings.Contains(got, tt.want) {
			t.Errorf("error %g: %q, want %q in it", tt.p, got, tt.want)
		}
	}
}
