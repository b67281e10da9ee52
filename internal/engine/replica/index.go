package replica

import (
	"context"
	"slices"

	"github.com/bulkhead-mail/bulkhead/filter"
)

// leastIndexed is how many arrays of one geometry are read one after the other. More are
// found by an index, see [filter.Sliced].
const leastIndexed = 16

// An Index finds those arrays of a view that may have a key. It changes what a look-up
// costs, never its result: who uses it reads the arrays that it names, and those that are in
// no index.
type Index struct {
	*filter.Sliced
	used int // columns; those of arrays that are gone, too. Only Set.Index uses it
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
func (v *View) each(f func(array loaded)) {
	for _, r := range v.Origins {
		for _, x := range r.arrays {
			if x.memory != nil && !x.hidden && r.Weight > 0 {
				f(x.memory)
			}
		}
	}
	for _, m := range v.Merged {
		if m.Array == ArrayCounts { // merged lists are few
			f(m.cells)
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

// An indexing is what Index does for arrays of one geometry of indexes.
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
	if len(v.Indexes) > 0 && s.tooLarge(v, 0, 8) {
		return []indexing{{old: v.Indexes}}
	}
	by := make(map[filter.Geometry]*indexed)
	of := func(g filter.Geometry) *indexed {
		if by[g] == nil {
			by[g] = new(indexed)
		}
		return by[g]
	}
	live := make(map[*filter.Sliced][]loaded)
	for _, x := range v.Indexes {
		live[x.Sliced] = nil
	}
	v.each(func(a loaded) {
		for _, c := range a.Columns() {
			if _, ok := live[c.In]; ok {
				live[c.In] = append(live[c.In], a)
				return
			}
		}
		x := of(a.Geometry())
		x.loose = append(x.loose, a)
	})
	for _, x := range v.Indexes {
		if len(live[x.Sliced]) == 0 {
			jobs = append(jobs, indexing{old: []*Index{x}})
			continue
		}
		all := of(x.Geometry())
		all.all, all.live = append(all.all, x), append(all.live, live[x.Sliced])
	}
	for g, x := range by {
		if len(x.loose) >= leastIndexed {
			jobs = append(jobs, x.plan(g, func(more uint64) bool { return !s.tooLarge(v, more, 7) })...)
		}
	}
	return jobs
}

// indexed is the indexes of one geometry.
type indexed struct {
	all   []*Index
	live  [][]loaded // of each, arrays that are looked up
	loose []loaded   // arrays in none of them
}

// plan returns how the loose arrays get into an index. Small indexes are made into larger
// ones, so that there are few; one is small, too, if most of its arrays are gone.
func (x *indexed) plan(g filter.Geometry, fits func(more uint64) bool) (jobs []indexing) {
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
		to, err := filter.NewSliced(g, columns)
		if err != nil || !fits(indexSize(part, columns)) {
			return nil
		}
		jobs = append(jobs, indexing{to: &Index{Sliced: to}, arrays: part})
	}
	jobs[len(jobs)-1].old = small
	return jobs
}

// indexSize returns how many bytes an index of arrays takes at most, about: a bit for each
// cell, or for every second bit, of as many arrays as there are columns.
func indexSize(arrays []loaded, columns int) (sum uint64) {
	for _, a := range arrays {
		share := uint64(4)
		if a.Geometry().Kind == filter.Bitmap {
			share = 2
		}
		sum = max(sum, charged(a)/share)
	}
	return sum * uint64(columns)
}

// Indexed returns how many arrays that look-ups read are in an index, and how many are in
// none and enough for one.
func (s *Set) Indexed() (in, waiting int) {
	v := s.View()
	loose := make(map[filter.Geometry]int)
	v.each(func(a loaded) {
		if v.indexes(a) {
			in++
		} else {
			loose[a.Geometry()]++
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
