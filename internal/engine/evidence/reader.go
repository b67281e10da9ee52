package evidence

import (
	"math/bits"
	"slices"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
)

// A Reader looks up keys. It keeps its buffers, so that look-ups of known size allocate
// nothing. One goroutine uses it at a time.
type Reader struct {
	Keys    Keys
	Day     uint64  // length of a generation of the tally in seconds, above 0
	Overlay Overlay // nil: none
	// Threshold is the count from which a message is bulk. It bounds the counts of origins that
	// cannot list alone. 0: no bound.
	Threshold uint32
	// Now returns the present time, by which generations open. nil: deliveries of a generation are
	// late at no time, see [verdict.Evidence].
	Now func() time.Time
	// RevocationFirst makes the reader read all filters for every key, for nodes where most keys
	// are revoked. It changes the cost and never the result.
	RevocationFirst bool

	sources *Sources
	today   uint64 // number of the current day
	late    uint64 // number of the first day whose deliveries are late, or today

	request  request
	voices   hearing
	batch    batch
	further  furtherKinds
	search   search
	names    []known // of the keys of the batch
	weighing weighing
	listing  listing
}

// A request is what Read was asked, reset by every call.
type request struct {
	asks []Ask
	out  []Record
	days []uint64 // for each ask, a bit for each day with deliveries
}

// A batch is one look-up of keys in a row of arrays.
type batch struct {
	asks   []int        // indexes of the asks that keys belong to
	form   form         // the kind of keys that stand for an ask
	kinds  uint8        // number of keys for an ask in form ofKinds
	epoch  int          // epoch that keys belong to
	keys   []filter.Key // of asks, in their order
	picks  arrays.Picks // of keys
	counts []uint32     // of keys, in one array
	ahead  readAhead    // of the next arrays
}

// furtherKinds are the kinds that are looked up only if the first kinds are not zero.
type furtherKinds struct {
	asks   []extra
	keys   []filter.Key // of asks
	counts []uint32     // of keys
}

// A search finds, in an index of many arrays, the arrays that may have the keys of a batch.
type search struct {
	asks   []int              // indexes of the asks for which the index has no sum
	keys   []filter.Key       // of asks
	sum    sum                // the sum being made
	arrays []*arrays.Counting // arrays that are to be read

	hits   []int    // numbers of the keys that an array may have
	rows   []uint64 // columns that may have them, a row for each hit
	folded folded

	column     []int        // numbers of the keys that one column may have
	columnKeys []filter.Key // these keys
	columnAsks []int        // indexes of their asks
}

// A weighing reads the weights of votes.
type weighing struct {
	columns  []Column // by generation, then by key
	disputed []int    // indexes into batch.asks, of keys with at least one retracted vote
}

// A listing reads blocklists. Candidates are the asks that a list may have. Each has a number among
// all keys that were looked up.
type listing struct {
	candidates []int // indexes of the asks
	numbers    []int // of the candidates
	bases      []filter.Key
	candidate  [together]int        // by number, the index of the ask
	base       [together]filter.Key // by number
	open       uint64               // a bit for each candidate, by number
	undated    uint64               // a bit for each candidate without a date, by number

	listed  listings
	found   found
	known   []bool         // of the first candidates, by generation of Sources.loose: whether its spam filter has them
	sets    []*arrays.Bits // filters that are read together
	rows    [2][]bool      // of the candidates, by generation of a list, for each side
	spam    []bool         // of the candidates, in one generation
	revoked []bool         // of the candidates, in one generation
	moved   []filter.Key
	states  []verdict.State
	marked  []bool // the lists to read
}

// extra is a further kind of a key, looked up if the first kinds are not zero.
type extra struct {
	ask  int
	kind uint8
	seen uint32 // sightings, of the kind Caught
}

// Begin makes the reader read s. Deliveries of the day before are late in the first half of a day.
func (r *Reader) Begin(s *Sources) {
	r.sources, r.today = s, s.today/r.Day
	r.late = r.today
	if r.Now != nil && r.today > 0 && r.Now().Unix() < int64(s.today+r.Day/2) {
		r.late = r.today - 1
	}
}

// End drops the sources, so that arrays are not kept in memory by a buffer.
func (r *Reader) End() {
	r.sources, r.search.sum.watched = nil, nil
	clear(r.search.arrays[:cap(r.search.arrays)])
}

// together is the maximum number of asks that are read together where there are voices or indexes.
// Each voice takes room for each ask, and one word of an index holds the asks that a filter has.
const together = 64

// Read sets out[i] to the record of asks[i]. out must be as long as asks.
func (r *Reader) Read(asks []Ask, out []Record) {
	for len(r.sources.voices)+len(r.sources.indexes) > 0 && len(asks) > together {
		r.Read(asks[:together], out[:together])
		asks, out = asks[together:], out[together:]
	}
	r.request.asks, r.request.out = asks, out[:len(asks)]
	clear(r.request.out)
	r.request.days = slices.Grow(r.request.days[:0], len(asks))[:len(asks)]
	clear(r.request.days)
	r.voices.begin(len(asks))
	r.count()
	r.bound()
	r.know()
	r.list()
	r.weigh()
	r.request.asks, r.request.out = nil, nil
}

// A form is the kind of keys that a look-up uses for an ask.
type form uint8

const (
	ofKinds   form = iota // the first kinds of its key
	ofNames               // nameKinds
	ofWeights             // the cells of its weights
	ofBack                // the cells of its retracted weights
)

// begin begins a look-up of other keys.
func (r *Reader) begin(f form) {
	b := &r.batch
	b.asks, b.keys, b.form, b.epoch, b.ahead.end = b.asks[:0], b.keys[:0], f, 0, 0
}

// want adds an ask to the look-up.
func (r *Reader) want(ask int) {
	r.batch.asks = append(r.batch.asks, ask)
	r.append(ask)
}

// append appends the keys of an ask.
func (r *Reader) append(ask int) {
	key := r.request.asks[ask].Key
	if r.batch.form == ofBack {
		key = r.Keys.Back(key)
	}
	key = r.keyAt(r.batch.epoch, key)
	switch r.batch.form {
	case ofKinds:
		for kind := range r.batch.kinds {
			r.batch.keys = append(r.batch.keys, key.With(kind))
		}
	case ofNames:
		for _, kind := range nameKinds {
			r.batch.keys = append(r.batch.keys, key.With(kind))
		}
	default:
		r.batch.keys = AppendWeights(r.batch.keys, key)
	}
}

// keyAt returns the form of a key in an epoch. Most nodes have only one.
func (r *Reader) keyAt(epoch int, key filter.Key) filter.Key {
	if epoch == 0 {
		return key
	}
	return r.Keys.At(epoch, key)
}

// turnTo converts the keys of the look-up to an epoch. Most nodes have only one epoch.
func (r *Reader) turnTo(epoch int) {
	if r.batch.epoch == epoch {
		return
	}
	r.batch.epoch, r.batch.keys = epoch, r.batch.keys[:0]
	if r.batch.form != ofBack {
		for _, i := range r.batch.asks {
			r.append(i)
		}
		return
	}
	for _, j := range r.weighing.disputed {
		r.append(r.batch.asks[j])
	}
}

// readAhead holds the counts of the keys of a look-up in several successive arrays.
type readAhead struct {
	at, from, end int // index of the current array, and the range of arrays that were read
	arrays        []*arrays.Counting
	n             []uint32 // by array, then by key
}

// readTogether is the maximum number of counts that are read ahead.
const readTogether = 1 << 12

// load turns the look-up to the i'th of n arrays. It also reads ahead the counts of the keys in the
// arrays that follow.
func (r *Reader) load(i, n int, at func(i int) *generation) {
	r.turnTo(at(i).epoch)
	a := &r.batch.ahead
	if a.at = i; i < a.end {
		return
	}
	a.from, a.end, a.arrays = i, i, a.arrays[:0]
	for ; a.end < n && len(a.arrays) <= readTogether/len(r.batch.keys) && at(a.end).epoch == r.batch.epoch; a.end++ {
		array, ok := at(a.end).array.(*arrays.Counting)
		if !ok {
			break
		}
		a.arrays = append(a.arrays, array)
	}
	a.n = slices.Grow(a.n[:0], len(a.arrays)*len(r.batch.keys))[:len(a.arrays)*len(r.batch.keys)]
	r.batch.picks.Of(r.batch.keys)
	r.batch.picks.CountEach(a.arrays, a.n)
	clear(a.arrays) // or the buffer would keep them in memory
}

// counted returns the counts of the keys of the look-up in its array, in a buffer.
func (r *Reader) counted(array counter) []uint32 {
	if a := &r.batch.ahead; a.at < a.end {
		return a.n[(a.at-a.from)*len(r.batch.keys):][:len(r.batch.keys)]
	}
	r.batch.counts = slices.Grow(r.batch.counts[:0], len(r.batch.keys))[:len(r.batch.keys)]
	array.CountBatch(r.batch.keys, r.batch.counts)
	return r.batch.counts
}

// count adds up the counts of all live generations. Adding the minima of several arrays is tighter
// than the minimum of their sum.
func (r *Reader) count() {
	r.begin(ofKinds)
	r.batch.kinds = CountKinds
	for i, a := range r.request.asks {
		switch {
		case a.Wants&Counts != 0:
			r.want(i)
		case a.Wants&(Sightings|Delivered) != 0:
			r.batch.kinds = Sighting + 1
			r.want(i)
		}
	}
	if len(r.batch.keys) == 0 {
		return
	}
	all := r.sources.counts
	for i := range all {
		r.load(i, len(all), func(i int) *generation { return &all[i].generation })
		r.countIn(&all[i])
	}
	for i := range r.sources.indexes {
		if x := &r.sources.indexes[i]; x.counts != nil {
			r.countFound(x)
		}
	}
	for _, i := range r.batch.asks {
		r.request.out[i].Days = bits.OnesCount64(r.request.days[i])
	}
}

// countIn adds the counts of one array, the first kinds of each key.
func (r *Reader) countIn(c *counts) {
	overlaid := c.own && r.Overlay != nil
	if c.array.Keys() == 0 && !overlaid {
		return
	}
	all := r.counted(c.array)
	if overlaid {
		r.Overlay.Counts(c.start, r.batch.keys, all)
	}
	r.add(c, r.batch.asks, all)
}

// countFound adds the counts of the arrays of an index that may have a key.
func (r *Reader) countFound(x *index) {
	r.turnTo(x.epoch)
	r.keptSums(x)
	kinds := int(r.batch.kinds)
	r.find(x, r.search.keys, kinds)
	r.fold(x)
	r.prefetch(x)
	r.found(x, func(column int, found []int) {
		c := &x.counts[column]
		if c.array == nil {
			return // gone
		}
		r.search.columnKeys, r.search.columnAsks = r.search.columnKeys[:0], r.search.columnAsks[:0]
		for _, j := range found {
			r.search.columnKeys = append(r.search.columnKeys, r.search.keys[j*kinds:(j+1)*kinds]...)
			r.search.columnAsks = append(r.search.columnAsks, r.search.asks[j])
		}
		r.batch.counts = slices.Grow(r.batch.counts[:0], len(r.search.columnKeys))[:len(r.search.columnKeys)]
		c.array.CountBatch(r.search.columnKeys, r.batch.counts)
		r.add(c, r.search.columnAsks, r.batch.counts)
	})
}

// prefetch starts to load the lines that found will read in the arrays of an index.
func (r *Reader) prefetch(x *index) {
	words, kinds := x.Words(), int(r.batch.kinds)
	r.search.arrays, r.search.columnKeys = r.search.arrays[:0], r.search.columnKeys[:0]
	for h, j := range r.search.hits {
		for w, columns := range r.search.rows[h*words : (h+1)*words] {
			r.expect(x, w, columns, r.search.keys[j*kinds])
		}
	}
	arrays.PrefetchEach(r.search.arrays, r.search.columnKeys)
}

// expect adds the arrays of some columns of the w'th word, which will be read for a key, to the
// arrays to prefetch, until there are enough.
func (r *Reader) expect(x *index, w int, columns uint64, key filter.Key) {
	for ; columns != 0 && len(r.search.arrays) < together; columns &= columns - 1 {
		if a := x.arrays[w*64+bits.TrailingZeros64(columns)]; a != nil {
			r.search.arrays, r.search.columnKeys = append(r.search.arrays, a), append(r.search.columnKeys, key)
		}
	}
}

// find looks up keys in an index. Each run of several keys stands for one entry. For each entry
// that some array may have, it adds the entry's number to hits, and a row of the columns that may
// have it to rows.
func (r *Reader) find(x *index, keys []filter.Key, several int) {
	words := x.Words()
	r.search.rows = slices.Grow(r.search.rows[:0], len(keys)/several*words)[:len(keys)/several*words]
	r.search.hits = x.Find(keys, several, r.search.rows, r.search.hits[:0])
}

// anyOf returns the columns of the w'th word that may have any of the keys that find looked up.
func (r *Reader) anyOf(w, words int) (all uint64) {
	for h := range r.search.hits {
		all |= r.search.rows[h*words+w]
	}
	return all
}

// found calls hit for each column whose array may have some of the keys that find looked up, with
// the numbers of these keys.
func (r *Reader) found(x *index, hit func(column int, found []int)) {
	words := x.Words()
	for w := range words {
		for all := r.anyOf(w, words); all != 0; all &= all - 1 {
			bit := bits.TrailingZeros64(all)
			r.search.column = r.search.column[:0]
			for h, j := range r.search.hits {
				if r.search.rows[h*words+w]>>bit&1 != 0 {
					r.search.column = append(r.search.column, j)
				}
			}
			hit(w*64+bit, r.search.column)
		}
	}
}

// add adds the counts of the asks which in one array.
func (r *Reader) add(c *counts, which []int, all []uint32) {
	kinds := int(r.batch.kinds)
	r.further.asks = r.further.asks[:0]
	for j, i := range which {
		cells := all[j*kinds : (j+1)*kinds]
		sum := uint32(0)
		for _, x := range cells { // most arrays have few of the keys
			sum |= x
		}
		if sum == 0 {
			continue
		}
		var n [CountKinds]uint32
		copy(n[:], cells)
		r.take(c, i, &n)
		if c.root && r.request.asks[i].Wants&(Counts|Delivered) != 0 {
			r.wantFurther(i, &n)
		}
	}
	r.countExtra(c)
}

// take adds the first kinds of an ask in one array.
func (r *Reader) take(c *counts, i int, n *[CountKinds]uint32) {
	x := &r.request.out[i]
	x.seen(c.start)
	weighed := kindCounts{c.weighed(n[Sighting]), c.weighed(n[Spam]), c.weighed(n[Ham])}
	if c.voice > 0 {
		r.say(i, c.voice, weighed)
		return
	}
	x.Sightings = book.Add(x.Sightings, weighed[Sighting])
	x.Spam = book.Add(x.Spam, weighed[Spam])
	x.Ham = book.Add(x.Ham, weighed[Ham])
}

// wantFurther records the further kinds to look up for a key that an array has. Counts of peers without
// full weight are not deliveries, and give no standing.
func (r *Reader) wantFurther(i int, n *[CountKinds]uint32) {
	wants := r.request.asks[i].Wants
	if n[Sighting] > 0 {
		r.further.asks = append(r.further.asks, extra{i, Caught, n[Sighting]})
		if wants&Standing != 0 {
			r.further.asks = append(r.further.asks, extra{ask: i, kind: Good})
		}
		if wants&Names != 0 {
			r.further.asks = append(r.further.asks, extra{ask: i, kind: Addresses})
		}
	}
}

// countExtra adds the further kinds of one array. Their lines were just read.
func (r *Reader) countExtra(c *counts) {
	if len(r.further.asks) == 0 {
		return
	}
	r.further.keys = r.further.keys[:0]
	for _, x := range r.further.asks {
		r.further.keys = append(r.further.keys, r.keyAt(c.epoch, r.request.asks[x.ask].Key).With(x.kind))
	}
	r.further.counts = slices.Grow(r.further.counts[:0], len(r.further.keys))[:len(r.further.keys)]
	c.array.CountBatch(r.further.keys, r.further.counts)
	if c.own && r.Overlay != nil {
		r.Overlay.Counts(c.start, r.further.keys, r.further.counts)
	}
	for j, x := range r.further.asks {
		n := r.further.counts[j]
		switch x.kind {
		case Caught:
			r.deliver(x.ask, c.weighed(x.seen-min(x.seen, n)), c)
		case Good:
			r.received(x.ask, verdict.Deliveries{Good: c.weighed(n)}, 0, c.own)
		case Addresses:
			out := &r.request.out[x.ask]
			out.Addresses = book.Add(out.Addresses, c.weighed(n))
		}
	}
}

// deliver records deliveries of a key in one array.
func (r *Reader) deliver(i int, n uint32, c *counts) {
	if n > 0 {
		d, day := r.age(n, c.start)
		r.received(i, d, day, c.own)
	}
}

// age sorts n deliveries in the generation that started at start by their age. day is the bit of an earlier day, and
// 0 for today.
func (r *Reader) age(n uint32, start uint64) (d verdict.Deliveries, day uint64) {
	at := start / r.Day
	if at >= r.today {
		return verdict.Deliveries{New: n}, 0
	}
	if d.Old = n; at >= r.late {
		d.Late = n
	}
	return d, 1 << min(r.today-at, 63)
}

// received adds deliveries, of the node itself or of peers, to the record of an ask.
func (r *Reader) received(i int, d verdict.Deliveries, days uint64, own bool) {
	x := &r.request.out[i]
	x.Old, x.New = book.Add(x.Old, d.Old), book.Add(x.New, d.New)
	x.Late, x.Good = book.Add(x.Late, d.Late), book.Add(x.Good, d.Good)
	if !own {
		addDeliveries(&x.Elsewhere, d)
	}
	r.request.days[i] |= days
}

func addDeliveries(to *verdict.Deliveries, d verdict.Deliveries) {
	to.Old, to.New = book.Add(to.Old, d.Old), book.Add(to.New, d.New)
	to.Late, to.Good = book.Add(to.Late, d.Late), book.Add(to.Good, d.Good)
}

// nameKinds are the kinds of count of a name.
var nameKinds = [...]uint8{Sighting, Addresses}

// know reads the deliveries of names in the generations of the blocklist, which live longer than
// the generations of the tally.
func (r *Reader) know() {
	r.begin(ofNames)
	for i, a := range r.request.asks {
		if a.Wants&Names != 0 {
			r.want(i)
		}
	}
	if len(r.batch.keys) == 0 {
		return
	}
	r.names = slices.Grow(r.names[:0], len(r.batch.asks))[:len(r.batch.asks)]
	clear(r.names)
	all := r.sources.names
	for g := range all {
		r.load(g, len(all), func(g int) *generation { return &all[g] })
		if all[g].array.Keys() == 0 {
			continue
		}
		n, day := r.counted(all[g].array), all[g].start/r.Day
		for j := range r.names {
			r.names[j].add(n[j*len(nameKinds):], g > 0 && day < r.today, r.today-min(day, r.today))
		}
	}
	for j, i := range r.batch.asks {
		out, k := &r.request.out[i], &r.names[j]
		out.Old = max(book.Add(out.Old, out.New), k.deliveries) - out.New
		out.Days = max(out.Days, bits.OnesCount64(k.weeks))
		out.Addresses = max(out.Addresses, k.addresses)
	}
}

// known is the record of a name in the blocklist's generations.
type known struct {
	deliveries, addresses uint32
	weeks                 uint64 // a bit for each past one with deliveries
}

func (k *known) add(n []uint32, over bool, age uint64) {
	k.deliveries, k.addresses = book.Add(k.deliveries, n[0]), book.Add(k.addresses, n[1])
	if over && n[0] > 0 {
		k.weeks |= 1 << min(age, 63)
	}
}

// Vouched reports whether a peer of at least the given weight has a key in the spam filter of a generation that
// started before the given time, in Unix seconds. It looks at the filters one after the other, so it is for few
// messages. The reader has begun.
func (r *Reader) Vouched(key filter.Key, weight float64, before uint64) bool {
	var has [1]bool
	for i := range r.sources.lists {
		l := &r.sources.lists[i]
		if l.own || l.weight < weight {
			continue
		}
		for _, g := range l.gens {
			if g.spam == nil || g.start >= before {
				continue
			}
			if g.spam.HasBatch(r.at(g.epoch, []filter.Key{key}), has[:]); has[0] {
				return true
			}
		}
	}
	return false
}

// weigh adds up the weights of the latest votes for keys with votes, listed keys, and all keys
// without counts. Most mail has none of these.
func (r *Reader) weigh() {
	r.begin(ofWeights)
	for i, a := range r.request.asks {
		x := &r.request.out[i]
		if a.Wants&Judgement != 0 && (a.Wants&Counts == 0 || x.voted() || x.Own != 0 || x.Peers.Spam > 0) {
			r.want(i)
		}
	}
	if len(r.batch.keys) == 0 {
		return
	}
	r.weighing.columns = slices.Grow(r.weighing.columns[:0], len(r.batch.asks)*len(r.sources.weights))[:0]
	for g := range r.sources.weights {
		n := r.weights(g)
		for j := range r.batch.asks {
			r.weighing.columns = append(r.weighing.columns, Column{All: WeightsOf(n[j*WeightCells:])})
		}
	}
	r.takeBack()
	for g := range r.sources.weights {
		for j, i := range r.batch.asks {
			c, x := &r.weighing.columns[g*len(r.batch.asks)+j], &r.request.out[i]
			c.AddTo(&x.Evidence)
			x.Contexts = book.Add(x.Contexts, c.All[Contexts])
		}
	}
}

// weights reads the weights of the keys of the look-up in the g'th generation.
func (r *Reader) weights(g int) []uint32 {
	all := r.sources.weights
	r.load(g, len(all), func(g int) *generation { return &all[g] })
	n := r.counted(all[g].array)
	if r.Overlay != nil {
		r.Overlay.Weights(all[g].start, r.batch.keys, n)
	}
	return n
}

// takeBack reads the retracted weights of keys that are marked as having some.
func (r *Reader) takeBack() {
	all := len(r.batch.asks)
	r.weighing.disputed = r.weighing.disputed[:0]
	r.batch.keys, r.batch.form, r.batch.epoch, r.batch.ahead.end = r.batch.keys[:0], ofBack, 0, 0
	for j, i := range r.batch.asks {
		taken := false
		for g := range r.sources.weights {
			taken = taken || r.weighing.columns[g*all+j].All[TakenBack] > 0
		}
		if taken {
			r.weighing.disputed = append(r.weighing.disputed, j)
			r.append(i)
		}
	}
	if len(r.weighing.disputed) == 0 {
		return
	}
	for g := range r.sources.weights {
		n := r.weights(g)
		for k, j := range r.weighing.disputed {
			r.weighing.columns[g*all+j].Back = WeightsOf(n[k*WeightCells:])
		}
	}
}
