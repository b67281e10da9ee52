package arrays

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bulkhead-mail/bulkhead/filter/shape"
)

// onLine returns a key on the given line of an array of 4096 lines.
func onLine(line, lo uint64) Key { return Key{Hi: line << 52, Lo: lo} }

// TestRoundBooks checks that a round describes what was recorded: every add that changed something,
// with consecutive adds of one key as one if nothing in between touches them, and with lines in
// order.
func TestRoundBooks(t *testing.T) {
	const a, b, touches = 0x0605040302010, 0x0f0e0d0c0b0a09, 0x0f0e0d0c0b0a10
	type add struct {
		line, lo uint64
		n        uint32
		before   uint32
	}
	for _, tt := range []struct {
		name            string
		adds            []add
		length, pages   int
		increase, times uint64
	}{
		{name: "nothing"},
		{name: "one", adds: []add{{5, a, 3, 0}}, length: 1, pages: 1, increase: 3, times: 1},
		{name: "the same twice", adds: []add{{5, a, 3, 0}, {5, a, 4, 3}}, length: 1, pages: 1, increase: 7, times: 2},
		{name: "the same, another on the line between", adds: []add{{5, a, 1, 0}, {5, b, 1, 0}, {5, a, 1, 1}}, length: 2,
			pages: 1, increase: 3, times: 3},
		{name: "the same, one with a common cell between", adds: []add{{5, a, 1, 0}, {5, touches, 1, 0}, {5, a, 1, 1}},
			length: 3, pages: 1, increase: 3, times: 3},
		{name: "the same, another line between", adds: []add{{5, a, 1, 0}, {6, a, 1, 0}, {5, a, 1, 1}}, length: 2,
			pages: 1, increase: 3, times: 3},
		{name: "none of it", adds: []add{{5, a, 0, 0}}},
		{name: "full already", adds: []add{{5, a, 9, Many}}},
		{name: "nearly full", adds: []add{{5, a, 9, Many - 1}}, length: 1, pages: 1, increase: 9, times: 1},
		{name: "more than counts hold", adds: []add{{5, a, Many + 9, 0}, {6, a, Many, 0}, {6, a, 1, 5}}, length: 2,
			pages: 1, increase: 2 * Many, times: 3},
		{name: "both sides of a page's end", adds: []add{{PageLines, a, 1, 0}, {PageLines - 1, a, 1, 0},
			{PageLines, b, 1, 0}, {0, a, 1, 0}, {3 * PageLines, a, 1, 0}}, length: 5, pages: 3, increase: 5, times: 5},
	} {
		c := mustCounting(t, Geometry{Kind: Cells, Lines: 4096, K: 6})
		bits := mustBits(t, Geometry{Kind: Bitmap, Lines: 4096, K: 8})
		r, s := c.NewRound(), bits.NewRound()
		taken := 0
		for _, x := range tt.adds {
			r.Record([]Key{onLine(x.line, x.lo)}, []uint32{x.n}, []uint32{x.before})
			known := x.n == 0 || x.before > 0
			s.RecordBits([]Key{onLine(x.line, x.lo)}, []bool{known})
			if !known {
				taken++
			}
		}
		r.Close()
		s.Close()
		if r.Len() != tt.length || r.Increase() != tt.increase || r.To-r.From != tt.times || r.Pages() != tt.pages {
			t.Errorf("%s: %d operations, %d more, %d versions, %d pages; want %d, %d, %d, %d", tt.name,
				r.Len(), r.Increase(), r.To-r.From, r.Pages(), tt.length, tt.increase, tt.times, tt.pages)
		}
		if !slices.IsSortedFunc(r.ops, func(x, y op) int { return int(x.line) - int(y.line) }) {
			t.Errorf("%s: not in the order of lines: %v", tt.name, r.ops)
		}
		if s.Len() != taken || s.Increase() != uint64(taken) || s.To-s.From != uint64(taken) {
			t.Errorf("%s: bits: %d operations, %d more, %d versions; want %d", tt.name, s.Len(), s.Increase(),
				s.To-s.From, taken)
		}
	}
}

// TestRoundDamage checks that an encoded round is refused if any byte is missing or added.
func TestRoundDamage(t *testing.T) {
	for _, g := range []Geometry{{Kind: Cells, Lines: 16, K: 6, KeyID: 3}, {Kind: Bitmap, Lines: 16, K: 8},
		{Kind: Bitmap, Lines: 2048, K: 16}} {
		r := &Round{Geometry: g, Generation: 300, From: 1 << 40}
		keys, _ := seeded(9, 5)
		if g.Kind == Cells {
			r.Record(keys, []uint32{1, 2, 300, 1, Many}, make([]uint32, 5))
		} else {
			r.RecordBits(keys, make([]bool, 5))
		}
		r.Close()
		body := r.AppendBody([]byte("what stands before"))[len("what stands before"):]
		if got, err := ParseRoundBody(body, g, 300, 1<<40); err != nil || got.Len() != 5 || got.To != r.To ||
			!bytes.Equal(got.AppendBody(nil), body) {
			t.Fatalf("%v: %+v, %v", g, got, err)
		}
		for at := range body {
			if _, err := ParseRoundBody(body[:at], g, 300, 1<<40); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%v: body cut at %d: %v", g, at, err)
			}
		}
		if _, err := ParseRoundBody(append(bytes.Clone(body), 0), g, 300, 1<<40); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%v: a byte behind the body: %v", g, err)
		}
		if _, err := ParseRoundBody(body, Geometry{}, 300, 1<<40); !errors.Is(err, ErrGeometry) {
			t.Fatalf("%v: body of no array: %v", g, err)
		}
	}
}

// TestRoundLimits checks that the last valid line, cells and increase are accepted, and the next
// ones refused.
func TestRoundLimits(t *testing.T) {
	g := Geometry{Kind: Cells, Lines: 16, K: 6}
	last := unrank(choose(lineCells, 6)-1, 6)
	for _, tt := range []struct {
		name string
		op   op
		ok   bool
	}{
		{"last of all", op{15, last, Many, Many}, true},
		{"line", op{16, last, 1, 1}, false},
		{"line far away", op{math.MaxUint32, last, 1, 1}, false},
		{"cells", op{15, last + 1, 1, 1}, false},
		{"increase", op{15, last, Many + 1, 1}, false},
	} {
		r := &Round{Geometry: g, ops: []op{tt.op}}
		got, err := ParseRoundBody(r.AppendBody(nil), g, r.Generation, r.From)
		if tt.ok && (err != nil || got.ops[0] != tt.op || got.To != uint64(tt.op.times)) || !tt.ok &&
			!errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
	}
}

// TestRoundIsForOneArray checks that a round of a different array, generation or version is refused
// and changes nothing.
func TestRoundIsForOneArray(t *testing.T) {
	cells, bits := Geometry{Kind: Cells, Lines: 64, K: 6, KeyID: 1}, Geometry{Kind: Bitmap, Lines: 64, K: 8, KeyID: 1}
	c, b := mustCounting(t, cells), mustBits(t, bits)
	c.SetGeneration(4)
	b.SetGeneration(4)
	key := []Key{{Hi: 1, Lo: 2}}
	for _, tt := range []struct {
		name           string
		edit           func(*Round)
		replayed       bool
		err, alongside error // of ApplyRound and of AddRound
	}{
		{"its own", func(*Round) {}, false, nil, nil},
		{"other key", func(r *Round) { r.Geometry.KeyID++ }, false, ErrGeometry, ErrGeometry},
		{"more lines", func(r *Round) { r.Geometry.Lines++ }, true, ErrGeometry, ErrGeometry},
		{"generation before", func(r *Round) { r.Generation-- }, true, ErrVersion, ErrVersion},
		{"next generation", func(r *Round) { r.Generation++ }, false, ErrVersion, ErrVersion},
		{"a version ahead", func(r *Round) { r.From++ }, false, ErrVersion, nil},
		{"a version behind", func(r *Round) { r.From-- }, false, ErrVersion, nil},
		{"a version ahead, replayed", func(r *Round) { r.From++ }, true, nil, nil},
	} {
		for _, add := range []bool{false, true} {
			r, s := c.NewRound(), b.NewRound()
			r.Record(key, []uint32{1}, []uint32{0})
			s.RecordBits(key, []bool{false})
			r.Close()
			s.Close()
			tt.edit(r)
			tt.edit(s)
			cv, bv, want := c.Version(), b.Version(), tt.err
			errC, errB := error(nil), error(nil)
			if add {
				want = tt.alongside
				errC, errB = c.AddRound(r), b.AddRound(s)
			} else {
				errC, errB = c.ApplyRound(0, r, tt.replayed), b.ApplyRound(0, s, tt.replayed)
			}
			if !errors.Is(errC, want) || !errors.Is(errB, want) {
				t.Errorf("%s (add %v): %v, %v; want %v", tt.name, add, errC, errB, want)
			}
			taken := uint64(1)
			if want != nil {
				taken = 0
			}
			if c.Version()-cv != taken || b.Version()-bv != taken {
				t.Errorf("%s (add %v): %d and %d changes, want %d", tt.name, add, c.Version()-cv, b.Version()-bv, taken)
			}
		}
	}
}

// TestAddRound checks an array into which another one was merged, and that adds the other's later
// rounds. It counts no less than both together, and no less than the other.
func TestAddRound(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	g := Geometry{Kind: Cells, Lines: 2 * PageLines, K: 6}
	own, other := mustCounting(t, g), mustCounting(t, g)
	bown, bother := mustBits(t, Geometry{Kind: Bitmap, Lines: 9, K: 8}),
		mustBits(t, Geometry{Kind: Bitmap, Lines: 9, K: 8})
	truth := map[Key]uint32{}
	batch := func(c *Counting, b *Bits) {
		keys, n, before, known := make([]Key, 200), make([]uint32, 200), make([]uint32, 200), make([]bool, 200)
		for i := range keys {
			h := rng.Uint64N(300)
			keys[i], n[i] = Key{Hi: shape.Mix(h), Lo: shape.Mix(h + 1000)}, rng.Uint32N(20)
			truth[keys[i]] += n[i]
		}
		r, s := c.NewRound(), b.NewRound()
		c.AddBatch(0, keys, n, before)
		b.SetBatch(0, keys, known)
		r.Record(keys, n, before)
		s.RecordBits(keys, known)
		r.Close()
		s.Close()
		if c == other {
			if err := errors.Join(own.AddRound(r), bown.AddRound(s)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 6 {
		batch(own, bown)
		batch(other, bother)
	}
	for k, n := range truth {
		if got := own.Count(k); got < n || got < other.Count(k) || !bown.Has(k) {
			t.Fatalf("counted %d of %d, the other alone %d; seen %v", got, n, other.Count(k), bown.Has(k))
		}
	}
	check(t, own)
}

// TestBitsRoundReplay checks that a round applied again with its journal index changes only the
// pages of a bit array that have not seen it.
func TestBitsRoundReplay(t *testing.T) {
	g := Geometry{Kind: Bitmap, Lines: 4 * PageLines, K: 8}
	own, replica, crashed := mustBits(t, g), mustBits(t, g), mustBits(t, g)
	keys, _ := seeded(5, 4000)
	before := make([]bool, len(keys))
	r := own.NewRound()
	own.SetBatch(0, keys, before)
	r.RecordBits(keys, before)
	r.Close()
	if err := replica.ApplyRound(9, r, false); err != nil {
		t.Fatal(err)
	}
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
			t.Errorf("page %d: %+v after the replay, want %+v", p, crashed.PageInfo(p), replica.PageInfo(p))
		}
		if got := replica.PageInfo(p).Index; got != 9 {
			t.Errorf("page %d notes entry %d, want 9", p, got)
		}
	}
}

// TestGrowth checks that applying a round to a sparse array takes exactly the predicted memory.
func TestGrowth(t *testing.T) {
	g := Geometry{Kind: Cells, Lines: 24 * PageLines, K: 6}
	c, err := NewSparseCounting(g)
	if err != nil {
		t.Fatal(err)
	}
	full := mustCounting(t, g)
	for _, pages := range [][]uint64{{}, {3}, {3}, {3, 5}, {0, 23}, {0, 3, 5, 23}, {1, 2, 4, 6, 7, 8, 9, 10}, {11}} {
		r := c.NewRound()
		for _, p := range pages {
			for i := range uint64(3) {
				k := Key{Hi: (p*PageLines+i)*(math.MaxUint64/g.Lines) + math.MaxUint64/g.Lines/2, Lo: i}
				if c.PageOf(k) != int(p) {
					t.Fatalf("key on page %d, want %d", c.PageOf(k), p)
				}
				r.Record([]Key{k}, []uint32{1}, []uint32{0})
			}
		}
		r.Close()
		before, want := c.Resident(), c.Growth(r)
		if err := c.AddRound(r); err != nil {
			t.Fatal(err)
		}
		if got := c.Resident() - before; got != want {
			t.Errorf("pages %v take %d bytes, foretold %d", pages, got, want)
		}
		if got := full.Growth(r); got != 0 {
			t.Errorf("pages %v: an array that has them all grows by %d", pages, got)
		}
	}
	if got, want := c.Resident(), full.Resident()+24*directoryEntry; got != want {
		t.Errorf("with all pages %d bytes, want %d", got, want)
	}
}

// TestGrowthPageByPage checks even and odd numbers of pages, whatever is in memory.
func TestGrowthPageByPage(t *testing.T) {
	for _, pages := range []uint64{2, 3, 7, 8} {
		for at := range pages {
			c, err := NewSparseCounting(Geometry{Kind: Cells, Lines: pages * PageLines, K: 6})
			if err != nil {
				t.Fatal(err)
			}
			for n := range pages {
				r := c.NewRound()
				p := (at + n) % pages
				r.Record([]Key{{Hi: p*(math.MaxUint64/pages) + math.MaxUint64/pages/2, Lo: n}}, []uint32{1}, []uint32{0})
				r.Close()
				before, want := c.Resident(), c.Growth(r)
				if err := c.AddRound(r); err != nil {
					t.Fatal(err)
				}
				if got := c.Resident() - before; got != want || (n == 0) != (got > 0) && 2*(n+1) > pages+1 {
					t.Errorf("page %d of %d, the %d. one: %d bytes, foretold %d", p, pages, n+1, got, want)
				}
			}
		}
	}
}
