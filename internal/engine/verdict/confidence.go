package verdict

import (
	"math"

	"github.com/bulkhead-mail/bulkhead"
)

// Each class has its own range of confidence, so that by the number alone nobody takes a
// suspicion for a listing.
const (
	leastSpam      = 50
	mostSuspected  = 49
	leastSuspected = 30
	twoVoicesMost  = 70 // of a text that nothing but two votes speak against, or one and that nobody answers for it
	contextsMost   = 90 // and several senders or links
)

// confidence returns how certain it is that the message is spam, 0 to 100.
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

// most returns the largest confidence that the rule allows.
func (d *decision) most() int {
	switch d.why {
	case twoVoices, unanswered:
		return twoVoicesMost
	case contexts:
		return contextsMost
	}
	return 100
}

// error returns the probability that a message nobody ever reported gets this result: by
// its text, or by any part of the kind that decided.
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

// facet returns the facet that the class rests on.
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
