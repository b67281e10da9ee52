package arrays

import (
	"math/rand/v2"
	"testing"
	"unsafe"
)

// TestSparse checks that an array whose pages are allocated as they are filled holds the same
// content as one with all pages, through every way to fill and read it, and takes no more memory
// than it needs.
func TestSparse(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for _, kind := range []Kind{Cells, Bitmap} {
		for _, k := range map[Kind][]uint8{Cells: {6}, Bitmap: {8, 16}}[kind] {
			g := Geometry{Kind: kind, Lines: 24 * PageLines, K: k, KeyID: 1}
			for _, n := range []int{0, 1, 5, 300, 5000} {
				keys := make([]Key, n)
				for i := range keys {
					keys[i] = Key{Hi: rng.Uint64(), Lo: rng.Uint64()}
				}
				if kind == Cells {
					testSparseCounting(t, g, keys)
				} else {
					testSparseBits(t, g, keys)
				}
			}
		}
	}
}

func testSparseCounting(t *testing.T, g Geometry, keys []Key) {
	t.Helper()
	full, err := NewCounting(g)
	if err != nil {
		t.Fatal(err)
	}
	sparse, err := NewSparseCounting(g)
	if err != nil {
		t.Fatal(err)
	}
	if got := sparse.Resident(); got != SparseBytes(g) {
		t.Errorf("empty: %d bytes, want %d", got, SparseBytes(g))
	}
	add := make([]uint32, len(keys))
	for i := range add {
		add[i] = uint32(1 + i%40)
	}
	before := make([]uint32, len(keys))
	r := full.NewRound()
	full.AddBatch(0, keys, add, before)
	r.Record(keys, add, before)
	r.Close()
	sparse.CountBatch(keys, before) // reads absent pages
	if held := sparse.dir.held.Load(); held != 0 {
		t.Errorf("%d pages come by reading", held)
	}
	if err := sparse.ApplyRound(0, r, false); err != nil {
		t.Fatal(err)
	}
	merged, _ := NewSparseCounting(g)
	if err := merged.Merge(sparse); err != nil {
		t.Fatal(err)
	}
	loaded, _ := NewSparseCounting(g)
	for p := range full.Pages() {
		want := full.Image(p)
		if !want.Equal(sparse.Image(p)) || !want.equal(merged.Image(p).plane) {
			t.Fatalf("%d keys: page %d differs", len(keys), p)
		}
		if err := loaded.Load(want); err != nil || !want.Equal(loaded.Image(p)) {
			t.Fatalf("%d keys: page %d loaded: %v", len(keys), p, err)
		}
	}
	got := make([]uint32, len(keys))
	sparse.CountBatch(keys, got)
	for i, key := range keys {
		if want := full.Count(key); got[i] != want || sparse.Count(key) != want {
			t.Fatalf("count %d, in a batch %d, want %d", sparse.Count(key), got[i], want)
		}
	}
	checkPages(t, sparse.array, r.Pages())
	if sparse.Stats().Fill != full.Stats().Fill || sparse.Shown(3) != full.Shown(3) {
		t.Errorf("%d keys: stats %+v, want %+v", len(keys), sparse.Stats(), full.Stats())
	}
}

func testSparseBits(t *testing.T, g Geometry, keys []Key) {
	t.Helper()
	full, err := NewBits(g)
	if err != nil {
		t.Fatal(err)
	}
	sparse, err := NewSparseBits(g)
	if err != nil {
		t.Fatal(err)
	}
	before, again := make([]bool, len(keys)), make([]bool, len(keys))
	r := full.NewRound()
	full.SetBatch(0, keys, before)
	r.RecordBits(keys, before)
	r.Close()
	sparse.SetBatch(0, keys, again)
	merged, _ := NewSparseBits(g)
	if err := merged.Merge(sparse); err != nil {
		t.Fatal(err)
	}
	for p := range full.Pages() {
		if want := full.Image(p); !want.Equal(sparse.Image(p)) || !want.equal(merged.Image(p).plane) {
			t.Fatalf("%d keys: page %d differs", len(keys), p)
		}
	}
	sparse.HasBatch(keys, again)
	for i, key := range keys {
		absent := Key{Hi: key.Lo, Lo: key.Hi}
		if !again[i] || !sparse.Has(key) || sparse.Has(absent) != full.Has(absent) {
			t.Fatalf("key %d of %d", i, len(keys))
		}
	}
	checkPages(t, sparse.array, r.Pages())
	if sparse.Shown(3) != full.Shown(3) {
		t.Errorf("shown %v, want %v", sparse.Shown(3), full.Shown(3))
	}
}

// checkPages checks that a sparse array has touched pages in memory, or all pages if that is half
// of them.
func checkPages(t *testing.T, a *array, touched int) {
	t.Helper()
	if 2*touched >= a.Pages() {
		touched = a.Pages()
	}
	if held := int(a.dir.held.Load()); held != touched {
		t.Errorf("%d pages in memory, want %d", held, touched)
	}
	if got, least := a.Resident(), uint64(touched)*PageBytes; got < least ||
		got > least+SparseBytes(a.geo)+uint64(a.overflow.Load()) {
		t.Errorf("%d bytes with %d pages in memory", got, touched)
	}
	for p := range a.Pages() {
		if at := uintptr(unsafe.Pointer(a.at(uint64(p * PageLines)))); !a.blankAt(p) && at%LineBytes != 0 {
			t.Errorf("page %d lies across lines of the cache", p)
		}
	}
}

// TestTouch checks that a touched array is still empty, and that a sparse one has allocated
// nothing.
func TestTouch(t *testing.T) {
	g := Geometry{Kind: Bitmap, Lines: 3 * PageLines, K: 8}
	whole := mustBits(t, g)
	sparse, err := NewSparseBits(g)
	if err != nil {
		t.Fatal(err)
	}
	before := sparse.Resident()
	for _, b := range []*Bits{whole, sparse} {
		b.Touch()
		if s := b.Stats(); s.Keys != 0 || s.Fill != 0 {
			t.Errorf("%+v", s)
		}
	}
	if got := sparse.Resident(); got != before {
		t.Errorf("%d bytes, want %d", got, before)
	}
}
