package evidence

import (
	"math/bits"
	"slices"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
)

// few is how many arrays that have a key are read one after the other. What more of them count
// is added up in the rows of an index, if it has counts. That is the same sum.
const few = 8

// folded is one key whose counts are added up in an index. The kinds that nobody wants have no
// counts.
type folded struct {
	keys  []filter.Key
	kinds []uint8
	all   []filter.CountWord // by kind, then by word
	of    [Claims][]filter.CountWord
	none  []filter.CountWord
}

// fold adds the counts of keys that find has found in many arrays of an index. In rows it
// leaves the arrays that are to be read.
func (r *Reader) fold(x *index) {
	if !x.Exact() {
		return
	}
	words := x.Words()
	for h, j := range r.hits {
		row := r.rows[h*words : (h+1)*words]
		if ones(row) <= few {
			continue
		}
		i := r.which[j]
		if !r.folded.look(x, r.keys[j*int(r.kinds):(j+1)*int(r.kinds)], r.furtherKeys(i, x.epoch)) {
			continue
		}
		for w := range row {
			row[w] = 0
			for p := range x.parts[w] {
				row[w] |= r.foldPart(x, &x.parts[w][p], i, w)
			}
		}
		if ones(row) > few {
			r.watch(x, i, row)
		}
	}
}

// watch adds the counts of a key in the arrays of row, which is empty then. They are more than
// the rows of an index have, so it watches the key from now on. What they add is kept until one
// of them grows.
func (r *Reader) watch(x *index, i int, row []uint64) {
	key := r.asks[i].Key
	if x.epoch > 0 {
		key = r.Keys.At(x.epoch, key)
	}
	r.more = r.more[:0]
	for kind := range Claims {
		r.more = append(r.more, key.With(kind))
	}
	watched := x.Watch(r.more)
	if watched == nil {
		return
	}
	at := &x.sums[key.Lo%uint64(len(x.sums))]
	s, grown := at.Load(), watched.Grown()
	if s == nil || s.grown != grown || s.wants != r.asks[i].Wants || s.kinds != r.kinds || !slices.Equal(s.row, row) {
		s = &sum{grown: grown, wants: r.asks[i].Wants, kinds: r.kinds, row: slices.Clone(row)}
		var n [Claims]uint32
		for w, all := range row {
			for ; all != 0; all &= all - 1 {
				column := w*64 + bits.TrailingZeros64(all)
				c := &x.counts[column]
				watched.Counts(column, c.array, n[:])
				s.add(r, c, &n)
			}
		}
		at.Store(s)
	}
	clear(row)
	r.addSum(i, s)
}

// maxSums is for how many sums an index has places. It watches up to a quarter as many keys, so that few share a
// place.
const maxSums = 4096

// A sum is what the arrays of row count of a watched key, as add and countExtra add it to a
// record. It is valid as long as the key has grown as much.
type sum struct {
	grown uint64
	wants Wants
	kinds uint8
	row   []uint64

	n                         said // without voices
	old, new, good, addresses uint32
	days                      uint64
	starts                    []uint64 // of the generations
	voices                    []voiceSaid
}

// A voiceSaid is what one voice says.
type voiceSaid struct {
	voice int32
	said
}

// add adds the counts of all kinds in one array.
func (s *sum) add(r *Reader, c *counts, n *[Claims]uint32) {
	if s.kinds <= Spam {
		n[Spam], n[Ham] = 0, 0
	}
	if n[Sighting] == 0 && n[Spam] == 0 && n[Ham] == 0 {
		return
	}
	if !slices.Contains(s.starts, c.start) {
		s.starts = append(s.starts, c.start)
	}
	by := said{c.weighed(n[Sighting]), c.weighed(n[Spam]), c.weighed(n[Ham])}
	if c.voice > 0 {
		s.voices = append(s.voices, voiceSaid{int32(c.voice), by})
		return
	}
	for kind := range by {
		s.n[kind] = book.Add(s.n[kind], by[kind])
	}
	if n[Sighting] == 0 || s.wants&(Counts|Delivered) == 0 {
		return
	}
	if by := c.weighed(n[Sighting] - min(n[Sighting], n[Caught])); by > 0 {
		if day := c.start / r.Day; day >= r.today {
			s.new = book.Add(s.new, by)
		} else {
			s.old = book.Add(s.old, by)
			s.days |= 1 << min(r.today-day, 63)
		}
	}
	if s.wants&Standing != 0 {
		s.good = book.Add(s.good, c.weighed(n[Good]))
	}
	if s.wants&Names != 0 {
		s.addresses = book.Add(s.addresses, c.weighed(n[Addresses]))
	}
}

// addSum adds a sum to the record of an ask.
func (r *Reader) addSum(i int, s *sum) {
	x := &r.out[i]
	x.Sightings, x.Spam, x.Ham = book.Add(x.Sightings, s.n[Sighting]), book.Add(x.Spam, s.n[Spam]), book.Add(x.Ham, s.n[Ham])
	x.Old, x.New, x.Good, x.Addresses = book.Add(x.Old, s.old), book.Add(x.New, s.new), book.Add(x.Good, s.good), book.Add(x.Addresses, s.addresses)
	r.days[i] |= s.days
	for _, start := range s.starts {
		x.seen(start)
	}
	for _, v := range s.voices {
		r.say(i, int(v.voice), v.said)
	}
}

func ones(row []uint64) (n int) {
	for _, w := range row {
		n += bits.OnesCount64(w)
	}
	return n
}

// furtherKeys returns the keys of the further kinds of an ask, in an epoch. The kinds are those
// that further wants.
func (r *Reader) furtherKeys(i, epoch int) []filter.Key {
	f, wants := &r.folded, r.asks[i].Wants
	f.kinds, r.more = f.kinds[:0], r.more[:0]
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
	key := r.asks[i].Key
	if epoch > 0 {
		key = r.Keys.At(epoch, key)
	}
	for _, kind := range f.kinds {
		r.more = append(r.more, key.With(kind))
	}
	return r.more
}

// look reads the counts of the first kinds of a key and of those further kinds that f.kinds
// names. It reports whether the index knows them.
func (f *folded) look(x *index, first, further []filter.Key) bool {
	words := x.Words()
	f.keys = append(append(f.keys[:0], first...), further...)
	f.all = slices.Grow(f.all[:0], len(f.keys)*words)[:len(f.keys)*words]
	if !x.Counts(f.keys, f.all) {
		return false
	}
	if len(f.none) < words {
		f.none = make([]filter.CountWord, words)
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

// foldPart adds to the record of an ask what one part of the w'th word counts, as add and
// countExtra do for single arrays. It returns those of its columns that are to be read, for
// they count more than the index knows.
func (r *Reader) foldPart(in *index, p *part, i, w int) (read uint64) {
	f, x, wants := &r.folded, &r.out[i], r.asks[i].Wants
	seen, spam, ham := &f.of[Sighting][w], &f.of[Spam][w], &f.of[Ham][w]
	caught, good, addresses := &f.of[Caught][w], &f.of[Good][w], &f.of[Addresses][w]
	read = seen.More | spam.More | ham.More
	if p.root {
		read |= seen.Has() & (caught.More | good.More | addresses.More)
	}
	read &= p.columns
	columns := p.columns &^ read
	if (seen.Has()|spam.Has()|ham.Has())&columns == 0 {
		return read
	}
	if !p.root {
		x.seen(p.start)
		r.sayAll(in, w, p, i, Sighting, seen.N, columns)
		r.sayAll(in, w, p, i, Spam, spam.N, columns)
		r.sayAll(in, w, p, i, Ham, ham.N, columns)
		return read
	}
	x.Sightings = book.Add(x.Sightings, p.sum(seen.N, columns))
	x.Spam = book.Add(x.Spam, p.sum(spam.N, columns))
	x.Ham = book.Add(x.Ham, p.sum(ham.N, columns))
	x.seen(p.start)
	columns &= seen.Has()
	if columns != 0 && wants&(Counts|Delivered) != 0 {
		r.deliver(i, p.sum(less(seen.N, caught.N), columns), p.start)
		x.Good = book.Add(x.Good, p.sum(good.N, columns))
		x.Addresses = book.Add(x.Addresses, p.sum(addresses.N, columns))
	}
	return read
}

// A digits is a number from 0 to 7 for each of 64 columns, as its binary digits, lowest first.
type digits = [3]uint64

// sum returns what the counts n of some columns of the part add.
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

// less returns a - b, or 0 where b is larger.
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
