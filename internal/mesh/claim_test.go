package mesh

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
)

// claim writes a claim number by number, as message.go describes it.
type claim []byte

func (c claim) v(n ...uint64) claim {
	for _, x := range n {
		c = binary.AppendUvarint(c, x)
	}
	return c
}

func (c claim) b(b ...byte) claim { return append(c, b...) }

// begin starts a claim: incarnation 100, boot 120, sequence 3, time 150.
func begin() claim { return claim(nil).v(100, 20, 3, 30) }

// raw returns the message of a claim, with data and no valid signature.
func (c claim) raw(k kind, data []byte) []byte {
	b := []byte{2, byte(k), 1, 2, 3, 4, 5, 6, 7, 8}
	b = binary.AppendUvarint(b, uint64(len(c)))
	return slices.Concat(b, c, data, make([]byte, 64))
}

// one appends the lineage of an array made by the sender's process.
func (c claim) one() claim { return c.v(1, 0, 7) }

// cells appends a valid geometry.
func (c claim) cells() claim { return c.v(2048).b(6) }

func times(n int, f func(c claim) claim) func(claim) claim {
	return func(c claim) claim {
		for range n {
			c = f(c)
		}
		return c
	}
}

// TestClaims checks that all values which the description of messages allows are read, and values
// one beyond are refused.
func TestClaims(t *testing.T) {
	head := func(parts func(claim) claim) claim { return parts(begin().v(0, 1, 2)) }
	lineage := func(epochs ...uint64) claim {
		return head(func(c claim) claim { return c.v(1).b(0).v(5, 7).cells().v(uint64(len(epochs) / 2)).v(epochs...) })
	}
	delta := func(n uint64, rounds func(claim) claim) claim { return rounds(begin().v(n)) }
	ask := func(wants func(claim) claim) claim { return wants(begin().b(make([]byte, 8)...).v(100, 120)) }
	image := func(pages func(claim) claim) claim { return pages(begin().b(0).v(5, 7).cells().one()) }
	round := func(c claim) claim { return c.b(0).v(5, 1, 2, 0) }
	want := func(c claim) claim { return c.b(1).v(5, 7, 0) }
	anArray := func(c claim) claim { return c.b(0).v(5, 7).cells().one() }
	for name, tt := range map[string]struct {
		kind  kind
		claim claim
		data  []byte
		ok    bool
	}{
		"nothing":                   {kindDelta, delta(0, times(0, nil)), nil, true},
		"data of nothing":           {kindDelta, delta(0, times(0, nil)), []byte{1}, false},
		"something behind it":       {kindDelta, delta(0, times(0, nil)).b(0), nil, false},
		"an incarnation up to 2^62": {kindDelta, claim(nil).v(1<<62, 0, 0, 0, 0), nil, true},
		"above":                     {kindDelta, claim(nil).v(1<<62+1, 0, 0, 0, 0), nil, false},
		"a boot above":              {kindDelta, claim(nil).v(1<<62, 1, 0, 0, 0), nil, false},
		"a boot that wraps":         {kindDelta, claim(nil).v(5, 1<<64-3, 0, 0, 0), nil, false},
		"a time above":              {kindDelta, claim(nil).v(1, 1, 0, 1<<62, 0), nil, false},
		"a stamp that ends":         {kindDelta, claim(nil).v(1, 1, 0), nil, false},
		"1024 rounds":               {kindDelta, delta(1024, times(1024, round)), nil, true},
		"1025 rounds":               {kindDelta, delta(1025, times(1025, round)), nil, false},
		"fewer rounds than said":    {kindDelta, delta(2, round), nil, false},
		"an array that is none": {kindDelta, delta(1, func(c claim) claim {
			return c.b(3).v(5, 1, 2, 0)
		}), nil, false},
		"a flag that is none": {kindDelta, delta(1, func(c claim) claim {
			return c.b(32).v(5, 1, 2, 0)
		}), nil, false},
		"a round of the last versions": {kindDelta, delta(1, func(c claim) claim {
			return c.b(2).v(5, 1<<62-1, 1, 0)
		}), nil, true},
		"a round beyond": {kindDelta, delta(1, func(c claim) claim {
			return c.b(2).v(5, 1<<62-1, 2, 0)
		}), nil, false},
		"data of a round": {kindDelta, delta(1, func(c claim) claim {
			return c.b(0).v(5, 1, 2, 3)
		}), []byte{1, 2, 3}, true},
		"too little data": {kindDelta, delta(1, func(c claim) claim {
			return c.b(0).v(5, 1, 2, 3)
		}), []byte{1, 2}, false},
		"too much data": {kindDelta, delta(1, func(c claim) claim {
			return c.b(0).v(5, 1, 2, 3)
		}), []byte{1, 2, 3, 4}, false},
		"a geometry": {kindDelta, delta(1, func(c claim) claim {
			return c.b(16).v(5, 1, 6).cells().one().v(0)
		}), nil, true},
		"a geometry of no lines": {kindDelta, delta(1, func(c claim) claim {
			return c.b(16).v(5, 1, 6).v(0).b(6).one().v(0)
		}), nil, false},
		"a head of nothing": {kindHead, head(func(c claim) claim { return c.v(0) }), nil, true},
		"an array":          {kindHead, head(func(c claim) claim { return anArray(c.v(1)) }), nil, true},
		"1024 arrays": {kindHead, head(func(c claim) claim {
			return times(1024, anArray)(c.v(1024))
		}), nil, true},
		"1025 arrays": {kindHead, head(func(c claim) claim {
			return times(1025, anArray)(c.v(1025))
		}), nil, false},
		"a name of 64 bytes":      {kindHead, begin().v(64).b(make([]byte, 64)...).v(1, 2, 0), nil, true},
		"of 65":                   {kindHead, begin().v(65).b(make([]byte, 65)...).v(1, 2, 0), nil, false},
		"a name beyond the claim": {kindHead, begin().v(9).b(1, 2, 3), nil, false},
		"a proof": {kindHead, head(func(c claim) claim {
			return c.v(0).b(make([]byte, 128)...)
		}), nil, true},
		"most of a proof": {kindHead, head(func(c claim) claim {
			return c.v(0).b(make([]byte, 127)...)
		}), nil, false},
		"a proof and more": {kindHead, head(func(c claim) claim {
			return c.v(0).b(make([]byte, 129)...)
		}), nil, false},
		"an organisation": {kindHead, head(func(c claim) claim { return c.v(0) }), []byte("aaaaaaaa"), true},
		"two organisations": {kindHead, head(func(c claim) claim {
			return c.v(0)
		}), []byte("aaaaaaaaaaaaaaab"), true},
		"one of them twice": {kindHead, head(func(c claim) claim {
			return c.v(0)
		}), []byte("aaaaaaaaaaaaaaaa"), false},
		"out of order": {kindHead, head(func(c claim) claim {
			return c.v(0)
		}), []byte("baaaaaaaaaaaaaaa"), false},
		"a part of one":      {kindHead, head(func(c claim) claim { return c.v(0) }), []byte("aaaaaaa"), false},
		"4096 organisations": {kindHead, head(func(c claim) claim { return c.v(0) }), organisations(4096), true},
		"4097": {kindHead, head(func(c claim) claim {
			return c.v(0)
		}), organisations(4097), false},
		"no lineage":   {kindHead, lineage(), nil, false},
		"eight epochs": {kindHead, lineage(0, 0, 1, 1, 1, 2, 1, 3, 1, 4, 1, 5, 1, 6, 1, 7), nil, true},
		"nine": {kindHead, lineage(0, 0, 1, 1, 1, 2, 1, 3, 1, 4, 1, 5, 1, 6, 1, 7, 1, 7), nil,
			false},
		"an epoch before the sender's": {kindHead, lineage(1, 0), nil, false},
		"two of one process":           {kindHead, lineage(0, 0, 0, 3), nil, false},
		"a base that does not go down": {kindHead, lineage(0, 3, 1, 3), nil, false},
		"a base that goes up":          {kindHead, lineage(0, 3, 1, 2), nil, false},
		"a base below nothing":         {kindHead, lineage(0, 8), nil, false},
		"at nothing":                   {kindHead, lineage(0, 7), nil, true},
		"an epoch before time":         {kindHead, lineage(0, 0, 121, 1), nil, false},
		"at its beginning":             {kindHead, lineage(0, 0, 120, 1), nil, true},
		"a question":                   {kindAsk, ask(func(c claim) claim { return c.v(0, 0) }), nil, true},
		"for an array":                 {kindAsk, ask(func(c claim) claim { return want(c.v(1)).v(0) }), nil, true},
		"for images": {kindAsk, ask(func(c claim) claim {
			return c.v(1).b(17).v(5, 7, 0).v(0)
		}), nil, true},
		"for 1024 arrays": {kindAsk, ask(func(c claim) claim {
			return times(1024, want)(c.v(1024)).v(0)
		}), nil, true},
		"for 1025": {kindAsk, ask(func(c claim) claim {
			return times(1025, want)(c.v(1025)).v(0)
		}), nil, false},
		"with eight proofs": {kindAsk, ask(func(c claim) claim {
			return c.v(0, 8).v(1, 0, 1, 0, 1, 0, 0, 0)
		}), []byte{1, 2, 3}, true},
		"with nine": {kindAsk, ask(func(c claim) claim {
			return c.v(0, 9).v(1, 0, 1, 0, 1, 0, 0, 0, 0)
		}), []byte{1, 2, 3}, false},
		"of half a key": {kindAsk, begin().b(1, 2, 3, 4), nil, false},
		"no image":      {kindImage, image(func(c claim) claim { return c.v(0) }), nil, true},
		"two": {kindImage, image(func(c claim) claim {
			return c.v(2, 1, 2)
		}), []byte{1, 2, 3}, true},
		"1024": {kindImage, image(func(c claim) claim {
			return c.v(1024).b(make([]byte, 1024)...)
		}), nil, true},
		"1025": {kindImage, image(func(c claim) claim {
			return c.v(1025).b(make([]byte, 1025)...)
		}), nil, false},
		"images of an array that is none": {kindImage, begin().b(4).v(5, 7).cells().one().v(0), nil, false},
	} {
		m, err := parseMessage(tt.claim.raw(tt.kind, tt.data), testSecret.ID())
		if (err == nil) != tt.ok || (m == nil) == tt.ok || err != nil && !errors.Is(err, errMessage) {
			t.Errorf("%s: read %v, %v; want it read: %v", name, m != nil, err, tt.ok)
		}
	}
	// The values that are read are the ones that were written.
	m, err := parseMessage(lineage(0, 2, 10, 4).raw(kindHead, nil), testSecret.ID())
	if err != nil {
		t.Fatal(err)
	}
	if want := (stamp{incarnation: 100, boot: 120, seq: 3, at: 150}); m.stamp != want ||
		m.from != (hint{1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("stamp %+v of %v, want %+v", m.stamp, m.from, want)
	}
	h := m.heads[0]
	if h.ref != (ref{engine.ArrayCounts, 5}) || h.version != 7 ||
		!slices.Equal(h.lineage, []epoch{{110, 3}, {120, 5}}) || m.floors != [2]uint64{1, 2} {
		t.Errorf("head %+v, floors %v", h, m.floors)
	}
}

// TestEnvelopes checks that a message is as long as its parts, and that a statement has nothing but
// a sum and a signature after its claim.
func TestEnvelopes(t *testing.T) {
	least := begin().v(0).raw(kindDelta, nil)
	for n := range len(least) {
		if _, err := openEnvelope(least[:n]); !errors.Is(err, errMessage) {
			t.Errorf("%d bytes of %d: %v", n, len(least), err)
		}
	}
	e, err := openEnvelope(append(slices.Clone(least[:len(least)-64]), append([]byte("data"), make([]byte, 64)...)...))
	if err != nil || string(e.data) != "data" || len(e.signature) != 64 || e.kind != kindDelta {
		t.Fatalf("%+v, %v", e, err)
	}
	said := e.statement()
	if again, err := openStatement(said); err != nil || again.sum != e.sum || !slices.Equal(again.claim, e.claim) ||
		again.data != nil {
		t.Errorf("the statement is read as %+v, %v", again, err)
	}
	for _, bad := range [][]byte{said[:len(said)-1], append(slices.Clone(said), 0)} {
		if _, err := openStatement(bad); !errors.Is(err, errMessage) {
			t.Errorf("a statement of %d bytes, where it has %d: %v", len(bad), len(said), err)
		}
	}
	huge := make([]byte, maxMessage)
	copy(huge, least)
	if _, err := openEnvelope(huge); err != nil {
		t.Errorf("the largest message: %v", err)
	}
	if _, err := openEnvelope(append(huge, 0)); !errors.Is(err, errMessage) {
		t.Errorf("a larger one: %v", err)
	}
}

// TestRefusals checks that each fault of a message is counted against its sender, once, under its
// name.
func TestRefusals(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		home := newSite(t, k, nil)
		defer home.stop()
		f := newForger(t, k, home, 1)
		settle()
		now := uint64(time.Now().UnixMilli())
		deltas := topic{kind: kindDelta, origin: f.id.public.hint()}
		asks := topic{kind: kindAsk, origin: home.id.public.hint(), key: f.id.public.hint().String()}
		signed := func(at stamp, k kind) []byte {
			return appendMessage(nil, &message{kind: k, stamp: at, from: f.id.public.hint()}, f.id)
		}
		year := uint64(maxLifeAhead.Milliseconds())
		good := signed(stamp{now, now, 1, now}, kindDelta)
		padded := func(n int) []byte { return append(slices.Clone(good), make([]byte, n-len(good))...) }
		changed := func(i int) []byte {
			b := slices.Clone(good)
			b[i] ^= 0x40
			return b
		}
		for _, tt := range []struct {
			name  string
			topic topic
			raw   []byte
			want  string
		}{
			{"as it should be", deltas, good, ""},
			{"a clock a year ahead", deltas, signed(stamp{now, now, 2, now + year - 60_000}, kindDelta), ""},
			{"and more", deltas, signed(stamp{now, now, 3, now + year + 60_000}, kindDelta), reasonClock},
			{"a start later than that", deltas, signed(stamp{now, now + year + 60_000, 4, now + year + 60_000}, kindDelta),
				reasonClock},
			{"another kind than the subject's", deltas, signed(stamp{now, now, 5, now}, kindHead), reasonSubject},
			{"another's key", deltas, changed(3), reasonSubject},
			{"a later version", deltas, changed(0), reasonVersion},
			{"a bit of the claim", deltas, changed(14), reasonForged},
			{"a bit of the signature", deltas, changed(len(good) - 1), reasonForged},
			{"nothing", deltas, nil, reasonMalformed},
			{"no sender", deltas, good[:9], reasonMalformed},
			{"half", deltas, good[:40], reasonMalformed},
			{"more than a message has", deltas, padded(maxMessage + 1), reasonLimit},
			{"as much", deltas, padded(maxMessage), reasonForged},
			{"a question that is longer than any", asks, padded(maxAsk + 1), reasonLimit},
			{"as long", asks, padded(maxAsk), reasonForged},
		} {
			before := home.peerOf(t, f.id).Refusals
			f.bring(t, home, tt.topic, tt.raw)
			bubble.Advance(time.Second)
			after := home.peerOf(t, f.id)
			for reason, n := range after.Refusals {
				want := before[reason]
				if reason == tt.want {
					want++
				}
				if n != want {
					t.Errorf("%s: %d refused as %q, want %d", tt.name, n, reason, want)
				}
			}
			if tt.want != "" && after.Refusals[tt.want] == 0 {
				t.Errorf("%s: not refused as %q", tt.name, tt.want)
			}
		}
		if s := home.Status().Strangers; len(s) > 0 {
			t.Errorf("refusals of strangers: %v", s)
		}
	})
}
