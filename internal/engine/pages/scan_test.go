package pages

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/arrays"
)

// TestScan damages files of pages in every way, and checks that every page that Scan returns
// is as it was written, that every other page is named, and that a flipped bit costs at most
// one page.
func TestScan(t *testing.T) {
	array, _ := filled(t, geometry)
	var file bytes.Buffer
	if err := Writer(array, func(f func()) { f() })(&file); err != nil {
		t.Fatal(err)
	}
	whole := file.Bytes()
	want := make(map[int]*arrays.Image)
	for p := range geometry.Pages() {
		want[p] = array.Image(p)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	scanned := func(what string, b []byte, bad []Span, foreign bool) []Lost {
		t.Helper()
		got := make(map[int]bool)
		lost, err := Scan(bytes.NewReader(b), geometry, 0, bad, foreign, func(m *arrays.Image) error {
			if got[m.Page] || !m.Equal(want[m.Page]) {
				t.Errorf("%s: page %d is not what it was", what, m.Page)
			}
			got[m.Page] = true
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		read := len(got)
		for _, l := range lost {
			if got[l.Page] != l.Stale {
				t.Errorf("%s: page %d: read %v, stale %v", what, l.Page, got[l.Page], l.Stale)
			}
			if !l.Stale && read > 0 && l.Keys == 0 {
				t.Errorf("%s: page %d of no keys", what, l.Page)
			}
			got[l.Page] = true
		}
		if len(got) != geometry.Pages() {
			t.Errorf("%s: %d of %d pages are accounted for", what, len(got), geometry.Pages())
		}
		return lost
	}
	if lost := scanned("whole", whole, nil, false); len(lost) > 0 {
		t.Errorf("%+v lost of a whole file", lost)
	}
	if lost := scanned("foreign", whole, nil, true); len(lost) != geometry.Pages() {
		t.Errorf("%d pages of another file in doubt, want all %d", len(lost), geometry.Pages())
	}
	// A block that is not the one that was written, without a sign of damage.
	if lost := scanned("old block", whole, []Span{{0, int64(len(whole) / 2)}}, false); len(lost) == 0 || !lost[0].Stale {
		t.Errorf("%+v: pages of an old block count as good", lost)
	}
	costly := 0
	for range 200 {
		b := bytes.Clone(whole)
		at := rng.IntN(len(b))
		b[at] ^= 1 << rng.IntN(8)
		block := []Span{{int64(at) / 4096 * 4096, int64(at)/4096*4096 + 4096}}
		lost := scanned("bit", b, block, false)
		gone := 0
		for _, l := range lost {
			if !l.Stale {
				gone++
			}
		}
		if len(lost) > 0 {
			costly++
		}
		if gone > 1 {
			t.Errorf("bit at %d: %d pages lost: %+v", at, gone, lost)
		}
		cut := rng.IntN(len(b))
		scanned("cut", whole[:cut], nil, false)
		scanned("pushed", append(append(bytes.Clone(whole[:cut]), b[:rng.IntN(200)]...), whole[cut:]...), nil, false)
	}
	if costly > 10 { // magic and length are 8 of the 64 bytes of a head
		t.Errorf("%d of 200 flipped bits could not be put right", costly)
	}
	scanned("empty", nil, nil, false)
	scanned("garbage", bytes.Repeat([]byte("bkhP\x01\x01\x01"), 30_000), nil, false)
}

// FuzzScan must end, and return no page twice.
func FuzzScan(f *testing.F) {
	c, err := arrays.NewCounting(geometry)
	if err != nil {
		f.Fatal(err)
	}
	var file bytes.Buffer
	if err := Writer(c, func(f func()) { f() })(&file); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	f.Add(file.Bytes()[70:])
	f.Add([]byte("bkhP"))
	f.Fuzz(func(t *testing.T, b []byte) {
		last := -1
		lost, err := Scan(bytes.NewReader(b), geometry, 0, []Span{{0, 100}}, false, func(m *arrays.Image) error {
			if m.Page <= last {
				t.Fatalf("page %d after %d", m.Page, last)
			}
			last = m.Page
			return nil
		})
		if err != nil || len(lost) > geometry.Pages() {
			t.Fatalf("%d lost, %v", len(lost), err)
		}
	})
}
