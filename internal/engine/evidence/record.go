package evidence

import (
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
)

// Wants are the aspects of a key to look up; several may be joined by "|".
type Wants uint8

// The aspects.
const (
	// Counts are sightings, voters and deliveries. If they are wanted, weights are read only for
	// keys with votes or listings.
	Counts    Wants = 1 << iota
	Sightings       // sightings alone; wanted for all keys of a reading, or for none
	Delivered       // sightings and deliveries alone; wanted for all keys of a reading, or for none
	Standing        // additionally the kind Good
	Names           // of names: deliveries in past weeks, and the kind Addresses
	Listings        // the blocklists
	Judgement       // Listings, and the weights of votes
	States          // of Listings the states alone, for a vote; wanted for all keys of a reading, or for none
)

// An Ask is one key to be looked up.
type Ask struct {
	Key   filter.Key
	Wants Wants
}

// A Record is the result for one key. Counts stop at filter.Many.
type Record struct {
	Sightings uint32 // of all reporters, each with its weight
	Spam, Ham uint32 // voters
	First     uint64 // start of the oldest generation that has it, Unix seconds; 0 if none
	Last      uint64 // start of the newest generation that has it, likewise
	verdict.Evidence
}

// voted reports whether the key has votes.
func (r *Record) voted() bool { return r.Spam > 0 || r.Ham > 0 }

// seen records a generation that has the key.
func (r *Record) seen(start uint64) {
	if r.First == 0 || start < r.First {
		r.First = start
	}
	r.Last = max(r.Last, start)
}

// A Column is the weights of one key in one generation of the blocklist, and the retracted part of each.
type Column struct{ All, Back [WeightKinds]uint32 }

// Net returns the part of a kind that was not retracted.
func (c *Column) Net(kind uint8) uint32 { return c.All[kind] - min(c.All[kind], c.Back[kind]) }

// AddTo adds the latest votes to a key's evidence.
func (c *Column) AddTo(e *verdict.Evidence) {
	e.Votes.Spam += int64(c.Net(RootSpam))
	e.Votes.Ham += int64(c.Net(RootHam))
	e.Votes.StrangerSpam += int64(c.Net(StrangerSpam))
	e.Votes.StrangerHam += int64(c.Net(StrangerHam))
	e.Unblamed += int64(c.Net(Unblamed))
}

// An Overlay is the effect of decisions that are not yet in the node's own arrays. Its
// methods raise n, or set has, for each of the keys.
type Overlay interface {
	Counts(generation uint64, keys []filter.Key, n []uint32)
	Weights(generation uint64, keys []filter.Key, n []uint32)
	Spam(generation uint64, keys []filter.Key, has []bool)
	Revoked(generation uint64, keys []filter.Key, has []bool)
}
