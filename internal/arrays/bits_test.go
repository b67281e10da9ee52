package arrays

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/bulkhead-mail/bulkhead/filter/shape"
)

func drawBits(t *rapid.T) Geometry {
	return Geometry{Kind: Bitmap, Lines: drawLines(t), K: rapid.SampledFrom([]uint8{8, 16}).Draw(t, "k"), KeyID: 5}
}

// bits returns the bits of a key by the definition of the layouts.
func (m *bitModel) bits(k Key) (at []uint64) {
	base := line(k.Hi, m.g.Lines) * lineBits
	second := shape.Mix(k.Lo + shape.Weyl)
	for i := range uint64(8) {
		if m.g.K == 8 {
			at = append(at, base+i*64+k.Lo>>(8*i)&63)
			continue
		}
		at = append(at, base+i*64+k.Lo>>(8*i)&31, base+i*64+32+second>>(8*i)&31)
	}
	return at
}

type bitModel struct {
	g    Geometry
	ones map[uint64]bool
	keys map[Key]bool
}

func (m *bitModel) has(k Key) bool {
	for _, at := range m.bits(k) {
		if !m.ones[at] {
			return false
		}
	}
	return true
}

func (m *bitModel) set(k Key) bool {
	before := m.has(k)
	for _, at := range m.bits(k) {
		m.ones[at] = true
	}
	m.keys[k] = true
	return before
}

func (m *bitModel) agree(t *rapid.T, b *Bits) {
	ones := 0
	for p := range b.Pages() {
		s := setBits(b.Image(p).lines)
		for _, at := range s.At {
			if !m.ones[uint64(p)*PageLines*lineBits+uint64(at)] {
				t.Fatalf("bit %d of page %d is set", at, p)
			}
		}
		ones += len(s.At)
	}
	if ones != len(m.ones) {
		t.Fatalf("%d bits are set, want %d", ones, len(m.ones))
	}
	for k := range m.keys {
		if !b.Has(k) {
			t.Fatalf("Has(%x) is false after Set", k)
		}
	}
}

func TestBitsAgreeWithModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawBits(t)
		b, err := NewBits(g)
		if err != nil {
			t.Fatal(err)
		}
		m := &bitModel{g: g, ones: map[uint64]bool{}, keys: map[Key]bool{}}
		index := uint64(0)
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				k := drawKey(t)
				want := m.set(k)
				if got := b.Set(k); got != want {
					t.Fatalf("Set(%x) = %v, want %v", k, got, want)
				}
			},
			"entry": func(t *rapid.T) {
				keys := make([]Key, rapid.IntRange(0, 40).Draw(t, "batch"))
				for i := range keys {
					keys[i] = drawKey(t)
				}
				before := make([]bool, len(keys))
				index++
				b.SetBatch(index, keys, before)
				for i, k := range keys {
					if want := m.set(k); before[i] != want {
						t.Fatalf("before[%d] = %v, want %v", i, before[i], want)
					}
				}
				info := b.PageInfo(0)
				b.SetBatch(index, keys, before)
				if b.PageInfo(0) != info || slices.Contains(before, false) {
					t.Fatal("the entry was applied twice")
				}
			},
			"has": func(t *rapid.T) {
				k := drawKey(t)
				out := make([]bool, 1)
				b.HasBatch([]Key{k}, out)
				if b.Has(k) != m.has(k) || out[0] != m.has(k) {
					t.Fatalf("Has(%x) = %v, in a batch %v, want %v", k, b.Has(k), out[0], m.has(k))
				}
			},
			"move": func(t *rapid.T) {
				fresh, err := NewBits(g)
				if err != nil {
					t.Fatal(err)
				}
				for p := range b.Pages() {
					if _, err := fresh.LoadPage(b.AppendPage(nil, p)); err != nil {
						t.Fatal(err)
					}
				}
				b = fresh
			},
		})
		m.agree(t, b)
	})
}

func TestBitsMergeLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawBits(t)
		var b [3]*Bits
		m := &bitModel{g: g, ones: map[uint64]bool{}, keys: map[Key]bool{}}
		for i := range b {
			var err error
			if b[i], err = NewBits(g); err != nil {
				t.Fatal(err)
			}
			for range rapid.IntRange(0, 30).Draw(t, "sets") {
				k := drawKey(t)
				b[i].Set(k)
				m.set(k)
			}
		}
		or := func(arrays ...*Bits) *Bits {
			r, err := NewBits(g)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range arrays {
				if err := r.Merge(a); err != nil {
					t.Fatal(err)
				}
			}
			return r
		}
		abc := or(b[0], b[1], b[2])
		m.agree(t, abc)
		for name, other := range map[string]*Bits{
			"another order": or(b[2], b[0], b[1]),
			"grouped":       or(b[0], or(b[1], b[2])),
			"repeated":      or(b[0], b[1], b[2], b[1], b[0], abcCopy(or, b)),
		} {
			if !slices.Equal(abc.lines, other.lines) {
				t.Fatalf("merging %s gives another result", name)
			}
		}
		info := abc.PageInfo(0)
		if err := abc.Merge(b[1]); err != nil {
			t.Fatal(err)
		}
		if abc.PageInfo(0) != info {
			t.Fatal("a merge that brings nothing new counts as a change")
		}
	})
}

func abcCopy(or func(...*Bits) *Bits, b [3]*Bits) *Bits { return or(b[:]...) }

func TestBitsBatchesEqualSingles(t *testing.T) {
	for _, k := range []uint8{8, 16} {
		g := Geometry{Kind: Bitmap, Lines: 32 * PageLines, K: k}
		keys, _ := seeded(4, 20_000)
		one, many := mustBits(t, g), mustBits(t, g)
		many.SetBatch(0, keys, nil)
		for _, key := range keys {
			one.Set(key)
		}
		if !slices.Equal(one.lines, many.lines) {
			t.Errorf("k=%d: batches and single sets give different arrays", k)
		}
		probe, _ := seeded(5, 20_001)
		out := make([]bool, len(probe))
		many.HasBatch(probe, out)
		for i := range probe {
			if out[i] != one.Has(probe[i]) {
				t.Fatalf("k=%d: key %d: %v in a batch, %v alone", k, i, out[i], !out[i])
			}
		}
	}
}

func TestBitsRefuseOtherGeometry(t *testing.T) {
	b := mustBits(t, Geometry{Kind: Bitmap, Lines: 4, K: 8, KeyID: 1})
	for _, g := range []Geometry{
		{Kind: Bitmap, Lines: 4, K: 16, KeyID: 1},
		{Kind: Bitmap, Lines: 8, K: 8, KeyID: 1},
		{Kind: Bitmap, Lines: 4, K: 8, KeyID: 2},
	} {
		o := mustBits(t, g)
		o.Set(Key{Hi: 1, Lo: 1})
		if err := b.Merge(o); err == nil {
			t.Errorf("Merge of %v: no error", g)
		}
		if _, err := b.LoadPage(o.AppendPage(nil, 0)); err == nil {
			t.Errorf("LoadPage of %v: no error", g)
		}
	}
	if b.Has(Key{Hi: 1, Lo: 1}) {
		t.Error("a refused merge changed the array")
	}
}

// TestHasEach checks that keys looked up in several arrays at once, of both K and several shapes,
// give the same results as separate look-ups.
func TestHasEach(t *testing.T) {
	keys, rng := seeded(9, 1_000)
	var sets []*Bits
	for range 4 { // together more than are read at once
		for _, g := range []Geometry{
			{Kind: Bitmap, Lines: 4 * PageLines, K: 8}, {Kind: Bitmap, Lines: 3 * PageLines, K: 16},
			{Kind: Bitmap, Lines: 7, K: 8}, {Kind: Bitmap, Lines: 7, K: 16},
		} {
			sparse, err := NewSparseBits(g)
			if err != nil {
				t.Fatal(err)
			}
			sets = append(sets, mustBits(t, g), sparse)
		}
	}
	for _, b := range sets {
		for _, k := range keys {
			if rng.Uint32N(4) == 0 {
				b.Set(k)
			}
		}
	}
	for _, size := range []int{0, 1, 2, 17, len(keys)} {
		from := rng.IntN(len(keys) - size + 1)
		part := keys[from : from+size]
		for n := range len(sets) + 1 {
			out := make([]bool, n*size)
			HasEach(sets[:n], part, out)
			for j, has := range out {
				if want := sets[j/size].Has(part[j%size]); has != want {
					t.Fatalf("set %d of %d, key %d of %d: %v, want %v", j/size, n, j%size, size, has, want)
				}
			}
		}
	}
}
