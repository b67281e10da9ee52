package verdict

import (
	"math"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// Evidence is the data on one signature in addition to the counts of its finding.
type Evidence struct {
	Votes trust.Balance // of the node's own latest votes, in units of 1 / [Unit]
	// roots' votes for spam, each whole regardless of how its blame was shared; in units of 1 / [Unit]
	Unblamed int64
	Own      State // in the node's own blocklist
	Peers    Peers
	// Off means that a revocation filter of the node or of a peer has it.
	Off bool

	// Deliveries are copies that roots received and that were not called spam on arrival. Old is
	// their number before today, New today, and Days the number of days with deliveries before
	// today. Late are those of Old that came in the day before today, while less than half of today
	// has passed: they may be minutes old.
	Old, New, Late uint32
	Days           int

	Good      uint32     // of a text or link: deliveries from senders of good standing
	Elsewhere Deliveries // those of Old, New, Late and Good that peers received
	// of a sender's domain: its distinct addresses; of an address: the distinct names that its mail claims; of a
	// link: the distinct senders, see [Evidence.Common]
	Addresses uint32
	// of a text: the number of different links and senders that were reported with it; of a part: the number of further
	// texts with the part that were reported, see [OfOneText]
	Contexts uint32

	// Set by [Policy.Finding]: the two parts of its error. Unreported is the probability that an
	// unreported signature looks like this, or worse. Turned is the probability that an error of
	// the filters has taken a listed one off, or has listed a revoked one again; 0 if there is no
	// revocation.
	Unreported, Turned float64
}

// Deliveries are numbers of deliveries, as in [Evidence].
type Deliveries struct{ Old, New, Late, Good uint32 }

// Here returns the evidence without the lists and the deliveries of peers. The node's own votes are
// about its own deliveries: a listing by them must not need the votes of peers, which the node does not know.
func (e *Evidence) Here() Evidence {
	here, peers := *e, &e.Elsewhere
	here.Peers, here.Elsewhere = Peers{}, Deliveries{}
	here.Old -= min(e.Old, peers.Old)
	here.New -= min(e.New, peers.New)
	here.Late -= min(e.Late, peers.Late)
	here.Good -= min(e.Good, peers.Good)
	return here
}

// deliveries returns the number of all deliveries.
func (e *Evidence) deliveries() float64 { return float64(e.Old) + float64(e.New) }

// settled returns the number of deliveries that are at least half a day old for certain. In what makes
// mail spam they alone have the weight of earlier days. Otherwise, a sender could deliver copies shortly
// before midnight, and the rest after it.
func (e *Evidence) settled() float64 { return max(0, float64(e.Old)-float64(e.Late)) }

// regular reports whether mail of a sender was delivered for days. One report of it may be a mistake.
func (e *Evidence) regular() bool { return e.settled() >= goodDeliveries && e.Days >= goodDays }

// recent returns the number of the other deliveries.
func (e *Evidence) recent() float64 { return float64(e.New) + float64(e.Late) }

// history returns the weighted number of deliveries. Recent ones, which may be a spammer's own, count
// less than older ones.
func (e *Evidence) history() float64 { return e.settled() + 0.25*e.recent() }

// The constants of judgement. Votes are in promotion weights: with the default, a root's
// vote is 1. They were tuned on simulated streams of real mail; docs/judgement.md
// describes their effects.
const (
	// The strengths at which one vote, two and three are enough. A single vote falls in shares on parts that
	// were delivered, two may be a root's and a trap's.
	oneVote, twoVotes, threeVotes = 2.0 / 3, 1.5, 2.5
	wantedBelow                   = -0.5 // strength of a pair that a root wants

	// Additional votes for each delivery. reportRate is above the rate of mistaken reports, at most 0.003, and
	// not above the rate of correct reports, at least 0.02. Texts without a sender, and files, have
	// lower rates, because no sender answers for them.
	reportRate = 0.02
	textRate   = 0.002
	namedRate  = 0.005
	// networkRate is the rate of networks. If one recipient in ten reports, it lists a network with
	// more than half of its unverified mail spam. A host that forwards other people's mail stays
	// below it.
	networkRate = 0.06
	// A network from which at least cleanMails of the last days' mail were neither flagged nor spam is
	// under no suspicion. For a network to be known, one report stands for unreportedCopies of spam.
	cleanMails, unreportedCopies = 10, 12
	// objection is the factor by which a vote against the listing of a network outweighs a vote for
	// it: the objector has mail from there and is not to blame for other mail of the network.
	objection = 2.0
	// goodRate is the rate of links for mail of senders of good standing. At this rate, if one
	// recipient in ten reports, there is as much spam with the link as such mail.
	goodRate = 0.1
	// knownDeliveries is the number of settled deliveries from which a sender is known, and knownRate their rate. A
	// sender of spam alone is listed before it has that many, if one recipient in ten reports.
	knownDeliveries, knownRate = 30, 0.5

	regularVote = 1.0 // more votes against a regular sender

	// lonelyDeliveries is the number of deliveries of a text with a verified sender that a single
	// vote does not outweigh; today's count half.
	lonelyDeliveries = 5

	goodDeliveries, goodDays = 3, 2 // that make a sender one of good standing
	earnedDeliveries         = 10   // of such a sender, that make its mail good
	// freshDeliveries and freshOfVerified are the most deliveries of a link that a single vote
	// condemns, in mail without and with a verified sender.
	freshDeliveries, freshOfVerified = 17, 2
	placeDeliveries                  = 10   // of a place, for each report of its domain, that spare the place
	sharedAddresses                  = 8    // that make a sender's domain shared
	sharedRate                       = 0.03 // and addresses for each delivery
	commonSenders                    = 5    // that make a link common

	// matureDeliveries is the number of deliveries from verified senders, on goodDays, that makes a node mature. It
	// is enough to have also seen a kind of mail that is one percent of all.
	matureDeliveries = 200
	// familiarDeliveries is enough for a node at which at most a share of newSenders of the deliveries
	// were the first of a sender in a week.
	familiarDeliveries, newSenders = 20, 0.5

	// votesWorth is the number of deliveries that one vote outweighs when a sender or a link is tested for
	// being established, or an address for being of a service.
	votesWorth = 20
	// copiesOfVote is the largest number of copies of a text for each vote at which a changed copy of it
	// may be spam. In the worlds of the judge, mistaken reports of templates came with 40 copies and more
	// each, and more than nine tenths of the campaigns were reported more often than that.
	copiesOfVote = 30
	// usualDays is the number of days on which a usual text and mail of its network were delivered. Most campaigns are
	// reported, and flagged, sooner.
	usualDays = 3
	// serviceDays is the number of days on which a text of a service was delivered.
	serviceDays = 3
)

// Units returns the promotion weight in units of 1 / [Unit]. It is at least 1, so that zero weight
// is never enough.
func (p Policy) Units() int64 { return max(1, int64(math.Round(p.Promotion*Unit))) }

// Strength returns the weight for spam less the weight against it, of the latest votes and of
// peers' lists, in promotion weights. A peer that lists a signature had enough votes itself, so the
// weight at which a peer alone lists counts as base. Strangers can neither list nor unlist what
// roots list: see [trust.Balance].
func (p Policy) Strength(e *Evidence, base float64) float64 {
	unit := p.Units()
	votes := float64(max(e.Votes.Spam-e.Votes.Ham, e.Votes.Strength(unit))) / float64(unit)
	peers := (e.Peers.Spam - e.Peers.Revoked) / p.Promotion * base
	if e.Own == Listed {
		// The node's own decision is final: peers add to it and subtract nothing.
		return max(votes, 1) + max(0, peers)
	}
	return votes + peers
}

// Need returns the strength from which a signature of a facet is listed, which grows
// with its deliveries. A newsletter or a list's post is delivered within minutes, so all deliveries of links
// and senders count in full.
func Need(f bulkhead.Facet, e *Evidence) float64 {
	switch f {
	case bulkhead.TextFacet:
		return max(1, oneVote+textRate*e.history())
	case bulkhead.LinkFacet:
		return twoVotes + reportRate*e.deliveries() + goodMail(f, e)
	case bulkhead.SenderFacet:
		return twoVotes + reportRate*e.deliveries() + knownMail(e)
	case bulkhead.AttachmentFacet, bulkhead.ContactFacet, bulkhead.ClaimFacet, bulkhead.ImageFacet:
		return twoVotes + namedRate*e.history()
	case bulkhead.NetworkFacet: // a listing hits all mail without a verified sender from there
		return threeVotes + networkRate*e.history()
	}
	return 1
}

// base returns the strength that lists a signature of a facet without deliveries.
func base(f bulkhead.Facet) float64 { return Need(f, &Evidence{}) }

// goodMail returns the additional strength needed to list a link in mail of senders of
// good standing, because listing it would hit their mail.
func goodMail(f bulkhead.Facet, e *Evidence) float64 {
	if f != bulkhead.LinkFacet {
		return 0
	}
	return goodRate * float64(e.Good)
}

// knownMail returns the additional strength needed to list a sender whose mail was delivered for days before. Such a
// sender may be a service that some spammers use beside many others, and listing it would hit the mail of all. A
// regular sender of less mail needs one vote more: two mistakes in a score of mails are not rare, and a listing lasts.
func knownMail(e *Evidence) float64 {
	switch {
	case !e.regular():
		return 0
	case e.settled() < knownDeliveries:
		return regularVote
	}
	return knownRate * e.settled()
}

// NeedOfPair is [Need] for a text together with a sender or link. n is the lesser history of the
// two, and good reports whether the sender or link is of good standing.
func NeedOfPair(n float64, good bool) float64 {
	if good {
		return threeVotes + reportRate*n
	}
	return 1 + reportRate*n
}

// Lists reports whether the weight of a signature of a facet is enough to list it,
// unless the node's own blocklist has revoked it.
func (p Policy) Lists(f bulkhead.Facet, e *Evidence) bool {
	s := p.Strength(e, base(f))
	if f == bulkhead.NetworkFacet {
		s -= objection * float64(e.Votes.Ham) / float64(p.Units())
	}
	return s >= Need(f, e)-slack
}

// ListsPair is [Policy.Lists] for a text together with a sender or link. e is the evidence of the
// pair, and good reports whether the context is of good standing.
func (p Policy) ListsPair(e, text, context *Evidence, good bool) bool {
	return p.Strength(e, 1) >= NeedOfPair(min(text.history(), context.history()), good)-slack
}

// Share returns the share of a vote for spam that falls on a part of a message with est deliveries.
// The newest part has least deliveries and takes the whole vote; well-known parts take hardly any
// of it.
func Share(least, est float64) float64 { return (votesWorth + least) / (votesWorth + est) }

// judged returns the judgement of a signature of a facet by the blocklists, if its votes
// still suffice.
func (p Policy) judged(f bulkhead.Facet, e *Evidence) bulkhead.Judgement {
	j := Judge(e.Own, e.Peers, p.Promotion)
	if j == bulkhead.JudgedSpam && !p.Lists(f, e) {
		return bulkhead.Unjudged
	}
	return j
}

// suspected reports whether a signature that is not listed is under suspicion. All deliveries before today
// weigh as such: a bulletin of the evening before, reported once by mistake, would be suspected all morning.
func (p Policy) suspected(f bulkhead.Facet, e *Evidence) bool {
	return p.doubts(f, e, float64(e.Old)+0.25*float64(e.New))
}

// doubts is [Policy.suspected] for a weighted number of deliveries.
func (p Policy) doubts(f bulkhead.Facet, e *Evidence, history float64) bool {
	return p.Strength(e, base(f)) >= oneVote+reportRate*history+goodMail(f, e)-slack
}

// Good reports whether a sender or link is of good standing: known for days, and hardly disputed. A
// link needs deliveries from such senders, because a campaign's own link may be delivered for days
// before its first report.
func (p Policy) Good(f bulkhead.Facet, e *Evidence) bool {
	if f == bulkhead.LinkFacet && e.Good < goodDeliveries {
		return false
	}
	return e.Old >= goodDeliveries && e.Days >= goodDays && !p.suspected(f, e)
}

// Mature reports whether a node knows its usual senders, given its deliveries from all verified
// senders. Before that, or if no sender is verified, anything that a mailing list adds to all mail is
// as new as a spammer's own link, and no known sender excuses it. A small site is mature as soon as
// at least half of its mail comes from senders that it knows. Its peers' deliveries count.
func Mature(e *Evidence) bool {
	familiar := e.Old >= familiarDeliveries && float64(e.Addresses) <= newSenders*e.deliveries()
	return e.Days >= goodDays && (e.Old >= matureDeliveries || familiar)
}

// Shared reports whether many unrelated senders use a domain, so that none of them answers for the
// others.
func (e *Evidence) Shared() bool {
	return e.Addresses >= sharedAddresses && float64(e.Addresses) > sharedRate*e.deliveries()
}

// Common reports whether at least five unrelated senders use a link. A sender is a verified domain,
// other than the link's own, whose mail with the link was delivered here. For an address, a sender is a claimed name.
func (e *Evidence) Common() bool { return e.users() >= commonSenders }

// users returns the number of senders of a link that count. A campaign may have a verified name for each copy, so the
// senders of a first day do not count: a delivery brings one sender at most.
func (e *Evidence) users() float64 {
	all := float64(e.Addresses)
	if e.Days < goodDays {
		return max(0, all-e.deliveries())
	}
	return max(min(all, e.settled()), all-e.recent())
}

// Established returns the number of deliveries that remain after subtracting the deliveries that
// votes outweigh. It compares parts of one message, which have the same midnight.
func (e *Evidence) Established() float64 {
	return math.Max(0, float64(e.Old)+0.3*float64(e.New)-votesWorth*float64(e.Unblamed)/Unit)
}

// Single reports whether no other mail had a link.
func (e *Evidence) Single() bool { return e.deliveries() <= 1 }

// Recurrent reports whether other mail had a link, little of it before today, and none by senders of good standing.
func (e *Evidence) Recurrent() bool {
	return !e.Single() && e.settled() <= freshDeliveries && e.Good == 0
}

// Novelty is the degree to which a part of a message is blamed rather than others:
// higher for less established ones.
func (e *Evidence) Novelty() float64 { return 1 / (votesWorth + e.Established()) }

// Guarded reports whether senders of good standing send a text, so that it alone makes
// nothing spam.
func (e *Evidence) Guarded() bool { return e.Good >= goodDeliveries }

// blameless reports whether no vote for spam fell on mail with a part, here or at a peer.
func (e *Evidence) blameless() bool { return e.Unblamed == 0 && e.Peers.Spam == 0 }

// reported returns the number of roots' votes for spam, each whole, regardless of votes against it. A peer that lists
// counts with its weight.
func (e *Evidence) reported() float64 {
	return float64(max(e.Votes.Spam, e.Unblamed))/Unit + e.Peers.Spam
}
