package arrays

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// A column is an array of either kind.
type column interface {
	Attach(*Sliced, int) error
	Detach(*Sliced)
	Columns() []Column
	Geometry() Geometry
	AppendPage([]byte, int) []byte
	LoadPage([]byte) (int, error)
	Pages() int
}

// shows reports whether an array shows a key.
func shows(a column, k Key) bool {
	if c, ok := a.(*Counting); ok {
		return c.Count(k) > 0
	}
	return a.(*Bits).Has(k)
}

// put adds a key by one of the ways in which an array changes.
func put(t *rapid.T, a column, k Key) {
	n := rapid.SampledFrom([]uint32{1, 14, 15, 16, Many}).Draw(t, "n")
	way := rapid.IntRange(0, 4).Draw(t, "way")
	other := drawColumn(t, a.Geometry(), true)
	switch c := a.(type) {
	case *Counting:
		o := other.(*Counting)
		switch way {
		case 0:
			c.Add(k, n)
		case 1:
			c.AddBatch(0, []Key{k}, []uint32{n}, nil)
		case 2:
			r := c.NewRound()
			r.Record([]Key{k}, []uint32{n}, []uint32{c.Count(k)})
			r.Close()
			if err := c.ApplyRound(0, r, false); err != nil {
				t.Fatal(err)
			}
		case 3:
			o.Add(k, n)
			if err := c.Merge(o); err != nil {
				t.Fatal(err)
			}
		case 4:
			if err := o.Merge(c); err != nil {
				t.Fatal(err)
			}
			o.Add(k, n)
			loadPage(t, c, o, o.PageOf(k))
		}
	case *Bits:
		o := other.(*Bits)
		switch way {
		case 0:
			c.Set(k)
		case 1:
			c.SetBatch(0, []Key{k}, nil)
		case 2:
			r := c.NewRound()
			r.RecordBits([]Key{k}, []bool{c.Has(k)})
			r.Close()
			if err := c.ApplyRound(0, r, false); err != nil {
				t.Fatal(err)
			}
		case 3:
			o.Set(k)
			if err := c.Merge(o); err != nil {
				t.Fatal(err)
			}
		case 4:
			if err := o.Merge(c); err != nil {
				t.Fatal(err)
			}
			o.Set(k)
			loadPage(t, c, o, o.PageOf(k))
		}
	}
}

func loadPage(t *rapid.T, to, from column, p int) {
	if _, err := to.LoadPage(from.AppendPage(nil, p)); err != nil {
		t.Fatal(err)
	}
}

func drawColumn(t *rapid.T, g Geometry, sparse bool) (a column) {
	var err error
	switch {
	case g.Kind == Cells && sparse:
		a, err = NewSparseCounting(g)
	case g.Kind == Cells:
		a, err = NewCounting(g)
	case sparse:
		a, err = NewSparseBits(g)
	default:
		a, err = NewBits(g)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestSliced compares the answers of a Sliced with the arrays themselves, whenever they were
// attached and however they were filled: it never misses an array.
func TestSliced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := Geometry{Kind: Cells, K: rapid.Uint8Range(2, 8).Draw(t, "k"), KeyID: 7}
		if rapid.Bool().Draw(t, "bits") {
			g.Kind, g.K = Bitmap, rapid.SampledFrom([]uint8{8, 16}).Draw(t, "bits of a key")
		}
		g.Lines = rapid.SampledFrom([]uint64{1, 3, 512, 700, 1024, 3072}).Draw(t, "lines")
		wide := rapid.SampledFrom([]int{1, 63, 64, 65, 200, MaxColumns}).Draw(t, "columns")
		s, err := NewSliced(g, wide)
		if err != nil {
			t.Fatal(err)
		}
		at := make(map[int]column)
		for range rapid.IntRange(1, 4).Draw(t, "arrays") {
			a := drawColumn(t, g, rapid.Bool().Draw(t, "sparse"))
			n := rapid.IntRange(0, wide-1).Draw(t, "column")
			if at[n] != nil {
				continue
			}
			at[n] = a
		}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		var keys []Key
		drawn := func() Key {
			keys = append(keys, Key{Hi: rng.Uint64(), Lo: rng.Uint64()})
			return keys[rng.IntN(len(keys))]
		}
		order := make([]int, 0, len(at))
		for n := range at {
			order = append(order, n)
		}
		slices.Sort(order)
		for _, n := range order {
			for range rapid.IntRange(0, 8).Draw(t, "before") {
				put(t, at[n], drawn())
			}
			if err := at[n].Attach(s, n); err != nil {
				t.Fatal(err)
			}
			for range rapid.IntRange(0, 8).Draw(t, "after") {
				put(t, at[n], drawn())
			}
		}
		for range 40 {
			drawn() // a key that belongs to no array
		}
		out := make([]uint64, len(keys)*s.Words())
		for i := range out {
			out[i] = rng.Uint64() // left from another look-up
		}
		s.which(keys, out)
		named, absent := 0, 0
		for i, k := range keys {
			for n := range s.Words() * 64 {
				says := out[i*s.Words()+n/64]>>(n%64)&1 == 1
				has := at[n] != nil && shows(at[n], k)
				if has && !says {
					t.Fatalf("array %d of %v has a key that column %d misses", n, at[n].Geometry(), n)
				}
				if at[n] == nil && says {
					t.Fatalf("column %d, where no array is, has a key", n)
				}
				if !has {
					absent++
					if says {
						named++
					}
				}
			}
		}
		if g.Lines > 64 && named > 2+absent/50 { // for arrays of a few keys
			t.Fatalf("%d of %d absent keys are named", named, absent)
		}
		several := rapid.IntRange(1, 3).Draw(t, "several")
		sameFound(t, s, keys[:len(keys)/several*several], several, out)
	})
}

// which sets the bits of out[i*Words():(i+1)*Words()] whose arrays may have keys[i], as Find does for single keys.
func (s *Sliced) which(keys []Key, out []uint64) {
	out = out[:len(keys)*s.words]
	hits := s.Find(keys, 1, out, nil)
	for i := len(keys) - 1; i >= 0; i-- {
		to, n := out[i*s.words:(i+1)*s.words], len(hits)-1
		if n < 0 || hits[n] != i {
			clear(to)
			continue
		}
		copy(to, out[n*s.words:])
		hits = hits[:n]
	}
}

// sameFound compares the result of Find for several keys with the result of which for each, which
// is in out.
func sameFound(t *rapid.T, s *Sliced, keys []Key, several int, out []uint64) {
	var hits []int
	var rows []uint64
	for n := range len(keys) / several {
		row, any := make([]uint64, s.Words()), false
		for i, w := range out[n*several*s.Words() : (n+1)*several*s.Words()] {
			row[i%s.Words()] |= w
			any = any || w != 0
		}
		if any {
			hits, rows = append(hits, n), append(rows, row...)
		}
	}
	got := make([]uint64, len(keys)/several*s.Words())
	for i := range got {
		got[i] = 5 // left from another look-up
	}
	if found := s.Find(keys, several, got, nil); !slices.Equal(found, hits) || !slices.Equal(got[:len(rows)], rows) {
		t.Fatalf("of %d keys, %d as one, found %v, want %v; %x, want %x", len(keys), several, found, hits,
			got[:len(rows)], rows)
	}
}

// TestSlicedDetach checks that a detached array writes nothing more, and may be attached elsewhere.
func TestSlicedDetach(t *testing.T) {
	g := Geometry{Kind: Cells, Lines: 100, K: 6, KeyID: 7}
	c, err := NewSparseCounting(g)
	if err != nil {
		t.Fatal(err)
	}
	var in [2]*Sliced
	for i := range in {
		if in[i], err = NewSliced(g, 64); err != nil {
			t.Fatal(err)
		}
		if err := c.Attach(in[i], i); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := c.Columns(), []Column{{in[0], 0}, {in[1], 1}}; !slices.Equal(got, want) {
		t.Errorf("columns %v, want %v", got, want)
	}
	c.Detach(in[0])
	k := Key{Hi: 1 << 63, Lo: 12345}
	c.Add(k, 1)
	for i, want := range [...]uint64{0, 2} {
		var out [1]uint64
		if in[i].which([]Key{k}, out[:]); out[0] != want {
			t.Errorf("after detaching from 0: column %d has %b, want %b", i, out[0], want)
		}
	}
	if got := in[1].Bytes() - in[0].Bytes(); got != 16<<10 || len(c.Columns()) != 1 {
		t.Errorf("%d bytes for a key, %v", got, c.Columns())
	}
}

// TestSlicedRefuses checks that arrays that do not belong together are refused.
func TestSlicedRefuses(t *testing.T) {
	g := Geometry{Kind: Cells, Lines: 1024, K: 6, KeyID: 7}
	for _, columns := range []int{-1, 0, MaxColumns + 1} {
		if _, err := NewSliced(g, columns); !errors.Is(err, ErrGeometry) {
			t.Errorf("for %d arrays: %v", columns, err)
		}
	}
	if _, err := NewSliced(Geometry{}, 1); !errors.Is(err, ErrGeometry) {
		t.Errorf("no geometry: %v", err)
	}
	s, err := NewSliced(g, 10)
	if err != nil {
		t.Fatal(err)
	}
	for name, other := range map[string]Geometry{
		"smaller":        {Kind: Cells, Lines: 1023, K: 6, KeyID: 7},
		"larger":         {Kind: Cells, Lines: 2048, K: 6, KeyID: 7},
		"other k":        {Kind: Cells, Lines: 1024, K: 5, KeyID: 7},
		"other secret":   {Kind: Cells, Lines: 1024, K: 6, KeyID: 8},
		"other kind":     {Kind: Bitmap, Lines: 1024, K: 8, KeyID: 7},
		"the same shape": g,
	} {
		var a column
		if other.Kind == Cells {
			a, err = NewCounting(other)
		} else {
			a, err = NewBits(other)
		}
		if err != nil {
			t.Fatal(err)
		}
		for n, ok := range map[int]bool{-1: false, 9: other == g, 10: false} {
			if err := a.Attach(s, n); (err == nil) != ok {
				t.Errorf("%s in column %d: %v", name, n, err)
			}
		}
	}
}

// TestSlicedRace checks that a key is found once its add has returned, while other arrays are
// attached and filled.
func TestSlicedRace(t *testing.T) {
	g := Geometry{Kind: Cells, Lines: 256, K: 6, KeyID: 7}
	s, err := NewSliced(g, 64)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for n := range 8 {
		c, err := NewSparseCounting(g)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(n), 1))
			for i := range 400 {
				if i == 100 {
					if err := c.Attach(s, n); err != nil {
						t.Error(err)
					}
				}
				k := Key{Hi: rng.Uint64(), Lo: rng.Uint64()}
				c.Add(k, 1+uint32(i%20))
				var out [1]uint64
				if s.which([]Key{k}, out[:]); i >= 100 && out[0]>>n&1 == 0 {
					t.Errorf("key %d of array %d is not there", i, n)
				}
			}
		})
	}
	all.Wait()
}
