package replica

import (
	"cmp"
	"context"
	"slices"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
)

// leastIndexed is the number of arrays of one kind and geometry up to which they are read one after
// the other. More arrays get an index, see [arrays.Sliced].
const leastIndexed = 16

// An Index finds the arrays of a view that may have a key. It changes the cost of a look-up, never
// its result: a look-up reads the arrays that the index returns, and the arrays that are in no
// index.
type Index struct {
	*arrays.Sliced
	array Array // kind of all its arrays
	used  int   // columns in use, including columns of dropped arrays. Only Set.Index uses it
}

// An indexKind is the properties that the arrays of one index share. Spam filters and revocation
// filters are in separate indexes, because most look-ups need only spam filters.
type indexKind struct {
	array Array
	filter.Geometry
}

// Crowded returns a channel that receives a value when Index may have work.
func (s *Set) Crowded() <-chan struct{} { return s.crowded }

// Crowd requests a call of Index.
func (s *Set) Crowd() {
	select {
	case s.crowded <- struct{}{}:
	default:
	}
}

// each calls f for every array that look-ups read.
func (v *View) each(f func(of Array, array loaded)) {
	for _, r := range v.Origins {
		for _, x := range r.arrays {
			if x.memory != nil && !x.hidden && r.Weight > 0 {
				f(x.Array, x.memory)
			}
		}
	}
	for _, m := range v.Merged {
		if m.Array == ArrayCounts { // merged lists are few and need no index
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

// tooLarge reports whether the replicas and their indexes, with more bytes added, exceed a number
// of eighths of the limit.
func (s *Set) tooLarge(v *View, extra, eighths uint64) bool {
	return s.opts.Bytes > 0 && v.bytes()+v.indexBytes()+extra > s.opts.Bytes/8*eighths
}

// An indexing is one job of Index: to fill an index with arrays.
type indexing struct {
	to     *Index
	arrays []loaded
	old    []*Index // indexes that it replaces
}

// Index makes the indexes that look-ups need, and drops useless ones. If memory is short it drops
// all indexes, because arrays come first. One goroutine at a time may call it, concurrently with
// the writer. between runs a function between two batches of the writer.
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

// gather compacts the memory of the indexes.
func (s *Set) gather(ctx context.Context, between func(func())) error {
	for _, x := range s.View().Indexes {
		for part, extra := 0, true; extra; part++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			between(func() { extra = !s.tooLarge(s.View(), 0, 7) && x.Gather(part) })
		}
	}
	return nil
}

// adoptIndexes publishes a view with the new indexes.
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

// planIndexes returns the jobs of Index. It runs between two batches.
func (s *Set) planIndexes() (jobs []indexing) {
	v := s.View()
	if s.tooLarge(v, 0, 8) {
		for _, x := range v.Indexes {
			x.DropExact() // exact rows take the most memory and are missed the least
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
	live := make(map[*arrays.Sliced][]loaded)
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
			// Arrays of one generation, whose counts are added up together, get adjacent columns.
			slices.SortStableFunc(x.loose, func(a, b loaded) int { return cmp.Compare(b.Generation(), a.Generation()) })
			jobs = append(jobs, x.plan(kind, func(extra, eighths uint64) bool { return !s.tooLarge(v, extra, eighths) })...)
		}
	}
	return jobs
}

// indexed is the indexes and arrays of one kind.
type indexed struct {
	all   []*Index
	live  [][]loaded // for each index, the arrays that look-ups read
	loose []loaded   // arrays in none of them
}

// plan returns the jobs that bring the loose arrays into an index. It joins small indexes into
// larger ones, so that there are few. An index also counts as small if most of its arrays are gone.
// fits reports whether more bytes fit into a number of eighths of the memory limit.
func (x *indexed) plan(kind indexKind, fits func(extra, eighths uint64) bool) (jobs []indexing) {
	var small []*Index
	loose := x.loose
	for i, old := range x.all {
		room := old.Columns() - old.used
		switch {
		case room >= len(loose):
			return []indexing{{to: old, arrays: loose, old: small}}
		case old.Columns() < arrays.MaxColumns || 2*len(x.live[i]) < old.used:
			small, loose = append(small, old), append(loose, x.live[i]...)
		}
	}
	for part := range slices.Chunk(loose, arrays.MaxColumns) {
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

// newIndex returns an index that takes up to size bytes. If there is much room, the index is exact
// and takes as much memory as its arrays. If there is no room, newIndex returns nil.
func newIndex(kind indexKind, columns int, size uint64, fits func(extra, eighths uint64) bool) *Index {
	make, exact := arrays.NewSlicedExact, size*shareOf(kind.Geometry)
	if !fits(exact, 6) {
		if !fits(size, 7) {
			return nil
		}
		make = arrays.NewSliced
	}
	to, err := make(kind.Geometry, columns)
	if err != nil {
		return nil
	}
	return &Index{Sliced: to, array: kind.array}
}

// indexSize returns the approximate maximum size in bytes of an index of arrays with the given
// number of columns. Each column takes a bit for each cell, or for every second bit, of an array.
func indexSize(arrays []loaded, columns int) (sum uint64) {
	for _, a := range arrays {
		sum = max(sum, charged(a)/shareOf(a.Geometry()))
	}
	return sum * uint64(columns)
}

// shareOf returns the divisor of an array's size in an index that is not exact: 2 for bit arrays, 4
// for counts.
func shareOf(g filter.Geometry) uint64 {
	if g.Kind == filter.Bitmap {
		return 2
	}
	return 4
}

// Indexed returns the number of arrays in indexes, and the number of arrays that are in none
// although there are enough for one. It counts the arrays that look-ups read.
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
	return slices.ContainsFunc(a.Columns(), func(c arrays.Column) bool {
		return slices.ContainsFunc(v.Indexes, func(x *Index) bool { return x.Sliced == c.In })
	})
}
