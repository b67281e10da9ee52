package resolve

import (
	"math/bits"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
)

// A Gathering is a number of voters on a text whose weight has not got them what they
// vote for: that is what an attack looks like before it succeeds.
type Gathering struct {
	Signature  bulkhead.Signature
	Vote       bulkhead.Vote // the latest one
	Voters     uint32        // on its side, in the generations of the tally that live
	Deliveries uint32        // of the text
	Reporter   string        // the account that cast the latest vote, "" if it has no name
}

// leastGathering is how many voters are a gathering, when they are noted first.
const leastGathering = 5

// Gatherings returns those of the batch so far: one each time that the voters on one
// side of a text have become 5, 10, 20 and so on. It is valid until the next Begin.
func (r *Resolver) Gatherings() []Gathering { return r.gatherings }

// maxRevoked bounds the texts of which revocations are counted here: no array of the
// engine counts who cast them. When there are more, counting begins anew.
const maxRevoked = 4096

// gather notes one more voter on a text, who did not get what the vote is for.
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

// voters returns how many there are on one side of a text, this vote's included.
func (r *Resolver) voters(k filter.Key) (sum uint32) {
	for _, g := range r.view.Tally.Live {
		r.keys = append(r.keys[:0], k)
		n := r.countAll(g.Counts)
		r.over.Counts(g.Start, r.keys, n)
		sum = book.Add(sum, n[0])
	}
	return sum
}
