package arrays

import (
	"errors"
	"slices"
	"sync"
	"testing"
)

// TestAddNibbles compares with sums nibble by nibble: all pairs of values in all positions, with
// random neighbours.
func TestAddNibbles(t *testing.T) {
	keys, _ := seeded(21, 3000)
	for i, k := range keys {
		x, y := k.Hi, k.Lo
		shift := i % 16 * 4
		x = x&^(15<<shift) | uint64(i/16%16)<<shift
		y = y&^(15<<shift) | uint64(i/256%16)<<shift
		want := uint64(0)
		for s := 0; s < 64; s += 4 {
			want |= min(x>>s&15+y>>s&15, 15) << s
		}
		if got := addNibbles(x, y); got != want {
			t.Fatalf("addNibbles(%016x, %016x) = %016x, want %016x", x, y, got, want)
		}
		a, b, sum := alignedLines(2), alignedLines(2), alignedLines(2)
		a[1], b[1] = words{x, y, x, y, x, y, x, y}, words{y, x, y, x, y, x, y, x}
		heavy := sumLines(sum, a, b)
		if sum[0] != (words{}) || sum[1] != (words{want, want, want, want, want, want, want, want}) {
			t.Fatalf("sumLines gives %x, want %016x", sum, want)
		}
		if heavy != (escapes(want) != 0) {
			t.Fatalf("sumLines(%016x, %016x) finds heavy cells: %v", x, y, heavy)
		}
	}
}

func TestMaskAndNibbleBits(t *testing.T) {
	keys, _ := seeded(22, 2000)
	for i, k := range keys {
		w := k.Lo
		if i%2 == 0 {
			w |= k.Hi
		}
		var full, used uint64
		for s := 0; s < 64; s += 4 {
			if w>>s&15 == 15 {
				full |= 1 << s
			}
			if w>>s&15 != 0 {
				used |= 1 << s
			}
		}
		if escapes(w) != full || occupied(w) != used {
			t.Fatalf("%016x: escapes %016x, want %016x; occupied %016x, want %016x", w, escapes(w), full, occupied(w), used)
		}
		m := mask{k.Lo, k.Hi}
		var again mask
		n := 0
		for rest := m; !rest.empty(); n++ {
			var c uint64
			c, rest = rest.pop()
			again = again.with(c)
		}
		if again != m || n != m.len() || m.first(5).len() != min(5, n) || !m.first(5).within(m) {
			t.Fatalf("mask %x: taken apart and put together %x", m, again)
		}
	}
}

// TestLoadReplaces loads an empty page over a full one, and back, while readers count: they see
// either old cells or new ones, and never wait for a cell that is in neither.
func TestLoadReplaces(t *testing.T) {
	full := filled(t, cellsGeo, 9000, 60)
	other := filled(t, cellsGeo, 3000, 5000)
	empty := mustCounting(t, cellsGeo)
	empty.SetGeneration(77)
	images := []*Image{full.Image(0), empty.Image(0), other.Image(0)}
	keys, _ := seeded(9060, 9000)
	highest := uint32(0)
	c := mustCounting(t, cellsGeo)
	c.SetGeneration(77)
	for _, m := range images {
		if err := c.Load(m); err != nil {
			t.Fatal(err)
		}
		check(t, c)
		highest = max(highest, slices.Max(append(logical(c), 0)))
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for i := 0; ; i = (i + 1) % len(keys) {
				select {
				case <-done:
					return
				default:
				}
				// Some cells may come from one image and some from the next, but no cell holds a
				// value that is in neither image.
				if got := c.Count(keys[i]); got > highest {
					t.Errorf("key %d counted %d, no cell of any image is above %d", i, got, highest)
					return
				}
			}
		})
	}
	for round := range 60 {
		if err := c.Load(images[round%len(images)]); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	wg.Wait()
	check(t, c)
	if err := c.Load(&Image{Geometry: cellsGeo, Generation: 77}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("loading an image without lines: %v", err)
	}
}

func TestStats(t *testing.T) {
	g := Geometry{Kind: Cells, Lines: 2048, K: 6}
	c := mustCounting(t, g)
	if s := c.Stats(); s.Keys != 0 || s.Fill != 0 || s.Overflow != 0 || s.Ghost != 0 || s.CountWrong != 0 ||
		s.BulkWrong != 0 || s.Bytes < g.Bytes() {
		t.Errorf("empty array: %+v", s)
	}
	c.Add(Key{Hi: 1, Lo: 2}, 5)
	c.Add(Key{Hi: 1 << 63, Lo: 2}, 500)
	s := c.Stats()
	if want := 12 / float64(2048*lineCells); s.Keys != 2 || s.Overflow != 6 || s.Fill != want {
		t.Errorf("two keys: %+v, want fill %g and 6 cells of overflow", s, want)
	}
	if tables := c.pages[1].table.Load().bytes(); s.Bytes != g.Bytes()+2*pageStateBytes+uint64(tables) {
		t.Errorf("two keys: %d bytes, tables have %d", s.Bytes, tables)
	}
	b := filledBits(t, Geometry{Kind: Bitmap, Lines: 2048, K: 16}, 20_000)
	n := 0
	for p := range b.Pages() {
		n += len(setBits(b.Image(p).lines).At)
	}
	if s := b.Stats(); s.Fill != float64(n)/float64(2048*lineBits) || s.Keys < 19_000 || s.Ghost == 0 ||
		s.CountWrong != 0 || s.Overflow != 0 {
		t.Errorf("20,000 keys, %d bits: %+v", n, s)
	}
}
