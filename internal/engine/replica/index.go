package replica

import (
	"cmp"
	"context"
	"slices"

	"github.com/bulkhead-mail/bulkhead/filter"
)

// leastIndexed is how many arrays of one kind and geometry are read one after the other. More are
// found by an index, see [filter.Sliced].
const leastIndexed = 16

// An Index finds those arrays of a view that may have a key. It changes what a look-up
// costs, never its result: who uses it reads the arrays that it names, and those that are in
// no index.
type Index struct {
	*filter.Sliced
	array Array // which all in it are
	used  int   // columns; those of arrays that are gone, too. Only Set.Index uses it
}

// An indexKind is what arrays of one index have in common. Spam filters and revocation filters
// are apart: most look-ups need only the first.
type indexKind struct {
	array Array
	filter.Geometry
}

// Crowded returns a channel that receives when Index may have something to do.
func (s *Set) Crowded() <-chan struct{} { return s.crowded }

// Crowd asks for an Index.
func (s *Set) Crowd() {
	select {
	case s.crowded <- struct{}{}:
	default:
	}
}

// each calls f for every array that a look-up reads.
func (v *View) each(f func(of Array, array loaded)) {
	for _, r := range v.Origins {
		for _, x := range r.arrays {
			if x.memory != nil && !x.hidden && r.Weight > 0 {
				f(x.Array, x.memory)
			}
		}
	}
	for _, m := range v.Merged {
		if m.Array == ArrayCounts { // merged lists are few
			f(m.Array, m.cells)
		}
	}
}

// indexBytes returns the memory of the indexes.
func (v *View) indexBytes() (sum uint64) {
	for _, x := range v.Indexes {
		sum += x.Bytes()
	}
	return sum
}

// tooLarge reports whether the replicas and their indexes, with more bytes added, exceed a
// share of the limit.
func (s *Set) tooLarge(v *View, more, eighths uint64) bool {
	return s.opts.Bytes > 0 && v.bytes()+v.indexBytes()+more > s.opts.Bytes/8*eighths
}

// An indexing is what Index does for arrays of one kind.
type indexing struct {
	to     *Index
	arrays []loaded
	old    []*Index // that are dropped for it
}

// Index makes the indexes that look-ups want, drops those that are no use any more, and all
// of them where memory is short: arrays come first. One goroutine calls it at a time, beside
// the writer; between runs a function between two batches of the writer.
func (s *Set) Index(ctx context.Context, between func(func())) error {
	var jobs []indexing
	between(func() { jobs = s.planIndexes() })
	for _, j := range jobs {
		if j.to == nil {
			continue
		}
		for _, a := range j.arrays {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := a.Attach(j.to.Sliced, j.to.used); err != nil {
				return err
			}
			j.to.used++
		}
	}
	if len(jobs) > 0 {
		between(func() { s.adoptIndexes(jobs) })
	}
	return s.gather(ctx, between)
}

// gather moves what indexes have in memory together.
func (s *Set) gather(ctx context.Context, between func(func())) error {
	for _, x := range s.View().Indexes {
		for part, more := 0, true; more; part++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			between(func() { more = !s.tooLarge(s.View(), 0, 7) && x.Gather(part) })
		}
	}
	return nil
}

// adoptIndexes publishes a view with the indexes that were made.
func (s *Set) adoptIndexes(jobs []indexing) {
	next := s.View().clone()
	next.Indexes = slices.Clone(next.Indexes)
	for _, j := range jobs {
		if j.to != nil && !slices.Contains(next.Indexes, j.to) {
			next.Indexes = append(next.Indexes, j.to)
		}
		for _, old := range j.old {
			next.Indexes = slices.DeleteFunc(next.Indexes, func(x *Index) bool { return x == old })
			next.Each(func(a any) { a.(loaded).Detach(old.Sliced) })
			for _, m := range next.Merged {
				m.cells.Detach(old.Sliced)
			}
		}
	}
	s.view.Store(next)
}

// planIndexes returns what to do. It runs between two batches.
func (s *Set) planIndexes() (jobs []indexing) {
	v := s.View()
	if s.tooLarge(v, 0, 8) {
		for _, x := range v.Indexes {
			x.DropExact() // which take the most, and are missed the least
		}
	}
	if len(v.Indexes) > 0 && s.tooLarge(v, 0, 8) {
		return []indexing{{old: v.Indexes}}
	}
	by := make(map[indexKind]*indexed)
	of := func(k indexKind) *indexed {
		if by[k] == nil {
			by[k] = new(indexed)
		}
		return by[k]
	}
	live := make(map[*filter.Sliced][]loaded)
	for _, x := range v.Indexes {
		live[x.Sliced] = nil
	}
	v.each(func(array Array, a loaded) {
		for _, c := range a.Columns() {
			if _, ok := live[c.In]; ok {
				live[c.In] = append(live[c.In], a)
				return
			}
		}
		x := of(indexKind{array, a.Geometry()})
		x.loose = append(x.loose, a)
	})
	for _, x := range v.Indexes {
		if len(live[x.Sliced]) == 0 {
			jobs = append(jobs, indexing{old: []*Index{x}})
			continue
		}
		all := of(indexKind{x.array, x.Geometry()})
		all.all, all.live = append(all.all, x), append(all.live, live[x.Sliced])
	}
	for kind, x := range by {
		if len(x.loose) >= leastIndexed {
			// What is added up together stands together.
			slices.SortStableFunc(x.loose, func(a, b loaded) int { return cmp.Compare(b.Generation(), a.Generation()) })
			jobs = append(jobs, x.plan(kind, func(more, eighths uint64) bool { return !s.tooLarge(v, more, eighths) })...)
		}
	}
	return jobs
}

// indexed is the indexes of one kind.
type indexed struct {
	all   []*Index
	live  [][]loaded // of each, arrays that are looked up
	loose []loaded   // arrays in none of them
}

// plan returns how the loose arrays get into an index. Small indexes are made into larger
// ones, so that there are few; one is small, too, if most of its arrays are gone. fits tells
// whether there is memory for so many bytes more, in a number of eighths of the limit.
func (x *indexed) plan(kind indexKind, fits func(more, eighths uint64) bool) (jobs []indexing) {
	var small []*Index
	arrays := x.loose
	for i, old := range x.all {
		room := old.Columns() - old.used
		switch {
		case room >= len(arrays):
			return []indexing{{to: old, arrays: arrays, old: small}}
		case old.Columns() < filter.MaxColumns || 2*len(x.live[i]) < old.used:
			small, arrays = append(small, old), append(arrays, x.live[i]...)
		}
	}
	for part := range slices.Chunk(arrays, filter.MaxColumns) {
		columns := 64
		for columns < len(part) {
			columns *= 2
		}
		to := newIndex(kind, columns, indexSize(part, columns), fits)
		if to == nil {
			return nil
		}
		jobs = append(jobs, indexing{to: to, arrays: part})
	}
	jobs[len(jobs)-1].old = small
	return jobs
}

// newIndex returns an index that takes up to size bytes, or one that is exact where there is
// much room: it takes as much as its arrays. It returns nil where there is no room.
func newIndex(kind indexKind, columns int, size uint64, fits func(more, eighths uint64) bool) *Index {
	make, exact := filter.NewSlicedExact, size*shareOf(kind.Geometry)
	if !fits(exact, 6) {
		if !fits(size, 7) {
			return nil
		}
		make = filter.NewSliced
	}
	to, err := make(kind.Geometry, columns)
	if err != nil {
		return nil
	}
	return &Index{Sliced: to, array: kind.array}
}

// indexSize returns how many bytes an index of arrays takes at most, about: a bit for each
// cell, or for every second bit, of as many arrays as there are columns.
func indexSize(arrays []loaded, columns int) (sum uint64) {
	for _, a := range arrays {
		sum = max(sum, charged(a)/shareOf(a.Geometry()))
	}
	return sum * uint64(columns)
}

// shareOf returns which share of an array is in an index that is not exact: one in four, or in two.
func shareOf(g filter.Geometry) uint64 {
	if g.Kind == filter.Bitmap {
		return 2
	}
	return 4
}

// Indexed returns how many arrays that look-ups read are in an index, and how many are in
// none and enough for one.
func (s *Set) Indexed() (in, waiting int) {
	v := s.View()
	loose := make(map[indexKind]int)
	v.each(func(array Array, a loaded) {
		if v.indexes(a) {
			in++
		} else {
			loose[indexKind{array, a.Geometry()}]++
		}
	})
	for _, n := range loose {
		if n >= leastIndexed {
			waiting += n
		}
	}
	return in, waiting
}

func (v *View) indexes(a loaded) bool {
	return slices.ContainsFunc(a.Columns(), func(c filter.Column) bool {
		return slices.ContainsFunc(v.Indexes, func(x *Index) bool { return x.Sliced == c.In })
	})
}
