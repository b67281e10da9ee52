package verdict

import (
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bulkhead-mail/bulkhead"
)

// A drawn is a random message with a policy.
type drawn struct {
	parts    []part
	pairs    map[string]Evidence
	policy   Policy
	contents []Match
	learned  Learned
	inside   bool
	vouched  map[string]bool // see pairVotes
}

// Matches implements [Contents].
func (m *drawn) Matches() []Match { return m.contents }

func (m *drawn) judge() bulkhead.Verdict {
	d := Decider{Policy: m.policy}
	c := Case{Contents: m, Learned: m.learned, Inside: m.inside}
	for _, p := range m.parts {
		f := p.counts
		f.Signature = p.signature()
		d.Policy.Finding(&f, &p.Evidence, Exact())
		c.Signatures, c.Findings, c.Evidence = append(c.Signatures, f.Signature), append(c.Findings, f),
			append(c.Evidence, p.Evidence)
	}
	c.Pairs = &pairVotes{sigs: c.Signatures, votes: m.pairs, vouched: m.vouched}
	v := bulkhead.Verdict{Findings: c.Findings, Threshold: 20}
	d.Message(&v, &c)
	return v
}

func drawAny(t *rapid.T) drawn {
	d := drawn{policy: Policy{Promotion: 1, NearMatch: 2, Mature: rapid.Bool().Draw(t, "mature"),
		Step: Step(rapid.IntRange(int(LeastStep), int(MostStep)).Draw(t, "step"))}}
	d.parts, d.pairs = drawMessage(t)
	d.learned = drawLearned(t)
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		d.parts = []part{body(bulkhead.PyzorDigest, drawEvidence(t, bulkhead.TextFacet))}
	case 1:
		d.parts = append(d.parts, part{scheme: bulkhead.Claim, name: "a claimed name",
			Evidence: drawEvidence(t, bulkhead.ClaimFacet)})
	case 2:
		d.parts = d.parts[:0]
		for _, p := range []part{network(drawEvidence(t, bulkhead.NetworkFacet)), link("evil.example",
			drawEvidence(t, bulkhead.LinkFacet))} {
			if rapid.Bool().Draw(t, "alone") {
				d.parts = append(d.parts, p)
			}
		}
		d.parts = append(d.parts,
			part{scheme: bulkhead.Image, name: "picture", Evidence: drawEvidence(t, bulkhead.ImageFacet)})
	}
	return d
}

// TestEveryRuleDecides: for every rule there is a message on which it alone decides, because without
// it the message has another verdict.
func TestEveryRuleDecides(t *testing.T) {
	messages := rareMessages()
	generator := rapid.Custom(drawAny)
	for seed := range 6_000 {
		messages = append(messages, generator.Example(seed))
	}
	by := make(map[string][]drawn)
	for _, m := range messages {
		v := m.judge()
		by[v.Rule] = append(by[v.Rule], m)
	}
	for _, g := range groups {
		for i := range g.rules {
			if r := &g.rules[i]; !matters(r, by[string(r.name)]) {
				t.Errorf("%s, %s: all of %d messages have the same verdict without it", g.mail, r.name, len(by[string(r.name)]))
			}
		}
	}
}

// matters reports whether one of the messages has another verdict without a rule.
func matters(r *rule, messages []drawn) bool {
	when := r.when
	defer func() { r.when = when }()
	for _, m := range messages {
		r.when = when
		before := m.judge()
		r.when = func(*decision) bool { return false }
		if after := m.judge(); after.Class != before.Class || after.Rule != before.Rule {
			return true
		}
	}
	return false
}

// rareMessages are messages that are seldom drawn.
func rareMessages() []drawn {
	policy := Policy{Promotion: 1, NearMatch: 2, Mature: true}
	loosest := policy
	loosest.Step = MostStep
	one := voted(1, 0)
	blamed := one
	blamed.Unblamed = Unit
	seen := body(bulkhead.Exact, Evidence{})
	seen.counts.Sightings = 20
	reported := network(voted(9, 0))
	reported.counts.Spam = 9
	text := []part{body(bulkhead.Exact, Evidence{})}
	known := from("known.example", Evidence{}.delivered(30))
	like := Learned{Score: 1, Used: 9, Reports: 50, Condemns: true, Without: func(float64) float64 { return 1 }}
	suspect := Learned{Score: 0.99, Used: 9, Reports: 50}
	template, pairs := serviceMail(3, 9, 40)
	return []drawn{
		{policy: policy, parts: template, pairs: pairs},
		{policy: policy, parts: text, contents: []Match{{Evidence: one, Samples: PartMatch, Quoted: true}}},
		{policy: policy, parts: text, contents: []Match{{Evidence: one, Samples: PartMatch}}},
		{policy: policy, parts: append(nearly(one), network(Evidence{}))},
		{policy: policy, parts: append(nearly(one), regular(0, 10))},
		{policy: loosest, parts: append(nearly(one), from("new.example", Evidence{}))},
		{policy: policy, parts: []part{reported}},
		{policy: policy, parts: []part{seen}},
		{policy: policy, parts: []part{seen, known}, pairs: map[string]Evidence{"known.example": voted(0, 1)}},
		{policy: policy, parts: text, learned: like},
		{policy: policy, parts: text, learned: suspect},
		{policy: policy, parts: append([]part{link("docs.google.com", blamed)}, text...), learned: like},
		{policy: policy, parts: append(text, known), learned: like},
		{policy: policy, parts: append([]part{from("new.example", Evidence{})}, text...), learned: like,
			contents: []Match{{Evidence: one, Samples: 1}}},
		{policy: policy, parts: nearly(one), learned: like},
	}
}

// TestRulesAreDocumented: docs/judgement.md has the table of the rules as they are.
func TestRulesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/judgement.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), Table()) {
		t.Errorf("docs/judgement.md has not this table:\n%s", Table())
	}
}

// TestRuleNames: names are unique within a group, and every rule has a sentence that explains it.
func TestRuleNames(t *testing.T) {
	for _, g := range groups {
		seen := make(map[Rule]bool)
		for _, r := range g.rules {
			if seen[r.name] || r.name == "" || r.when == nil || !strings.HasSuffix(r.doc, ".") {
				t.Errorf("%s: rule %q", g.mail, r.name)
			}
			seen[r.name] = true
		}
	}
}
