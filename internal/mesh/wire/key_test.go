package wire

import (
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// TestParseHint checks that only the text of a hint is read as one.
func TestParseHint(t *testing.T) {
	h := Hint{1, 2, 3, 4, 5, 6, 7, 0xab}
	if got, ok := ParseHint(h.String()); !ok || got != h {
		t.Errorf("%s is read as %v, %v", h, got, ok)
	}
	for _, bad := range []string{"", "0102030405060", "01020304050607AB", "01020304050607abff", "01020304050607zz"} {
		if got, ok := ParseHint(bad); ok {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
}

// TestSuccessionText checks that a proof is read as it was written, and that no other text is read.
func TestSuccessionText(t *testing.T) {
	if text := (*Succession)(nil).Text(); text != "" || ParseSuccession(text) != nil {
		t.Errorf("no proof is %q", text)
	}
	to := newKeyPair(t)
	proof := newSuccession(t, to)
	if got := ParseSuccession(proof.Text()); got == nil || *got != *proof || !got.Names(to.Public()) {
		t.Errorf("read %+v, want %+v", got, proof)
	}
	for _, bad := range []string{proof.Text()[1:], proof.Text() + "AAAA", "!" + proof.Text()[1:]} {
		if got := ParseSuccession(bad); got != nil {
			t.Errorf("%q is read as %+v", bad, got)
		}
	}
}

// TestParsePublic checks that a key has one spelling.
func TestParsePublic(t *testing.T) {
	key := newKeyPair(t).Public()
	id := key.ID()
	if got, err := ParsePublic(id); err != nil || got != key {
		t.Errorf("%s is read as %v, %v", id, got, err)
	}
	for _, bad := range []string{"", id[1:], id + "A", strings.ToLower(id), "A" + id[1:], id[:9] + "\n" + id[9:]} {
		if got, err := ParsePublic(bad); err == nil || got != (Public{}) {
			t.Errorf("%q is read as %v, %v", bad, got, err)
		}
	}
}

// TestSender checks who may publish under a topic: the origin of what it has, or the node that asks.
func TestSender(t *testing.T) {
	origin, asks := Hint{1}, Hint{2}
	for kind, want := range map[Kind]Hint{KindHead: origin, KindDelta: origin, KindImage: origin, KindAsk: asks} {
		if got, ok := (Topic{Kind: kind, Origin: origin, Key: asks.String()}).Sender(); !ok || got != want {
			t.Errorf("%c: %v, %v; want %v", kind, got, ok, want)
		}
	}
	if got, ok := (Topic{Kind: KindAsk, Origin: origin, Key: "none"}).Sender(); ok {
		t.Errorf("a topic without a sender: %v", got)
	}
}

// TestPast checks which versions a message proves that its sender had.
func TestPast(t *testing.T) {
	stamp := Stamp{Incarnation: 1, Boot: 2, Seq: 3, At: 4}
	x, y, z := Ref{engine.ArrayCounts, 5}, Ref{engine.ArraySpam, 6}, Ref{engine.ArrayRevoked, 7}
	for kind, want := range map[Kind]map[Ref]uint64{KindHead: {x: 8, y: 9}, KindImage: {x: 8, y: 9, z: 10}} {
		m := &Message{Kind: kind, Stamp: stamp, Heads: []ArrayHead{{Ref: x, Version: 8}},
			Rounds: []Round{{Ref: y, From: 1, To: 9}}, Image: Image{Ref: z, At: 10}}
		p := m.Past()
		if p.Stamp != stamp || len(p.Arrays) != len(want) {
			t.Errorf("%c: %+v", kind, p)
		}
		for _, a := range p.Arrays {
			if a.Version != want[a.Ref] || a.Boot != stamp.Boot {
				t.Errorf("%c: %+v, want version %d of process %d", kind, a, want[a.Ref], stamp.Boot)
			}
		}
	}
}

// TestKeepKnown checks what is left of a message about arrays of secrets that this node never had.
func TestKeepKnown(t *testing.T) {
	of := func(id uint64) filter.Geometry { return filter.Geometry{KeyID: id} }
	for name, tt := range map[string]struct {
		m             Message
		heads, rounds int
		want          bool
	}{
		"an image":         {Message{Kind: KindImage, Image: Image{Geometry: of(1)}}, 0, 0, true},
		"an unknown image": {Message{Kind: KindImage, Image: Image{Geometry: of(2)}}, 0, 0, false},
		"a head": {Message{Kind: KindHead, Heads: []ArrayHead{{Geometry: of(1)}, {Geometry: of(2)}}},
			1, 0, true},
		"a head of unknown arrays": {Message{Kind: KindHead, Heads: []ArrayHead{{Geometry: of(2)}}}, 0, 0, true},
		"rounds": {Message{Kind: KindDelta, Rounds: []Round{{Announce: true, Geometry: of(1)},
			{Announce: true, Geometry: of(2)}, {}}}, 0, 2, true},
		"unknown rounds": {Message{Kind: KindDelta, Rounds: []Round{{Announce: true, Geometry: of(2)}}}, 0, 0, false},
		"no rounds":      {Message{Kind: KindDelta}, 0, 0, true},
	} {
		got := tt.m.KeepKnown(func(id uint64) bool { return id == 1 })
		if got != tt.want || len(tt.m.Heads) != tt.heads || len(tt.m.Rounds) != tt.rounds {
			t.Errorf("%s: %v, %d heads, %d rounds", name, got, len(tt.m.Heads), len(tt.m.Rounds))
		}
	}
}

// TestAhead checks each time of a stamp against the limit, and a clock before 1970.
func TestAhead(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	limit := uint64(now.Add(MaxAhead).UnixMilli())
	for _, at := range []func(*Stamp) *uint64{
		func(s *Stamp) *uint64 { return &s.Incarnation }, func(s *Stamp) *uint64 { return &s.Boot },
		func(s *Stamp) *uint64 { return &s.At },
	} {
		var s Stamp
		*at(&s) = limit
		if s.Ahead(now) {
			t.Errorf("%+v is ahead of the limit %d", s, limit)
		}
		*at(&s) = limit + 1
		if !s.Ahead(now) {
			t.Errorf("%+v is not ahead of the limit %d", s, limit)
		}
	}
	early := time.UnixMilli(0).Add(-2 * MaxAhead)
	if (Stamp{}).Ahead(early) || !(Stamp{At: 1}).Ahead(early) {
		t.Error("a clock before 1970 lets a stamp be ahead by more than nothing")
	}
}

// TestFloorIndex checks which floor of a head is of which array.
func TestFloorIndex(t *testing.T) {
	for a, want := range map[engine.Array]int{engine.ArrayCounts: 0, engine.ArraySpam: 1, engine.ArrayRevoked: 1} {
		if got := FloorIndex(a); got != want {
			t.Errorf("%s has floor %d, want %d", a, got, want)
		}
	}
}

// TestRoundCost checks that a waiting round is charged for its data and its statement.
func TestRoundCost(t *testing.T) {
	r := &Round{Data: make([]byte, 7), Statement: make([]byte, 30)}
	if got := r.Cost(); got != RoundCost+37 {
		t.Errorf("cost %d, want %d", got, RoundCost+37)
	}
}
