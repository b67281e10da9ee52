package resolve

import (
	"math/bits"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
)

// A Gathering is a number of voters on one side of a text whose weight is not yet enough.
// An attack looks like this before it succeeds.
type Gathering struct {
	Signature  bulkhead.Signature
	Vote       bulkhead.Vote // the latest one
	Voters     uint32        // on its side, in the live generations of the tally
	Deliveries uint32        // of the text
	Reporter   string        // the account that cast the latest vote, "" if it has no name
}

// leastGathering is the number of voters at which a gathering is first noted.
const leastGathering = 5

// Gatherings returns those of the batch so far: one each time that the voters on one side
// of a text reach 5, 10, 20 and so on. The slice is valid until the next Begin.
func (r *Resolver) Gatherings() []Gathering { return r.gatherings }

// maxRevoked bounds the texts whose revocations are counted in memory, since no array of
// the engine counts them. When there are more, counting begins anew.
const maxRevoked = 4096

// gather notes one more voter on a text whose vote did not change its listing.
func (r *Resolver) gather(s bulkhead.Signature, it *item, m *Message, who *voter) {
	var n uint32
	switch m.Vote {
	case bulkhead.Spam:
		n = r.voters(it.key.With(evidence.Spam))
	case bulkhead.Ham:
		n = r.voters(it.key.With(evidence.Ham))
	case bulkhead.Revocation:
		if len(r.revokers) >= maxRevoked {
			clear(r.revokers)
		}
		r.revokers[it.key]++
		n = r.revokers[it.key]
	}
	if n > 0 && n%leastGathering == 0 && bits.OnesCount32(n/leastGathering) == 1 {
		e := &it.record.Evidence
		r.gatherings = append(r.gatherings, Gathering{s, m.Vote, n, e.Old + e.New, who.name})
	}
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
