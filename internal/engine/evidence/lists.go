package evidence

import (
	"math"
	"math/bits"
	"slices"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
)

// list looks up the keys in the blocklists. Most mail is in no blocklist, and the revocation
// filters then need no look-up.
func (r *Reader) list() {
	l := &r.listing
	l.candidates, l.bases, l.numbers, l.known = l.candidates[:0], l.bases[:0], l.numbers[:0], l.known[:0]
	for i, a := range r.request.asks {
		if a.Wants&(Listings|Judgement|States) != 0 {
			r.listing.numbers = append(r.listing.numbers, len(r.listing.candidates))
			r.listing.candidates = append(r.listing.candidates, i)
			r.listing.bases = append(r.listing.bases, a.Key)
		}
	}
	r.size()
	if len(r.listing.bases) == 0 {
		return
	}
	states := r.request.asks[r.listing.candidates[0]].Wants&States != 0
	if states && len(r.sources.lists) == 1 && !r.undecided(&r.sources.lists[0]) {
		return
	}
	r.beginMarks()
	r.mark(spamOf)
	if !r.RevocationFirst && !r.narrow() {
		return
	}
	r.mark(revokedOf)
	if len(r.sources.indexes) > 0 {
		r.number()
	}
	for i := range r.sources.lists {
		switch l := &r.sources.lists[i]; {
		case l.own || l.always:
			r.flush()
			r.walk(l)
		case r.listing.marked[i]:
			r.walkFound(l)
		}
	}
	r.flush()
}

// undecided keeps only candidates whose state the newest generation of the node's own list does not decide, and
// reports whether any are left. Without it, a second vote on a message takes a sixth more processor time.
func (r *Reader) undecided(l *list) bool {
	clear(r.listing.states)
	r.has(l, &l.gens[0], r.listing.bases, r.listing.spam, spamOf)
	r.has(l, &l.gens[0], r.listing.bases, r.listing.revoked, revokedOf)
	return r.keep(func(k int) bool {
		if r.step(k, l, &l.gens[0], math.MaxUint64); !r.listing.states[k].Decided() {
			return true
		}
		r.request.out[r.listing.candidates[k]].Own = r.listing.states[k]
		return false
	})
}

// keep keeps only the candidates for which stays returns true, and reports whether any are left.
func (r *Reader) keep(stays func(k int) bool) bool {
	c, kept := &r.listing, 0
	for k := range c.bases {
		if stays(k) {
			c.candidates[kept], c.bases[kept], c.numbers[kept] = c.candidates[k], c.bases[k], k
			kept++
		}
	}
	c.candidates, c.bases = c.candidates[:kept], c.bases[:kept]
	r.size()
	return kept > 0
}

// number indexes the candidates by their numbers.
func (r *Reader) number() {
	r.listing.open, r.listing.undated = 0, 0
	for k, n := range r.listing.numbers[:len(r.listing.candidates)] {
		r.listing.candidate[n], r.listing.base[n] = r.listing.candidates[k], r.listing.bases[k]
		r.listing.open |= 1 << n
		if r.request.out[r.listing.candidates[k]].First == 0 {
			r.listing.undated |= 1 << n
		}
	}
}

// beginMarks discards the results of the indexes.
func (r *Reader) beginMarks() {
	clear(r.listing.revoked)
	r.listing.marked = slices.Grow(r.listing.marked[:0], len(r.sources.lists))[:len(r.sources.lists)]
	clear(r.listing.marked)
	r.listing.found.begin(len(r.sources.indexes))
}

// mark looks the keys up in the indexes that have spam filters, or in the indexes that have none.
// It marks the lists that have one of the keys, and the keys that are in a spam filter.
func (r *Reader) mark(of side) {
	for i := range r.sources.indexes {
		x := &r.sources.indexes[i]
		if x.lists == nil || (ones(x.spam) > 0) != (of == spamOf) {
			continue
		}
		keys, words := r.at(x.epoch, r.listing.bases), x.Words()
		r.find(x, keys, 1)
		for h, k := range r.search.hits {
			row := r.search.rows[h*words : (h+1)*words]
			x.narrow(keys[k], row)
			for w := range row {
				r.listing.revoked[k] = r.listing.revoked[k] || row[w]&x.spam[w] != 0
			}
		}
		r.record(i, words)
		for w := range words {
			for all := r.anyOf(w, words); all != 0; all &= all - 1 {
				r.listing.marked[x.lists[w*64+bits.TrailingZeros64(all)].list] = true
			}
		}
	}
}

// narrow reduces row, the arrays that may have a key, to the arrays that have it.
func (x *index) narrow(key filter.Key, row []uint64) {
	for w := range row {
		row[w] &= x.spam[w] | x.revoked[w]
	}
	if ones(row) > few && x.Narrow(key, row) {
		return
	}
	for w, all := range row {
		for ; all != 0; all &= all - 1 {
			if bit := bits.TrailingZeros64(all); !x.lists[w*64+bit].array.Has(key) {
				row[w] &^= 1 << bit
			}
		}
	}
}

// found records which filters of indexes have which keys of a reading. Keys are numbered, at most
// 64, see [together].
type found struct {
	at   []int    // by index: where in keys its columns begin, plus 1; 0: none has any
	keys []uint64 // by column, a bit for each key
}

// begin discards all results.
func (t *found) begin(indexes int) {
	t.keys, t.at = t.keys[:0], slices.Grow(t.at[:0], indexes)[:indexes]
	clear(t.at)
}

// record records the results of find in an index with the given number of words.
func (r *Reader) record(index, words int) {
	if len(r.search.hits) == 0 {
		return
	}
	t, n := &r.listing.found, len(r.listing.found.keys)
	t.at[index] = n + 1
	t.keys = slices.Grow(t.keys, words*64)[:n+words*64]
	var square [together]uint64
	for w := range words {
		clear(square[:])
		several := 0
		for h, k := range r.search.hits {
			row := r.search.rows[h*words+w]
			square[r.listing.numbers[k]] = row
			several += bits.OnesCount64(row)
		}
		columns := (*[64]uint64)(t.keys[n+w*64:])
		if several > len(square) {
			*columns = square
			transpose(columns)
			continue
		}
		clear(columns[:])
		for key, row := range square {
			for ; row != 0; row &= row - 1 {
				columns[bits.TrailingZeros64(row)] |= 1 << key
			}
		}
	}
}

// transpose makes bit j of word i bit i of word j.
//
// Source: Warren, "Hacker's Delight" (2002), section 7-3.
func transpose(a *[64]uint64) {
	for j, mask := 32, uint64(1)<<32-1; j != 0; j, mask = j>>1, mask^mask<<(j>>1) {
		for k := 0; k < 64; k = (k + j + 1) &^ j {
			t := (a[k]>>j ^ a[k+j]) & mask
			a[k] ^= t << j
			a[k+j] ^= t
		}
	}
}

// of returns which keys the filter at a seat has.
func (t *found) of(at seat) uint64 {
	if at.in == 0 || t.at[at.in-1] == 0 {
		return 0
	}
	return t.keys[t.at[at.in-1]-1+at.column]
}

// size makes room for the results of the candidates.
func (r *Reader) size() {
	n := len(r.listing.bases)
	r.listing.spam, r.listing.revoked = slices.Grow(r.listing.spam[:0], n)[:n], slices.Grow(r.listing.revoked[:0], n)[:n]
	r.listing.states = slices.Grow(r.listing.states[:0], n)[:n]
}

// narrow keeps only candidates that some spam filter has, whether it is in an index or not. It
// reports whether any are left.
func (r *Reader) narrow() bool {
	loose, n := r.sources.loose, len(r.listing.bases)
	r.listing.known = r.hasEach(len(loose), func(i int) (*list, *lists) {
		l := &r.sources.lists[loose[i].list]
		return l, &l.gens[loose[i].gen]
	}, spamOf, r.listing.known)
	for row := range slices.Chunk(r.listing.known, n) {
		for k, has := range row {
			r.listing.revoked[k] = r.listing.revoked[k] || has
		}
	}
	return r.keep(func(k int) bool { return r.listing.revoked[k] })
}

// A side is one of the two filters of a generation.
type side int

const (
	spamOf side = iota
	revokedOf
)

// of returns one of the two filters, nil if there is none.
func (g *lists) of(s side) set {
	if s == revokedOf {
		return g.revoked
	}
	return g.spam
}

// hasEach looks up the candidates in one filter of each of n generations, and returns the results by
// generation in the buffer out. Filters of the present secret are read together.
func (r *Reader) hasEach(n int, at func(i int) (*list, *lists), of side, out []bool) []bool {
	keys := r.listing.bases
	out = slices.Grow(out[:0], n*len(keys))[:n*len(keys)]
	row := func(i int) []bool { return out[i*len(keys):][:len(keys)] }
	for i := 0; i < n; i++ {
		first := i
		for r.listing.sets = r.listing.sets[:0]; i < n; i++ {
			_, g := at(i)
			array, ok := g.of(of).(*arrays.Bits)
			if !ok || g.epoch > 0 || array.Keys() == 0 || r.known(g, of) {
				break
			}
			r.listing.sets = append(r.listing.sets, array)
		}
		arrays.HasEach(r.listing.sets, keys, out[first*len(keys):])
		for ; first < i; first++ {
			l, g := at(first)
			r.overlay(l, g, keys, row(first), of)
		}
		if i == n {
			break
		}
		if l, g := at(i); r.known(g, of) {
			r.recall(g, of, row(i))
		} else {
			r.has(l, g, keys, row(i), of)
		}
	}
	clear(r.listing.sets) // or the buffer would keep them in memory
	return out
}

// has looks up keys in one filter of a generation of a list.
func (r *Reader) has(l *list, g *lists, keys []filter.Key, out []bool, of side) {
	clear(out)
	from := g.of(of)
	if from != nil && from.Keys() > 0 {
		from.HasBatch(r.at(g.epoch, keys), out)
	}
	r.overlay(l, g, keys, out, of)
}

// overlay adds the keys that the batch has added to a filter of the node's own list.
func (r *Reader) overlay(l *list, g *lists, keys []filter.Key, out []bool, of side) {
	switch {
	case !l.own || r.Overlay == nil:
	case of == revokedOf:
		r.Overlay.Revoked(g.start, keys, out)
	default:
		r.Overlay.Spam(g.start, keys, out)
	}
}

// known reports whether an index or narrow has looked the candidates up in a filter.
func (r *Reader) known(g *lists, of side) bool {
	return g.at[of].in > 0 || of == spamOf && g.loose > 0 && len(r.listing.known) > 0
}

// recall sets out to which candidates a known filter has.
func (r *Reader) recall(g *lists, of side, out []bool) {
	at, loose := g.at[of], len(r.sources.loose)
	for k, n := range r.listing.numbers[:len(out)] {
		if at.in > 0 {
			out[k] = r.listing.found.of(at)>>n&1 != 0
		} else {
			out[k] = r.listing.known[(g.loose-1)*(len(r.listing.known)/loose)+n]
		}
	}
}

// at returns the form of keys in an epoch, in a buffer.
func (r *Reader) at(epoch int, keys []filter.Key) []filter.Key {
	if epoch == 0 {
		return keys
	}
	r.listing.moved = r.listing.moved[:0]
	for _, k := range keys {
		r.listing.moved = append(r.listing.moved, r.Keys.At(epoch, k))
	}
	return r.listing.moved
}

// walk reads one list for the candidates: in a spam filter and in no revocation filter
// as new or newer means spam (Yan and Cho, section 3).
func (r *Reader) walk(l *list) {
	clear(r.listing.states)
	rows, n := &r.listing.rows, len(r.listing.bases)
	for of := range rows {
		rows[of] = r.hasEach(len(l.gens), func(i int) (*list, *lists) { return l, &l.gens[i] }, side(of), rows[of])
	}
	end := uint64(math.MaxUint64)
	for i := range l.gens {
		g := &l.gens[i]
		copy(r.listing.spam, rows[spamOf][i*n:])
		copy(r.listing.revoked, rows[revokedOf][i*n:])
		for k := range r.listing.bases {
			r.step(k, l, g, end)
		}
		end = g.start
	}
	for k, i := range r.listing.candidates {
		if l.own {
			r.request.out[i].Own = r.listing.states[k]
		} else {
			r.request.out[i].Peers.Add(r.listing.states[k], l.weight, l.union)
		}
	}
}

// walkFound is walk for the list of a peer whose filters are all in indexes. It handles all
// candidates at once, one bit each.
func (r *Reader) walkFound(l *list) {
	var listed, hidden, revoked, named uint64
	end := uint64(math.MaxUint64)
	for i := range l.gens {
		g := &l.gens[i]
		open := ^(listed | hidden)
		spam, not := r.listing.found.of(g.at[spamOf])&open&r.listing.open, r.listing.found.of(g.at[revokedOf])&r.listing.open
		named |= not
		for both := spam & not; both != 0; both &= both - 1 {
			if n := bits.TrailingZeros64(both); r.relisted(r.listing.base[n], l, g) {
				not &^= 1 << n
			}
		}
		// As in step, the newest generation dates only keys without a date.
		dates := spam
		if i == 0 {
			dates &= r.listing.undated
		}
		for ; dates != 0; dates &= dates - 1 {
			n := bits.TrailingZeros64(dates)
			if x := &r.request.out[r.listing.candidate[n]]; x.First == 0 || x.First >= end {
				x.seen(g.start)
			}
			r.listing.undated &^= 1 << n
		}
		hidden |= spam & (not | revoked)
		listed |= spam &^ (not | revoked)
		revoked |= not & open
		end = g.start
	}
	r.listing.listed.add(r, listed, l.weight)
	for all := named; all != 0; all &= all - 1 {
		n := bits.TrailingZeros64(all)
		x := &r.request.out[r.listing.candidate[n]]
		x.Off = true
		switch bit := uint64(1) << n; {
		case hidden&bit != 0:
			x.Peers.Add(verdict.ListedRevoked, l.weight, false)
		case listed&bit == 0 && revoked&bit != 0:
			x.Peers.Add(verdict.Revoked, l.weight, false)
		}
	}
}

// A listings counts, for each key, how many of several successive lists of one weight have it.
// Digit i of a key's count is a bit of the i'th word.
type listings struct {
	digits [10]uint64
	n      int // lists
	weight float64
}

// add adds a list.
func (t *listings) add(r *Reader, keys uint64, weight float64) {
	if weight != t.weight || t.n == 1<<len(t.digits)-1 {
		r.flush()
		t.weight = weight
	}
	t.n++
	for i := 0; keys != 0; i++ {
		t.digits[i], keys = t.digits[i]^keys, t.digits[i]&keys
	}
}

// flush adds the weights of the counted lists to the records.
func (r *Reader) flush() {
	t := &r.listing.listed
	any := uint64(0)
	for _, d := range t.digits {
		any |= d
	}
	for ; any != 0; any &= any - 1 {
		n, bit := 0, bits.TrailingZeros64(any)
		for i, d := range t.digits {
			n |= int(d>>bit&1) << i
		}
		sum := &r.request.out[r.listing.candidate[bit]].Peers.Spam
		if short(*sum) && short(t.weight) {
			*sum += float64(n) * t.weight // exact
			continue
		}
		for range n { // one after the other, because a sum of weights depends on the order
			*sum += t.weight
		}
	}
	*t = listings{}
}

// short reports whether a weight has so few digits that sums of weights are exact.
func short(weight float64) bool { return math.Trunc(weight*1024) == weight*1024 }

// step reads one generation, older than those before, for one candidate.
func (r *Reader) step(k int, l *list, g *lists, end uint64) {
	x := &r.request.out[r.listing.candidates[k]]
	x.Off = x.Off || r.listing.revoked[k] // even in a generation that does not decide
	if r.listing.states[k].Decided() {
		return // decided by a newer generation
	}
	if r.listing.spam[k] && r.listing.revoked[k] && r.relisted(r.listing.bases[k], l, g) {
		r.listing.revoked[k] = false
	}
	r.listing.states[k] = r.listing.states[k].Next(r.listing.spam[k], r.listing.revoked[k])
	// The tally's generations are shorter, and date a key in this span better.
	if r.listing.spam[k] && (x.First == 0 || x.First >= end) {
		x.seen(g.start)
	}
}

// relisted is [Relisted] for one candidate. Most mail never gets here.
func (r *Reader) relisted(base filter.Key, l *list, g *lists) bool {
	has := func(of side) func(filter.Key) bool {
		return func(key filter.Key) bool {
			var found [1]bool
			r.has(l, g, []filter.Key{key}, found[:], of)
			return found[0]
		}
	}
	return Relisted(r.Keys, base, has(spamOf), has(revokedOf))
}
