package pages

import (
	"bytes"
	"io"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/arrays"
)

// TestSums: the written sums belong to the pages in the file. The same pages in another array have
// the same sums, and any other page has a different sum.
func TestSums(t *testing.T) {
	array, keys := filled(t, geometry)
	write, sums := Summed(array, func(f func()) { f() })
	var table bytes.Buffer
	if err := sums(&table); err == nil {
		t.Error("sums of pages that are not written")
	}
	var plain, file bytes.Buffer
	for _, w := range []struct {
		f  func(io.Writer) error
		to *bytes.Buffer
	}{{Writer(array, func(f func()) { f() }), &plain}, {write, &file}, {sums, &table}} {
		if err := w.f(w.to); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(plain.Bytes(), file.Bytes()) {
		t.Error("an array with sums is written otherwise")
	}
	list, err := ParseSums(table.Bytes(), geometry.Pages())
	if err != nil {
		t.Fatal(err)
	}
	twin, err := arrays.NewSparseCounting(geometry)
	if err != nil {
		t.Fatal(err)
	}
	for p := range geometry.Pages() {
		m := array.Image(p)
		m.Info.Index += 1000 // of another journal
		if err := twin.Load(m); err != nil {
			t.Fatal(err)
		}
	}
	for p, want := range list {
		got := SumOf(twin.Image(p))
		if !got.Is(&want) || want.Index != array.PageInfo(p).Index || want.Version != array.PageInfo(p).Version {
			t.Errorf("page %d: %+v, want %+v", p, got, want)
		}
		for q := range list {
			if q != p && got.Is(&list[q]) {
				t.Errorf("page %d has the sum of page %d", p, q)
			}
		}
	}
	for _, k := range keys {
		p := twin.PageOf(k)
		twin.Add(k, 1)
		if got := SumOf(twin.Image(p)); got.Is(&list[p]) || got.Hash == list[p].Hash {
			t.Fatalf("page %d has more, and the same sum", p)
		}
	}
}

func FuzzParseSums(f *testing.F) {
	sum := Sum{Version: 3, Index: 1 << 50, Hash: [32]byte{7}}
	f.Add(sum.Append(nil), 1)
	f.Add(sum.Append(sum.Append(nil)), 1)
	f.Add([]byte{}, 0)
	f.Fuzz(func(t *testing.T, data []byte, n int) {
		list, err := ParseSums(data, n)
		if err != nil {
			return
		}
		var again []byte
		for i := range list {
			again = list[i].Append(again)
		}
		if len(list) != n || !bytes.Equal(again, data) {
			t.Fatalf("%d sums of %d, written as %x, read of %x", len(list), n, again, data)
		}
	})
}
