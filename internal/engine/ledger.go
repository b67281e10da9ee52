package engine

import (
	"slices"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// A ledger is the weights of one signature, and what one voice has added to them,
// generation by generation of the blocklist, newest first. What is taken back is taken
// back in the generation that holds it, so that the two age together.
type ledger struct {
	gens []column
	keys [2*sides + 1]filter.Key // of the signature, of the voice, and of kindTakenBack
	back [sides]filter.Key
	sums [2*sides + 1]uint32
}

// A column is the weights of a ledger in one generation.
type column struct {
	all       weights // of the signature
	back      weights // what was taken back of them
	mine      weights // of the voice, see column.stake
	takenBack bool    // anything was
}

// weights is one weight for each side and class of voter.
type weights [sides]uint32

// net returns what of a kind has not been taken back.
func (c *column) net(kind uint8) uint32 { return c.all[kind] - min(c.all[kind], c.back[kind]) }

// stake returns what of a kind is the voice's own, and not taken back. Its record
// adds on the other side what it takes back on this one, so that it needs no more
// than a kind for each.
func (c *column) stake(kind uint8) uint32 {
	return c.mine[kind] - min(c.mine[kind], c.mine[opposite(kind)])
}

// open reads the ledger of a signature and a voice, the overlay included.
func (r *resolver) open(base filter.Key, voice string) *ledger {
	l := &r.ledger
	record, back := voterKey(r.e.opts.Secret, voice, base), backKey(r.e.opts.Secret, base)
	for kind := range uint8(sides) {
		l.keys[kind], l.keys[sides+kind], l.back[kind] = base.With(kind), record.With(kind), back.With(kind)
	}
	l.keys[2*sides] = base.With(kindTakenBack)
	live := r.view.block.Live
	l.gens = slices.Grow(l.gens[:0], len(live))[:len(live)]
	for i, g := range live {
		r.weights(g, l.keys[:], l.sums[:])
		l.gens[i] = column{all: weights(l.sums[:sides]), mine: weights(l.sums[sides : 2*sides]), takenBack: l.sums[2*sides] > 0}
		if l.gens[i].takenBack {
			r.weights(g, l.back[:], l.gens[i].back[:])
		}
	}
	return l
}

// weights reads weights of one generation, the overlay included.
func (r *resolver) weights(g *book.Block, keys []filter.Key, out []uint32) {
	g.Weights.CountBatch(keys, out)
	if len(r.weighed) == 0 {
		return
	}
	for i, k := range keys {
		out[i] = book.Add(out[i], r.weighed[weighed{g.Start, k}])
	}
}

// stake returns what of a kind is the voice's own.
func (l *ledger) stake(kind uint8) (sum uint32) {
	for i := range l.gens {
		sum = book.Add(sum, l.gens[i].stake(kind))
	}
	return sum
}

// balance returns the weights of the latest votes.
func (l *ledger) balance() trust.Balance {
	var sums [sides]int64
	for i := range l.gens {
		for kind := range uint8(sides) {
			sums[kind] += int64(l.gens[i].net(kind))
		}
	}
	return balanceOf(&sums)
}

func balanceOf(sums *[sides]int64) trust.Balance {
	return trust.Balance{
		Spam: sums[kindRootSpam], Ham: sums[kindRootHam],
		StrangerSpam: sums[kindStrangerSpam], StrangerHam: sums[kindStrangerHam],
	}
}

// turned reports whether a voice's latest vote weighs for another kind than this:
// the voter has changed sides, or is of another class now.
func (l *ledger) turned(kind uint8) bool {
	for other := range uint8(sides) {
		if other != kind && l.stake(other) > 0 {
			return true
		}
	}
	return false
}

// move makes a voice's vote weigh units for one kind and nothing for the others, from
// now on: what the voice has added in older generations is taken back there, so that
// a vote that is repeated ages like a new one.
func (r *resolver) move(l *ledger, kind uint8, units uint32) {
	for i := range l.gens {
		for k := range uint8(sides) {
			if i == 0 && k == kind {
				continue
			}
			// An error of the filters must not take back what others have added.
			if n := min(l.gens[i].stake(k), l.gens[i].net(k)); n > 0 {
				r.takeBack(l, i, k, n)
			}
		}
	}
	if n := units - min(units, l.gens[0].stake(kind)); n > 0 {
		r.raise(l, 0, l.keys[kind], &l.gens[0].all[kind], n)
		r.raise(l, 0, l.keys[sides+kind], &l.gens[0].mine[kind], n)
	}
}

// takeBack takes back what a voice has added to a kind in the i'th generation.
func (r *resolver) takeBack(l *ledger, i int, kind uint8, n uint32) {
	g, other := &l.gens[i], opposite(kind)
	if !g.takenBack {
		g.takenBack = true
		r.weigh(r.view.block.Live[i].Start, l.keys[2*sides], 1)
	}
	r.raise(l, i, l.back[kind], &g.back[kind], n)
	r.raise(l, i, l.keys[sides+other], &g.mine[other], n)
}

// raise raises a cell of the i'th generation, and its number in the ledger.
func (r *resolver) raise(l *ledger, i int, k filter.Key, in *uint32, n uint32) {
	r.weigh(r.view.block.Live[i].Start, k, n)
	*in = book.Add(*in, n)
}

// weigh raises a cell of the weights of a generation.
func (r *resolver) weigh(gen uint64, k filter.Key, n uint32) {
	cell := weighed{gen, k}
	r.weighed[cell] = book.Add(r.weighed[cell], n)
	r.out.weigh(gen, k, n)
}

// supports reports whether a voice's latest vote on a signature is one for spam, as
// far as it weighs anything.
func (r *resolver) supports(base filter.Key, voice string) bool {
	l := r.open(base, voice)
	return l.stake(kindRootSpam) > 0 || l.stake(kindStrangerSpam) > 0
}
