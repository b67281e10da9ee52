package engine

import (
	"slices"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// A ledger is the weights of one signature, and what one voice has added to them,
// generation by generation of the tally, newest first. What is taken back is taken
// back in the generation that holds it, so that the two age together.
type ledger struct {
	gens []column
	keys [2 * weightKinds]filter.Key // of the signature, and of the voice
	back [weightKinds]filter.Key
	sums [2 * weightKinds]uint32
}

// A column is the weights of a ledger in one generation.
type column struct {
	all  weights // of the signature
	back weights // what was taken back of them
	mine weights // of the voice, see column.stake
}

// weights is one weight for each kind.
type weights [weightKinds]uint32

// net returns what of a kind has not been taken back.
func (c *column) net(kind uint8) uint32 { return c.all[kind] - min(c.all[kind], c.back[kind]) }

// stake returns what of a kind is the voice's own, and not taken back. Its record
// adds on the other side what it takes back on this one, so that it needs no more
// than a kind for each.
func (c *column) stake(kind uint8) uint32 {
	return c.mine[kind] - min(c.mine[kind], c.mine[opposite(kind)])
}

// disputed reports whether the sums show more than one kind: as long as there is
// only one, nobody can have changed their mind, and nothing was taken back.
func disputed(sums *weights) bool {
	kinds := 0
	for _, n := range sums {
		if n > 0 {
			kinds++
		}
	}
	return kinds > 1
}

// open reads the ledger of a signature and a voice, the overlay included.
func (r *resolver) open(base filter.Key, voice string) *ledger {
	l := &r.ledger
	record := voterKey(r.e.opts.Secret, voice, base)
	for kind := range uint8(weightKinds) {
		l.keys[kind], l.keys[weightKinds+kind] = base.With(kind), record.With(kind)
	}
	l.gens = slices.Grow(l.gens[:0], len(r.view.tally.Live))[:len(r.view.tally.Live)]
	var sums weights
	for i, g := range r.view.tally.Live {
		r.weights(g, l.keys[:], l.sums[:])
		l.gens[i] = column{all: weights(l.sums[:weightKinds]), mine: weights(l.sums[weightKinds:])}
		for kind, n := range l.gens[i].all {
			sums[kind] = book.Add(sums[kind], n)
		}
	}
	back := backKey(r.e.opts.Secret, base)
	for kind := range uint8(weightKinds) {
		l.back[kind] = back.With(kind)
	}
	if disputed(&sums) {
		for i, g := range r.view.tally.Live {
			r.weights(g, l.back[:], l.gens[i].back[:])
		}
	}
	return l
}

// weights reads weights of one generation, the overlay included.
func (r *resolver) weights(g *book.Tally, keys []filter.Key, out []uint32) {
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
	var sums [weightKinds]int64
	for i := range l.gens {
		for kind := range uint8(weightKinds) {
			sums[kind] += int64(l.gens[i].net(kind))
		}
	}
	return balanceOf(&sums)
}

func balanceOf(sums *[weightKinds]int64) trust.Balance {
	return trust.Balance{
		Spam: sums[kindRootSpam], Ham: sums[kindRootHam],
		StrangerSpam: sums[kindStrangerSpam], StrangerHam: sums[kindStrangerHam],
	}
}

// given returns the weight of all votes for spam that have not aged out, those
// included that were taken back.
func (l *ledger) given() (sum int64) {
	for i := range l.gens {
		sum += int64(l.gens[i].all[kindRootSpam]) + int64(l.gens[i].all[kindStrangerSpam])
	}
	return sum
}

// turned reports whether a voice's latest vote weighs for another kind than this:
// the voter has changed sides, or is of another class now.
func (l *ledger) turned(kind uint8) bool {
	for other := range uint8(weightKinds) {
		if other != kind && l.stake(other) > 0 {
			return true
		}
	}
	return false
}

// move makes a voice's vote weigh units for one kind and nothing for the others. A
// voice that votes again adds no more than it is short of.
func (r *resolver) move(l *ledger, kind uint8, units uint32) {
	for i := range l.gens {
		for other := range uint8(weightKinds) {
			// An error of the filters must not take back what others have added.
			if n := min(l.gens[i].stake(other), l.gens[i].net(other)); other != kind && n > 0 {
				r.takeBack(l, i, other, n, units)
			}
		}
	}
	if n := units - min(units, l.stake(kind)); n > 0 {
		r.raise(l, 0, l.keys[kind], &l.gens[0].all[kind], n)
		r.raise(l, 0, l.keys[weightKinds+kind], &l.gens[0].mine[kind], n)
	}
}

// takeBack takes back what a voice has added to a kind in the i'th generation.
func (r *resolver) takeBack(l *ledger, i int, kind uint8, n, units uint32) {
	g, other := &l.gens[i], opposite(kind)
	if units > 0 {
		r.raise(l, i, l.back[kind], &g.back[kind], n)
	} else {
		// Nothing on the other side will say that there is something to look for.
		r.raise(l, i, l.keys[other], &g.all[other], n)
	}
	r.raise(l, i, l.keys[weightKinds+other], &g.mine[other], n)
}

// raise raises a cell of the i'th generation, and its number in the ledger.
func (r *resolver) raise(l *ledger, i int, k filter.Key, in *uint32, n uint32) {
	r.weigh(r.view.tally.Live[i].Start, k, n)
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
