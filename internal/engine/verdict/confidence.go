package verdict

import (
	"math"

	"github.com/bulkhead-mail/bulkhead"
)

// The confidence of a class is within bounds of its own, so that whoever compares
// nothing but numbers never takes a suspicion for more than a listing.
const (
	leastSpam      = 50
	mostSuspected  = 49
	leastSuspected = 30
	twoVoicesMost  = 70 // of a text that nothing but two votes speak against, or one and that nobody answers for it
	contextsMost   = 90 // and several senders or links
)

// confidence is how sure the verdict is that the message is spam, 0 to 100.
func (d *decision) confidence() int {
	c := d.text.confidence
	if d.finding >= 0 {
		c = d.Findings[d.finding].Confidence
	}
	switch d.class {
	case bulkhead.ClassSpam:
		return min(max(leastSpam, c), d.most())
	case bulkhead.ClassSuspected:
		return leastSuspected + int(math.Round(float64(min(c, 100)*(mostSuspected-leastSuspected))/100))
	case bulkhead.ClassGood:
		return 0
	}
	return min(c, leastSuspected-1)
}

// most is the largest confidence that the rule allows.
func (d *decision) most() int {
	switch d.why {
	case twoVoices, unanswered:
		return twoVoicesMost
	case contexts:
		return contextsMost
	}
	return 100
}

// error is the probability that a message nobody ever reported would be given this
// answer: of the text, or of any of the parts of the kind that decided.
func (d *decision) error() float64 {
	if d.finding < 0 {
		return d.text.error
	}
	f := &d.Findings[d.finding]
	n := 0
	for i := range d.Findings {
		if d.Findings[i].Signature.Scheme() == f.Signature.Scheme() {
			n++
		}
	}
	return min(1, float64(n)*f.Error)
}

// facet is what the class rests on.
func (d *decision) facet() bulkhead.Facet {
	if d.finding >= 0 {
		return d.Signatures[d.finding].Scheme().Facet()
	}
	for _, parts := range d.decisive(bulkhead.ClassSpam) {
		if i := d.worst(parts, d.listed); i >= 0 {
			return d.Signatures[i].Scheme().Facet()
		}
	}
	return bulkhead.TextFacet
}
