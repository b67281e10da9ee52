package resolve

import (
	"math"
	"math/bits"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
)

// A Gathering is a sign of an attack, before it succeeds or when it does. It is one of these: a
// number of voters on one side of a text, or against a sender of good standing or a known network,
// whose weight is not yet enough; peers whose lists are not yet enough; a vote that lists a text
// that many received; a text that is listed and taken off again and again; a letter of a known
// sender that spreads further than any mail of that sender before.
type Gathering struct {
	Signature  bulkhead.Signature
	Vote       bulkhead.Vote // the latest one
	Voters     uint32        // on its side, in the live generations of the tally
	Deliveries uint32        // of the text, or of the sender; for a letter that spreads, all sightings
	Reporter   string        // the account that cast the latest vote, "" if it has no name
	Lists      bool          // the vote lists a text that many received
	Turns      int           // how often the text was listed in this generation, if that is often enough to report
	Spreads    bool          // the vote is a sighting of a letter that spreads
	// Peers is the weight of the peers that list the signature, in promotion weights, if the
	// gathering is about peers. The vote is then theirs.
	Peers float64
}

const (
	// leastGathering is the number of voters at which a gathering on a text is first noted.
	leastGathering = 5
	// leastReceived is the number of deliveries of a text from which a vote that lists it is
	// reported.
	leastReceived = verdict.Many
	// leastKnown is the number of deliveries on earlier days that make a network known.
	leastKnown = 3
	// leastTurns is the number of listings of one text in a generation that is first reported.
	leastTurns = 4
	// leastPeers is the weight of peers' lists that is first reported, in promotion weights: half
	// of the weight that lists a signature without deliveries.
	leastPeers = 0.5
)

// Gatherings returns the gatherings of the batch so far. There is one each time that the voters on
// one side of a text reach 5, 10, 20 and so on, the voters against a known sender 1, 2, 4 and so
// on, the voters against a known network 2, 4 and so on, and the listings of a text 4, 8 and so on.
// There is also one each time that the weight of the peers that list delivered mail reaches 1/2, 1,
// 2 and so on. The slice is valid until the next Begin.
func (r *Resolver) Gatherings() []Gathering { return r.noticed.gatherings }

// spreads records that a letter is on its way to becoming bulk, which one person with many
// mailboxes can cause. The letter is from a sender of good standing with fewer deliveries before
// today than make a text bulk, and already has a quarter of that number of sightings. It is
// recorded once for each text.
func (r *Resolver) spreads(m *Message, n uint32) {
	seen, bulk := &m.Seen, r.opts.Threshold()
	if n == 0 || seen.Caught || !seen.GoodSender || seen.History >= bulk || book.Add(seen.Sightings, n) < max(2, bulk/4) {
		return
	}
	which := identity(m)
	if text := m.Keys[which]; !r.noticed.spreading[text] {
		bound(r.noticed.spreading)
		r.noticed.spreading[text] = true
		r.noticed.gatherings = append(r.noticed.gatherings, Gathering{
			Signature: m.Signatures[which], Vote: m.Vote, Deliveries: book.Add(seen.Sightings, n),
			Reporter: m.Reporter.Account, Spreads: true,
		})
	}
}

// accused records that peers together list a signature that is still delivered here, because many
// received it or its sender is known. A few more peers, or the vote of a local user, may be enough
// to list it. It is recorded when a copy is delivered, and again whenever the weight has doubled.
func (r *Resolver) accused(m *Message) {
	a := &m.Seen.Accused
	if m.Seen.Caught || a.Peers < leastPeers {
		return
	}
	level := 1 + math.Ilogb(a.Peers/leastPeers)
	if r.noticed.accusing[a.Signature] >= level {
		return
	}
	bound(r.noticed.accusing)
	r.noticed.accusing[a.Signature] = level
	r.noticed.gatherings = append(r.noticed.gatherings, Gathering{Signature: a.Signature, Vote: bulkhead.Spam,
		Deliveries: a.Deliveries, Peers: a.Peers})
}

// maxNoticed bounds each map of what was noticed.
const maxNoticed = 4096

// bound empties a map that is full.
func bound[K comparable, V any](m map[K]V) {
	if len(m) >= maxNoticed {
		clear(m)
	}
}

// watch records the gatherings that a vote on an item causes. changed reports whether the vote
// changed the item's listing, and turn is the turn in which it listed it. watch considers the exact
// text of a message, its first band, which changed copies share, the sender's address, and the
// network.
func (r *Resolver) watch(m *Message, who *voter, i int, changed bool, turn int) {
	it, s := &r.items[i], &m.Signatures[i]
	e := &r.present.evidence[i]
	g := Gathering{Signature: *s, Vote: m.Vote, Deliveries: e.Old + e.New, Reporter: who.name}
	text := s.Scheme() == bulkhead.Exact || s.Scheme() == bulkhead.Near && i == r.present.band
	spam, isSpam := it.judged == bulkhead.JudgedSpam, m.Vote == bulkhead.Spam
	least := uint32(0) // number of voters from which it is noted
	switch {
	case text && changed && isSpam && g.Deliveries >= leastReceived:
		g.Lists = true
	case text && turn >= leastTurns && reaches(uint32(turn), leastTurns):
		g.Turns = turn
	case changed || !it.voter || spam && isSpam:
		return
	case text:
		least = leastGathering
	case isSpam && it.facet == bulkhead.SenderFacet && verdict.KindOf(s.Sum()) == verdict.Address &&
		r.policy.Good(it.facet, e):
		least = 1
	case isSpam && it.facet == bulkhead.NetworkFacet && e.Old >= leastKnown && e.Days > 1:
		least = 2
	default:
		return
	}
	g.Voters = r.votersOf(it, m.Vote)
	// Only more voters than deliveries excuse a text that is not listed.
	excuses := least == leastGathering && !spam && !isSpam
	if least > 0 && !reaches(g.Voters, least) || excuses && g.Voters <= g.Deliveries {
		return
	}
	r.noticed.gatherings = append(r.noticed.gatherings, g)
}

// reaches reports whether n is a number to report: least, twice least, four times least and so on.
func reaches(n, least uint32) bool {
	return n > 0 && n%least == 0 && bits.OnesCount32(n/least) == 1
}

// votersOf returns the number of voters on the vote's side of an item, including this vote.
func (r *Resolver) votersOf(it *item, v bulkhead.Vote) uint32 {
	switch v {
	case bulkhead.Spam:
		return r.tallied(it.key, evidence.Spam)
	case bulkhead.Ham:
		return r.tallied(it.key, evidence.Ham)
	}
	bound(r.noticed.revokers)
	r.noticed.revokers[it.key]++
	return r.noticed.revokers[it.key]
}
