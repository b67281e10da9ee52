package resolve

import (
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
)

// An overlay holds the changes to the arrays that the decisions of the batch so far will make. It
// implements evidence.Overlay.
type overlay struct {
	tally, block     uint64 // starts of the open generations
	counts           table
	names            table
	weights          table // of cells
	unique           table // of the tally
	voted            table
	spam             table
	revoked          table
	publishedSpam    table
	publishedRevoked table

	// Decisions are entered into the tables on the first query. Most batches never make one: they
	// have one vote.
	out       *Decisions
	increased Adds // increases of the counts that later decisions of the batch see
	entered   struct {
		votes, spam, revoked, weights int // of out
		counts                        int // of increased
	}
}

// cell returns the key of one of the weights of a generation.
func cell(gen uint64, k filter.Key) filter.Key { return filter.Key{Hi: k.Hi ^ gen, Lo: k.Lo} }

func (o *overlay) begin(tally, block uint64) {
	o.tally, o.block = tally, block
	for _, t := range []*table{&o.counts, &o.names, &o.weights, &o.unique, &o.voted, &o.spam, &o.revoked, &o.publishedSpam,
		&o.publishedRevoked} {
		t.empty()
	}
	o.increased.reset()
	o.entered.votes, o.entered.spam, o.entered.revoked, o.entered.weights, o.entered.counts = 0, 0, 0, 0, 0
}

// with returns the table t after entering the keys that were added since the last call.
func (t *table) with(keys []filter.Key, entered *int) *table {
	for _, k := range keys[*entered:] {
		t.add(k, 1)
	}
	*entered = len(keys)
	return t
}

// votes returns the table of out.Voted.
func (o *overlay) votes() *table { return o.voted.with(o.out.Voted, &o.entered.votes) }

// listed returns the table of out.Spam.
func (o *overlay) listed() *table { return o.spam.with(o.out.Spam, &o.entered.spam) }

// takenOff returns the table of out.Revoked.
func (o *overlay) takenOff() *table { return o.revoked.with(o.out.Revoked, &o.entered.revoked) }

// counted returns the table of increases of the counts.
func (o *overlay) counted() *table {
	x := &o.increased
	for i := o.entered.counts; i < len(x.Keys); i++ {
		o.counts.add(x.Keys[i], x.N[i])
	}
	o.entered.counts = len(x.Keys)
	return &o.counts
}

// increases returns the table of out.Weights and of the increases in older generations.
func (o *overlay) increases() *table {
	w := &o.out.Weights
	for i := o.entered.weights; i < len(w.Keys); i++ {
		o.weights.add(cell(o.block, w.Keys[i]), w.N[i])
	}
	o.entered.weights = len(w.Keys)
	return &o.weights
}

// Counts implements evidence.Overlay.
func (o *overlay) Counts(gen uint64, keys []filter.Key, n []uint32) {
	if gen == o.tally {
		o.counted().raise(keys, n)
	}
}

// Weights implements evidence.Overlay.
func (o *overlay) Weights(gen uint64, keys []filter.Key, n []uint32) {
	weights := o.increases()
	if len(weights.counts) == 0 { // of most batches, which have one vote, and a vote reads a thousand cells
		return
	}
	for i, k := range keys {
		n[i] = book.Add(n[i], weights.count(cell(gen, k)))
	}
}

// Spam implements evidence.Overlay.
func (o *overlay) Spam(gen uint64, keys []filter.Key, has []bool) {
	if gen == o.block {
		o.listed().also(keys, has)
	}
}

// Revoked implements evidence.Overlay.
func (o *overlay) Revoked(gen uint64, keys []filter.Key, has []bool) {
	if gen == o.block {
		o.takenOff().also(keys, has)
	}
}
