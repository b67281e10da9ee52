package arrays

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/bulkhead-mail/bulkhead/filter/shape"
)

func TestRank(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for k := uint8(2); k <= 8; k++ {
		for _, x := range []uint64{0, 1, choose(lineCells, int(k)) - 1} {
			if got := rankOf(unrank(x, k), k); got != x {
				t.Errorf("k=%d: rank %d becomes %d", k, x, got)
			}
		}
		for range 1000 {
			keep, fill := cellMasks(k)
			code := pick(rng.Uint64(), keep, fill).set(k).code()
			if got := unrank(rankOf(code, k), k); got != code {
				t.Fatalf("k=%d: cells %x become %x", k, code, got)
			}
			if x := rankOf(code, k); x >= 1<<rankBits(k) {
				t.Fatalf("k=%d: rank %d does not fit %d bits", k, x, rankBits(k))
			}
		}
	}
}

// TestRoundsMakeReplicas checks that an array and a replica that applies its rounds are equal, page
// by page, whatever was added.
func TestRoundsMakeReplicas(t *testing.T) {
	for _, g := range []Geometry{
		{Kind: Cells, Lines: 3 * PageLines, K: 6, KeyID: 7}, {Kind: Cells, Lines: 5, K: 2},
		{Kind: Bitmap, Lines: 2 * PageLines, K: 8}, {Kind: Bitmap, Lines: 9, K: 16},
	} {
		rng := rand.New(rand.NewPCG(3, 4))
		hot := Key{Hi: rng.Uint64(), Lo: rng.Uint64()}
		keys := func() []Key {
			ks := make([]Key, rng.IntN(3000))
			for i := range ks {
				ks[i] = Key{Hi: rng.Uint64(), Lo: rng.Uint64()}
				if rng.IntN(4) == 0 {
					ks[i] = hot
				}
			}
			return ks
		}
		if g.Kind == Cells {
			own, _ := NewCounting(g)
			replica, _ := NewCounting(g)
			for range 8 {
				r := own.NewRound()
				for range 2 {
					ks := keys()
					n, before := make([]uint32, len(ks)), make([]uint32, len(ks))
					for i := range n {
						n[i] = uint32(rng.IntN(5))
						if rng.IntN(500) == 0 {
							n[i] = Many - 5
						}
					}
					own.AddBatch(0, ks, n, before)
					r.Record(ks, n, before)
				}
				applied := throughWire(t, r, g)
				if err := replica.ApplyRound(0, applied, false); err != nil {
					t.Fatal(err)
				}
				if replica.Keys() != own.Keys() || replica.Version() != own.Version() {
					t.Fatalf("replica with %d keys at version %d, want %d at %d", replica.Keys(), replica.Version(), own.Keys(),
						own.Version())
				}
				if err := replica.ApplyRound(0, applied, false); applied.Len() > 0 && !errors.Is(err, ErrVersion) {
					t.Fatalf("the same round twice: %v", err)
				}
				for p := range own.Pages() {
					if !own.Image(p).Equal(replica.Image(p)) {
						t.Fatalf("%v: page %d differs after a round", g, p)
					}
				}
			}
			continue
		}
		own, _ := NewBits(g)
		replica, _ := NewBits(g)
		for range 5 {
			r := own.NewRound()
			ks := keys()
			before := make([]bool, len(ks))
			own.SetBatch(0, ks, before)
			r.RecordBits(ks, before)
			if err := replica.ApplyRound(0, throughWire(t, r, g), false); err != nil {
				t.Fatal(err)
			}
			for p := range own.Pages() {
				if !own.Image(p).Equal(replica.Image(p)) {
					t.Fatalf("%v: page %d differs after a round", g, p)
				}
			}
		}
	}
}

func throughWire(t *testing.T, r *Round, g Geometry) *Round {
	t.Helper()
	r.Close()
	got, err := ParseRoundBody(r.AppendBody(nil), g, r.Generation, r.From)
	if err != nil {
		t.Fatal(err)
	}
	if got.Len() != r.Len() || got.From != r.From || got.To != r.To || got.Len() > 0 &&
		!reflect.DeepEqual(got.ops, r.ops) {
		t.Fatalf("decoded round differs: %d operations, versions %d to %d; want %d, %d to %d", got.Len(), got.From,
			got.To, r.Len(), r.From, r.To)
	}
	return got
}

// TestRoundReplay checks that a round applied again with its journal index changes only the pages
// that have not seen it.
func TestRoundReplay(t *testing.T) {
	g := Geometry{Kind: Cells, Lines: 4 * PageLines, K: 4}
	own, _ := NewCounting(g)
	replica, _ := NewCounting(g)
	rng := rand.New(rand.NewPCG(5, 6))
	r := own.NewRound()
	ks := make([]Key, 5000)
	n, before := make([]uint32, len(ks)), make([]uint32, len(ks))
	for i := range ks {
		ks[i], n[i] = Key{Hi: rng.Uint64(), Lo: rng.Uint64()}, 1
	}
	own.AddBatch(0, ks, n, before)
	r.Record(ks, n, before)
	r.Close()
	if err := replica.ApplyRound(9, r, false); err != nil {
		t.Fatal(err)
	}
	// A crash: two pages are from before the round, two from after it.
	crashed, _ := NewCounting(g)
	for _, p := range []int{1, 3} {
		if err := crashed.Load(replica.Image(p)); err != nil {
			t.Fatal(err)
		}
	}
	if err := crashed.ApplyRound(9, r, true); err != nil {
		t.Fatal(err)
	}
	for p := range own.Pages() {
		if !crashed.Image(p).Equal(replica.Image(p)) {
			t.Errorf("page %d differs after the replay", p)
		}
	}
}

// TestRoundSize prints the size of a key on the network.
func TestRoundSize(t *testing.T) {
	g, err := shape.SizeFor(shape.Target{Kind: Cells, Signatures: 1_000_000, Error: shape.CountWrong, Rate: 1e-3})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(7, 8))
	for _, keys := range []int{25, 2500, 100_000} {
		own, _ := NewCounting(g)
		r := own.NewRound()
		ks := make([]Key, keys)
		n, before := make([]uint32, keys), make([]uint32, keys)
		for i := range ks {
			ks[i], n[i] = Key{Hi: rng.Uint64(), Lo: rng.Uint64()}, 1
		}
		own.AddBatch(0, ks, n, before)
		r.Record(ks, n, before)
		r.Close()
		round := float64(len(r.AppendBody(nil))) / float64(keys)
		t.Logf("%d keys: %.2f bytes a key as a round", keys, round)
		if keys > 1000 && round > 7 {
			t.Errorf("%d keys: %.2f bytes a key, want at most 7", keys, round)
		}
	}
}

func FuzzParseRound(f *testing.F) {
	geometries := []Geometry{{Kind: Cells, Lines: 16, K: 6}, {Kind: Bitmap, Lines: 2048, K: 8},
		{Kind: Bitmap, Lines: 3, K: 16}}
	c, _ := NewCounting(geometries[0])
	r := c.NewRound()
	r.Record([]Key{{Hi: 1, Lo: 2}, {Hi: 1 << 63, Lo: 9}, {Hi: 1, Lo: 2}}, []uint32{1, 300, 2}, make([]uint32, 3))
	r.Close()
	f.Add(r.AppendBody(nil), uint8(0))
	b, _ := NewBits(geometries[1])
	r = b.NewRound()
	r.RecordBits([]Key{{Hi: 1, Lo: 2}, {Hi: 1 << 63, Lo: 9}}, make([]bool, 2))
	r.Close()
	f.Add(r.AppendBody(nil), uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, which uint8) {
		g := geometries[int(which)%len(geometries)]
		r, err := ParseRoundBody(data, g, 7, 1<<40)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrGeometry) {
				t.Fatalf("error %v wraps neither ErrCorrupt nor ErrGeometry", err)
			}
			return
		}
		again, err := ParseRoundBody(r.AppendBody(nil), g, r.Generation, r.From)
		if err != nil || again.To != r.To || !bytes.Equal(again.AppendBody(nil), r.AppendBody(nil)) {
			t.Fatalf("round trip: %v", err)
		}
		if g.Kind == Cells {
			c, _ := NewCounting(g)
			c.SetGeneration(r.Generation)
			if err := c.ApplyRound(1, r, true); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestLeastKeys checks that a page holds no fewer keys than its cells or bits need, however it was
// filled, and about as many in an array that is far from full.
func TestLeastKeys(t *testing.T) {
	if testing.Short() {
		t.Skip("measures rates, for minutes under the race detector, in one goroutine")
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for _, k := range []uint8{2, 6, 8} {
		c, err := NewCounting(Geometry{Kind: Cells, Lines: 2048, K: k})
		if err != nil {
			t.Fatal(err)
		}
		for full := range 40 {
			keys := make([]Key, 4000)
			n := make([]uint32, len(keys))
			for i := range keys {
				keys[i], n[i] = Key{Hi: rng.Uint64(), Lo: rng.Uint64()}, uint32(rng.IntN(5))
			}
			c.AddBatch(0, keys, n, nil)
			for p := range c.Pages() {
				m := c.Image(p)
				if least := m.leastKeys(); m.Info.Keys < least || full == 0 && least < m.Info.Keys*3/4 {
					t.Fatalf("k = %d: page of %d keys, at least %d", k, m.Info.Keys, least)
				}
			}
		}
	}
	for _, k := range []uint8{8, 16} {
		b, err := NewBits(Geometry{Kind: Bitmap, Lines: 2048, K: k})
		if err != nil {
			t.Fatal(err)
		}
		for full := range 40 {
			keys := make([]Key, 4000)
			for i := range keys {
				keys[i] = Key{Hi: rng.Uint64(), Lo: rng.Uint64()}
			}
			b.SetBatch(0, keys, nil)
			for p := range b.Pages() {
				m := b.Image(p)
				if least := m.leastKeys(); m.Info.Keys < least || full == 0 && least < m.Info.Keys*3/4 {
					t.Fatalf("k = %d: page of %d keys, at least %d", k, m.Info.Keys, least)
				}
			}
		}
	}
}

// TestShown checks that Shown matches the rate at which the array shows keys that were never added,
// even if its keys lie on a few lines only.
func TestShown(t *testing.T) {
	if testing.Short() {
		t.Skip("measures rates, for minutes under the race detector, in one goroutine")
	}
	rng := rand.New(rand.NewPCG(7, 8))
	const absent = 50_000
	for _, lines := range []uint64{1, 512, 2048, 3 * shownLines} {
		for _, g := range []Geometry{{Kind: Cells, K: 2}, {Kind: Cells, K: 6}, {Kind: Bitmap, K: 8}, {Kind: Bitmap, K: 16}} {
			for _, share := range []float64{1, 0.3} {
				g.Lines = lines
				n := int(float64(lines)*share) * 40
				if lines > shownLines {
					n /= 4
				}
				keys := make([]Key, n)
				for i := range keys {
					keys[i] = Key{Hi: uint64(float64(rng.Uint64()) * share), Lo: rng.Uint64()}
				}
				others := make([]Key, absent)
				for i := range others {
					others[i] = Key{Hi: rng.Uint64(), Lo: rng.Uint64()}
				}
				seen, stated := 0, 0.0
				if g.Kind == Cells {
					c, err := NewCounting(g)
					if err != nil {
						t.Fatal(err)
					}
					ones := make([]uint32, n)
					for i := range ones {
						ones[i] = 1
					}
					c.AddBatch(0, keys, ones, nil)
					counts := make([]uint32, absent)
					c.CountBatch(others, counts)
					for _, x := range counts {
						seen += int(min(x, 1))
					}
					stated = c.Shown(rng.Uint64())
				} else {
					b, err := NewBits(g)
					if err != nil {
						t.Fatal(err)
					}
					b.SetBatch(0, keys, nil)
					found := make([]bool, absent)
					b.HasBatch(others, found)
					for _, x := range found {
						if x {
							seen++
						}
					}
					stated = b.Shown(rng.Uint64())
				}
				if got := float64(seen) / absent; math.Abs(got-stated) > 0.01 {
					t.Errorf("%v, keys on %v of the lines: %.4f of absent keys are seen, %.4f are stated to be", g, share, got, stated)
				}
			}
		}
	}
}

// TestRoundWraps checks that a round whose version would exceed the largest number is refused.
func TestRoundWraps(t *testing.T) {
	g := Geometry{Kind: Bitmap, Lines: 64, K: 8, KeyID: 1}
	b, err := NewBits(g)
	if err != nil {
		t.Fatal(err)
	}
	r := b.NewRound()
	r.From = math.MaxUint64
	r.RecordBits([]Key{{Hi: 1, Lo: 2}}, []bool{false})
	r.Close()
	got, err := ParseRoundBody(r.AppendBody(nil), g, r.Generation, r.From)
	if !errors.Is(err, ErrCorrupt) || got != nil && err == nil {
		t.Errorf("a round from %d on: %v", uint64(math.MaxUint64), err)
	}
}

// TestLoadAtTwice checks that replaying a journal entry does not load its image again over later
// changes.
func TestLoadAtTwice(t *testing.T) {
	g := Geometry{Kind: Cells, Lines: 64, K: 6, KeyID: 1}
	c, err := NewCounting(g)
	if err != nil {
		t.Fatal(err)
	}
	g.Kind, g.K = Bitmap, 8
	b, err := NewBits(g)
	if err != nil {
		t.Fatal(err)
	}
	empty, blank := c.Image(0), b.Image(0)
	key := Key{Hi: 1, Lo: 2}
	if err := errors.Join(c.LoadAt(5, empty), b.LoadAt(5, blank)); err != nil {
		t.Fatal(err)
	}
	c.Add(key, 3)
	b.Set(key)
	if err := errors.Join(c.LoadAt(5, empty), b.LoadAt(5, blank)); err != nil || c.Count(key) != 3 || !b.Has(key) {
		t.Errorf("after the same entry: %d, %v, %v; want 3 and true", c.Count(key), b.Has(key), err)
	}
	if err := errors.Join(c.LoadAt(6, empty), b.LoadAt(6, blank)); err != nil || c.Count(key) != 0 || b.Has(key) {
		t.Errorf("after the next entry: %d, %v, %v; want 0 and false", c.Count(key), b.Has(key), err)
	}
}

// TestRoundsHaveNoOrder checks that a reader of a round learns which keys on different lines were
// added since the previous round, but not in which order.
func TestRoundsHaveNoOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	cells, bits := Geometry{Kind: Cells, Lines: 1 << 14, K: 6, KeyID: 7}, Geometry{Kind: Bitmap, Lines: 1 << 14, K: 8}
	var keys []Key
	used := make(map[uint64]bool)
	for len(keys) < 500 {
		k := Key{Hi: rng.Uint64(), Lo: rng.Uint64()}
		if at := line(k.Hi, cells.Lines); !used[at] {
			used[at] = true
			keys = append(keys, k)
		}
	}
	var rounds [2][2][]byte
	for i := range rounds {
		c, err := NewCounting(cells)
		if err != nil {
			t.Fatal(err)
		}
		b, err := NewBits(bits)
		if err != nil {
			t.Fatal(err)
		}
		r, s := c.NewRound(), b.NewRound()
		for _, k := range keys {
			one, n, before, was := []Key{k}, []uint32{uint32(1 + k.Lo%5)}, make([]uint32, 1), make([]bool, 1)
			c.AddBatch(0, one, n, before)
			r.Record(one, n, before)
			b.SetBatch(0, one, was)
			s.RecordBits(one, was)
		}
		r.Close()
		s.Close()
		rounds[i] = [2][]byte{r.AppendBody(nil), s.AppendBody(nil)}
		rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	}
	for i, what := range []string{"counts", "lists"} {
		if !bytes.Equal(rounds[0][i], rounds[1][i]) {
			t.Errorf("a round of %s shows in which order its keys were added", what)
		}
	}
}
