package evidence

import (
	"math"
	"slices"

	"github.com/bulkhead-mail/bulkhead/filter"
)

// list looks up the keys in the blocklists. Most mail is in none, and then the
// revocation filters need no look-up.
func (r *Reader) list() {
	r.candidates, r.bases = r.candidates[:0], r.bases[:0]
	for i, a := range r.asks {
		if a.Wants&(Listings|Judgement) != 0 {
			r.candidates = append(r.candidates, i)
			r.bases = append(r.bases, a.Key)
		}
	}
	r.size()
	if len(r.bases) == 0 || !r.RevocationFirst && !r.narrow() {
		return
	}
	if r.RevocationFirst {
		r.mark()
	}
	for i := range r.sources.lists {
		if l := &r.sources.lists[i]; l.own || l.always || r.marked[i] {
			r.walk(l)
		}
	}
}

// mark notes the lists in which indexes find one of the keys, and which keys are in a spam
// filter among them.
func (r *Reader) mark() {
	r.marked = slices.Grow(r.marked[:0], len(r.sources.lists))[:len(r.sources.lists)]
	clear(r.marked)
	for i := range r.sources.indexes {
		x := &r.sources.indexes[i]
		if x.lists == nil {
			continue
		}
		keys := r.at(x.epoch, r.bases)
		r.find(x, keys, 1, func(column int, found []int) {
			l := &x.lists[column]
			for _, k := range found {
				if l.array != nil && l.array.Has(keys[k]) {
					r.marked[l.list] = true
					r.off[k] = r.off[k] || !l.revoked
				}
			}
		})
	}
}

// size makes room for the results of the candidates.
func (r *Reader) size() {
	n := len(r.bases)
	r.spam, r.off = slices.Grow(r.spam[:0], n)[:n], slices.Grow(r.off[:0], n)[:n]
	r.states = slices.Grow(r.states[:0], n)[:n]
}

// narrow keeps only candidates that a spam filter has, and reports whether there are
// any.
func (r *Reader) narrow() bool {
	clear(r.off)
	r.mark()
	for i := range r.sources.lists {
		l := &r.sources.lists[i]
		for j := range l.gens {
			if l.gens[j].found {
				continue
			}
			if j+1 < len(l.gens) && !l.gens[j+1].found {
				r.loadList(&l.gens[j+1], spamOf)
			}
			r.has(l, &l.gens[j], r.bases, r.spam, spamOf)
			for k, has := range r.spam {
				r.off[k] = r.off[k] || has
			}
		}
	}
	kept := 0
	for k, has := range r.off {
		if has {
			r.candidates[kept], r.bases[kept] = r.candidates[k], r.bases[k]
			kept++
		}
	}
	r.candidates, r.bases = r.candidates[:kept], r.bases[:kept]
	r.size()
	return kept > 0
}

// A side is one of the two filters of a generation.
type side bool

const (
	spamOf    side = false
	revokedOf side = true
)

// of returns one of the two filters, nil if there is none.
func (g *lists) of(s side) set {
	if s == revokedOf {
		return g.revoked
	}
	return g.spam
}

// loadList starts to load what is read of one filter of a generation for the candidates.
func (r *Reader) loadList(g *lists, of side) {
	if array, ok := g.of(of).(*filter.Bits); ok && g.epoch == 0 && array.Keys() > 0 {
		array.Prefetch(r.bases)
	}
}

// has looks up keys in one filter of a generation of a list.
func (r *Reader) has(l *list, g *lists, keys []filter.Key, out []bool, of side) {
	clear(out)
	from := g.of(of)
	if from != nil && from.Keys() > 0 {
		from.HasBatch(r.at(g.epoch, keys), out)
	}
	switch {
	case !l.own || r.Overlay == nil:
	case of == revokedOf:
		r.Overlay.Revoked(g.start, keys, out)
	default:
		r.Overlay.Spam(g.start, keys, out)
	}
}

// at returns the form of keys in an epoch, in a buffer.
func (r *Reader) at(epoch int, keys []filter.Key) []filter.Key {
	if epoch == 0 {
		return keys
	}
	r.moved = r.moved[:0]
	for _, k := range keys {
		r.moved = append(r.moved, r.Keys.At(epoch, k))
	}
	return r.moved
}

// walk reads one list for the candidates: in a spam filter and in no revocation filter
// as new or newer means spam (Yan and Cho, section 3).
func (r *Reader) walk(l *list) {
	clear(r.states)
	if len(l.gens)*len(r.bases) <= 2*inFlight {
		for i := range l.gens {
			r.loadList(&l.gens[i], spamOf)
			r.loadList(&l.gens[i], revokedOf)
		}
	}
	end := uint64(math.MaxUint64)
	for i := range l.gens {
		g := &l.gens[i]
		r.has(l, g, r.bases, r.spam, spamOf)
		r.has(l, g, r.bases, r.off, revokedOf)
		for k := range r.bases {
			r.step(k, l, g, end)
		}
		end = g.start
	}
	for k, i := range r.candidates {
		if l.own {
			r.out[i].Own = r.states[k]
		} else {
			r.out[i].Peers.Add(r.states[k], l.weight, l.union)
		}
	}
}

// step reads one generation, older than those before, for one candidate.
func (r *Reader) step(k int, l *list, g *lists, end uint64) {
	x := &r.out[r.candidates[k]]
	x.Off = x.Off || r.off[k] // in a generation that does not decide, too
	if r.states[k].Decided() {
		return // by a newer generation
	}
	if r.spam[k] && r.off[k] && r.relisted(k, l, g) {
		r.off[k] = false
	}
	r.states[k] = r.states[k].Next(r.spam[k], r.off[k])
	// The tally's generations are shorter, and date a key in this span better.
	if r.spam[k] && (x.First == 0 || x.First >= end) {
		x.seen(g.start)
	}
}

// relisted is [Relisted] of one candidate. Most mail never gets here.
func (r *Reader) relisted(k int, l *list, g *lists) bool {
	has := func(of side) func(filter.Key) bool {
		return func(key filter.Key) bool {
			var found [1]bool
			r.has(l, g, []filter.Key{key}, found[:], of)
			return found[0]
		}
	}
	return Relisted(r.Keys, r.bases[k], has(spamOf), has(revokedOf))
}
