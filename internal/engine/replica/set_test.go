package replica

import (
	"errors"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
)

var now = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

var today = uint64(now.Truncate(24 * time.Hour).Unix())

func newSet(t *testing.T, origins ...Origin) *Set {
	t.Helper()
	s := NewSet(Options{
		Known: ofSeven, Now: func() time.Time { return now }, Promotion: func() float64 { return 1 },
		Tally:      book.Options{Generation: 24 * time.Hour, Keep: 3, Capacity: 100, Error: 1e-2},
		Block:      book.Options{Generation: 7 * 24 * time.Hour, Keep: 8, Capacity: 100, Error: 1e-4},
		Checkpoint: func() { t.Error("a checkpoint is asked for, though nothing is cold") },
	})
	s.SetOrigins(origins)
	return s
}

// A sender is the counts of an origin.
type sender struct {
	t     *testing.T
	array *arrays.Counting
	index uint64
}

func newSender(t *testing.T) *sender {
	t.Helper()
	c, err := arrays.NewCounting(filter.Geometry{Kind: filter.Cells, Lines: 3072, K: 4, KeyID: 7})
	if err != nil {
		t.Fatal(err)
	}
	c.SetGeneration(today)
	return &sender{t: t, array: c}
}

func key(n uint64) filter.Key {
	return filter.Key{Hi: n * 0x9e3779b97f4a7c15, Lo: n * 0xc2b2ae3d27d4eb4f}
}

// round counts a key once and returns the part for peers.
func (s *sender) round(n uint64) Part {
	r := s.array.NewRound()
	keys, ones, before := []filter.Key{key(n)}, []uint32{1}, make([]uint32, 1)
	s.index++
	s.array.AddBatch(s.index, keys, ones, before)
	r.Record(keys, ones, before)
	r.Close()
	return Part{Array: ArrayCounts, Start: today, Geometry: r.Geometry, Round: r.AppendBody(nil), From: r.From, To: r.To,
		Boot: 3}
}

func (s *sender) images() (out []Part) {
	for p := range s.array.Pages() {
		m := s.array.Image(p)
		out = append(out, Part{Array: ArrayCounts, Start: today, Geometry: m.Geometry, Image: m.Append(nil),
			At: s.array.Version(), Boot: 3})
	}
	return out
}

func parseAll(s *Set, parts []Part) ([]Parsed, error) {
	parsed := make([]Parsed, len(parts))
	for i, part := range parts {
		var err error
		if parsed[i], err = s.Parse(part); err != nil {
			return nil, err
		}
	}
	return parsed, nil
}

// take makes a set take parts as the writer does.
func take(s *Set, index uint64, origin string, parts ...Part) error {
	parsed, err := parseAll(s, parts)
	if err != nil {
		return err
	}
	if err := s.Prepare(origin, parsed); err != nil {
		return err
	}
	return s.Apply(index, origin, parsed, false)
}

func count(v *View, n uint64) (sum uint32) {
	out := make([]uint32, 1)
	for _, r := range v.Origins {
		for _, g := range r.Tally {
			g.Counts.CountBatch([]filter.Key{key(n)}, out)
			sum += out[0]
		}
	}
	return sum
}

// TestRounds checks that a replica takes the rounds of its origin in order, and none that
// does not continue it; that images close the gap; and that a view never changes.
func TestRounds(t *testing.T) {
	s, from := newSet(t, Origin{"a", 1}), newSender(t)
	before := s.View()
	first, second, third := from.round(1), from.round(1), from.round(2)
	if err := take(s, 1, "a", second); !errors.Is(err, ErrGap) {
		t.Errorf("the second round first: %v, want %v", err, ErrGap)
	}
	if err := take(s, 1, "a", first, second); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Errorf("two rounds at once: %v, want %v", err, bulkhead.ErrMalformed)
	}
	if err := take(s, 1, "b", first); !errors.Is(err, bulkhead.ErrForbidden) {
		t.Errorf("of an origin that does not count: %v, want %v", err, bulkhead.ErrForbidden)
	}
	if len(s.Arrays("a")) != 0 {
		t.Fatal("what was refused left an array")
	}
	if err := take(s, 1, "a", first); err != nil {
		t.Fatal(err)
	}
	if err := take(s, 2, "a", third); !errors.Is(err, ErrGap) {
		t.Errorf("a round was lost: %v, want %v", err, ErrGap)
	}
	images := from.images()
	if err := take(s, 3, "a", images[:1]...); err != nil {
		t.Fatal(err)
	}
	partial := s.Arrays("a")[0].Partial
	if err := take(s, 4, "a", from.round(3)); !errors.Is(err, ErrGap) || partial == 0 {
		t.Errorf("a round while images of version %d are missing: %v, want %v", partial, err, ErrGap)
	}
	if err := take(s, 5, "a", from.images()...); err != nil {
		t.Fatal(err)
	}
	got := s.Arrays("a")
	if len(got) != 1 || got[0].Version != from.array.Version() || got[0].Partial != 0 || got[0].Boot != 3 {
		t.Fatalf("%+v, want version %d of boot 3", got, from.array.Version())
	}
	for n, want := range map[uint64]uint32{1: 2, 2: 1, 3: 1, 4: 0} {
		if c := count(s.View(), n); c != want {
			t.Errorf("key %d is counted %d times, want %d", n, c, want)
		}
	}
	if len(before.Origins) != 1 || len(before.Origins[0].Tally) != 0 {
		t.Error("an old view has changed")
	}
}

func TestParts(t *testing.T) {
	s, from := newSet(t, Origin{"a", 1}), newSender(t)
	good := from.round(1)
	for name, change := range map[string]func(*Part){
		"other array":     func(p *Part) { p.Array = "weights" },
		"other kind":      func(p *Part) { p.Array = ArraySpam },
		"other network":   func(p *Part) { p.Geometry.KeyID = 8 },
		"too large":       func(p *Part) { p.Geometry.Lines = maxRemoteLines + 1024 },
		"other start":     func(p *Part) { p.Round, p.Image, p.Start = nil, from.images()[0].Image, p.Start+1 },
		"other end":       func(p *Part) { p.To++ },
		"nothing":         func(p *Part) { p.Round = nil },
		"round and image": func(p *Part) { p.Image = from.images()[0].Image },
		"cut":             func(p *Part) { p.Round = p.Round[:len(p.Round)-1] },
	} {
		bad := good
		change(&bad)
		if _, err := s.Parse(bad); !errors.Is(err, bulkhead.ErrMalformed) && !errors.Is(err, bulkhead.ErrGeometry) &&
			!errors.Is(err, bulkhead.ErrOverLimit) {
			t.Errorf("%s: %v, want it refused", name, err)
		}
	}
	if err := take(s, 1, "a", good); err != nil {
		t.Fatal(err)
	}
	other := newSender(t)
	other.array, _ = arrays.NewCounting(filter.Geometry{Kind: filter.Cells, Lines: 1024, K: 4, KeyID: 7})
	other.array.SetGeneration(today)
	if err := take(s, 2, "a", other.round(1)); !errors.Is(err, bulkhead.ErrGeometry) {
		t.Errorf("another geometry: %v, want %v", err, bulkhead.ErrGeometry)
	}
}

func TestOrigins(t *testing.T) {
	for _, bad := range [][]Origin{
		{{"", 1}}, {{"a b", 1}}, {{"a", 1}, {"a", 0.5}}, {{"a", -0.1}}, {{"a", 1.1}},
	} {
		if err := CheckOrigins(bad); !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("origins %v: %v, want %v", bad, err, bulkhead.ErrMalformed)
		}
	}
	if err := CheckOrigins([]Origin{{"a", 0}, {"b", 1}}); err != nil {
		t.Error(err)
	}
	s, from := newSet(t, Origin{"a", 1}, Origin{"b", 0.5}), newSender(t)
	if err := take(s, 1, "a", from.round(1)); err != nil {
		t.Fatal(err)
	}
	if err := s.CheckName("a", "b"); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Errorf("a name that is taken: %v, want %v", err, bulkhead.ErrMalformed)
	}
	if err := s.CheckName("x", "c"); !errors.Is(err, bulkhead.ErrForbidden) {
		t.Errorf("an origin that does not count: %v, want %v", err, bulkhead.ErrForbidden)
	}
	s.Rename("a", "c")
	s.SetOrigins([]Origin{{"c", 0.25}})
	if got := s.View().Origins; len(got) != 1 || got[0].Origin != (Origin{"c", 0.25}) || count(s.View(), 1) != 1 {
		t.Errorf("renamed and given another weight: %+v, %d", got, count(s.View(), 1))
	}
	if err := s.CheckRenewal("c", 0); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Errorf("the incarnation that it has: %v, want %v", err, bulkhead.ErrMalformed)
	}
	if err := s.CheckRenewal("c", 5); err != nil {
		t.Error(err)
	}
	s.Renew("c", 5)
	if s.Incarnation("c") != 5 || s.Incarnation("a") != 0 || len(s.Arrays("c")) != 0 ||
		s.View().Origins[0].Weight != 0.25 {
		t.Errorf("renewed: incarnation %d, %v", s.Incarnation("c"), s.Arrays("c"))
	}
}

// TestForgotten checks that nothing is left of a generation that was forgotten or has expired, so
// that the origin can send it again.
func TestForgotten(t *testing.T) {
	s := newSet(t, Origin{"a", 1})
	for _, forget := range []func(){
		func() { s.Forget("a", today) },
		func() {
			s.opts.Now = func() time.Time { return now.Add(72 * time.Hour) }
			s.DropExpired()
		},
	} {
		from := newSender(t)
		if err := take(s, 1, "a", from.round(1)); err != nil {
			t.Fatal(err)
		}
		s.Forget("a", today+1)
		if len(s.Arrays("a")) != 1 {
			t.Error("an older generation was forgotten")
		}
		forget()
		if r := s.View().origin("a"); len(r.arrays) != 0 || len(r.marks) != 0 || len(r.Tally) != 0 {
			t.Errorf("%d arrays, marks %v, want none", len(r.arrays), r.marks)
		}
	}
}

// ofSeven knows the one secret that the tests' arrays are made with.
func ofSeven(keyID uint64) bool { return keyID == 7 }
