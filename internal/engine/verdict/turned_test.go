package verdict

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
)

// The states of a signature that the tests put together: spam in the own blocklist,
// taken off it, listed again after a revocation, and unknown.
const (
	isListed  = 'l'
	isHidden  = 'h'
	isAgain   = 'a'
	isUnknown = '-'
)

// inState is the evidence of a state.
func inState(c rune) Evidence {
	switch c {
	case isListed:
		return Evidence{Own: Listed}
	case isHidden:
		return Evidence{Own: ListedRevoked, Off: true}
	case isAgain:
		return Evidence{Own: Listed, Off: true}
	}
	return Evidence{}
}

// TestTurnedFinding: what a revocation adds to the error of one signature.
func TestTurnedFinding(t *testing.T) {
	o := new(Odds)
	o.AddSpam(0.001)
	o.AddRevoked(0.006)
	o.AddRevoked(0.004)
	for _, tt := range []struct {
		name string
		Evidence
		judged                   bulkhead.Judgement
		unreported, turned, both float64
	}{
		{"unknown", Evidence{}, bulkhead.Unjudged, 0, 0, 0},
		{"listed", Evidence{Own: Listed}, bulkhead.JudgedSpam, 0.001, 0, 0.001},
		{"listed and taken off", Evidence{Own: ListedRevoked, Off: true}, bulkhead.Revoked, 0.001, 0.01, 0.011},
		{"listed again", Evidence{Own: Listed, Off: true}, bulkhead.JudgedSpam, 0.001, 0.001, 0.002},
		{"taken off, and nowhere listed", Evidence{Own: Revoked, Off: true}, bulkhead.Unjudged, 0, 0, 0},
		{"taken off here, listed by a peer", Evidence{Own: Revoked, Off: true, Peers: Peers{Spam: 1}}, bulkhead.Revoked,
			0.001, 0.01, 0.011},
		{"listed by a peer that took it off", Evidence{Off: true, Peers: Peers{Revoked: 1, Hidden: 1}}, bulkhead.Unjudged,
			0, 0.01, 0.01},
		{"likewise of little weight", Evidence{Off: true, Peers: Peers{Revoked: 0.5, Hidden: 0.5}}, bulkhead.Unjudged, 0, 0,
			0},
		{"two of little weight, one took it off", Evidence{Off: true, Peers: Peers{Spam: 0.5, Revoked: 0.5, Hidden: 0.5}},
			bulkhead.Unjudged, 0, 0.01, 0.01},
		{"one lists, another took off", Evidence{Off: true, Peers: Peers{Spam: 1, Revoked: 1}}, bulkhead.Revoked, 0.001,
			0.01, 0.011},
		{"two list, another took off", Evidence{Off: true, Peers: Peers{Spam: 2, Revoked: 1}}, bulkhead.JudgedSpam, 0.001,
			0.001, 0.002},
	} {
		f := bulkhead.Finding{Signature: found(bulkhead.Exact, 1, bulkhead.Finding{}).Signature}
		e := tt.Evidence
		Policy{Promotion: 1, NearMatch: 2}.Finding(&f, &e, o)
		if f.Judged != tt.judged || !near(f.Error, tt.both) || !near(e.Unreported, tt.unreported) ||
			!near(e.Turned, tt.turned) {
			t.Errorf("%s: %v, %v in all, %v if unreported, %v by its revocations; want %+v", tt.name, f.Judged, f.Error,
				e.Unreported, e.Turned, tt)
		}
		f = bulkhead.Finding{Signature: f.Signature}
		if (Policy{Promotion: 1, NearMatch: 2}).Finding(&f, &e, Exact()); f.Error != 0 || e.Turned != 0 {
			t.Errorf("%s, held exactly: %v", tt.name, f.Error)
		}
	}
	o.AddRevoked(1)
	f, e := bulkhead.Finding{Signature: found(bulkhead.Exact, 1, bulkhead.Finding{}).Signature}, inState(isHidden)
	if (Policy{Promotion: 1, NearMatch: 2}).Finding(&f, &e, o); f.Error != 1 {
		t.Errorf("a full revocation filter: error %v, want 1", f.Error)
	}
}

// TestTurnedMessage: the error of a message with revocations. Each word is a scheme and
// the states of its signatures.
func TestTurnedMessage(t *testing.T) {
	const spam, revoked = 0.001, 0.01

	schemes := map[rune]bulkhead.Scheme{'x': bulkhead.Exact, 'd': bulkhead.DCCBody, 'e': bulkhead.RazorE4,
		'n': bulkhead.Near,
		's': bulkhead.RspamdShingle, 'L': bulkhead.Link, 'A': bulkhead.Attachment, 'N': bulkhead.Network}
	o := new(Odds)
	o.AddSpam(spam)
	o.AddRevoked(revoked)
	for _, tt := range []struct {
		message []string
		want    float64
		class   bulkhead.Class
	}{
		{[]string{"x-"}, 0, bulkhead.ClassUnknown},
		{[]string{"xl"}, spam, bulkhead.ClassSpam},
		{[]string{"xh"}, spam + revoked, bulkhead.ClassUnknown},
		{[]string{"xa"}, spam + spam, bulkhead.ClassSpam},
		// One of the whole text is enough for spam, so of two hidden ones only one need be.
		{[]string{"xh", "dh"}, spam + revoked, bulkhead.ClassUnknown},
		{[]string{"xa", "da"}, spam + spam, bulkhead.ClassSpam},
		// A judgement by another signature without a revocation is not turned.
		{[]string{"xl", "da"}, spam, bulkhead.ClassSpam},
		// All parts must be listed: three of three hidden need three ghosts.
		{[]string{"ehhh"}, spam + revoked*revoked*revoked, bulkhead.ClassUnknown},
		{[]string{"ellh"}, spam + 3*revoked, bulkhead.ClassUnknown},
		{[]string{"el-h"}, 0, bulkhead.ClassUnknown},
		{[]string{"ella"}, spam + spam, bulkhead.ClassSpam},
		// Two bands must be listed.
		{[]string{"nlh------"}, 2 * revoked, bulkhead.ClassUnknown},
		{[]string{"nhh------"}, 28*spam*spam + revoked*revoked, bulkhead.ClassUnknown},
		{[]string{"nhhhhhhhh"}, 28*spam*spam + revoked*revoked, bulkhead.ClassUnknown},
		{[]string{"nh-------"}, 0, bulkhead.ClassUnknown},
		{[]string{"nlllh----"}, 28 * spam * spam, bulkhead.ClassSuspected},
		{[]string{"slh-------"}, 0, bulkhead.ClassUnknown},
		{[]string{"sllh------"}, 3 * revoked, bulkhead.ClassUnknown},
		// A revoked exact copy outweighs listed bands.
		{[]string{"xh", "nlll-----"}, 28*spam*spam + revoked, bulkhead.ClassUnknown},
		// Any hidden part may have decided, besides the text.
		{[]string{"x-", "Lh"}, revoked, bulkhead.ClassUnknown},
		{[]string{"x-", "Lhh", "Ah"}, 3 * revoked, bulkhead.ClassUnknown},
		{[]string{"xh", "Lh"}, spam + 2*revoked, bulkhead.ClassUnknown},
		{[]string{"xl", "Lh"}, spam, bulkhead.ClassSpam},
		{[]string{"x-", "Ll", "Ah"}, spam, bulkhead.ClassSpam},
		{[]string{"x-", "La-"}, 2 * (spam + spam), bulkhead.ClassSpam},
		{[]string{"nll------", "Lh"}, 28*spam*spam + revoked, bulkhead.ClassSuspected},
		// Bands that are listed again make spam of a text for which no sender answers. As many of the
		// revoked bands as are needed are listed by an error.
		{[]string{"naa------", "N-"}, 28*spam*spam + 2*spam, bulkhead.ClassSpam},
		{[]string{"naaa-----", "N-"}, 28*spam*spam + 3*spam*spam, bulkhead.ClassSpam},
		{[]string{"nlaa-----", "N-"}, 28*spam*spam + spam*spam, bulkhead.ClassSpam},
		{[]string{"nla------", "N-"}, 28*spam*spam + spam, bulkhead.ClassSpam},
		{[]string{"nlla-----", "N-"}, 28 * spam * spam, bulkhead.ClassSpam},
		{[]string{"naah-----", "N-"}, 28*spam*spam + 3*spam, bulkhead.ClassSpam},
	} {
		c := Case{Pairs: noPairs{}}
		policy := Policy{Promotion: 1, NearMatch: 2, Mature: true}
		n := 0
		for _, word := range tt.message {
			scheme := schemes[rune(word[0])]
			for _, state := range word[1:] {
				n++
				f := found(scheme, n, bulkhead.Finding{})
				if scheme == bulkhead.Link {
					f.Signature = bulkhead.NamedSignature(bulkhead.Link, fmt.Sprintf("evil%d.example", n))
				}
				if scheme == bulkhead.Network {
					f.Signature = network(Evidence{}).signature()
				}
				e := inState(state)
				if scheme.Facet() != bulkhead.TextFacet && state != isUnknown {
					e.Votes.Spam = 2 * Unit
				}
				policy.Finding(&f, &e, o)
				c.Signatures, c.Findings, c.Evidence = append(c.Signatures, f.Signature), append(c.Findings,
					f), append(c.Evidence, e)
			}
		}
		v := bulkhead.Verdict{Findings: c.Findings, Threshold: 20}
		d := Decider{Policy: policy}
		d.Message(&v, &c)
		if v.Class != tt.class || !near(v.Error, tt.want) {
			t.Errorf("%v: %v with an error of %v, want %v with %v (%q)", tt.message, v.Class, v.Error, tt.class, tt.want,
				v.Reasons)
		}
	}
}

// TestTurnedReasons: a verdict that rests on a revocation says how often that is chance.
func TestTurnedReasons(t *testing.T) {
	for p, want := range map[float64]string{0.01: "one in 100 messages that no voter reported or revoked",
		0.0025: "one in 400 ", 0.6: "too full", 1e-20: "all but impossible"} {
		o := new(Odds)
		o.AddRevoked(p)
		f, e := found(bulkhead.Exact, 1, bulkhead.Finding{}), inState(isHidden)
		d := Decider{Policy: Policy{Promotion: 1, NearMatch: 2}}
		d.Policy.Finding(&f, &e, o)
		c := Case{Signatures: []bulkhead.Signature{f.Signature}, Findings: []bulkhead.Finding{f}, Evidence: []Evidence{e},
			Pairs: noPairs{}}
		v := bulkhead.Verdict{Findings: c.Findings, Threshold: 20}
		if d.Message(&v, &c); !strings.Contains(v.Reasons[len(v.Reasons)-1], want) {
			t.Errorf("hidden with %v: %q, want %q in the last", p, v.Reasons, want)
		}
	}
}

// TestTurnedPair: a pair that was taken off the list may have been so by chance, unless
// the message is spam all the same.
func TestTurnedPair(t *testing.T) {
	for _, tt := range []struct {
		name string
		Evidence
		want float64
	}{
		{"nothing", Evidence{}, 0},
		{"taken off", inState(isHidden), 0.01},
		{"listed", Evidence{Own: Listed, Votes: voted(3, 0).Votes}, 0},
	} {
		parts := message(nearly(voted(1, 0)), []part{from("new.example", Evidence{})})
		var c Case
		d := Decider{Policy: Policy{Promotion: 1, NearMatch: 1, Mature: true}}
		for _, p := range parts {
			f := bulkhead.Finding{Signature: p.signature()}
			d.Policy.Finding(&f, &p.Evidence, Exact())
			c.Signatures, c.Findings, c.Evidence = append(c.Signatures, f.Signature), append(c.Findings, f), append(c.Evidence,
				p.Evidence)
		}
		c.Pairs, c.Revoked = samePairs{tt.Evidence}, 0.01
		v := bulkhead.Verdict{Findings: c.Findings, Threshold: 20}
		if d.Message(&v, &c); !near(v.Error, tt.want) {
			t.Errorf("%s: error %v, want %v (%v: %q)", tt.name, v.Error, tt.want, v.Class, v.Reasons)
		}
	}
}

// samePairs says the same of all pairs.
type samePairs struct{ Evidence }

func (samePairs) Senders(int) uint32 { return 0 }

func (samePairs) Vouched(int) bool { return false }

func (s samePairs) Pairs(pairs []Pair, out []Evidence) {
	for i := range pairs {
		out[i] = s.Evidence
	}
}
