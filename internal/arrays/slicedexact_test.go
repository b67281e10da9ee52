package arrays

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// countsIn returns the counts of an array in a column according to s; 8 stands for any larger count. ok
// is false if s has no answer.
func countsIn(t interface{ Fatal(...any) }, s *Sliced, column int, keys ...Key) (n []uint32, ok bool) {
	out := make([]CountWord, len(keys)*s.Words())
	for i := range out {
		out[i] = CountWord{N: [3]uint64{^uint64(0), 1, 2}, More: 3} // left from another look-up
	}
	if !s.Counts(keys, out) {
		return nil, false
	}
	for i := range keys {
		w, bit := &out[i*s.Words()+column/64], column%64
		value := uint32(w.N[0]>>bit&1 | w.N[1]>>bit&1<<1 | w.N[2]>>bit&1<<2)
		large := w.More>>bit&1 == 1
		if large && value != 0 || w.Has()>>bit&1 == 1 != (large || value > 0) {
			t.Fatal("a count of", value, "and more", w)
		}
		if large {
			value = 8
		}
		n = append(n, value)
	}
	return n, true
}

// TestSlicedCounts compares the counts of a Sliced with the counts of the arrays, whenever the arrays
// were attached, however they were filled, and after images that removed counts.
func TestSlicedCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := Geometry{Kind: Cells, K: rapid.Uint8Range(2, 8).Draw(t, "k"), KeyID: 7}
		g.Lines = rapid.SampledFrom([]uint64{1, 3, 700, 1024, 3072}).Draw(t, "lines")
		wide := rapid.SampledFrom([]int{1, 64, 65, 300}).Draw(t, "columns")
		s, err := NewSlicedExact(g, wide)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		arrays := make([]*Counting, rapid.IntRange(1, 4).Draw(t, "arrays"))
		at := rng.Perm(wide)
		arrays = arrays[:min(len(arrays), wide)]
		keys := randomKeys(rng, 3)
		kind := func() Key { return keys[rng.IntN(len(keys))].With(uint8(rng.IntN(4))) }
		change := func(c *Counting) {
			switch rng.IntN(12) {
			case 0: // an image of an array with at most a few keys
				o := drawColumn(t, g, true).(*Counting)
				k := kind()
				o.Add(k, 1+uint32(rng.IntN(20)))
				loadPage(t, c, o, o.PageOf(k))
			case 1:
				c.Add(kind(), uint32(rng.IntN(20)))
			case 2:
				put(t, c, kind())
			default:
				c.AddBatch(0, []Key{kind(), kind()}, []uint32{1, 1 + uint32(rng.IntN(3))}, nil)
			}
		}
		for i := range arrays {
			arrays[i] = drawColumn(t, g, rapid.Bool().Draw(t, "sparse")).(*Counting)
			for range rapid.IntRange(0, 20).Draw(t, "before") {
				change(arrays[i])
			}
			if err := arrays[i].Attach(s, at[i]); err != nil {
				t.Fatal(err)
			}
		}
		for range rapid.IntRange(0, 60).Draw(t, "after") {
			change(arrays[rng.IntN(len(arrays))])
		}
		for _, k := range append(keys, Key{Hi: rng.Uint64(), Lo: rng.Uint64()}) {
			kinds := []Key{k.With(0), k.With(1), k.With(2), k.With(3), k.With(9)}
			for i, c := range arrays {
				got, ok := countsIn(t, s, at[i], kinds...)
				if !ok {
					t.Fatal("no counts")
				}
				for j := range kinds {
					if want := min(c.Count(kinds[j]), 8); got[j] != want {
						t.Fatalf("column %d of %d, %v: counts %d, want %d", at[i], wide, g, got[j], want)
					}
				}
			}
		}
	})
}

// TestSlicedNarrow compares the result of Narrow for bit arrays with the arrays.
func TestSlicedNarrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := Geometry{Kind: Bitmap, K: rapid.SampledFrom([]uint8{8, 16}).Draw(t, "k"), KeyID: 7}
		g.Lines = rapid.SampledFrom([]uint64{1, 2, 700, 3072}).Draw(t, "lines")
		wide := rapid.SampledFrom([]int{3, 64, 65, 700}).Draw(t, "columns")
		s, err := NewSlicedExact(g, wide)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		keys := make([]Key, 6)
		for i := range keys {
			keys[i] = Key{Hi: rng.Uint64(), Lo: rng.Uint64()}
			if i%2 == 1 {
				keys[i] = Key{Hi: keys[i-1].Hi, Lo: keys[i-1].Lo ^ 1<<(8*rng.IntN(8))} // nearly the same bits
			}
		}
		at := rng.Perm(wide)[:3]
		var arrays [3]*Bits
		for i := range arrays {
			arrays[i] = drawColumn(t, g, rapid.Bool().Draw(t, "sparse")).(*Bits)
			for n := range rapid.IntRange(0, 8).Draw(t, "puts") {
				if n == 3 {
					if err := arrays[i].Attach(s, at[i]); err != nil {
						t.Fatal(err)
					}
				}
				k := keys[rng.IntN(len(keys))]
				if rng.IntN(4) > 0 {
					put(t, arrays[i], k)
					continue
				}
				o := drawColumn(t, g, true).(*Bits) // an image of an array with at most one key
				o.Set(k)
				loadPage(t, arrays[i], o, o.PageOf(k))
			}
			if len(arrays[i].Columns()) == 0 {
				if err := arrays[i].Attach(s, at[i]); err != nil {
					t.Fatal(err)
				}
			}
		}
		out := make([]uint64, len(keys)*s.Words())
		s.which(keys, out)
		for i, k := range keys {
			row := out[i*s.Words() : (i+1)*s.Words()]
			if !s.Narrow(k, row) {
				t.Fatal("no counts")
			}
			for n, b := range arrays {
				if says := row[at[n]/64]>>(at[n]%64)&1 == 1; says != b.Has(k) {
					t.Fatalf("column %d of %d, %v: counts %v", at[n], wide, g, says)
				}
			}
		}
		s.DropExact()
		if row := out[:s.Words()]; s.Narrow(keys[0], row) {
			t.Fatal("counts after all was dropped")
		}
	})
}

// TestSlicedCountsRace checks that a count returned while arrays change is one that the array had
// during the call.
func TestSlicedCountsRace(t *testing.T) {
	g := Geometry{Kind: Cells, Lines: 256, K: 6, KeyID: 7}
	s, err := NewSlicedExact(g, 64)
	if err != nil {
		t.Fatal(err)
	}
	keys := make([]Key, 200)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range keys {
		keys[i] = Key{Hi: rng.Uint64(), Lo: rng.Uint64()}
	}
	var arrays [2]struct {
		*Counting
		now         atomic.Int64 // index of the key being counted
		begun, done [200]atomic.Uint32
	}
	var all sync.WaitGroup
	var ended atomic.Int32
	for i := range arrays {
		a := &arrays[i]
		if a.Counting, err = NewCounting(g); err != nil {
			t.Fatal(err)
		}
		if err := a.Attach(s, 40*i); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			for k := range keys {
				a.now.Store(int64(k))
				for range 7 {
					n := 1 + uint32(rng.IntN(2))
					a.begun[k].Add(n)
					a.Add(keys[k], n)
					a.done[k].Add(n)
				}
			}
			ended.Add(1)
		})
	}
	for ended.Load() < 2 {
		for i := range arrays {
			a := &arrays[i]
			k := a.now.Load()
			least := min(a.done[k].Load(), 8)
			got, ok := countsIn(t, s, 40*i, keys[k])
			if most := min(a.begun[k].Load(), 8); ok && (got[0] < least || got[0] > most) {
				t.Fatalf("counts %d, when it was %d to %d", got[0], least, most)
			}
		}
	}
	all.Wait()
	for i := range arrays {
		for k := range keys {
			got, ok := countsIn(t, s, 40*i, keys[k])
			if want := arrays[i].Count(keys[k]); !ok || got[0] != min(want, 8) || want != arrays[i].done[k].Load() {
				t.Errorf("in the end counts %d %v, want %d, %d were added", got, ok, want, arrays[i].done[k].Load())
			}
		}
	}
}

// TestSlicedGather checks that gathered rows keep their content, and that later writes reach them.
func TestSlicedGather(t *testing.T) {
	g := Geometry{Kind: Cells, Lines: 20 * PageLines, K: 6, KeyID: 7}
	s, err := NewSlicedExact(g, 64)
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCounting(g)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Attach(s, 5); err != nil {
		t.Fatal(err)
	}
	var keys []Key
	rng := rand.New(rand.NewPCG(5, 6))
	add := func(n int) {
		for range n {
			keys = append(keys, Key{Hi: rng.Uint64(), Lo: rng.Uint64()})
			c.Add(keys[len(keys)-1], 1+rng.Uint32N(9))
		}
	}
	gather := func() (parts int) {
		for s.Gather(parts) {
			parts++
		}
		return parts
	}
	add(50)
	before := s.Bytes()
	if parts := gather(); parts != 8 || s.Bytes() != before { // of 20 MiB in each of four
		t.Fatalf("%d parts, %d bytes more, though little is there", parts, s.Bytes()-before)
	}
	add(2000)
	for range 3 {
		gather()
		want := uint64(4*2*gathered) << 14
		if rest := s.Bytes() - want; rest > 4*256<<14+1<<17 { // a directory
			t.Errorf("%d bytes, of which %d are not together", s.Bytes(), rest)
		}
		add(500)
		for _, k := range keys {
			if got, ok := countsIn(t, s, 5, k); !ok || got[0] != min(c.Count(k), 8) {
				t.Fatalf("counts %d %v, want %d", got, ok, c.Count(k))
			}
		}
	}
}

// TestSlicedExactMemory checks that counts take the expected memory, and none once they are
// dropped. The arrays that have a key are found without them.
func TestSlicedExactMemory(t *testing.T) {
	g := Geometry{Kind: Cells, Lines: 1024, K: 6, KeyID: 7}
	s, err := NewSlicedExact(g, 64)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := NewSliced(g, 64)
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewSparseCounting(g)
	if err != nil {
		t.Fatal(err)
	}
	for i, to := range []*Sliced{s, plain} {
		if err := c.Attach(to, i); err != nil {
			t.Fatal(err)
		}
	}
	empty := s.Bytes() - plain.Bytes()
	k := Key{Hi: 1 << 63, Lo: 12345}
	for n, chunks := range []uint64{0, 1, 2, 2, 3, 3} {
		c.Add(k, 1)
		got := s.Bytes() - plain.Bytes() - empty
		if got != chunks<<14 {
			t.Errorf("%d bytes for a count of %d, want %d", got, n+1, chunks<<14)
		}
		if got, ok := countsIn(t, s, 0, k); !ok || got[0] != uint32(n+1) {
			t.Errorf("counts %d %v, want %d", got, ok, n+1)
		}
	}
	if _, ok := countsIn(t, plain, 1, k); ok || plain.Exact() || !s.Exact() {
		t.Error("counts where there are none")
	}
	s.DropExact()
	c.Add(k, 1)
	if _, ok := countsIn(t, s, 0, k); ok || s.Exact() || s.Bytes() != plain.Bytes() {
		t.Errorf("dropped, but counts: %v, %d bytes, want %d", ok, s.Bytes(), plain.Bytes())
	}
	var out [1]uint64
	if s.which([]Key{k}, out[:]); out[0] != 1 {
		t.Errorf("which: %b", out[0])
	}
	bits, err := NewSlicedExact(Geometry{Kind: Bitmap, Lines: 10, K: 8, KeyID: 7}, 64)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := countsIn(t, bits, 0, k); ok || s.Narrow(k, out[:]) || out[0] != 1 {
		t.Error("counts of bits, or bits of counts")
	}
	if _, err := NewSlicedExact(g, 0); !errors.Is(err, ErrGeometry) {
		t.Errorf("counts of nothing: %v", err)
	}
}

// randomKeys returns n keys.
func randomKeys(rng *rand.Rand, n int) (keys []Key) {
	for range n {
		keys = append(keys, Key{Hi: rng.Uint64(), Lo: rng.Uint64()})
	}
	return keys
}
