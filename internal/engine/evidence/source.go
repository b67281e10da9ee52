package evidence

import (
	"math"
	"slices"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
)

// A counter is the reading side of a counting array.
type counter interface {
	CountBatch(keys []filter.Key, out []uint32)
	Keys() uint64
}

// A set is the reading side of a bit array, or of several combined.
type set interface {
	HasBatch(keys []filter.Key, out []bool)
	Keys() uint64
}

// A counts is the counts of one generation: the node's own, of an origin, or of
// several origins merged.
type counts struct {
	start  uint64
	weight float64 // of an origin; 1 for the node's own
	root   bool    // its sightings are deliveries
	own    bool
	array  counter
	epoch  int
}

// weighed returns how much a count of n adds.
func (c *counts) weighed(n uint32) uint32 {
	if c.weight < 1 {
		return uint32(math.Ceil(c.weight * float64(n)))
	}
	return n
}

// A list is the blocklist of one node, newest generation first.
type list struct {
	weight float64
	own    bool
	union  bool // of several origins merged: they count as one
	gens   []lists
}

// A lists is the filters of one generation of a blocklist; nil where there is none.
type lists struct {
	start         uint64
	spam, revoked set
	epoch         int
}

// A weights holds the weights of votes of one generation, or the deliveries of names,
// which only the node's own book has.
type weights struct {
	start uint64
	array counter
	epoch int
}

// Sources are everything that a look-up reads. They are immutable, and any number of
// readers may use them at once.
type Sources struct {
	Mature bool // verdict.Mature of all deliveries; set by the maker of the sources

	today uint64 // start of the newest generation of the tally

	counts  []counts
	lists   []list
	gens    []lists // of all lists
	weights []weights
	names   []weights // deliveries of names, newest first
}

// A View is the node's own books, and the replicas of others.
type View struct {
	Tally  book.Book[*book.Tally]
	Block  book.Book[*book.Block]
	Remote *replica.View
	// KeyIDs are those of the secrets of the arrays, newest first. The index of an
	// array's KeyID is its epoch. nil: all arrays are of epoch 0.
	KeyIDs []uint64
}

// Epoch returns the epoch of an array. ok is false if its secret is no longer known:
// nothing can be found in it.
func (v *View) Epoch(g filter.Geometry) (epoch int, ok bool) {
	if v.KeyIDs == nil {
		return 0, true
	}
	epoch = slices.Index(v.KeyIDs, g.KeyID)
	return epoch, epoch >= 0
}

// NewSources returns the sources in v. promotion is the weight from which an origin
// alone lists, and its sightings are deliveries.
func NewSources(v View, promotion float64) *Sources {
	s := new(Sources)
	if len(v.Tally.Live) > 0 {
		s.today = v.Tally.Live[0].Start
	}
	for _, g := range v.Tally.Live {
		if epoch, ok := v.Epoch(g.CountsGeometry); ok {
			s.count(counts{g.Start, 1, true, true, g.Counts, epoch})
		}
	}
	first := len(s.gens)
	for _, g := range v.Block.Live {
		epoch, ok := v.Epoch(g.SpamGeometry)
		if !ok {
			continue
		}
		s.gens = append(s.gens, lists{g.Start, g.Spam, g.Revoked, epoch})
		s.weights = append(s.weights, weights{g.Start, g.Weights, epoch})
		s.names = append(s.names, weights{g.Start, g.Names, epoch})
	}
	s.list(1, true, false, first)
	for _, r := range v.Remote.Origins {
		if r.Weight == 0 {
			continue
		}
		for _, g := range r.Tally {
			if epoch, ok := v.Epoch(g.Counts.Geometry()); ok {
				s.count(counts{g.Start, r.Weight, r.Weight >= promotion, false, g.Counts, epoch})
			}
		}
		first := len(s.gens)
		for _, g := range r.Block {
			if epoch, ok := v.epochOf(g.Spam, g.Revoked); ok {
				s.gens = append(s.gens, lists{g.Start, orNone(g.Spam), orNone(g.Revoked), epoch})
			}
		}
		s.list(r.Weight, false, false, first)
	}
	for _, m := range v.Remote.Counts {
		if epoch, ok := v.Epoch(m.Counts.Geometry()); ok {
			s.count(counts{m.Start, m.Weight, m.Weight >= promotion, false, m.Counts, epoch})
		}
	}
	for _, l := range v.Remote.Lists {
		first := len(s.gens)
		for _, g := range l.Block {
			if epoch, ok := v.epochOf(append(slices.Clone(g.Spam), g.Revoked...)...); ok {
				s.gens = append(s.gens, lists{g.Start, (*union)(&g.Spam), (*union)(&g.Revoked), epoch})
			}
		}
		s.list(l.Weight, false, true, first)
	}
	s.cut()
	return s
}

func (s *Sources) count(c counts) { s.counts = append(s.counts, c) }

// list adds a list whose generations are those from the given one on.
func (s *Sources) list(weight float64, own, union bool, first int) {
	s.lists = append(s.lists, list{weight, own, union, s.gens[first:len(s.gens):len(s.gens)]})
}

// cut makes the generations of each list part of gens, which may have moved while it
// grew.
func (s *Sources) cut() {
	first := 0
	for i := range s.lists {
		n := len(s.lists[i].gens)
		s.lists[i].gens = s.gens[first : first+n]
		first += n
	}
}

// epochOf returns the epoch of the first array present among those of one generation.
func (v *View) epochOf(arrays ...*filter.Bits) (int, bool) {
	for _, b := range arrays {
		if b != nil {
			return v.Epoch(b.Geometry())
		}
	}
	return 0, true
}

// orNone returns b as a set, nil if the origin has not sent the array.
func orNone(b *filter.Bits) set {
	if b == nil {
		return nil
	}
	return b
}

// A union is several bit arrays combined.
type union []*filter.Bits

// unionPart is how many keys are looked up together.
const unionPart = 32

func (u *union) HasBatch(keys []filter.Key, out []bool) {
	clear(out)
	var has [unionPart]bool
	for len(keys) > 0 {
		n := min(len(keys), unionPart)
		for _, b := range *u {
			b.HasBatch(keys[:n], has[:n])
			for i := range n {
				out[i] = out[i] || has[i]
			}
		}
		keys, out = keys[n:], out[n:]
	}
}

func (u *union) Keys() (sum uint64) {
	for _, b := range *u {
		sum += b.Keys()
	}
	return sum
}
