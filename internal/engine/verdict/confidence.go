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

// What votes on a text are worth where no sender is known, who would answer for it. Of the
// recipients of spam reporting reports report it, and of those of ham mistaken. If as much of
// the mail is spam as is ham, v votes among n recipients make the odds of spam
// (reporting/mistaken)^v e^-(reporting-mistaken)n: a vote outweighs some 15 deliveries. Where
// fewer report, deliveries mean less, and the odds are larger than that.
const (
	reporting = 0.3
	mistaken  = 0.003
)

// chance returns the probability, 0 to 1, that a listed text is spam, by its votes and
// deliveries. On a mature node deliveries do not matter: it knows who sends ham, and [decision.seldom] weighs
// them for verified senders.
func (d *decision) chance() float64 {
	if d.Policy.Mature {
		return 1
	}
	t := &d.text
	odds := t.strength*math.Log(reporting/mistaken) - (t.old+t.new)*(reporting-mistaken)
	return 1 / (1 + math.Exp(-odds))
}

// confidence returns how certain it is that the message is spam, 0 to 100.
func (d *decision) confidence() int {
	c := min(d.text.confidence, int(math.Round(100*d.chance())))
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

// error returns the probability that a message nobody ever reported gets this result, by
// its text or by any part of the kind that decided; and that a message which is spam does,
// because a revocation of its text or of any part is chance.
func (d *decision) error() float64 {
	p := d.text.error
	switch spam := d.class == bulkhead.ClassSpam; {
	case d.finding >= 0:
		p = unreported(&d.Findings[d.finding], &d.Evidence[d.finding])
		if spam {
			p += d.Evidence[d.finding].Turned
		}
		p *= float64(d.alike(d.finding))
	case spam:
		p += d.turned.again
	}
	if d.class != bulkhead.ClassSpam {
		p += d.hidden()
	}
	return min(1, p)
}

// alike returns how many signatures of the message have the scheme of the i'th.
func (d *decision) alike(i int) (n int) {
	for k := range d.Findings {
		if d.Findings[k].Signature.Scheme() == d.Findings[i].Signature.Scheme() {
			n++
		}
	}
	return n
}

// hidden returns the probability that chance hides that the message is spam: by its text,
// or by any part that would decide.
func (d *decision) hidden() float64 {
	p := d.turned.hidden + d.pair.hidden
	for _, parts := range d.decisive(bulkhead.ClassSpam) {
		for _, i := range parts {
			if !d.listed(i) && d.asked(i) {
				p += d.Evidence[i].Turned
			}
		}
	}
	return p
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
