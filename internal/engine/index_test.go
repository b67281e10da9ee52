package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine/check"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
	"github.com/bulkhead-mail/bulkhead/internal/engine/view"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
)

// A walk is a node with many origins, whose checks are compared with and without indexes.
type walk struct {
	*Engine
	t     *testing.T
	rng   *rand.Rand
	clock *clock
	from  []*Engine // whose arrays the origins send
	all   []Origin
}

const (
	walkSigs    = 200 // that are counted
	walkOrigins = 60
)

func newWalk(t *testing.T, seed uint64) *walk {
	w := &walk{t: t, rng: rand.New(rand.NewPCG(seed, 9)), clock: newClock()}
	o := Options{Now: w.clock.Now, Tally: BookOptions{Generation: 24 * time.Hour, Keep: 3, Capacity: 300, Error: 1e-3},
		Block: BookOptions{Generation: 7 * 24 * time.Hour, Keep: 2, Capacity: 100, Error: 1e-4}}
	o.RevocationFirst = seed%2 == 1
	w.Engine = open(t, o)
	for i := range 5 {
		if i == 4 {
			o.Tally.Capacity = 30_000 // another shape
		}
		from := open(t, o)
		if err := from.Record(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		w.from = append(w.from, from)
	}
	for i := range walkOrigins {
		w.all = append(w.all, Origin{ID: fmt.Sprint("origin", i), Weight: w.weight()})
	}
	w.set()
	return w
}

func (w *walk) weight() float64 { return []float64{0, 0.1, 0.5, 1, 1, 1}[w.rng.IntN(6)] }

func (w *walk) set() {
	w.t.Helper()
	if err := w.SetOrigins(w.t.Context(), w.all); err != nil {
		w.t.Fatal(err)
	}
}

func (w *walk) sig() bulkhead.Signature { return sig(bulkhead.Exact, w.rng.IntN(walkSigs)) }

// step makes a random change.
func (w *walk) step() {
	i := w.rng.IntN(walkOrigins)
	switch w.rng.IntN(12) {
	case 0: // evicted, and back with nothing
		all := w.all
		w.all = append(append([]Origin(nil), all[:i]...), all[i+1:]...)
		w.set()
		w.all = all
		w.set()
	case 1:
		w.all[i].Weight = w.weight()
		w.set()
	case 2:
		w.clock.Advance(time.Duration(w.rng.IntN(40)) * time.Hour)
		for _, e := range append(w.from, w.Engine) { // open and drop generations
			report(w.t, e, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 0)}})
		}
	case 3:
		since := w.clock.Now().Add(-time.Duration(w.rng.IntN(48)) * time.Hour)
		if err := w.ForgetGenerations(w.t.Context(), w.all[i].ID, uint64(since.Unix())); err != nil {
			w.t.Fatal(err)
		}
	default:
		from := w.from[i%len(w.from)] // of the same shape as what is there
		images := w.rng.IntN(4)
		for n := range 4 {
			if n == images { // the rest comes as rounds
				if _, _, err := from.TakeRounds(w.t.Context()); err != nil {
					w.t.Fatal(err)
				}
				transfer(w.t, from, w.Engine, w.all[i].ID)
			}
			r := bulkhead.Report{Signatures: []bulkhead.Signature{w.sig(), w.sig()}, Count: uint32(1 + w.rng.IntN(30)),
				Vote: bulkhead.Vote(w.rng.IntN(4))}
			if r.Vote != bulkhead.Sighting {
				r.Count = 1
			}
			report(w.t, from, r)
		}
		if w.rng.IntN(8) == 0 {
			report(w.t, w.Engine, bulkhead.Report{Signatures: []bulkhead.Signature{w.sig()}})
		}
		pass(w.t, from, w.Engine, w.all[i].ID)
	}
}

// same compares a check of signatures with one that reads every array.
func (w *walk) same(sigs []bulkhead.Signature) {
	w.t.Helper()
	v := w.current.View()
	bare := *v.Remote
	bare.Indexes = nil
	fresh := func(remote *replica.View) (verdict bulkhead.Verdict) {
		c := check.New(check.Options{
			Current:  view.New(v.Books, func() *replica.View { return remote }),
			Accounts: w.accounts, Threshold: w.checker.Threshold(), NearMatch: w.opts.NearMatch, Day: w.opts.day(),
		})
		c.Measure()
		if _, err := c.Check(&bulkhead.Query{Signatures: sigs}, &verdict, nil); err != nil {
			w.t.Fatal(err)
		}
		return verdict
	}
	got, want := fresh(v.Remote), fresh(&bare)
	if w.current.View() != v {
		w.same(sigs) // an index was finished, or arrays were merged
	} else if fmt.Sprint(got) != fmt.Sprint(want) {
		w.t.Fatalf("with indexes %+v\nwithout %+v", got, want)
	}
}

// indexed waits until the indexes are made that the node wants, and returns how many arrays
// they find.
func (w *walk) indexed() (in int) {
	waiting := 0
	if !await.Within(await.Patience, func() bool {
		in, waiting = w.replicas.Indexed()
		return waiting == 0
	}) {
		w.t.Fatalf("%d arrays are in an index, %d wait after %v", in, waiting, await.Patience)
	}
	return in
}

// TestIndexWalk: a check with indexes has the same verdict as a check that reads all arrays of all
// origins, after any changes of the origins.
func TestIndexWalk(t *testing.T) {
	seeds, indexed := 6, 0
	if testing.Short() {
		seeds = 1 // minutes under the race detector, in one goroutine
	}
	for seed := range uint64(seeds) {
		w := newWalk(t, seed)
		for i := range 200 {
			w.step()
			if i%20 == 19 {
				indexed += w.indexed()
			}
			sigs := make([]bulkhead.Signature, 1+w.rng.IntN(5))
			for i := range sigs {
				sigs[i] = sig(bulkhead.Exact, w.rng.IntN(walkSigs*2))
			}
			w.same(sigs)
		}
		for n := range walkSigs {
			w.same([]bulkhead.Signature{sig(bulkhead.Exact, n)})
		}
	}
	if indexed < 500*seeds {
		t.Errorf("%d arrays were found by an index at some time", indexed)
	}
}

// TestIndexAtOnce: with indexes, a new weight or an eviction also takes effect as soon as it is
// accepted.
func TestIndexAtOnce(t *testing.T) {
	w := newWalk(t, 1)
	for i := range w.all {
		w.all[i].Weight = 1
	}
	w.set()
	s, few := sig(bulkhead.Exact, 1), sig(bulkhead.Exact, 2)
	report(t, w.from[0], bulkhead.Report{Signatures: []bulkhead.Signature{s}, Count: 10})
	report(t, w.from[0], bulkhead.Report{Signatures: []bulkhead.Signature{few}, Count: 3}) // which the index itself counts
	for _, o := range w.all {
		transfer(t, w.from[0], w.Engine, o.ID)
	}
	if n := w.indexed(); n < walkOrigins {
		t.Fatalf("%d arrays are in an index", n)
	}
	if !slices.ContainsFunc(w.current.View().Remote.Indexes, func(x *replica.Index) bool { return x.Exact() }) {
		t.Error("no index has counts")
	}
	fewer := uint32(3 * walkOrigins)
	want := func(what string, n uint32) {
		t.Helper()
		f := verdictOf(t, w.Engine, s, few).Findings
		if f[0].Sightings != n || f[1].Sightings != fewer {
			t.Errorf("%s: %d and %d sightings, want %d and %d", what, f[0].Sightings, f[1].Sightings, n, fewer)
		}
	}
	want("all", 10*walkOrigins)
	for i := range w.all[:20] {
		w.all[i].Weight = 0.5
	}
	w.set()
	fewer -= 20
	want("half weight for twenty", 10*walkOrigins-5*20) // ceil(3/2) is 2
	w.all = w.all[20:]
	w.set()
	fewer = 3 * (walkOrigins - 20)
	want("those evicted", 10*(walkOrigins-20))
	report(t, w.from[0], bulkhead.Report{Signatures: []bulkhead.Signature{s}})
	transfer(t, w.from[0], w.Engine, w.all[0].ID)
	want("one more", 10*(walkOrigins-20)+1)
	report(t, w.from[0], bulkhead.Report{Signatures: []bulkhead.Signature{few}, Count: 5})
	transfer(t, w.from[0], w.Engine, w.all[1].ID)
	fewer += 5
	want("one counts more", 10*(walkOrigins-20)+2)
	if err := w.Renew(context.Background(), w.all[0].ID, 5); err != nil {
		t.Fatal(err)
	}
	want("one began anew and counts as before", 10*(walkOrigins-20)+2)
	if err := w.ForgetFormer(context.Background(), w.all[0].ID); err != nil {
		t.Fatal(err)
	}
	fewer -= 3
	want("one began anew and is forgotten", 10*(walkOrigins-21)+1)
}
