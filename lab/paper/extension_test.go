package paper

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/codec"
)

func layouts(m uint64) []CellLayout {
	n := int(min(4, m))
	return []CellLayout{
		FixedCells(4), FixedCells(5), FixedCells(8), FixedCells(16),
		SplitCells(1, n), SplitCells(3, 1), SplitCells(4, n), SplitCells(7, n), SplitCells(15, 1),
	}
}

func testFamily(t testing.TB, m uint64, k int) Family { return must(Keyed(filter.Secret{5}, m, k))(t) }

// example puts the cells of the paper's worked example at x's three positions.
func example(t testing.TB, c *counters, values ...uint32) []byte {
	t.Helper()
	var x []byte
	for i := 0; ; i++ {
		// Use an element whose three positions differ.
		x = fmt.Appendf(nil, "x%d", i)
		if ps := c.family.Append(nil, x); len(distinctPositions(ps)) == 3 {
			break
		}
	}
	for i, pos := range c.family.Append(nil, x) {
		c.cells.set(pos, values[i])
	}
	return x
}

func cellsOf(c *counters, x []byte) (v [3]uint32) {
	for i, pos := range c.family.Append(nil, x) {
		v[i] = c.cells.get(pos)
	}
	return v
}

// TestWorkedExample is the example of Yan & Cho section IV: servers a and b with cells (2,5,8) and
// (4,4,3), and one further report of x at each.
func TestWorkedExample(t *testing.T) {
	for _, l := range layouts(1000) {
		f := testFamily(t, 1000, 3)
		ia, ib := must(NewIntuitive(f, l))(t), must(NewIntuitive(f, l))(t)
		ra, rb := must(NewRefined(f, l))(t), must(NewRefined(f, l))(t)
		x := example(t, &ia.counters, 2, 5, 8)
		example(t, &ib.counters, 4, 4, 3)
		example(t, &ra.counters, 2, 5, 8)
		example(t, &rb.counters, 4, 4, 3)

		before := ia.Clone()
		if err := before.Merge(ib); err != nil {
			t.Fatal(err)
		}
		if got := before.Count(x); got != 6 {
			t.Errorf("%v: merged without H1: count %d, the paper says 6", l, got)
		}
		ia.Insert(x, 1)
		ib.Insert(x, 1)
		ra.Insert(x, 1)
		rb.Insert(x, 1)
		for name, check := range map[string]struct{ got, want [3]uint32 }{
			"intuitive a": {cellsOf(&ia.counters, x), [3]uint32{3, 6, 9}},
			"intuitive b": {cellsOf(&ib.counters, x), [3]uint32{5, 5, 4}},
			"refined a":   {cellsOf(&ra.counters, x), [3]uint32{3, 5, 8}},
			"refined b":   {cellsOf(&rb.counters, x), [3]uint32{4, 4, 4}},
		} {
			if check.got != check.want {
				t.Errorf("%v: %s: %v, want %v", l, name, check.got, check.want)
			}
		}
		if err := errors.Join(ia.Merge(ib), ra.Merge(rb)); err != nil {
			t.Fatal(err)
		}
		// A cell of 4 bits holds 15 at most; 8, 11, 13 and 7, 9, 12 fit.
		if i, r := ia.Count(x), ra.Count(x); i != 8 || r != 7 {
			t.Errorf("%v: merged counts %d intuitive, %d refined, the paper says 8 and 7", l, i, r)
		}
	}
}

// TestTableII is the paper's Table II: the cells of x at server b.
func TestTableII(t *testing.T) {
	intuitive := [][3]uint32{{1, 1, 0}, {2, 2, 1}, {3, 3, 2}, {4, 4, 3}, {5, 5, 4}}
	refined := [][3]uint32{{1, 1, 0}, {1, 1, 1}, {2, 2, 2}, {3, 3, 3}, {4, 4, 4}}
	f := testFamily(t, 1000, 3)
	i, r := must(NewIntuitive(f, FixedCells(5)))(t), must(NewRefined(f, FixedCells(5)))(t)
	x := example(t, &i.counters, 1, 1, 0)
	example(t, &r.counters, 1, 1, 0)
	for n := range intuitive {
		if got := cellsOf(&i.counters, x); got != intuitive[n] {
			t.Errorf("intuitive, occurrence %d: %v, want %v", n, got, intuitive[n])
		}
		if got := cellsOf(&r.counters, x); got != refined[n] {
			t.Errorf("refined, occurrence %d: %v, want %v", n, got, refined[n])
		}
		if before := i.Insert(x, 1); before != intuitive[n][2] {
			t.Errorf("intuitive, occurrence %d: before = %d", n, before)
		}
		if before := r.Insert(x, 1); before != uint32(n) {
			t.Errorf("refined, occurrence %d: before = %d", n, before)
		}
	}
}

// TestRefinedWeighted is the case in which "increase the cells equal to the minimum" fails for
// several reports: (2,3) with 5 more is 7, not 3.
func TestRefinedWeighted(t *testing.T) {
	f := testFamily(t, 1000, 3)
	r := must(NewRefined(f, FixedCells(8)))(t)
	x := example(t, &r.counters, 2, 3, 9)
	r.Insert(x, 5)
	if got := cellsOf(&r.counters, x); got != [3]uint32{7, 7, 9} {
		t.Errorf("(2,3,9) and 5 more: %v, want (7,7,9)", got)
	}
}

// TestH2 inserts into so few cells that functions coincide.
func TestH2(t *testing.T) {
	f := testFamily(t, 2, 8)
	i, r := must(NewIntuitive(f, FixedCells(8)))(t), must(NewRefined(f, FixedCells(8)))(t)
	for n := range uint32(5) {
		i.Insert([]byte("x"), 1)
		r.Insert([]byte("x"), 1)
		if a, b := i.Count([]byte("x")), r.Count([]byte("x")); a != n+1 || b != n+1 {
			t.Errorf("after %d: %d intuitive, %d refined", n+1, a, b)
		}
	}
}

// naive is the oracle: plain integers and the paper's rules, one by one.
type naive struct {
	f     Family
	max   uint32
	cells map[uint64]uint32
}

func (n naive) positions(x []byte) []uint64 { return distinctPositions(n.f.Append(nil, x)) }

func (n naive) count(x []byte) uint32 {
	least := n.max
	for _, p := range n.positions(x) {
		least = min(least, n.cells[p])
	}
	return least
}

func (n naive) insert(x []byte, refined bool) {
	c := n.count(x)
	for _, p := range n.positions(x) {
		if (!refined || n.cells[p] == c) && n.cells[p] < n.max {
			n.cells[p]++
		}
	}
}

func TestExtensionOracle(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := rapid.Uint64Range(20, 400).Draw(rt, "m")
		l := rapid.SampledFrom(layouts(m)).Draw(rt, "layout")
		f := families(t, m)[rapid.SampledFrom([]string{"universal", "sha1", "partitioned keyed", "keyed"}).Draw(rt, "family")]
		i, r := must(NewIntuitive(f, l))(t), must(NewRefined(f, l))(t)
		ni, nr := naive{f, l.Max(), map[uint64]uint32{}}, naive{f, l.Max(), map[uint64]uint32{}}
		truth := map[string]uint32{}
		for range rapid.IntRange(1, 60).Draw(rt, "inserts") {
			x := []byte{byte(rapid.IntRange(0, 25).Draw(rt, "x"))}
			n := uint32(rapid.IntRange(0, 7).Draw(rt, "n"))
			if b := i.Insert(x, n); b != ni.count(x) {
				rt.Fatalf("intuitive before = %d, want %d", b, ni.count(x))
			}
			if b := r.Insert(x, n); b != nr.count(x) {
				rt.Fatalf("refined before = %d, want %d", b, nr.count(x))
			}
			for range n {
				ni.insert(x, false)
				nr.insert(x, true)
			}
			truth[string(x)] += n
		}
		for pos := range m {
			if i.Cell(pos) != ni.cells[pos] || r.Cell(pos) != nr.cells[pos] {
				rt.Fatalf("%v: cell %d: %d and %d, want %d and %d", l, pos, i.Cell(pos), r.Cell(pos), ni.cells[pos], nr.cells[pos])
			}
			if r.Cell(pos) > i.Cell(pos) {
				rt.Fatalf("%v: cell %d: refined %d above intuitive %d", l, pos, r.Cell(pos), i.Cell(pos))
			}
		}
		for x, n := range truth {
			if got := r.Count([]byte(x)); got < min(n, l.Max()) {
				rt.Fatalf("%v: %q counted %d, inserted %d", l, x, got, n)
			}
		}
	})
}

func TestDeleteOracle(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := rapid.SampledFrom(layouts(200)).Draw(rt, "layout")
		f := testFamily(t, 200, 4)
		c := must(NewIntuitive(f, l))(t)
		truth := map[byte]uint32{}
		saturated := false
		for range rapid.IntRange(1, 80).Draw(rt, "steps") {
			x, n := rapid.Byte().Draw(rt, "x")%20, uint32(rapid.IntRange(0, 9).Draw(rt, "n"))
			if rapid.Bool().Draw(rt, "insert") {
				c.Insert([]byte{x}, n)
				truth[x] += n
			} else if truth[x] >= n {
				if err := c.Delete([]byte{x}, n); err != nil {
					rt.Fatalf("delete %d of %d inserted: %v", n, truth[x], err)
				}
				truth[x] -= n
			}
			saturated = saturated || c.Cells(0).Saturated > 0
		}
		var clean *Intuitive
		if !saturated {
			clean = must(NewIntuitive(f, l))(t)
		}
		for x, n := range truth {
			if got := c.Count([]byte{x}); got < min(n, l.Max()) {
				rt.Fatalf("count %d, true %d", got, n)
			}
			if clean != nil {
				clean.Insert([]byte{x}, n)
			}
		}
		if clean == nil {
			return
		}
		for pos := range f.m { // nothing is left of deleted elements
			if c.Cell(pos) != clean.Cell(pos) {
				rt.Fatalf("%v: cell %d is %d, want %d", l, pos, c.Cell(pos), clean.Cell(pos))
			}
		}
	})
}

func TestDeleteRefuses(t *testing.T) {
	c := must(NewIntuitive(testFamily(t, 1000, 4), FixedCells(4)))(t)
	c.Insert([]byte("x"), 2)
	if err := c.Delete([]byte("x"), 3); err == nil || c.Count([]byte("x")) != 2 {
		t.Errorf("deleted 3 of 2: %v, count %d", err, c.Count([]byte("x")))
	}
	c.Insert([]byte("y"), 100) // saturates at 15
	if err := c.Delete([]byte("y"), 1); err != nil || c.Count([]byte("y")) != 15 {
		t.Errorf("a saturated count moved: %v, %d", err, c.Count([]byte("y")))
	}
}

// TestRefinedMergeOracle checks that merging is commutative and associative, and never undercounts,
// whatever each origin counted.
func TestRefinedMergeOracle(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := rapid.SampledFrom(layouts(120)).Draw(rt, "layout")
		f := testFamily(t, 120, 3)
		var origins [3]*Refined
		var truth [30]uint32
		for o := range origins {
			origins[o] = must(NewRefined(f, l))(t)
			for range rapid.IntRange(0, 40).Draw(rt, "inserts") {
				x, n := rapid.IntRange(0, 29).Draw(rt, "x"), uint32(rapid.IntRange(1, 30).Draw(rt, "n"))
				origins[o].Insert([]byte{byte(x)}, n)
				truth[x] += n
			}
		}
		sum := func(order ...int) *Refined {
			c := must(NewRefined(f, l))(t)
			for _, o := range order {
				if err := c.Merge(origins[o]); err != nil {
					rt.Fatal(err)
				}
			}
			return c
		}
		a, b := sum(0, 1, 2), sum(2, 0, 1)
		right := sum(1, 2)
		assoc := origins[0].Clone()
		if err := assoc.Merge(right); err != nil {
			rt.Fatal(err)
		}
		for pos := range f.m {
			want := min(origins[0].Cell(pos)+origins[1].Cell(pos)+origins[2].Cell(pos), l.Max())
			if a.Cell(pos) != want || b.Cell(pos) != want || assoc.Cell(pos) != want {
				rt.Fatalf("%v: cell %d: %d, %d, %d, want %d", l, pos, a.Cell(pos), b.Cell(pos), assoc.Cell(pos), want)
			}
		}
		for x, n := range truth {
			if got := a.Count([]byte{byte(x)}); got < min(n, l.Max()) {
				rt.Fatalf("%v: count %d, reported %d", l, got, n)
			}
		}
	})
}

func TestCountersRefuse(t *testing.T) {
	f := testFamily(t, 1000, 3)
	for _, l := range []CellLayout{
		{}, {Width: 3}, {Width: 64}, {Width: 4, Base: 4}, {Width: 4, Chunks: 1}, {Base: 0, Chunks: 1}, {Base: 16, Chunks: 1},
		{Base: 4, Chunks: 0}, {Base: 4, Chunks: -1}, {Base: 4, Chunks: 1001},
	} {
		if _, err := NewRefined(f, l); err == nil {
			t.Errorf("layout %+v was taken", l)
		}
	}
	if _, err := NewIntuitive(testFamily(t, 1<<17, 3), SplitCells(4, 1)); err == nil {
		t.Error("a chunk of 2^17 cells was taken")
	}
	a, b := must(NewRefined(f, FixedCells(4)))(t), must(NewRefined(f, FixedCells(5)))(t)
	if err := a.Merge(b); !errors.Is(err, filter.ErrGeometry) {
		t.Errorf("merge of other widths: %v", err)
	}
}

// TestSplitStoreOracle sets counts of all sizes up and down.
func TestSplitStoreOracle(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := SplitCells(rapid.IntRange(1, 15).Draw(rt, "s"), rapid.IntRange(1, 5).Draw(rt, "chunks"))
		c := newCells(l, 90).(*splitStore)
		truth := map[uint64]uint32{}
		for range rapid.IntRange(1, 300).Draw(rt, "steps") {
			i := rapid.Uint64Range(0, 89).Draw(rt, "i")
			v := rapid.Uint32Range(0, filter.Many).Draw(rt, "v") >> rapid.IntRange(0, 24).Draw(rt, "shift")
			c.set(i, v)
			truth[i] = v
		}
		large := 0
		for i := range uint64(90) {
			if c.get(i) != truth[i] {
				rt.Fatalf("%v: cell %d is %d, want %d", l, i, c.get(i), truth[i])
			}
			if truth[i]>>l.Base != 0 {
				large++
			}
		}
		if c.large() != large {
			rt.Fatalf("%v: %d entries in the tables, want %d", l, c.large(), large)
		}
	})
}

func encodeRefined(t testing.TB, l CellLayout) []byte {
	c := must(NewRefined(testFamily(t, 300, 3), l))(t)
	for i := range 40 {
		c.Insert(item(i), uint32(i*i*i))
	}
	var buf bytes.Buffer
	if err := c.Encode(&buf); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestCounterCodec(t *testing.T) {
	for _, l := range layouts(300) {
		good := encodeRefined(t, l)
		c, err := DecodeRefined(bytes.NewReader(good), 1<<14, filter.Secret{5})
		if err != nil {
			t.Fatalf("%v: %v", l, err)
		}
		for i := range 40 {
			if got, want := c.Count(item(i)), min(uint32(i*i*i), l.Max()); got < want {
				t.Errorf("%v: count %d, want at least %d", l, got, want)
			}
		}
		for n := range good {
			if _, err := DecodeRefined(bytes.NewReader(good[:n]), 1<<14, filter.Secret{5}); !errors.Is(err, filter.ErrCorrupt) {
				t.Fatalf("%v cut to %d bytes: %v", l, n, err)
			}
		}
		for n := range len(good) * 8 {
			bad := bytes.Clone(good)
			bad[n/8] ^= 1 << (n % 8)
			if c, err := DecodeRefined(bytes.NewReader(bad), 1<<14, filter.Secret{5}); err == nil || c != nil {
				t.Fatalf("%v: bit %d flipped goes unnoticed", l, n)
			}
		}
		if _, err := DecodeRefined(bytes.NewReader(good), int64(len(good)), filter.Secret{5}); l.Width == 16 &&
			!errors.Is(err, filter.ErrTooLarge) {
			t.Errorf("%v beyond the limit: %v", l, err)
		}
		if _, err := DecodeIntuitive(bytes.NewReader(good), 1<<14, filter.Secret{5}); !errors.Is(err, filter.ErrCorrupt) {
			t.Errorf("%v read as the other extension: %v", l, err)
		}
	}
}

func FuzzCounters(f *testing.F) {
	for _, l := range layouts(300) {
		f.Add(encodeRefined(f, l))
	}
	f.Add([]byte("BHPF\x01\x04"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, kind := range []byte{3, 4} {
			if len(b) > 5 {
				b[5] = kind
			}
			var c interface{ Cells(uint32) CellStats }
			var err error
			switch codec.Type(kind) {
			case codec.Intuitive:
				c, err = DecodeIntuitive(bytes.NewReader(b), 1<<20, filter.Secret{5})
			default:
				c, err = DecodeRefined(bytes.NewReader(b), 1<<20, filter.Secret{5})
			}
			if err == nil {
				c.Cells(20)
			}
		}
	})
}

func BenchmarkRefined(b *testing.B) {
	for _, l := range []CellLayout{FixedCells(8), FixedCells(5), SplitCells(4, 20)} {
		c := must(NewRefined(testFamily(b, 1_100_000, 6), l))(b)
		x := item(1)
		b.Run("insert/"+l.String(), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				x[4] = byte(i)
				c.Insert(x, 1)
			}
		})
		b.Run("count/"+l.String(), func(b *testing.B) {
			for b.Loop() {
				c.Count(x)
			}
		})
	}
}
