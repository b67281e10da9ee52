package arrays

import (
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func TestCountingAgreesWithModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawCells(t)
		c, err := NewCounting(g)
		if err != nil {
			t.Fatal(err)
		}
		m := newModel(g)
		applied := map[uint64]bool{}
		index := uint64(0)
		type entry struct {
			keys []Key
			n    []uint32
		}
		var journal []entry
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				k, n := drawKey(t), drawCount(t)
				want := m.add(k, n)
				if got := c.Add(k, n); got != want {
					t.Fatalf("Add(%x, %d) = %d before, want %d", k, n, got, want)
				}
			},
			"entry": func(t *rapid.T) {
				var e entry
				for range rapid.IntRange(0, 40).Draw(t, "batch") {
					e.keys = append(e.keys, drawKey(t))
					e.n = append(e.n, drawCount(t))
				}
				index++
				journal = append(journal, e)
				before := make([]uint32, len(e.keys))
				c.AddBatch(index, e.keys, e.n, before)
				for i, k := range e.keys {
					if want := m.add(k, e.n[i]); before[i] != want {
						t.Fatalf("before[%d] = %d, want %d", i, before[i], want)
					}
				}
				applied[index] = true
			},
			"replay": func(t *rapid.T) {
				// Apply everything since some entry again, as recovery does.
				from := rapid.IntRange(0, len(journal)).Draw(t, "from")
				for i, e := range journal[from:] {
					c.AddBatch(uint64(from+i+1), e.keys, e.n, nil)
				}
			},
			"move": func(t *rapid.T) {
				// Copy through the codec into a fresh array, page by page.
				fresh, err := NewCounting(g)
				if err != nil {
					t.Fatal(err)
				}
				for p := range c.Pages() {
					b := c.AppendPage(nil, p)
					if _, err := fresh.LoadPage(b); err != nil {
						t.Fatal(err)
					}
					if again := fresh.AppendPage(nil, p); !slices.Equal(b, again) {
						t.Fatalf("page %d differs after a round trip", p)
					}
				}
				c = fresh
			},
		})
		agree(t, c, m)
	})
}

func TestMergeLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawCells(t)
		var arrays [3]*Counting
		var models [3]*model
		for i := range arrays {
			c, err := NewCounting(g)
			if err != nil {
				t.Fatal(err)
			}
			arrays[i], models[i] = c, newModel(g)
			for range rapid.IntRange(0, 60).Draw(t, "adds") {
				k, n := drawKey(t), drawCount(t)
				c.Add(k, n)
				models[i].add(k, n)
			}
		}
		clone := func(c *Counting) *Counting {
			d, err := NewCounting(g)
			if err != nil {
				t.Fatal(err)
			}
			return merged(t, d, c)
		}
		a, b, c := arrays[0], arrays[1], arrays[2]
		ab, ba := merged(t, clone(a), b), merged(t, clone(b), a)
		if !slices.Equal(logical(ab), logical(ba)) {
			t.Fatal("merge is not commutative")
		}
		left, right := merged(t, clone(ab), c), merged(t, clone(a), merged(t, clone(b), c))
		if !slices.Equal(logical(left), logical(right)) {
			t.Fatal("merge is not associative")
		}
		models[0].merge(models[1])
		models[0].merge(models[2])
		agree(t, left, models[0])
		twice := merged(t, clone(a), a)
		self := clone(a)
		merged(t, self, self)
		if !slices.Equal(logical(twice), logical(self)) {
			t.Fatal("merging an array into itself differs from merging a copy")
		}
	})
}

func merged(t *rapid.T, c, o *Counting) *Counting {
	if err := c.Merge(o); err != nil {
		t.Fatal(err)
	}
	check(t, c)
	return c
}

func TestMergeRefusesOtherGeometry(t *testing.T) {
	g := Geometry{Kind: Cells, Lines: 4, K: 6, KeyID: 1}
	c := mustCounting(t, g)
	c.Add(Key{Hi: 1, Lo: 2}, 3)
	before := logical(c)
	for _, o := range []Geometry{
		{Kind: Cells, Lines: 5, K: 6, KeyID: 1},
		{Kind: Cells, Lines: 4, K: 5, KeyID: 1},
		{Kind: Cells, Lines: 4, K: 6, KeyID: 2},
	} {
		d := mustCounting(t, o)
		d.Add(Key{Hi: 1, Lo: 2}, 3)
		if err := c.Merge(d); err == nil {
			t.Errorf("Merge of %v into %v: no error", o, g)
		}
	}
	if !slices.Equal(before, logical(c)) {
		t.Error("a refused merge changed the array")
	}
}

func TestSaturation(t *testing.T) {
	for k := uint8(2); k <= 8; k++ {
		c := mustCounting(t, Geometry{Kind: Cells, Lines: 3, K: k})
		key := Key{Hi: 42, Lo: 4242}
		for _, step := range []struct{ n, want uint32 }{
			{1, 1}, {13, 14}, {1, 15}, {narrowLast - 15, narrowLast}, {1, narrowLast + 1},
			{Many - narrowLast - 2, Many - 1}, {1, Many}, {1, Many}, {1<<32 - 1, Many},
		} {
			c.Add(key, step.n)
			if got := c.Count(key); got != step.want {
				t.Fatalf("k=%d: count after adding %d is %d, want %d", k, step.n, got, step.want)
			}
			check(t, c)
		}
		d := mustCounting(t, c.Geometry())
		if err := d.Merge(c); err != nil {
			t.Fatal(err)
		}
		if err := d.Merge(c); err != nil {
			t.Fatal(err)
		}
		if got := d.Count(key); got != Many {
			t.Errorf("k=%d: Many + Many = %d", k, got)
		}
		check(t, d)
	}
}

func TestBatchesEqualSingles(t *testing.T) {
	// 4 MiB, so that batches prefetch.
	g := Geometry{Kind: Cells, Lines: 64 * PageLines, K: 6}
	keys, rng := seeded(3, 20_000)
	one, many := mustCounting(t, g), mustCounting(t, g)
	n := make([]uint32, len(keys))
	for i := range n {
		n[i] = rng.Uint32N(30)
	}
	before := make([]uint32, len(keys))
	many.AddBatch(0, keys, n, before)
	for i, k := range keys {
		if got := one.Add(k, n[i]); got != before[i] {
			t.Fatalf("before of key %d: %d in a batch, %d alone", i, before[i], got)
		}
	}
	for _, size := range []int{0, 1, 15, 16, 17, 31, 32, 33, len(keys)} {
		out := make([]uint32, size)
		many.CountBatch(keys[:size], out)
		for i := range out {
			if got := one.Count(keys[i]); got != out[i] {
				t.Fatalf("key %d of %d: %d in a batch, %d alone", i, size, out[i], got)
			}
		}
	}
	if !slices.Equal(logical(one), logical(many)) {
		t.Error("batches and single adds give different arrays")
	}
	check(t, many)
}

// TestPicks checks that keys looked up in several arrays at once, of several K and shapes, give the
// same results as separate look-ups, whether or not they were prefetched.
func TestPicks(t *testing.T) {
	keys, rng := seeded(7, 2_000)
	for i, k := range keys[:1000] { // consecutive kinds of a key, as in look-ups
		if i%3 > 0 {
			keys[i] = keys[i-i%3].With(uint8(i % 3))
		} else {
			keys[i] = k
		}
	}
	var arrays []*Counting
	for _, g := range []Geometry{
		{Kind: Cells, Lines: 8 * PageLines, K: 6}, {Kind: Cells, Lines: 5 * PageLines, K: 6},
		{Kind: Cells, Lines: 3 * PageLines, K: 3}, {Kind: Cells, Lines: 40, K: 8},
	} {
		sparse, err := NewSparseCounting(g)
		if err != nil {
			t.Fatal(err)
		}
		arrays = append(arrays, mustCounting(t, g), sparse)
	}
	for _, c := range arrays {
		for _, k := range keys {
			if rng.Uint32N(2) == 0 {
				c.Add(k, rng.Uint32N(30))
			}
		}
	}
	var p Picks
	for _, size := range []int{0, 1, 16, 17, 33, len(keys), 2} {
		from := rng.IntN(len(keys) - size + 1)
		part := keys[from : from+size]
		p.Of(part)
		for first := range arrays {
			these := arrays[first:]
			for range first { // more than are read together
				these = slices.Concat(these, these[:min(len(these), 5)])
			}
			out := make([]uint32, len(these)*size)
			p.CountEach(these, out)
			for i, c := range these {
				for j, k := range part {
					if got, want := out[i*size+j], c.Count(k); got != want {
						t.Fatalf("array %d from %d on, key %d of %d: %d, want %d", i, first, j, size, got, want)
					}
				}
			}
		}
	}
	out := make([]uint32, len(arrays)*len(keys))
	allocs := testing.AllocsPerRun(10, func() {
		p.Of(keys)
		p.CountEach(arrays, out)
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func TestAddBatchAppliesAnEntryOncePerPage(t *testing.T) {
	g := Geometry{Kind: Cells, Lines: 2 * PageLines, K: 4}
	low, high := Key{Hi: 0, Lo: 7}, Key{Hi: 1 << 63, Lo: 7}
	other := Key{Hi: 1, Lo: 99} // on the same page as low
	c := mustCounting(t, g)
	if c.PageOf(low) != 0 || c.PageOf(other) != 0 || c.PageOf(high) != 1 {
		t.Fatal("keys are not on the pages that the test needs")
	}
	c.AddBatch(7, []Key{low, other, low}, []uint32{1, 1, 1}, nil)
	// Entry 8 had been applied only to page 0 when the crash came.
	c.AddBatch(8, []Key{low}, []uint32{10}, nil)
	for range 3 {
		c.AddBatch(7, []Key{low, other, low}, []uint32{1, 1, 1}, nil)
		c.AddBatch(8, []Key{low, high, high}, []uint32{10, 5, 5}, nil)
	}
	for _, tt := range []struct {
		k    Key
		want uint32
	}{{low, 12}, {other, 1}, {high, 10}} {
		if got := c.Count(tt.k); got != tt.want {
			t.Errorf("Count(%x) = %d, want %d", tt.k, got, tt.want)
		}
	}
	if got := c.PageInfo(1); got.Index != 8 || got.Keys != 1 || got.Version != 2 {
		t.Errorf("page 1 is at %+v, want index 8, 1 key, version 2", got)
	}
}

// TestSameKeyBurst is the case in which compare-and-swap versions of H1 lose up to half of the
// reports: many writers, one key.
func TestSameKeyBurst(t *testing.T) {
	const writers, each = 8, 400
	c := mustCounting(t, Geometry{Kind: Cells, Lines: 2, K: 6})
	keys, _ := seeded(9, 3)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if i%2 == w%2 {
					c.Add(keys[0], 1)
				} else {
					c.AddBatch(0, keys, []uint32{1, 1, 1}, nil)
				}
				if got := c.Count(keys[0]); got < uint32(i+1) {
					t.Errorf("Count = %d after %d adds of this writer alone", got, i+1)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := c.Count(keys[0]); got < writers*each {
		t.Errorf("Count = %d after %d adds", got, writers*each)
	}
	check(t, c)
}

// TestReadersNeverSeeLess counts while one writer adds to colliding keys that go through every
// representation, and publishes its additions after each add.
func TestReadersNeverSeeLess(t *testing.T) {
	c := mustCounting(t, Geometry{Kind: Cells, Lines: 1, K: 6})
	keys, rng := seeded(11, 12)
	var mu sync.Mutex
	added := make([]uint32, len(keys))
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			out := make([]uint32, len(keys))
			floor := make([]uint32, len(keys))
			for {
				select {
				case <-done:
					return
				default:
				}
				mu.Lock()
				copy(floor, added)
				mu.Unlock()
				c.CountBatch(keys, out)
				for i := range keys {
					if out[i] < floor[i] || c.Count(keys[i]) < floor[i] {
						t.Errorf("key %d counted %d, %d were acknowledged", i, out[i], floor[i])
						return
					}
				}
			}
		})
	}
	other := mustCounting(t, c.Geometry())
	for step := range 4000 {
		i := rng.IntN(len(keys))
		n := uint32(1 + rng.IntN(4))
		if step%500 == 499 {
			n = narrowLast
		}
		c.Add(keys[i], n)
		mu.Lock()
		added[i] += n
		mu.Unlock()
		switch step % 400 {
		case 100: // the same content again: a half-finished load must not be visible
			if _, err := c.LoadPage(c.AppendPage(nil, 0)); err != nil {
				t.Fatal(err)
			}
		case 200:
			if err := c.Merge(other); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(done)
	wg.Wait()
	check(t, c)
}

func TestCountAllocatesNothing(t *testing.T) {
	c := mustCounting(t, Geometry{Kind: Cells, Lines: 1024, K: 6})
	keys, _ := seeded(1, 64)
	out := make([]uint32, len(keys))
	n := make([]uint32, len(keys))
	for i, k := range keys {
		n[i] = 1
		c.Add(k, uint32(i))
	}
	for name, f := range map[string]func(){
		"Count":      func() { c.Count(keys[63]) },
		"CountBatch": func() { c.CountBatch(keys, out) },
		"AddBatch":   func() { c.AddBatch(0, keys[:10], n[:10], out[:10]) },
		"With":       func() { sink += keys[0].With(2).Lo },
	} {
		if got := testing.AllocsPerRun(100, f); got != 0 {
			t.Errorf("%s allocates %g times", name, got)
		}
	}
}

// TestMergeBothWays merges two arrays into each other at the same time, while one of them is added
// to: there is no deadlock, and nothing is lost.
func TestMergeBothWays(t *testing.T) {
	g := Geometry{Kind: Cells, Lines: 8, K: 6}
	a, b := mustCounting(t, g), mustCounting(t, g)
	a.Add(Key{Hi: 1, Lo: 1}, 1)
	b.Add(Key{Hi: 1, Lo: 2}, 1)
	var wg sync.WaitGroup
	for _, pair := range [][2]*Counting{{a, b}, {b, a}, {a, a}} {
		wg.Go(func() {
			for range 10 {
				if err := pair[0].Merge(pair[1]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Go(func() {
		for range 100 {
			b.Add(Key{Hi: 1, Lo: 3}, 1)
		}
	})
	wg.Wait()
	check(t, a)
	check(t, b)
	if a.Count(Key{Hi: 1, Lo: 1}) < 1024 || b.Count(Key{Hi: 1, Lo: 3}) < 100 {
		t.Errorf("counts %d, want at least 1024; %d, want at least 100", a.Count(Key{Hi: 1, Lo: 1}),
			b.Count(Key{Hi: 1, Lo: 3}))
	}
}
