package replica

import (
	"cmp"
	"maps"
	"slices"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/pages"
)

// A Held is the replica of one origin. It is never changed, only replaced.
type Held struct {
	Origin
	of          string // owner of a former incarnation; "" for an origin
	incarnation uint64
	arrays      []*remoteArray // newest first
	marks       map[Key]mark

	// The origin's own arrays that look-ups read, newest first; see refresh.
	Tally []*Tally
	Block []*Block
}

// A mark is the state of one array of a replica besides its content.
type mark struct {
	partial uint64 // version that the array will have; 0 unless images are missing
	boot    uint64 // the origin's boot that led to this state
}

// A remoteArray is one array of an origin. It is in memory, cold, or both while it leaves the
// memory. It is never changed, only replaced.
type remoteArray struct {
	Key
	memory loaded // nil if it is not in memory
	cold   *cold
	hidden bool // not looked up, because a merged array still has its content
}

// replicated returns the array, whether it is in memory or cold.
func (x *remoteArray) replicated() Versioned {
	if x.memory != nil {
		return x.memory
	}
	return x.cold
}

// A Tally is the counts of one generation of an origin.
type Tally struct {
	Start  uint64
	Counts *arrays.Counting
}

// A Block is the lists of one generation of an origin.
type Block struct {
	Start         uint64
	Spam, Revoked *arrays.Bits // nil if there is none, or it is not in memory
}

// Versioned is an array of a replica, in memory or not.
type Versioned interface {
	Geometry() filter.Geometry
	Keys() uint64
	Version() uint64
}

// loaded is an array of a replica in memory, with the operations of the writer.
type loaded interface {
	Versioned
	pages.Array
	Image(page int) *arrays.Image
	ApplyRound(index uint64, r *arrays.Round, replayed bool) error
	AddRound(r *arrays.Round) error
	LoadAt(index uint64, m *arrays.Image) error
	Generation() uint64
	SetGeneration(uint64)
	Stats() arrays.Stats
	Resident() uint64
	Growth(r *arrays.Round) uint64
	Shown(from uint64) float64
	Attach(to *arrays.Sliced, column int) error
	Detach(from *arrays.Sliced)
	Columns() []arrays.Column
}

func (r *Held) clone() *Held {
	c := *r
	c.arrays = slices.Clone(r.arrays)
	return &c
}

func newReplicated(a Array, start uint64, g filter.Geometry) (loaded, error) {
	var array loaded
	var err error
	if a == ArrayCounts {
		array, err = arrays.NewSparseCounting(g)
	} else {
		array, err = arrays.NewSparseBits(g)
	}
	if err != nil {
		return nil, err
	}
	array.SetGeneration(start)
	return array, nil
}

// put adds an array to r, in place of the array with the same key. The caller owns r, as with the
// methods below.
func (r *Held) put(x *remoteArray) {
	i := slices.IndexFunc(r.arrays, func(y *remoteArray) bool { return y.Key == x.Key })
	if i >= 0 {
		r.arrays[i] = x
	} else {
		r.arrays = append(r.arrays, x)
		slices.SortFunc(r.arrays, func(a, b *remoteArray) int {
			return cmp.Or(cmp.Compare(b.Start, a.Start), cmp.Compare(a.Array, b.Array))
		})
	}
	r.refresh()
}

// refresh determines the arrays that look-ups read.
func (r *Held) refresh() {
	r.Tally, r.Block = nil, nil
	for _, x := range r.arrays {
		if x.memory == nil || x.hidden {
			continue
		}
		if counts, ok := x.memory.(*arrays.Counting); ok {
			r.Tally = append(r.Tally, &Tally{x.Start, counts})
			continue
		}
		if n := len(r.Block); n == 0 || r.Block[n-1].Start != x.Start {
			r.Block = append(r.Block, &Block{Start: x.Start})
		}
		r.Block[len(r.Block)-1].set(x.Array, x.memory.(*arrays.Bits))
	}
}

func (g *Block) set(a Array, bits *arrays.Bits) {
	if a == ArraySpam {
		g.Spam = bits
	} else {
		g.Revoked = bits
	}
}

// find returns the array with the key, or nil if the replica has none.
func (r *Held) find(key Key) *remoteArray {
	for _, x := range r.arrays {
		if x.Key == key {
			return x
		}
	}
	return nil
}

// keep drops the arrays for which keep returns false.
func (r *Held) keep(keep func(key Key) bool) {
	r.arrays = slices.DeleteFunc(r.arrays, func(x *remoteArray) bool { return !keep(x.Key) })
	r.marks = maps.Clone(r.marks)
	maps.DeleteFunc(r.marks, func(key Key, _ mark) bool { return !keep(key) })
	r.refresh()
}

// Lacks reports whether the view should have an array of an origin but does not. It is false for an
// origin that was removed.
func (v *View) Lacks(origin string, k Key) bool {
	r := v.origin(origin)
	return r != nil && r.find(k) == nil
}

func (v *View) origin(id string) *Held {
	for _, r := range v.Origins {
		if r.ID == id {
			return r
		}
	}
	return nil
}

// changeReplica publishes a view with a copy of an origin's replica, if there is one, after
// applying change to it.
func (s *Set) changeReplica(origin string, change func(*Held)) {
	next := s.View().clone()
	for i, r := range next.Origins {
		if r.ID == origin {
			r = r.clone()
			change(r)
			next.Origins[i] = r
		}
	}
	s.view.Store(next)
}

// openReplica publishes a view in which the replica has an empty array for p.
func (s *Set) openReplica(origin string, p Parsed) error {
	array, err := newReplicated(p.Array, p.Start, p.Geometry)
	if err != nil {
		return err
	}
	next := s.View().clone()
	i := slices.IndexFunc(next.Origins, func(r *Held) bool { return r.ID == origin })
	next.Origins[i] = next.Origins[i].clone()
	next.Origins[i].put(&remoteArray{Key: Key{p.Array, p.Start}, memory: array})
	next.refresh()
	s.view.Store(next)
	s.Crowd()
	return nil
}

// DropExpired drops the generations of replicas that the books no longer keep. The clock determines
// which generations these are, so the journal has no entry for it.
func (s *Set) DropExpired() {
	old := s.View()
	if len(old.Origins) == 0 || s.opts.Still {
		return
	}
	now := s.opts.Now()
	next := old.clone()
	for i, r := range next.Origins {
		r = r.clone()
		r.keep(func(key Key) bool { return !s.Book(key.Array).Expired(now, key.Start) })
		next.Origins[i] = r
	}
	next.dropEmpty()
	s.view.Store(next)
	s.settle()
}
