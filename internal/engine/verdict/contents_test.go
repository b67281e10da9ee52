package verdict

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// contents returns the same matches for every message.
type contents []Match

func (c contents) Matches() []Match { return c }

// within returns a match of n samples.
func within(e Evidence, samples int, quoted bool) Match {
	p := part{scheme: bulkhead.Part, name: "sample", Evidence: e}
	f := bulkhead.Finding{Signature: p.signature(), Spam: uint32(e.Votes.Spam / Unit), Ham: uint32(e.Votes.Ham / Unit)}
	Policy{Promotion: 1, NearMatch: 2}.Finding(&f, &e, Exact())
	return Match{Evidence: e, Finding: f, Samples: samples, Quoted: quoted}
}

// TestOfOneText: each further text from the second on takes a sample away.
func TestOfOneText(t *testing.T) {
	for _, tt := range []struct {
		samples int
		further uint32
		want    int
	}{{0, 0, 0}, {5, 0, 5}, {5, 1, 5}, {5, 2, 4}, {24, 9, 16}, {5, 6, 0}, {5, 7, 0}} {
		if got := OfOneText(tt.samples, &Evidence{Contexts: tt.further}); got != tt.want {
			t.Errorf("%d samples, %d further texts: %d, want %d", tt.samples, tt.further, got, tt.want)
		}
	}
}

// TestContents: a reported text inside a message makes it suspected, and spam only if most of the
// text is there.
func TestContents(t *testing.T) {
	const unknown, suspected, spam = bulkhead.ClassUnknown, bulkhead.ClassSuspected, bulkhead.ClassSpam
	no, one, two := Evidence{}, voted(1, 0), voted(2, 0)
	several := func(e Evidence) Evidence { e.Contexts = 2; return e }
	many := several(two.delivered(60))
	exact := body(bulkhead.Exact, no)
	text := []part{exact, network(no)}
	for i := range shingleMatch {
		text = append(text, part{scheme: bulkhead.RspamdShingle, name: fmt.Sprint("shingle ", i), Evidence: two})
	}
	sender := from("new.example", no)
	day := time.Unix(20_000*86400, 0).UTC()
	dated := within(voted(4, 1), 12, false)
	dated.Finding.First, dated.Finding.Error = day, 0.01
	for _, tt := range []struct {
		name       string
		contents   contents
		parts      []part
		pairs      map[string]Evidence
		class      bulkhead.Class
		confidence int
		reason     string
	}{
		{"nothing", nil, []part{exact}, nil, unknown, 0, "never seen"},
		{"a part that is not listed", contents{within(no, 20, false)}, []part{exact}, nil, unknown, 0, "never seen"},
		{"five samples by one", contents{within(one, 5, false)}, []part{exact}, nil, suspected, 45, "5 samples"},
		{"11 samples by two", contents{within(two, 11, false)}, []part{exact}, nil, suspected, 47, "11 samples"},
		{"12 samples by two", contents{within(two, 12, false)}, []part{exact}, nil, spam, 70, "12 samples"},
		{"12 samples by one", contents{within(one, 12, false)}, []part{exact}, nil, suspected, 45, "12 samples"},
		{"12 samples by two, delivered as often as two votes outweigh", contents{within(two.delivered(60), 12, false)},
			[]part{exact}, nil, spam, 70, "12 samples"},
		{"and once more", contents{within(two.delivered(61), 12, false)}, []part{exact}, nil, suspected, 47, "12 samples"},
		{"11 samples of a text, and further texts", contents{within(many, 11, false)}, []part{exact}, nil, suspected, 47, ""},
		{"12 samples of a text, and further texts", contents{within(many, 12, false)}, []part{exact}, nil, spam, 70, ""},
		{"12 samples by two from a blameless sender", contents{within(two, 12, false)}, []part{exact, sender}, nil, suspected,
			47, ""},
		{"quoted", contents{within(two, 12, true)}, []part{exact}, nil, suspected, 47, "quotes a message"},
		{"quoted, with shingles of all lines", contents{within(two, 12, true)}, text, nil, suspected, 47, "rspamd/shingle"},
		{"its own text, with shingles", contents{within(two, 12, false)}, text, nil, spam, 70, "rspamd/shingle"},
		{"quoted, and no sender verified", contents{within(one, 12, true)}, []part{exact, network(no)}, nil, suspected, 45,
			"quotes"},
		{"a part, and no sender verified", contents{within(one, 5, false)}, []part{exact, network(no)}, nil, spam, 70,
			"no sender of this one was verified"},
		{"a part that was delivered as often as reported", contents{within(one.delivered(1), 11, false)},
			[]part{exact, network(no)}, nil, suspected, 45, "11 samples"},
		{"a part that was reported more often", contents{within(two.delivered(1), 11, false)},
			[]part{exact, network(no)}, nil, spam, 70, "no sender of this one was verified"},
		{"half of a text that was delivered as often", contents{within(one.delivered(1), 12, false)},
			[]part{exact, network(no)}, nil, spam, 70, "no sender of this one was verified"},
		{"a part, reported with its link", contents{within(one, 5, false)}, []part{exact, link("evil.example", no)},
			map[string]Evidence{"evil.example": two}, spam, 80, ""},
		{"a quote, wanted from its sender", contents{within(two, 12, true)}, []part{exact, sender},
			map[string]Evidence{"new.example": voted(0, 1)}, bulkhead.ClassGood, 0, "wanted"},
		{"a text that is listed itself", contents{within(two, 12, true)}, []part{body(bulkhead.Exact, one)}, nil, spam, 80,
			"bulkhead/exact"},
		{"a text that is revoked itself", contents{within(two, 12, false)}, []part{body(bulkhead.Exact, voted(1, 1))}, nil,
			unknown, 0, "revoked"},
		{"its own text before a quote", contents{within(voted(9, 0), 20, true), within(one, 6, false)}, []part{exact}, nil,
			suspected, 45, "6 samples"},
		{"likewise in another order", contents{within(one, 6, false), within(voted(9, 0), 20, true)}, []part{exact}, nil,
			suspected, 45, "6 samples"},
		{"the more reported text", contents{within(one, 7, false), within(two, 6, false), within(one, 9, false)},
			[]part{exact}, nil, suspected, 47, "6 samples"},
		{"an unlisted part before a listed one", contents{within(no, 30, false), within(one, 6, false)}, []part{exact}, nil,
			suspected, 45, "6 samples"},
		{"a disputed one of a known day", contents{dated}, []part{exact}, nil, spam, 70, "12 samples"},
	} {
		c := Case{Pairs: noPairs{}, Contents: tt.contents}
		d := Decider{Policy: Policy{Promotion: 1, NearMatch: 2, Mature: true}}
		for _, p := range tt.parts {
			f := bulkhead.Finding{Signature: p.signature(), Spam: uint32(p.Votes.Spam / Unit)}
			d.Policy.Finding(&f, &p.Evidence, Exact())
			c.Signatures, c.Findings, c.Evidence = append(c.Signatures, f.Signature), append(c.Findings, f),
				append(c.Evidence, p.Evidence)
		}
		c.Pairs = &pairVotes{sigs: c.Signatures, votes: tt.pairs}
		v := bulkhead.Verdict{Findings: c.Findings, Threshold: 20}
		out := d.Message(&v, &c)
		reasons := strings.Join(v.Reasons, "\n")
		if v.Class != tt.class || v.Confidence != tt.confidence || !strings.Contains(reasons, tt.reason) {
			t.Errorf("%s: %v, confidence %d, want %v, %d with %q:\n%s", tt.name, v.Class, v.Confidence, tt.class,
				tt.confidence, tt.reason, reasons)
		}
		if blamed := out.By == bulkhead.TextFacet; blamed != (tt.class >= suspected) {
			t.Errorf("%s: by %v", tt.name, out.By)
		}
		agree(t, &v)
		if len(tt.contents) == 1 && !tt.contents[0].Finding.First.IsZero() && (!v.First.Equal(day) || v.Error != 0.01) {
			t.Errorf("%s: first seen %v with an error of %v, want those of the part", tt.name, v.First, v.Error)
		}
	}
}
