package replica

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// TestAdmit checks the treatment of a round, and the peer charged for a refusal.
func TestAdmit(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		x := wire.Ref{Array: engine.ArrayCounts, Start: 7}
		good := meshtest.Round(t, x, 4, 2)
		held := func(version, partial uint64) []engine.ArrayState {
			return []engine.ArrayState{{Array: x.Array, Start: x.Start, Version: version, Partial: partial,
				Geometry: meshtest.Cells,
				Boot:     5}}
		}
		for name, tt := range map[string]struct {
			held    []engine.ArrayState
			change  func(*wire.Round)
			before  func()
			now     bool
			waits   bool
			refused string
		}{
			"it continues": {held(4, 0), nil, nil, true, false, ""},
			"it continues and says no more": {held(4, 0),
				func(x *wire.Round) { x.Announce, x.Geometry = false, filter.Geometry{} }, nil, true, false, ""},
			"a later one":                     {held(3, 0), nil, nil, false, true, ""},
			"one that overlaps":               {held(5, 0), nil, nil, false, true, ""},
			"one that is known":               {held(6, 0), nil, nil, false, false, ""},
			"to an array with images to come": {held(6, 9), nil, nil, false, true, ""},
			"to one that waits for images":    {held(4, 9), nil, nil, false, true, ""},
			"another geometry": {held(4, 0), func(x *wire.Round) {
				x.Geometry.K++
			}, nil, false, false, member.ReasonGeometry},
			"no replica": {nil, nil, nil, false, true, ""},
			"no replica, from the start": {nil, func(x *wire.Round) { *x = meshtest.Round(t, x.Ref, 0, 2) }, nil, true, false,
				""},
			"no replica, and no geometry": {nil, func(x *wire.Round) {
				*x = meshtest.Round(t, x.Ref, 0,
					2)
				x.Announce = false
			}, nil,
				false, true, ""},
			"expired": {held(4, 0), nil, func() { r.Engine.Expired = 8 }, false, false, ""},
			"to come": {held(4, 0), nil, func() { r.Engine.Expired = 7 }, false, false, member.ReasonEarly},
			"rolled back": {held(4, 0), nil, func() { r.p.Refused = []member.Stretch{{From: 1, To: 3}, {From: 7, To: 7}} },
				false,
				false, member.ReasonRollback},
			"rolled back before": {held(4, 0), nil, func() {
				r.p.Refused = []member.Stretch{{From: 1, To: 6}, {From: 8,
					To: 9}}
			}, true,
				false, ""},
			"no round": {held(4, 0), func(x *wire.Round) { x.Data = []byte{1} }, nil, false, false,
				member.ReasonAbsurd},
			"no room":    {held(4, 0), nil, func() { r.Engine.Full = true }, false, false, member.ReasonMemory},
			"room later": {held(4, 0), nil, func() { r.Engine.Full, r.Engine.RoomLater = true, true }, false, true, ""},
		} {
			r.again()
			r.Engine.Expired, r.Engine.Full, r.Engine.RoomLater, r.Engine.Needs = 0, false, false, nil
			r.Engine.Held = tt.held
			if tt.before != nil {
				tt.before()
			}
			one := good
			if tt.change != nil {
				tt.change(&one)
			}
			var part engine.Parsed
			var d disposition
			got := r.Refused(func() { part, d = r.t.admit(r.t.replica(), &one) })
			now := d == roundDue
			if waits := len(r.t.pending[x]) == 1; now != tt.now || waits != (d == roundHeld) || waits != tt.waits ||
				got != tt.refused {
				t.Errorf("%s: taken %v, waits %v, refused %q; want %v, %v, %q", name, now, waits, got, tt.now, tt.waits, tt.refused)
			}
			if now && (part.Adds() == nil || part.From != one.From || part.To != one.To || part.Boot != 5 ||
				part.Geometry != meshtest.Cells || r.Engine.Needs[0].Round != part.Adds()) {
				t.Errorf("%s: %+v, for which %+v is needed", name, part, r.Engine.Needs)
			}
		}
	})
}

// TestBatches checks that rounds of several arrays are applied together, that a bad one keeps no
// other out, and that a round that a full disk refuses is not charged.
func TestBatches(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		x, y := wire.Ref{Array: engine.ArrayCounts, Start: 7}, wire.Ref{Array: engine.ArraySpam, Start: 7}
		send := func(rounds ...wire.Round) (held map[wire.Ref]engine.ArrayState) {
			r.Engine.Applied = nil
			held = r.t.replica()
			for i := range rounds {
				rounds[i].Statement = []byte{byte(i + 1)}
			}
			r.t.rounds(t.Context(), held, rounds)
			return held
		}
		held := send(meshtest.Round(t, x, 0, 2), meshtest.Round(t, y, 0, 1), meshtest.Round(t, x, 2, 3))
		if len(r.Engine.Applied) != 2 || len(r.Engine.Applied[0]) != 2 || len(r.Engine.Applied[1]) != 1 ||
			r.Entry().Applied != 3 {
			t.Errorf("%d batches, %d rounds", len(r.Engine.Applied), r.Entry().Applied)
		}
		if a := held[x]; a.Version != 5 ||
			a.Keys != uint64(r.Engine.Applied[0][0].Adds().Len()+r.Engine.Applied[1][0].Adds().Len()) ||
			a.Geometry != meshtest.Cells ||
			a.Boot != 5 || a.Array != x.Array || a.Start != 7 || held[y].Version != 1 {
			t.Errorf("held %+v", held)
		}
		if !reflect.DeepEqual(r.t.evidence.Led, map[wire.Ref][]byte{x: {3}, y: {2}}) {
			t.Errorf("what led there: %v", r.t.evidence.Led)
		}
		if mem := r.Members[r.Peer.Hint()]; mem.Growth.Adds != 5 || mem.Growth.Listings != 1 {
			t.Errorf("charged %v adds and %v listings", mem.Growth.Adds, mem.Growth.Listings)
		}
		for err, want := range map[error]string{
			bulkhead.ErrReadOnly: "", context.Canceled: "", engine.ErrGap: "", bulkhead.ErrForbidden: "",
			bulkhead.ErrGeometry:  member.ReasonGeometry,
			bulkhead.ErrOverLimit: member.ReasonLimit, bulkhead.ErrMalformed: member.ReasonAbsurd,
		} {
			r.again()
			r.Engine.ApplyErr = err
			var held map[wire.Ref]engine.ArrayState
			got := r.Refused(func() { held = send(meshtest.Round(t, x, 0, 2), meshtest.Round(t, y, 0, 1)) })
			if got != want || len(held) != 0 || r.Entry().Applied != 3 || r.t.evidence.Led != nil {
				t.Errorf("%v: refused %q, want %q; %d rounds are applied", err, got, want, r.Entry().Applied)
			}
			if waits := len(r.t.pending[x]) + len(r.t.pending[y]); waits != 2 && errors.Is(err, engine.ErrGap) ||
				waits != 0 && !errors.Is(err, engine.ErrGap) {
				t.Errorf("%v: %d rounds wait", err, waits)
			}
		}
		r.Engine.ApplyErr = nil
	})
}

// TestDrained checks that waiting rounds are applied once they continue the replica, and stay where
// there is no room for them yet.
func TestDrained(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		x := wire.Ref{Array: engine.ArrayCounts, Start: 7}
		state := func(version, partial uint64) map[wire.Ref]engine.ArrayState {
			return map[wire.Ref]engine.ArrayState{x: {Array: x.Array, Start: x.Start, Version: version, Partial: partial,
				Geometry: meshtest.Cells, Boot: 5}}
		}
		for name, tt := range map[string]struct {
			held        map[wire.Ref]engine.ArrayState
			before      func()
			want, waits int
		}{
			"all continue":    {state(2, 0), nil, 3, 0},
			"after the first": {state(4, 0), nil, 2, 0},
			"after all":       {state(8, 0), nil, 0, 0},
			"none":            {state(1, 0), nil, 0, 3},
			"images to come":  {state(2, 9), nil, 0, 3},
			"room later":      {state(2, 0), func() { r.Engine.Full, r.Engine.RoomLater = true, true }, 0, 3},
			"no room":         {state(2, 0), func() { r.Engine.Full = true }, 0, 2},
			"rolled back":     {state(2, 0), func() { r.p.Refused = []member.Stretch{{From: 7, To: 7}} }, 0, 0},
			"expired":         {state(2, 0), func() { r.Engine.Expired = 7 }, 0, 0},
			"of a past": {map[wire.Ref]engine.ArrayState{x: {Array: x.Array, Start: x.Start, Version: 2,
				Geometry: meshtest.Cells,
				Boot:     6}}, nil, 0, 0},
		} {
			r.again()
			r.Engine.Applied, r.Engine.Full, r.Engine.RoomLater, r.Engine.Expired = nil, false, false, 0
			for _, from := range []uint64{4, 2, 6} {
				one := meshtest.Round(t, x, from, 2)
				r.t.hold(&one)
			}
			if tt.before != nil {
				tt.before()
			}
			r.t.drain(t.Context(), tt.held)
			cost := 0
			for _, one := range r.t.pending[x] {
				cost += one.Cost()
			}
			if len(r.Engine.Applied) != tt.want || len(r.t.pending[x]) != tt.waits || r.t.waiting != cost {
				t.Errorf("%s: %d taken, %d wait, %d bytes of %d; want %d, %d", name, len(r.Engine.Applied), len(r.t.pending[x]),
					r.t.waiting, cost, tt.want, tt.waits)
			}
			if _, there := r.t.pending[x]; there != (tt.waits > 0) {
				t.Errorf("%s: noted though nothing waits", name)
			}
		}
	})
}

// TestImagesTaken checks which images of an array are accepted, and which peer is charged for a
// refusal.
func TestImagesTaken(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		x := wire.Ref{Array: engine.ArraySpam, Start: 7}
		b, err := arrays.NewBits(meshtest.Bits)
		if err != nil {
			t.Fatal(err)
		}
		b.SetGeneration(x.Start)
		page := b.Image(0).Append(nil)
		held := func(version, partial, boot uint64) []engine.ArrayState {
			return []engine.ArrayState{{Array: x.Array, Start: x.Start, Version: version, Partial: partial,
				Geometry: meshtest.Bits,
				Boot:     boot}}
		}
		for name, tt := range map[string]struct {
			held    []engine.ArrayState
			pages   [][]byte
			before  func()
			taken   bool
			refused string
		}{
			"the first":             {nil, [][]byte{page}, nil, true, ""},
			"two pages":             {nil, [][]byte{page, page}, nil, true, ""},
			"newer":                 {held(8, 0, 20), [][]byte{page}, nil, true, ""},
			"as new":                {held(9, 0, 20), [][]byte{page}, nil, false, ""},
			"more of it":            {held(4, 9, 20), [][]byte{page}, nil, true, ""},
			"older than others":     {held(4, 10, 20), [][]byte{page}, nil, false, ""},
			"of an earlier process": {held(4, 0, 21), [][]byte{page}, nil, false, ""},
			"it has gone back":      {held(6, 0, 10), [][]byte{page}, nil, false, member.ReasonSuspect},
			"it found as much":      {held(5, 0, 10), [][]byte{page}, nil, true, ""},
			"half has gone back":    {held(4, 6, 10), [][]byte{page}, nil, false, member.ReasonSuspect},
			"nothing to go back to": {held(0, 0, 20), [][]byte{page}, nil, true, ""},
			"expired":               {nil, [][]byte{page}, func() { r.Engine.Expired = 8 }, false, ""},
			"to come":               {nil, [][]byte{page}, func() { r.Engine.Expired = 7 }, false, member.ReasonEarly},
			"rolled back": {nil, [][]byte{page}, func() { r.p.Refused = []member.Stretch{{From: 7, To: 7}} }, false,
				member.ReasonRollback},
			"no image":   {nil, [][]byte{{1}}, nil, false, member.ReasonAbsurd},
			"no room":    {nil, [][]byte{page}, func() { r.Engine.Full = true }, false, member.ReasonMemory},
			"room later": {nil, [][]byte{page}, func() { r.Engine.Full, r.Engine.RoomLater = true, true }, false, ""},
			"not taken": {nil, [][]byte{page}, func() {
				r.Engine.ApplyErr = bulkhead.ErrGeometry
			}, false, member.ReasonGeometry},
		} {
			r.again()
			r.Engine.Applied, r.Engine.Full, r.Engine.RoomLater, r.Engine.Expired, r.Engine.ApplyErr = nil, false, false, 0, nil
			r.Engine.Held = tt.held
			if tt.before != nil {
				tt.before()
			}
			m := &wire.Message{Kind: wire.KindImage, Stamp: wire.Stamp{Incarnation: 1, Boot: 20}, Statement: []byte{5},
				Image: wire.Image{Ref: x, At: 9, Geometry: meshtest.Bits, Lineage: wire.Lineage{{Boot: 10, Base: 0}, {Boot: 20,
					Base: 5}},
					Pages: tt.pages}}
			pages := r.Entry().Pages
			got := r.Refused(func() { r.t.image(t.Context(), m) })
			if taken := len(r.Engine.Applied) == 1; taken != tt.taken || got != tt.refused ||
				r.t.suspect != (got == member.ReasonSuspect) {
				t.Errorf("%s: taken %v, refused %q; want %v, %q", name, taken, got, tt.taken, tt.refused)
			}
			if tt.taken && (len(r.Engine.Applied[0]) != len(tt.pages) || r.Entry().Pages != pages+uint64(len(tt.pages)) ||
				r.Engine.Applied[0][0].At != 9 || r.Engine.Applied[0][0].Boot != 20 || string(r.t.evidence.Led[x]) != "\x05") {
				t.Errorf("%s: %+v, %d pages", name, r.Engine.Applied, r.Entry().Pages-pages)
			}
		}
	})
}

// TestRestoredImageSupersedes: an image of an array that the first process of an incarnation found
// takes the place of the former incarnation's, though no head has come; one begun anew does not.
func TestRestoredImageSupersedes(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		x := wire.Ref{Array: engine.ArraySpam, Start: 7}
		array, err := arrays.NewBits(meshtest.Bits)
		if err != nil {
			t.Fatal(err)
		}
		array.SetGeneration(x.Start)
		page := array.Image(0).Append(nil)
		r.Engine.Former = []engine.FormerIncarnation{{ID: "former1", Incarnation: 1}}
		r.Engine.Held = []engine.ArrayState{{Array: x.Array, Start: x.Start, Version: 5, Boot: 20}, {Array: x.Array, Start: 8,
			Version: 5, Boot: 20}}
		for name, tt := range map[string]struct {
			lineage wire.Lineage
			want    []engine.ArrayKey
		}{
			"restored": {wire.Lineage{{Boot: 20, Base: 5}}, []engine.ArrayKey{{Array: x.Array, Start: x.Start}}},
			"restored, restarted": {wire.Lineage{{Boot: 19, Base: 4}, {Boot: 20, Base: 5}}, []engine.ArrayKey{{Array: x.Array,
				Start: x.Start}}},
			"begun anew":      {wire.Lineage{{Boot: 20, Base: 0}}, nil},
			"anew, restarted": {wire.Lineage{{Boot: 19, Base: 0}, {Boot: 20, Base: 5}}, nil},
		} {
			r.again()
			r.Engine.Superseded, r.Engine.Applied = nil, nil
			m := &wire.Message{Kind: wire.KindImage, Stamp: wire.Stamp{Incarnation: 2, Boot: 20}, Image: wire.Image{Ref: x,
				At: 9, Geometry: meshtest.Bits, Lineage: tt.lineage, Pages: [][]byte{page}}}
			r.t.image(t.Context(), m)
			if !slices.Equal(r.Engine.Superseded, tt.want) || len(r.Engine.Applied) != 1 {
				t.Errorf("%s: %v superseded, %d applied; want %v, 1", name, r.Engine.Superseded, len(r.Engine.Applied), tt.want)
			}
		}
	})
}

// TestFits: a peer's generations are kept up to a number, and a lack of room
// is reported once.
func TestFits(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		held := make(map[wire.Ref]engine.ArrayState)
		for n := range uint64(maxGenerations - 1) {
			held[wire.Ref{Array: engine.ArraySpam, Start: 100 + n}] = engine.ArrayState{}
			held[wire.Ref{Array: engine.ArrayCounts, Start: 100 + n}] = engine.ArrayState{}
		}
		need := engine.Need{Array: engine.ArraySpam, Start: 7}
		fits := func() (now, waits bool, refused string) {
			var found room
			refused = r.Refused(func() { found = r.t.fits(held, need) })
			return found == roomNow, found == roomLater, refused
		}
		if now, waits, refused := fits(); !now || waits || refused != "" {
			t.Errorf("the last generation: %v, %v, %q", now, waits, refused)
		}
		held[wire.Ref{Array: engine.ArraySpam, Start: 99}] = engine.ArrayState{}
		for i, want := range []string{member.ReasonLimit, ""} { // reported once
			if now, waits, refused := fits(); now || waits || refused != want {
				t.Errorf("one more, time %d: %v, %v, %q", i, now, waits, refused)
			}
		}
		need.Start = 99
		r.Engine.Full = true
		for _, tt := range []struct {
			now, later bool
			notified   bool // before
			refused    string
			cramped    bool
		}{{false, false, true, "", true}, {false, false, false, member.ReasonMemory, true}, {false, true, false, "", true},
			{true, false, false, "", false}} {
			r.Engine.RoomNow, r.Engine.RoomLater, r.t.full = tt.now, tt.later, tt.notified
			if now, waits, refused := fits(); now != tt.now || waits != tt.later || refused != tt.refused ||
				r.t.cramped[wire.Ref{Array: engine.ArraySpam, Start: 99}] != tt.cramped {
				t.Errorf("%+v: %v, %v, %q, cramped %v", tt, now, waits, refused, r.t.cramped)
			}
		}
	})
}

// TestMissing checks what is requested of each array, and what is not.
func TestMissing(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		x := wire.Ref{Array: engine.ArraySpam, Start: 7}
		held := func(version, partial uint64) []engine.ArrayState {
			return []engine.ArrayState{{Array: x.Array, Start: x.Start, Version: version, Partial: partial,
				Geometry: meshtest.Bits,
				Boot:     5}}
		}
		at := func(version, boot uint64, partial bool) []wire.ArrayHead {
			return []wire.ArrayHead{{Ref: x, Version: version, Boot: boot, Partial: partial}}
		}
		for name, tt := range map[string]struct {
			held    []engine.ArrayState
			before  func()
			want    []wire.ArrayHead
			changes uint64
			waits   bool
		}{
			"nothing":            {held(9, 0), nil, nil, 0, false},
			"more than the head": {held(10, 0), nil, nil, 0, false},
			"the last":           {held(8, 0), nil, at(8, 5, false), 1, false},
			"all of it":          {nil, nil, at(0, 0, false), 9, false},
			"images":             {held(4, 9), nil, at(9, 5, true), 5, false},
			"a new life":         {held(9, 0), func() { r.t.next = 3 }, at(0, 0, false), 9, false},
			"in doubt":           {held(9, 0), func() { r.t.suspect = true }, at(9, 5, false), 0, false},
			"expired":            {nil, func() { r.Engine.Expired = 7 }, nil, 0, false},
			"rolled back":        {nil, func() { r.p.Refused = []member.Stretch{{From: 7, To: 7}} }, nil, 0, false},
			"no room":            {nil, func() { r.Engine.Full = true }, nil, 0, false},
			"room later":         {nil, func() { r.Engine.Full, r.Engine.RoomLater = true, true }, nil, 9, true},
			"cramped":            {held(8, 0), func() { r.t.cramped[x] = true; r.Engine.Full = true }, nil, 0, false},
			"cramped, room later": {held(8, 0), func() {
				r.t.cramped[x] = true
				r.Engine.Full, r.Engine.RoomLater = true,
					true
			}, nil,
				0, true},
			"cramped, and room now": {held(8, 0), func() { r.t.cramped[x] = true; r.Engine.Full, r.Engine.RoomNow = true, true },
				at(8, 5, false), 1, false},
			"gone": {held(8, 0),
				func() { clear(r.t.heads); r.t.gone = []wire.Ref{x, {Array: engine.ArrayCounts, Start: 1}} }, at(8, 5,
					false), 0, false},
			"gone in another life": {held(8, 0), func() { clear(r.t.heads); r.t.gone = []wire.Ref{x}; r.t.next = 3 }, nil, 0,
				false},
			"a round that waits": {held(2, 0), func() { clear(r.t.heads); one := meshtest.Round(t, x, 4, 2); r.t.hold(&one) },
				at(2, 5, false), 4, false},
			"a round, and a head": {held(2, 0), func() { one := meshtest.Round(t, x, 4, 2); r.t.hold(&one) }, at(2, 5, false),
				7, false},
			"a round of nothing known": {nil, func() { clear(r.t.heads); one := meshtest.Round(t, x, 4, 2); r.t.hold(&one) },
				at(0, 0, false), 6, false},
			"a round beyond the head": {held(9, 0), func() { one := meshtest.Round(t, x, 11, 2); r.t.hold(&one) }, at(9, 5,
				false),
				4, false},
		} {
			r.again()
			r.Engine.Full, r.Engine.RoomNow, r.Engine.RoomLater, r.Engine.Expired = false, false, false, 0
			r.Engine.Held = tt.held
			r.t.heads[x] = wire.ArrayHead{Ref: x, Version: 9, Geometry: meshtest.Bits}
			if tt.before != nil {
				tt.before()
			}
			wants, changes, waits := r.t.missing()
			if !reflect.DeepEqual(wants, tt.want) || changes != tt.changes || waits != tt.waits {
				t.Errorf("%s: %+v, %d changes, waits %v; want %+v, %d, %v", name, wants, changes, waits, tt.want, tt.changes,
					tt.waits)
			}
		}
		r.again()
		r.Engine.Held, r.Engine.Expired, r.Engine.Full = nil, 0, false
		for n := range uint64(wire.MaxParts) {
			y := wire.Ref{Array: []engine.Array{engine.ArraySpam, engine.ArrayCounts}[n%2], Start: 100 + n}
			r.t.heads[y] = wire.ArrayHead{Ref: y, Version: 1}
		}
		if wants, changes, _ := r.t.missing(); len(wants) != wire.MaxParts/2 || changes != wire.MaxParts {
			t.Errorf("%d arrays are asked for at once, %d changes; want %d", len(wants), changes, wire.MaxParts/2)
		}
	})
}

// TestRepair checks that missing arrays are requested after a moment and then at growing intervals,
// with proofs for an origin that has gone back.
func TestRepair(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		x := wire.Ref{Array: engine.ArraySpam, Start: 7}
		asked := func() (w *wire.Message) {
			t.Helper()
			r.receiver.repair(t.Context())
			select {
			case w = <-r.asked.wants:
			default:
			}
			return w
		}
		if r.receiver.repair(t.Context()) {
			t.Error("something is missing of a peer that said nothing")
		}
		r.Engine.Life = 44
		r.t.dirty, r.t.last, r.t.evidence = true, wire.Stamp{Boot: 50}, wire.Evidence{Head: []byte{1}}
		r.t.heads[x] = wire.ArrayHead{Ref: x, Version: 9, Geometry: meshtest.Bits}
		if asked() != nil || r.t.stop != nil || r.t.backoff != 2*gapWait || r.Entry().Missing != 9 {
			t.Errorf("asked at once; %d are missing", r.Entry().Missing)
		}
		bubble.Advance(gapWait)
		w := asked()
		if w == nil || w.To != r.Peer.Hint() || w.Incarnation != 44 || w.Boot != 50 || len(w.Wants) != 1 ||
			w.Proofs != nil || len(r.t.stop) != 1 || r.Entry().Asked != 1 || time.Since(r.Entry().Behind) != gapWait {
			t.Errorf("asked %+v; status %+v", w, r.Entry())
		}
		for wait := 2 * gapWait; wait < 3*time.Minute; wait *= 2 {
			limited := min(wait, maxBackoff)
			bubble.Advance(limited/2 - 1)
			if asked() != nil {
				t.Errorf("asked again before %v", limited/2)
			}
			bubble.Advance(limited/2 + 2)
			if asked() == nil {
				t.Errorf("not asked again after %v", limited)
			}
			if r.t.backoff != min(4*limited, maxBackoff) {
				t.Errorf("asked again after %v next, had waited %v", r.t.backoff, limited)
			}
		}
		for _, tt := range []struct {
			suspect bool
			next    uint64
			life    uint64
			proofs  int
		}{{true, 0, 44, 1}, {false, 45, 45, 1}, {false, 0, 44, 0}} {
			r.t.suspect, r.t.next, r.t.doubted = tt.suspect, tt.next, time.Now()
			bubble.Advance(maxBackoff)
			if w := asked(); w == nil || w.Incarnation != tt.life || len(w.Proofs) != tt.proofs {
				t.Errorf("%+v: asked %+v", tt, w)
			}
		}
		// While a broker is read, a gap may close by itself.
		r.again()
		r.receiver.catching = 1
		r.t.dirty = true
		r.t.heads[x] = wire.ArrayHead{Ref: x, Version: 9, Geometry: meshtest.Bits}
		asked()
		bubble.Advance(catchUpWait - 1)
		if asked() != nil {
			t.Error("asked while a broker is read")
		}
		bubble.Advance(time.Nanosecond)
		if asked() == nil {
			t.Error("not asked after a broker was read for long")
		}
		r.receiver.catching = 0
		r.Engine.Held = []engine.ArrayState{{Array: x.Array, Start: x.Start, Version: 9, Geometry: meshtest.Bits}}
		if !r.t.dirty || r.receiver.repair(t.Context()) || r.t.dirty || r.t.stop != nil || !r.t.since.IsZero() ||
			r.t.backoff != 0 || !r.Entry().Behind.IsZero() || r.Entry().Missing != 0 {
			t.Errorf("nothing is missing: %+v", r.t)
		}
		r.Bus.Bus.Broker.Mu.Lock()
		if n := len(r.Bus.Subs); n != 0 {
			t.Errorf("%d subscriptions are left", n)
		}
		r.Bus.Bus.Broker.Mu.Unlock()
		r.t.dirty = true
		delete(r.Members, r.Peer.Hint())
		if r.receiver.repair(t.Context()) || len(r.receiver.origins) != 0 {
			t.Error("what is known of a peer that is none")
		}
	})
}

// TestNothingWaits checks that waiting rounds that have arrived by other ways are dropped, and make
// room for others.
func TestNothingWaits(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		x := wire.Ref{Array: engine.ArrayCounts, Start: 7}
		one := meshtest.Round(t, x, 7, 2)
		if r.t.hold(&one); r.t.waiting == 0 {
			t.Fatal("a round that continues nothing does not wait")
		}
		r.Engine.Held = []engine.ArrayState{{Array: x.Array, Start: x.Start, Version: 50, Boot: 5, Geometry: meshtest.Cells}}
		r.t.dirty = true
		if r.receiver.repair(t.Context()) || len(r.t.pending)+r.t.waiting != 0 {
			t.Errorf("%d arrays, %d bytes wait for what is here", len(r.t.pending), r.t.waiting)
		}
	})
}

// TestEndlessGaps checks that rounds that never continue an array are kept up to a limit, however
// small they are, and that none of them keeps its message alive.
func TestEndlessGaps(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		r.Engine.Expired = 1
		r.Engine.Life = 1
		from, seq := uint64(1000), uint64(0)
		take := func(rounds []wire.Round) {
			seq++
			r.receiver.take(t.Context(), &incoming{m: &wire.Message{Kind: wire.KindDelta, From: r.Peer.Hint(), Rounds: rounds,
				Stamp: wire.Stamp{Incarnation: 1, Boot: 1, Seq: seq, At: 1}}})
		}
		for range 40 {
			var rounds []wire.Round
			for range wire.MaxParts {
				rounds = append(rounds, wire.Round{Ref: wire.Ref{Array: engine.ArrayCounts, Start: 7}, From: from, To: from + 1})
				from += 2
			}
			take(rounds)
		}
		// One waiting byte, in a message of a megabyte.
		data := make([]byte, 1<<20)
		take([]wire.Round{
			{Ref: wire.Ref{Array: engine.ArraySpam, Start: 7}, From: 7, To: 9, Data: data[:1]},
			{Ref: wire.Ref{Array: engine.ArrayCounts, Start: 1}, From: 7, To: 9, Data: data}, // expired long ago
		})
		rounds, held := 0, 0
		for _, list := range r.t.pending {
			rounds += len(list)
			for _, x := range list {
				held += cap(x.Data)
			}
		}
		if limit := maxPending / wire.RoundCost; rounds == 0 || rounds > limit {
			t.Errorf("%d rounds wait, want 1 to %d", rounds, limit)
		}
		if held > len(data)/8 {
			t.Errorf("%d bytes of messages are kept, limit %d", held, len(data)/8)
		}
		if p := r.Entry(); p.Refusals.Count[member.ReasonWaiting] == 0 ||
			!strings.Contains(r.Log.String(), member.ReasonWaiting) {
			t.Errorf("what has no room is not booked: %+v", p.Refusals)
		}
	})
}
