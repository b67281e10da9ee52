package verdict

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
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

// put puts findings together; one vote stands behind each listing.
func put(v *bulkhead.Verdict, terse bool) Outcome {
	c := Case{Findings: v.Findings, Pairs: noPairs{}, Terse: terse}
	for _, f := range v.Findings {
		c.Signatures = append(c.Signatures, f.Signature)
		e := Evidence{}
		if f.Judged == bulkhead.JudgedSpam {
			e = Evidence{Own: Listed, Votes: trust.Balance{Spam: Unit}}
		}
		c.Evidence = append(c.Evidence, e)
	}
	d := Decider{Policy: Policy{Promotion: 1, NearMatch: 2}}
	return d.Message(v, &c)
}

// noPairs is nothing that was voted on pairs.
type noPairs struct{}

func (noPairs) Pairs([]Pair, []Evidence) {}

func (noPairs) Senders(int) uint32 { return 0 }

func (noPairs) Vouched(int) bool { return false }

// TestMessage: how the findings of a text are put together.
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
		{"votes make nothing bulk", []bulkhead.Finding{found(bulkhead.Exact, 1,
			bulkhead.Finding{Spam: 30, First: day(3), Error: 0.1})},
			bulkhead.Verdict{SpamVotes: 30, First: day(3), Error: 0.1}, "called spam by 30 voters"},
		{"the scheme that says most", []bulkhead.Finding{found(bulkhead.Exact, 1, seen(2, 5)),
			found(bulkhead.PyzorDigest, 1, seen(9, 4))},
			bulkhead.Verdict{Sightings: 9, First: day(4), Error: 0.1}, "seen 9 times (pyzor"},
		{"listed", []bulkhead.Finding{found(bulkhead.Exact, 1, listed)},
			bulkhead.Verdict{SpamVotes: 1, Judged: bulkhead.JudgedSpam, Confidence: 80, First: day(2), Error: 0.01},
			"reported as spam by reporters"},
		{"one scheme lists, another revokes", []bulkhead.Finding{found(bulkhead.Exact, 1, revoked),
			found(bulkhead.DCCBody, 1, listed)},
			bulkhead.Verdict{SpamVotes: 1, HamVotes: 1, Confidence: 45, First: day(2), Error: 0.01}, "reported as spam"},
		{"parts speak as far as all do", []bulkhead.Finding{found(bulkhead.RazorE4, 1, listed),
			found(bulkhead.RazorE4, 2, seen(5, 1))},
			bulkhead.Verdict{}, "never seen"},
		{"all parts are listed", []bulkhead.Finding{found(bulkhead.RazorE4, 1, listed), found(bulkhead.RazorE4, 2, listed)},
			bulkhead.Verdict{SpamVotes: 1, Judged: bulkhead.JudgedSpam, Confidence: 80, First: day(2), Error: 0.01},
			"reported as spam"},
		{"all but one revoked part", []bulkhead.Finding{found(bulkhead.RazorE4, 1, listed),
			found(bulkhead.RazorE4, 2, revoked)},
			bulkhead.Verdict{SpamVotes: 1, Judged: bulkhead.Revoked, First: day(2), Error: 0.01}, "was revoked"},
		{"parts and properties inform", []bulkhead.Finding{found(bulkhead.RazorE8, 1, listed)}, bulkhead.Verdict{},
			"never seen"},
		{"one band is not enough", bands(bulkhead.Near, 20, listed), bulkhead.Verdict{}, "never seen"},
		{"two bands are, for a suspicion", bands(bulkhead.Near, 20, listed, listed),
			bulkhead.Verdict{SpamVotes: 1, Confidence: 45, First: day(2), Error: 190 * 0.01 * 0.01}, "2 bands"},
		{"the second band counts", bands(bulkhead.Near, 20, seen(50, 1), seen(3, 2), seen(4, 3)),
			bulkhead.Verdict{Sightings: 4, First: day(1), Error: 1}, "or nearly so"},
		{"two shingles are not enough", bands(bulkhead.RspamdShingle, 20, listed, listed), bulkhead.Verdict{}, "never seen"},
		{"three are", bands(bulkhead.RspamdShingle, 20, listed, listed, listed),
			bulkhead.Verdict{SpamVotes: 1, Judged: bulkhead.JudgedSpam, Confidence: 80, First: day(2), Error: 1140 * 1e-6},
			"3 bands"},
		{"bands of which two are revoked", bands(bulkhead.Near, 20, revoked, revoked, listed),
			bulkhead.Verdict{SpamVotes: 1, HamVotes: 1, Judged: bulkhead.Revoked, First: day(2), Error: 190 * 0.01 * 0.01},
			"was revoked"},
		{"the exact message outweighs its bands", append(bands(bulkhead.Near, 20, listed, listed, listed),
			found(bulkhead.Exact, 1, revoked)),
			bulkhead.Verdict{SpamVotes: 1, HamVotes: 1, Judged: bulkhead.Revoked, First: day(2), Error: 190 * 0.01 * 0.01},
			"was revoked"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := bulkhead.Verdict{Findings: tt.findings, Threshold: 20}
			put(&got, false)
			if !strings.Contains(got.Reasons[0], tt.reason) {
				t.Errorf("reasons %q, want %q in the first", got.Reasons, tt.reason)
			}
			w := tt.want
			if got.Sightings != w.Sightings || got.SpamVotes != w.SpamVotes || got.HamVotes != w.HamVotes || got.Bulk != w.Bulk {
				t.Errorf("%d sightings, %d spam, %d ham, bulk %v; want %d, %d, %d, %v",
					got.Sightings, got.SpamVotes, got.HamVotes, got.Bulk, w.Sightings, w.SpamVotes, w.HamVotes, w.Bulk)
			}
			if got.Judged != w.Judged || got.Confidence != w.Confidence || !got.First.Equal(w.First) {
				t.Errorf("judged %v, confidence %d, first %v; want %v, %d, %v", got.Judged, got.Confidence, got.First, w.Judged,
					w.Confidence, w.First)
			}
			if !near(got.Error, w.Error) {
				t.Errorf("error %v, want %v", got.Error, w.Error)
			}
		})
	}
}
