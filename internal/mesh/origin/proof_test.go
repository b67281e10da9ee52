package origin

import (
	"reflect"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// TestProofs checks that a node that receives its own statements begins a new incarnation above
// them if it has forgotten them, and otherwise not.
func TestProofs(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		life := func() uint64 { return r.State.Incarnation }
		statement := func(by *member.Identity, s wire.Stamp) []byte {
			m := &wire.Message{Kind: wire.KindHead, From: by.Hint(), Stamp: s}
			e, err := wire.OpenEnvelope(wire.AppendMessage(nil, m, by))
			if err != nil {
				t.Fatal(err)
			}
			return e.Statement()
		}
		now := wire.Stamp{Incarnation: life(), Boot: r.State.Boot, Seq: 1, At: r.State.Boot}
		later := now
		later.Boot, later.At = now.Boot+5000, now.At+5000
		ahead := now
		ahead.Boot, ahead.At = now.Boot+1e11, now.At+1e11
		own := r.Options.Identity
		for name, tt := range map[string]struct {
			proofs [][]byte
			new    bool
		}{
			"none":                  {nil, false},
			"what it still knows":   {[][]byte{statement(own, now)}, false},
			"no statement":          {[][]byte{{1, 2, 3}}, false},
			"of another":            {[][]byte{statement(r.Peer, later)}, false},
			"ahead of all clocks":   {[][]byte{statement(own, ahead)}, false},
			"what it has forgotten": {[][]byte{statement(own, now), statement(own, later), {1}}, true},
		} {
			before := life()
			r.sender.renewals = nil
			r.sender.answer(t.Context(), &wire.Message{Kind: wire.KindAsk, From: r.Peer.Hint(), Incarnation: life(),
				Proofs: tt.proofs})
			if got := life() > before; got != tt.new {
				t.Errorf("%s: a new incarnation %v, want %v", name, got, tt.new)
			}
			if tt.new && (life() <= later.Boot || r.State.Boot <= life()) {
				t.Errorf("%s: incarnation %d, process %d, after it said %+v", name, life(), r.State.Boot, later)
			}
			r.State.Incarnation, r.State.Boot = now.Incarnation, now.Boot
		}
	})
}

// TestForgot checks that a node has forgotten what it signed in a later incarnation or process, or
// of versions above its own, and not what has expired.
func TestForgot(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		r.Engine.Oldest = 5
		r.State.Incarnation, r.State.Boot = 100, 120
		x, later := wire.Ref{Array: engine.ArrayCounts, Start: 7}, wire.Ref{Array: engine.ArrayCounts, Start: 8}
		r.State.Arrays = []member.OwnLineage{{Array: x.Array, Start: x.Start, Epochs: wire.Lineage{{Boot: 110, Base: 0},
			{Boot: 120, Base: 6}}}}
		own := map[wire.Ref]engine.ArrayState{x: {Array: x.Array, Start: x.Start, Version: 9}}
		was := func(x wire.Ref, version, boot uint64) []wire.ArrayHead {
			return []wire.ArrayHead{{Ref: x, Version: version, Boot: boot}}
		}
		for i, tt := range []struct {
			life, boot uint64
			arrays     []wire.ArrayHead
			want       bool
		}{
			{101, 1, nil, true}, {99, 999, was(x, 99, 999), false}, {100, 121, nil, true}, {100, 120, nil, false},
			{100, 119, nil, false},
			{100, 120, was(x, 9, 120), false}, {100, 120, was(x, 10, 120), true}, {100, 110, was(x, 6, 110), false},
			{100, 110, was(x, 7, 110), true}, {100, 110, was(x, 1, 105), true},
			{100, 110, was(x, 0, 110), false}, {100, 110, was(later, 1, 110), true}, {100, 110, was(later, 0, 110), false},
			{100, 110, was(wire.Ref{Array: engine.ArrayCounts, Start: 5}, 1, 110), true},
			{100, 110, was(wire.Ref{Array: engine.ArrayCounts, Start: 4}, 1, 110), false},
		} {
			p := wire.Past{Stamp: wire.Stamp{Incarnation: tt.life, Boot: tt.boot}, Arrays: tt.arrays}
			if got := r.sender.forgot(&p, own); got != tt.want {
				t.Errorf("%d: %+v is forgotten: %v", i, p, got)
			}
		}
		head := &wire.Message{Kind: wire.KindHead, Stamp: wire.Stamp{Incarnation: 1, Boot: 2},
			Heads:  []wire.ArrayHead{{Ref: x, Version: 3}},
			Rounds: []wire.Round{{Ref: later, From: 4, To: 6}}, Image: wire.Image{Ref: x, At: 9}}
		if got := head.Past(); !reflect.DeepEqual(got.Arrays,
			[]wire.ArrayHead{{Ref: x, Version: 3, Boot: 2}, {Ref: later, Version: 6, Boot: 2}}) || got.Stamp != head.Stamp {
			t.Errorf("what a message says: %+v", got)
		}
		head.Kind = wire.KindImage
		if got := head.Past().Arrays; len(got) != 3 || !reflect.DeepEqual(got[2], wire.ArrayHead{Ref: x, Version: 9,
			Boot: 2}) {
			t.Errorf("what an image says: %+v", got)
		}
		r.Engine.Mine = []engine.ArrayState{own[x]}
		r.sender.recalled(wire.Past{Stamp: wire.Stamp{Incarnation: 100, Boot: 120}, Arrays: was(x, 9, 120)})
		if r.State.Incarnation != 100 {
			t.Error("a new life though nothing is forgotten")
		}
		far := uint64(time.Now().UnixMilli()) + 1e6
		r.sender.recalled(wire.Past{Stamp: wire.Stamp{Incarnation: 99, Boot: far}, Arrays: nil})
		if r.State.Incarnation != 100 {
			t.Error("a new life because of an older one")
		}
		r.sender.recalled(wire.Past{Stamp: wire.Stamp{Incarnation: 100, Boot: far}})
		if r.State.Incarnation != far+1 {
			t.Errorf("life %d, want one above %d", r.State.Incarnation, far)
		}
	})
}
