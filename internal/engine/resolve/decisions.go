package resolve

import (
	"slices"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/ballots"
	"github.com/bulkhead-mail/bulkhead/internal/engine/learned"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// Adds are increases of the cells of a counting array.
type Adds struct {
	Keys []filter.Key
	N    []uint32
}

func (a *Adds) add(k filter.Key, n uint32) { a.Keys, a.N = append(a.Keys, k), append(a.N, n) }

func (a *Adds) reset() { a.Keys, a.N = a.Keys[:0], a.N[:0] }

// Decisions are the changes that a batch of reports makes.
type Decisions struct {
	TallyGen, BlockGen uint64 // starts of the generations that take them

	Counts Adds // of the tally
	Unique []filter.Key

	Names            Adds // of the blocklist
	Weights          Adds
	Late             []Late
	Voted            []filter.Key
	Spam, Revoked    []filter.Key
	PublishedSpam    []filter.Key // the part of Spam that peers see, in a generation with a floor
	PublishedRevoked []filter.Key

	Credits []trust.Credit
	Ballots []ballots.Ballot

	Learned learned.Changes
}

// Late are increases of the weights of an older generation of the blocklist.
type Late struct {
	Gen uint64
	Adds
}

// Empty reports whether nothing was decided.
func (d *Decisions) Empty() bool {
	return len(d.Counts.Keys)+len(d.Unique)+len(d.Names.Keys)+len(d.Weights.Keys)+len(d.Late)+len(d.Voted)+
		len(d.Spam)+len(d.Revoked)+len(d.PublishedSpam)+len(d.PublishedRevoked)+
		len(d.Credits)+len(d.Ballots) == 0 && d.Learned.Empty()
}

// Weigh raises a cell of the weights of a generation.
func (d *Decisions) Weigh(gen uint64, k filter.Key, n uint32) {
	if gen == d.BlockGen {
		d.Weights.add(k, n)
		return
	}
	i := slices.IndexFunc(d.Late, func(l Late) bool { return l.Gen == gen })
	if i < 0 {
		i, d.Late = len(d.Late), append(d.Late, Late{Gen: gen})
	}
	d.Late[i].add(k, n)
}

// reset empties d and keeps its memory.
func (d *Decisions) reset() {
	d.Counts.reset()
	d.Names.reset()
	d.Weights.reset()
	*d = Decisions{
		Counts: d.Counts, Names: d.Names, Weights: d.Weights,
		Unique: d.Unique[:0], Voted: d.Voted[:0], Spam: d.Spam[:0], Revoked: d.Revoked[:0],
		PublishedSpam: d.PublishedSpam[:0], PublishedRevoked: d.PublishedRevoked[:0],
		Credits: d.Credits[:0], Ballots: d.Ballots[:0], Learned: d.Learned,
	}
}
