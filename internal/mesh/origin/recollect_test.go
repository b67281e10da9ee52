package origin

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// TestRecollect checks that a node takes from a broker only messages that it has signed itself, in
// the same incarnation, and whose content is still part of its arrays.
func TestRecollect(t *testing.T) {
	m := newRig(t, meshtest.NewBroker(rand.New(rand.NewPCG(1, 1))), nil)
	m.State.Incarnation, m.State.Boot = 50, 90
	x := wire.Ref{Array: engine.ArrayCounts, Start: 7}
	m.State.Arrays = []member.OwnLineage{{Array: x.Array, Start: x.Start, Epochs: wire.Lineage{{Boot: 60, Base: 0},
		{Boot: 80, Base: 100}}}}
	_, other := meshtest.Folder(t)
	made := func(from, to uint64) wire.Round {
		return wire.Round{Ref: x, From: from, To: to, Geometry: meshtest.Cells, Data: []byte{1}}
	}
	for name, tt := range map[string]struct {
		id         *member.Identity
		life, boot uint64
		round      wire.Round
		want       bool
	}{
		"its own":                {m.Options.Identity, 50, 60, made(3, 9), true},
		"of the last process":    {m.Options.Identity, 50, 80, made(100, 900), true},
		"of another life":        {m.Options.Identity, 51, 60, made(3, 9), false},
		"of an older life":       {m.Options.Identity, 49, 60, made(3, 9), false},
		"signed by a peer":       {other, 50, 60, made(3, 9), false},
		"of a past that is gone": {m.Options.Identity, 50, 60, made(100, 101), false},
		"of a later process":     {m.Options.Identity, 50, 91, made(100, 101), false},
	} {
		msg := &wire.Message{Kind: wire.KindDelta, Stamp: wire.Stamp{Incarnation: tt.life, Boot: tt.boot, At: 99},
			From: tt.id.Hint(), KeyID: enginetest.Secret.ID(), Rounds: nil}
		msg.Rounds = append(msg.Rounds, tt.round)
		memory := &memory{arrays: map[wire.Ref]*arrayMemory{x: {pages: 1, images: make(map[uint64]map[wire.Topic][][]byte)}}}
		m.sender.recollect(memory, wire.Arrival{Topic: wire.Topic{Kind: wire.KindDelta, Origin: m.Options.Identity.Hint()},
			Data: wire.AppendMessage(nil, msg, tt.id)})
		if got := len(memory.arrays[x].rounds) == 1; got != tt.want {
			t.Errorf("%s: taken %v", name, got)
		}
	}
}

func TestLongest(t *testing.T) {
	part := func(from, to uint64) engine.Part { return engine.Part{From: from, To: to} }
	set := func(pages ...[]byte) map[wire.Topic][][]byte {
		out := make(map[wire.Topic][][]byte)
		for i, page := range pages {
			out[wire.Topic{Key: fmt.Sprint(i)}] = [][]byte{page}
		}
		return out
	}
	one, two := []byte{1}, []byte{2}
	for name, tt := range map[string]struct {
		images map[uint64]map[wire.Topic][][]byte
		rounds []engine.Part
		pages  int
		want   []engine.Part
	}{
		"nothing": {nil, nil, 0, nil},
		"rounds from the beginning": {nil, []engine.Part{part(3, 9), part(0, 3), part(0, 3), part(9, 12)}, 0,
			[]engine.Part{part(0, 3), part(3, 9), part(9, 12)}},
		"a gap":        {nil, []engine.Part{part(0, 3), part(4, 9)}, 0, []engine.Part{part(0, 3)}},
		"no beginning": {nil, []engine.Part{part(1, 3)}, 0, nil},
		"images, and rounds since": {map[uint64]map[wire.Topic][][]byte{5: set(one, two)},
			[]engine.Part{part(0, 3), part(5, 9), part(9, 10)}, 2, []engine.Part{part(5, 9), part(9, 10)}},
		"half of the images": {map[uint64]map[wire.Topic][][]byte{5: set(one)}, []engine.Part{part(0, 3), part(5, 9)},
			0, []engine.Part{part(0, 3)}},
		"later images lead no farther": {map[uint64]map[wire.Topic][][]byte{5: set(one, two), 7: set(one, two)},
			[]engine.Part{part(5, 9)}, 2, []engine.Part{part(5, 9)}},
	} {
		a := &arrayMemory{pages: 2, images: tt.images, rounds: tt.rounds}
		images, rounds := a.longest()
		if len(images) != tt.pages || !reflect.DeepEqual(rounds, tt.want) {
			t.Errorf("%s: %d pages, rounds %v; want %d, %v", name, len(images), rounds, tt.pages, tt.want)
		}
	}
}
