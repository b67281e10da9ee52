package pages

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// geometry is the geometry of an array of several pages.
var geometry = filter.Geometry{Kind: filter.Cells, Lines: 5120, K: 4}

func counting(t *testing.T, g filter.Geometry) *arrays.Counting {
	t.Helper()
	c, err := arrays.NewCounting(g)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func filled(t *testing.T, g filter.Geometry) (*arrays.Counting, []filter.Key) {
	t.Helper()
	c, keys, n := counting(t, g), make([]filter.Key, 1000), make([]uint32, 1000)
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
	for _, lines := range []uint64{100, 5 * filter.PageLines, pagesAtOnce * filter.PageLines,
		(2*pagesAtOnce + 1) * filter.PageLines} {
		g := filter.Geometry{Kind: filter.Cells, Lines: lines, K: 4}
		array, keys := filled(t, g)
		pages, turns := g.Pages(), 0
		st := stored(t, Writer(array, func(f func()) { turns++; f() }))
		if want := (pages + pagesAtOnce - 1) / pagesAtOnce; turns != want {
			t.Errorf("%d pages copied in %d turns, want %d", pages, turns, want)
		}
		got := counting(t, g)
		if err := Load(st, "array", got); err != nil {
			t.Fatal(err)
		}
		want, have := make([]uint32, len(keys)), make([]uint32, len(keys))
		array.CountBatch(keys, want)
		got.CountBatch(keys, have)
		if !slices.Equal(have, want) || got.Version() != array.Version() {
			t.Errorf("%d pages: version %d, want %d; counts differ: %v", pages, got.Version(), array.Version(),
				!slices.Equal(have, want))
		}
	}
}

// A narrow writer takes a number of bytes and then fails.
type narrow int

var errNarrow = errors.New("full")

func (n *narrow) Write(b []byte) (int, error) {
	if len(b) > int(*n) {
		return int(*n), errNarrow
	}
	*n -= narrow(len(b))
	return len(b), nil
}

// TestWriterStops checks that a failed write is returned, and that nothing is copied after
// it.
func TestWriterStops(t *testing.T) {
	array, _ := filled(t, filter.Geometry{Kind: filter.Cells, Lines: 3 * pagesAtOnce * filter.PageLines, K: 4})
	var all bytes.Buffer
	if err := Writer(array, func(f func()) { f() })(&all); err != nil {
		t.Fatal(err)
	}
	for share, want := range []int{1, 2, 3} {
		room, turns := narrow(share*all.Len()/3+all.Len()/6), 0
		err := Writer(array, func(f func()) { turns++; f() })(&room)
		if !errors.Is(err, errNarrow) || turns != want {
			t.Errorf("room for %d thirds: %v after %d turns, want %v after %d", share, err, turns, errNarrow, want)
		}
	}
}

// A pagewise writer counts the writes that are not exactly one page.
type pagewise int

func (n *pagewise) Write(b []byte) (int, error) {
	if len(b) < sizeBytes || binary.LittleEndian.Uint32(b) != uint32(len(b)-sizeBytes) {
		*n++
	}
	return len(b), nil
}

// TestWriterTurns checks that each page is written as soon as it is encoded, since the store lets reports pass in
// between. Pages are copied into the same memory again and again: else the garbage collector would run.
func TestWriterTurns(t *testing.T) {
	g := filter.Geometry{Kind: filter.Cells, Lines: 4 * pagesAtOnce * filter.PageLines, K: 4}
	array, _ := filled(t, g)
	write, _ := Summed(array, func(f func()) { f() })
	var wrong pagewise
	if err := write(&wrong); err != nil || wrong > 0 {
		t.Errorf("%d writes of another size than one page; error %v", wrong, err)
	}
	empty := counting(t, g)
	n := testing.AllocsPerRun(10, func() {
		if err := Writer(empty, func(f func()) { f() })(io.Discard); err != nil {
			t.Error(err)
		}
	})
	if n > 3*pagesAtOnce {
		t.Errorf("%.0f allocations for %d pages, want those of %d copies at most", n, g.Pages(), pagesAtOnce)
	}
}

// TestDamage checks that a file with pages missing, repeated or out of order is refused: it
// would silently undercount.
func TestDamage(t *testing.T) {
	array, _ := filled(t, geometry)
	var pages [][]byte
	for p := range array.Geometry().Pages() {
		pages = append(pages, appendSized(nil, array.Image(p).Append))
	}
	last := len(pages) - 1
	swapped := slices.Clone(pages)
	swapped[0], swapped[1] = swapped[1], swapped[0]
	short := slices.Clone(pages)
	short[last] = short[last][:len(short[last])-1]
	first := slices.Clone(pages)
	first[0] = append(slices.Clone(pages[0][:4]), make([]byte, len(pages[0])-4)...)
	garbled := slices.Clone(pages)
	garbled[1] = append(slices.Clone(pages[1][:4]), make([]byte, len(pages[1])-4)...)
	for _, tt := range []struct {
		name string
		file [][]byte
		want string
	}{
		{"empty", nil, "page 0"},
		{"the last page is missing", pages[:last], "page 4: EOF"},
		{"a part of a length", [][]byte{pages[0], {1, 0}}, "page 1: unexpected EOF"},
		{"a page is left out", append(slices.Clone(pages[:1]), pages[2:]...), "page 2 where page 1 belongs"},
		{"disorder", swapped, "page 1 where page 0 belongs"},
		{"cut", short, "page 4: unexpected EOF"},
		{"the first page is garbled", first, "page 0"},
		{"garbled", garbled, "page 1"},
		{"a page too much", append(slices.Clone(pages), pages[0]), "after the last page"},
		{"huge", [][]byte{{0xff, 0xff, 0xff, 0xff}}, "limit"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st := stored(t, func(w io.Writer) error {
				_, err := w.Write(slices.Concat(tt.file...))
				return err
			})
			err := Load(st, "array", counting(t, geometry))
			var damage *store.DamageError
			if !errors.As(err, &damage) || damage.File != "array" || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want damage that names %q", err, tt.want)
			}
		})
	}
	if err := Load(stored(t, Writer(array, func(f func()) { f() })), "other", counting(t, geometry)); err == nil {
		t.Error("a file that is not there was loaded")
	}
}

// TestDamagedOnDisk checks that the store's error about a file that has changed on disk is
// returned as it is, wherever the change is.
func TestDamagedOnDisk(t *testing.T) {
	array, _ := filled(t, geometry)
	st := stored(t, Writer(array, func(f func()) { f() }))
	f, err := st.OpenFile("array")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	content, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	var path string
	err = filepath.WalkDir(st.Dir(), func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var b []byte
			if b, err = os.ReadFile(p); bytes.Contains(b, content[:1000]) {
				path = p
			}
		}
		return err
	})
	whole, readErr := os.ReadFile(path)
	if err := errors.Join(err, readErr); err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(whole); at += 1 + len(whole)/40 {
		bad := slices.Clone(whole)
		bad[at] ^= 4
		if err := os.WriteFile(path, bad, 0o666); err != nil {
			t.Fatal(err)
		}
		_, want := readAll(st)
		var damage *store.DamageError
		if err := Load(st, "array", counting(t, geometry)); !errors.As(want, &damage) || err == nil ||
			err.Error() != want.Error() {
			t.Errorf("byte %d of %d changed: %v, the store says %v", at, len(whole), err, want)
		}
	}
}

func readAll(st *store.Store) ([]byte, error) {
	f, err := st.OpenFile("array")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}
