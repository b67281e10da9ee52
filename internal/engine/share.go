package engine

import "github.com/bulkhead-mail/bulkhead/filter"

// sureShare: the memory for replicas, divided by this and by the number of origins, is
// kept for each of them; the rest is for those who come first.
const sureShare = 4

// charged returns what an array in memory is charged with: what it takes, where the
// states of pages and ordinary overflow tables go with the lines of a full one.
func charged(a loaded) uint64 {
	full := a.Geometry().Bytes()
	if taken := a.Resident(); taken < full || taken > full+full/4 {
		return taken
	}
	return full
}

// holding returns what the arrays of a replica take, with its part of merged ones.
func (v *view) holding(r *replica) (sum uint64) {
	for _, x := range r.arrays {
		if x.memory != nil {
			sum += charged(x.memory)
		}
	}
	for _, m := range v.merged {
		for _, c := range m.members {
			if c.origin == r.ID {
				sum += charged(m.cells) / uint64(len(m.members))
			}
		}
	}
	return sum
}

// wants returns how many bytes must be free for so many more of an origin. ok is false
// if they never are: it does not count, and has all that is kept for it.
func (e *Engine) wants(v *view, origin string, more uint64) (free uint64, ok bool) {
	limit := e.opts.RemoteBytes
	if limit == 0 || more == 0 {
		return 0, true
	}
	sure := limit / sureShare / uint64(max(1, len(v.remote)))
	reserved, mine, weight := uint64(0), uint64(0), 1.0
	for _, r := range v.remote {
		held := v.holding(r)
		if r.ID == origin {
			mine, weight = held, r.Weight
		} else if held < sure {
			reserved += sure - held
		}
	}
	if mine+more <= sure {
		return more, true
	}
	return more + reserved, weight > 0
}

// A Need is what an array of a replica is about to take: a round, or the images of
// so many pages.
type Need struct {
	Array    Array
	Start    uint64
	Geometry filter.Geometry
	Round    *filter.Round
	Pages    int
}

// Room reports whether an origin may take the memory for what it sends: of what all
// replicas may have, a part is kept for each. If not, and merging arrays of several
// origins makes some, it has that done and later is true: ask again.
func (e *Engine) Room(origin string, n Need) (now, later bool) {
	view := e.view.Load()
	pages := n.Pages
	if n.Round != nil {
		pages = n.Round.Pages()
	}
	more := opening(n.Geometry, max(pages, 1))
	if r := view.origin(origin); r != nil {
		if x := r.find(arrayKey{n.Array, n.Start}); x != nil {
			more = x.growth(n.Round, pages)
		}
	}
	free, ok := e.wants(view, origin, more)
	lacks := e.lacks(view, free)
	switch {
	case ok && (free == 0 || lacks == 0):
		return true, false
	case !ok || e.opts.Store == nil:
		return false, false
	case view.leaving():
		return false, true
	case len(e.arrange(view, lacks).leaving) == 0:
		return false, false
	}
	for old := e.wanted.Load(); old < free && !e.wanted.CompareAndSwap(old, free); {
		old = e.wanted.Load()
	}
	e.wakeMerge()
	return false, true
}

// growth returns how much more an array takes with a round, or with images of so many
// pages at most.
func (x *remoteArray) growth(round *filter.Round, pages int) uint64 {
	switch {
	case x.memory == nil:
		return 0
	case round != nil:
		return x.memory.Growth(round)
	}
	held, full := x.memory.Resident(), x.memory.Geometry().Bytes()
	return min(uint64(pages)*filter.PageBytes, full-min(held, full))
}

// opening returns what an array of geometry g takes with so many pages.
func opening(g filter.Geometry, pages int) uint64 {
	if 2*pages >= g.Pages() {
		return g.Bytes()
	}
	return filter.SparseBytes(g) + uint64(pages)*filter.PageBytes
}
