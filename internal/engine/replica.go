package engine

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
)

// A replica is what this node holds of one origin.
type replica struct {
	Origin
	incarnation uint64
	tally       []*remoteTally // newest first
	block       []*remoteBlock // newest first
	// marks are never changed, only replaced.
	marks map[arrayKey]mark
}

// A mark is what a replica knows of one array beside the array.
type mark struct {
	partial uint64 // version that the array will have; 0 unless images are missing
	boot    uint64 // of the origin, that led to it
}

type remoteTally struct {
	start  uint64
	counts *filter.Counting
}

type remoteBlock struct {
	start         uint64
	spam, revoked *filter.Bits // nil until the origin has sent it
}

// replicated is what the writer does to an array of a replica.
type replicated interface {
	paged
	Keys() uint64
	Version() uint64
	ApplyRound(index uint64, r *filter.Round, replayed bool) error
	LoadAt(index uint64, m *filter.Image) error
	SetGeneration(uint64)
}

func (r *replica) clone() *replica {
	return &replica{Origin: r.Origin, incarnation: r.incarnation, marks: r.marks, tally: slices.Clone(r.tally), block: slices.Clone(r.block)}
}

func newReplicated(a Array, start uint64, g filter.Geometry) (replicated, error) {
	var array replicated
	var err error
	if a == ArrayCounts {
		array, err = filter.NewCounting(g)
	} else {
		array, err = filter.NewBits(g)
	}
	if err != nil {
		return nil, err
	}
	array.SetGeneration(start)
	return array, nil
}

// put gives r an array. Generations that readers may see are not changed.
func (r *replica) put(a Array, start uint64, array replicated) {
	if a == ArrayCounts {
		r.tally = append(r.tally, &remoteTally{start: start, counts: array.(*filter.Counting)})
		return
	}
	i := slices.IndexFunc(r.block, func(g *remoteBlock) bool { return g.start == start })
	g := &remoteBlock{start: start}
	if i >= 0 {
		*g = *r.block[i]
		r.block[i] = g
	} else {
		r.block = append(r.block, g)
	}
	if a == ArraySpam {
		g.spam = array.(*filter.Bits)
	} else {
		g.revoked = array.(*filter.Bits)
	}
}

// each calls fn for every array of r.
func (r *replica) each(fn func(a Array, start uint64, array replicated)) {
	for _, g := range r.tally {
		fn(ArrayCounts, g.start, g.counts)
	}
	for _, g := range r.block {
		if g.spam != nil {
			fn(ArraySpam, g.start, g.spam)
		}
		if g.revoked != nil {
			fn(ArrayRevoked, g.start, g.revoked)
		}
	}
}

func (r *replica) sort() {
	slices.SortFunc(r.tally, func(a, b *remoteTally) int { return compareNewest(a.start, b.start) })
	slices.SortFunc(r.block, func(a, b *remoteBlock) int { return compareNewest(a.start, b.start) })
}

// array returns the array of a generation, nil if the replica has none.
func (r *replica) array(a Array, start uint64) (found replicated) {
	r.each(func(b Array, s uint64, array replicated) {
		if a == b && s == start {
			found = array
		}
	})
	return found
}

// keep drops the generations of which keep says no.
func (r *replica) keep(keep func(a Array, start uint64) bool) {
	r.tally = slices.DeleteFunc(r.tally, func(g *remoteTally) bool { return !keep(ArrayCounts, g.start) })
	r.block = slices.DeleteFunc(r.block, func(g *remoteBlock) bool { return !keep(ArraySpam, g.start) })
	r.marks = maps.Clone(r.marks)
	maps.DeleteFunc(r.marks, func(key arrayKey, _ mark) bool { return !keep(key.array, key.start) })
}

func (v *view) origin(id string) *replica {
	for _, r := range v.remote {
		if r.ID == id {
			return r
		}
	}
	return nil
}

func (v *view) clone() *view {
	return &view{tally: v.tally, block: v.block, remote: slices.Clone(v.remote)}
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
func (e *Engine) openReplica(old *view, origin string, p parsedPart) (*view, replicated, error) {
	next := old.clone()
	i := slices.IndexFunc(next.remote, func(r *replica) bool { return r.ID == origin })
	r := next.remote[i].clone()
	next.remote[i] = r
	array, err := newReplicated(p.Array, p.Start, p.Geometry)
	if err != nil {
		return nil, nil, err
	}
	r.put(p.Array, p.Start, array)
	r.sort()
	e.view.Store(next)
	return next, array, nil
}

// dropExpiredReplicas drops the generations of replicas that the books no
// longer keep. Which those are follows from the clock, so no entry says it.
func (e *Engine) dropExpiredReplicas() {
	old := e.view.Load()
	if len(old.remote) == 0 {
		return
	}
	now := e.opts.Now()
	next := old.clone()
	for i, r := range next.remote {
		r = r.clone()
		r.keep(func(a Array, start uint64) bool {
			if a == ArrayCounts {
				return !expired(now, e.opts.Tally, start)
			}
			return !expired(now, e.opts.Block, start)
		})
		next.remote[i] = r
	}
	e.view.Store(next)
}

// Keeps reports whether the node takes parts of a generation that started at
// the given Unix second: it has not expired, and does not lie in the future.
func (e *Engine) Keeps(a Array, start uint64) bool {
	return e.keeps(e.opts.Now(), a, start)
}

func (e *Engine) keeps(now time.Time, a Array, start uint64) bool {
	book := e.opts.Tally
	if a != ArrayCounts {
		book = e.opts.Block
	}
	return start <= math.MaxInt64/2 && !expired(now, book, start) && int64(start) <= now.Add(book.Generation).Unix()
}

// Horizon returns the first start, in Unix seconds, of the generations that the
// node still keeps an array of.
func (e *Engine) Horizon(a Array) uint64 {
	book := e.opts.Tally
	if a != ArrayCounts {
		book = e.opts.Block
	}
	return uint64(max(oldest(e.opts.Now(), book).Unix(), 0))
}
