package aggregate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

var testSecret = filter.Secret{1, 2, 3}

// A world is members, the node that sums them up, and a reader that counts the sum.
type world struct {
	t       testing.TB
	now     atomic.Int64 // Unix seconds
	members []*member
	node    *engine.Engine
	agg     *Aggregate
	sum     *Sum
	reader  *engine.Engine
	lives   uint64
	truth   map[int]uint32 // the node's own counts
	floor   uint32         // of all tallies
}

type member struct {
	id     string
	engine *engine.Engine
	truth  map[int]uint32
	life   uint64
}

func (w *world) open(capacity uint64) *engine.Engine {
	e, err := engine.Open(context.Background(), engine.Options{
		Secret: testSecret, Now: func() time.Time { return time.Unix(w.now.Load(), 0) },
		Tally: engine.BookOptions{Generation: 24 * time.Hour, Keep: 3, Capacity: capacity, Error: 1e-3, Floor: w.floor},
		Block: engine.BookOptions{Generation: 7 * 24 * time.Hour, Keep: 2, Capacity: capacity, Error: 1e-6},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			w.t.Error(err)
		}
	})
	return e
}

func newWorld(t *testing.T, capacities ...uint64) *world { return newWorldOf(t, capacities...) }

func newWorldOf(t testing.TB, capacities ...uint64) *world {
	return newWorldAbove(t, 0, capacities...)
}

func newWorldAbove(t testing.TB, floor uint32, capacities ...uint64) *world {
	w := &world{t: t, truth: make(map[int]uint32), floor: floor}
	w.now.Store(1_800_000_000)
	w.node, w.reader = w.open(1000), w.open(1000)
	for i, capacity := range capacities {
		w.members = append(w.members,
			&member{id: fmt.Sprint("M", i), engine: w.open(capacity), truth: make(map[int]uint32), life: 1})
	}
	w.agg = New(Options{Engine: w.node, Members: w.ids, Log: slog.New(slog.DiscardHandler)})
	err := errors.Join(w.node.Record(t.Context(), true), w.node.SetOrigins(t.Context(), w.origins()),
		w.reader.SetOrigins(t.Context(), []engine.Origin{{ID: "S", Weight: 1}}))
	for _, m := range w.members {
		err = errors.Join(err, m.engine.Record(t.Context(), true))
	}
	if err != nil {
		t.Fatal(err)
	}
	w.remake()
	return w
}

func (w *world) ids() (list []string) {
	for _, m := range w.members {
		list = append(list, m.id)
	}
	return list
}

func (w *world) origins() (list []engine.Origin) {
	for _, m := range w.members {
		list = append(list, engine.Origin{ID: m.id, Weight: 1})
	}
	return list
}

// remake makes the sum anew. The reader replaces its replica with the images of the new sum.
func (w *world) remake() {
	w.t.Helper()
	sum, err := w.agg.make(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	w.agg.sum, w.agg.next, w.sum = sum, nil, sum
	w.lives++
	// A sum is made anew from all its members, so its former incarnation is forgotten, as by package mesh.
	ctx := w.t.Context()
	if err := errors.Join(w.reader.Renew(ctx, "S", w.lives), w.reader.ForgetFormer(ctx, "S")); err != nil {
		w.t.Fatal(err)
	}
	for _, a := range sum.Own() {
		if a.Version == 0 {
			continue
		}
		_, parts, err := sum.Images(w.t.Context(), a.Array, a.Start)
		if err != nil {
			w.t.Fatal(err)
		}
		w.apply(w.reader.ApplyRemote, w.reader, "S", parts...)
	}
}

func (w *world) apply(apply func(context.Context, string, []engine.Parsed) error, e *engine.Engine, origin string,
	parts ...engine.Part) {
	w.t.Helper()
	var parsed []engine.Parsed
	for _, p := range parts {
		x, err := e.ParsePart(p)
		if err != nil {
			w.t.Fatal(err)
		}
		parsed = append(parsed, x)
	}
	if err := apply(w.t.Context(), origin, parsed); err != nil {
		w.t.Fatal(err)
	}
}

// pass sends the members' counts to the node, and the sum's to the reader.
func (w *world) pass() {
	w.t.Helper()
	tap := w.agg.Tap()
	for _, m := range w.members {
		for _, p := range w.rounds(m.engine.TakeRounds) {
			w.apply(tap.ApplyRemote, w.node, m.id, p)
		}
	}
	w.rounds(tap.TakeRounds)
	for _, p := range w.rounds(w.sum.TakeRounds) {
		w.apply(w.reader.ApplyRemote, w.reader, "S", p)
	}
}

func (w *world) rounds(take func(context.Context) ([]engine.Part, []engine.ArrayState, error)) []engine.Part {
	w.t.Helper()
	parts, _, err := take(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	slices.SortStableFunc(parts, func(a, b engine.Part) int { return int(int64(a.From) - int64(b.From)) })
	return parts
}

func signature(n int) bulkhead.Signature {
	s, err := bulkhead.NewSignature(bulkhead.Exact, fmt.Appendf(nil, "%020d", n))
	if err != nil {
		panic(err)
	}
	return s
}

// report counts a signature; every tenth is listed as spam instead.
func (w *world) report(e *engine.Engine, truth map[int]uint32, n int) {
	w.t.Helper()
	r := bulkhead.Report{Signatures: []bulkhead.Signature{signature(n)}, Vote: bulkhead.Sighting, Count: 3}
	if n%10 == 0 {
		r.Vote, r.Count = bulkhead.Spam, 1
	}
	if truth[n] > 0 && n%10 == 0 {
		return // a voter who votes twice counts once
	}
	if _, err := e.Report(w.t.Context(), r); err != nil {
		w.t.Fatal(err)
	}
	truth[n] += r.Count
}

func (w *world) find(e *engine.Engine, n int) (uint32, bulkhead.Class) {
	w.t.Helper()
	v, err := e.Check(w.t.Context(), bulkhead.Query{Signatures: []bulkhead.Signature{signature(n)}})
	if err != nil {
		w.t.Fatal(err)
	}
	if n%10 == 0 {
		return v.Findings[0].Spam, v.Class
	}
	return v.Findings[0].Sightings, v.Class
}

// compare compares the reader's counts with the maps.
func (w *world) compare(signatures int) {
	w.t.Helper()
	over, direct := 0, 0
	for n := range signatures {
		want := w.truth[n]
		for _, m := range w.members {
			want += m.truth[n]
		}
		got, class := w.find(w.reader, n)
		if got < want {
			w.t.Fatalf("%d of signature %d, want %d", got, n, want)
		}
		if got > want {
			over++
		}
		if node, _ := w.find(w.node, n); node > want {
			direct++
		}
		if n%10 == 0 && (class == bulkhead.ClassSpam) != (want > 0) {
			w.t.Errorf("signature %d with %d votes is %v", n, want, class)
		}
	}
	// The node counts the members themselves.
	if limit := direct + direct/10 + signatures/50; over > limit {
		w.t.Errorf("%d of %d counts too high, limit %d; %d without the sum", over, signatures, limit, direct)
	}
}

// TestSum checks that the sum has the counts of the node and its members, from arrays of several
// shapes, whether they arrive as rounds or in a remade sum, and no counts of former members.
func TestSum(t *testing.T) {
	const signatures = 300
	for seed := range uint64(2) {
		rng := rand.New(rand.NewPCG(seed, 3))
		w := newWorld(t, 200, 200, 200, 20_000)
		for step := range 60 {
			i := rng.IntN(len(w.members) + 1)
			for range 1 + rng.IntN(20) {
				if n := rng.IntN(signatures); i == len(w.members) {
					w.report(w.node, w.truth, n)
				} else {
					w.report(w.members[i].engine, w.members[i].truth, n)
				}
			}
			switch rng.IntN(6) {
			case 0:
				w.pass()
				w.remake()
			case 1:
				w.now.Add(int64(rng.IntN(3 * 3600)))
			case 2, 3:
				w.pass()
			}
			if step == 40 && len(w.members) > 3 {
				w.pass()
				w.members = w.members[1:]
				if err := w.node.SetOrigins(t.Context(), w.origins()); err != nil {
					t.Fatal(err)
				}
				if why := w.agg.audit(); why == "" {
					t.Fatal("the sum with an evicted member is taken for right")
				}
				w.remake()
				w.compare(signatures)
			}
		}
		w.pass()
		if why := w.agg.audit(); why != "" {
			t.Errorf("audit: %s", why)
		}
		w.compare(signatures)
	}
}

// TestFull checks that keys which do not fit into one array of the sum go into another, so that no
// array reports more than merged arrays may.
func TestFull(t *testing.T) {
	w := newWorld(t, 100, 100, 100, 100, 100, 100)
	for i, m := range w.members {
		for n := range 500 {
			w.report(m.engine, m.truth, 500*i+n)
		}
		w.pass()
	}
	w.compare(3000)
	arrays := w.sum.Own()
	starts := make(map[string]bool)
	for _, a := range arrays {
		if a.Ghost > 0.1 {
			t.Errorf("%s of generation %d shows %.3f of all", a.Array, a.Start, a.Ghost)
		}
		name := fmt.Sprint(a.Array, a.Start)
		if starts[name] {
			t.Errorf("%s twice", name)
		}
		starts[name] = true
	}
	if len(arrays) < 4 {
		t.Errorf("%d arrays; the test fills none", len(arrays))
	}
	w.remake()
	w.compare(3000)
}

// TestAudit checks that counts which reached the node but not the sum are noticed, though not at
// once, because they may be on their way.
func TestAudit(t *testing.T) {
	w := newWorld(t, 200, 200)
	m := w.members[0]
	w.report(m.engine, m.truth, 1)
	for _, p := range w.rounds(m.engine.TakeRounds) {
		w.apply(w.node.ApplyRemote, w.node, m.id, p) // past the tap
	}
	for i, want := range []string{"", "lacks"} {
		if why := w.agg.audit(); (why == "") != (want == "") || !strings.Contains(why, want) {
			t.Errorf("audit %d: %q, want %q", i+1, why, want)
		}
	}
	w.remake()
	w.compare(5)
	if why := w.agg.audit() + w.agg.audit(); why != "" {
		t.Errorf("audit of a sum made anew: %s", why)
	}
	if err := w.node.Renew(t.Context(), m.id, 7); err != nil {
		t.Fatal(err)
	}
	if why := w.agg.audit(); why == "" {
		t.Error("a member that began anew is not noticed")
	}
}

// TestMakeMeanwhile checks that a sum includes the counts that members add while it is made.
func TestMakeMeanwhile(t *testing.T) {
	w := newWorld(t, 200, 200)
	m := w.members[1]
	next := newSum(w.node, w.ids())
	w.agg.next = next
	for n := range 50 {
		w.report(m.engine, m.truth, n)
		w.pass()
		if n == 25 {
			if err := next.make(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.agg.sum, w.agg.next = next, nil
	if why := w.agg.audit() + w.agg.audit(); why != "" {
		t.Errorf("audit: %s", why)
	}
	for _, a := range next.Own() {
		if a.Version == 0 {
			t.Errorf("%s of generation %d is empty", a.Array, a.Start)
		}
	}
}

// TestExpire checks that generations which no member keeps leave the sum.
func TestExpire(t *testing.T) {
	w := newWorld(t, 200)
	m := w.members[0]
	w.report(m.engine, m.truth, 1)
	w.pass()
	before := w.sum.Own()
	w.now.Add(60 * 24 * 3600)
	if after := w.sum.Own(); len(before) == 0 || len(after) != 0 {
		t.Errorf("%d arrays, %d after their time", len(before), len(after))
	}
}

// TestOnlyPublishes checks that a sum refuses to count others.
func TestOnlyPublishes(t *testing.T) {
	s := newWorld(t, 200).sum
	ctx := t.Context()
	_, parse := s.ParsePart(engine.Part{})
	for i, err := range []error{parse, s.SetOrigins(ctx, nil), s.ApplyRemote(ctx, "S", nil),
		s.ForgetGenerations(ctx, "S", 0), s.Renew(ctx, "S", 1), s.RenameOrigin(ctx, "S", "T")} {
		if !errors.Is(err, bulkhead.ErrForbidden) {
			t.Errorf("%d: %v, want it forbidden", i, err)
		}
	}
	if now, later := s.Room("S", engine.Need{}); now || later || s.Incarnation("S") != 0 || s.Replica("S") != nil ||
		s.Origins() != nil || s.Shown("S", engine.ArrayCounts, 0) != 0 {
		t.Error("a sum holds something of others")
	}
	if _, _, err := s.Images(ctx, engine.ArraySpam, 5); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Errorf("images of nothing: %v", err)
	}
}

// TestSumAboveFloors checks that a sum has the counts that the node and its members publish,
// whether it takes their rounds or is made from their images.
func TestSumAboveFloors(t *testing.T) {
	const floor, signatures = 5, 120
	w := newWorldAbove(t, floor, 1000, 1000, 3000)
	rng := rand.New(rand.NewPCG(41, 42))
	for step := range 4 {
		for range 150 {
			n := 1 + 10*rng.IntN(signatures/10) + rng.IntN(9) // no votes
			if m := rng.IntN(len(w.members) + 1); m < len(w.members) {
				w.report(w.members[m].engine, w.members[m].truth, n)
			} else {
				w.report(w.node, w.truth, n)
			}
		}
		w.pass()
		if step == 2 {
			w.remake()
		}
		hidden := 0
		for n := range signatures {
			want := uint32(0)
			for _, truth := range []map[int]uint32{w.truth, w.members[0].truth, w.members[1].truth, w.members[2].truth} {
				if truth[n] >= floor {
					want += truth[n]
				} else if truth[n] > 0 {
					hidden++
				}
			}
			if got, _ := w.find(w.reader, n); got != want {
				t.Fatalf("step %d: the sum has %d sightings of %d, want %d", step, got, n, want)
			}
		}
		if hidden < 20 {
			t.Fatalf("step %d: only %d counts are below the floor", step, hidden)
		}
	}
}
