package ballots

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"unsafe"
	"weak"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
)

func item(n int) Item {
	return Item{Key: filter.Key{Hi: uint64(n), Lo: ^uint64(n)}, Facet: bulkhead.Facet(n % 8), Pair: n%3 == 0}
}

// memory returns the memory of a ballot and its items.
func memory(x *Ballot) int { return ballotBytes + int(unsafe.Sizeof(Item{}))*len(x.Items) }

// encoded returns a book as it is written.
func encoded(b *Book) []byte {
	var out bytes.Buffer
	if err := Write(&out, b.All()); err != nil {
		panic(err) // a buffer takes everything
	}
	return out.Bytes()
}

// TestBook compares a book with a plain list. The book keeps the latest part of the list that fits.
func TestBook(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	b := New(40_000)
	var all []Ballot
	for now := range uint64(2000) {
		x := Ballot{Voice: r.Uint64N(5), Time: now}
		for range r.IntN(30) {
			x.Items = append(x.Items, item(r.IntN(200)))
		}
		all = append(all, x)
		version := b.Version()
		if b.Add(x); b.Version() == version {
			t.Fatal("a ballot more, and no other version")
		}
		if now%97 == 0 {
			data := encoded(b)
			b = New(40_000)
			version = b.Version()
			if err := b.Decode(data); err != nil {
				t.Fatal(err)
			}
			if b.Version() == version {
				t.Fatal("other ballots, and no other version")
			}
			if !bytes.Equal(encoded(b), data) {
				t.Fatal("what was decoded encodes as something else")
			}
		}
	}
	oldest, n := b.Oldest()
	kept, size := all[len(all)-n:], 0
	for i := range kept {
		size += memory(&kept[i])
	}
	if kept[0].Time != oldest || size > 40_000 || size+memory(&all[len(all)-n-1]) <= 40_000 {
		t.Errorf("%d ballots of %d bytes since %d", n, size, oldest)
	}
	for voice := range uint64(6) {
		for _, since := range []uint64{0, oldest, 1990, 1999, 2000} {
			want := make(map[Item]bool)
			for _, x := range kept {
				for _, it := range x.Items {
					if x.Voice == voice && x.Time >= since {
						want[it] = true
					}
				}
			}
			got := make(map[Item]bool)
			for _, it := range b.Of(voice, since) {
				if got[it] {
					t.Fatalf("item %v twice", it)
				}
				got[it] = true
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("voice %d since %d: %d items, want %d", voice, since, len(got), len(want))
			}
		}
	}
}

// TestForgotten checks that forgotten ballots take no memory.
func TestForgotten(t *testing.T) {
	b := New(10 * memory(&Ballot{Items: make([]Item, 100)}))
	var items []weak.Pointer[Item]
	for now := range uint64(50) {
		x := Ballot{Time: now, Items: make([]Item, 100)}
		items = append(items, weak.Make(&x.Items[0]))
		b.Add(x)
	}
	runtime.GC()
	oldest, n := b.Oldest()
	for now, p := range items {
		if kept := p.Value() != nil; kept != (now >= 40) {
			t.Errorf("ballot %d of 50: in memory %v", now, kept)
		}
	}
	if oldest != 40 || n != 10 {
		t.Errorf("%d ballots since %d, want 10 since 40", n, oldest)
	}
	runtime.KeepAlive(b)
}

// TestEmpty checks that a book without room keeps nothing.
func TestEmpty(t *testing.T) {
	b := New(0)
	b.Add(Ballot{Voice: 1, Time: 7})
	if oldest, n := b.Oldest(); oldest != 0 || n != 0 || b.Of(1, 0) != nil {
		t.Errorf("%d ballots since %d", n, oldest)
	}
}

// TestFormat compares the form on disk with its description, and checks that anything else
// is refused.
func TestFormat(t *testing.T) {
	x := Ballot{Voice: 0x0807060504030201, Time: 300, Items: []Item{
		{Key: filter.Key{Hi: 0x1817161514131211, Lo: 0x2827262524232221}, Facet: bulkhead.LinkFacet},
		{Key: filter.Key{Hi: 1, Lo: 2}, Facet: bulkhead.TextFacet, Pair: true},
	}}
	want := "0102030405060708" + "ac02" + "02" + "1112131415161718" + "2122232425262728" + "0200" + "0100000000000000" +
		"0200000000000000" + "0101"
	data := x.Append(nil)
	if got := hex.EncodeToString(data); got != want {
		t.Errorf("%+v is %s, want %s", x, got, want)
	}
	got, rest, err := Read(append(data, "rest"...))
	if err != nil || !reflect.DeepEqual(got, x) || string(rest) != "rest" {
		t.Errorf("read %+v, rest %q, %v; want %+v", got, rest, err, x)
	}
	for n := range data {
		if got, _, err := Read(data[:n]); !errors.Is(err, errFormat) {
			t.Errorf("%d bytes of %d: %+v, %v", n, len(data), got, err)
		}
	}
	neither := slices.Clone(data)
	neither[len(neither)-1] = 2
	if _, _, err := Read(neither); !errors.Is(err, errFormat) {
		t.Errorf("an item that is a pair and is none: %v", err)
	}
	for n, ok := range map[int]bool{maxItems: true, maxItems + 1: false} {
		x := Ballot{Items: make([]Item, n)}
		if _, _, err := Read(x.Append(nil)); (err == nil) != ok {
			t.Errorf("%d items: %v", n, err)
		}
	}
	b := New(1000)
	for _, bad := range [][]byte{nil, {version + 1}, {version, 0}} {
		if err := b.Decode(bad); !errors.Is(err, errFormat) {
			t.Errorf("%x: %v", bad, err)
		}
	}
	if got := encoded(b); !slices.Equal(got, []byte{1}) {
		t.Errorf("no ballots are %x, want the version 01", got)
	}
}

func FuzzDecode(f *testing.F) {
	b := New(1 << 20)
	b.Add(Ballot{Voice: 1, Time: 1 << 31, Items: []Item{item(1), item(3)}})
	b.Add(Ballot{Voice: 2, Time: 1<<31 + 5})
	f.Add(encoded(b))
	f.Add([]byte{version})
	f.Add([]byte{version, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, data []byte) {
		b := New(1 << 20)
		if b.Decode(data) != nil {
			if _, n := b.Oldest(); n > 0 {
				t.Fatal("ballots of what was refused")
			}
			return
		}
		again := New(1 << 20)
		if err := again.Decode(encoded(b)); err != nil {
			t.Fatalf("what was encoded does not decode: %v", err)
		}
	})
}
