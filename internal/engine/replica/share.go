package replica

import (
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
)

// sureShare divides the memory for replicas: one part in sureShare is reserved for the origins,
// equally for each. The rest goes to the origins that need it first.
const sureShare = 4

// charged returns the number of bytes that an array in memory is charged with. It is the array's
// memory; for a full array it is the lines alone, without page states and ordinary overflow tables.
func charged(a loaded) uint64 {
	full := a.Geometry().Bytes()
	if taken := a.Resident(); taken < full || taken > full+full/4 {
		return taken
	}
	return full
}

// holding returns the number of bytes that the arrays of a replica are charged with, including its
// share of merged arrays.
func (v *View) holding(r *Held) (sum uint64) {
	for _, x := range r.arrays {
		if x.memory != nil {
			sum += charged(x.memory)
		}
	}
	for _, m := range v.Merged {
		for _, c := range m.members {
			if c.origin == r.ID {
				sum += charged(m.cells) / uint64(len(m.members))
			}
		}
	}
	return sum
}

// wants returns the number of bytes that must be free for an origin to take more bytes. ok is false
// if it may never take them, because it has no weight and would exceed its reserved part.
func (s *Set) wants(v *View, origin string, extra uint64) (free uint64, ok bool) {
	limit := s.opts.Bytes
	if limit == 0 || extra == 0 {
		return 0, true
	}
	sure := limit / sureShare / uint64(max(1, len(v.Origins)))
	reserved, mine, weight := uint64(0), uint64(0), 1.0
	for _, r := range v.Origins {
		held := v.holding(r)
		if r.ID == origin {
			mine, weight = held, r.Weight
		} else if held < sure {
			reserved += sure - held
		}
	}
	if mine+extra <= sure {
		return extra, true
	}
	return extra + reserved, weight > 0
}

// A Need is the data that an array of a replica is about to take: a round, or the images of a
// number of pages.
type Need struct {
	Array    Array
	Start    uint64
	Geometry filter.Geometry
	Round    *arrays.Round
	Pages    int
}

// Room reports whether there is memory for the data that an origin sends. A part of the memory for
// replicas is reserved for each origin. If there is no room, and merging arrays of several origins
// would free some, Room requests a merge. later is then true, and the caller should try again.
func (s *Set) Room(origin string, n Need) (now, later bool) {
	view := s.View()
	pages := n.Pages
	if n.Round != nil {
		pages = n.Round.Pages()
	}
	extra := opening(n.Geometry, max(pages, 1))
	if r := view.origin(origin); r != nil {
		if x := r.find(Key{n.Array, n.Start}); x != nil {
			extra = x.growth(n.Round, pages)
		}
	}
	free, ok := s.wants(view, origin, extra)
	if ok && free == 0 {
		return true, false // the case of most rounds; adding up all arrays takes time
	}
	lacks := s.lacks(view, free)
	switch {
	case ok && lacks == 0:
		return true, false
	case !ok || s.opts.Store == nil:
		return false, false
	case view.leaving():
		return false, true
	case len(s.arrange(view, lacks).leaving) == 0:
		return s.guest(view, origin, n, extra), false
	}
	for old := s.wanted.Load(); old < free && !s.wanted.CompareAndSwap(old, free); {
		old = s.wanted.Load()
	}
	s.Wake()
	return false, true
}

// guest reports whether an array may take more bytes although there is no room for it. It may if it
// can be merged into an array of the same geometry as soon as it is complete. Until then, the
// replicas may exceed their limit by less than the size of one such array.
func (s *Set) guest(v *View, origin string, n Need, extra uint64) bool {
	r := v.origin(origin)
	if r == nil || !s.mayMerge(n.Array, r.Weight) || v.bytes()+extra >= s.opts.Bytes+n.Geometry.Bytes() {
		return false
	}
	key := mergeKey{Key{n.Array, n.Start}, r.Weight, n.Geometry}
	// The final number of keys is unknown; an honest array is at most full.
	fits := func(keys uint64) bool { return keys+s.fullKeys(n.Geometry) <= s.mergedKeys(n.Geometry) }
	for _, m := range v.Merged {
		if m.mergeKey == key && fits(m.load()) {
			return true
		}
	}
	for _, o := range v.Origins {
		x := o.find(key.Key)
		if o.ID != origin && o.Weight == key.weight && x != nil && x.memory != nil && o.marks[key.Key].partial == 0 &&
			x.memory.Geometry() == key.geometry && fits(x.memory.Keys()) {
			return true
		}
	}
	return false
}

// growth returns the number of additional bytes that an array takes with a round, or the maximum
// with images of a number of pages.
func (x *remoteArray) growth(round *arrays.Round, pages int) uint64 {
	switch {
	case x.memory == nil:
		return 0
	case round != nil:
		return x.memory.Growth(round)
	}
	held, full := x.memory.Resident(), x.memory.Geometry().Bytes()
	return min(uint64(pages)*arrays.PageBytes, full-min(held, full))
}

// opening returns the number of bytes that a new array of geometry g takes with a number of pages.
func opening(g filter.Geometry, pages int) uint64 {
	if 2*pages >= g.Pages() {
		return g.Bytes()
	}
	return arrays.SparseBytes(g) + uint64(pages)*arrays.PageBytes
}
