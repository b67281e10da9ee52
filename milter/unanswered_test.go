package milter

import (
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
)

// TestUnanswered checks which suspected mail a mail server may file by itself: nearly a reported text,
// hardly seen, without a verified sender.
func TestUnanswered(t *testing.T) {
	near := bulkhead.MustSignature(bulkhead.Near, []byte("a band"))
	nobody := bulkhead.NamedSignature(bulkhead.Network, "192.0.2.0/24")
	somebody := bulkhead.NamedSignature(bulkhead.Sender, "example.com")
	found := func(s bulkhead.Signature, j bulkhead.Judgement) []bulkhead.Finding {
		return []bulkhead.Finding{{Signature: s, Judged: j}}
	}
	suspect := bulkhead.Verdict{Class: bulkhead.ClassSuspected, Confidence: 45, Sightings: 10, SpamVotes: 1,
		Findings: found(near, bulkhead.JudgedSpam)}
	for _, tt := range []struct {
		name   string
		change func(*bulkhead.Verdict)
		who    bulkhead.Signature
		want   bool
	}{
		{"a changed copy", func(*bulkhead.Verdict) {}, nobody, true},
		{"a verified sender", func(*bulkhead.Verdict) {}, somebody, false},
		{"a network that sends other mail", func(v *bulkhead.Verdict) { v.Rule = "known-network" }, nobody, false},
		{"a usual text", func(v *bulkhead.Verdict) { v.Rule = "usual-text" }, nobody, false},
		{"often seen", func(v *bulkhead.Verdict) { v.Sightings = 11 }, nobody, false},
		{"often seen and reported", func(v *bulkhead.Verdict) { v.Sightings, v.SpamVotes = 20, 2 }, nobody, true},
		{"a vote of peers alone", func(v *bulkhead.Verdict) { v.SpamVotes = 0 }, nobody, true},
		{"half a vote", func(v *bulkhead.Verdict) { v.Confidence = 44 }, nobody, false},
		{"spam", func(v *bulkhead.Verdict) { v.Class = bulkhead.ClassSpam }, nobody, false},
		{"revoked", func(v *bulkhead.Verdict) { v.Findings = found(near, bulkhead.Revoked) }, nobody, false},
		{"a link", func(v *bulkhead.Verdict) { v.Findings = found(nobody, bulkhead.JudgedSpam) }, nobody, false},
	} {
		v := suspect
		tt.change(&v)
		if got := unanswered(&v, []bulkhead.Signature{near, tt.who}); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	f := findings{verdict: suspect, unanswered: true}
	for class, want := range map[Class]bool{ClassSuspected: true, ClassSpam: false, ClassListed: false, ClassNone: false} {
		if got := strings.Contains(f.results("mx", class), " unanswered=yes"); got != want {
			t.Errorf("%s: %q", class, f.results("mx", class))
		}
	}
}
