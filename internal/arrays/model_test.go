package arrays

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"pgregory.net/rapid"

	"github.com/bulkhead-mail/bulkhead/filter/shape"
)

// A model is the simplest possible refined extension: one wide cell each, no packing, no tables.
// The arrays must agree with it cell by cell.
type model struct {
	g     Geometry
	cells []uint32
	truth map[Key]uint32
}

func newModel(g Geometry) *model {
	return &model{g: g, cells: make([]uint32, g.Lines*lineCells), truth: map[Key]uint32{}}
}

func (m *model) at(k Key) []uint32 {
	hi, _ := bits.Mul64(k.Hi, m.g.Lines)
	return m.cells[hi*lineCells : (hi+1)*lineCells]
}

// places draws cells as the package documents it: the low seven bits of each byte, all drawn again
// if two are equal.
func (m *model) places(lo uint64) []int {
	for try := uint64(0); ; try++ {
		h := lo
		if try > 0 {
			h = shape.Mix(lo + try*shape.Weyl)
		}
		var out []int
		for i := range int(m.g.K) {
			c := int(h >> (8 * i) & 127)
			if !slices.Contains(out, c) {
				out = append(out, c)
			}
		}
		if len(out) == int(m.g.K) {
			return out
		}
	}
}

func (m *model) count(k Key) uint32 {
	least := uint32(Many)
	for _, c := range m.places(k.Lo) {
		least = min(least, m.at(k)[c])
	}
	return least
}

func (m *model) add(k Key, n uint32) uint32 {
	before := m.count(k)
	if n == 0 {
		return before
	}
	want := uint32(min(uint64(before)+uint64(n), Many))
	for _, c := range m.places(k.Lo) {
		m.at(k)[c] = max(m.at(k)[c], want)
	}
	m.truth[k] = uint32(min(uint64(m.truth[k])+uint64(n), Many))
	return before
}

func (m *model) merge(o *model) {
	for i, v := range o.cells {
		m.cells[i] = min(m.cells[i]+v, Many)
	}
	for k, v := range o.truth {
		m.truth[k] = min(m.truth[k]+v, Many)
	}
}

// logical returns the values of all cells of c.
func logical(c *Counting) []uint32 {
	out := make([]uint32, len(c.lines)*lineCells)
	for p := range c.pages {
		s := c.Image(p).slots()
		for i, at := range s.At {
			out[p*pageCells+int(at)] = s.Values[i]
		}
	}
	return out
}

// check verifies the invariants of c: every escaped cell is in exactly one entry, entries hold
// escaped cells only, and the bookkeeping agrees.
func check(t tester, c *Counting) {
	t.Helper()
	var keys uint64
	var bytes int64
	for p := range c.pages {
		pg := &c.pages[p]
		keys += pg.Keys
		tab := pg.table.Load()
		bytes += tab.bytes()
		seen := map[[2]uint64]bool{}
		if tab != nil {
			used := 0
			for _, e := range tab.slots {
				if e != freeSlot {
					used++
				}
				if e <= removedSlot {
					continue
				}
				v, set := unpack(e)
				if v <= maxLight || v > Many {
					t.Fatalf("page %d: entry %x of value %d", p, e, v)
				}
				if _, again := unpack(entry(e>>54, v, set)); set.len() > refsFor(v) || again != set {
					t.Fatalf("page %d: entry %x is not what packing gives", p, e)
				}
				for !set.empty() {
					var cell uint64
					cell, set = set.pop()
					at := [2]uint64{e >> 54, cell}
					if seen[at] {
						t.Fatalf("page %d: line %d cell %d is in two entries", p, at[0], at[1])
					}
					seen[at] = true
					if n := nibble(&c.pageWords(p)[e>>54], cell); n != escape {
						t.Fatalf("page %d: line %d cell %d has an entry and nibble %d", p, at[0], at[1], n)
					}
				}
			}
			if used != tab.used || used >= len(tab.slots) {
				t.Fatalf("page %d: %d slots used of %d, noted %d", p, used, len(tab.slots), tab.used)
			}
		}
		escaped := 0
		for i := range c.pageWords(p) {
			for _, w := range c.pageWords(p)[i] {
				escaped += bits.OnesCount64(escapes(w))
			}
		}
		if escaped != len(seen) || escaped != pg.Overflow {
			t.Fatalf("page %d: %d escaped cells, %d in entries, %d noted", p, escaped, len(seen), pg.Overflow)
		}
	}
	if keys != c.Keys() || bytes != c.overflow.Load() {
		t.Fatalf("keys %d, noted %d; table bytes %d, noted %d", keys, c.Keys(), bytes, c.overflow.Load())
	}
}

func agree(t tester, c *Counting, m *model) {
	t.Helper()
	check(t, c)
	if got := logical(c); !slices.Equal(got, m.cells) {
		for i := range got {
			if got[i] != m.cells[i] {
				t.Fatalf("cell %d = %d, want %d", i, got[i], m.cells[i])
			}
		}
	}
	for k, n := range m.truth {
		if got := c.Count(k); got < n || got != m.count(k) {
			t.Fatalf("Count(%x) = %d, added %d times, model says %d", k, got, n, m.count(k))
		}
	}
}

func mustCounting(t tester, g Geometry) *Counting {
	t.Helper()
	c, err := NewCounting(g)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustBits(t tester, g Geometry) *Bits {
	t.Helper()
	b, err := NewBits(g)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// drawKey draws from few keys in few lines, so that they collide all the time.
func drawKey(t *rapid.T) Key {
	h := rapid.Uint64Range(1, 60).Draw(t, "key")
	return Key{Hi: shape.Mix(h), Lo: shape.Mix(h + 1000)}
}

func drawCount(t *rapid.T) uint32 {
	switch rapid.IntRange(0, 9).Draw(t, "size") {
	case 0:
		return uint32(rapid.IntRange(0, Many+3).Draw(t, "n"))
	case 1:
		return uint32(rapid.IntRange(narrowLast-30, narrowLast+30).Draw(t, "n"))
	case 2, 3, 4:
		return uint32(rapid.IntRange(0, 40).Draw(t, "n"))
	}
	return uint32(rapid.IntRange(0, 3).Draw(t, "n"))
}

func drawLines(t *rapid.T) uint64 {
	return rapid.SampledFrom([]uint64{1, 1, 2, 7, 7, 30, 2048}).Draw(t, "lines")
}

func drawCells(t *rapid.T) Geometry {
	return Geometry{Kind: Cells, Lines: drawLines(t), K: uint8(rapid.IntRange(2, 8).Draw(t, "k")), KeyID: 5}
}

// seeded returns n random keys and the generator, both determined by seed.
func seeded(seed uint64, n int) (keys []Key, rng *rand.Rand) {
	rng = rand.New(rand.NewPCG(seed, 17))
	keys = make([]Key, n)
	for i := range keys {
		keys[i] = Key{Hi: rng.Uint64(), Lo: rng.Uint64()}
	}
	return keys, rng
}

// A tester is the common part of *testing.T, *testing.B and *rapid.T that helpers need.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// skew draws how often each of n keys is added, and returns the adds in random order. A share
// c^-tail of the keys is added c times or more, and none above 1000 times.
func skew(rng *rand.Rand, n int, tail float64) (counts []uint32, adds []int32) {
	counts = make([]uint32, n)
	for i := range counts {
		counts[i] = uint32(min(math.Pow(1-rng.Float64(), -1/tail), 1000))
		for range counts[i] {
			adds = append(adds, int32(i))
		}
	}
	rng.Shuffle(len(adds), func(a, b int) { adds[a], adds[b] = adds[b], adds[a] })
	return counts, adds
}

// sink keeps results that a test or benchmark computes only to measure or exercise the call.
var sink uint64
