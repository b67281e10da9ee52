package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
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
func (c claim) raw(k Kind, data []byte) []byte {
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
	lost := func(numbers ...uint64) claim { return begin().b(make([]byte, 8)...).b(0).v(5).cells().v(numbers...) }
	anArray := func(c claim) claim { return c.b(0).v(5, 7).cells().one() }
	for name, tt := range map[string]struct {
		kind  Kind
		claim claim
		data  []byte
		ok    bool
	}{
		"nothing":                   {KindDelta, delta(0, times(0, nil)), nil, true},
		"data of nothing":           {KindDelta, delta(0, times(0, nil)), []byte{1}, false},
		"something behind it":       {KindDelta, delta(0, times(0, nil)).b(0), nil, false},
		"an incarnation up to 2^62": {KindDelta, claim(nil).v(1<<62, 0, 0, 0, 0), nil, true},
		"above":                     {KindDelta, claim(nil).v(1<<62+1, 0, 0, 0, 0), nil, false},
		"a boot above":              {KindDelta, claim(nil).v(1<<62, 1, 0, 0, 0), nil, false},
		"a boot that wraps":         {KindDelta, claim(nil).v(5, 1<<64-3, 0, 0, 0), nil, false},
		"a time above":              {KindDelta, claim(nil).v(1, 1, 0, 1<<62, 0), nil, false},
		"a stamp that ends":         {KindDelta, claim(nil).v(1, 1, 0), nil, false},
		"1024 rounds":               {KindDelta, delta(1024, times(1024, round)), nil, true},
		"1025 rounds":               {KindDelta, delta(1025, times(1025, round)), nil, false},
		"fewer rounds than said":    {KindDelta, delta(2, round), nil, false},
		"an array that is none": {KindDelta, delta(1, func(c claim) claim {
			return c.b(3).v(5, 1, 2, 0)
		}), nil, false},
		"a flag that is none": {KindDelta, delta(1, func(c claim) claim {
			return c.b(32).v(5, 1, 2, 0)
		}), nil, false},
		"a round of the last versions": {KindDelta, delta(1, func(c claim) claim {
			return c.b(2).v(5, 1<<62-1, 1, 0)
		}), nil, true},
		"a round beyond": {KindDelta, delta(1, func(c claim) claim {
			return c.b(2).v(5, 1<<62-1, 2, 0)
		}), nil, false},
		"data of a round": {KindDelta, delta(1, func(c claim) claim {
			return c.b(0).v(5, 1, 2, 3)
		}), []byte{1, 2, 3}, true},
		"too little data": {KindDelta, delta(1, func(c claim) claim {
			return c.b(0).v(5, 1, 2, 3)
		}), []byte{1, 2}, false},
		"too much data": {KindDelta, delta(1, func(c claim) claim {
			return c.b(0).v(5, 1, 2, 3)
		}), []byte{1, 2, 3, 4}, false},
		"a geometry": {KindDelta, delta(1, func(c claim) claim {
			return c.b(16).v(5, 1, 6).cells().one().v(0)
		}), nil, true},
		"a geometry of no lines": {KindDelta, delta(1, func(c claim) claim {
			return c.b(16).v(5, 1, 6).v(0).b(6).one().v(0)
		}), nil, false},
		"a head of nothing": {KindHead, head(func(c claim) claim { return c.v(0) }), nil, true},
		"an array":          {KindHead, head(func(c claim) claim { return anArray(c.v(1)) }), nil, true},
		"1024 arrays": {KindHead, head(func(c claim) claim {
			return times(1024, anArray)(c.v(1024))
		}), nil, true},
		"1025 arrays": {KindHead, head(func(c claim) claim {
			return times(1025, anArray)(c.v(1025))
		}), nil, false},
		"a name of 64 bytes":      {KindHead, begin().v(64).b(make([]byte, 64)...).v(1, 2, 0), nil, true},
		"of 65":                   {KindHead, begin().v(65).b(make([]byte, 65)...).v(1, 2, 0), nil, false},
		"a name beyond the claim": {KindHead, begin().v(9).b(1, 2, 3), nil, false},
		"a proof": {KindHead, head(func(c claim) claim {
			return c.v(0).b(make([]byte, 128)...)
		}), nil, true},
		"most of a proof": {KindHead, head(func(c claim) claim {
			return c.v(0).b(make([]byte, 127)...)
		}), nil, false},
		"a proof and more": {KindHead, head(func(c claim) claim {
			return c.v(0).b(make([]byte, 129)...)
		}), nil, false},
		"an organisation": {KindHead, head(func(c claim) claim { return c.v(0) }), []byte("aaaaaaaa"), true},
		"two organisations": {KindHead, head(func(c claim) claim {
			return c.v(0)
		}), []byte("aaaaaaaaaaaaaaab"), true},
		"one of them twice": {KindHead, head(func(c claim) claim {
			return c.v(0)
		}), []byte("aaaaaaaaaaaaaaaa"), false},
		"out of order": {KindHead, head(func(c claim) claim {
			return c.v(0)
		}), []byte("baaaaaaaaaaaaaaa"), false},
		"a part of one":      {KindHead, head(func(c claim) claim { return c.v(0) }), []byte("aaaaaaa"), false},
		"4096 organisations": {KindHead, head(func(c claim) claim { return c.v(0) }), organisations(4096), true},
		"4097": {KindHead, head(func(c claim) claim {
			return c.v(0)
		}), organisations(4097), false},
		"no lineage":   {KindHead, lineage(), nil, false},
		"eight epochs": {KindHead, lineage(0, 0, 1, 1, 1, 2, 1, 3, 1, 4, 1, 5, 1, 6, 1, 7), nil, true},
		"nine": {KindHead, lineage(0, 0, 1, 1, 1, 2, 1, 3, 1, 4, 1, 5, 1, 6, 1, 7, 1, 7), nil,
			false},
		"an epoch before the sender's": {KindHead, lineage(1, 0), nil, false},
		"two of one process":           {KindHead, lineage(0, 0, 0, 3), nil, false},
		"a base that does not go down": {KindHead, lineage(0, 3, 1, 3), nil, false},
		"a base that goes up":          {KindHead, lineage(0, 3, 1, 2), nil, false},
		"a base below nothing":         {KindHead, lineage(0, 8), nil, false},
		"at nothing":                   {KindHead, lineage(0, 7), nil, true},
		"an epoch before time":         {KindHead, lineage(0, 0, 121, 1), nil, false},
		"at its beginning":             {KindHead, lineage(0, 0, 120, 1), nil, true},
		"a question":                   {KindAsk, ask(func(c claim) claim { return c.v(0, 0) }), nil, true},
		"for an array":                 {KindAsk, ask(func(c claim) claim { return want(c.v(1)).v(0) }), nil, true},
		"for images": {KindAsk, ask(func(c claim) claim {
			return c.v(1).b(17).v(5, 7, 0).v(0)
		}), nil, true},
		"for 1024 arrays": {KindAsk, ask(func(c claim) claim {
			return times(1024, want)(c.v(1024)).v(0)
		}), nil, true},
		"for 1025": {KindAsk, ask(func(c claim) claim {
			return times(1025, want)(c.v(1025)).v(0)
		}), nil, false},
		"with eight proofs": {KindAsk, ask(func(c claim) claim {
			return c.v(0, 8).v(1, 0, 1, 0, 1, 0, 0, 0)
		}), []byte{1, 2, 3}, true},
		"with nine": {KindAsk, ask(func(c claim) claim {
			return c.v(0, 9).v(1, 0, 1, 0, 1, 0, 0, 0, 0)
		}), []byte{1, 2, 3}, false},
		"of half a key": {KindAsk, begin().b(1, 2, 3, 4), nil, false},
		"no image":      {KindImage, image(func(c claim) claim { return c.v(0) }), nil, true},
		"two": {KindImage, image(func(c claim) claim {
			return c.v(2, 1, 2)
		}), []byte{1, 2, 3}, true},
		"1024": {KindImage, image(func(c claim) claim {
			return c.v(1024).b(make([]byte, 1024)...)
		}), nil, true},
		"1025": {KindImage, image(func(c claim) claim {
			return c.v(1025).b(make([]byte, 1025)...)
		}), nil, false},
		"pages":                           {KindPages, lost(2, 3, 4), nil, true},
		"pages and a size":                {KindPages, lost(2, 3, 4, 0), nil, false},
		"a refill":                        {KindRefill, lost(2, 3, 4, 2, 1, 0), []byte{1}, true},
		"a refill of fewer pages":         {KindRefill, lost(2, 3, 4, 1, 1), []byte{1}, false},
		"a refill of more pages":          {KindRefill, lost(1, 3, 2, 1, 0), []byte{1}, false},
		"a study that is none":            {KindStudy, begin().b(make([]byte, 8)...).v(1, 3), []byte{9, 9, 9}, false},
		"a lesson that is none":           {KindLesson, begin().b(make([]byte, 8)...).v(1, 3), []byte{9, 9, 9}, false},
		"two studies":                     {KindStudy, begin().b(make([]byte, 8)...).v(2, 0, 0), nil, false},
		"images of an array that is none": {KindImage, begin().b(4).v(5, 7).cells().one().v(0), nil, false},
	} {
		m, err := parseMessage(tt.claim.raw(tt.kind, tt.data), enginetest.Secret.ID())
		if (err == nil) != tt.ok || (m == nil) == tt.ok || err != nil && !errors.Is(err, errMessage) {
			t.Errorf("%s: read %v, %v; want it read: %v", name, m != nil, err, tt.ok)
		}
	}
	// The first fault of a claim is named, and not what follows from it.
	bad := delta(1, func(c claim) claim { return c.b(3).v(1<<20, 1) })
	if _, err := parseMessage(bad.raw(KindDelta, nil), enginetest.Secret.ID()); err == nil ||
		!strings.Contains(err.Error(), "array 3") {
		t.Errorf("an unknown array in a claim that ends early: %v", err)
	}
	// The values that are read are the ones that were written.
	m, err := parseMessage(lineage(0, 2, 10, 4).raw(KindHead, nil), enginetest.Secret.ID())
	if err != nil {
		t.Fatal(err)
	}
	if want := (Stamp{Incarnation: 100, Boot: 120, Seq: 3, At: 150}); m.Stamp != want ||
		m.From != (Hint{1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("stamp %+v of %v, want %+v", m.Stamp, m.From, want)
	}
	h := m.Heads[0]
	if h.Ref != (Ref{engine.ArrayCounts, 5}) || h.Version != 7 ||
		!slices.Equal(h.Lineage, []Epoch{{110, 3}, {120, 5}}) || m.Floors != [2]uint64{1, 2} {
		t.Errorf("head %+v, floors %v", h, m.Floors)
	}
}

// TestEnvelopes checks that a message is as long as its parts, and that a statement has nothing but
// a sum and a signature after its claim.
func TestEnvelopes(t *testing.T) {
	least := begin().v(0).raw(KindDelta, nil)
	for n := range len(least) {
		if _, err := OpenEnvelope(least[:n]); !errors.Is(err, errMessage) {
			t.Errorf("%d bytes of %d: %v", n, len(least), err)
		}
	}
	if _, err := OpenEnvelope([]byte{3}); !errors.Is(err, ErrNewer) {
		t.Errorf("a byte of another version: %v", err)
	}
	for name, tt := range map[string]struct {
		message []byte
		ok      bool
	}{
		"a stamp":                     {begin().raw(KindDelta, nil), true},
		"no claim":                    {claim(nil).raw(KindDelta, make([]byte, 9)), true},
		"no claim, and no signature":  {claim(nil).raw(KindDelta, make([]byte, 9))[:74], false},
		"a claim longer than a claim": {slices.Concat(least[:10], bytes.Repeat([]byte{255}, 100)), false},
	} {
		if e, err := OpenEnvelope(tt.message); (err == nil) != tt.ok || err != nil && !errors.Is(err, errMessage) {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
	e, err := OpenEnvelope(append(slices.Clone(least[:len(least)-64]), append([]byte("data"), make([]byte, 64)...)...))
	if err != nil || string(e.data) != "data" || len(e.signature) != 64 || e.Kind != KindDelta {
		t.Fatalf("%+v, %v", e, err)
	}
	announced := e.Statement()
	if again, err := OpenStatement(announced); err != nil || again.sum != e.sum || !slices.Equal(again.claim, e.claim) ||
		again.data != nil {
		t.Errorf("the statement is read as %+v, %v", again, err)
	}
	for _, bad := range [][]byte{announced[:len(announced)-1], append(slices.Clone(announced), 0)} {
		if _, err := OpenStatement(bad); !errors.Is(err, errMessage) {
			t.Errorf("a statement of %d bytes, where it has %d: %v", len(bad), len(announced), err)
		}
	}
	huge := make([]byte, MaxMessage)
	copy(huge, least)
	if _, err := OpenEnvelope(huge); err != nil {
		t.Errorf("the largest message: %v", err)
	}
	if _, err := OpenEnvelope(append(huge, 0)); !errors.Is(err, errMessage) {
		t.Errorf("a larger one: %v", err)
	}
}

// organisations returns the bytes of n organisations in their order.
func organisations(n int) (b []byte) {
	for i := range n {
		b = binary.BigEndian.AppendUint64(b, uint64(i+1))
	}
	return b
}
