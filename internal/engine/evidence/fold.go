package evidence

import (
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
)

// few is the number of arrays with a key up to which they are read one after the other. The counts
// of more arrays are added up in the rows of an index, if it has counts, and cached. The sum is the
// same.
const few = 8

// folded is one key whose counts are added up in an index. Kinds that are not wanted have no
// counts.
type folded struct {
	keys  []filter.Key
	kinds []uint8
	all   []arrays.CountWord // by kind, then by word
	of    [Claims][]arrays.CountWord
	none  []arrays.CountWord
}

// fold adds the counts of keys that find has found in many arrays of an index, and caches the sums.
// It leaves in rows the arrays that are still to be read.
func (r *Reader) fold(x *index) {
	words, kinds := x.Words(), int(r.batch.kinds)
	hits := r.search.hits
	for h, j := range hits {
		row := r.search.rows[h*words : (h+1)*words]
		if ones(row) <= few {
			continue
		}
		i, first := r.search.asks[j], r.search.keys[j*kinds:(j+1)*kinds]
		s := &r.search.sum
		*s = sum{id: first[0], wants: r.request.asks[i].Wants, kinds: r.batch.kinds, late: r.late,
			voices: s.voices[:0]}
		all := r.allKinds(i, x.epoch)
		if s.watched = x.Watch(all[:]); s.watched == nil {
			continue
		}
		s.grown = s.watched.Grown() // must come before any count is read
		if r.search.folded.look(x, first, r.furtherKeys(i, x.epoch)) {
			for w := range row {
				row[w] = 0
				for p := range x.parts[w] {
					row[w] |= r.foldPart(s, x, &x.parts[w][p], w)
				}
			}
			// Counts of a key that many arrays count often are cached by array, so that not all
			// arrays are read again when one changes.
			r.readMore(s, x, row, all[:], ones(row) > few)
		} else {
			var again [1]int
			x.Find(first, kinds, row, again[:0])
			r.readMore(s, x, row, all[:], false)
		}
		clear(row)
		x.keep(s)
		r.addSum(i, s)
	}
}

// readMore adds the counts of the arrays in row to a sum.
func (r *Reader) readMore(s *sum, x *index, row []uint64, all []filter.Key, watched bool) {
	var n [Claims]uint32
	for w, columns := range row {
		r.search.arrays, r.search.columnKeys = r.search.arrays[:0], r.search.columnKeys[:0]
		r.expect(x, w, columns, all[0])
		arrays.PrefetchEach(r.search.arrays, r.search.columnKeys)
		for ; columns != 0; columns &= columns - 1 {
			column := w*64 + bits.TrailingZeros64(columns)
			switch c := &x.counts[column]; {
			case c.array == nil: // gone
			case watched:
				s.watched.Counts(column, c.array, n[:])
				s.add(r, c, &n)
			default:
				c.array.CountBatch(all, n[:])
				s.add(r, c, &n)
			}
		}
	}
}

// allKinds returns the keys, in an epoch, of all kinds of an ask that contribute to a record.
func (r *Reader) allKinds(i, epoch int) (all [Claims]filter.Key) {
	key := r.keyAt(epoch, r.request.asks[i].Key)
	for kind := range Claims {
		all[kind] = key.With(kind)
	}
	return all
}

const (
	sumWays   = 4
	maxSums   = 16_384  // places for sums in an index, sumWays of them for a key; it watches half as many keys
	maxVoices = 1 << 19 // maximum number of voices in all sums of an index
)

// A sum is the counts of a key in the arrays of an index, in the form that add and countExtra add
// to a record. It is valid until one of the arrays counts the key again.
type sum struct {
	id      filter.Key // the key of the first kind
	watched *arrays.Watched
	grown   uint64
	wants   Wants
	kinds   uint8

	late        uint64     // of the reader, for which the deliveries are right
	n           kindCounts // without voices
	deliveries  verdict.Deliveries
	addresses   uint32
	days        uint64
	counted     bool   // by at least one array
	first, last uint64 // starts of the generations that have the key
	voices      []voiceCounts
}

// A voiceCounts is the counts of one voice.
type voiceCounts struct {
	voice int32
	kindCounts
}

// keep caches a copy of a sum, if there is room for its voices.
func (x *index) keep(s *sum) {
	if s.watched == nil || atomic.LoadInt64(&x.kept)+int64(len(s.voices)) > maxVoices {
		return
	}
	places := x.places(s.id)
	at := &places[s.id.Hi%sumWays]
	for i := range places {
		if old := places[i].Load(); old == nil || old.of(s.id) || !old.watched.Valid(old.grown) {
			at = &places[i]
			break
		}
	}
	kept := *s
	kept.voices = slices.Clone(s.voices)
	added := int64(len(s.voices))
	if old := at.Swap(&kept); old != nil {
		added -= int64(len(old.voices))
	}
	atomic.AddInt64(&x.kept, added)
}

// places returns the places where the sum of a key may be cached.
func (x *index) places(id filter.Key) []atomic.Pointer[sum] {
	at := id.Lo % (maxSums / sumWays) * sumWays
	return x.sums[at : at+sumWays]
}

func (s *sum) of(id filter.Key) bool { return s.id == id }

// keptSums adds the cached sums to the records. It leaves the asks without a cached sum, and their
// keys, in rest and restKeys.
func (r *Reader) keptSums(x *index) {
	r.search.asks, r.search.keys = r.search.asks[:0], r.search.keys[:0]
	kinds := int(r.batch.kinds)
next:
	for j, i := range r.batch.asks {
		keys := r.batch.keys[j*kinds : (j+1)*kinds]
		places := x.places(keys[0])
		for n := range places {
			s := places[n].Load()
			if s != nil && s.of(keys[0]) && s.wants == r.request.asks[i].Wants &&
				s.kinds == r.batch.kinds && s.late == r.late && s.watched.Valid(s.grown) {
				r.addSum(i, s)
				continue next
			}
		}
		r.search.asks, r.search.keys = append(r.search.asks, i), append(r.search.keys, keys...)
	}
}

// seen records a generation that has the key.
func (s *sum) seen(start uint64) {
	if !s.counted {
		s.counted, s.first, s.last = true, start, start
	}
	s.first, s.last = min(s.first, start), max(s.last, start)
}

// add adds the counts of all kinds in one array.
func (s *sum) add(r *Reader, c *counts, n *[Claims]uint32) {
	if s.kinds <= Spam {
		n[Spam], n[Ham] = 0, 0
	}
	if n[Sighting] == 0 && n[Spam] == 0 && n[Ham] == 0 {
		return
	}
	s.seen(c.start)
	by := kindCounts{c.weighed(n[Sighting]), c.weighed(n[Spam]), c.weighed(n[Ham])}
	if c.voice > 0 {
		s.voices = append(s.voices, voiceCounts{int32(c.voice), by})
		return
	}
	s.say(by)
	if n[Sighting] == 0 || s.wants&(Counts|Delivered) == 0 {
		return
	}
	s.deliver(r, c.weighed(n[Sighting]-min(n[Sighting], n[Caught])), c.start)
	if s.wants&Standing != 0 {
		addDeliveries(&s.deliveries, verdict.Deliveries{Good: c.weighed(n[Good])})
	}
	if s.wants&Names != 0 {
		s.addresses = book.Add(s.addresses, c.weighed(n[Addresses]))
	}
}

// say adds counts that have no bound.
func (s *sum) say(by kindCounts) {
	for kind := range by {
		s.n[kind] = book.Add(s.n[kind], by[kind])
	}
}

// deliver adds deliveries in the generation that started at start.
func (s *sum) deliver(r *Reader, n uint32, start uint64) {
	if n > 0 {
		d, day := r.age(n, start)
		addDeliveries(&s.deliveries, d)
		s.days |= day
	}
}

// addSum adds a sum to the record of an ask.
func (r *Reader) addSum(i int, s *sum) {
	x := &r.request.out[i]
	x.Sightings, x.Spam, x.Ham = book.Add(x.Sightings, s.n[Sighting]), book.Add(x.Spam, s.n[Spam]),
		book.Add(x.Ham, s.n[Ham])
	x.Addresses = book.Add(x.Addresses, s.addresses)
	r.received(i, s.deliveries, s.days, false)
	if s.counted {
		x.seen(s.first)
		x.seen(s.last)
	}
	for _, v := range s.voices {
		r.say(i, int(v.voice), v.kindCounts)
	}
}

func ones(row []uint64) (n int) {
	for _, w := range row {
		n += bits.OnesCount64(w)
	}
	return n
}

// furtherKeys returns the keys, in an epoch, of the further kinds of an ask, the same kinds that
// wantFurther selects.
func (r *Reader) furtherKeys(i, epoch int) []filter.Key {
	f, wants := &r.search.folded, r.request.asks[i].Wants
	f.kinds, r.further.keys = f.kinds[:0], r.further.keys[:0]
	if wants&(Counts|Delivered) == 0 {
		return nil
	}
	f.kinds = append(f.kinds, Caught)
	if wants&Standing != 0 {
		f.kinds = append(f.kinds, Good)
	}
	if wants&Names != 0 {
		f.kinds = append(f.kinds, Addresses)
	}
	key := r.keyAt(epoch, r.request.asks[i].Key)
	for _, kind := range f.kinds {
		r.further.keys = append(r.further.keys, key.With(kind))
	}
	return r.further.keys
}

// look reads the counts of the first kinds of a key and of the further kinds in f.kinds. It reports
// whether the index has them.
func (f *folded) look(x *index, first, further []filter.Key) bool {
	words := x.Words()
	f.keys = append(append(f.keys[:0], first...), further...)
	f.all = slices.Grow(f.all[:0], len(f.keys)*words)[:len(f.keys)*words]
	if !x.Counts(f.keys, f.all) {
		return false
	}
	if len(f.none) < words {
		f.none = make([]arrays.CountWord, words)
	}
	for kind := range f.of {
		f.of[kind] = f.none
	}
	for n := range f.keys {
		kind := uint8(n)
		if n >= len(first) {
			kind = f.kinds[n-len(first)]
		}
		f.of[kind] = f.all[n*words : (n+1)*words]
	}
	return true
}

// foldPart adds the counts of one part of the w'th word to a sum, as add does for single arrays. It
// returns the columns whose arrays are still to be read, because they count more than the index can
// represent.
func (r *Reader) foldPart(s *sum, in *index, p *part, w int) (read uint64) {
	f := &r.search.folded
	seen, spam, ham := &f.of[Sighting][w], &f.of[Spam][w], &f.of[Ham][w]
	caught, good, addresses := &f.of[Caught][w], &f.of[Good][w], &f.of[Addresses][w]
	read = seen.More | spam.More | ham.More
	if p.root {
		read |= seen.Has() & (caught.More | good.More | addresses.More)
	}
	read &= p.columns
	columns := p.columns &^ read
	columns &= seen.Has() | spam.Has() | ham.Has()
	if columns == 0 {
		return read
	}
	s.seen(p.start)
	if !p.root {
		for voices := in.voices[w*64:]; columns != 0; columns &= columns - 1 {
			bit := bits.TrailingZeros64(columns)
			by := kindCounts{p.weighed(seen.N, bit), p.weighed(spam.N, bit), p.weighed(ham.N, bit)}
			s.voices = append(s.voices, voiceCounts{voices[bit], by})
		}
		return read
	}
	s.say(kindCounts{p.sum(seen.N, columns), p.sum(spam.N, columns), p.sum(ham.N, columns)})
	columns &= seen.Has()
	if columns != 0 && s.wants&(Counts|Delivered) != 0 {
		s.deliver(r, p.sum(less(seen.N, caught.N), columns), p.start)
		addDeliveries(&s.deliveries, verdict.Deliveries{Good: p.sum(good.N, columns)})
		s.addresses = book.Add(s.addresses, p.sum(addresses.N, columns))
	}
	return read
}

// A digits is a number from 0 to 7 for each of 64 columns, as its binary digits, lowest first.
type digits = [3]uint64

// weighed returns the weighed count of a column of the part.
func (p *part) weighed(n digits, bit int) uint32 {
	return p.weighs[n[0]>>bit&1|n[1]>>bit&1<<1|n[2]>>bit&1<<2]
}

// sum returns the sum of the weighed counts n of some columns of the part.
func (p *part) sum(n digits, columns uint64) (sum uint32) {
	for i := range n {
		n[i] &= columns
	}
	if n == (digits{}) {
		return 0
	}
	if p.weight >= 1 {
		return uint32(bits.OnesCount64(n[0]) + 2*bits.OnesCount64(n[1]) + 4*bits.OnesCount64(n[2]))
	}
	for value := uint32(1); value < 8; value++ {
		have := columns
		for i := range n {
			have &= n[i] ^ (uint64(value>>i&1) - 1)
		}
		if have != 0 {
			sum += uint32(bits.OnesCount64(have)) * weighed(p.weight, value)
		}
	}
	return sum
}

// less returns a - b for each column, or 0 where b is larger.
func less(a, b digits) (d digits) {
	borrow := uint64(0)
	for i := range d {
		d[i] = a[i] ^ b[i] ^ borrow
		borrow = ^a[i]&b[i] | ^(a[i]^b[i])&borrow
	}
	for i := range d {
		d[i] &^= borrow
	}
	return d
}
