package ballots

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
)

func item(n int) Item {
	return Item{Key: filter.Key{Hi: uint64(n), Lo: ^uint64(n)}, Facet: bulkhead.Facet(n % 8), Pair: n%3 == 0}
}

// TestBook: beside a plain list, of which the book keeps as much as has room.
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
		b.Add(x)
		if now%97 == 0 {
			data := b.Encode()
			b = New(40_000)
			if err := b.Decode(data); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(b.Encode(), data) {
				t.Fatal("what was decoded encodes as something else")
			}
		}
	}
	oldest, n := b.Oldest()
	kept, size := all[len(all)-n:], 0
	for i := range kept {
		size += kept[i].bytes()
	}
	if kept[0].Time != oldest || size > 40_000 || size+all[len(all)-n-1].bytes() <= 40_000 {
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

func FuzzDecode(f *testing.F) {
	b := New(1 << 20)
	b.Add(Ballot{Voice: 1, Time: 1 << 31, Items: []Item{item(1), item(3)}})
	b.Add(Ballot{Voice: 2, Time: 1<<31 + 5})
	f.Add(b.Encode())
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
		if err := again.Decode(b.Encode()); err != nil {
			t.Fatalf("what was encoded does not decode: %v", err)
		}
	})
}
