package arrays

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

// floored returns an empty array with a floor.
func floored(t tester, g Geometry, floor uint32) *Counting {
	t.Helper()
	c := mustCounting(t, g)
	if err := c.SetFloor(floor); err != nil {
		t.Fatal(err)
	}
	return c
}

// copyOf returns an array made of images of what another array shows to others.
func copyOf(t tester, a Above) *Counting {
	t.Helper()
	c := mustCounting(t, a.Geometry())
	for p := range a.Pages() {
		if err := c.Load(a.Image(p)); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// TestFloor checks that replicas made of rounds, of images, and of images and then rounds equal
// each other cell by cell. They have the full count of each key that has reached the floor, and no
// count of any other key.
func TestFloor(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for _, g := range []Geometry{{Kind: Cells, Lines: 3 * PageLines, K: 6, KeyID: 7}, {Kind: Cells, Lines: 9, K: 3}} {
		for _, floor := range []uint32{0, 1, 2, 3, 7, MaxFloor} {
			own, byRounds := floored(t, g, floor), mustCounting(t, g)
			late := byRounds
			keys := make([]Key, 40*min(g.Lines, 60))
			truth := make(map[Key]uint32)
			for i := range keys {
				keys[i] = Key{Hi: rng.Uint64(), Lo: rng.Uint64()}
			}
			for step := range 12 {
				r := own.Above().NewRound()
				for range 3 {
					batch, n := make([]Key, rng.IntN(600)), make([]uint32, 600)
					for i := range batch {
						batch[i] = keys[int(float64(len(keys))*rng.Float64()*rng.Float64())]
						if n[i] = 1; rng.IntN(20) == 0 {
							n[i] = rng.Uint32N(40)
						}
						truth[batch[i]] += n[i]
					}
					before := make([]uint32, len(batch))
					own.AddBatch(0, batch, n[:len(batch)], before)
					r.Record(batch, n[:len(batch)], before)
				}
				r.Close()
				for _, part := range r.Split(1 + rng.IntN(300)) {
					for _, c := range slices.Compact([]*Counting{byRounds, late}) {
						if err := c.ApplyRound(0, throughWire(t, part, g), false); err != nil {
							t.Fatal(err)
						}
					}
				}
				if step == 5 {
					late = copyOf(t, own.Above())
				}
			}
			if v := own.Above().Version(); byRounds.Version() != v || byRounds.Keys() != own.Above().Keys() {
				t.Errorf("floor %d: a replica at version %d with %d keys, want %d and %d", floor, byRounds.Version(),
					byRounds.Keys(), v, own.Above().Keys())
			}
			for p := range g.Pages() {
				want := own.Above().Image(p)
				for name, c := range map[string]*Counting{"rounds": byRounds, "images and rounds": late,
					"images": copyOf(t, own.Above())} {
					if !c.Image(p).Equal(want) {
						t.Fatalf("%v, floor %d, page %d: a replica made of %s differs from what is shown", g, floor, p, name)
					}
				}
			}
			for _, k := range keys {
				here, there := own.Count(k), byRounds.Count(k)
				want := here
				if here < max(1, floor) {
					want = 0
				}
				if there != want || here < truth[k] {
					t.Fatalf("floor %d: a key counted %d times is at %d, and at %d for others, want %d", floor, truth[k],
						here, there, want)
				}
			}
		}
	}
}

// TestFloorHides checks that the shown content is the same, byte by byte, with and without keys
// below the floor.
func TestFloorHides(t *testing.T) {
	g := Geometry{Kind: Cells, Lines: 2 * PageLines, K: 6, KeyID: 7}
	rng := rand.New(rand.NewPCG(13, 14))
	const floor = 3
	without, with := floored(t, g, floor), floored(t, g, floor)
	seen, hidden := without.Above().NewRound(), with.Above().NewRound()
	add := func(c *Counting, r *Round, k Key, n uint32) {
		keys, ns, before := []Key{k}, []uint32{n}, []uint32{0}
		c.AddBatch(0, keys, ns, before)
		r.Record(keys, ns, before)
	}
	lines := make(map[uint64]bool) // lines of keys above the floor: other keys there might change counts
	for range 300 {
		k, n := Key{Hi: rng.Uint64(), Lo: rng.Uint64()}, floor+rng.Uint32N(20)
		lines[line(k.Hi, g.Lines)] = true
		add(without, seen, k, n)
		add(with, hidden, k, n)
	}
	below := 0
	for below < 300 {
		k := Key{Hi: rng.Uint64(), Lo: rng.Uint64()}
		if at := line(k.Hi, g.Lines); !lines[at] {
			lines[at] = true
			below++
			for range 1 + below%(floor-1) {
				add(with, hidden, k, 1)
			}
		}
	}
	if with.Keys() != 600 || with.Above().Keys() != 300 {
		t.Fatalf("%d keys, of which %d are shown; want 600 and 300", with.Keys(), with.Above().Keys())
	}
	seen.Close()
	hidden.Close()
	if !bytes.Equal(seen.AppendBody(nil), hidden.AppendBody(nil)) {
		t.Error("a round shows that there are keys below the floor")
	}
	for p := range g.Pages() {
		if !bytes.Equal(without.Above().Image(p).Append(nil), with.Above().Image(p).Append(nil)) {
			t.Errorf("the image of page %d shows that there are keys below the floor", p)
		}
	}
}

// TestFloorOnDisk checks that pages keep their shown content, that journal entries are counted once
// whatever pages have seen of them, and that pages with a different floor are refused.
func TestFloorOnDisk(t *testing.T) {
	g := Geometry{Kind: Cells, Lines: 4 * PageLines, K: 5, KeyID: 7}
	rng := rand.New(rand.NewPCG(15, 16))
	const floor = 4
	own, restored := floored(t, g, floor), floored(t, g, floor)
	var entries [][]Key
	for range 20 {
		var keys []Key
		for range 200 {
			keys = append(keys, Key{Hi: uint64(rng.IntN(100)) << 57, Lo: uint64(rng.IntN(4))})
		}
		entries = append(entries, keys)
	}
	ones := slices.Repeat([]uint32{1}, 200)
	for i, keys := range entries {
		if i%5 == 3 { // a checkpoint, with each page at a different moment
			p := i / 5
			if _, err := restored.LoadPage(own.AppendPage(nil, p)); err != nil {
				t.Fatal(err)
			}
		}
		own.AddBatch(uint64(i+1), keys, ones, nil)
	}
	for i, keys := range entries {
		restored.AddBatch(uint64(i+1), keys, ones, nil)
	}
	if own.Above().Version() == 0 || own.Above().Version() == own.Version() {
		t.Fatalf("%d of %d changes are shown: the test shows nothing", own.Above().Version(), own.Version())
	}
	for p := range g.Pages() {
		if m := own.Image(p); m.Floor() != floor || !restored.Image(p).Equal(m) {
			t.Errorf("page %d with a floor of %d differs after a restart", p, m.Floor())
		}
	}
	page := own.AppendPage(nil, 0)
	for name, c := range map[string]*Counting{"none": mustCounting(t, g), "another": floored(t, g, floor+1)} {
		if _, err := c.LoadPage(page); !errors.Is(err, ErrGeometry) || c.Keys() != 0 {
			t.Errorf("an array with %s floor took a page: %v", name, err)
		}
	}
	// The content shown to others can replace a lost page.
	refilled := floored(t, g, floor)
	for p := range g.Pages() {
		if err := refilled.Load(own.Above().Image(p)); err != nil {
			t.Fatal(err)
		}
		if !refilled.Above().Image(p).Equal(own.Above().Image(p)) {
			t.Errorf("page %d, refilled from what was shown, shows something else", p)
		}
	}
}

func TestFloorRefused(t *testing.T) {
	c := mustCounting(t, Geometry{Kind: Cells, Lines: 1, K: 3})
	if err := c.SetFloor(MaxFloor + 1); !errors.Is(err, ErrGeometry) {
		t.Errorf("a floor of %d: %v", MaxFloor+1, err)
	}
	c.Add(Key{Hi: 1, Lo: 1}, 1)
	if err := c.SetFloor(2); !errors.Is(err, ErrGeometry) {
		t.Errorf("a floor under an array in use: %v", err)
	}
}

// TestNibblesFromOn compares the result with single nibbles.
func TestNibblesFromOn(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 18))
	for range 1000 {
		w := rng.Uint64()
		for floor := uint32(1); floor <= MaxFloor; floor++ {
			want := uint64(0)
			for s := 0; s < 64; s += 4 {
				if v := w >> s & 15; v >= uint64(floor) {
					want |= v << s
				}
			}
			if got := fromOn(w, floor); got != want {
				t.Fatalf("%016x from %d on is %016x, want %016x", w, floor, got, want)
			}
		}
	}
}

// TestFloorPages checks that the fields that describe the shown content of a page are validated.
func TestFloorPages(t *testing.T) {
	g := Geometry{Kind: Cells, Lines: 8, K: 4}
	c := floored(t, g, 2)
	for i := range 50 {
		c.Add(Key{Hi: uint64(i) << 58, Lo: uint64(i % 7)}, uint32(1+i%3))
	}
	good := c.AppendPage(nil, 0)
	if m, err := ParseImage(good, g); err != nil || m.Floor() != 2 || m.Info != c.PageInfo(0) {
		t.Fatalf("%+v, %v; want %+v", m, err, c.PageInfo(0))
	}
	for name, edit := range map[string]func(b []byte){
		"floor 1":                  func(b []byte) { b[7] = 1 },
		"floor 16":                 func(b []byte) { b[7] = MaxFloor + 1 },
		"more shown than changed":  func(b []byte) { b[pageHeader+7] = 1 },
		"more keys than changes":   func(b []byte) { b[pageHeader+15] = 1 },
		"no floor, but what shows": func(b []byte) { b[7] = 0 },
	} {
		b := bytes.Clone(good)
		edit(b)
		if _, err := ParseImage(reseal(b), g); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	short := bytes.Clone(good[:pageHeader+pageShown-1])
	short[52], short[53] = pageShown-1, 0
	if _, err := ParseImage(reseal(short), g); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a payload of %d bytes: %v", pageShown-1, err)
	}
	bits := Geometry{Kind: Bitmap, Lines: 8, K: 8}
	b := mustBits(t, bits).AppendPage(nil, 0)
	b[7] = 2
	if _, err := ParseImage(reseal(b), bits); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a floor of a bit array: %v", err)
	}
}

// TestOrderWithinLines checks two properties. Adds that may change places, since no two have a cell
// in common, give the same round in any order. With any other adds, a replica that applies the
// round still equals the array.
func TestOrderWithinLines(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 20))
	for _, g := range []Geometry{{Kind: Cells, Lines: 4, K: 6}, {Kind: Bitmap, Lines: 4, K: 8},
		{Kind: Bitmap, Lines: 4, K: 16}} {
		for range 50 {
			var keys []Key
			probe := &Round{Geometry: g}
			for len(keys) < 12 { // pairwise without common cells, on few lines
				k := Key{Hi: rng.Uint64(), Lo: rng.Uint64()}
				probe.ops = probe.ops[:0]
				record(probe, append(slices.Clone(keys), k))
				last := probe.ops[len(keys)]
				if !slices.ContainsFunc(probe.ops[:len(keys)], func(o op) bool {
					return o.line == last.line &&
						probe.meet(o.code, last.code)
				}) {
					keys = append(keys, k)
				}
			}
			var first []byte
			for range 3 {
				r := &Round{Geometry: g}
				record(r, keys)
				r.Close()
				b := r.AppendBody(nil)
				if first == nil {
					first = b
				} else if !bytes.Equal(first, b) {
					t.Fatalf("%v: a round shows in which order adds came that do not touch each other", g)
				}
				rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
			}
		}
	}
	for range 200 { // crowded lines, where most adds touch
		g := Geometry{Kind: Cells, Lines: 2, K: 3}
		own, replica := mustCounting(t, g), mustCounting(t, g)
		r := own.NewRound()
		keys, n, before := make([]Key, 60), make([]uint32, 60), make([]uint32, 60)
		for i := range keys {
			keys[i], n[i] = Key{Hi: rng.Uint64(), Lo: uint64(rng.IntN(30))}, 1+rng.Uint32N(9)
		}
		own.AddBatch(0, keys, n, before)
		r.Record(keys, n, before)
		r.Close()
		if err := replica.ApplyRound(0, throughWire(t, r, g), false); err != nil {
			t.Fatal(err)
		}
		if !replica.Image(0).Equal(own.Image(0)) {
			t.Fatal("a replica differs from an array whose adds changed places")
		}
	}
}

// record records keys that are all new.
func record(r *Round, keys []Key) {
	if r.Geometry.Kind == Bitmap {
		r.RecordBits(keys, make([]bool, len(keys)))
	} else {
		r.Record(keys, slices.Repeat([]uint32{1}, len(keys)), make([]uint32, len(keys)))
	}
}
