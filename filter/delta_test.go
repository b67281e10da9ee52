package filter

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestDeltaIdentity: apply(delta(a, b), a) == b, through the codec, on images
// and on arrays, for any a and b of one history.
func TestDeltaIdentity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawCells(t)
		c, err := NewCounting(g)
		if err != nil {
			t.Fatal(err)
		}
		copyOf, err := NewCounting(g)
		if err != nil {
			t.Fatal(err)
		}
		index := uint64(0)
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			var from []*Image
			for p := range c.Pages() {
				from = append(from, c.Image(p))
			}
			for range rapid.IntRange(0, 50).Draw(t, "adds") {
				index++
				c.AddBatch(index, []Key{drawKey(t)}, []uint32{drawCount(t)}, nil)
			}
			for p := range c.Pages() {
				to := c.Image(p)
				d, err := Diff(from[p], to)
				if err != nil {
					t.Fatal(err)
				}
				parsed, err := ParseDelta(d.Append(nil), g)
				if err != nil {
					t.Fatal(err)
				}
				if err := from[p].Apply(parsed); err != nil {
					t.Fatal(err)
				}
				if !from[p].Equal(to) {
					t.Fatalf("page %d: the delta of %d cells does not lead to the image", p, d.Len())
				}
				if err := copyOf.Apply(parsed); err != nil {
					t.Fatal(err)
				}
				if d.To != d.From {
					if err := copyOf.Apply(parsed); !errors.Is(err, ErrVersion) {
						t.Fatalf("the same delta again: %v", err)
					}
				}
			}
		}
		check(t, copyOf)
		if !slices.Equal(logical(c), logical(copyOf)) || c.Keys() != copyOf.Keys() {
			t.Fatal("the copy that followed by deltas differs")
		}
	})
}

// TestAccumulateIsMerge: adding all deltas of several arrays, in any order, to
// one that sums them equals merging the arrays.
func TestAccumulateIsMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawCells(t)
		sum, err := NewCounting(g)
		if err != nil {
			t.Fatal(err)
		}
		want, err := NewCounting(g)
		if err != nil {
			t.Fatal(err)
		}
		var deltas []*Delta
		for range 3 {
			c, err := NewCounting(g)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				from := make([]*Image, c.Pages())
				for p := range from {
					from[p] = c.Image(p)
				}
				for range rapid.IntRange(0, 20).Draw(t, "adds") {
					c.Add(drawKey(t), rapid.Uint32Range(0, Many/6).Draw(t, "n"))
				}
				for p := range from {
					d, err := Diff(from[p], c.Image(p))
					if err != nil {
						t.Fatal(err)
					}
					deltas = append(deltas, d)
				}
			}
			if err := want.Merge(c); err != nil {
				t.Fatal(err)
			}
		}
		for _, i := range rapid.Permutation(indexes(len(deltas))).Draw(t, "order") {
			if err := sum.Accumulate(deltas[i]); err != nil {
				t.Fatal(err)
			}
		}
		check(t, sum)
		if !slices.Equal(logical(sum), logical(want)) {
			t.Fatal("the sum of deltas differs from the merge")
		}
	})
}

func indexes(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

func TestBitsDelta(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawBits(t)
		b, err := NewBits(g)
		if err != nil {
			t.Fatal(err)
		}
		follower, err := NewBits(g)
		if err != nil {
			t.Fatal(err)
		}
		joined, err := NewBits(g)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			from := make([]*Image, b.Pages())
			for p := range from {
				from[p] = b.Image(p)
			}
			for range rapid.IntRange(0, 20).Draw(t, "sets") {
				b.Set(drawKey(t))
			}
			for p := range from {
				to := b.Image(p)
				d, err := Diff(from[p], to)
				if err != nil {
					t.Fatal(err)
				}
				parsed, err := ParseDelta(d.Append(nil), g)
				if err != nil {
					t.Fatal(err)
				}
				if err := from[p].Apply(parsed); err != nil || !from[p].Equal(to) {
					t.Fatalf("page %d: the delta does not lead to the image: %v", p, err)
				}
				if err := follower.Apply(parsed); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					if err := joined.Accumulate(parsed); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if !slices.Equal(b.lines, follower.lines) || !slices.Equal(b.lines, joined.lines) {
			t.Fatal("the copy that followed by deltas differs")
		}
	})
}

func TestDiffRefuses(t *testing.T) {
	c := filled(t, cellsGeo, 100, 30)
	old := c.Image(0)
	c.Add(Key{1, 1}, 5)
	now := c.Image(0)
	if _, err := Diff(now, old); !errors.Is(err, ErrVersion) {
		t.Errorf("delta back in time: %v", err)
	}
	other := *now
	other.Page = 1
	if _, err := Diff(old, &other); !errors.Is(err, ErrVersion) {
		t.Errorf("delta to another page: %v", err)
	}
	g := cellsGeo
	g.K = 5
	if _, err := Diff(old, filled(t, g, 100, 30).Image(0)); !errors.Is(err, ErrGeometry) {
		t.Errorf("delta to another geometry: %v", err)
	}
	// A page that was replaced: later version, smaller cells.
	fresh := mustCounting(t, cellsGeo).Image(0)
	fresh.Generation, fresh.Info = 77, now.Info
	fresh.Info.Version++
	if _, err := Diff(now, fresh); !errors.Is(err, ErrVersion) {
		t.Errorf("delta to smaller cells: %v", err)
	}
}

func TestApplyRefuses(t *testing.T) {
	c := filled(t, cellsGeo, 100, 30)
	from := c.Image(0)
	k := Key{1, 1}
	c.Add(k, Many-5)
	d, err := Diff(from, c.Image(0))
	if err != nil {
		t.Fatal(err)
	}
	// A copy whose cell holds more than the origin's did, at the same version.
	odd := mustCounting(t, cellsGeo)
	odd.SetGeneration(77)
	odd.Add(k, 10)
	odd.pages[0].Version = d.From
	before := logical(odd)
	if err := odd.Apply(d); !errors.Is(err, ErrCorrupt) {
		t.Errorf("delta beyond Many: %v", err)
	}
	late := *d
	late.From++
	if err := odd.Apply(&late); !errors.Is(err, ErrVersion) {
		t.Errorf("delta from a later version: %v", err)
	}
	old := *d
	old.Generation++
	if err := odd.Apply(&old); !errors.Is(err, ErrVersion) {
		t.Errorf("delta of another generation: %v", err)
	}
	if err := odd.Accumulate(&old); !errors.Is(err, ErrVersion) {
		t.Errorf("accumulating a delta of another generation: %v", err)
	}
	far := *d
	far.Page = 3
	if err := odd.Apply(&far); !errors.Is(err, ErrCorrupt) {
		t.Errorf("delta of a page beyond the array: %v", err)
	}
	foreign := *d
	foreign.GeometryID++
	if err := odd.Apply(&foreign); !errors.Is(err, ErrGeometry) {
		t.Errorf("delta of another geometry: %v", err)
	}
	if !slices.Equal(before, logical(odd)) {
		t.Error("a refused delta changed the array")
	}
	if err := odd.Accumulate(d); err != nil || odd.Count(k) != Many {
		t.Errorf("Accumulate does not saturate: %v, count %d", err, odd.Count(k))
	}
}

func TestDeltaDamage(t *testing.T) {
	g := Geometry{Kind: Cells, Lines: 8, K: 6}
	c := mustCounting(t, g)
	from := c.Image(0)
	keys, _ := seeded(2, 40)
	for i, k := range keys {
		c.Add(k, uint32(i+1))
	}
	d, err := Diff(from, c.Image(0))
	if err != nil {
		t.Fatal(err)
	}
	enc := d.Append(nil)
	for at := range enc {
		bad := slices.Clone(enc)
		bad[at] ^= 1 << (at % 8)
		if _, err := ParseDelta(bad, g); err == nil {
			t.Fatalf("bit flipped in byte %d of %d: accepted", at, len(enc))
		}
		if _, err := ParseDelta(enc[:at], g); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut at %d of %d: %v", at, len(enc), err)
		}
	}
	le := binary.LittleEndian
	for name, edit := range map[string]func([]byte) []byte{
		"versions reversed":  func(b []byte) []byte { le.PutUint64(b[24:], d.To+1); return b },
		"no target version":  func(b []byte) []byte { return b[:pageHeader] },
		"a form":             func(b []byte) []byte { b[6] = 1; return b },
		"cells claimed":      func(b []byte) []byte { le.PutUint32(b[56:], 1024); return b },
		"a cell less":        func(b []byte) []byte { b[56]--; return b },
		"bytes at the end":   func(b []byte) []byte { return append(b, 0) },
		"page out of range":  func(b []byte) []byte { b[48] = 1; return b },
		"kind of bit arrays": func(b []byte) []byte { b[5] = byte(Bitmap); return b },
	} {
		if _, err := ParseDelta(reseal(edit(slices.Clone(enc))), g); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	// A cell that the page has not, rightly encoded.
	far := &Delta{GeometryID: g.ID(), kind: Cells, slots: slotList{at: []uint32{8 * lineCells}, values: []uint32{1}}}
	if _, err := ParseDelta(far.Append(nil), g); !errors.Is(err, ErrCorrupt) {
		t.Errorf("cell beyond the page: %v", err)
	}
}

// TestDeltaNearEntropy: within 6 % of log2 C(m,d)/d + H(values), header aside.
func TestDeltaNearEntropy(t *testing.T) {
	c := filled(t, cellsGeo, 9000, 10)
	from := c.Image(0)
	keys, rng := seeded(91, 1000)
	counts, _ := skew(rng, len(keys), DefaultTail)
	c.AddBatch(0, keys, counts, nil)
	d, err := Diff(from, c.Image(0))
	if err != nil {
		t.Fatal(err)
	}
	m, n := float64(pageCells), float64(d.Len())
	lg := func(x float64) float64 { v, _ := math.Lgamma(x + 1); return v / math.Ln2 }
	limit := lg(m) - lg(n) - lg(m-n)
	values := map[uint32]float64{}
	for _, v := range d.slots.values {
		values[v]++
	}
	for _, k := range values {
		limit += k * math.Log2(n/k)
	}
	got := float64(len(d.Append(nil))-pageHeader-8) * 8
	t.Logf("%d cells: %.0f bits, limit %.0f (%.3f), %.2f bytes a key", d.Len(), got, limit, got/limit, got/8/1000)
	if got > 1.06*limit {
		t.Errorf("delta of %.0f bits, entropy %.0f", got, limit)
	}
}
