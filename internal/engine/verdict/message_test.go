package verdict

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// found is a finding of the n'th signature of a scheme.
func found(scheme bulkhead.Scheme, n int, f bulkhead.Finding) bulkhead.Finding {
	sum := make([]byte, 8)
	binary.LittleEndian.PutUint64(sum, uint64(n))
	f.Signature = bulkhead.MustSignature(scheme, sum)
	return f
}

// bands is n bands of a scheme, of which the first ones say what f does.
func bands(scheme bulkhead.Scheme, n int, f ...bulkhead.Finding) (out []bulkhead.Finding) {
	for i := range n {
		var says bulkhead.Finding
		if i < len(f) {
			says = f[i]
		}
		out = append(out, found(scheme, i, says))
	}
	return out
}

func TestMessage(t *testing.T) {
	day := func(n int) time.Time { return time.Unix(int64(n)*86400, 0).UTC() }
	listed := bulkhead.Finding{Judged: bulkhead.JudgedSpam, Confidence: 80, Spam: 1, First: day(2), Error: 0.01}
	revoked := bulkhead.Finding{Judged: bulkhead.Revoked, Spam: 1, Ham: 1, First: day(2), Error: 0.02}
	seen := func(n uint32, d int) bulkhead.Finding {
		return bulkhead.Finding{Sightings: n, First: day(d), Error: 0.1}
	}
	tests := []struct {
		name     string
		findings []bulkhead.Finding
		want     bulkhead.Verdict // its numbers
		reason   string           // in the first reason
	}{
		{"nothing", []bulkhead.Finding{found(bulkhead.Exact, 1, bulkhead.Finding{})}, bulkhead.Verdict{}, "never seen"},
		{"one copy", []bulkhead.Finding{found(bulkhead.Exact, 1, seen(7, 3))},
			bulkhead.Verdict{Sightings: 7, First: day(3), Error: 0.1}, "seen 7 times"},
		{"bulk", []bulkhead.Finding{found(bulkhead.Exact, 1, seen(20, 3))},
			bulkhead.Verdict{Sightings: 20, Bulk: true, First: day(3), Error: 0.1}, "bulk, the threshold is 20"},
		{"votes make nothing bulk", []bulkhead.Finding{found(bulkhead.Exact, 1, bulkhead.Finding{Spam: 30, First: day(3), Error: 0.1})},
			bulkhead.Verdict{SpamVotes: 30, First: day(3), Error: 0.1}, "30 spam votes"},
		{"the scheme that says most", []bulkhead.Finding{found(bulkhead.Exact, 1, seen(2, 5)), found(bulkhead.PyzorDigest, 1, seen(9, 4))},
			bulkhead.Verdict{Sightings: 9, First: day(4), Error: 0.1}, "seen 9 times (pyzor"},
		{"listed", []bulkhead.Finding{found(bulkhead.Exact, 1, listed)},
			bulkhead.Verdict{SpamVotes: 1, Judged: bulkhead.JudgedSpam, Confidence: 80, First: day(2), Error: 0.01}, "reported as spam by reporters"},
		{"one scheme lists, another revokes", []bulkhead.Finding{found(bulkhead.Exact, 1, revoked), found(bulkhead.DCCBody, 1, listed)},
			bulkhead.Verdict{SpamVotes: 1, HamVotes: 1, Judged: bulkhead.JudgedSpam, Confidence: 80, First: day(2), Error: 0.01}, "reported as spam"},
		{"parts speak as far as all do", []bulkhead.Finding{found(bulkhead.RazorE4, 1, listed), found(bulkhead.RazorE4, 2, seen(5, 1))},
			bulkhead.Verdict{}, "never seen"},
		{"all parts are listed", []bulkhead.Finding{found(bulkhead.RazorE4, 1, listed), found(bulkhead.RazorE4, 2, listed)},
			bulkhead.Verdict{SpamVotes: 1, Judged: bulkhead.JudgedSpam, Confidence: 80, First: day(2), Error: 0.01}, "reported as spam"},
		{"all but one revoked part", []bulkhead.Finding{found(bulkhead.RazorE4, 1, listed), found(bulkhead.RazorE4, 2, revoked)},
			bulkhead.Verdict{SpamVotes: 1, Judged: bulkhead.Revoked, First: day(2), Error: 0.01}, "was revoked"},
		{"parts and properties inform", []bulkhead.Finding{found(bulkhead.RazorE8, 1, listed)}, bulkhead.Verdict{}, "never seen"},
		{"one band is not enough", bands(bulkhead.Near, 20, listed), bulkhead.Verdict{}, "never seen"},
		{"two bands are", bands(bulkhead.Near, 20, listed, listed),
			bulkhead.Verdict{SpamVotes: 1, Judged: bulkhead.JudgedSpam, Confidence: 80, First: day(2), Error: 190 * 0.01 * 0.01}, "2 bands"},
		{"the second band counts", bands(bulkhead.Near, 20, seen(50, 1), seen(3, 2), seen(4, 3)),
			bulkhead.Verdict{Sightings: 4, First: day(1), Error: 1}, "or nearly so"},
		{"two shingles are not enough", bands(bulkhead.RspamdShingle, 20, listed, listed), bulkhead.Verdict{}, "never seen"},
		{"three are", bands(bulkhead.RspamdShingle, 20, listed, listed, listed),
			bulkhead.Verdict{SpamVotes: 1, Judged: bulkhead.JudgedSpam, Confidence: 80, First: day(2), Error: 1140 * 1e-6}, "3 bands"},
		{"bands of which two are revoked", bands(bulkhead.Near, 20, revoked, revoked, listed),
			bulkhead.Verdict{SpamVotes: 1, HamVotes: 1, Judged: bulkhead.Revoked, First: day(2), Error: 190 * 0.01 * 0.01}, "was revoked"},
		{"the exact message outweighs its bands", append(bands(bulkhead.Near, 20, listed, listed, listed), found(bulkhead.Exact, 1, revoked)),
			bulkhead.Verdict{SpamVotes: 1, HamVotes: 1, Judged: bulkhead.Revoked, First: day(2), Error: 190 * 0.01 * 0.01}, "was revoked"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := bulkhead.Verdict{Findings: tt.findings, Threshold: 20}
			Policy{Promotion: 1, NearMatch: 2}.Message(&got, false)
			if !strings.Contains(got.Reasons[0], tt.reason) {
				t.Errorf("reasons %q, want %q in the first", got.Reasons, tt.reason)
			}
			w := tt.want
			if got.Sightings != w.Sightings || got.SpamVotes != w.SpamVotes || got.HamVotes != w.HamVotes || got.Bulk != w.Bulk {
				t.Errorf("%d sightings, %d spam, %d ham, bulk %v; want %d, %d, %d, %v",
					got.Sightings, got.SpamVotes, got.HamVotes, got.Bulk, w.Sightings, w.SpamVotes, w.HamVotes, w.Bulk)
			}
			if got.Judged != w.Judged || got.Confidence != w.Confidence || !got.First.Equal(w.First) {
				t.Errorf("judged %v, confidence %d, first %v; want %v, %d, %v", got.Judged, got.Confidence, got.First, w.Judged, w.Confidence, w.First)
			}
			if !near(got.Error, w.Error) {
				t.Errorf("error %v, want %v", got.Error, w.Error)
			}
		})
	}
}

func TestReasons(t *testing.T) {
	day := time.Unix(20_000*86400, 0).UTC()
	v := bulkhead.Verdict{Threshold: 20, Whitelisted: "network 192.0.2.0/24", Findings: []bulkhead.Finding{
		found(bulkhead.Exact, 1, bulkhead.Finding{
			Judged: bulkhead.JudgedSpam, Confidence: 62, Contested: true, First: day, Error: 1.0 / 1234,
			Sightings: bulkhead.Many, Spam: 2, Ham: 1,
		}),
	}}
	Policy{Promotion: 1, NearMatch: 2}.Message(&v, false)
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
	if (Policy{Promotion: 1, NearMatch: 2}).Message(&v, true); v.Reasons != nil {
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
		Policy{Promotion: 1, NearMatch: 2}.Message(&v, false)
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
