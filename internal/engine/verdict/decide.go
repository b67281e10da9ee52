package verdict

import (
	"slices"

	"github.com/bulkhead-mail/bulkhead"
)

// A decision is the state in which one verdict is made.
type decision struct {
	*Decider
	*Case
	text   text
	turned turned // of the text

	sender     int  // index of the sender's signature, -1 without one
	senderGood bool // of good standing
	pair       pairing

	// The result.
	class   bulkhead.Class
	why     why
	finding int // index of the finding that decided, -1 for the text
}

// A why is the rule that determined the verdict.
type why uint8

const (
	nothing    why = iota
	exactText      // a copy of a reported text
	digests        // likewise, by digests
	pairedText     // the text was reported with this very sender or link
	otherPart      // a link, the sender, an attachment, picture or contact
	twoVoices      // a changed copy, with two votes for spam
	contexts       // likewise, with several senders or links
	unanswered     // a changed copy without a verified sender
	oneVoice       // a changed copy, with too little evidence
	holdsText      // it quotes or forwards a reported text, or contains only a part of it
	known          // the sender is known, and was not reported with the text
	wanted         // a root voted that it is wanted
	wantedBulk     // likewise, and it is bulk from a known sender
	goodLinks      // the text was reported, but all its links are known
	seldom         // the text was reported, but seldom, and its sender is verified
	delivered      // the text was reported, but known senders also send it
)

// decide applies the rules in the order of docs/judgement.md. The caller applies whitelists first.
func (d *decision) decide(bulk bool) {
	d.sender = d.parts.Sender(d.Evidence)
	d.senderGood = d.sender >= 0 && d.standing(d.sender) && !d.abusedAddress()
	listed := d.text.judged == bulkhead.JudgedSpam
	if listed && d.seldom() {
		listed, d.why = false, seldom
	}
	switch {
	case d.parts.Digests:
	case listed:
		d.readPairs()
	case bulk && d.senderGood: // all that matters then is whether a root wants it
		d.readPairs()
		d.pair = pairing{wanted: d.pair.wanted}
	}
	switch {
	case d.parts.Digests:
		d.byDigests(listed)
	case d.standsFor(listed):
		d.ofGoodSender(listed)
	case listed && d.text.exact && !d.pair.wanted && !d.lonely():
		d.rule(bulkhead.ClassSpam, exactText, -1)
	default:
		d.byParts(listed)
	}
	switch {
	case d.class != bulkhead.ClassUnknown:
	case bulk && d.pair.wanted && d.senderGood:
		d.class = bulkhead.ClassGood
		if d.why == nothing {
			d.why = wantedBulk
		}
	case bulk:
		d.class = bulkhead.ClassBulk
	case d.pair.wanted, d.senderGood:
		d.class = bulkhead.ClassGood
	}
}

func (d *decision) rule(class bulkhead.Class, why why, finding int) {
	d.class, d.why, d.finding = class, why, finding
}

// standing reports whether a sender or link is of good standing.
func (d *decision) standing(i int) bool {
	return d.Policy.Good(d.Signatures[i].Scheme().Facet(), &d.Evidence[i])
}

// abusedAddress reports whether the sender is an address that is listed at a domain, or
// on a list, of good standing.
func (d *decision) abusedAddress() bool {
	return d.sender != d.parts.Address && d.parts.Address >= 0 && d.listed(d.parts.Address)
}

// seldom reports whether a text with a verified sender was reported no more often than by mistake.
// Today's copies count half, because more reports of them may follow.
func (d *decision) seldom() bool {
	t := &d.text
	return d.sender >= 0 && t.strength < textBase+answeredRate*(t.old+0.5*t.new)-slack
}

// lonely reports whether a single vote for spam stands against many deliveries of a text with a
// verified sender. Spam soon gets a second vote; other mail seldom does.
func (d *decision) lonely() bool {
	t := &d.text
	return d.sender >= 0 && t.strength < twoVotes-slack && t.old+0.5*t.new >= lonelyDeliveries
}

// standsFor reports whether the sender excuses the message. The sender must be of good standing,
// and either have more deliveries than the text has reports, or a root must want the message. Exact
// copies of the text do not count as deliveries: a campaign's own copies are no history of its
// sender.
func (d *decision) standsFor(listed bool) bool {
	if !d.senderGood {
		return false
	}
	history := float64(d.Evidence[d.sender].Old)
	if d.text.exact {
		history -= d.text.copies
		if history < goodDeliveries && !d.pair.wanted {
			return !listed
		}
	}
	return !listed || d.pair.wanted || history >= d.text.reported
}

// ofGoodSender decides on mail that its sender excuses.
func (d *decision) ofGoodSender(listed bool) {
	i := d.worst(d.parts.Attachments, d.listed)
	switch {
	case listed && d.pair.sender:
		d.rule(bulkhead.ClassSpam, pairedText, -1)
	case i >= 0:
		d.rule(bulkhead.ClassSpam, otherPart, i)
	case listed && d.pair.wanted:
		d.why = wanted
	case listed:
		d.why = known
	}
}

// byDigests decides on messages known only by digests of the text.
func (d *decision) byDigests(listed bool) {
	switch {
	case !listed:
	case d.text.good >= goodDeliveries:
		d.why = delivered
	default:
		d.rule(bulkhead.ClassSpam, digests, -1)
	}
}

// byParts decides part by part.
func (d *decision) byParts(listed bool) {
	if d.condemned(bulkhead.ClassSpam, d.condemns) {
		return
	}
	if listed {
		d.byText()
	}
	if d.class != bulkhead.ClassUnknown || d.condemned(bulkhead.ClassSuspected, d.suspected) {
		return
	}
	// Any sender can claim any name, so a name never condemns.
	if i := d.worst(d.parts.Claims, d.suspected); i >= 0 {
		d.rule(bulkhead.ClassSuspected, otherPart, i)
	}
}

// condemned sets the class if is returns true for a part other than the text.
func (d *decision) condemned(class bulkhead.Class, is func(int) bool) bool {
	for _, parts := range d.decisive(class) {
		if i := d.worst(parts, is); i >= 0 {
			d.rule(class, otherPart, i)
			return true
		}
	}
	return false
}

// decisive returns the parts that may give the message the class, in order. A picture next to a
// text is often borrowed, such as a logo, so it condemns only a message without text. Unrelated
// senders share a network, so a network condemns nothing by itself.
func (d *decision) decisive(class bulkhead.Class) [6][]int {
	p := &d.parts
	images, networks := p.Images, p.Networks
	if class == bulkhead.ClassSpam {
		networks = nil
		if p.Near {
			images = nil
		}
	}
	return [...][]int{p.Links, p.Senders, p.Attachments, images, p.Contacts, networks}
}

// worst returns the strongest of the parts for which is returns true, or -1 if there is none.
func (d *decision) worst(parts []int, is func(int) bool) int {
	worst, most := -1, 0.0
	for _, i := range parts {
		if !d.asked(i) || !is(i) {
			continue
		}
		if s := d.Policy.Strength(&d.Evidence[i], namedBase); worst < 0 || s > most {
			worst, most = i, s
		}
	}
	return worst
}

// asked reports whether a part may decide. Links to the sender's own domain may not, because the
// sender answers for them, and neither may a shared domain. Links and contacts, which third parties
// add to mail, may decide once the node is mature. A network may decide if no sender was verified.
func (d *decision) asked(i int) bool {
	switch d.Signatures[i].Scheme() {
	case bulkhead.Link:
		return d.Policy.Mature && d.parts.Foreign(d.Signatures, d.Evidence, i)
	case bulkhead.Contact:
		return d.Policy.Mature
	case bulkhead.Sender:
		return i != d.parts.Domain || !d.Evidence[i].Shared()
	case bulkhead.Network:
		return d.nobodyAnswers()
	case bulkhead.Claim:
		return !d.parts.OwnName(d.Signatures, d.Evidence, i)
	}
	return true
}

func (d *decision) listed(i int) bool { return d.Findings[i].Judged == bulkhead.JudgedSpam }

// condemns reports whether a part is listed and makes the message spam. A common link does not. Any
// other link needs more strength in the mail of a verified sender without reports, because all
// kinds of mail link to sites that some spam also links to.
func (d *decision) condemns(i int) bool {
	e := &d.Evidence[i]
	switch {
	case !d.listed(i) || d.Signatures[i].Scheme() != bulkhead.Link:
		return d.listed(i)
	case e.Common():
		return false
	case !d.blameless():
		return true
	}
	return d.Policy.Strength(e, namedBase) >= Need(bulkhead.LinkFacet, e)+answeredLink-slack
}

// suspected reports whether a part that was not revoked is under suspicion, or is a listed link. A
// network is suspected only if it is listed: a single report of a network means nothing.
func (d *decision) suspected(i int) bool {
	s := d.Signatures[i].Scheme()
	if s == bulkhead.Network {
		return d.listed(i)
	}
	return s == bulkhead.Link && d.listed(i) || d.Findings[i].Judged != bulkhead.Revoked &&
		d.Policy.suspected(s.Facet(), &d.Evidence[i])
}

// byText decides on a listed text alone: a changed copy, or a text that a root wants.
func (d *decision) byText() {
	t := &d.text
	copies := t.old + 0.3*t.new
	small := copies <= votesWorth*t.reported
	part := t.scheme == bulkhead.Part && t.bands < PartWhole
	switch {
	case d.pair.any:
		d.rule(bulkhead.ClassSpam, pairedText, -1)
	case d.pair.wanted:
		d.why = wanted
	case d.linksStand():
		d.why = goodLinks
	case t.quoted:
		d.rule(bulkhead.ClassSuspected, holdsText, -1)
	case !part && t.strength >= twoVotes-slack && t.contexts >= 2 && !d.ownMail():
		d.rule(bulkhead.ClassSpam, contexts, -1)
	case !part && t.strength >= twoVotes-slack && t.good == 0 && small && !d.ownMail():
		d.rule(bulkhead.ClassSpam, twoVoices, -1)
	case d.nobodyAnswers() && t.good == 0 && pairRate*copies <= t.reported:
		d.rule(bulkhead.ClassSpam, unanswered, -1)
	case part:
		d.rule(bulkhead.ClassSuspected, holdsText, -1)
	default:
		d.rule(bulkhead.ClassSuspected, oneVoice, -1)
	}
}

// nobodyAnswers reports whether no sender was verified, by a door that could verify, on
// a mature node.
func (d *decision) nobodyAnswers() bool {
	return d.Policy.Mature && len(d.parts.Networks) > 0 && d.sender < 0
}

// blameless reports whether the sender is verified and none of its mail was reported as spam.
func (d *decision) blameless() bool {
	return d.sender >= 0 && d.Evidence[d.sender].Unblamed == 0 && d.Evidence[d.sender].Peers.Spam == 0
}

// ownMail reports whether the sender is blameless and all links are its own. A text similar to an
// abused one may then be the sender's own.
func (d *decision) ownMail() bool {
	return d.blameless() && !slices.ContainsFunc(d.parts.Links,
		func(i int) bool { return d.parts.Foreign(d.Signatures, d.Evidence, i) })
}

// linksStand reports whether there are links and all of them, including the sender's
// own, are of good standing with more deliveries than the text has reports.
func (d *decision) linksStand() bool {
	for _, i := range d.parts.Links {
		if d.listed(i) || !d.standing(i) || float64(d.Evidence[i].Old) < d.text.reported {
			return false
		}
	}
	return len(d.parts.Links) > 0
}

// A pairing is the result of votes on the text together with this sender and these
// links.
type pairing struct {
	sender bool // the text is spam from this sender
	any    bool // the text is spam with one of the links
	wanted bool // the text is wanted from this sender
	// hidden is the probability that a false revocation hides one of the listings.
	hidden float64
}

// readPairs looks up the votes on the text with the sender and links.
func (d *decision) readPairs() {
	j := d.Decider
	j.contexts = j.parts.Contexts(d.Signatures, d.Evidence, j.contexts[:0])
	j.pairs = j.pairs[:0]
	for _, c := range j.contexts {
		for _, t := range j.parts.Texts {
			j.pairs = append(j.pairs, Pair{t, c})
		}
	}
	if len(j.pairs) == 0 {
		return
	}
	j.paired = slices.Grow(j.paired[:0], len(j.pairs))[:len(j.pairs)]
	d.Pairs.Pairs(j.pairs, j.paired)
	for n, c := range j.contexts {
		texts := j.paired[n*len(j.parts.Texts) : (n+1)*len(j.parts.Texts)]
		d.pairWith(c, texts)
	}
}

// pairWith applies the votes on the texts with one sender or link.
func (d *decision) pairWith(context int, texts []Evidence) {
	s := d.Policy.together(texts)
	good := d.standing(context)
	need := NeedOfPair(min(d.text.history(), d.Evidence[context].history()), good)
	if s >= max(need, twoVotes)-slack {
		d.pair.any = true
		d.pair.sender = d.pair.sender || context == d.sender
	} else if slices.ContainsFunc(texts, d.Policy.revoked) {
		d.pair.hidden += d.Revoked
	}
	if context == d.sender && s <= wantedBelow+slack {
		d.pair.wanted = true
	}
}

// revoked reports whether a pair was taken off the list.
func (p Policy) revoked(e Evidence) bool {
	return Judge(e.Own, e.Peers, p.Promotion) == bulkhead.Revoked
}

// together returns the strength of a text with one sender or link: the largest strength for spam
// less the largest against it. The text may share some of its keys with other texts.
func (p Policy) together(texts []Evidence) float64 {
	var most, least float64
	for i := range texts {
		s := p.Strength(&texts[i], pairBase)
		if p.revoked(texts[i]) {
			s = min(s, 0) // the node's own decision is final
		}
		most, least = max(most, s), min(least, s)
	}
	return most + least
}
