package resolve

import (
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
	"github.com/bulkhead-mail/bulkhead/internal/engine/keys"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// A ledger is the weights of the items of a vote, and the part that its voice has added, in each
// generation of the blocklist, newest first. A voice's weight is retracted in the generation that
// holds it, so that the weight and the retraction age together.
type ledger struct {
	spans   []span       // of each item
	columns []column     // by item, then by generation
	records []filter.Key // of the voice on each item
	backs   keys.Series  // of the retracted weights

	marked []bool // by generation, then by item that is being opened
}

// A span is the range of an item's columns: one for each generation, or one for the open generation
// alone if the item has no votes.
type span struct{ from, to int32 }

// A column is the weights of one item in one generation.
type column struct {
	marked          bool    // the item has votes in the generation; if not, all weights are 0
	evidence.Column         // of the item
	mine            weights // of the voice, see column.stake
}

// weights is one weight for each kind.
type weights [evidence.WeightKinds]uint32

// kinds is the number of kinds of weight, without the kind that records whether anything was
// retracted.
const kinds = evidence.TakenBack

// opposite returns the kind of the other side for the same class of voter. In a voice's record, the
// opposite kind also holds the retracted part of this one.
func opposite(kind uint8) uint8 { return kind ^ 1 }

// weightKind returns the kind that a vote adds to.
func weightKind(vote bulkhead.Vote, root bool) uint8 {
	kind := evidence.RootSpam
	if !root {
		kind = evidence.StrangerSpam
	}
	if vote != bulkhead.Spam {
		kind++
	}
	return kind
}

// stake returns the part of a kind that is the voice's own and not retracted. The voice's record
// adds a retraction on one side to the other side, so it needs only one kind for each side.
func (c *column) stake(kind uint8) uint32 {
	return c.mine[kind] - min(c.mine[kind], c.mine[opposite(kind)])
}

// of returns the columns of an item, from the open generation on. A generation without a column has
// no votes on the item.
func (l *ledger) of(i int) []column { return l.columns[l.spans[i].from:l.spans[i].to] }

// stake returns the part of a kind that is the voice's own, in all generations.
func stake(columns []column, kind uint8) (sum uint32) {
	for i := range columns {
		sum = book.Add(sum, columns[i].stake(kind))
	}
	return sum
}

// balance sets the votes in an item's record to the latest ones.
func (it *item) balance(columns []column) {
	e := &it.record.Evidence
	e.Votes, e.Unblamed = trust.Balance{}, 0
	for i := range columns {
		columns[i].AddTo(e)
	}
}

// turned reports whether a voice's latest vote weighs on a different kind: the voter has changed
// sides, or now belongs to another class.
func turned(columns []column, kind uint8) bool {
	for side := range evidence.Unblamed {
		if side != kind && stake(columns, side) > 0 {
			return true
		}
	}
	return false
}

// open reads the ledger of r.items[from:]. Most signatures have no votes, and their weights need
// not be read.
func (r *Resolver) open(from int, voice string) {
	l, live := &r.ledger, r.view.Block.Live
	n := len(r.items) - from
	l.records = l.records[:from]
	records := r.opts.Keys.Records(voice)
	l.backs = r.opts.Keys.Backs()
	for i := range n {
		l.records = append(l.records, records.Of(r.items[from+i].key))
	}
	l.marked = slices.Grow(l.marked[:0], n*len(live))[:n*len(live)]
	if !r.marksOfAll(from) {
		for g := range live {
			r.marks(from, g, l.marked[g*n:(g+1)*n])
		}
	}
	l.room(from, n, len(live))
	for g, block := range live {
		r.buf.which = r.buf.which[:0]
		for i, has := range l.marked[g*n : (g+1)*n] {
			if has {
				r.buf.which = append(r.buf.which, from+i)
			}
		}
		if len(r.buf.which) > 0 {
			r.openIn(g, block)
		}
	}
}

// marksOfAll does the work of marks for all generations in one look-up. It reports false, and does
// nothing, unless all arrays are under one secret and the items are not pairs.
func (r *Resolver) marksOfAll(from int) bool {
	if from > 0 || r.opts.Keys.Past != nil {
		return false
	}
	all := make([]*arrays.Bits, len(r.view.Block.Live))
	for g, block := range r.view.Block.Live {
		votes, ok := block.Votes.(*arrays.Bits)
		if !ok {
			return false
		}
		all[g] = votes
	}
	r.buf.keys = r.buf.keys[:0]
	for i := range r.items {
		r.buf.keys = append(r.buf.keys, r.items[i].key)
	}
	arrays.HasEach(all, r.buf.keys, r.ledger.marked)
	r.over.votes().also(r.buf.keys, r.ledger.marked)
	return true
}

// marks sets marked for each item of r.items[from:] that has votes in the g'th generation. A vote
// on a pair implies a vote on its text.
func (r *Resolver) marks(from, g int, marked []bool) {
	block := r.view.Block.Live[g]
	r.buf.which, r.buf.keys = r.buf.which[:0], r.buf.keys[:0]
	for i := range marked {
		it := &r.items[from+i]
		if marked[i] = false; it.pair() && !r.ledger.marks(it.text, g) {
			continue
		}
		r.buf.which = append(r.buf.which, i)
		r.buf.keys = append(r.buf.keys, r.at(block, it.key))
	}
	has := r.hasAll(block.Votes)
	if g == 0 {
		r.over.votes().also(r.buf.keys, has)
	}
	for j, i := range r.buf.which {
		marked[i] = has[j]
	}
}

// marks reports whether an open item has votes in the g'th generation.
func (l *ledger) marks(i, g int) bool {
	columns := l.of(i)
	return g < len(columns) && columns[g].marked
}

// room makes empty columns for n items from the given one on. l.marked holds which of them have
// votes in which generation.
func (l *ledger) room(from, n, gens int) {
	l.spans = l.spans[:from]
	end := 0
	if from > 0 {
		end = int(l.spans[from-1].to)
	}
	first := end
	for i := range n {
		size := 1
		for g := 1; g < gens; g++ {
			if l.marked[g*n+i] {
				size = gens
				break
			}
		}
		l.spans = append(l.spans, span{int32(end), int32(end + size)})
		end += size
	}
	l.columns = slices.Grow(l.columns[:first], end-first)[:end]
	clear(l.columns[first:])
}

// openIn reads the columns of r.buf.which in one generation.
func (r *Resolver) openIn(g int, block *book.Block) {
	r.buf.keys = r.buf.keys[:0]
	for _, i := range r.buf.which {
		r.buf.keys = evidence.AppendWeights(r.buf.keys, r.at(block, r.items[i].key))
		if r.mayWeigh(i, g) {
			r.buf.keys = evidence.AppendWeights(r.buf.keys, r.at(block, r.ledger.records[i]))
		}
	}
	n := r.weights(block)
	taken := 0
	for _, i := range r.buf.which {
		c := &r.ledger.of(i)[g]
		c.marked = true
		c.All, n = evidence.WeightsOf(n), n[evidence.WeightCells:]
		if r.mayWeigh(i, g) {
			c.mine, n = evidence.WeightsOf(n), n[evidence.WeightCells:]
		}
		if c.All[evidence.TakenBack] > 0 {
			r.buf.which[taken] = i
			taken++
		}
	}
	if taken == 0 {
		return
	}
	r.buf.keys = r.buf.keys[:0]
	for _, i := range r.buf.which[:taken] {
		r.buf.keys = evidence.AppendWeights(r.buf.keys, r.at(block, r.ledger.backs.Of(r.items[i].key)))
	}
	n = r.weights(block)
	for j, i := range r.buf.which[:taken] {
		r.ledger.of(i)[g].Back = evidence.WeightsOf(n[j*evidence.WeightCells:])
	}
}

// mayWeigh reports whether the voice may have weight on an item in the g'th generation. A vote on a pair is a
// vote on its text as well.
func (r *Resolver) mayWeigh(i, g int) bool {
	it := &r.items[i]
	return !it.pair() || r.ledger.of(it.text)[g].mine != weights{}
}

// weights reads r.buf.keys of the weights of a generation, the overlay included.
func (r *Resolver) weights(block *book.Block) []uint32 {
	n := r.countAll(block.Weights)
	r.over.Weights(block.Start, r.buf.keys, n)
	return n
}

// move gives a voice's vote on an item the wanted weight on one side, and none on the others. It
// retracts the voice's weight in older generations there, so that a repeated vote ages like a new
// one. A repeated vote weighs no less than before, even if its item is better established by now.
func (r *Resolver) move(i int) {
	it, columns := &r.items[i], r.ledger.of(i)
	want := it.want
	for kind := range kinds {
		if want[kind] > 0 || kind == it.kind {
			want[kind] = max(want[kind], stake(columns, kind))
		}
	}
	for g := range columns {
		for kind := range kinds {
			if g == 0 && want[kind] > 0 {
				continue
			}
			// An error of the filters must not retract the weight of other voices.
			if n := min(columns[g].stake(kind), columns[g].Net(kind)); n > 0 {
				r.takeBack(i, g, kind, n)
			}
		}
	}
	for kind := range kinds {
		if n := want[kind] - min(want[kind], columns[0].stake(kind)); n > 0 {
			r.mark(i)
			r.raise(0, it.key, kind, &columns[0].All[kind], n)
			r.raise(0, r.ledger.records[i], kind, &columns[0].mine[kind], n)
		}
	}
}

// takeBack retracts n of a voice's weight on a kind of an item in the g'th generation.
func (r *Resolver) takeBack(i, g int, kind uint8, n uint32) {
	c, key, other := &r.ledger.of(i)[g], r.items[i].key, opposite(kind)
	if c.All[evidence.TakenBack] == 0 {
		r.raise(g, key, evidence.TakenBack, &c.All[evidence.TakenBack], 1)
	}
	r.raise(g, r.ledger.backs.Of(key), kind, &c.Back[kind], n)
	r.raise(g, r.ledger.records[i], other, &c.mine[other], n)
}

// mark records that an item has votes in the open generation.
func (r *Resolver) mark(i int) {
	if c := &r.ledger.of(i)[0]; !c.marked {
		c.marked = true
		r.enter(r.items[i].key)
	}
}

// raise raises a weight of the g'th generation, and its number in the ledger.
func (r *Resolver) raise(g int, k filter.Key, kind uint8, in *uint32, n uint32) {
	block := r.view.Block.Live[g]
	evidence.AddWeight(r.at(block, k), kind, n, func(cell filter.Key, n uint32) { r.weigh(block.Start, cell, n) })
	*in = book.Add(*in, n)
}

// standsBy reports whether a voice's latest vote on a key is for spam and has any weight.
func (r *Resolver) standsBy(base filter.Key, voice string) bool {
	record := r.opts.Keys.Record(voice, base)
	for _, block := range r.view.Block.Live {
		r.buf.keys = evidence.AppendWeights(r.buf.keys[:0], r.at(block, record))
		c := column{mine: evidence.WeightsOf(r.weights(block))}
		if c.stake(evidence.RootSpam) > 0 || c.stake(evidence.StrangerSpam) > 0 {
			return true
		}
	}
	return false
}
