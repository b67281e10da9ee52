package mesh

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// TestAdmit checks the treatment of a round, and the peer charged for a refusal.
func TestAdmit(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		r := newRig(t, k, nil)
		x := ref{engine.ArrayCounts, 7}
		good := roundOf(t, x, 4, 2)
		held := func(version, partial uint64) []engine.ArrayState {
			return []engine.ArrayState{{Array: x.array, Start: x.start, Version: version, Partial: partial, Geometry: cellsOf,
				Boot: 5}}
		}
		for name, tt := range map[string]struct {
			held    []engine.ArrayState
			change  func(*round)
			before  func()
			now     bool
			waits   bool
			refused string
		}{
			"it continues": {held(4, 0), nil, nil, true, false, ""},
			"it continues and says no more": {held(4, 0),
				func(x *round) { x.announce, x.geometry = false, filter.Geometry{} }, nil, true, false, ""},
			"a later one":                     {held(3, 0), nil, nil, false, true, ""},
			"one that overlaps":               {held(5, 0), nil, nil, false, true, ""},
			"one that is known":               {held(6, 0), nil, nil, false, false, ""},
			"to an array with images to come": {held(6, 9), nil, nil, false, true, ""},
			"to one that waits for images":    {held(4, 9), nil, nil, false, true, ""},
			"another geometry": {held(4, 0), func(x *round) {
				x.geometry.K++
			}, nil, false, false, reasonGeometry},
			"no replica":                 {nil, nil, nil, false, true, ""},
			"no replica, from the start": {nil, func(x *round) { *x = roundOf(t, x.ref, 0, 2) }, nil, true, false, ""},
			"no replica, and no geometry": {nil, func(x *round) { *x = roundOf(t, x.ref, 0, 2); x.announce = false }, nil,
				false, true, ""},
			"expired": {held(4, 0), nil, func() { r.e.expired = 8 }, false, false, ""},
			"to come": {held(4, 0), nil, func() { r.e.expired = 7 }, false, false, reasonEarly},
			"rolled back": {held(4, 0), nil, func() { r.p.Refused = []stretch{{1, 3}, {7, 7}} }, false,
				false, reasonRollback},
			"rolled back before": {held(4, 0), nil, func() { r.p.Refused = []stretch{{1, 6}, {8, 9}} }, true,
				false, ""},
			"no round": {held(4, 0), func(x *round) { x.data = []byte{1} }, nil, false, false,
				reasonAbsurd},
			"no room":    {held(4, 0), nil, func() { r.e.full = true }, false, false, reasonMemory},
			"room later": {held(4, 0), nil, func() { r.e.full, r.e.later = true, true }, false, true, ""},
		} {
			r.again()
			r.e.expired, r.e.full, r.e.later, r.e.needs = 0, false, false, nil
			r.e.held = tt.held
			if tt.before != nil {
				tt.before()
			}
			one := good
			if tt.change != nil {
				tt.change(&one)
			}
			var part engine.Parsed
			var now bool
			got := r.refused(func() { part, now = r.receiver.admit(&r.p, r.t, r.receiver.replica(r.p.ID), &one) })
			if waits := len(r.t.pending[x]) == 1; now != tt.now || waits != tt.waits || got != tt.refused {
				t.Errorf("%s: taken %v, waits %v, refused %q; want %v, %v, %q", name, now, waits, got, tt.now, tt.waits, tt.refused)
			}
			if now && (part.Adds() == nil || part.From != one.from || part.To != one.to || part.Boot != 5 ||
				part.Geometry != cellsOf || r.e.needs[0].Round != part.Adds()) {
				t.Errorf("%s: %+v, for which %+v is needed", name, part, r.e.needs)
			}
		}
	})
}

// TestBatches checks that rounds of several arrays are applied together, that a bad one keeps no
// other out, and that a round that a full disk refuses is not charged.
func TestBatches(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		r := newRig(t, k, nil)
		x, y := ref{engine.ArrayCounts, 7}, ref{engine.ArraySpam, 7}
		send := func(rounds ...round) (held map[ref]engine.ArrayState) {
			r.e.applied = nil
			held = r.receiver.replica(r.p.ID)
			for i := range rounds {
				rounds[i].said = []byte{byte(i + 1)}
			}
			r.receiver.rounds(t.Context(), &r.p, r.t, held, rounds)
			return held
		}
		held := send(roundOf(t, x, 0, 2), roundOf(t, y, 0, 1), roundOf(t, x, 2, 3))
		if len(r.e.applied) != 2 || len(r.e.applied[0]) != 2 || len(r.e.applied[1]) != 1 || r.status().Applied != 3 {
			t.Errorf("%d batches, %d rounds", len(r.e.applied), r.status().Applied)
		}
		if a := held[x]; a.Version != 5 ||
			a.Keys != uint64(r.e.applied[0][0].Adds().Len()+r.e.applied[1][0].Adds().Len()) || a.Geometry != cellsOf ||
			a.Boot != 5 || a.Array != x.array || a.Start != 7 || held[y].Version != 1 {
			t.Errorf("held %+v", held)
		}
		if !reflect.DeepEqual(r.t.said.led, map[ref][]byte{x: {3}, y: {2}}) {
			t.Errorf("what led there: %v", r.t.said.led)
		}
		if mem := r.members[r.peer.public.hint()]; mem.growth.adds != 5 || mem.growth.listings != 1 {
			t.Errorf("charged %v adds and %v listings", mem.growth.adds, mem.growth.listings)
		}
		for err, want := range map[error]string{
			bulkhead.ErrReadOnly: "", context.Canceled: "", engine.ErrGap: "", bulkhead.ErrForbidden: "",
			bulkhead.ErrGeometry:  reasonGeometry,
			bulkhead.ErrOverLimit: reasonLimit, bulkhead.ErrMalformed: reasonAbsurd,
		} {
			r.again()
			r.e.applyErr = err
			var held map[ref]engine.ArrayState
			got := r.refused(func() { held = send(roundOf(t, x, 0, 2), roundOf(t, y, 0, 1)) })
			if got != want || len(held) != 0 || r.status().Applied != 3 || r.t.said.led != nil {
				t.Errorf("%v: refused %q, want %q; %d rounds are applied", err, got, want, r.status().Applied)
			}
			if waits := len(r.t.pending[x]) + len(r.t.pending[y]); waits != 2 && errors.Is(err, engine.ErrGap) ||
				waits != 0 && !errors.Is(err, engine.ErrGap) {
				t.Errorf("%v: %d rounds wait", err, waits)
			}
		}
		r.e.applyErr = nil
	})
}

// TestDrained checks that waiting rounds are applied once they continue the replica, and stay where
// there is no room for them yet.
func TestDrained(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		r := newRig(t, k, nil)
		x := ref{engine.ArrayCounts, 7}
		state := func(version, partial uint64) map[ref]engine.ArrayState {
			return map[ref]engine.ArrayState{x: {Array: x.array, Start: x.start, Version: version, Partial: partial,
				Geometry: cellsOf, Boot: 5}}
		}
		for name, tt := range map[string]struct {
			held        map[ref]engine.ArrayState
			before      func()
			want, waits int
		}{
			"all continue":    {state(2, 0), nil, 3, 0},
			"after the first": {state(4, 0), nil, 2, 0},
			"after all":       {state(8, 0), nil, 0, 0},
			"none":            {state(1, 0), nil, 0, 3},
			"images to come":  {state(2, 9), nil, 0, 3},
			"room later":      {state(2, 0), func() { r.e.full, r.e.later = true, true }, 0, 3},
			"no room":         {state(2, 0), func() { r.e.full = true }, 0, 2},
			"rolled back":     {state(2, 0), func() { r.p.Refused = []stretch{{7, 7}} }, 0, 0},
			"expired":         {state(2, 0), func() { r.e.expired = 7 }, 0, 0},
			"of a past": {map[ref]engine.ArrayState{x: {Array: x.array, Start: x.start, Version: 2, Geometry: cellsOf,
				Boot: 6}}, nil, 0, 0},
		} {
			r.again()
			r.e.applied, r.e.full, r.e.later, r.e.expired = nil, false, false, 0
			for _, from := range []uint64{4, 2, 6} {
				one := roundOf(t, x, from, 2)
				r.t.hold(&one)
			}
			if tt.before != nil {
				tt.before()
			}
			r.receiver.drain(t.Context(), &r.p, r.t, tt.held)
			cost := 0
			for _, one := range r.t.pending[x] {
				cost += one.cost()
			}
			if len(r.e.applied) != tt.want || len(r.t.pending[x]) != tt.waits || r.t.waiting != cost {
				t.Errorf("%s: %d taken, %d wait, %d bytes of %d; want %d, %d", name, len(r.e.applied), len(r.t.pending[x]),
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
	inBubble(t, func(t *testing.T, k *memBroker) {
		r := newRig(t, k, nil)
		x := ref{engine.ArraySpam, 7}
		b, err := arrays.NewBits(bitsOf)
		if err != nil {
			t.Fatal(err)
		}
		b.SetGeneration(x.start)
		page := b.Image(0).Append(nil)
		held := func(version, partial, boot uint64) []engine.ArrayState {
			return []engine.ArrayState{{Array: x.array, Start: x.start, Version: version, Partial: partial, Geometry: bitsOf,
				Boot: boot}}
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
			"it has gone back":      {held(6, 0, 10), [][]byte{page}, nil, false, reasonSuspect},
			"it found as much":      {held(5, 0, 10), [][]byte{page}, nil, true, ""},
			"half has gone back":    {held(4, 6, 10), [][]byte{page}, nil, false, reasonSuspect},
			"nothing to go back to": {held(0, 0, 20), [][]byte{page}, nil, true, ""},
			"expired":               {nil, [][]byte{page}, func() { r.e.expired = 8 }, false, ""},
			"to come":               {nil, [][]byte{page}, func() { r.e.expired = 7 }, false, reasonEarly},
			"rolled back":           {nil, [][]byte{page}, func() { r.p.Refused = []stretch{{7, 7}} }, false, reasonRollback},
			"no image":              {nil, [][]byte{{1}}, nil, false, reasonAbsurd},
			"no room":               {nil, [][]byte{page}, func() { r.e.full = true }, false, reasonMemory},
			"room later":            {nil, [][]byte{page}, func() { r.e.full, r.e.later = true, true }, false, ""},
			"not taken": {nil, [][]byte{page}, func() {
				r.e.applyErr = bulkhead.ErrGeometry
			}, false, reasonGeometry},
		} {
			r.again()
			r.e.applied, r.e.full, r.e.later, r.e.expired, r.e.applyErr = nil, false, false, 0, nil
			r.e.held = tt.held
			if tt.before != nil {
				tt.before()
			}
			m := &message{kind: kindImage, stamp: stamp{incarnation: 1, boot: 20}, said: []byte{5},
				image: image{ref: x, at: 9, geometry: bitsOf, lineage: lineage{{10, 0}, {20, 5}}, pages: tt.pages}}
			pages := r.status().Pages
			got := r.refused(func() { r.receiver.image(t.Context(), &r.p, r.t, m) })
			if taken := len(r.e.applied) == 1; taken != tt.taken || got != tt.refused || r.t.suspect != (got == reasonSuspect) {
				t.Errorf("%s: taken %v, refused %q; want %v, %q", name, taken, got, tt.taken, tt.refused)
			}
			if tt.taken && (len(r.e.applied[0]) != len(tt.pages) || r.status().Pages != pages+uint64(len(tt.pages)) ||
				r.e.applied[0][0].At != 9 || r.e.applied[0][0].Boot != 20 || string(r.t.said.led[x]) != "\x05") {
				t.Errorf("%s: %+v, %d pages", name, r.e.applied, r.status().Pages-pages)
			}
		}
	})
}

// TestRestoredImageSupersedes: an image of an array that the first process of an incarnation found
// takes the place of the former incarnation's, though no head has come; one begun anew does not.
func TestRestoredImageSupersedes(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		r := newRig(t, k, nil)
		x := ref{engine.ArraySpam, 7}
		array, err := arrays.NewBits(bitsOf)
		if err != nil {
			t.Fatal(err)
		}
		array.SetGeneration(x.start)
		page := array.Image(0).Append(nil)
		r.e.former = []engine.FormerIncarnation{{ID: "former1", Incarnation: 1}}
		r.e.held = []engine.ArrayState{{Array: x.array, Start: x.start, Version: 5, Boot: 20}, {Array: x.array, Start: 8, Version: 5, Boot: 20}}
		for name, tt := range map[string]struct {
			lineage lineage
			want    []engine.ArrayKey
		}{
			"restored":            {lineage{{20, 5}}, []engine.ArrayKey{{Array: x.array, Start: x.start}}},
			"restored, restarted": {lineage{{19, 4}, {20, 5}}, []engine.ArrayKey{{Array: x.array, Start: x.start}}},
			"begun anew":          {lineage{{20, 0}}, nil},
			"anew, restarted":     {lineage{{19, 0}, {20, 5}}, nil},
		} {
			r.again()
			r.e.superseded, r.e.applied = nil, nil
			m := &message{kind: kindImage, stamp: stamp{incarnation: 2, boot: 20}, image: image{ref: x, at: 9, geometry: bitsOf, lineage: tt.lineage, pages: [][]byte{page}}}
			r.receiver.image(t.Context(), &r.p, r.t, m)
			if !slices.Equal(r.e.superseded, tt.want) || len(r.e.applied) != 1 {
				t.Errorf("%s: %v superseded, %d applied; want %v, 1", name, r.e.superseded, len(r.e.applied), tt.want)
			}
		}
	})
}

// TestFits: a peer's generations are kept up to a number, and a lack of room
// is reported once.
func TestFits(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		r := newRig(t, k, nil)
		held := make(map[ref]engine.ArrayState)
		for n := range uint64(maxGenerations - 1) {
			held[ref{engine.ArraySpam, 100 + n}] = engine.ArrayState{}
			held[ref{engine.ArrayCounts, 100 + n}] = engine.ArrayState{}
		}
		need := engine.Need{Array: engine.ArraySpam, Start: 7}
		fits := func() (now, waits bool, refused string) {
			refused = r.refused(func() { now, waits = r.receiver.fits(&r.p, r.t, held, need) })
			return now, waits, refused
		}
		if now, waits, refused := fits(); !now || waits || refused != "" {
			t.Errorf("the last generation: %v, %v, %q", now, waits, refused)
		}
		held[ref{engine.ArraySpam, 99}] = engine.ArrayState{}
		for i, want := range []string{reasonLimit, ""} { // reported once
			if now, waits, refused := fits(); now || waits || refused != want {
				t.Errorf("one more, time %d: %v, %v, %q", i, now, waits, refused)
			}
		}
		need.Start = 99
		r.e.full = true
		for _, tt := range []struct {
			now, later bool
			told       bool // before
			refused    string
			cramped    bool
		}{{false, false, true, "", true}, {false, false, false, reasonMemory, true}, {false, true, false, "", true},
			{true, false, false, "", false}} {
			r.e.now, r.e.later, r.t.full = tt.now, tt.later, tt.told
			if now, waits, refused := fits(); now != tt.now || waits != tt.later || refused != tt.refused ||
				r.t.cramped[ref{engine.ArraySpam, 99}] != tt.cramped {
				t.Errorf("%+v: %v, %v, %q, cramped %v", tt, now, waits, refused, r.t.cramped)
			}
		}
	})
}

// TestMissing checks what is requested of each array, and what is not.
func TestMissing(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		r := newRig(t, k, nil)
		x := ref{engine.ArraySpam, 7}
		held := func(version, partial uint64) []engine.ArrayState {
			return []engine.ArrayState{{Array: x.array, Start: x.start, Version: version, Partial: partial, Geometry: bitsOf,
				Boot: 5}}
		}
		at := func(version, boot uint64, partial bool) []arrayHead {
			return []arrayHead{{ref: x, version: version, boot: boot, partial: partial}}
		}
		for name, tt := range map[string]struct {
			held    []engine.ArrayState
			before  func()
			want    []arrayHead
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
			"expired":            {nil, func() { r.e.expired = 7 }, nil, 0, false},
			"rolled back":        {nil, func() { r.p.Refused = []stretch{{7, 7}} }, nil, 0, false},
			"no room":            {nil, func() { r.e.full = true }, nil, 0, false},
			"room later":         {nil, func() { r.e.full, r.e.later = true, true }, nil, 9, true},
			"cramped":            {held(8, 0), func() { r.t.cramped[x] = true; r.e.full = true }, nil, 0, false},
			"cramped, room later": {held(8, 0), func() { r.t.cramped[x] = true; r.e.full, r.e.later = true, true }, nil,
				0, true},
			"cramped, and room now": {held(8, 0), func() { r.t.cramped[x] = true; r.e.full, r.e.now = true, true },
				at(8, 5, false), 1, false},
			"gone": {held(8, 0),
				func() { clear(r.t.heads); r.t.gone = []ref{x, {engine.ArrayCounts, 1}} }, at(8, 5, false), 0, false},
			"gone in another life": {held(8, 0), func() { clear(r.t.heads); r.t.gone = []ref{x}; r.t.next = 3 }, nil, 0,
				false},
			"a round that waits": {held(2, 0), func() { clear(r.t.heads); one := roundOf(t, x, 4, 2); r.t.hold(&one) },
				at(2, 5, false), 4, false},
			"a round, and a head": {held(2, 0), func() { one := roundOf(t, x, 4, 2); r.t.hold(&one) }, at(2, 5, false),
				7, false},
			"a round of nothing known": {nil, func() { clear(r.t.heads); one := roundOf(t, x, 4, 2); r.t.hold(&one) },
				at(0, 0, false), 6, false},
			"a round beyond the head": {held(9, 0), func() { one := roundOf(t, x, 11, 2); r.t.hold(&one) }, at(9, 5, false),
				4, false},
		} {
			r.again()
			r.e.full, r.e.now, r.e.later, r.e.expired = false, false, false, 0
			r.e.held = tt.held
			r.t.heads[x] = arrayHead{ref: x, version: 9, geometry: bitsOf}
			if tt.before != nil {
				tt.before()
			}
			wants, changes, waits := r.receiver.missing(&r.p, r.t)
			if !reflect.DeepEqual(wants, tt.want) || changes != tt.changes || waits != tt.waits {
				t.Errorf("%s: %+v, %d changes, waits %v; want %+v, %d, %v", name, wants, changes, waits, tt.want, tt.changes,
					tt.waits)
			}
		}
		r.again()
		r.e.held, r.e.expired, r.e.full = nil, 0, false
		for n := range uint64(maxParts) {
			y := ref{[]engine.Array{engine.ArraySpam, engine.ArrayCounts}[n%2], 100 + n}
			r.t.heads[y] = arrayHead{ref: y, version: 1}
		}
		if wants, changes, _ := r.receiver.missing(&r.p, r.t); len(wants) != maxParts/2 || changes != maxParts {
			t.Errorf("%d arrays are asked for at once, %d changes; want %d", len(wants), changes, maxParts/2)
		}
	})
}

// TestRepair checks that missing arrays are requested after a moment and then at growing intervals,
// with proofs for an origin that has gone back.
func TestRepair(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		r := newRig(t, k, nil)
		x := ref{engine.ArraySpam, 7}
		asked := func() (w *wish) {
			t.Helper()
			r.receiver.repair(t.Context())
			select {
			case got := <-r.sender.wants:
				w = &got
			default:
			}
			return w
		}
		if r.receiver.repair(t.Context()) {
			t.Error("something is missing of a peer that said nothing")
		}
		r.e.life = 44
		r.t.dirty, r.t.last, r.t.said = true, stamp{boot: 50}, evidence{head: []byte{1}}
		r.t.heads[x] = arrayHead{ref: x, version: 9, geometry: bitsOf}
		if asked() != nil || r.t.stop != nil || r.t.backoff != 2*gapWait || r.status().Missing != 9 {
			t.Errorf("asked at once; %d are missing", r.status().Missing)
		}
		time.Sleep(gapWait)
		w := asked()
		if w == nil || w.origin != r.peer.public.hint() || w.life != 44 || w.boot != 50 || len(w.arrays) != 1 ||
			w.proofs != nil || len(r.t.stop) != 1 || r.status().Asked != 1 || r.status().Behind != gapWait {
			t.Errorf("asked %+v; status %+v", w, r.status())
		}
		for wait := 2 * gapWait; wait < 3*time.Minute; wait *= 2 {
			limited := min(wait, maxBackoff)
			time.Sleep(limited/2 - 1)
			if asked() != nil {
				t.Errorf("asked again before %v", limited/2)
			}
			time.Sleep(limited/2 + 2)
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
			time.Sleep(maxBackoff)
			if w := asked(); w == nil || w.life != tt.life || len(w.proofs) != tt.proofs {
				t.Errorf("%+v: asked %+v", tt, w)
			}
		}
		// While a broker is read, a gap may close by itself.
		r.again()
		r.receiver.catching = 1
		r.t.dirty = true
		r.t.heads[x] = arrayHead{ref: x, version: 9, geometry: bitsOf}
		asked()
		time.Sleep(catchUpWait - 1)
		if asked() != nil {
			t.Error("asked while a broker is read")
		}
		time.Sleep(time.Nanosecond)
		if asked() == nil {
			t.Error("not asked after a broker was read for long")
		}
		r.receiver.catching = 0
		r.e.held = []engine.ArrayState{{Array: x.array, Start: x.start, Version: 9, Geometry: bitsOf}}
		if !r.t.dirty || r.receiver.repair(t.Context()) || r.t.dirty || r.t.stop != nil || !r.t.since.IsZero() ||
			r.t.backoff != 0 || r.status().Behind != 0 || r.status().Missing != 0 {
			t.Errorf("nothing is missing: %+v", r.t)
		}
		r.bus.memBus.k.mu.Lock()
		if n := len(r.bus.subs); n != 0 {
			t.Errorf("%d subscriptions are left", n)
		}
		r.bus.memBus.k.mu.Unlock()
		r.t.dirty = true
		delete(r.members, r.peer.public.hint())
		if r.receiver.repair(t.Context()) || len(r.receiver.origins) != 0 {
			t.Error("what is known of a peer that is none")
		}
	})
}
