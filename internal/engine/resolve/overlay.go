package resolve

import (
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
)

// An overlay is what the decisions of the batch so far will do to the arrays. It
// implements evidence.Overlay.
type overlay struct {
	tally, block uint64 // starts of the open generations
	counts       table
	names        table
	weights      table // of cells
	unique       table // of the tally
	voted        table
	spam         table
	revoked      table

	// What was decided of these, which most batches never ask for again, is entered when
	// somebody asks: votes and weights are most of what a vote changes, and most batches
	// have one.
	out              *Decisions
	enteredVotes     int // of out.Voted
	enteredIncreases int // of out.Weights
}

// cell returns the key of one of the weights of a generation.
func cell(gen uint64, k filter.Key) filter.Key { return filter.Key{Hi: k.Hi ^ gen, Lo: k.Lo} }

func (o *overlay) begin(tally, block uint64) {
	o.tally, o.block = tally, block
	for _, t := range []*table{&o.counts, &o.names, &o.weights, &o.unique, &o.voted, &o.spam, &o.revoked} {
		t.empty()
	}
	o.enteredVotes, o.enteredIncreases = 0, 0
}

// votes returns the table of out.Voted.
func (o *overlay) votes() *table {
	for _, k := range o.out.Voted[o.enteredVotes:] {
		o.voted.add(k, 1)
	}
	o.enteredVotes = len(o.out.Voted)
	return &o.voted
}

// increases returns the table of out.Weights and of those of older generations.
func (o *overlay) increases() *table {
	w := &o.out.Weights
	for i := o.enteredIncreases; i < len(w.Keys); i++ {
		o.weights.add(cell(o.block, w.Keys[i]), w.N[i])
	}
	o.enteredIncreases = len(w.Keys)
	return &o.weights
}

// Counts implements evidence.Overlay.
func (o *overlay) Counts(gen uint64, keys []filter.Key, n []uint32) {
	if gen == o.tally {
		o.counts.raise(keys, n)
	}
}

// Weights implements evidence.Overlay.
func (o *overlay) Weights(gen uint64, keys []filter.Key, n []uint32) {
	weights := o.increases()
	if weights.used == 0 {
		return
	}
	for i, k := range keys {
		n[i] = book.Add(n[i], weights.count(cell(gen, k)))
	}
}

// Spam implements evidence.Overlay.
func (o *overlay) Spam(gen uint64, keys []filter.Key, has []bool) {
	if gen == o.block {
		o.spam.also(keys, has)
	}
}

// Revoked implements evidence.Overlay.
func (o *overlay) Revoked(gen uint64, keys []filter.Key, has []bool) {
	if gen == o.block {
		o.revoked.also(keys, has)
	}
}
