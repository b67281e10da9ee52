package mesh

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
)

// TestHeadsHeard checks the effect of a head on the replica's arrays: they have gone back, are
// gone, or have expired at the origin.
func TestHeadsHeard(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		r := newRig(t, k, nil)
		x := ref{engine.ArraySpam, 7}
		held := func(version, partial, boot uint64) []engine.ArrayState {
			return []engine.ArrayState{{Array: x.array, Start: x.start, Version: version, Partial: partial, Geometry: bitsOf,
				Boot: boot}}
		}
		named := []arrayHead{{ref: x, version: 9, geometry: bitsOf, lineage: lineage{{10, 0}, {20, 5}}}}
		for name, tt := range map[string]struct {
			held          []engine.ArrayState
			heads         []arrayHead
			floor         uint64
			before        func()
			suspect, gone bool
		}{
			"as much":              {held(9, 0, 20), named, 0, nil, false, false},
			"less":                 {held(8, 0, 20), named, 0, nil, false, false},
			"more":                 {held(10, 0, 20), named, 0, nil, true, false},
			"more, overtaken":      {held(10, 0, 20), named, 0, func() { r.t.last.seq = 9 }, false, false},
			"of what it found":     {held(5, 0, 10), named, 0, nil, false, false},
			"above that":           {held(6, 0, 10), named, 0, nil, true, false},
			"images above that":    {held(0, 6, 10), named, 0, nil, true, false},
			"nothing":              {held(0, 0, 10), nil, 0, nil, false, false},
			"gone":                 {held(1, 0, 20), nil, 7, nil, true, true},
			"expired there":        {held(1, 0, 20), nil, 8, nil, false, false},
			"gone, overtaken":      {held(1, 0, 20), nil, 7, func() { r.t.last.seq = 9 }, false, false},
			"gone and rolled back": {held(1, 0, 20), nil, 7, func() { r.p.Refused = []stretch{{7, 7}} }, false, false},
			"gone and expired":     {held(1, 0, 20), nil, 7, func() { r.e.expired = 7 }, false, false},
		} {
			r.again()
			r.e.expired, r.e.held = 0, tt.held
			at := stamp{incarnation: 1, boot: 20, seq: 3}
			r.t.last, r.t.suspect, r.t.full, r.t.gone = at, true, true, []ref{{engine.ArrayCounts, 1}}
			r.t.looked[ref{engine.ArraySpam, 3}] = 5
			r.t.said.led = map[ref][]byte{{engine.ArraySpam, 3}: {1}}
			if tt.before != nil {
				tt.before()
			}
			m := &message{kind: kindHead, stamp: at, heads: tt.heads, floors: [2]uint64{99, tt.floor}, said: []byte{4}}
			r.receiver.head(t.Context(), &r.p, r.t, m)
			if r.t.suspect != tt.suspect || (len(r.t.gone) == 1 && r.t.gone[0] == x) != tt.gone || r.t.full ||
				r.t.doubted.IsZero() == tt.suspect {
				t.Errorf("%s: suspect %v, gone %v, doubted %v; want %v, %v", name, r.t.suspect, r.t.gone, r.t.doubted,
					tt.suspect, tt.gone)
			}
			if r.t.head != at || string(r.t.said.head) != "\x04" || len(r.t.heads) != len(tt.heads) ||
				len(tt.heads) > 0 && r.t.heads[x].boot != 20 {
				t.Errorf("%s: noted %+v", name, r.t)
			}
			if forgotten := len(r.t.looked) == 0 && len(r.t.said.led) == 0; forgotten != (r.e.expired >= 3) {
				t.Errorf("%s: what is known of an array that has expired: %v", name, r.t.looked)
			}
			// A repeated head, and a head of a process that has ended, have no effect.
			for _, old := range []stamp{at, {incarnation: 1, boot: 19, seq: 99}, {incarnation: 1, boot: 20, seq: 2}} {
				r.receiver.head(t.Context(), &r.p, r.t, &message{kind: kindHead, stamp: old, said: []byte{5}})
				if r.t.head != at || string(r.t.said.head) != "\x04" {
					t.Errorf("%s: a head of %+v after one of %+v is taken", name, old, at)
				}
			}
		}
		// Rounds that lead to versions that the origin never reached are dropped.
		r.again()
		r.e.held, r.e.expired = nil, 0
		for _, one := range []round{{ref: x, from: 7, to: 9, boot: 19}, {ref: x, from: 8, to: 10, boot: 19},
			{ref: x, from: 9, to: 11, boot: 20}, {ref: ref{engine.ArraySpam, 8}, from: 1, to: 2, boot: 19}} {
			r.t.hold(&one)
		}
		r.t.lost(&message{stamp: stamp{boot: 20}, heads: named})
		if len(r.t.pending) != 1 || len(r.t.pending[x]) != 2 || r.t.pending[x][0].to != 9 || r.t.pending[x][1].to != 11 ||
			r.t.waiting != 2*roundCost {
			t.Errorf("%d bytes wait: %+v", r.t.waiting, r.t.pending)
		}
	})
}

// TestNewLifeHeard checks that a new incarnation replaces the replica once its images or first
// rounds arrive; until then the replica counts.
func TestNewLifeHeard(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		r := newRig(t, k, nil)
		x := ref{engine.ArraySpam, 7}
		some := []engine.ArrayState{{Array: x.array, Start: x.start, Version: 9, Boot: 5}}
		head := &message{kind: kindHead, heads: []arrayHead{{ref: x, version: 3}}}
		for name, tt := range map[string]struct {
			held []engine.ArrayState
			m    *message
			next uint64
			want bool
			now  uint64 // t.next after
		}{
			"a head, nothing held":  {nil, head, 0, true, 0},
			"a head":                {some, head, 0, false, 30},
			"a head of a later one": {some, head, 29, false, 30},
			"of an earlier one":     {some, head, 31, false, 31},
			"an empty head":         {some, &message{kind: kindHead}, 0, true, 0},
			"an image":              {some, &message{kind: kindImage}, 0, true, 0},
			"a round":               {some, &message{kind: kindDelta, rounds: []round{{ref: x, from: 1, to: 2}}}, 0, false, 0},
			"a first round": {some,
				&message{kind: kindDelta, rounds: []round{{ref: x, from: 1, to: 2}, {ref: x, from: 0, to: 2}}}, 0, true, 0},
		} {
			r.again()
			r.e.held, r.e.renewed = tt.held, nil
			tt.m.stamp, tt.m.said = stamp{incarnation: 30, boot: 31, seq: 1}, []byte{6}
			r.t.next, r.t.suspect, r.t.gone, r.t.waiting = tt.next, true, []ref{x}, 5
			r.t.heads[ref{engine.ArrayCounts, 1}] = arrayHead{}
			r.t.said.led = map[ref][]byte{x: {1}}
			if got := r.receiver.renew(t.Context(), &r.p, r.t, tt.m); got != tt.want || r.t.next != tt.now {
				t.Errorf("%s: taken %v, a life %d to come; want %v, %d", name, got, r.t.next, tt.want, tt.now)
			}
			if tt.want {
				if !slices.Equal(r.e.renewed, []uint64{30}) || r.t.last != tt.m.stamp || r.t.suspect || r.t.gone != nil ||
					r.t.waiting != 0 || r.t.said.led != nil || string(r.t.said.head) != "\x06" || !r.t.begun.Equal(time.Now()) ||
					len(r.t.heads) != 0 {
					t.Errorf("%s: renewed %v, known %+v", name, r.e.renewed, r.t)
				}
			} else if len(r.e.renewed) != 0 || !r.t.suspect || (string(r.t.said.head) == "\x06") != (tt.now == 30) ||
				(r.t.heads[x].version == 3 && r.t.heads[x].boot == 31) != (tt.now == 30) {
				t.Errorf("%s: renewed %v, known %+v", name, r.e.renewed, r.t)
			}
		}
		// The proof of an incarnation is kept if it is short, or a head.
		for _, tt := range []struct {
			kind kind
			said int
			want bool
		}{{kindImage, maxSaid, true}, {kindImage, maxSaid + 1, false}, {kindHead, maxSaid + 1, true}} {
			r.again()
			r.e.held = nil
			r.receiver.renew(t.Context(), &r.p, r.t,
				&message{kind: tt.kind, stamp: stamp{incarnation: 40}, said: make([]byte, tt.said)})
			if got := len(r.t.said.head) == tt.said; got != tt.want {
				t.Errorf("%c of %d bytes is kept: %v", tt.kind, tt.said, got)
			}
		}
		// An announced incarnation keeps its heads.
		r.again()
		r.t.next = 50
		r.t.heads[x] = arrayHead{version: 8}
		if r.receiver.renew(t.Context(), &r.p, r.t,
			&message{kind: kindImage, stamp: stamp{incarnation: 50}}); len(r.t.heads) != 1 {
			t.Error("the heads of the new life are forgotten")
		}
	})
}

// TestAlive checks that a message of an older incarnation is refused, and that its sender is sent
// proof of the newer one if there is any.
func TestAlive(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		r := newRig(t, k, nil)
		r.e.life = 20
		last := stamp{incarnation: 20, boot: 25, seq: 5}
		for name, tt := range map[string]struct {
			kind    kind
			at      stamp
			alive   bool
			told    bool
			refused string
			last    stamp
		}{
			"the next":                {kindDelta, stamp{20, 25, 6, 0}, true, false, "", stamp{20, 25, 6, 0}},
			"one before":              {kindDelta, stamp{20, 25, 4, 0}, true, false, "", last},
			"a head before":           {kindHead, stamp{20, 25, 4, 0}, true, false, "", last},
			"of a later process":      {kindDelta, stamp{20, 26, 1, 0}, true, false, "", stamp{20, 26, 1, 0}},
			"of an earlier one":       {kindDelta, stamp{20, 24, 9, 0}, true, false, "", last},
			"a head of it":            {kindHead, stamp{20, 24, 9, 0}, true, true, "", last},
			"of an older life":        {kindDelta, stamp{19, 99, 9, 0}, false, false, reasonOld, last},
			"a head of an older life": {kindHead, stamp{19, 99, 9, 0}, false, true, reasonOld, last},
			"of a new life":           {kindHead, stamp{21, 22, 1, 0}, true, false, "", stamp{21, 22, 1, 0}},
		} {
			r.again()
			r.e.held = nil
			bubble.Advance(time.Hour)
			r.t.last = last
			for len(r.sender.wants) > 0 {
				<-r.sender.wants
			}
			var alive bool
			got := r.refused(func() {
				alive = r.receiver.alive(t.Context(), &r.p, r.t, &message{kind: tt.kind, stamp: tt.at})
			})
			if told := len(r.sender.wants) == 1; alive != tt.alive || told != tt.told || got != tt.refused ||
				r.t.last != tt.last {
				t.Errorf("%s: alive %v, told %v, refused %q, last %+v; want %v, %v, %q, %+v", name, alive, told, got, r.t.last,
					tt.alive, tt.told, tt.refused, tt.last)
			}
			if tt.told {
				if w := <-r.sender.wants; w.life != 20 || w.boot != 25 || w.origin != r.peer.public.hint() || w.arrays != nil {
					t.Errorf("%s: told %+v", name, w)
				}
				again := func(after time.Duration, want int) {
					t.Helper()
					bubble.Advance(after)
					r.receiver.alive(t.Context(), &r.p, r.t, &message{kind: tt.kind, stamp: tt.at})
					if len(r.sender.wants) != want {
						t.Errorf("%s: told again %d times, want %d", name, len(r.sender.wants), want)
					}
				}
				again(conflictRest, 0)
				again(time.Nanosecond, 1)
			}
			if lives := tt.kind == kindHead && !tt.told; r.t.lives != lives && name != "of a new life" {
				t.Errorf("%s: it lives: %v", name, r.t.lives)
			}
		}
	})
}

// TestTwoLives checks that several heads of an older incarnation that alternate with heads of the
// newer one, over some time, are two servers with one key.
func TestTwoLives(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		r := newRig(t, k, nil)
		r.e.life = 20
		seq := uint64(0)
		hear := func(life, boot uint64, after time.Duration) {
			bubble.Advance(after)
			seq++
			r.receiver.alive(t.Context(), &r.p, r.t, &message{kind: kindHead, stamp: stamp{life, boot, seq, 0}})
		}
		conflicts := func() int { return r.members[r.peer.public.hint()].conflicts }
		hear(20, 25, 0)
		hear(19, 19, conflictRest-1) // in flight when the newer incarnation began
		if conflicts() != 0 {
			t.Error("a conflict while the newer life has just begun")
		}
		for n := 1; n <= maxConflicts; n++ {
			if q := r.status().Quarantine; q != "" {
				t.Fatalf("after %d: quarantine %q", n-1, q)
			}
			hear(20, 25, conflictRest)
			hear(19, 19, 1)
			hear(19, 19, 1) // alternating once
			if conflicts() != n {
				t.Errorf("%d conflicts, want %d", conflicts(), n)
			}
		}
		if q := r.status().Quarantine; q != "two servers use its key" {
			t.Errorf("quarantine %q", q)
		}
		if err := r.WeighPeer(t.Context(), r.peer.ID(), 0.5); err != nil || conflicts() != 0 ||
			r.status().Quarantine != "" || r.status().Weight != 0.5 {
			t.Errorf("weighed again: %v, %d conflicts, %+v", err, conflicts(), r.status())
		}
		hear(20, 25, conflictRest)
		hear(19, 19, 0)
		hear(20, 25, conflictRest)
		hear(19, 18, 0) // another process: counted anew
		if conflicts() != 1 {
			t.Errorf("%d conflicts of another process, want 1", conflicts())
		}
		r.members[r.peer.public.hint()].growth = growth{adds: 5}
		if err := r.WeighPeer(t.Context(), r.peer.ID(), 2); !errors.Is(err, bulkhead.ErrMalformed) ||
			r.status().Weight != 0.5 {
			t.Errorf("a weight of 2: %v, %v", err, r.status().Weight)
		}
		if err := r.WeighPeer(t.Context(), r.peer.ID(), 1); err != nil ||
			r.members[r.peer.public.hint()].growth != (growth{}) {
			t.Errorf("weighed: %v, charged %+v", err, r.members[r.peer.public.hint()].growth)
		}
	})
}
