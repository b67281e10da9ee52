package heal

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/codec"
	"github.com/bulkhead-mail/bulkhead/internal/engine/pages"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
)

func TestWithout(t *testing.T) {
	key := replica.Key{Array: replica.ArrayCounts, Start: 9}
	run := Doubt{Array: "counts", Start: 9, Page: 4, Pages: 3, Keys: 30}
	others := []Doubt{
		{Array: "counts", Start: 8, Page: 4, Pages: 3}, {Array: "spam", Start: 9, Page: 4, Pages: 3},
		{Array: "counts", Start: 9, Page: 4, Pages: 3, Origin: "peer"}, {Array: "accounts"},
		{Array: "journal", Start: 9, First: 1, Last: 2},
	}
	part := func(page, n int) Doubt {
		d := run
		d.Page, d.Pages, d.Keys = page, n, uint64(10*n)
		return d
	}
	for page, want := range map[int][]Doubt{
		3: {run}, 4: {part(5, 2)}, 5: {part(4, 1), part(6, 1)}, 6: {part(4, 2)}, 7: {run},
	} {
		if got := without(append(slices.Clone(others), run), place{key, page}); !reflect.DeepEqual(got,
			append(slices.Clone(others), want...)) {
			t.Errorf("without page %d: %v, want %v", page, got, want)
		}
	}
}

// onePage is an array with a single page.
type onePage struct{}

func (onePage) PageOf(filter.Key) int { return 0 }

// TestWoundLimit: the recorded adds to lost pages are bounded; beyond that, the pages are given up.
func TestWoundLimit(t *testing.T) {
	at := place{replica.Key{Array: replica.ArraySpam, Start: 3}, 0}
	w := &wounds{store: "s", pages: map[place]*wound{at: {sum: pages.Sum{Index: 5}}}}
	spam := at.Key
	keys := make([]filter.Key, maxSince/2)
	w.note(5, spam, onePage{}, keys, nil)
	if w.adds != 0 {
		t.Errorf("%d adds of an entry that the page has seen", w.adds)
	}
	w.note(6, spam, onePage{}, keys, nil)
	w.note(7, spam, onePage{}, keys, nil)
	if w.adds != maxSince || len(w.pages) != 1 || w.broken {
		t.Errorf("%d adds, %d pages", w.adds, len(w.pages))
	}
	w.note(8, spam, onePage{}, keys[:1], nil)
	if w.adds != 0 || len(w.pages) != 0 || !w.broken {
		t.Errorf("over the limit: %d adds, %d pages, broken %v", w.adds, len(w.pages), w.broken)
	}
}

func sampleWounds() *wounds {
	return &wounds{store: "0123", broken: true, adds: 3, pages: map[place]*wound{
		{replica.Key{Array: replica.ArrayCounts, Start: 1772409600},
			7}: {pages.Sum{Version: 9, Index: 1 << 40, Hash: [32]byte{1, 31: 2}}, []filter.Key{{Hi: 1, Lo: 2}, {Hi: 3}},
			[]uint32{1, filter.Many}},
		{replica.Key{Array: replica.ArrayRevoked, Start: 1771977600}, 0}: {pages.Sum{Version: 1}, []filter.Key{{Lo: 5}}, nil},
	}}
}

func FuzzWounds(f *testing.F) {
	f.Add(sampleWounds().encode())
	f.Add((&wounds{}).encode())
	f.Add([]byte{})
	got, err := decodeWounds(sampleWounds().encode())
	if err != nil || !reflect.DeepEqual(got, sampleWounds()) {
		f.Fatalf("read %+v, %v", got, err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := decodeWounds(data)
		if err != nil {
			return
		}
		again, err := decodeWounds(w.encode())
		if err != nil || !reflect.DeepEqual(again, w) {
			t.Fatalf("read %+v, then %+v, %v", w, again, err)
		}
	})
}

// TestRecallSplit: a split round whose end is missing is left out.
func TestRecallSplit(t *testing.T) {
	g := filter.Geometry{Kind: filter.Bitmap, Lines: 64 << 10, K: 8}
	own, err := arrays.NewBits(g)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var parts []replica.Part
	for _, n := range []int{100, codec.MaxRound + 1000} {
		r := own.NewRound()
		keys, before := make([]filter.Key, n), make([]bool, n)
		for i := range keys {
			keys[i] = filter.Key{Hi: rng.Uint64(), Lo: rng.Uint64()}
		}
		own.SetBatch(0, keys, before)
		r.RecordBits(keys, before)
		r.Close()
		for _, r := range r.Split(codec.MaxRound) {
			parts = append(parts, replica.Part{Round: r.AppendBody(nil), From: r.From, To: r.To})
		}
	}
	if len(parts) != 3 {
		t.Fatalf("%d rounds", len(parts))
	}
	for n, want := range []uint64{0, parts[0].To, parts[0].To, parts[2].To} {
		array, err := Recall(g, 0, nil, parts[:n])
		if err != nil {
			t.Fatal(err)
		}
		version := uint64(0)
		for page := range g.Pages() {
			version += array.Image(page).Info.Version
		}
		if version != want {
			t.Errorf("%d rounds lead to version %d, want %d", n, version, want)
		}
	}
}
