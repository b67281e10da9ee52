package verdict

import (
	"github.com/bulkhead-mail/bulkhead"
)

// PartMatch is the number of samples of a reported message that another message must have to
// contain it: one that votes fell on, and others recorded together with it. After reports of 5,700
// spam messages, 33 of 9,358 ham messages had five samples of one of them, mostly the footer of a
// mailing list. Of spam messages with four times the words added and three in ten words replaced,
// seven in ten have five samples.
const PartMatch = 5

// PartWhole is the number of samples from which a message contains most of a reported one. Two
// votes on texts that share five samples are not two votes on one text.
const PartWhole = 12

// OfOneText returns how many of the samples that occurred together with a part of a text are taken to be of one
// text, at least 0. e is the evidence of the part. The samples of different reported texts with the part add up, and
// a phrase that many of them share would match all mail with a few other common phrases. So each further text from
// the second on takes one away. The first may be a copy that was changed much.
func OfOneText(samples int, e *Evidence) int { return max(0, samples-max(0, int(e.Contexts)-1)) }

// A Match is a reported text of which the current message has a sample or more.
type Match struct {
	Evidence Evidence // of the sample that votes fell on
	Finding  bulkhead.Finding
	Samples  int  // of the text, in the message; see [OfOneText]
	Quoted   bool // most of them are in quoted or forwarded text
}

// Contents finds the reported texts inside a message, if its text as a whole is unknown or known by shingles alone.
type Contents interface {
	// Matches returns a match for each sample that was reported. The message contains the text if a match has
	// [PartMatch] samples or more. The slice belongs to the Contents.
	Matches() []Match
}

// bestOf returns the match of the text by which a message is judged that contains several; nil if it contains none. It
// prefers the message's own text to quotes, then texts of which the message contains most, and then the text with the
// most reports.
func (j *Decider) bestOf(matches []Match) (best *Match) {
	for i := range matches {
		m := &matches[i]
		if m.Samples >= PartMatch && j.Policy.listsPart(&m.Evidence) && (best == nil || m.outweighs(best, j.Policy)) {
			best = m
		}
	}
	return best
}

// contained judges a text by the texts that the message contains.
func (j *Decider) contained(t *text, matches []Match) {
	best := j.bestOf(matches)
	if best == nil {
		return
	}
	w := j.Policy.weight(&best.Evidence)
	w.contexts = 0 // a part has no links and senders: it counts texts
	t.judge(bulkhead.Part, bulkhead.JudgedSpam, best.Finding.Confidence, best.Samples, w)
	t.quoted, t.contested = best.Quoted, best.Finding.Contested
	t.error = best.Finding.Error
	t.first = earliest(t.first, best.Finding.First)
}

// whole reports whether the message contains most of the text.
func (m *Match) whole() bool { return m.Samples >= PartWhole }

func (m *Match) outweighs(o *Match, p Policy) bool {
	switch {
	case m.Quoted != o.Quoted:
		return o.Quoted
	case m.whole() != o.whole():
		return m.whole()
	}
	return p.Strength(&m.Evidence, 1) > p.Strength(&o.Evidence, 1)
}

// listsPart reports whether a part is listed despite its deliveries. Deliveries count against it,
// because people quote, sign and append the same text in many other messages.
func (p Policy) listsPart(e *Evidence) bool {
	return p.judged(bulkhead.TextFacet, e) == bulkhead.JudgedSpam && !e.Guarded() &&
		p.Strength(e, 1) >= oneVote+reportRate*e.history()-slack
}
