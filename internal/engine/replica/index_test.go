package replica

import (
	"fmt"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/arrays"
)

// TestIndexRoom: where memory is short, an index first loses its counts, and is then dropped;
// where there is hardly room, one without counts is made.
func TestIndexRoom(t *testing.T) {
	var origins []Origin
	for i := range leastIndexed {
		origins = append(origins, Origin{fmt.Sprint("o", i), 1})
	}
	s := newShelf(t, 0, origins...)
	for i, o := range origins {
		c, err := arrays.NewCounting(mergeGeometry)
		if err != nil {
			t.Fatal(err)
		}
		c.SetGeneration(today)
		for n := range 3000 {
			c.Add(key(uint64(i*3000+n)), 8)
		}
		s.index++
		if err := take(s.Set, s.index, o.ID, Part{Array: ArrayCounts, Start: today, Geometry: mergeGeometry,
			Image: c.Image(0).Append(nil), At: c.Version()}); err != nil {
			t.Fatal(err)
		}
	}
	index := func(what string, want, counts bool) {
		t.Helper()
		if err := s.Index(t.Context(), func(f func()) { f() }); err != nil {
			t.Fatal(err)
		}
		all := s.View().Indexes
		if (len(all) == 1) != want || len(all) > 1 || len(all) == 1 && all[0].Exact() != counts {
			t.Fatalf("%s: %d indexes, want one: %v, with counts: %v", what, len(all), want, counts)
		}
	}
	index("without a limit", true, true)
	v := s.View()
	full, plain := v.bytes()+v.indexBytes(), v.bytes()
	s.opts.Bytes = full - 1
	index("short of a byte", true, false)
	if v = s.View(); v.indexBytes()*3 > full-plain {
		t.Errorf("%d bytes without counts, %d with them", v.indexBytes(), full-plain)
	}
	s.opts.Bytes = v.bytes() + v.indexBytes() - 1
	index("short again", false, false)
	s.opts.Bytes = (plain + 2*indexSize(v.Origins[0].loaded(), 64)) / 7 * 8
	index("room for an index alone", true, false)
}

// loaded returns the arrays of a replica that are in memory.
func (r *Held) loaded() (all []loaded) {
	for _, x := range r.arrays {
		all = append(all, x.memory)
	}
	return all
}
