package arrays

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestMergeBooks checks what a merge records for each page. TestMergeLaws and TestBitsMergeLaws
// compare the content with a model.
func TestMergeBooks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sparse := rapid.Bool().Draw(t, "sparse")
		g := Geometry{Kind: Cells, Lines: 6 * PageLines, K: 4}
		makeCells, makeBits := NewCounting, NewBits
		if sparse {
			makeCells, makeBits = NewSparseCounting, NewSparseBits
		}
		c, _ := makeCells(g)
		o, _ := NewSparseCounting(g)
		g.Kind, g.K = Bitmap, 8
		b, _ := makeBits(g)
		d, _ := NewSparseBits(g)
		for index := range rapid.Uint64Range(0, 20).Draw(t, "adds") {
			k, n := drawKey(t), drawCount(t)
			if rapid.Bool().Draw(t, "mine") {
				c.AddBatch(index+1, []Key{k}, []uint32{n}, nil)
				b.SetBatch(index+1, []Key{k}, nil)
			} else {
				o.AddBatch(index+100, []Key{k}, []uint32{n}, nil)
				d.SetBatch(index+100, []Key{k}, nil)
			}
		}
		booked(t, c.array, o.array, func() error { return c.Merge(o) },
			func(p int) bool { return len(o.Image(p).slots().At) > 0 })
		check(t, c)
		grows := func(p int) bool {
			mine := setBits(b.Image(p).lines).At
			return slices.ContainsFunc(setBits(d.Image(p).lines).At, func(at uint32) bool { return !slices.Contains(mine, at) })
		}
		booked(t, b.array, d.array, func() error { return b.Merge(d) }, grows)
	})
}

// booked calls merge, which merges o into a, and checks the page records of a. changed reports
// whether a page changes.
func booked(t *rapid.T, a, o *array, merge func() error, changed func(page int) bool) {
	t.Helper()
	var before, theirs []PageInfo
	var news []bool
	sum := a.Keys()
	for p := range a.Pages() {
		before, theirs, news = append(before, a.PageInfo(p)), append(theirs, o.PageInfo(p)), append(news, changed(p))
	}
	version := a.Version()
	if err := merge(); err != nil {
		t.Fatal(err)
	}
	for p, want := range before {
		if news[p] {
			want.Version++
			want.Keys += theirs[p].Keys
			version++
			sum += theirs[p].Keys
		}
		got := a.PageInfo(p)
		want.Overflow = got.Overflow // verified by check
		if got != want {
			t.Fatalf("page %d, changed %v: %+v, want %+v", p, news[p], got, want)
		}
	}
	if a.Keys() != sum || a.Version() != version {
		t.Fatalf("%d keys in version %d, want %d in %d", a.Keys(), a.Version(), sum, version)
	}
}

// TestOneHeavyCell checks that two counts of different keys can add up to a page with a single
// heavy cell, which no single key produces. Images carry it like any other page.
func TestOneHeavyCell(t *testing.T) {
	g := Geometry{Kind: Cells, Lines: 1, K: 2}
	c, o := mustCounting(t, g), mustCounting(t, g)
	c.Add(Key{Lo: 0x0201}, 8)
	o.Add(Key{Lo: 0x0301}, 9)
	if err := c.Merge(o); err != nil {
		t.Fatal(err)
	}
	check(t, c)
	want := map[uint32]uint32{1: 17, 2: 8, 3: 9}
	back := mustCounting(t, g)
	if _, err := back.LoadPage(c.AppendPage(nil, 0)); err != nil {
		t.Fatal(err)
	}
	for name, a := range map[string]*Counting{"merged": c, "loaded": back} {
		s := a.Image(0).slots()
		for i, at := range s.At {
			if s.Values[i] != want[at] || len(s.At) != len(want) || a.PageInfo(0).Overflow != 1 {
				t.Errorf("%s: %v, want %v, with %d heavy", name, s, want, a.PageInfo(0).Overflow)
			}
		}
	}
}
