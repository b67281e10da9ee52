package replica

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// TestHeadsHeard checks the effect of a head on the replica's arrays: they have gone back, are
// gone, or have expired at the origin.
func TestHeadsHeard(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		x := wire.Ref{Array: engine.ArraySpam, Start: 7}
		held := func(version, partial, boot uint64) []engine.ArrayState {
			return []engine.ArrayState{{Array: x.Array, Start: x.Start, Version: version, Partial: partial,
				Geometry: meshtest.Bits,
				Boot:     boot}}
		}
		named := []wire.ArrayHead{{Ref: x, Version: 9, Geometry: meshtest.Bits, Lineage: wire.Lineage{{Boot: 10, Base: 0},
			{Boot: 20,
				Base: 5}}}}
		for name, tt := range map[string]struct {
			held          []engine.ArrayState
			heads         []wire.ArrayHead
			floor         uint64
			before        func()
			suspect, gone bool
		}{
			"as much":           {held(9, 0, 20), named, 0, nil, false, false},
			"less":              {held(8, 0, 20), named, 0, nil, false, false},
			"more":              {held(10, 0, 20), named, 0, nil, true, false},
			"more, overtaken":   {held(10, 0, 20), named, 0, func() { r.t.last.Seq = 9 }, false, false},
			"of what it found":  {held(5, 0, 10), named, 0, nil, false, false},
			"above that":        {held(6, 0, 10), named, 0, nil, true, false},
			"images above that": {held(0, 6, 10), named, 0, nil, true, false},
			"nothing":           {held(0, 0, 10), nil, 0, nil, false, false},
			"gone":              {held(1, 0, 20), nil, 7, nil, true, true},
			"expired there":     {held(1, 0, 20), nil, 8, nil, false, false},
			"gone, overtaken":   {held(1, 0, 20), nil, 7, func() { r.t.last.Seq = 9 }, false, false},
			"gone and rolled back": {held(1, 0, 20), nil, 7, func() { r.p.Refused = []member.Stretch{{From: 7, To: 7}} }, false,
				false},
			"gone and expired": {held(1, 0, 20), nil, 7, func() { r.Engine.Expired = 7 }, false, false},
		} {
			r.again()
			r.Engine.Expired, r.Engine.Held = 0, tt.held
			at := wire.Stamp{Incarnation: 1, Boot: 20, Seq: 3}
			r.t.last, r.t.suspect, r.t.full, r.t.gone = at, true, true, []wire.Ref{{Array: engine.ArrayCounts, Start: 1}}
			r.t.inspected[wire.Ref{Array: engine.ArraySpam, Start: 3}] = 5
			r.t.evidence.Led = map[wire.Ref][]byte{{Array: engine.ArraySpam, Start: 3}: {1}}
			if tt.before != nil {
				tt.before()
			}
			m := &wire.Message{Kind: wire.KindHead, Stamp: at, Heads: tt.heads, Floors: [2]uint64{99, tt.floor},
				Statement: []byte{4}}
			r.t.applyHead(t.Context(), m)
			if r.t.suspect != tt.suspect || (len(r.t.gone) == 1 && r.t.gone[0] == x) != tt.gone || r.t.full ||
				r.t.doubted.IsZero() == tt.suspect {
				t.Errorf("%s: suspect %v, gone %v, doubted %v; want %v, %v", name, r.t.suspect, r.t.gone, r.t.doubted,
					tt.suspect, tt.gone)
			}
			if r.t.head != at || string(r.t.evidence.Head) != "\x04" || len(r.t.heads) != len(tt.heads) ||
				len(tt.heads) > 0 && r.t.heads[x].Boot != 20 {
				t.Errorf("%s: noted %+v", name, r.t)
			}
			if forgotten := len(r.t.inspected) == 0 && len(r.t.evidence.Led) == 0; forgotten != (r.Engine.Expired >= 3) {
				t.Errorf("%s: what is known of an array that has expired: %v", name, r.t.inspected)
			}
			// A repeated head, and a head of a process that has ended, have no effect.
			for _, old := range []wire.Stamp{at, {Incarnation: 1, Boot: 19, Seq: 99}, {Incarnation: 1, Boot: 20, Seq: 2}} {
				r.t.applyHead(t.Context(), &wire.Message{Kind: wire.KindHead, Stamp: old, Statement: []byte{5}})
				if r.t.head != at || string(r.t.evidence.Head) != "\x04" {
					t.Errorf("%s: a head of %+v after one of %+v is taken", name, old, at)
				}
			}
		}
		// Rounds that lead to versions that the origin never reached are dropped.
		r.again()
		r.Engine.Held, r.Engine.Expired = nil, 0
		for _, one := range []wire.Round{{Ref: x, From: 7, To: 9, Boot: 19}, {Ref: x, From: 8, To: 10, Boot: 19},
			{Ref: x, From: 9, To: 11, Boot: 20}, {Ref: wire.Ref{Array: engine.ArraySpam, Start: 8}, From: 1, To: 2, Boot: 19}} {
			r.t.hold(&one)
		}
		r.t.lost(&wire.Message{Stamp: wire.Stamp{Boot: 20}, Heads: named})
		if len(r.t.pending) != 1 || len(r.t.pending[x]) != 2 || r.t.pending[x][0].To != 9 || r.t.pending[x][1].To != 11 ||
			r.t.waiting != 2*wire.RoundCost {
			t.Errorf("%d bytes wait: %+v", r.t.waiting, r.t.pending)
		}
	})
}

// TestNewLifeHeard checks that a new incarnation replaces the replica once its images or first
// rounds arrive; until then the replica counts.
func TestNewLifeHeard(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		x := wire.Ref{Array: engine.ArraySpam, Start: 7}
		partial := []engine.ArrayState{{Array: x.Array, Start: x.Start, Version: 9, Boot: 5}}
		head := &wire.Message{Kind: wire.KindHead, Heads: []wire.ArrayHead{{Ref: x, Version: 3}}}
		for name, tt := range map[string]struct {
			held []engine.ArrayState
			m    *wire.Message
			next uint64
			want bool
			now  uint64 // t.next after
		}{
			"a head, nothing held":  {nil, head, 0, true, 0},
			"a head":                {partial, head, 0, false, 30},
			"a head of a later one": {partial, head, 29, false, 30},
			"of an earlier one":     {partial, head, 31, false, 31},
			"an empty head":         {partial, &wire.Message{Kind: wire.KindHead}, 0, true, 0},
			"an image":              {partial, &wire.Message{Kind: wire.KindImage}, 0, true, 0},
			"a round": {partial, &wire.Message{Kind: wire.KindDelta, Rounds: []wire.Round{{Ref: x, From: 1, To: 2}}},
				0, false, 0},
			"a first round": {partial,
				&wire.Message{Kind: wire.KindDelta, Rounds: []wire.Round{{Ref: x, From: 1, To: 2}, {Ref: x, From: 0,
					To: 2}}}, 0, true, 0},
		} {
			r.again()
			r.Engine.Held, r.Engine.Renewed = tt.held, nil
			tt.m.Stamp, tt.m.Statement = wire.Stamp{Incarnation: 30, Boot: 31, Seq: 1}, []byte{6}
			r.t.next, r.t.suspect, r.t.gone, r.t.waiting = tt.next, true, []wire.Ref{x}, 5
			r.t.heads[wire.Ref{Array: engine.ArrayCounts, Start: 1}] = wire.ArrayHead{}
			r.t.evidence.Led = map[wire.Ref][]byte{x: {1}}
			if got := r.t.renew(t.Context(), tt.m); got != tt.want || r.t.next != tt.now {
				t.Errorf("%s: taken %v, a life %d to come; want %v, %d", name, got, r.t.next, tt.want, tt.now)
			}
			if tt.want {
				if !slices.Equal(r.Engine.Renewed, []uint64{30}) || r.t.last != tt.m.Stamp || r.t.suspect || r.t.gone != nil ||
					r.t.waiting != 0 || r.t.evidence.Led != nil || string(r.t.evidence.Head) != "\x06" ||
					len(r.t.heads) != 0 {
					t.Errorf("%s: renewed %v, known %+v", name, r.Engine.Renewed, r.t)
				}
			} else if len(r.Engine.Renewed) != 0 || !r.t.suspect || (string(r.t.evidence.Head) == "\x06") != (tt.now == 30) ||
				(r.t.heads[x].Version == 3 && r.t.heads[x].Boot == 31) != (tt.now == 30) {
				t.Errorf("%s: renewed %v, known %+v", name, r.Engine.Renewed, r.t)
			}
		}
		// The proof of an incarnation is kept if it is short, or a head.
		for _, tt := range []struct {
			kind      wire.Kind
			statement int
			want      bool
		}{{wire.KindImage, wire.MaxStatement, true}, {wire.KindImage, wire.MaxStatement + 1, false}, {wire.KindHead,
			wire.MaxStatement + 1, true}} {
			r.again()
			r.Engine.Held = nil
			r.t.renew(t.Context(),
				&wire.Message{Kind: tt.kind, Stamp: wire.Stamp{Incarnation: 40}, Statement: make([]byte, tt.statement)})
			if got := len(r.t.evidence.Head) == tt.statement; got != tt.want {
				t.Errorf("%c of %d bytes is kept: %v", tt.kind, tt.statement, got)
			}
		}
		// An announced incarnation keeps its heads.
		r.again()
		r.t.next = 50
		r.t.heads[x] = wire.ArrayHead{Version: 8}
		if r.t.renew(t.Context(),
			&wire.Message{Kind: wire.KindImage, Stamp: wire.Stamp{Incarnation: 50}}); len(r.t.heads) != 1 {
			t.Error("the heads of the new life are forgotten")
		}
	})
}

// TestAlive checks that a message of an older incarnation is refused, and that its sender is sent
// proof of the newer one if there is any.
func TestAlive(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		r.Engine.Life = 20
		last := wire.Stamp{Incarnation: 20, Boot: 25, Seq: 5}
		for name, tt := range map[string]struct {
			kind     wire.Kind
			at       wire.Stamp
			alive    bool
			notified bool
			refused  string
			last     wire.Stamp
		}{
			"the next": {wire.KindDelta, wire.Stamp{Incarnation: 20, Boot: 25, Seq: 6, At: 0}, true, false, "",
				wire.Stamp{Incarnation: 20, Boot: 25, Seq: 6, At: 0}},
			"one before": {wire.KindDelta, wire.Stamp{Incarnation: 20, Boot: 25, Seq: 4, At: 0}, true, false, "",
				last},
			"a head before": {wire.KindHead, wire.Stamp{Incarnation: 20, Boot: 25, Seq: 4, At: 0}, true, false, "",
				last},
			"of a later process": {wire.KindDelta, wire.Stamp{Incarnation: 20, Boot: 26, Seq: 1, At: 0}, true, false, "",
				wire.Stamp{Incarnation: 20, Boot: 26, Seq: 1, At: 0}},
			"of an earlier one": {wire.KindDelta, wire.Stamp{Incarnation: 20, Boot: 24, Seq: 9, At: 0}, true, false, "",
				last},
			"a head of it": {wire.KindHead, wire.Stamp{Incarnation: 20, Boot: 24, Seq: 9, At: 0}, true, true, "",
				last},
			"of an older life": {wire.KindDelta, wire.Stamp{Incarnation: 19, Boot: 99, Seq: 9, At: 0}, false, false,
				member.ReasonOld, last},
			"a head of an older life": {wire.KindHead, wire.Stamp{Incarnation: 19, Boot: 99, Seq: 9, At: 0}, false, true,
				member.ReasonOld, last},
			"of a new life": {wire.KindHead, wire.Stamp{Incarnation: 21, Boot: 22, Seq: 1, At: 0}, true, false, "",
				wire.Stamp{Incarnation: 21, Boot: 22, Seq: 1, At: 0}},
		} {
			r.again()
			r.Engine.Held = nil
			bubble.Advance(time.Hour)
			r.t.last = last
			for len(r.asked.wants) > 0 {
				<-r.asked.wants
			}
			var alive bool
			got := r.Refused(func() {
				alive = r.t.alive(t.Context(), &wire.Message{Kind: tt.kind, Stamp: tt.at})
			})
			if notified := len(r.asked.wants) == 1; alive != tt.alive || notified != tt.notified || got != tt.refused ||
				r.t.last != tt.last {
				t.Errorf("%s: alive %v, told %v, refused %q, last %+v; want %v, %v, %q, %+v", name, alive, notified, got, r.t.last,
					tt.alive, tt.notified, tt.refused, tt.last)
			}
			if tt.notified {
				if w := <-r.asked.wants; w.Incarnation != 20 || w.Boot != 25 || w.To != r.Peer.Hint() || w.Wants != nil {
					t.Errorf("%s: told %+v", name, w)
				}
				again := func(after time.Duration, want int) {
					t.Helper()
					bubble.Advance(after)
					r.t.alive(t.Context(), &wire.Message{Kind: tt.kind, Stamp: tt.at})
					if len(r.asked.wants) != want {
						t.Errorf("%s: told again %d times, want %d", name, len(r.asked.wants), want)
					}
				}
				again(conflictRest, 0)
				again(time.Nanosecond, 1)
			}
		}
	})
}

// TestTwoLives checks which sequences of heads show two servers with one key. An older process must
// be heard after a newer one, twice, by stamps that are later than the newer process; or four times,
// if the clocks differ.
func TestTwoLives(t *testing.T) {
	const beat = 30 * time.Second
	type head struct {
		life, boot uint64 // boot in seconds after the start of the test
		after      time.Duration
		skew       time.Duration
	}
	a, b := head{life: 1, boot: 1, after: beat}, head{life: 1, boot: 2, after: beat / 2}
	renewed, late := head{life: 2, boot: 3, after: beat / 2}, head{life: 1, boot: 1, after: time.Second, skew: -time.Hour}
	behind := head{life: 1, boot: 1, after: beat / 3, skew: -24 * time.Hour}
	for name, tt := range map[string]struct {
		heads []head
		twins bool
	}{
		"one process":                     {[]head{a, a, a, a, a, a}, false},
		"a restart":                       {[]head{a, a, b, b, b, b, b}, false},
		"a restart, one head late":        {[]head{a, a, b, late, b, b, b}, false},
		"heads on their way":              {[]head{a, a, b, late, b, late, b, late, b, late, b, late, b}, false},
		"a snapshot of a running machine": {[]head{a, b, b, b, a, a, a, a, a, a}, false},
		"two servers":                     {[]head{a, b, a, b, a}, true},
		"two servers, heard late":         {[]head{b, a, b, a}, true},
		"two incarnations":                {[]head{a, renewed, a, renewed, a}, true},
		"one sign":                        {[]head{a, b, a, b, b}, false},
		"a day behind":                    {[]head{behind, b, behind, b, behind, b, behind, b, behind}, true},
		"a day behind, three signs":       {[]head{behind, b, behind, b, behind, b, behind, b}, false},
		"replayed by another":             {[]head{b, behind, b, behind, b, behind, b, behind, b, behind, b}, false},
	} {
		meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
			r := newRig(t, k, nil)
			r.Engine.Life = 1
			start, seq := time.Now(), map[uint64]uint64{}
			for i, h := range tt.heads {
				bubble.Advance(h.after)
				seq[h.boot]++
				at := wire.Stamp{Incarnation: h.life, Boot: uint64(start.Add(time.Duration(h.boot) * time.Second).UnixMilli()),
					Seq: seq[h.boot], At: uint64(r.Options.Now().Add(h.skew).UnixMilli())}
				r.t.peer, _ = r.Find(r.Peer.Hint())
				r.t.conflict(t.Context(), &wire.Message{Kind: wire.KindHead, Stamp: at})
				got, want := r.Entry().Quarantine != "", tt.twins && i == len(tt.heads)-1
				if got != want {
					t.Errorf("%s: quarantined %v after %d heads of %d, want %v", name, got, i+1, len(tt.heads), want)
				}
			}
			if !tt.twins {
				return
			}
			if err := r.WeighPeer(t.Context(), r.Peer.ID(), 0.5); err != nil || r.Entry().Quarantine != "" {
				t.Errorf("%s: weighed again: %v, %+v", name, err, r.Entry())
			}
			if err := r.WeighPeer(t.Context(), r.Peer.ID(), 2); !errors.Is(err, bulkhead.ErrMalformed) ||
				r.Entry().Weight != 0.5 {
				t.Errorf("a weight of 2: %v, %v", err, r.Entry().Weight)
			}
			r.Members[r.Peer.Hint()].Growth = member.Growth{Adds: 5}
			if err := r.WeighPeer(t.Context(), r.Peer.ID(), 1); err != nil ||
				r.Members[r.Peer.Hint()].Growth != (member.Growth{}) {
				t.Errorf("weighed: %v, charged %+v", err, r.Members[r.Peer.Hint()].Growth)
			}
		})
	}
}

// TestNewestProcessShown checks the proof from a peer that has seen no more of a process than a
// delta that waits for others. A node that goes back to before that process receives it, and begins
// a new incarnation.
func TestNewestProcessShown(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		r.Engine.Life = 20
		announced := func(boot uint64) *wire.Message {
			x := meshtest.Round(t, wire.Ref{Array: engine.ArrayCounts, Start: 7}, 5, 1)
			x.Lineage = wire.Lineage{{Boot: boot, Base: 0}}
			m := &wire.Message{Kind: wire.KindDelta, Stamp: wire.Stamp{Incarnation: 20, Boot: boot, Seq: 1, At: boot},
				KeyID: enginetest.Secret.ID(), From: r.Peer.Hint(), Rounds: []wire.Round{x}}
			e, err := wire.OpenEnvelope(wire.AppendMessage(nil, m, r.Peer))
			if err != nil {
				t.Fatal(err)
			}
			m.Statement = e.Statement()
			return m
		}
		r.t.evidence.Head = []byte{1}
		for _, boot := range []uint64{25, 30} {
			r.t.backoff = maxBackoff
			if m := announced(boot); !r.t.alive(t.Context(), m) || !bytes.Equal(r.t.evidence.Began, m.Statement) ||
				r.t.backoff != 2*gapWait {
				t.Fatalf("of process %d: %+v", boot, r.t)
			}
		}
		r.t.alive(t.Context(), announced(25)) // late
		bubble.Advance(time.Hour)
		r.t.alive(t.Context(), &wire.Message{Kind: wire.KindHead, Stamp: wire.Stamp{Incarnation: 20, Boot: 27, Seq: 1,
			At: 27}})
		if len(r.asked.wants) != 1 {
			t.Fatal("nobody is told")
		}
		w := <-r.asked.wants
		if len(w.Proofs) != 2 || !bytes.Equal(w.Proofs[1], announced(30).Statement) {
			t.Fatalf("told %d proofs, want the head and what began the process", len(w.Proofs))
		}
		e, err := wire.OpenStatement(w.Proofs[1])
		if err != nil {
			t.Fatal(err)
		}
		if m, _, err := e.ParseClaim(enginetest.Secret.ID()); err != nil || m.Past().Stamp.Boot != 30 {
			t.Errorf("the proof is of %+v, %v", m.Past(), err)
		}
		// A statement that is too long is not kept, and neither is the former one.
		m := announced(40)
		m.Statement = make([]byte, wire.MaxStatement+1)
		if r.t.alive(t.Context(), m); r.t.evidence.Began != nil {
			t.Error("a long statement is kept")
		}
	})
}
