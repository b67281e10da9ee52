package verdict

import (
	"math"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// Evidence is what is known of one signature in addition to the counts of its finding.
type Evidence struct {
	Votes    trust.Balance // of the node's own latest votes, 1 / [Unit] each
	Unblamed int64         // roots' votes for spam, each whole, however its blame was shared; 1 / [Unit] each
	Own      State         // in the node's own blocklist
	Peers    Peers
	// Off means that a revocation filter has it, of the node or of a peer.
	Off bool

	// Deliveries: copies that roots received and that were not called spam then, before
	// today and today, and the number of days before today.
	Old, New uint32
	Days     int

	Good uint32 // of a text or link: deliveries from senders of good standing
	// of a sender's domain: its distinct addresses; of a link: the distinct senders, see [Evidence.Common]
	Addresses uint32
	Contexts  uint32 // of a text: how many different links and senders were reported with it

	// Set by [Policy.Finding]: the two parts of its error. Unreported is the probability
	// that an unreported signature looks like this, or worse. Turned is the probability
	// that chance has taken a listed one off, or has listed a revoked one again; 0 if there
	// is no revocation.
	Unreported, Turned float64
}

// deliveries are all of them.
func (e *Evidence) deliveries() float64 { return float64(e.Old) + float64(e.New) }

// history returns how many deliveries count: today's, which may be a spammer's own, less
// than older ones.
func (e *Evidence) history() float64 { return float64(e.Old) + 0.25*float64(e.New) }

// The constants of judgement. Votes are in promotion weights: with the default, a root's
// vote is 1. They were tuned on simulated streams of real mail; docs/judgement.md
// describes their effects.
const (
	textBase  = 2.0 / 3 // and never less than the promotion weight
	namedBase = 1.5     // of a link, sender, attachment, picture or contact: two roots, or one and a trap
	// networkBase is of the network that mail comes from for which nobody answers: three roots,
	// since listing it hits all such mail from there.
	networkBase  = 2.5
	pairBase     = 1.0
	goodPairBase = 2.5 // of a text with a sender or link of good standing

	// Additional votes for each delivery. The rates of texts with a verified sender and
	// of pairs are above the rate of mistaken reports, 0.003 at most, and not above that
	// of correct ones, 0.02 at least.
	textRate     = 0.002
	answeredRate = 0.02
	namedRate    = 0.005
	senderRate   = 0.01 // of a sender, with half of today's: a newsletter is sent in a day
	linkRate     = 0.02 // of links, which ham often has in common with some spam
	// networkRate is that of a network more than half of whose unverified mail is spam, if one
	// recipient in ten reports. A host that forwards other people's mail stays below it.
	networkRate = 0.06
	// objection is how much more a vote against the listing of a network weighs than one for it:
	// whoever objects has mail from there and is not to blame for the rest.
	objection = 2.0
	pairRate  = 0.02
	// goodRate is that of links for mail of senders of good standing: where one
	// recipient in ten reports, there is as much spam with the link as such mail.
	goodRate = 0.1

	// answeredLink is the additional strength that a link needs in mail of a verified sender
	// of whom nobody reported anything.
	answeredLink = 1.5

	suspicionBase = 2.0 / 3
	wantedBelow   = -0.5 // strength of a pair that a root wants
	twoVotes      = 1.5  // more than one root's vote

	// lonelyDeliveries is how many deliveries of a text with a verified sender a single vote
	// does not outweigh; today's count half.
	lonelyDeliveries = 5

	goodDeliveries, goodDays = 3, 2 // that make a good standing
	sharedAddresses          = 8    // that make a sender's domain shared
	sharedRate               = 0.1  // and for each delivery
	commonSenders            = 5    // that make a link common

	// matureDeliveries and matureDays are how many deliveries from verified senders make
	// a node mature: enough that mail of one percent of it has been seen, too.
	matureDeliveries, matureDays = 200, 2

	// votesWorth is how many deliveries one vote outweighs when a text, a sender or a
	// link is tested for being established.
	votesWorth = 20
)

// Units returns the promotion weight in 1 / [Unit], never 0, so that no weight at all is
// never enough.
func (p Policy) Units() int64 { return max(1, int64(math.Round(p.Promotion*Unit))) }

// Strength returns the weight for spam less the weight against it, in promotion weights:
// of the latest votes, and of peers' lists. A peer that lists a signature had enough
// votes itself, so the weight at which a peer alone lists counts as base. Strangers can
// neither list nor unlist what roots list: see [trust.Balance].
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

// base returns the strength that lists a signature of a facet without deliveries.
func base(f bulkhead.Facet) float64 {
	switch f {
	case bulkhead.LinkFacet, bulkhead.SenderFacet, bulkhead.AttachmentFacet, bulkhead.ContactFacet, bulkhead.ClaimFacet,
		bulkhead.ImageFacet:
		return namedBase
	case bulkhead.NetworkFacet:
		return networkBase
	}
	return 1
}

// rate is the additional strength that lists such a signature for each of its deliveries.
func rate(f bulkhead.Facet) float64 {
	switch f {
	case bulkhead.LinkFacet:
		return linkRate
	case bulkhead.NetworkFacet:
		return networkRate
	}
	return namedRate
}

// Need returns the strength from which a signature of a facet is listed, which grows
// with its deliveries.
func Need(f bulkhead.Facet, e *Evidence) float64 {
	switch b := base(f); {
	case f == bulkhead.SenderFacet:
		return b + senderRate*(float64(e.Old)+0.5*float64(e.New))
	case b > 1:
		return b + rate(f)*e.history() + goodMail(f, e)
	case f == bulkhead.TextFacet:
		return max(b, textBase+textRate*e.history())
	}
	return 1
}

// goodMail returns the additional strength needed to list a link in mail of senders of
// good standing, because listing it would hit their mail.
func goodMail(f bulkhead.Facet, e *Evidence) float64 {
	if f != bulkhead.LinkFacet {
		return 0
	}
	return goodRate * float64(e.Good)
}

// NeedOfPair is [Need] of a text together with a sender or link: n is the lesser history
// of the two, and good says whether the sender or link is of good standing.
func NeedOfPair(n float64, good bool) float64 {
	if good {
		return goodPairBase + pairRate*n
	}
	return pairBase + pairRate*n
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

// ListsPair is [Policy.Lists] of a text together with a sender or link: e is of
// the pair, and good says whether the context is of good standing.
func (p Policy) ListsPair(e, text, context *Evidence, good bool) bool {
	return p.Strength(e, pairBase) >= NeedOfPair(min(text.history(), context.history()), good)-slack
}

// Share returns the share of a vote for spam that falls on a part of a message with est
// deliveries, where the newest part has least: all on that, hardly any on well-known
// ones.
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

// suspected reports whether a signature that is not listed is under suspicion.
func (p Policy) suspected(f bulkhead.Facet, e *Evidence) bool {
	return p.Strength(e, base(f)) >= suspicionBase+pairRate*e.history()+goodMail(f, e)-slack
}

// Good reports whether a sender or link is of good standing: known for days, and hardly
// disputed. A link needs deliveries from such senders, because a campaign's own link is
// delivered for days until somebody reports it.
func (p Policy) Good(f bulkhead.Facet, e *Evidence) bool {
	if f == bulkhead.LinkFacet && e.Good < goodDeliveries {
		return false
	}
	return e.Old >= goodDeliveries && e.Days >= goodDays && !p.suspected(f, e)
}

// Mature reports whether a node knows its usual senders, given its deliveries from all
// verified senders. Before that, or if no sender is verified, anything that a mailing
// list adds to all mail is as new as a spammer's own link, with nobody to excuse it.
func Mature(e *Evidence) bool { return e.Old >= matureDeliveries && e.Days >= matureDays }

// Shared reports whether a sender's domain is used by many, so that nobody answers for
// others there.
func (e *Evidence) Shared() bool {
	return e.Addresses >= sharedAddresses && float64(e.Addresses) > sharedRate*e.deliveries()
}

// Common reports whether at least five unrelated senders use a link: verified domains other than
// the link's own, each of which had mail with it delivered here.
func (e *Evidence) Common() bool { return e.Addresses >= commonSenders }

// Established returns how many deliveries are left after those that votes outweigh.
func (e *Evidence) Established() float64 {
	return math.Max(0, float64(e.Old)+0.3*float64(e.New)-votesWorth*float64(e.Unblamed)/Unit)
}

// Novelty is the degree to which a part of a message is blamed rather than others:
// higher for less established ones.
func (e *Evidence) Novelty() float64 { return 1 / (votesWorth + e.Established()) }

// Guarded reports whether senders of good standing send a text, so that it alone makes
// nothing spam.
func (e *Evidence) Guarded() bool { return e.Good >= goodDeliveries }

// reported returns how many roots' votes for spam there are, regardless of those against
// it. A peer that lists counts as its weight.
func (e *Evidence) reported() float64 { return float64(e.Votes.Spam)/Unit + e.Peers.Spam }
