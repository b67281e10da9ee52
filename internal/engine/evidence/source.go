package evidence

import (
	"cmp"
	"math"
	"slices"
	"sync/atomic"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
)

// A counter is the reading side of a counting array.
type counter interface {
	CountBatch(keys []filter.Key, out []uint32)
	Keys() uint64
}

// A set is the reading side of a bit array, or of several combined.
type set interface {
	HasBatch(keys []filter.Key, out []bool)
	Keys() uint64
}

// A generation is a counting array of one generation.
type generation struct {
	start uint64
	array counter
	epoch int
}

// A counts is the counts of one generation: the node's own, of an origin, or of
// several origins merged.
type counts struct {
	generation
	weight float64 // of an origin; 1 for the node's own
	root   bool    // its sightings are deliveries
	own    bool
	voice  int // number of the voice that the counts belong to, from 1; 0: they are not bounded
}

// weighed returns a count of n, multiplied by the weight.
func (c *counts) weighed(n uint32) uint32 { return weighed(c.weight, n) }

func weighed(weight float64, n uint32) uint32 {
	if weight < 1 {
		return uint32(math.Ceil(weight * float64(n)))
	}
	return n
}

// A list is the blocklist of one node, newest generation first.
type list struct {
	weight float64
	own    bool
	union  bool // merged from several origins, which count as one
	gens   []lists
	always bool // at least one filter is in no index
}

// A lists is the filters of one generation of a blocklist; nil where there is none.
type lists struct {
	start         uint64
	spam, revoked set
	epoch         int
	at            [2]seat // where indexes have the two filters
	loose         int     // number of the generation in Sources.loose, from 1; 0: it is not there
}

// A seat is the place of a filter in an index. The zero value means that no index has the filter.
type seat struct {
	in     int // number of the index, from 1
	column int
}

// An index finds the arrays, among many, that may have a key.
type index struct {
	*arrays.Sliced
	epoch   int
	counts  []counts              // by column, of counts; an array of nil where there is none
	arrays  []*arrays.Counting    // the same arrays
	parts   [][]part              // of counts, by word of 64 columns
	voices  []int32               // voices of counts, by column
	sums    []atomic.Pointer[sum] // cached sums of counts, by key
	kept    int64                 // voices in them
	lists   []listed              // by column, of lists
	spam    []uint64              // the columns of spam filters, by word
	revoked []uint64              // the columns of revocation filters, by word
}

// A part is the columns, among 64 of an index, whose counts are added up in the same way.
type part struct {
	start   uint64
	weight  float64
	root    bool
	columns uint64    // bits
	weighs  [8]uint32 // the weighed values of counts from 0 to 7
}

// A place is the position of a generation of a list: the numbers of the list and of the generation.
type place struct{ list, gen int }

// A listed is a filter of a list.
type listed struct {
	list  int
	array *arrays.Bits
}

// Sources are all the arrays that a look-up reads. They are immutable, and any number of readers
// may use them at once.
type Sources struct {
	Mature bool // verdict.Mature of all deliveries; set by the maker of the sources

	today uint64                 // start of the newest generation of the tally
	at    map[*arrays.Sliced]int // numbers of the indexes

	voices  []float64 // their shares of the promotion weight, see voices
	counts  []counts  // counts that are in no index
	lists   []list
	indexes []index
	gens    []lists      // of all lists
	loose   []place      // generations whose spam filter no index finds
	weights []generation // of votes, newest first; only the node's own book has these
	names   []generation // deliveries of names, likewise
}

// A View is the node's own books and the replicas of peers.
type View struct {
	Tally  book.Book[*book.Tally]
	Block  book.Book[*book.Block]
	Remote *replica.View
	// KeyIDs are the IDs of the secrets of the arrays, newest first. The index of an array's KeyID
	// is its epoch. nil: all arrays are of epoch 0.
	KeyIDs []uint64
}

// Epoch returns the epoch of an array. ok is false if its secret is no longer known: no key can be
// found in it then.
func (v *View) Epoch(g filter.Geometry) (epoch int, ok bool) {
	if v.KeyIDs == nil {
		return 0, true
	}
	epoch = slices.Index(v.KeyIDs, g.KeyID)
	return epoch, epoch >= 0
}

// NewSources returns the sources in v. promotion is the weight from which an origin can list alone,
// its sightings are deliveries, and its counts have no bound.
func NewSources(v View, promotion float64) *Sources {
	m := maker{Sources: &Sources{at: make(map[*arrays.Sliced]int)}, view: v, numbers: newVoices(v.Remote, promotion)}
	m.Sources.voices = m.numbers.shares
	m.index()
	m.own()
	m.origins()
	m.merged()
	m.cut()
	for i := range m.indexes {
		m.indexes[i].part()
	}
	return m.Sources
}

// A maker makes the sources in a view.
type maker struct {
	*Sources
	view    View
	numbers *voices
}

// index adds the indexes, before the arrays that they find.
func (m *maker) index() {
	for _, x := range m.view.Remote.Indexes {
		if epoch, ok := m.view.Epoch(x.Geometry()); ok {
			m.at[x.Sliced] = len(m.indexes)
			m.indexes = append(m.indexes, newIndex(x.Sliced, epoch))
		}
	}
}

// own adds the node's own books.
func (m *maker) own() {
	if live := m.view.Tally.Live; len(live) > 0 {
		m.today = live[0].Start
	}
	for _, g := range m.view.Tally.Live {
		if epoch, ok := m.view.Epoch(g.CountsGeometry); ok {
			m.count(counts{generation{g.Start, g.Counts, epoch}, 1, true, true, 0})
		}
	}
	var gens []lists
	for _, g := range m.view.Block.Live {
		if epoch, ok := m.view.Epoch(g.SpamGeometry); ok {
			gens = append(gens, lists{start: g.Start, spam: g.Spam, revoked: g.Revoked, epoch: epoch})
			m.weights = append(m.weights, generation{g.Start, g.Weights, epoch})
			m.names = append(m.names, generation{g.Start, g.Names, epoch})
		}
	}
	m.list(list{weight: 1, own: true}, gens)
}

// origins adds the replicas of origins. The lists of a former incarnation are joined to its owner's.
func (m *maker) origins() {
	former := make(map[string][]*replica.Held) // by owner
	for _, r := range m.view.Remote.Origins {
		if r.Owner() != r.ID {
			former[r.Owner()] = append(former[r.Owner()], r)
		}
	}
	for _, r := range m.view.Remote.Origins {
		if r.Weight == 0 {
			continue
		}
		for _, g := range r.Tally {
			m.remote(g.Start, g.Counts, r.Weight, r.ID)
		}
		if r.Owner() == r.ID {
			m.list(list{weight: r.Weight}, m.gensOf(blocksOf(r, former[r.ID]), setOf))
		}
	}
}

// merged adds the arrays into which arrays of several origins are merged.
func (m *maker) merged() {
	for _, c := range m.view.Remote.Counts {
		m.remote(c.Start, c.Counts, c.Weight, c.Origins[0])
	}
	for _, l := range m.view.Remote.Lists {
		m.list(list{weight: l.Weight, union: true}, m.gensOf(l.Block, unionOf))
	}
}

// remote adds counts of an origin, or of several that share its voice.
func (m *maker) remote(start uint64, array *arrays.Counting, weight float64, origin string) {
	if epoch, ok := m.view.Epoch(array.Geometry()); ok {
		m.count(counts{generation{start, array, epoch}, weight, weight >= m.numbers.promotion, false,
			m.numbers.of(origin, weight)})
	}
}

// gensOf returns the generations of a remote list whose secret is known.
func (m *maker) gensOf(blocks []*replica.MergedBlock, combine func([]*arrays.Bits) set) (gens []lists) {
	for _, b := range blocks {
		if epoch, ok := m.view.epochOf(slices.Concat(b.Spam, b.Revoked)...); ok {
			gens = append(gens, lists{start: b.Start, spam: combine(b.Spam), revoked: combine(b.Revoked), epoch: epoch})
		}
	}
	return gens
}

func newIndex(of *arrays.Sliced, epoch int) index {
	x := index{Sliced: of, epoch: epoch}
	if of.Geometry().Kind == filter.Cells {
		x.counts, x.arrays = make([]counts, of.Columns()), make([]*arrays.Counting, of.Columns())
	} else {
		x.lists = make([]listed, of.Columns())
		x.spam, x.revoked = make([]uint64, of.Words()), make([]uint64, of.Words())
	}
	return x
}

// part makes the parts of the columns.
func (x *index) part() {
	if x.counts == nil {
		return
	}
	x.parts, x.voices = make([][]part, x.Words()), make([]int32, len(x.counts))
	x.sums = make([]atomic.Pointer[sum], maxSums)
	for n := range x.counts {
		c := &x.counts[n]
		if c.array == nil {
			continue
		}
		all := &x.parts[n/64]
		i := slices.IndexFunc(*all, func(p part) bool {
			return p.start == c.start && p.weight == c.weight &&
				p.root == c.root
		})
		if i < 0 {
			i = len(*all)
			p := part{start: c.start, weight: c.weight, root: c.root}
			for n := range p.weighs {
				p.weighs[n] = c.weighed(uint32(n))
			}
			*all = append(*all, p)
		}
		x.voices[n] = int32(c.voice)
		(*all)[i].columns |= 1 << (n % 64)
	}
}

// indexed returns the seat of the array that has the given columns in indexes.
func (s *Sources) indexed(columns []arrays.Column) seat {
	for _, c := range columns {
		if i, ok := s.at[c.In]; ok {
			return seat{i + 1, c.N}
		}
	}
	return seat{}
}

func (s *Sources) count(c counts) {
	if array, ok := c.array.(*arrays.Counting); ok {
		if at := s.indexed(array.Columns()); at.in > 0 {
			x := &s.indexes[at.in-1]
			x.counts[at.column], x.arrays[at.column] = c, array
			return
		}
	}
	s.counts = append(s.counts, c)
}

// list adds a list with its generations.
func (s *Sources) list(l list, gens []lists) {
	first := len(s.gens)
	s.gens = append(s.gens, gens...)
	l.gens = s.gens[first:]
	for i := range l.gens {
		g := &l.gens[i]
		for _, of := range []side{spamOf, revokedOf} {
			g.at[of] = s.find(g, of)
			l.always = l.always || !g.found(of)
		}
	}
	s.lists = append(s.lists, l)
}

// found reports whether an index has a filter of the generation, or there is none.
func (g *lists) found(of side) bool { return g.at[of].in > 0 || g.of(of) == nil }

// find returns the seat of a filter of a generation of the list that is added next.
func (s *Sources) find(g *lists, of side) seat {
	array, ok := g.of(of).(*arrays.Bits)
	if !ok {
		return seat{}
	}
	at := s.indexed(array.Columns())
	if at.in == 0 || s.indexes[at.in-1].epoch != g.epoch {
		return seat{}
	}
	x := &s.indexes[at.in-1]
	x.lists[at.column] = listed{len(s.lists), array}
	columns := x.spam
	if of == revokedOf {
		columns = x.revoked
	}
	columns[at.column/64] |= 1 << (at.column % 64)
	return at
}

// cut makes the generations of each list slices of s.gens again, which may have moved while it
// grew.
func (s *Sources) cut() {
	first := 0
	for i := range s.lists {
		n := len(s.lists[i].gens)
		s.lists[i].gens = s.gens[first : first+n]
		first += n
		for j := range s.lists[i].gens {
			if g := &s.lists[i].gens[j]; !g.found(spamOf) {
				s.loose = append(s.loose, place{i, j})
				g.loose = len(s.loose)
			}
		}
	}
}

// epochOf returns the epoch of the first non-nil array of one generation.
func (v *View) epochOf(arrays ...*arrays.Bits) (int, bool) {
	for _, b := range arrays {
		if b != nil {
			return v.Epoch(b.Geometry())
		}
	}
	return 0, true
}

// blocksOf returns the lists of an origin and of its former incarnations, which are one voice, by
// generation, newest first.
func blocksOf(owner *replica.Held, former []*replica.Held) (out []*replica.MergedBlock) {
	for _, r := range append([]*replica.Held{owner}, former...) {
		for _, g := range r.Block {
			i := slices.IndexFunc(out, func(b *replica.MergedBlock) bool { return b.Start == g.Start })
			if i < 0 {
				i = len(out)
				out = append(out, &replica.MergedBlock{Start: g.Start})
			}
			if g.Spam != nil {
				out[i].Spam = append(out[i].Spam, g.Spam)
			}
			if g.Revoked != nil {
				out[i].Revoked = append(out[i].Revoked, g.Revoked)
			}
		}
	}
	slices.SortFunc(out, func(a, b *replica.MergedBlock) int { return cmp.Compare(b.Start, a.Start) })
	return out
}

// setOf returns bit arrays of one generation as a set, or nil if there are none.
func setOf(arrays []*arrays.Bits) set {
	switch len(arrays) {
	case 0:
		return nil
	case 1:
		return arrays[0]
	}
	return unionOf(arrays)
}

func unionOf(arrays []*arrays.Bits) set {
	u := union(arrays)
	return &u
}

// A union is several bit arrays combined.
type union []*arrays.Bits

// unionPart is the number of keys that a union looks up together.
const unionPart = 32

func (u *union) HasBatch(keys []filter.Key, out []bool) {
	clear(out)
	var has [unionPart]bool
	for len(keys) > 0 {
		n := min(len(keys), unionPart)
		for _, b := range *u {
			b.HasBatch(keys[:n], has[:n])
			for i := range n {
				out[i] = out[i] || has[i]
			}
		}
		keys, out = keys[n:], out[n:]
	}
}

func (u *union) Keys() (sum uint64) {
	for _, b := range *u {
		sum += b.Keys()
	}
	return sum
}
