package mesh

import (
	"reflect"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
)

// TestKept checks that statements are kept up to a size, and that those about the given arrays are
// returned, each once, as many as a question holds.
func TestKept(t *testing.T) {
	var e evidence
	x := func(n uint64) ref { return ref{engine.ArrayCounts, n} }
	e.keep(x(1), nil)
	e.keep(x(1), make([]byte, maxSaid+1))
	if len(e.led) != 0 {
		t.Errorf("%d statements are kept, none of which may be", len(e.led))
	}
	whole := make([]byte, maxSaid)
	e.keep(x(1), whole)
	e.keep(x(2), []byte{2})
	e.keep(x(3), []byte{2}) // the same message
	e.keep(x(4), []byte{4})
	wants := func(n ...uint64) (out []arrayHead) {
		for _, n := range n {
			out = append(out, arrayHead{ref: x(n)})
		}
		return out
	}
	for _, tt := range []struct {
		head  []byte
		wants []arrayHead
		want  [][]byte
	}{
		{nil, wants(9), nil}, {[]byte{7}, wants(9), [][]byte{{7}}}, {nil, wants(2), [][]byte{{2}}},
		{[]byte{7}, wants(4, 2, 3), [][]byte{{7}, {4}, {2}}},
		{[]byte{4}, wants(4, 1), [][]byte{{4}, whole}},
		{make([]byte, maxAsk/2-maxSaid), wants(1), [][]byte{make([]byte, maxAsk/2-maxSaid), whole}},
		{make([]byte, maxAsk/2-maxSaid+1), wants(1, 2), [][]byte{make([]byte, maxAsk/2-maxSaid+1), {2}}},
	} {
		e.head = tt.head
		if got := e.about(tt.wants); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("about %d arrays, with a head of %d bytes: %d statements, want %d", len(tt.wants), len(tt.head),
				len(got), len(tt.want))
		}
	}
	e.head = []byte{7}
	if got := e.about(nil); len(got) != 4 {
		t.Errorf("about nothing: %d statements, want all", len(got))
	}
	for n := range uint64(20) {
		e.keep(x(n), []byte{9, byte(n)})
	}
	if got := e.about(nil); len(got) != maxProofs || !reflect.DeepEqual(got[0], e.head) {
		t.Errorf("%d statements, want %d", len(got), maxProofs)
	}
}

// TestForgot checks that a node has forgotten what it signed in a later incarnation or process, or
// of versions above its own, and not what has expired.
func TestForgot(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		r := newRig(t, k, nil)
		r.e.floor = 5
		r.state.Incarnation, r.state.Boot = 100, 120
		x, later := ref{engine.ArrayCounts, 7}, ref{engine.ArrayCounts, 8}
		r.state.Arrays = []ownLineage{{x.array, x.start, lineage{{110, 0}, {120, 6}}}}
		own := map[ref]engine.ArrayState{x: {Array: x.array, Start: x.start, Version: 9}}
		was := func(x ref, version, boot uint64) []arrayHead {
			return []arrayHead{{ref: x, version: version, boot: boot}}
		}
		for i, tt := range []struct {
			life, boot uint64
			arrays     []arrayHead
			want       bool
		}{
			{101, 1, nil, true}, {99, 999, was(x, 99, 999), false}, {100, 121, nil, true}, {100, 120, nil, false},
			{100, 119, nil, false},
			{100, 120, was(x, 9, 120), false}, {100, 120, was(x, 10, 120), true}, {100, 110, was(x, 6, 110), false},
			{100, 110, was(x, 7, 110), true},
			{100, 110, was(x, 0, 110), false}, {100, 110, was(later, 1, 110), true}, {100, 110, was(later, 0, 110), false},
			{100, 110, was(ref{engine.ArrayCounts, 5}, 1, 110), true},
			{100, 110, was(ref{engine.ArrayCounts, 4}, 1, 110), false},
		} {
			p := past{stamp: stamp{incarnation: tt.life, boot: tt.boot}, arrays: tt.arrays}
			if got := r.sender.forgot(&p, own); got != tt.want {
				t.Errorf("%d: %+v is forgotten: %v", i, p, got)
			}
		}
		head := &message{kind: kindHead, stamp: stamp{incarnation: 1, boot: 2}, heads: []arrayHead{{ref: x, version: 3}},
			rounds: []round{{ref: later, from: 4, to: 6}}, image: image{ref: x, at: 9}}
		if got := head.past(); !reflect.DeepEqual(got.arrays,
			[]arrayHead{{ref: x, version: 3, boot: 2}, {ref: later, version: 6, boot: 2}}) || got.stamp != head.stamp {
			t.Errorf("what a message says: %+v", got)
		}
		head.kind = kindImage
		if got := head.past().arrays; len(got) != 3 || !reflect.DeepEqual(got[2], arrayHead{ref: x, version: 9, boot: 2}) {
			t.Errorf("what an image says: %+v", got)
		}
		r.e.own = []engine.ArrayState{own[x]}
		r.sender.recalled(past{stamp: stamp{incarnation: 100, boot: 120}, arrays: was(x, 9, 120)})
		if r.state.Incarnation != 100 {
			t.Error("a new life though nothing is forgotten")
		}
		far := uint64(time.Now().UnixMilli()) + 1e6
		r.sender.recalled(past{stamp: stamp{incarnation: 99, boot: far}, arrays: nil})
		if r.state.Incarnation != 100 {
			t.Error("a new life because of an older one")
		}
		r.sender.recalled(past{stamp: stamp{incarnation: 100, boot: far}})
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
		x := ref{engine.ArrayCounts, 7}
		held := func(version, boot uint64) []engine.ArrayState {
			return []engine.ArrayState{{Array: x.array, Start: x.start, Version: version, Boot: boot}}
		}
		for name, tt := range map[string]struct {
			change func(t *track)
			held   []engine.ArrayState
			after  time.Duration
			want   bool
		}{
			"of an earlier process":         {nil, held(9, 10), resetAfter, true},
			"too soon":                      {nil, held(9, 10), resetAfter - 1, false},
			"not in doubt":                  {func(t *track) { t.suspect = false }, held(9, 10), resetAfter, false},
			"of another life":               {func(t *track) { t.next = 5 }, held(9, 10), resetAfter, false},
			"of the same process":           {nil, held(9, 20), resetAfter, false},
			"played back of the same one":   {func(t *track) { t.head.at = 31 }, held(9, 20), resetAfter, false},
			"of a higher number":            {nil, held(9, 30), resetAfter, false},
			"of a higher number, long ago":  {func(t *track) { t.head.at = 31 }, held(9, 30), resetAfter, true},
			"played back":                   {func(t *track) { t.head.at = 30 }, held(9, 30), resetAfter, false},
			"of the same process and sound": {nil, held(5, 20), resetAfter, true},
			"below what it found":           {nil, held(4, 20), resetAfter, true},
			"not named":                     {func(t *track) { clear(t.heads) }, held(5, 20), resetAfter, false},
		} {
			r.again()
			r.e.held, r.e.forgotten = tt.held, nil
			r.t.suspect, r.t.doubted, r.t.head = true, time.Now(), stamp{boot: 20, at: 20}
			r.t.heads[x] = arrayHead{ref: x, version: 5, boot: 20, lineage: lineage{{20, 5}}}
			r.t.said = evidence{head: []byte{1}, led: map[ref][]byte{x: {2}}}
			r.t.gone = []ref{x}
			r.t.waiting, r.t.backoff = 5, maxBackoff
			if tt.change != nil {
				tt.change(r.t)
			}
			bubble.Advance(tt.after)
			r.receiver.reset(t.Context(), &r.p, r.t)
			if got := len(r.e.forgotten) > 0; got != tt.want || got && r.e.forgotten[0] != 0 {
				t.Errorf("%s: forgotten since %v, want it: %v", name, r.e.forgotten, tt.want)
			}
			if reset := !r.t.suspect && r.t.gone == nil && r.t.said.led == nil && r.t.said.head != nil &&
				r.t.doubted.IsZero() && r.t.waiting == 0 && r.t.backoff == 2*gapWait; tt.want && !reset {
				t.Errorf("%s: what is known of it is %+v", name, r.t)
			}
		}
	})
}
