package mesh

import (
	"reflect"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
)

// TestForgot checks that a node has forgotten what it signed in a later incarnation or process, or
// of versions above its own, and not what has expired.
func TestForgot(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		r := newRig(t, k, nil)
		r.e.floor = 5
		r.state.Incarnation, r.state.Boot = 100, 120
		x, later := wire.Ref{Array: engine.ArrayCounts, Start: 7}, wire.Ref{Array: engine.ArrayCounts, Start: 8}
		r.state.Arrays = []member.OwnLineage{{Array: x.Array, Start: x.Start, Epochs: wire.Lineage{{Boot: 110, Base: 0},
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
			{100, 110, was(x, 7, 110), true},
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
		r.e.own = []engine.ArrayState{own[x]}
		r.sender.recalled(wire.Past{Stamp: wire.Stamp{Incarnation: 100, Boot: 120}, Arrays: was(x, 9, 120)})
		if r.state.Incarnation != 100 {
			t.Error("a new life though nothing is forgotten")
		}
		far := uint64(time.Now().UnixMilli()) + 1e6
		r.sender.recalled(wire.Past{Stamp: wire.Stamp{Incarnation: 99, Boot: far}, Arrays: nil})
		if r.state.Incarnation != 100 {
			t.Error("a new life because of an older one")
		}
		r.sender.recalled(wire.Past{Stamp: wire.Stamp{Incarnation: 100, Boot: far}})
		if r.state.Incarnation != far+1 {
			t.Errorf("life %d, want one above %d", r.state.Incarnation, far)
		}
	})
}

// TestResetOfAnOrigin checks that the replica of an origin that has gone back is dropped a minute
// after the first doubt, once everything in doubt is of earlier processes than its own.
func TestResetOfAnOrigin(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		r := newRig(t, k, nil)
		x := wire.Ref{Array: engine.ArrayCounts, Start: 7}
		held := func(version, boot uint64) []engine.ArrayState {
			return []engine.ArrayState{{Array: x.Array, Start: x.Start, Version: version, Boot: boot}}
		}
		for name, tt := range map[string]struct {
			change func(t *origin)
			held   []engine.ArrayState
			after  time.Duration
			want   bool
		}{
			"of an earlier process":         {nil, held(9, 10), resetAfter, true},
			"too soon":                      {nil, held(9, 10), resetAfter - 1, false},
			"not in doubt":                  {func(t *origin) { t.suspect = false }, held(9, 10), resetAfter, false},
			"of another life":               {func(t *origin) { t.next = 5 }, held(9, 10), resetAfter, false},
			"of the same process":           {nil, held(9, 20), resetAfter, false},
			"played back of the same one":   {func(t *origin) { t.head.At = 31 }, held(9, 20), resetAfter, false},
			"of a higher number":            {nil, held(9, 30), resetAfter, false},
			"of a higher number, long ago":  {func(t *origin) { t.head.At = 31 }, held(9, 30), resetAfter, true},
			"played back":                   {func(t *origin) { t.head.At = 30 }, held(9, 30), resetAfter, false},
			"of the same process and sound": {nil, held(5, 20), resetAfter, true},
			"below what it found":           {nil, held(4, 20), resetAfter, true},
			"not named":                     {func(t *origin) { clear(t.heads) }, held(5, 20), resetAfter, false},
		} {
			r.again()
			r.e.held, r.e.forgotten = tt.held, nil
			r.t.suspect, r.t.doubted, r.t.head = true, time.Now(), wire.Stamp{Boot: 20, At: 20}
			r.t.heads[x] = wire.ArrayHead{Ref: x, Version: 5, Boot: 20, Lineage: wire.Lineage{{Boot: 20, Base: 5}}}
			r.t.evidence = wire.Evidence{Head: []byte{1}, Led: map[wire.Ref][]byte{x: {2}}}
			r.t.gone = []wire.Ref{x}
			r.t.waiting, r.t.backoff = 5, maxBackoff
			if tt.change != nil {
				tt.change(r.t)
			}
			bubble.Advance(tt.after)
			r.t.reset(t.Context())
			if got := len(r.e.forgotten) > 0; got != tt.want || got && r.e.forgotten[0] != 0 {
				t.Errorf("%s: forgotten since %v, want it: %v", name, r.e.forgotten, tt.want)
			}
			if reset := !r.t.suspect && r.t.gone == nil && r.t.evidence.Led == nil && r.t.evidence.Head != nil &&
				r.t.doubted.IsZero() && r.t.waiting == 0 && r.t.backoff == 2*gapWait; tt.want && !reset {
				t.Errorf("%s: what is known of it is %+v", name, r.t)
			}
		}
	})
}
