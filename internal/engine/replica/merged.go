package replica

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
)

// A mergeKey is the properties that arrays must share to be merged: kind, generation, geometry, and
// the weight of their origins.
type mergeKey struct {
	Key
	weight   float64
	geometry filter.Geometry
}

// A Merged is the sum of arrays of several origins, its members, whose own lines are on disk. It
// takes all their rounds as if the adds were its own. Nothing is ever subtracted, so its counts are
// no lower than the sum of the members' counts. It is never sent to a peer: differences of a merged
// array undercount.
type Merged struct {
	mergeKey
	cells   loaded
	members []*cold // never changed
	// filled is the number of keys that would have filled an empty array as much as the members
	// filled this one, less cells.Keys at that time.
	filled int64
}

// Weight returns the weight of the origins of the members.
func (m *Merged) Weight() float64 { return m.weight }

// Origins returns the present names of the members' origins. It must run between two
// batches.
func (m *Merged) Origins() (out []string) {
	for _, c := range m.members {
		out = append(out, c.origin)
	}
	return out
}

// Ghost returns the probability that the array shows an unreported signature, computed from its
// number of keys.
func (m *Merged) Ghost() float64 { return m.geometry.GhostError(m.load()) }

// load returns the number of keys that would fill an empty array as full as this one.
func (m *Merged) load() uint64 { return uint64(max(0, m.filled+int64(m.cells.Keys()))) }

// rename renames an origin of members, including members that are back in memory. These stay hidden
// until the merged array is made again.
func (m *Merged) rename(from, to string) {
	for _, c := range m.members {
		if c.origin == from {
			c.origin = to
		}
	}
}

// MergedGhost limits how full a merged counting array may be when another member joins. It is the
// probability that an absent signature then shows a count; a count is too high no more often. An
// absent signature reaches the bulk threshold far more rarely ([filter.Geometry.BulkError]).
const MergedGhost = 0.1

// mergedKeys returns the maximum number of keys of a merged array. Merged lists must keep the error
// that each list was sized for.
func (s *Set) mergedKeys(g filter.Geometry) uint64 {
	limit := MergedGhost
	if g.Kind == filter.Bitmap {
		limit = s.listError()
	}
	return s.keysAt(g, limit)
}

// fullKeys returns the approximate number of keys of an array that is full for the node that made
// it, assuming that it allows the same errors as this node. For a list it returns half of the keys
// that a merged list may have.
func (s *Set) fullKeys(g filter.Geometry) uint64 {
	if g.Kind == filter.Bitmap {
		return s.keysAt(g, s.listError()) / 2
	}
	return s.keysAt(g, min(s.opts.Tally.Error, MergedGhost))
}

// listError is the error for which a list of this node is sized.
func (s *Set) listError() float64 { return s.opts.Block.Error / float64(s.opts.Block.Keep) }

// FullKeys returns the maximum number of keys of an array with geometry g that others are merged
// into. It is half of the number that merging for lack of memory allows.
func (s *Set) FullKeys(g filter.Geometry) uint64 { return s.mergedKeys(g) / 2 }

// keysAt returns the maximum number of keys at which an array's error rate is within the limit.
func (s *Set) keysAt(g filter.Geometry, limit float64) uint64 {
	type name struct {
		filter.Geometry
		limit float64
	}
	if n, ok := s.limits.Load(name{g, limit}); ok {
		return n.(uint64)
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
	s.limits.Store(name{g, limit}, low)
	return low
}

// mergeInto adds the content of src to dst.
func mergeInto(dst, src loaded) error {
	switch d := dst.(type) {
	case *arrays.Counting:
		if s, ok := src.(*arrays.Counting); ok {
			return d.Merge(s)
		}
	case *arrays.Bits:
		if s, ok := src.(*arrays.Bits); ok {
			return d.Merge(s)
		}
	}
	return fmt.Errorf("replica: %T merged into %T", src, dst)
}

// had reports whether look-ups read the content of x in m: its cold array, or the one before it, is
// a member.
func (m *Merged) had(origin string, x *remoteArray) bool {
	return m.Key == x.Key && slices.ContainsFunc(m.members, func(c *cold) bool {
		return c == x.cold || x.hidden && c.origin == origin
	})
}

// addMerged takes a round for x into the merged array that look-ups read.
func (v *View) addMerged(origin string, x *remoteArray, p Parsed) error {
	for _, m := range v.Merged {
		if m.geometry == p.Geometry && m.had(origin, x) {
			return m.cells.AddRound(p.round)
		}
	}
	return nil
}

// MergedCounts is a merged counting array in the form that look-ups read.
type MergedCounts struct {
	Start   uint64
	Weight  float64
	Counts  *arrays.Counting
	Origins []string // origins whose counts are in it; some may have been removed since
}

// A MergedList is all merged lists of origins of one weight, newest generation first. They share
// one voice: a signature is listed if one of them lists it, and revoked if one has revoked it.
type MergedList struct {
	Weight float64
	Block  []*MergedBlock
}

// A MergedBlock is one generation of a [MergedList].
type MergedBlock struct {
	Start         uint64
	Spam, Revoked []*arrays.Bits
}

// Memory is the memory that replicas take.
type Memory struct {
	Bytes  uint64 // of all their arrays in memory, merged ones included
	Limit  uint64 // of Bytes; 0: none
	Merged int    // arrays that were merged
	Into   int    // arrays that they were merged into
}

// Memory returns the memory that replicas take.
func (s *Set) Memory() Memory {
	view := s.View()
	out := Memory{Bytes: view.bytes(), Limit: s.opts.Bytes, Into: len(view.Merged)}
	for _, m := range view.Merged {
		out.Merged += len(m.members)
	}
	return out
}

func (v *View) bytes() (sum uint64) {
	for _, r := range v.Origins {
		for _, x := range r.arrays {
			if x.memory != nil {
				sum += charged(x.memory)
			}
		}
	}
	for _, m := range v.Merged {
		sum += charged(m.cells)
	}
	return sum
}

// lacks returns the number of bytes by which the replicas, with more bytes added, exceed the limit.
func (s *Set) lacks(v *View, extra uint64) uint64 {
	if total := v.bytes() + extra; s.opts.Bytes > 0 && total > s.opts.Bytes {
		return total - s.opts.Bytes
	}
	return 0
}

// trim requests a merge if replicas exceed their limit and merging helps, for example after images
// have brought arrays back into memory.
func (s *Set) trim() {
	view := s.View()
	if len(view.Indexes) > 0 && s.tooLarge(view, 0, 8) {
		s.Crowd()
	}
	if lacks := s.lacks(view, 0); lacks > 0 && s.opts.Store != nil && len(s.arrange(view, lacks).leaving) > 0 {
		s.Wake()
	}
}

// leaving reports whether an array is leaving the memory, or takes memory only until merged arrays
// have been made again.
func (v *View) leaving() bool {
	for _, r := range v.Origins {
		for _, x := range r.arrays {
			if x.memory != nil && (x.cold != nil || x.hidden) {
				return true
			}
		}
	}
	return false
}

// Busy reports whether arrays are leaving the memory, or are to be merged. It must not run while
// the writer changes anything. Only tests of this package and of package engine use it, to wait for
// the end of merging.
func (s *Set) Busy() bool {
	v := s.View()
	return v.leaving() || len(s.wake) > 0 || s.wanted.Load() > 0 || s.arrange(v, 0).stale ||
		len(s.arrange(v, s.lacks(v, 0)).leaving) > 0
}

// settle drops the merged arrays without a remaining member, and requests a new merge for arrays
// that hold more than their members. Every change of the replicas that may remove a cold array ends
// with a call of settle.
func (s *Set) settle() {
	defer s.Crowd()
	defer s.trim()
	next := s.View().clone()
	live := next.coldArrays()
	if len(next.Merged)+len(live) == 0 {
		return
	}
	next.Merged = slices.DeleteFunc(next.Merged, func(m *Merged) bool {
		return !slices.ContainsFunc(m.members, func(c *cold) bool { _, ok := live[c]; return ok })
	})
	next.refresh()
	s.view.Store(next)
	if s.arrange(next, 0).stale {
		s.Wake()
	}
}

// coldArrays returns the cold arrays that are not also in memory, and their origins.
func (v *View) coldArrays() map[*cold]*Held {
	out := make(map[*cold]*Held)
	for _, r := range v.Origins {
		for _, x := range r.arrays {
			if x.memory == nil {
				out[x.cold] = r
			}
		}
	}
	return out
}

// refresh determines the arrays that look-ups read in v, after a change of its arrays. These are
// all arrays except the ones whose content a merged array still has. The caller owns v.
func (v *View) refresh() {
	type name struct {
		origin string
		Key
	}
	members := make(map[name]bool)
	for _, m := range v.Merged {
		for _, c := range m.members {
			members[name{c.origin, c.Key}] = true
		}
	}
	for i, r := range v.Origins {
		for _, x := range r.arrays {
			hidden := x.memory != nil && members[name{r.ID, x.Key}]
			if hidden == x.hidden {
				continue
			}
			c := *x
			c.hidden = hidden
			r = r.clone()
			r.put(&c)
			v.Origins[i] = r
		}
	}
	v.Counts, v.Lists = nil, nil
	for _, m := range v.Merged {
		if counts, ok := m.cells.(*arrays.Counting); ok {
			v.Counts = append(v.Counts, MergedCounts{m.Start, m.weight, counts, m.Origins()})
		} else {
			v.addList(m)
		}
	}
	for _, l := range v.Lists {
		slices.SortFunc(l.Block, func(a, b *MergedBlock) int { return cmp.Compare(b.Start, a.Start) })
	}
}

func (v *View) addList(m *Merged) {
	i := slices.IndexFunc(v.Lists, func(l *MergedList) bool { return l.Weight == m.weight })
	if i < 0 {
		i = len(v.Lists)
		v.Lists = append(v.Lists, &MergedList{Weight: m.weight})
	}
	l := v.Lists[i]
	j := slices.IndexFunc(l.Block, func(b *MergedBlock) bool { return b.Start == m.Start })
	if j < 0 {
		j = len(l.Block)
		l.Block = append(l.Block, &MergedBlock{Start: m.Start})
	}
	bits := m.cells.(*arrays.Bits)
	if m.Array == ArraySpam {
		l.Block[j].Spam = append(l.Block[j].Spam, bits)
	} else {
		l.Block[j].Revoked = append(l.Block[j].Revoked, bits)
	}
}
