package logbook

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/bulkhead-mail/bulkhead"
)

// contents returns the entries of a book in their stored form, without IDs, in the order of these forms.
func contents(t *testing.T, b *Book) (out []string) {
	t.Helper()
	rows, err := b.After(0, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		out = append(out, string(r.Data))
	}
	slices.Sort(out)
	return out
}

// TestCopied lets two nodes write into their books in turn, while one copies the other's in pieces, and the parts of
// both change. Books are closed and opened in between. In the end both have every entry once, and what is searched
// for is found in both.
func TestCopied(t *testing.T) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 9))
		c := newClock()
		paths := [2]string{filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")}
		var books [2]*Book
		for i := range books {
			books[i] = open(t, paths[i], c, 64<<20, 30*24*time.Hour)
		}
		first, second := 0, 1
		var want []string
		follow := func() {
			t.Helper()
			taken, err := books[second].Taken()
			if err != nil {
				t.Fatal(err)
			}
			from, err := books[first].CopyFrom(taken, 100_000)
			if err != nil {
				t.Fatal(err)
			}
			for {
				rows, err := books[first].After(from, 1+r.IntN(5000))
				if err != nil {
					t.Fatal(err)
				}
				if len(rows) == 0 {
					return
				}
				from = rows[len(rows)-1].ID
				if err := books[second].Take(rows, func(*Entry) {}); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range 40 {
			switch r.IntN(5) {
			case 0:
				follow()
				first, second = second, first // a take-over
			case 1:
				i := r.IntN(2)
				if err := books[i].Close(); err != nil {
					t.Fatal(err)
				}
				books[i] = open(t, paths[i], c, 64<<20, 30*24*time.Hour)
			case 2:
				follow()
			default:
				for range r.IntN(60) {
					c.now = c.now.Add(time.Duration(1+r.IntN(2000)) * time.Millisecond)
					visit(t, books[first], r)
				}
			}
		}
		follow()
		want = contents(t, books[first])
		if got := contents(t, books[second]); !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: the copy has %d entries, want %d", seed, len(got), len(want))
		}
		sig := bulkhead.MustSignature(bulkhead.Exact, []byte{1, byte(r.IntN(60))})
		q := Query{Signature: &sig, Limit: MaxPage}
		if got, want := all(t, books[second], q), all(t, books[first], q); !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: %d entries are found in the copy, want %d", seed, len(got), len(want))
		}
		if got := books[second].State().Entries; got != int64(len(want)) {
			t.Fatalf("seed %d: the copy counts %d entries, and has %d", seed, got, len(want))
		}
		for i := range books {
			if err := books[i].Close(); err != nil {
				t.Fatal(err)
			}
			if err := Inspect(paths[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestCopyOwn copies a book into one that has entries of its own, which are later: all are there, and searches find
// them.
func TestCopyOwn(t *testing.T) {
	r, c := rand.New(rand.NewPCG(1, 9)), newClock()
	from := open(t, filepath.Join(t.TempDir(), "a"), c, 64<<20, 30*24*time.Hour)
	to := open(t, filepath.Join(t.TempDir(), "b"), c, 64<<20, 30*24*time.Hour)
	for _, b := range []*Book{from, to} {
		for range 700 {
			c.now = c.now.Add(time.Second)
			visit(t, b, r)
		}
	}
	rows, err := from.After(0, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	want := append(contents(t, to), contents(t, from)...)
	slices.Sort(want)
	visited := 0
	if err := to.Take(rows, func(*Entry) { visited++ }); err != nil {
		t.Fatal(err)
	}
	if visited != len(rows) {
		t.Errorf("%d entries are visited, want %d", visited, len(rows))
	}
	for i := range rows[:50] {
		e, err := decode(rows[i].ID, rows[i].Data)
		if err != nil {
			t.Fatal(err)
		}
		sig := e.Signatures()[0]
		q := Query{Signature: &sig, Limit: MaxPage}
		if len(all(t, to, q)) < len(all(t, from, q)) {
			t.Fatalf("entry %d is not found in the copy", i)
		}
	}
	if got := contents(t, to); !reflect.DeepEqual(got, want) {
		t.Errorf("%d entries, want %d", len(got), len(want))
	}
	if n := from.Last(); n != rows[len(rows)-1].ID {
		t.Errorf("the last entry is %d, want %d", n, rows[len(rows)-1].ID)
	}
}

// TestTakeDamaged: entries that cannot be read, or are out of order, change nothing.
func TestTakeDamaged(t *testing.T) {
	r, c := rand.New(rand.NewPCG(1, 9)), newClock()
	from := open(t, filepath.Join(t.TempDir(), "a"), c, 64<<20, 30*24*time.Hour)
	to := open(t, filepath.Join(t.TempDir(), "b"), c, 64<<20, 30*24*time.Hour)
	for range 10 {
		c.now = c.now.Add(time.Second)
		visit(t, from, r)
	}
	for what, harm := range map[string]func([]Row) []Row{
		"flipped":      func(rows []Row) []Row { rows[3].Data[5] ^= 1; return rows },
		"short":        func(rows []Row) []Row { rows[3].Data = rows[3].Data[:3]; return rows },
		"out of order": func(rows []Row) []Row { rows[2], rows[3] = rows[3], rows[2]; return rows },
		"far ahead":    func(rows []Row) []Row { rows[len(rows)-1].ID = 1 << 60; return rows },
		"without ID":   func(rows []Row) []Row { rows[0].ID = 0; return rows },
	} {
		rows, err := from.After(0, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		if err := to.Take(harm(rows), func(*Entry) {}); !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("%s: %v", what, err)
		}
		if n := to.Last(); n != 0 {
			t.Errorf("%s: entry %d was taken", what, n)
		}
	}
	if err := to.view(func(tx *bbolt.Tx) error {
		if tx.Bucket(takenBucket) != nil {
			return errors.New("a mark was written")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
