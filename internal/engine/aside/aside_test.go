package aside

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/pages"
)

// array returns an array of counts of generation start, with keys.
func array(t testing.TB, start uint64, keys int) *arrays.Counting {
	t.Helper()
	c, err := arrays.NewCounting(filter.Geometry{Kind: filter.Cells, Lines: 2 * filter.PageLines, K: 4, KeyID: 7})
	if err != nil {
		t.Fatal(err)
	}
	c.SetGeneration(start)
	for i := range keys {
		c.AddBatch(1, []filter.Key{{Hi: uint64(i) << 40, Lo: start}}, []uint32{uint32(1 + i%5)}, nil)
	}
	return c
}

// save saves a generation of the tally.
func save(t testing.TB, f *Folder, start uint64) *arrays.Counting {
	t.Helper()
	c := array(t, start, 300)
	g := &Generation{Tally: &book.TallySpec{Start: start}, Arrays: []string{"counts"}}
	if err := f.Save(g, []pages.Array{c}, func(f func()) { f() }); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestFolder saves generations, and reads exactly them back. A damaged file is refused, and then removed.
func TestFolder(t *testing.T) {
	var uptime time.Duration
	dir := filepath.Join(t.TempDir(), "aged")
	f := Open(dir, func() time.Duration { return uptime })
	if err := f.Tick(); err != nil || len(f.List()) != 0 {
		t.Errorf("an absent folder: %v, %v", f.List(), err)
	}
	saved := map[uint64]*arrays.Counting{30: save(t, f, 30), 20: save(t, f, 20)}
	list := f.List()
	order := Sorted(list)
	if len(order) != 2 {
		t.Fatalf("%d files, want 2", len(order))
	}
	for i, path := range order {
		g := list[path]
		start, name := g.Start()
		if name != "tally" || start != uint64(20+10*i) {
			t.Errorf("file %d is of %s, generation %d", i, name, start)
		}
		got := array(t, start, 0)
		err := Pages(path, func(string) int { return 2 }, func(_ string, page []byte) error {
			_, err := got.LoadPage(page)
			return err
		})
		if err != nil || got.Keys() != saved[start].Keys() || got.Version() != saved[start].Version() {
			t.Errorf("generation %d: %d keys at version %d, %v", start, got.Keys(), got.Version(), err)
		}
	}
	if err := Pages(order[0], func(string) int { return 3 }, func(string, []byte) error { return nil }); !errors.Is(err,
		ErrDamaged) {
		t.Errorf("a page too few: %v", err)
	}
	if err := os.WriteFile(order[0], []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	uptime = time.Hour
	if err := f.Tick(); err != nil || len(f.List()) != 1 {
		t.Errorf("an hour later: %v, %v", f.List(), err)
	}
	// Another process continues the running time.
	uptime = 0
	f = Open(dir, func() time.Duration { return uptime })
	for _, tt := range []struct {
		uptime time.Duration
		files  int
	}{{Kept - time.Hour - time.Second, 1}, {Kept - time.Hour + time.Second, 0}} {
		uptime = tt.uptime
		if err := f.Tick(); err != nil || len(f.List()) != tt.files {
			t.Errorf("%v later: %v, %v", tt.uptime, f.List(), err)
		}
	}
}

// FuzzFile reads files of arbitrary bytes. A generation that is read is the same when it is written again.
func FuzzFile(f *testing.F) {
	dir := filepath.Join(f.TempDir(), "aged")
	folder := Open(dir, func() time.Duration { return 0 })
	save(f, folder, 20)
	for path := range folder.List() {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	f.Add([]byte("{}\n"))
	f.Add([]byte(`{"tally":{"start":5},"blocklist":{"start":6}}` + "\n"))
	f.Add([]byte("a head without an end"))
	const head = `{"tally":{"start":5},"arrays":["counts"]}` + "\n"
	for _, pages := range []string{"", "\x09\x00\x00\x00p", "\xff\xff\xff\xffp", "\x01\x00\x00\x00p\x01\x00\x00\x00q"} {
		f.Add([]byte(head + pages)) // none, a torn one, one that is too long, two
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bufio.NewReaderSize(bytes.NewReader(b), maxHead)
		g, err := readHead(r)
		if err != nil {
			return
		}
		read := 0
		err = readPages(r, &g, func(string) int { return 2 }, func(_ string, page []byte) error {
			read += 4 + len(page)
			return nil
		})
		if err != nil && !errors.Is(err, ErrDamaged) || read > len(b) {
			t.Errorf("%d of %d bytes read: %v", read, len(b), err)
		}
		again, err := json.Marshal(g)
		if err != nil {
			t.Fatal(err)
		}
		h, err := readHead(bufio.NewReaderSize(bytes.NewReader(append(again, '\n')), maxHead+len(again)))
		if err != nil {
			t.Fatal(err)
		}
		start, name := g.Start()
		if s, n := h.Start(); s != start || n != name {
			t.Errorf("%s of %d became %s of %d", name, start, n, s)
		}
	})
}
