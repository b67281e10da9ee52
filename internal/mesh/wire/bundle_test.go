package wire

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"
)

// randomBundle returns up to most heads.
func randomBundle(rng *rand.Rand, most int) []BundledHead {
	list := []BundledHead{}
	for range rng.IntN(most + 1) {
		h := BundledHead{Network: rng.Uint64(), Origin: Hint{byte(rng.Uint32()), byte(rng.Uint32())}}
		if rng.IntN(2) == 0 {
			h.Still = HeadSum{byte(rng.Uint32()), 7: 1}
			h.Data = []byte{}
		} else {
			h.Data = bytes.Repeat([]byte{byte(rng.Uint32())}, 1+rng.IntN(300))
		}
		list = append(list, h)
	}
	return list
}

// TestBundle checks that a bundle is read as it was written, and that none of its beginnings is a bundle.
func TestBundle(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		want := randomBundle(rng, 9)
		raw := AppendBundle(nil, want)
		got, err := ParseBundle(raw)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, %v; want %+v", got, err, want)
		}
		if got, err := ParseBundle(raw[:rng.IntN(len(raw))]); err == nil {
			t.Fatalf("a beginning of %d bytes is a bundle of %d heads", len(raw), len(got))
		}
		if got, err := ParseBundle(append(raw, 0)); err == nil {
			t.Fatalf("a bundle with a byte too many has %d heads", len(got))
		}
	}
}

// FuzzParseBundle checks that what is read as a bundle is written back the same, and takes no more memory
// than the bytes allow.
func FuzzParseBundle(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 3))
	f.Add([]byte{})
	f.Add([]byte{2, 0})
	f.Add([]byte{bundleVersion, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	for n := range 5 {
		raw := AppendBundle(nil, randomBundle(rng, 2*n))
		f.Add(raw)
		f.Add(raw[:len(raw)*2/3])
		f.Add(append(raw, 7))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := ParseBundle(b)
		if err != nil {
			return
		}
		if len(list) > len(b)/(8+len(Hint{})) {
			t.Errorf("%d heads in %d bytes", len(list), len(b))
		}
		again, err := ParseBundle(AppendBundle(nil, list))
		if err != nil || len(again) != len(list) {
			t.Fatalf("%d heads, then %d: %v", len(list), len(again), err)
		}
		for i := range list {
			if a, b := list[i], again[i]; a.Network != b.Network || a.Origin != b.Origin || !bytes.Equal(a.Data, b.Data) ||
				a.Still != b.Still {
				t.Errorf("%+v, then %+v", a, b)
			}
		}
	})
}

// TestContent checks that the sum of a head changes with all of it but its number and time.
func TestContent(t *testing.T) {
	id := newKeyPair(t)
	sum := func(edit func(*Message)) HeadSum {
		t.Helper()
		m := &Message{Kind: KindHead, Name: "node", From: id.Public().Hint(), KeyID: 1,
			Stamp: Stamp{Incarnation: 5, Boot: 7, Seq: 1, At: 9}, Floors: [2]uint64{3, 4},
			Organisations: []Organisation{{1}, {2}}}
		edit(m)
		e, err := OpenEnvelope(AppendMessage(nil, m, id))
		if err != nil {
			t.Fatal(err)
		}
		s, out, ok := e.Content()
		if !ok || s != m.Stamp {
			t.Fatalf("stamp %+v, %v; want %+v", s, ok, m.Stamp)
		}
		return out
	}
	base := sum(func(*Message) {})
	if got := sum(func(m *Message) { m.Stamp.Seq, m.Stamp.At = 70_000, 1<<40 }); got != base {
		t.Error("number and time change the sum")
	}
	for name, edit := range map[string]func(*Message){
		"incarnation":   func(m *Message) { m.Stamp.Incarnation = 6 },
		"boot":          func(m *Message) { m.Stamp.Boot = 8 },
		"name":          func(m *Message) { m.Name = "mode" },
		"floor":         func(m *Message) { m.Floors[1] = 5 },
		"organisations": func(m *Message) { m.Organisations = m.Organisations[:1] },
	} {
		if sum(edit) == base {
			t.Errorf("another %s does not change the sum", name)
		}
	}
}
