package verdict

import (
	"bytes"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/wellknown"
)

// A decision is the state in which one verdict is made.
type decision struct {
	*Decider
	*Case
	text    text
	turned  turned  // of the text
	samples []Match // of reported texts, if the text as a whole is unknown

	sender     int  // index of the sender's signature, -1 without one
	senderGood bool // of good standing
	isBulk     bool // seen as often as the threshold
	listed     bool // the text is on the blocklist, and no rule has excused it
	pair       pairing

	// The result.
	class   bulkhead.Class
	by      Rule // that decided
	excuse  Rule // that excused the text last
	finding int  // index of the finding that decided, -1 for the text

	// spared is the first rule whose votes are not enough for spam at the operator's step, and its
	// finding.
	spared        Rule
	sparedFinding int
}

// decide applies the rules. The caller applies whitelists first.
func (d *decision) decide(isBulk bool) {
	d.by, d.excuse, d.spared = noRule, noRule, noRule
	d.isBulk, d.counted = isBulk, d.counted[:0]
	d.sender = d.parts.Sender(d.Evidence)
	d.senderGood = d.sender >= 0 && d.standing(d.sender) && !d.abusedAddress() && d.signersStand()
	d.listed = d.text.judged == bulkhead.JudgedSpam
	if d.listed || isBulk && d.senderGood {
		d.readPairs()
	}
	d.apply(firstRules)
	if d.standsFor() {
		d.apply(senderRules)
	} else {
		d.apply(mailRules)
	}
	if d.by == noRule && d.spared != noRule {
		d.class, d.by, d.finding = bulkhead.ClassSuspected, d.spared, d.sparedFinding
	}
	d.apply(lastRules)
	d.weighLearned()
}

// apply tries rules in order until one decides. It does nothing if one has decided before.
func (d *decision) apply(rules []rule) {
	for i := range rules {
		r := &rules[i]
		switch {
		case d.by != noRule:
			return
		case r.class == bulkhead.ClassUnknown:
			if d.listed && r.when(d) {
				d.listed, d.excuse = false, r.name
			}
		case r.when(d):
			if d.enough(r) {
				d.class, d.by = r.class, r.name
				return
			}
			if d.spared == noRule {
				d.spared, d.sparedFinding = r.name, d.finding
			}
			d.finding = -1
		}
	}
}

// rule returns the rule that the verdict rests on.
func (d *decision) rule() Rule {
	if d.class < bulkhead.ClassSuspected && d.excuse != noRule {
		return d.excuse
	}
	return d.by
}

// part reports whether is returns true for one of the parts, and sets finding to the strongest.
func (d *decision) part(parts []int, is func(int) bool) bool {
	i := d.worst(parts, is)
	if i >= 0 {
		d.finding = i
	}
	return i >= 0
}

// standing reports whether a sender or link is of good standing.
func (d *decision) standing(i int) bool {
	return d.Policy.Good(d.Signatures[i].Scheme().Facet(), &d.Evidence[i])
}

// signersStand reports whether all signers of a message that none of them wrote are of good standing.
// Senders can add signatures of any domain of theirs, so one of good standing speaks for none of the
// others.
func (d *decision) signersStand() bool {
	if d.parts.Domain >= 0 || d.parts.Address >= 0 {
		return true // the domain of From was verified
	}
	return !slices.ContainsFunc(d.parts.Senders, func(i int) bool { return !d.standing(i) })
}

// abusedAddress reports whether the sender is an address that is listed at a domain, or
// on a list, of good standing.
func (d *decision) abusedAddress() bool {
	return d.sender != d.parts.Address && d.parts.Address >= 0 && d.isListed(d.parts.Address)
}

// seldom reports whether a text with a verified sender was reported no more often than by mistake.
// Recent copies count half, because more reports of them may follow.
func (d *decision) seldom() bool {
	t := &d.text
	return d.sender >= 0 && t.strength < oneVote+reportRate*(t.old+0.5*t.new)-slack
}

// service reports whether a text belongs to a service that sends the mail of its customers, such as an invitation to
// sign a document: a well-known company, or one address with many names. Reports of what some customers sent with it
// say nothing of the others. Of a campaign, more than one copy in twenty is reported. A well-known company runs none,
// so there it takes as many deliveries as reports, and exact copies of what one customer wrote are not excused at once.
func (d *decision) service() bool {
	t, domain, address := &d.text, d.parts.Domain, d.parts.Address
	if d.sender < 0 {
		return false
	}
	if domain >= 0 && wellknown.Company(d.Signatures[domain].Sum()) {
		e := &d.Evidence[domain]
		return e.Days >= goodDays && e.settled() >= t.reported && (!t.exact || t.days >= serviceDays)
	}
	return t.days >= serviceDays && address >= 0 && d.common(address) &&
		d.Evidence[address].settled() >= votesWorth*t.reported
}

// lonely reports whether a single vote for spam stands against many deliveries of a text with a
// verified sender. Spam soon gets a second vote; other mail seldom does.
func (d *decision) lonely() bool {
	t := &d.text
	return d.sender >= 0 && t.strength < twoVotes-slack && t.old+0.5*t.new >= lonelyDeliveries
}

// earned reports whether the sender makes the message good. That takes more than to be excused: a
// spammer's own domain is delivered for two days before its first report. A domain needs ten
// deliveries on two days, and an address with a delivery at least half a day ago. Customers share the
// domains below a suffix that a company runs, so there the address itself needs the deliveries.
func (d *decision) earned() bool {
	if !d.senderGood || d.excuse == byService {
		return false
	}
	known := d.sender
	switch {
	case d.sender != d.parts.Domain: // an address or a list
	case d.parts.Address >= 0 && d.Evidence[d.parts.Address].settled() == 0:
		return false
	case d.parts.Address >= 0 && wellknown.Tenant(d.Signatures[d.sender].Sum()):
		known = d.parts.Address
	}
	return d.Evidence[known].Old >= earnedDeliveries
}

// standsFor reports whether the sender excuses the message. The sender must be of good standing, and have
// more deliveries than a listed text has reports. Exact copies of the text do not count as deliveries: a
// campaign's own copies are no history of its sender.
func (d *decision) standsFor() bool {
	if !d.senderGood || !d.listed {
		return d.senderGood
	}
	history := float64(d.Evidence[d.sender].Old)
	if d.text.exact {
		history -= d.text.copies
	}
	return history >= d.text.reported && (!d.text.exact || history >= goodDeliveries)
}

// condemning returns the parts that may make the message spam.
func (d *decision) condemning() [5][]int {
	p := &d.parts
	images := p.Images
	if p.Near {
		images = nil // see the rule picture
	}
	return [...][]int{p.Links, p.Senders, p.Attachments, images, p.Contacts}
}

// worst returns the strongest of the parts for which is returns true, or -1 if there is none.
func (d *decision) worst(parts []int, is func(int) bool) int {
	worst, most := -1, 0.0
	for _, i := range parts {
		if !d.asked(i) || !is(i) {
			continue
		}
		if s := d.Policy.Strength(&d.Evidence[i], twoVotes); worst < 0 || s > most {
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
		return i != d.parts.Domain || !d.Evidence[i].Shared() && !wellknown.Domain(d.Signatures[i].Sum())
	case bulkhead.Network:
		return d.nobodyAnswers() && !d.clean(i)
	case bulkhead.Claim: // a list has the same writers every day
		return !d.parts.OwnName(d.Signatures, d.Evidence, i) && !d.knownNetwork() &&
			(d.sender < 0 || !d.Evidence[d.sender].regular())
	}
	return true
}

// clean reports whether some mail of a network was neither flagged nor spam in the last days, or none of it
// was reported. A listing by older votes would otherwise outlast the spam by weeks, and a server that hands
// on lists and spam would be suspected with its lists.
func (d *decision) clean(network int) bool {
	return d.Findings[network].Spam == 0 || d.Evidence[network].Good >= cleanMails
}

// known reports whether a network sends much other mail than spam, for its reports, and did so before
// today: a server of lists, for example. The copies that a campaign has sent from there today do not count.
func (d *decision) known(network int) bool {
	least := cleanMails + unreportedCopies*float64(d.Findings[network].Spam)
	return float64(d.Evidence[network].Good) >= least && d.Evidence[network].settled() >= least
}

func (d *decision) isListed(i int) bool { return d.Findings[i].Judged == bulkhead.JudgedSpam }

// common reports whether unrelated senders use a link, as this node has seen or as the shipped list
// says, a claimed name, a contact, such as the telephone number of all meetings of a service, or a file, such as the
// icon of a social network. Votes on what all use say
// nothing of one sender, so it decides nothing by itself. The place of one customer on a platform has a
// link of its own. An address is common, and so is its domain, if its mail claims many names: a platform
// sends the mail of its customers.
func (d *decision) common(i int) bool {
	s := d.Signatures[i].Scheme()
	if i == d.parts.Domain && d.parts.Address >= 0 {
		i = d.parts.Address
	}
	e := &d.Evidence[i]
	switch {
	case s != bulkhead.Link && s != bulkhead.Claim && s != bulkhead.Attachment && s != bulkhead.Contact &&
		i != d.parts.Address:
		return false
	case s == bulkhead.Link && wellknown.Domain(d.Signatures[i].Sum()):
		return true
	case !e.Common() && !slices.Contains(d.counted, i):
		d.counted = append(d.counted, i)
		e.Addresses = max(e.Addresses, d.Pairs.Senders(i))
	}
	return e.Common()
}

// condemns reports whether a part is listed and makes the message spam. A common part does not, nor does a usual file
// from a sender of good standing. Any other link needs more strength in the mail of a verified sender without reports,
// because all kinds of mail link to sites that some spam also links to. It needs that much for each verified domain
// that sent it: the fifth makes the link common, and peers may have seen some of them.
func (d *decision) condemns(i int) bool {
	switch {
	case !d.isListed(i) || d.common(i):
		return false
	case d.Signatures[i].Scheme() == bulkhead.Attachment && d.senderGood && d.usualFile(i):
		return false
	case d.Signatures[i].Scheme() != bulkhead.Link:
		return true
	case d.otherPlaces(i):
		return false
	case !d.blameless():
		return true
	}
	e := &d.Evidence[i]
	return d.Policy.Strength(e, twoVotes) >= Need(bulkhead.LinkFacet, e)+twoVotes*max(1, e.users())-slack
}

// usualFile reports whether an attachment came with mail of several days, as often as it was reported: the logo in all
// mail of a bank, or the terms of a shop. Spam that imitates the sender has the same file, and its reports say little
// about the file.
func (d *decision) usualFile(i int) bool {
	e := &d.Evidence[i]
	return e.Days >= usualDays && e.settled() >= e.reported()
}

// otherPlaces reports whether the message links to certain places in a domain alone, such as the pages of one list of
// a server, that are not listed, and were often delivered for the reports of the domain. Most of these reports are then
// of other places.
func (d *decision) otherPlaces(domain int) bool {
	any, least := false, placeDeliveries*d.Evidence[domain].reported()
	for _, i := range d.parts.Links {
		host, _, isPlace := bytes.Cut(d.Signatures[i].Sum(), []byte{'/'})
		if !isPlace || !Within(host, d.Signatures[domain].Sum()) {
			continue
		}
		if any = true; d.isListed(i) || d.Evidence[i].deliveries() < least {
			return false
		}
	}
	return any
}

// fresh reports whether a link that was never delivered to speak of was reported together with the
// message that it came with. One vote is then enough: no known sender or network links there, and a sender
// that was verified needs a link that is newer still.
func (d *decision) fresh(i int) bool {
	e := &d.Evidence[i]
	most := freshOfVerified
	switch {
	case d.nobodyAnswers():
		most = freshDeliveries
	case d.sender < 0: // the door may know less than the sender's own server
		return false
	}
	isNew := e.Good == 0 && e.deliveries() <= float64(most) && e.settled() <= freshOfVerified
	return isNew && d.Findings[i].Judged != bulkhead.Revoked && !d.knownNetwork() &&
		d.Policy.doubts(bulkhead.LinkFacet, e, e.history()) && !d.common(i)
}

// suspected reports whether a part is under suspicion, was not revoked and is not common. A listed link is also under
// suspicion.
func (d *decision) suspected(i int) bool {
	f, e := d.Signatures[i].Scheme().Facet(), &d.Evidence[i]
	if f == bulkhead.SenderFacet && e.regular() && d.Policy.Strength(e, twoVotes) < twoVotes-slack {
		return false
	}
	return d.Findings[i].Judged != bulkhead.Revoked && d.Policy.suspected(f, e) && !d.common(i)
}

// knownNetwork reports whether no sender was verified, and the message comes from a known network.
func (d *decision) knownNetwork() bool {
	return d.sender < 0 && slices.ContainsFunc(d.parts.Networks, d.known)
}

// familiar reports whether mail of earlier days came from the network and had each of the links, and none of it was
// reported. A text similar to an abused one may then be the sender's own, as in ownMail. Links that all use are no
// sender's.
func (d *decision) familiar() bool {
	if !slices.ContainsFunc(d.parts.Networks, d.unblamed) {
		return false
	}
	own := false
	for _, i := range d.parts.Links {
		known := d.unblamed(i)
		if !known && !d.common(i) {
			return false
		}
		own = own || known && !wellknown.Domain(d.Signatures[i].Sum())
	}
	return own
}

// before reports whether mail with a part was delivered at least half a day ago, here or at peers.
func (d *decision) before(i int) bool { return d.Evidence[i].settled() > 0 || d.Pairs.Vouched(i) }

// unblamed reports whether mail with a part was delivered at least half a day ago, and none was reported.
func (d *decision) unblamed(i int) bool {
	return d.Findings[i].Spam == 0 && d.Evidence[i].blameless() && d.before(i)
}

// twoVotes and unanswered are rules for changed copies of a listed text that readers often report.
func (d *decision) twoVotes() bool {
	t := &d.text
	if !d.listed || t.part() || t.strength < twoVotes-slack || !t.often() {
		return false
	}
	if t.unlike() {
		return !d.ownMail() || !d.seen()
	}
	return t.good == 0 && !d.ownMail()
}

func (d *decision) unanswered() bool {
	t := &d.text
	return d.listed && d.nobodyAnswers() && t.good == 0 && t.often() && !(t.part() && t.usual())
}

// often reports whether the text was reported often for the number of its copies. A template that
// unrelated senders use, such as a password reset, is delivered often and reported by mistake.
func (t *text) often() bool { return t.recent() <= copiesOfVote*t.reported }

// unlike reports whether the text was reported with two different senders or links.
func (t *text) unlike() bool { return t.contexts >= 2 }

// part reports whether the message contains less than half of the text.
func (t *text) part() bool { return t.scheme == bulkhead.Part && t.bands < PartWhole }

// usual reports whether the text was delivered before today as often as it was reported: the notices of an office's
// telephones, the footer of a club, or the frame of a contact form. A few reports of spam that imitates it say little
// of the next one. A spammer can prepare links and networks, but not for a new text.
func (t *text) usual() bool { return t.old >= t.reported }

// usualText reports whether a usual text came from where its mail comes from: from a network and with links that are
// familiar, or on several days from a network that sent much mail for its reports. Mail from private addresses has no
// network: spam from elsewhere cannot come from there. A verified sender is no worse than none, if it had mail and none
// was reported.
func (d *decision) usualText() bool {
	if !d.listed || !d.text.usual() || d.sender >= 0 && !d.unblamed(d.sender) {
		return false
	}
	return d.familiar() || d.text.days >= usualDays && (d.Inside || slices.ContainsFunc(d.parts.Networks, d.daily))
}

// daily reports whether a network had mail on several days before today, and much of it for its reports.
func (d *decision) daily(network int) bool {
	e := &d.Evidence[network]
	return e.Days >= usualDays && e.settled() >= unreportedCopies*e.reported()
}

// recent returns the number of copies of the text, of which recent ones count less.
func (t *text) recent() float64 { return t.old + 0.3*t.new }

// nobodyAnswers reports whether no sender was verified, by a door that could verify, on
// a mature node.
func (d *decision) nobodyAnswers() bool {
	return d.Policy.Mature && len(d.parts.Networks) > 0 && d.sender < 0
}

// blameless reports whether the sender is verified and none of its mail was reported as spam.
func (d *decision) blameless() bool {
	return d.sender >= 0 && d.Evidence[d.sender].blameless()
}

// ownMail reports whether the sender is blameless and all links are its own. A text similar to an
// abused one may then be the sender's own.
func (d *decision) ownMail() bool {
	return d.blameless() && !slices.ContainsFunc(d.parts.Links,
		func(i int) bool { return d.parts.Foreign(d.Signatures, d.Evidence, i) && !d.common(i) })
}

// seen reports whether mail of the verified sender was delivered at least half a day ago.
func (d *decision) seen() bool { return d.sender >= 0 && d.before(d.sender) }

// linksStand reports whether there are links and all of them, including the sender's
// own, are of good standing with more deliveries than the text has reports.
func (d *decision) linksStand() bool {
	for _, i := range d.parts.Links {
		if !d.standing(i) || float64(d.Evidence[i].Old) < d.text.reported {
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
	} else if d.listed && slices.ContainsFunc(texts, d.Policy.revoked) {
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
		s := p.Strength(&texts[i], 1)
		if p.revoked(texts[i]) {
			s = min(s, 0) // the node's own decision is final
		}
		most, least = max(most, s), min(least, s)
	}
	return most + least
}
