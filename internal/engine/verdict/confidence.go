package verdict

import (
	"math"

	"github.com/bulkhead-mail/bulkhead"
)

// Each class has its own range of confidence, so that the number alone distinguishes a suspicion
// from a listing.
const (
	leastSpam      = 50
	mostSuspected  = 49
	leastSuspected = 30
	twoVoicesMost  = 70 // for a text with only two votes against it, or with one vote and no verified sender
	contextsMost   = 90 // for such a text with several senders or links
)

// The value of votes on a text without a known sender to answer for it. reporting is the fraction
// of the recipients of spam who report it, and mistaken is the fraction of the recipients of ham
// who do. If half of the mail is spam, v votes among n recipients make the odds of spam
// (reporting/mistaken)^v e^-(reporting-mistaken)n: a vote outweighs about 15 deliveries. If fewer
// recipients report, deliveries mean less, and the odds are higher.
const (
	reporting = 0.3
	mistaken  = 0.003
)

// chance returns the probability, 0 to 1, that a listed text is spam, from its votes and
// deliveries. On a mature node deliveries do not matter: it knows the senders of ham, and
// [decision.seldom] weighs deliveries for verified senders.
func (d *decision) chance() float64 {
	if d.Policy.Mature {
		return 1
	}
	t := &d.text
	odds := t.strength*math.Log(reporting/mistaken) - (t.old+t.new)*(reporting-mistaken)
	return 1 / (1 + math.Exp(-odds))
}

// confidence returns the certainty, 0 to 100, that the message is spam.
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

// most returns the maximum confidence that the rule allows.
func (d *decision) most() int {
	switch d.by {
	case byTwoVoices:
		if d.text.unlike() {
			return contextsMost
		}
		return twoVoicesMost
	case byUnanswered, byUnseen, byFreshLink, byLikeReported, byWordsAndPart, byNewSender, byWordsAlone:
		return twoVoicesMost
	}
	return 100
}

// error returns the probability that this result is an error of the filters. An unreported message
// may get it through its text, or through any part of the kind that decided. A message that is spam
// may get it through a false revocation of its text or of any part.
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

// alike returns the number of signatures of the message that have the scheme of the i'th.
func (d *decision) alike(i int) (n int) {
	for k := range d.Findings {
		if d.Findings[k].Signature.Scheme() == d.Findings[i].Signature.Scheme() {
			n++
		}
	}
	return n
}

// hidden returns the probability that a false revocation hides that the message is spam: of its
// text, or of any part that would decide.
func (d *decision) hidden() float64 {
	p := d.turned.hidden + d.pair.hidden
	for _, parts := range d.condemning() {
		for _, i := range parts {
			if !d.isListed(i) && d.asked(i) {
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
	for _, parts := range d.condemning() {
		if i := d.worst(parts, d.isListed); i >= 0 {
			return d.Signatures[i].Scheme().Facet()
		}
	}
	return bulkhead.TextFacet
}
