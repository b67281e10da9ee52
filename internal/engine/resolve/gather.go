package resolve

import (
	"math"
	"math/bits"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
)

// A Gathering is what an attack looks like before it succeeds, or when it does: a number of
// voters on one side of a text, or against a sender of good standing or a known network, whose weight is not yet
// enough; peers whose lists are not yet enough; a vote that lists what many received; a text
// that is listed and taken off again and again; or a letter of a known sender that spreads as
// no mail of that sender did.
type Gathering struct {
	Signature  bulkhead.Signature
	Vote       bulkhead.Vote // the latest one
	Voters     uint32        // on its side, in the live generations of the tally
	Deliveries uint32        // of the text, or of the sender; of a letter that spreads, all sightings
	Reporter   string        // the account that cast the latest vote, "" if it has no name
	Lists      bool          // the vote lists a text that many received
	Turns      int           // how often the text was listed in this generation, if that is worth a word
	Spreads    bool          // the vote is a sighting of a letter that spreads
	// Peers is how much the peers that list the signature weigh, in promotion weights, if that
	// is what is noted; the vote is then theirs.
	Peers float64
}

const (
	// leastGathering is the number of voters at which a gathering on a text is first noted.
	leastGathering = 5
	// leastReceived is how many deliveries are many, if a vote lists what was delivered.
	leastReceived = verdict.Many
	// leastKnown is how many deliveries of earlier days make a network known, if it is voted against.
	leastKnown = 3
	// leastTurns is how many listings of one text in a generation are noted first.
	leastTurns = 4
	// leastPeers is the weight of peers' lists that is noted first, in promotion weights: half
	// of what lists that which nobody received.
	leastPeers = 0.5
)

// Gatherings returns those of the batch so far: one each time that the voters on one side
// of a text reach 5, 10, 20 and so on, those against a known sender 1, 2, 4 and so on, those
// against a known network 2, 4 and so on, the listings of a text 4, 8 and so on, and the weight of the
// peers that list what is delivered
// all the same 1/2, 1, 2 and so on. The slice is valid until the next Begin.
func (r *Resolver) Gatherings() []Gathering { return r.gatherings }

// spreads notes that a letter is on the way to being bulk that so many mailboxes of one
// person can make of it: it is from a sender of good standing, of all whose mail fewer were
// delivered before today than make one text bulk, and has a quarter of those sightings. It
// is noted once for a text.
func (r *Resolver) spreads(m *Message, n uint32) {
	seen, bulk := &m.Seen, r.opts.Threshold()
	if n == 0 || seen.Caught || !seen.GoodSender || seen.History >= bulk || book.Add(seen.Sightings, n) < max(2, bulk/4) {
		return
	}
	which, _ := identities(m)
	if text := m.Keys[which]; !r.spreading[text] {
		if len(r.spreading) >= maxRevoked {
			clear(r.spreading)
		}
		r.spreading[text] = true
		r.gatherings = append(r.gatherings, Gathering{
			Signature: m.Signatures[which], Vote: m.Vote, Deliveries: book.Add(seen.Sightings, n),
			Reporter: m.Reporter.Account, Spreads: true,
		})
	}
}

// accused notes that peers list together what is delivered here all the same, because many
// received it or its sender is known: a few more of them, or a vote of a user here, may be
// enough. It is noted when a copy is delivered, again whenever the weight has doubled.
func (r *Resolver) accused(m *Message) {
	a := &m.Seen.Accused
	if m.Seen.Caught || a.Peers < leastPeers {
		return
	}
	level := 1 + math.Ilogb(a.Peers/leastPeers)
	if r.accusing[a.Signature] >= level {
		return
	}
	if len(r.accusing) >= maxRevoked {
		clear(r.accusing)
	}
	r.accusing[a.Signature] = level
	r.gatherings = append(r.gatherings, Gathering{Signature: a.Signature, Vote: bulkhead.Spam, Deliveries: a.Deliveries,
		Peers: a.Peers})
}

// maxRevoked bounds the texts whose revocations are counted in memory, since no array of
// the engine counts them, those that are known to spread, and what peers are known to list.
// When there are more, each begins anew.
const maxRevoked = 4096

// watch notes what is worth a word in what the vote did to an item: whether it changed the
// item's listing, and in which turn it listed it. Of a message it looks at the exact text, the
// first band, which changed copies share, the sender's address, and the network.
func (r *Resolver) watch(m *Message, who *voter, i int, changed bool, turn int) {
	it, s := &r.items[i], &m.Signatures[i]
	e := &r.evidence[i]
	g := Gathering{Signature: *s, Vote: m.Vote, Deliveries: e.Old + e.New, Reporter: who.name}
	text := s.Scheme() == bulkhead.Exact || s.Scheme() == bulkhead.Near && i == r.band
	spam, wanted := it.judged == bulkhead.JudgedSpam, m.Vote == bulkhead.Spam
	switch {
	case text && changed && wanted && g.Deliveries >= leastReceived:
		g.Lists, g.Voters = true, r.votersOf(it, m.Vote)
	case text && turn >= leastTurns && reaches(uint32(turn), leastTurns):
		g.Turns, g.Voters = turn, r.votersOf(it, m.Vote)
	case changed || !it.voter || spam && wanted:
		return
	case text && !spam && !wanted: // those who did not receive it excuse what nobody has listed
		if g.Voters = r.votersOf(it, m.Vote); g.Voters <= g.Deliveries || !reaches(g.Voters, leastGathering) {
			return
		}
	case text:
		if g.Voters = r.votersOf(it, m.Vote); !reaches(g.Voters, leastGathering) {
			return
		}
	case wanted && it.facet == bulkhead.SenderFacet && kindOfSender(s.Sum()) == isAddress && r.policy.Good(it.facet, e):
		if g.Voters = r.votersOf(it, m.Vote); !reaches(g.Voters, 1) {
			return
		}
	case wanted && it.facet == bulkhead.NetworkFacet && e.Old >= leastKnown && e.Days > 1:
		if g.Voters = r.votersOf(it, m.Vote); !reaches(g.Voters, 2) {
			return
		}
	default:
		return
	}
	r.gatherings = append(r.gatherings, g)
}

// reaches reports whether n is a number at which a word is said: least, twice that, and so on.
func reaches(n, least uint32) bool {
	return n > 0 && n%least == 0 && bits.OnesCount32(n/least) == 1
}

// votersOf returns how many voted as the vote does on an item, this vote included.
func (r *Resolver) votersOf(it *item, v bulkhead.Vote) uint32 {
	switch v {
	case bulkhead.Spam:
		return r.voters(it.key.With(evidence.Spam))
	case bulkhead.Ham:
		return r.voters(it.key.With(evidence.Ham))
	}
	if len(r.revokers) >= maxRevoked {
		clear(r.revokers)
	}
	r.revokers[it.key]++
	return r.revokers[it.key]
}

// voters returns how many voted on one side of a text, this vote included.
func (r *Resolver) voters(k filter.Key) (sum uint32) {
	for _, g := range r.view.Tally.Live {
		r.keys = append(r.keys[:0], k)
		n := r.countAll(g.Counts)
		r.over.Counts(g.Start, r.keys, n)
		sum = book.Add(sum, n[0])
	}
	return sum
}
