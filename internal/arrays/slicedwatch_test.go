package arrays

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// TestSlicedWatch compares watched counts with the arrays, however the arrays change.
func TestSlicedWatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := Geometry{Kind: Cells, K: rapid.Uint8Range(2, 8).Draw(t, "k"), KeyID: 7}
		g.Lines = rapid.SampledFrom([]uint64{1, 3, 700, 3072}).Draw(t, "lines")
		wide := rapid.SampledFrom([]int{2, 65, 300}).Draw(t, "columns")
		s, err := NewSlicedExact(g, wide)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		keys := randomKeys(rng, 3)
		kind := func() Key { return keys[rng.IntN(len(keys))].With(uint8(rng.IntN(3))) }
		at := rng.Perm(wide)[:2]
		var arrays [2]*Counting
		for i := range arrays {
			arrays[i] = drawColumn(t, g, rapid.Bool().Draw(t, "sparse")).(*Counting)
		}
		type note struct {
			w        *Watched
			grown    uint64
			attached int
			n        [2][3]uint32
		}
		attached, noted := 0, make(map[Key]note)
		for range rapid.IntRange(10, 80).Draw(t, "steps") {
			switch c := arrays[rng.IntN(2)]; rng.IntN(14) {
			case 0: // an image of an array with at most a few keys
				o := drawColumn(t, g, true).(*Counting)
				k := kind()
				o.Add(k, 1+uint32(rng.IntN(20)))
				loadPage(t, c, o, o.PageOf(k))
			case 1:
				put(t, c, kind())
			case 2:
				c.Add(kind(), rng.Uint32N(5000))
			default:
				c.AddBatch(0, []Key{kind(), kind()}, []uint32{1, rng.Uint32N(9)}, nil)
			}
			if attached < 2 && rng.IntN(5) == 0 {
				if err := arrays[attached].Attach(s, at[attached]); err != nil {
					t.Fatal(err)
				}
				attached++
			}
			k := keys[rng.IntN(len(keys))]
			kinds := []Key{k.With(0), k.With(1), k.With(2)}
			for i := range attached {
				w := s.Watch(kinds)
				if rng.IntN(3) == 0 {
					continue // without its columns
				}
				var got, want [3]uint32
				w.Counts(at[i], arrays[i], got[:])
				if arrays[i].CountBatch(kinds, want[:]); got != want {
					t.Fatalf("watched %v, counted %v in column %d of %v", got, want, at[i], g)
				}
			}
			// Data recorded about a key is valid until an array counts the key again.
			id := k
			was, ok := noted[id]
			var now [2][3]uint32
			for i := range attached {
				arrays[i].CountBatch(kinds, now[i][:])
			}
			if ok && was.attached == attached && was.w.Valid(was.grown) && was.n != now {
				t.Fatalf("%v is valid, counted %v in %v", was.n, now, g)
			}
			if w := s.Watch(kinds); !ok || rng.IntN(4) == 0 {
				noted[id] = note{w, w.Grown(), attached, now}
			}
		}
	})
}

// TestSlicedWatchMany checks that the number of watched keys is bounded, that the recently used
// keys are kept, and that forgotten keys take no memory.
func TestSlicedWatchMany(t *testing.T) {
	g := Geometry{Kind: Cells, Lines: 1024, K: 6, KeyID: 7}
	s, err := NewSlicedExact(g, 64)
	if err != nil {
		t.Fatal(err)
	}
	empty := s.Bytes()
	key := func(n int) []Key { return []Key{{Hi: uint64(n) << 50, Lo: uint64(n)}} }
	first := s.Watch(key(0))
	for n := range maxWatched {
		w := s.Watch(key(n))
		if again := s.Watch(key(n)); again != w || s.Watch(key(0)) != first {
			t.Fatal("forgotten before there are many")
		}
	}
	c, err := NewCounting(g)
	if err != nil {
		t.Fatal(err)
	}
	wide := func() (n int) {
		for at := range s.watches.at {
			if list := s.watches.at[at].Load(); list != nil {
				for _, w := range *list {
					if w.columns.Load() != nil {
						n++
					}
				}
			}
		}
		return n
	}
	for n := range 2 * maxWide { // the arrays' counts are kept for the last ones
		w, out := s.Watch(key(n)), []uint32{9}
		if w.Counts(3, c, out); out[0] != 0 {
			t.Fatalf("%d counted in an empty array", out[0])
		}
		if got := wide(); n < maxWide && got != n+1 || got > maxWide || w.columns.Load() == nil {
			t.Fatalf("counts of %d keys after %d", got, n+1)
		}
	}
	if s.Watch(key(0)) != first || !first.Valid(first.Grown()) {
		t.Error("forgotten for what arrays count")
	}
	for n := range maxWatched {
		s.Watch(key(n))
	}
	most := s.Bytes() - empty
	if want := uint64(maxWide*64*4 + maxWatched*100); most < want || most > 2*want {
		t.Errorf("%d bytes for %d keys, %d of them of 64 columns", most, maxWatched, maxWide)
	}
	s.Watch(key(maxWatched)) // all have been used, and are forgotten
	kept := s.Watch(key(0))
	if kept == first || first.Valid(first.Grown()) {
		t.Error("nothing is forgotten")
	}
	if out := []uint32{9}; wide() > 0 {
		t.Errorf("what arrays count of %d keys is kept", wide())
	} else if first.Counts(3, c, out); out[0] != 0 || wide() > 0 {
		t.Errorf("%d counted, %d kept for a key that is forgotten", out[0], wide())
	}
	for n := range 2 * maxWatched {
		s.Watch(key(n + 10_000))
		if s.Watch(key(0)) != kept {
			t.Fatal("what is asked for again and again is forgotten")
		}
		if got := s.Bytes() - empty; got > most {
			t.Fatalf("%d bytes, %d before", got, most)
		}
	}
	s.DropExact()
	if kept.Valid(kept.Grown()) || s.Watch(key(0)) == kept {
		t.Error("watched after all was dropped")
	}
	bits, err := NewSlicedExact(Geometry{Kind: Bitmap, Lines: 10, K: 8, KeyID: 7}, 64)
	if err != nil {
		t.Fatal(err)
	}
	if bits.Watch(key(0)) != nil {
		t.Error("bits are watched")
	}
}

// TestSlicedWatchRace checks that a watched count is one that the array had during the call.
func TestSlicedWatchRace(t *testing.T) {
	g := Geometry{Kind: Cells, Lines: 4, K: 6, KeyID: 7}
	s, err := NewSlicedExact(g, 64)
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCounting(g)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Attach(s, 3); err != nil {
		t.Fatal(err)
	}
	keys := []Key{{Hi: 1 << 62, Lo: 5}, {Hi: 2 << 62, Lo: 77}, {Hi: 3 << 62, Lo: 1234567}} // of different lines
	var begun, done [3]atomic.Uint32
	var ended atomic.Bool
	var all sync.WaitGroup
	all.Go(func() {
		rng := rand.New(rand.NewPCG(1, 1))
		for range 3000 {
			k := rng.IntN(len(keys))
			n := 1 + rng.Uint32N(40)
			begun[k].Add(n)
			c.Add(keys[k], n)
			done[k].Add(n)
		}
		ended.Store(true)
	})
	for range 2 {
		all.Go(func() {
			for n := 0; !ended.Load(); n++ {
				k := n % len(keys)
				var got [1]uint32
				least := done[k].Load()
				s.Watch(keys[k:k+1]).Counts(3, c, got[:])
				if most := begun[k].Load(); got[0] < least || got[0] > most {
					t.Errorf("watched %d, which was %d to %d", got[0], least, most)
					return
				}
				if n%50 == 49 {
					s.watches.forget()
				}
			}
		})
	}
	all.Wait()
	var got, want [1]uint32
	for k := range keys {
		s.Watch(keys[k:k+1]).Counts(3, c, got[:])
		if c.CountBatch(keys[k:k+1], want[:]); !slices.Equal(got[:], want[:]) || want[0] != done[k].Load() {
			t.Errorf("in the end watched %d, counted %d, added %d", got[0], want[0], done[k].Load())
		}
	}
}
