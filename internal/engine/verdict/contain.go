package verdict

import (
	"github.com/bulkhead-mail/bulkhead"
)

// PartMatch is how many samples of one reported message a message must hold to hold that
// message: one that votes fell on, and the others together with it. Where 5,700 spams
// were reported 33 of 9,358 hams held five samples of one of them, most of them the
// footer of a list; of spam with four times its words added and three in ten words
// replaced seven in ten messages do.
const PartMatch = 5

// PartWhole is how many samples say that a message holds the most of a reported one. Two
// votes on texts that have five samples in common are not two on one text.
const PartWhole = 12

// A Match is a reported text that the message at hand holds.
type Match struct {
	Evidence Evidence // of the sample that votes fell on
	Finding  bulkhead.Finding
	Samples  int  // of the text, in the message
	Quoted   bool // the most of them in what it quotes or forwards
}

// Contents is asked which reported texts a message holds: where nothing is known of its
// text as a whole.
type Contents interface {
	// Matches returns the matches of [PartMatch] samples and more. They are its own.
	Matches() []Match
}

// contained judges a text by what it holds: by what it says itself rather than by what
// it quotes, and by what was reported most.
func (j *Decider) contained(t *text, c Contents) {
	var best *Match
	matches := c.Matches()
	for i := range matches {
		m := &matches[i]
		if j.Policy.listsPart(&m.Evidence) && (best == nil || m.outweighs(best, j.Policy)) {
			best = m
		}
	}
	if best == nil {
		return
	}
	t.judge(bulkhead.Part, bulkhead.JudgedSpam, best.Finding.Confidence, best.Samples, j.Policy.weight(&best.Evidence))
	t.quoted, t.contested = best.Quoted, best.Finding.Contested
	t.error = best.Finding.Error
	t.first.see(best.Finding.First)
}

func (m *Match) outweighs(o *Match, p Policy) bool {
	if m.Quoted != o.Quoted {
		return o.Quoted
	}
	return p.Strength(&m.Evidence, 1) > p.Strength(&o.Evidence, 1)
}

// listsPart reports whether a part is listed, in spite of its deliveries: what people
// quote, sign with and append comes with much else than what was reported.
func (p Policy) listsPart(e *Evidence) bool {
	return p.judged(bulkhead.TextFacet, e) == bulkhead.JudgedSpam && !e.Guarded() &&
		p.Strength(e, 1) >= suspicionBase+pairRate*e.history()-slack
}
