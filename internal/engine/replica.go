package engine

import (
	"cmp"
	"maps"
	"slices"

	"github.com/bulkhead-mail/bulkhead/filter"
)

// A replica is what this node holds of one origin. It is never changed, only
// replaced.
type replica struct {
	Origin
	incarnation uint64
	arrays      []*remoteArray // newest first
	marks       map[arrayKey]mark

	// What is looked up in arrays of the origin's own, newest first; see refresh.
	tally []*remoteTally
	block []*remoteBlock
}

// A mark is what a replica knows of one array beside the array.
type mark struct {
	partial uint64 // version that the array will have; 0 unless images are missing
	boot    uint64 // of the origin, that led to it
}

// A remoteArray is one array of an origin: in memory, cold, or, while it leaves
// the memory, both. It is never changed, only replaced.
type remoteArray struct {
	arrayKey
	memory loaded // nil if it is not there
	cold   *cold
	hidden bool // not looked up: a merged array still has what it holds
}

// replicated returns the array, wherever it is.
func (x *remoteArray) replicated() replicated {
	if x.memory != nil {
		return x.memory
	}
	return x.cold
}

type remoteTally struct {
	start  uint64
	counts *filter.Counting
}

type remoteBlock struct {
	start         uint64
	spam, revoked *filter.Bits // nil if there is none, or it is not in memory
}

// replicated is an array of a replica, in memory or not.
type replicated interface {
	Geometry() filter.Geometry
	Keys() uint64
	Version() uint64
}

// loaded is what the writer does to an array of a replica that is in memory.
type loaded interface {
	replicated
	paged
	ApplyRound(index uint64, r *filter.Round, replayed bool) error
	AddRound(r *filter.Round) error
	LoadAt(index uint64, m *filter.Image) error
	SetGeneration(uint64)
	Stats() filter.Stats
	Resident() uint64
	Growth(r *filter.Round) uint64
	Shown(from uint64) float64
}

func (r *replica) clone() *replica {
	c := *r
	c.arrays = slices.Clone(r.arrays)
	return &c
}

func newReplicated(a Array, start uint64, g filter.Geometry) (loaded, error) {
	var array loaded
	var err error
	if a == ArrayCounts {
		array, err = filter.NewSparseCounting(g)
	} else {
		array, err = filter.NewSparseBits(g)
	}
	if err != nil {
		return nil, err
	}
	array.SetGeneration(start)
	return array, nil
}

// put gives r an array, in the place of the one it has of the same generation.
// The caller owns r, as with the methods below.
func (r *replica) put(x *remoteArray) {
	i := slices.IndexFunc(r.arrays, func(y *remoteArray) bool { return y.arrayKey == x.arrayKey })
	if i >= 0 {
		r.arrays[i] = x
	} else {
		r.arrays = append(r.arrays, x)
		slices.SortFunc(r.arrays, func(a, b *remoteArray) int {
			return cmp.Or(cmp.Compare(b.start, a.start), cmp.Compare(a.array, b.array))
		})
	}
	r.refresh()
}

// refresh finds what is looked up.
func (r *replica) refresh() {
	r.tally, r.block = nil, nil
	for _, x := range r.arrays {
		if x.memory == nil || x.hidden {
			continue
		}
		if counts, ok := x.memory.(*filter.Counting); ok {
			r.tally = append(r.tally, &remoteTally{x.start, counts})
			continue
		}
		if n := len(r.block); n == 0 || r.block[n-1].start != x.start {
			r.block = append(r.block, &remoteBlock{start: x.start})
		}
		r.block[len(r.block)-1].set(x.array, x.memory.(*filter.Bits))
	}
}

func (g *remoteBlock) set(a Array, bits *filter.Bits) {
	if a == ArraySpam {
		g.spam = bits
	} else {
		g.revoked = bits
	}
}

// find returns an array, nil if the replica has none of that name.
func (r *replica) find(key arrayKey) *remoteArray {
	for _, x := range r.arrays {
		if x.arrayKey == key {
			return x
		}
	}
	return nil
}

// keep drops the arrays of which keep says no.
func (r *replica) keep(keep func(key arrayKey) bool) {
	r.arrays = slices.DeleteFunc(r.arrays, func(x *remoteArray) bool { return !keep(x.arrayKey) })
	r.marks = maps.Clone(r.marks)
	maps.DeleteFunc(r.marks, func(key arrayKey, _ mark) bool { return !keep(key) })
	r.refresh()
}

func (v *view) origin(id string) *replica {
	for _, r := range v.remote {
		if r.ID == id {
			return r
		}
	}
	return nil
}

// changeReplica publishes a view in which change was done to a copy of the
// replica of an origin, if there is one.
func (e *Engine) changeReplica(origin string, change func(*replica)) {
	next := e.view.Load().clone()
	for i, r := range next.remote {
		if r.ID == origin {
			r = r.clone()
			change(r)
			next.remote[i] = r
		}
	}
	e.view.Store(next)
}

// openReplica publishes a view in which the replica has an empty array for p.
func (e *Engine) openReplica(origin string, p parsedPart) error {
	array, err := newReplicated(p.Array, p.Start, p.Geometry)
	if err != nil {
		return err
	}
	next := e.view.Load().clone()
	i := slices.IndexFunc(next.remote, func(r *replica) bool { return r.ID == origin })
	next.remote[i] = next.remote[i].clone()
	next.remote[i].put(&remoteArray{arrayKey: arrayKey{p.Array, p.Start}, memory: array})
	next.refresh()
	e.view.Store(next)
	return nil
}

// dropExpiredReplicas drops the generations of replicas that the books no
// longer keep. Which those are follows from the clock, so no entry says it.
func (e *Engine) dropExpiredReplicas() {
	old := e.view.Load()
	if len(old.remote) == 0 || e.opts.Still {
		return
	}
	now := e.opts.Now()
	next := old.clone()
	for i, r := range next.remote {
		r = r.clone()
		r.keep(func(key arrayKey) bool { return !e.bookOf(key.array).Expired(now, key.start) })
		next.remote[i] = r
	}
	e.view.Store(next)
	e.settle()
}

// Keeps reports whether the node takes parts of a generation that started at
// the given Unix second: it has not expired, and does not lie in the future.
func (e *Engine) Keeps(a Array, start uint64) bool {
	return e.bookOf(a).Keeps(e.opts.Now(), start)
}

// Horizon returns the first start, in Unix seconds, of the generations that the
// node still keeps an array of.
func (e *Engine) Horizon(a Array) uint64 {
	return uint64(max(e.bookOf(a).Oldest(e.opts.Now()).Unix(), 0))
}

// Floor returns the first start, in Unix seconds, of the generations that the node
// keeps of its own: [Engine.Horizon], or later if some were given up for want of
// memory.
func (e *Engine) Floor(a Array) uint64 {
	v := e.view.Load()
	if a == ArrayCounts {
		return max(e.Horizon(a), v.tally.From)
	}
	return max(e.Horizon(a), v.block.From)
}

func (e *Engine) bookOf(a Array) BookOptions {
	if a == ArrayCounts {
		return e.opts.Tally
	}
	return e.opts.Block
}
