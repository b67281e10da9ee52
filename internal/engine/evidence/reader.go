package evidence

import (
	"math/bits"
	"slices"

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
	// RevocationFirst makes the reader read all filters for every key, for nodes where most keys
	// are revoked. It changes the cost and never the result.
	RevocationFirst bool

	sources *Sources
	today   uint64 // number of the current day
	asks    []Ask
	out     []Record
	days    []uint64 // for each key, a bit for each day with deliveries
	heard   hearing

	which []int        // indexes of the asks that keys belong to
	form  form         // the kind of keys that stand for an ask
	kinds uint8        // number of keys for an ask in form ofKinds
	epoch int          // epoch that keys belong to
	keys  []filter.Key // of one look-up
	picks arrays.Picks // of keys
	n     []uint32     // their counts
	read  readAhead    // of the arrays
	extra []extra      // further kinds to look up
	more  []filter.Key // their keys
	moreN []uint32     // their counts

	rest     []int              // indexes of the asks for which an index has no sum
	restKeys []filter.Key       // likewise
	sum      sum                // the sum being made
	arrays   []*arrays.Counting // arrays that are to be read

	hits   []int        // indexes of keys that an index may have
	rows   []uint64     // columns that may have them, a row for each hit
	ofOne  []int        // numbers of the keys that one column may have
	some   []filter.Key // these keys themselves
	ofSome []int        // indexes of their asks
	folded folded

	known []known // of names

	columns  []column // of weights: by generation, then by key
	disputed []int    // indexes into which, of keys with at least one retracted vote

	candidates []int                // indexes of the asks that a blocklist has
	numbers    []int                // their numbers among all keys that were looked up
	candidate  [together]int        // by number
	base       [together]filter.Key // likewise
	kept       uint64               // a bit for each candidate, by number
	undated    uint64               // a bit for each candidate without a date
	listed     listings
	bases      []filter.Key
	told       told
	spam, off  []bool // of the candidates, in one generation
	moved      []filter.Key
	states     []verdict.State
	marked     []bool // the lists to read
}

// extra is a further kind of a key, looked up if the first kinds are not zero.
type extra struct {
	ask  int
	kind uint8
	seen uint32 // sightings, of the kind Caught
}

// Begin makes the reader read s.
func (r *Reader) Begin(s *Sources) { r.sources, r.today = s, s.today/r.Day }

// End drops the sources, so that arrays are not kept in memory by a buffer.
func (r *Reader) End() {
	r.sources, r.sum.watched = nil, nil
	clear(r.arrays[:cap(r.arrays)])
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
	r.asks, r.out = asks, out[:len(asks)]
	clear(r.out)
	r.days = slices.Grow(r.days[:0], len(asks))[:len(asks)]
	clear(r.days)
	r.heard.begin(len(asks))
	r.count()
	r.bound()
	r.know()
	r.list()
	r.weigh()
	r.asks, r.out = nil, nil
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
	r.which, r.keys, r.form, r.epoch, r.read.end = r.which[:0], r.keys[:0], f, 0, 0
}

// want adds an ask to the look-up.
func (r *Reader) want(ask int) {
	r.which = append(r.which, ask)
	r.append(ask)
}

// append appends the keys of an ask.
func (r *Reader) append(ask int) {
	key := r.asks[ask].Key
	if r.form == ofBack {
		key = r.Keys.Back(key)
	}
	if r.epoch > 0 {
		key = r.Keys.At(r.epoch, key)
	}
	switch r.form {
	case ofKinds:
		for kind := range r.kinds {
			r.keys = append(r.keys, key.With(kind))
		}
	case ofNames:
		for _, kind := range nameKinds {
			r.keys = append(r.keys, key.With(kind))
		}
	default:
		r.keys = AppendWeights(r.keys, key)
	}
}

// turnTo converts the keys of the look-up to an epoch. Most nodes have only one epoch.
func (r *Reader) turnTo(epoch int) {
	if r.epoch == epoch {
		return
	}
	r.epoch, r.keys = epoch, r.keys[:0]
	if r.form != ofBack {
		for _, i := range r.which {
			r.append(i)
		}
		return
	}
	for _, j := range r.disputed {
		r.append(r.which[j])
	}
}

// readAhead holds the counts of the keys of a look-up in several successive arrays.
type readAhead struct {
	at, from, end int // index of the current array, and the range of arrays that were read
	arrays        []*arrays.Counting
	n             []uint32 // by array, then by key
}

// inFlight is the approximate number of lines being loaded at a time. It is enough to use a
// processor's parallel cache misses, and a small part of its first-level cache.
const inFlight = 64

// readTogether is the maximum number of counts that are read ahead.
const readTogether = 1 << 12

// load turns the look-up to the i'th of n arrays. It also reads ahead the counts of the keys in the
// arrays that follow.
func (r *Reader) load(i, n int, at func(i int) *generation) {
	r.turnTo(at(i).epoch)
	a := &r.read
	if a.at = i; i < a.end {
		return
	}
	a.from, a.end, a.arrays = i, i, a.arrays[:0]
	for ; a.end < n && len(a.arrays) <= readTogether/len(r.keys) && at(a.end).epoch == r.epoch; a.end++ {
		array, ok := at(a.end).array.(*arrays.Counting)
		if !ok {
			break
		}
		a.arrays = append(a.arrays, array)
	}
	a.n = slices.Grow(a.n[:0], len(a.arrays)*len(r.keys))[:len(a.arrays)*len(r.keys)]
	r.picks.Of(r.keys)
	r.picks.CountEach(a.arrays, a.n)
	clear(a.arrays) // or the buffer would keep them in memory
}

// counted returns the counts of the keys of the look-up in its array, in a buffer.
func (r *Reader) counted(array counter) []uint32 {
	if a := &r.read; a.at < a.end {
		return a.n[(a.at-a.from)*len(r.keys):][:len(r.keys)]
	}
	r.n = slices.Grow(r.n[:0], len(r.keys))[:len(r.keys)]
	if array.Keys() == 0 {
		clear(r.n)
	} else {
		array.CountBatch(r.keys, r.n)
	}
	return r.n
}

// count adds up the counts of all live generations. Adding the minima of several arrays is tighter
// than the minimum of their sum.
func (r *Reader) count() {
	r.begin(ofKinds)
	r.kinds = CountKinds
	for i, a := range r.asks {
		switch {
		case a.Wants&Counts != 0:
			r.want(i)
		case a.Wants&(Sightings|Delivered) != 0:
			r.kinds = Sighting + 1
			r.want(i)
		}
	}
	if len(r.keys) == 0 {
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
	for _, i := range r.which {
		r.out[i].Days = bits.OnesCount64(r.days[i])
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
		r.Overlay.Counts(c.start, r.keys, all)
	}
	r.add(c, r.which, all)
}

// countFound adds the counts of the arrays of an index that may have a key.
func (r *Reader) countFound(x *index) {
	r.turnTo(x.epoch)
	r.keptSums(x)
	kinds := int(r.kinds)
	r.find(x, r.restKeys, kinds)
	r.fold(x)
	r.prefetch(x)
	r.found(x, func(column int, found []int) {
		c := &x.counts[column]
		if c.array == nil {
			return // gone
		}
		r.some, r.ofSome = r.some[:0], r.ofSome[:0]
		for _, j := range found {
			r.some, r.ofSome = append(r.some, r.restKeys[j*kinds:(j+1)*kinds]...), append(r.ofSome, r.rest[j])
		}
		r.n = slices.Grow(r.n[:0], len(r.some))[:len(r.some)]
		c.array.CountBatch(r.some, r.n)
		r.add(c, r.ofSome, r.n)
	})
}

// prefetch starts to load the lines that found will read in the arrays of an index.
func (r *Reader) prefetch(x *index) {
	words, kinds := x.Words(), int(r.kinds)
	r.arrays, r.some = r.arrays[:0], r.some[:0]
	for h, j := range r.hits {
		for w, columns := range r.rows[h*words : (h+1)*words] {
			r.expect(x, w, columns, r.restKeys[j*kinds])
		}
	}
	arrays.PrefetchEach(r.arrays, r.some)
}

// expect adds the arrays of some columns of the w'th word, which will be read for a key, to the
// arrays to prefetch, until there are enough.
func (r *Reader) expect(x *index, w int, columns uint64, key filter.Key) {
	for ; columns != 0 && len(r.arrays) < together; columns &= columns - 1 {
		if a := x.arrays[w*64+bits.TrailingZeros64(columns)]; a != nil {
			r.arrays, r.some = append(r.arrays, a), append(r.some, key)
		}
	}
}

// find looks up keys in an index. Each run of several keys stands for one entry. For each entry
// that some array may have, it adds the entry's number to hits, and a row of the columns that may
// have it to rows.
func (r *Reader) find(x *index, keys []filter.Key, several int) {
	words := x.Words()
	r.rows = slices.Grow(r.rows[:0], len(keys)/several*words)[:len(keys)/several*words]
	r.hits = x.Find(keys, several, r.rows, r.hits[:0])
}

// anyOf returns the columns of the w'th word that may have any of the keys that find looked up.
func (r *Reader) anyOf(w, words int) (all uint64) {
	for h := range r.hits {
		all |= r.rows[h*words+w]
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
			r.ofOne = r.ofOne[:0]
			for h, j := range r.hits {
				if r.rows[h*words+w]>>bit&1 != 0 {
					r.ofOne = append(r.ofOne, j)
				}
			}
			hit(w*64+bit, r.ofOne)
		}
	}
}

// add adds the counts of the asks which in one array.
func (r *Reader) add(c *counts, which []int, all []uint32) {
	kinds := int(r.kinds)
	r.extra = r.extra[:0]
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
		if c.root && r.asks[i].Wants&(Counts|Delivered) != 0 {
			r.further(i, &n)
		}
	}
	r.countExtra(c)
}

// take adds the first kinds of an ask in one array.
func (r *Reader) take(c *counts, i int, n *[CountKinds]uint32) {
	x := &r.out[i]
	x.seen(c.start)
	weighed := said{c.weighed(n[Sighting]), c.weighed(n[Spam]), c.weighed(n[Ham])}
	if c.voice > 0 {
		r.say(i, c.voice, weighed)
		return
	}
	x.Sightings = book.Add(x.Sightings, weighed[Sighting])
	x.Spam = book.Add(x.Spam, weighed[Spam])
	x.Ham = book.Add(x.Ham, weighed[Ham])
}

// further records the further kinds to look up for a key that an array has. Counts of peers without
// full weight are not deliveries, and give no standing.
func (r *Reader) further(i int, n *[CountKinds]uint32) {
	wants := r.asks[i].Wants
	if n[Sighting] > 0 {
		r.extra = append(r.extra, extra{i, Caught, n[Sighting]})
		if wants&Standing != 0 {
			r.extra = append(r.extra, extra{ask: i, kind: Good})
		}
		if wants&Names != 0 {
			r.extra = append(r.extra, extra{ask: i, kind: Addresses})
		}
	}
}

// countExtra adds the further kinds of one array. Their lines were just read.
func (r *Reader) countExtra(c *counts) {
	if len(r.extra) == 0 {
		return
	}
	r.more = r.more[:0]
	for _, x := range r.extra {
		key := r.asks[x.ask].Key
		if c.epoch > 0 {
			key = r.Keys.At(c.epoch, key)
		}
		r.more = append(r.more, key.With(x.kind))
	}
	r.moreN = slices.Grow(r.moreN[:0], len(r.more))[:len(r.more)]
	c.array.CountBatch(r.more, r.moreN)
	if c.own && r.Overlay != nil {
		r.Overlay.Counts(c.start, r.more, r.moreN)
	}
	for j, x := range r.extra {
		n, out := r.moreN[j], &r.out[x.ask]
		switch x.kind {
		case Caught:
			r.deliver(x.ask, c.weighed(x.seen-min(x.seen, n)), c.start)
		case Good:
			out.Good = book.Add(out.Good, c.weighed(n))
		case Addresses:
			out.Addresses = book.Add(out.Addresses, c.weighed(n))
		}
	}
}

// deliver records deliveries of a key in the generation that started at start.
func (r *Reader) deliver(i int, n uint32, start uint64) {
	if n == 0 {
		return
	}
	out, day := &r.out[i], start/r.Day
	if day >= r.today {
		out.New = book.Add(out.New, n)
		return
	}
	out.Old = book.Add(out.Old, n)
	r.days[i] |= 1 << min(r.today-day, 63)
}

// nameKinds are the kinds of count of a name.
var nameKinds = [...]uint8{Sighting, Addresses}

// know reads the deliveries of names in the generations of the blocklist, which live longer than
// the generations of the tally.
func (r *Reader) know() {
	r.begin(ofNames)
	for i, a := range r.asks {
		if a.Wants&Names != 0 {
			r.want(i)
		}
	}
	if len(r.keys) == 0 {
		return
	}
	r.known = slices.Grow(r.known[:0], len(r.which))[:len(r.which)]
	clear(r.known)
	all := r.sources.names
	for g := range all {
		r.load(g, len(all), func(g int) *generation { return &all[g] })
		if all[g].array.Keys() == 0 {
			continue
		}
		n, day := r.counted(all[g].array), all[g].start/r.Day
		for j := range r.known {
			r.known[j].add(n[j*len(nameKinds):], g > 0 && day < r.today, r.today-min(day, r.today))
		}
	}
	for j, i := range r.which {
		out, k := &r.out[i], &r.known[j]
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

// weigh adds up the weights of the latest votes for keys with votes, listed keys, and all keys
// without counts. Most mail has none of these.
func (r *Reader) weigh() {
	r.begin(ofWeights)
	for i, a := range r.asks {
		x := &r.out[i]
		if a.Wants&Judgement != 0 && (a.Wants&Counts == 0 || x.voted() || x.Own != 0 || x.Peers.Spam > 0) {
			r.want(i)
		}
	}
	if len(r.keys) == 0 {
		return
	}
	r.columns = slices.Grow(r.columns[:0], len(r.which)*len(r.sources.weights))[:0]
	for g := range r.sources.weights {
		n := r.weights(g)
		for j := range r.which {
			r.columns = append(r.columns, column{all: WeightsOf(n[j*WeightCells:])})
		}
	}
	r.takeBack()
	for g := range r.sources.weights {
		for j, i := range r.which {
			r.columns[g*len(r.which)+j].addTo(&r.out[i])
		}
	}
}

// A column is the weights of one key in one generation.
type column struct{ all, back [WeightKinds]uint32 }

func (c *column) addTo(x *Record) {
	net := func(kind uint8) int64 { return int64(c.all[kind] - min(c.all[kind], c.back[kind])) }
	x.Votes.Spam += net(RootSpam)
	x.Votes.Ham += net(RootHam)
	x.Votes.StrangerSpam += net(StrangerSpam)
	x.Votes.StrangerHam += net(StrangerHam)
	x.Unblamed += net(Unblamed)
	x.Contexts = book.Add(x.Contexts, c.all[Contexts])
}

// weights reads the weights of the keys of the look-up in the g'th generation.
func (r *Reader) weights(g int) []uint32 {
	all := r.sources.weights
	r.load(g, len(all), func(g int) *generation { return &all[g] })
	n := r.counted(all[g].array)
	if r.Overlay != nil {
		r.Overlay.Weights(all[g].start, r.keys, n)
	}
	return n
}

// takeBack reads the retracted weights of keys that are marked as having some.
func (r *Reader) takeBack() {
	all := len(r.which)
	r.disputed = r.disputed[:0]
	r.keys, r.form, r.epoch, r.read.end = r.keys[:0], ofBack, 0, 0
	for j, i := range r.which {
		taken := false
		for g := range r.sources.weights {
			taken = taken || r.columns[g*all+j].all[TakenBack] > 0
		}
		if taken {
			r.disputed = append(r.disputed, j)
			r.append(i)
		}
	}
	if len(r.disputed) == 0 {
		return
	}
	for g := range r.sources.weights {
		n := r.weights(g)
		for k, j := range r.disputed {
			r.columns[g*all+j].back = WeightsOf(n[k*WeightCells:])
		}
	}
}
