package engine

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/bulkhead-mail/bulkhead/filter"
)

// A mergeKey is what arrays of origins must agree on to be merged: one kind, one
// time, one shape, and a word of one weight.
type mergeKey struct {
	arrayKey
	weight   float64
	geometry filter.Geometry
}

// A merged array is the sum of arrays of several origins, its members, whose own
// lines are on disk. It takes every round of theirs as if the adds were its own:
// nothing is ever subtracted, so it counts no less than they do together. It is
// never sent to anybody: differences of an array that was merged undercount.
type merged struct {
	mergeKey
	cells   loaded
	members []*cold // never changed
	// filled is how many keys would fill an empty array as much as the members
	// filled this one, less cells.Keys at that time.
	filled int64
}

// load returns how many keys would fill an empty array as much as this one is filled.
func (m *merged) load() uint64 { return uint64(max(0, m.filled+int64(m.cells.Keys()))) }

// rename gives an origin of members another name, of those too that it has back in
// memory: they hide what is there until the array is made anew.
func (m *merged) rename(from, to string) {
	for _, c := range m.members {
		if c.origin == from {
			c.origin = to
		}
	}
}

// mergedGhost bounds how full a merged counting array may be when another member
// joins: an absent signature is then seen with this probability, and a count is
// too high no more often. That one reaches the threshold by chance stays some
// hundred thousand times rarer ([filter.Geometry.BulkError]).
const mergedGhost = 0.1

// mergedKeys returns how many keys a merged array may have. Lists are merged only
// as far as they keep the error that each of them was sized for.
func (e *Engine) mergedKeys(g filter.Geometry) uint64 {
	if n, ok := e.mergeLimits.Load(g); ok {
		return n.(uint64)
	}
	limit := mergedGhost
	if g.Kind == filter.Bitmap {
		limit = e.opts.Block.Error / float64(e.opts.Block.Keep)
	}
	low, high := uint64(0), 64*g.Lines
	for low < high {
		mid := (low + high + 1) / 2
		if g.GhostError(mid) <= limit {
			low = mid
		} else {
			high = mid - 1
		}
	}
	e.mergeLimits.Store(g, low)
	return low
}

// mergeInto adds what src holds to dst.
func mergeInto(dst, src loaded) error {
	switch d := dst.(type) {
	case *filter.Counting:
		if s, ok := src.(*filter.Counting); ok {
			return d.Merge(s)
		}
	case *filter.Bits:
		if s, ok := src.(*filter.Bits); ok {
			return d.Merge(s)
		}
	}
	return fmt.Errorf("engine: %T merged into %T", src, dst)
}

// had reports whether what x holds is looked up in m: its cold array is a member,
// or the one that was there before it.
func (m *merged) had(origin string, x *remoteArray) bool {
	return m.arrayKey == x.arrayKey && slices.ContainsFunc(m.members, func(c *cold) bool {
		return c == x.cold || x.hidden && c.origin == origin
	})
}

// addMerged takes a round for x where it is looked up.
func (v *view) addMerged(origin string, x *remoteArray, p parsedPart) error {
	for _, m := range v.merged {
		if m.geometry == p.Geometry && m.had(origin, x) {
			return m.cells.AddRound(p.round)
		}
	}
	return nil
}

// mergedCounts is a merged counting array as it is looked up.
type mergedCounts struct {
	start  uint64
	weight float64
	counts *filter.Counting
}

// A mergedList is all merged lists of origins of one weight, newest generation
// first. They speak with one voice: a signature is listed that one of them lists,
// and revoked that one has revoked.
type mergedList struct {
	weight float64
	block  []*mergedBlock
}

type mergedBlock struct {
	start         uint64
	spam, revoked []*filter.Bits
}

// RemoteMemory is the memory of all replicas.
type RemoteMemory struct {
	Bytes  uint64 // of all their arrays in memory, merged ones included
	Limit  uint64 // of Bytes; 0: none
	Merged int    // arrays that were merged
	Into   int    // arrays that they were merged into
}

// RemoteMemory returns the memory that replicas take.
func (e *Engine) RemoteMemory() RemoteMemory {
	view := e.view.Load()
	out := RemoteMemory{Bytes: view.remoteBytes(), Limit: e.opts.RemoteBytes, Into: len(view.merged)}
	for _, m := range view.merged {
		out.Merged += len(m.members)
	}
	return out
}

func (v *view) remoteBytes() (sum uint64) {
	for _, r := range v.remote {
		for _, x := range r.arrays {
			if x.memory != nil {
				sum += charged(x.memory)
			}
		}
	}
	for _, m := range v.merged {
		sum += charged(m.cells)
	}
	return sum
}

// lacks returns by how much the replicas, and so many bytes more, exceed the limit.
func (e *Engine) lacks(v *view, more uint64) uint64 {
	if total := v.remoteBytes() + more; e.opts.RemoteBytes > 0 && total > e.opts.RemoteBytes {
		return total - e.opts.RemoteBytes
	}
	return 0
}

// trim has arrays merged if replicas exceed their limit and merging helps: some
// came back into memory because images of them came, or may be merged now.
func (e *Engine) trim() {
	view := e.view.Load()
	if lacks := e.lacks(view, 0); lacks > 0 && e.opts.Store != nil && len(e.arrange(view, lacks).leaving) > 0 {
		e.wakeMerge()
	}
}

// leaving reports whether an array leaves the memory at present, or takes some
// only until merged arrays have been made anew.
func (v *view) leaving() bool {
	for _, r := range v.remote {
		for _, x := range r.arrays {
			if x.memory != nil && (x.cold != nil || x.hidden) {
				return true
			}
		}
	}
	return false
}

func (e *Engine) wakeMerge() {
	select {
	case e.merging <- struct{}{}:
	default:
	}
}

// settle drops the merged arrays of which no member counts any more, and has those
// made anew that hold what they should not. Every change of the replicas that may
// take a cold array away ends with it.
func (e *Engine) settle() {
	defer e.trim()
	next := e.view.Load().clone()
	live := next.coldArrays()
	if len(next.merged)+len(live) == 0 {
		return
	}
	next.merged = slices.DeleteFunc(next.merged, func(m *merged) bool {
		return !slices.ContainsFunc(m.members, func(c *cold) bool { _, ok := live[c]; return ok })
	})
	next.refresh()
	e.view.Store(next)
	if e.arrange(next, 0).stale {
		e.wakeMerge()
	}
}

// coldArrays returns the cold arrays that no memory holds, and their origins.
func (v *view) coldArrays() map[*cold]*replica {
	out := make(map[*cold]*replica)
	for _, r := range v.remote {
		for _, x := range r.arrays {
			if x.memory == nil {
				out[x.cold] = r
			}
		}
	}
	return out
}

// refresh finds what is looked up in v, after a change of its arrays: not those
// that a merged one still has what they hold. The caller owns v.
func (v *view) refresh() {
	type name struct {
		origin string
		arrayKey
	}
	members := make(map[name]bool)
	for _, m := range v.merged {
		for _, c := range m.members {
			members[name{c.origin, c.arrayKey}] = true
		}
	}
	for i, r := range v.remote {
		for _, x := range r.arrays {
			hidden := x.memory != nil && members[name{r.ID, x.arrayKey}]
			if hidden == x.hidden {
				continue
			}
			c := *x
			c.hidden = hidden
			r = r.clone()
			r.put(&c)
			v.remote[i] = r
		}
	}
	v.mergedCounts, v.mergedLists = nil, nil
	for _, m := range v.merged {
		if counts, ok := m.cells.(*filter.Counting); ok {
			v.mergedCounts = append(v.mergedCounts, mergedCounts{m.start, m.weight, counts})
		} else {
			v.addList(m)
		}
	}
	for _, l := range v.mergedLists {
		slices.SortFunc(l.block, func(a, b *mergedBlock) int { return cmp.Compare(b.start, a.start) })
	}
}

func (v *view) addList(m *merged) {
	i := slices.IndexFunc(v.mergedLists, func(l *mergedList) bool { return l.weight == m.weight })
	if i < 0 {
		i = len(v.mergedLists)
		v.mergedLists = append(v.mergedLists, &mergedList{weight: m.weight})
	}
	l := v.mergedLists[i]
	j := slices.IndexFunc(l.block, func(b *mergedBlock) bool { return b.start == m.start })
	if j < 0 {
		j = len(l.block)
		l.block = append(l.block, &mergedBlock{start: m.start})
	}
	bits := m.cells.(*filter.Bits)
	if m.array == ArraySpam {
		l.block[j].spam = append(l.block[j].spam, bits)
	} else {
		l.block[j].revoked = append(l.block[j].revoked, bits)
	}
}
