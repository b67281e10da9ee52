package pages

import (
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// Of an array of several pages.
var geometry = filter.Geometry{Kind: filter.Cells, Lines: 5120, K: 4}

func counting(t *testing.T) *filter.Counting {
	t.Helper()
	c, err := filter.NewCounting(geometry)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func filled(t *testing.T) (*filter.Counting, []filter.Key) {
	t.Helper()
	c, keys, n := counting(t), make([]filter.Key, 1000), make([]uint32, 1000)
	for i := range keys {
		keys[i] = filter.Key{Hi: uint64(i) * 0x9e3779b97f4a7c15, Lo: uint64(i) * 0xc2b2ae3d27d4eb4f}
		n[i] = uint32(1 + i%7)
	}
	c.AddBatch(1, keys, n, nil)
	return c, keys
}

// stored returns a store whose checkpoint has the bytes in the file "array".
func stored(t *testing.T, write func(io.Writer) error) *store.Store {
	t.Helper()
	st, err := store.Open(filepath.Join(t.TempDir(), "data"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	if err := st.Checkpoint(t.Context(), 1, []byte("{}"), []store.File{{Name: "array", Write: write}}); err != nil {
		t.Fatal(err)
	}
	return st
}

func TestRoundTrip(t *testing.T) {
	array, keys := filled(t)
	pages := array.Geometry().Pages()
	if pages < 3 {
		t.Fatalf("array of %d pages, want some", pages)
	}
	turns := 0
	st := stored(t, Writer(array, func(f func()) { turns++; f() }))
	if want := (pages + pagesAtOnce - 1) / pagesAtOnce; turns != want {
		t.Errorf("copied in %d turns, want %d", turns, want)
	}
	got := counting(t)
	if err := Load(st, "array", got); err != nil {
		t.Fatal(err)
	}
	want, have := make([]uint32, len(keys)), make([]uint32, len(keys))
	array.CountBatch(keys, want)
	got.CountBatch(keys, have)
	if !slices.Equal(have, want) || got.Version() != array.Version() {
		t.Errorf("version %d, want %d; counts differ: %v", got.Version(), array.Version(), !slices.Equal(have, want))
	}
}

// TestDamage: a file in which pages are missing, twice or in disorder would count too
// little in silence.
func TestDamage(t *testing.T) {
	array, _ := filled(t)
	var pages [][]byte
	for p := range array.Geometry().Pages() {
		pages = append(pages, appendSized(nil, func(b []byte) []byte { return array.AppendPage(b, p) }))
	}
	last := len(pages) - 1
	swapped := slices.Clone(pages)
	swapped[0], swapped[1] = swapped[1], swapped[0]
	short := slices.Clone(pages)
	short[last] = short[last][:len(short[last])-1]
	garbled := slices.Clone(pages)
	garbled[1] = append(slices.Clone(pages[1][:4]), make([]byte, len(pages[1])-4)...)
	for _, tt := range []struct {
		name string
		file [][]byte
		want string
	}{
		{"empty", nil, "page 0"},
		{"the last page is missing", pages[:last], "page"},
		{"a page is left out", append(slices.Clone(pages[:1]), pages[2:]...), "page 2 where page 1 belongs"},
		{"disorder", swapped, "page 1 where page 0 belongs"},
		{"cut", short, "page"},
		{"garbled", garbled, "page 1"},
		{"a page too much", append(slices.Clone(pages), pages[0]), "after the last page"},
		{"huge", [][]byte{{0xff, 0xff, 0xff, 0xff}}, "limit"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st := stored(t, func(w io.Writer) error {
				_, err := w.Write(slices.Concat(tt.file...))
				return err
			})
			err := Load(st, "array", counting(t))
			var damage *store.DamageError
			if !errors.As(err, &damage) || damage.File != "array" || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want damage that names %q", err, tt.want)
			}
		})
	}
	if err := Load(stored(t, Writer(array, func(f func()) { f() })), "other", counting(t)); err == nil {
		t.Error("a file that is not there was loaded")
	}
}
