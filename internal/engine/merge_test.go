package engine

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/keys"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
)

var mergeSchedules = flag.Int("merges", 30, "random schedules of TestMerge")

// A mergeWorld is a node whose replicas have little memory, and peers.
type mergeWorld struct {
	t     *testing.T
	rng   *rand.Rand
	clock *clock
	peers []*mergePeer
	dir   string
	limit uint64
	st    *store.Store
	home  *Engine
	twin  *Engine // of the node, with as much memory as it likes
	done  map[string]int
}

type mergePeer struct {
	*Engine
	id     string
	weight float64
	life   uint64 // incarnation
	origin bool   // it counts
	// truth is what was counted, by generation.
	truth map[uint64]map[int]uint32
}

const (
	mergeSigs  = 300 // that are counted
	mergeLists = 25  // that are voted on
)

// TestMerge runs random schedules of changes to replicas with too little memory, and compares the
// counts with maps: never less than the counts of the trusted origins, and seldom more. The
// threshold is too high to bound any count. A soak: go test ./internal/engine -run TestMerge$
// -merges 1000
func TestMerge(t *testing.T) {
	done, n := make(map[string]int), *mergeSchedules
	if testing.Short() {
		n = min(n, 4)
	}
	for seed := range uint64(n) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 3))
			w := &mergeWorld{t: t, rng: rng, clock: newClock(), dir: filepath.Join(t.TempDir(), "data"), done: done}
			w.start()
			w.twin = open(t, Options{Now: w.clock.Now, Threshold: bulkhead.Many})
			for i := range 3 + rng.IntN(5) {
				w.newPeer(i)
			}
			for _, a := range w.peers[0].Own() {
				w.limit += a.Bytes * uint64(1+rng.IntN(3)*int(seed%2))
			}
			w.restart(false)
			w.setOrigins()
			for range 40 {
				w.step()
			}
			w.home.Close(context.Background())
			if err := w.st.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Logf("%d schedules: %v", n, done)
	for _, what := range []string{"reports", "merged", "day", "evicted", "weighed", "rolled back", "new life", "renamed",
		"images", "stopped", "limit raised", "killed", "checkpoint", "merged counts", "merged spam", "merged revoked"} {
		if done[what] == 0 && n >= 30 {
			t.Errorf("no step of kind %q", what)
		}
	}
}

func (w *mergeWorld) newPeer(i int) {
	o := Options{Now: w.clock.Now}
	if i%4 == 3 {
		o.Tally = BookOptions{Generation: 24 * time.Hour, Keep: 3, Capacity: 60_000, Error: 1e-3} // of another shape
	}
	p := &mergePeer{Engine: open(w.t, o), id: fmt.Sprint("peer", i), weight: 1, life: 1, origin: true,
		truth: make(map[uint64]map[int]uint32)}
	if err := p.Record(context.Background(), true); err != nil {
		w.t.Fatal(err)
	}
	w.peers = append(w.peers, p)
}

func (w *mergeWorld) start() {
	var err error
	if w.st, err = store.Open(w.dir, store.Options{Durability: store.Relaxed}); err != nil {
		w.t.Fatal(err)
	}
	if w.home, err = Open(context.Background(), small(Options{Store: w.st, Now: w.clock.Now, RemoteBytes: w.limit,
		Threshold: bulkhead.Many, Log: slog.New(slog.NewTextHandler(w.t.Output(),
			&slog.HandlerOptions{Level: slog.LevelWarn}))})); err != nil {
		w.t.Fatal(err)
	}
}

// restart ends the node; hard, as if it was killed.
func (w *mergeWorld) restart(hard bool) {
	if hard {
		if err := w.st.Close(); err != nil {
			w.t.Fatal(err)
		}
		w.home.Close(context.Background()) // fails: its store is gone
	} else if err := errors.Join(w.home.Close(context.Background()), w.st.Close()); err != nil {
		w.t.Fatal(err)
	}
	w.start()
}

func (w *mergeWorld) setOrigins() {
	var list []Origin
	for _, p := range w.peers {
		if p.origin {
			list = append(list, Origin{ID: p.id, Weight: p.weight})
		}
	}
	w.both(func(e *Engine) error { return e.SetOrigins(context.Background(), list) })
}

// both does something to the replicas of the node and of its twin.
func (w *mergeWorld) both(do func(*Engine) error) {
	w.t.Helper()
	if a, b := do(w.home), do(w.twin); a != nil || b != nil {
		w.t.Fatal(a, b)
	}
}

// share brings a peer's counts to the node: by rounds, or by images if the rounds do not continue
// the replica.
func (w *mergeWorld) share(p *mergePeer) {
	parts, _, err := p.TakeRounds(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	if !p.origin {
		return
	}
	if w.rng.IntN(10) == 0 {
		parts = nil // lost
	}
	for _, part := range parts {
		w.room(part)
		w.both(func(e *Engine) error {
			if err := applyParts(e, p.id, []Part{part}); !errors.Is(err, ErrGap) {
				return err
			}
			return nil
		})
	}
	held := make(map[replica.Key]ArrayState)
	for _, a := range w.home.Replica(p.id) {
		held[replica.Key{Array: a.Array, Start: a.Start}] = a
	}
	for _, a := range p.Own() {
		if h := held[replica.Key{Array: a.Array, Start: a.Start}]; h.Version == a.Version && h.Partial == 0 {
			continue
		}
		_, parts, err := p.Images(context.Background(), a.Array, a.Start)
		if err != nil {
			w.t.Fatal(err)
		}
		w.done["images"]++
		w.room(parts[0])
		for chunk := range slices.Chunk(parts, 1+w.rng.IntN(len(parts))) {
			w.both(func(e *Engine) error { return applyParts(e, p.id, chunk) })
		}
	}
}

// room asks for room as receivers do. If there is none the part is taken
// nevertheless: here it is about what is counted.
func (w *mergeWorld) room(p Part) {
	if now, later := w.home.Room("", Need{Geometry: p.Geometry, Pages: p.Geometry.Pages()}); !now && later {
		w.settled()
		w.done["merged"]++
	}
}

func (w *mergeWorld) settled() {
	w.t.Helper()
	settled(w.t, w.home)
}

// settled waits until no array of a node is left to merge.
func settled(t *testing.T, e *Engine) {
	t.Helper()
	await.True(t, "merged arrays are settled", func() bool {
		var busy bool
		e.queue.between(func() {
			busy = e.replicas.Busy()
		})
		return !busy
	})
}

func (w *mergeWorld) step() {
	p := w.peers[w.rng.IntN(len(w.peers))]
	ctx := context.Background()
	what := ""
	switch x := w.rng.IntN(100); {
	case x < 45:
		what = "reports"
		for range 1 + w.rng.IntN(40) {
			n, count := w.rng.IntN(mergeSigs), uint32(1+w.rng.IntN(30))
			if w.rng.IntN(100) == 0 {
				count = 100_000
			}
			report(w.t, p.Engine, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, n)}, Count: count})
			start := p.current.View().Tally.Live[0].Start
			if p.truth[start] == nil {
				p.truth[start] = make(map[int]uint32)
			}
			p.truth[start][n] += count
		}
		for range w.rng.IntN(5) { // of other signatures, to keep the sightings simple
			vote := []bulkhead.Vote{bulkhead.Spam, bulkhead.Revocation}[w.rng.IntN(2)]
			report(w.t, p.Engine, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact,
				mergeSigs+w.rng.IntN(mergeLists))}, Vote: vote})
		}
		w.share(p)
	case x < 53:
		what = "day"
		w.clock.Advance(time.Duration(12+w.rng.IntN(24)) * time.Hour)
		for _, p := range w.peers {
			p.queue.between(func() {})
			p.turnOver()
			w.share(p)
		}
		w.home.turnOver()
		w.twin.turnOver()
	case x < 58:
		what = "evicted"
		p.origin = false
		w.setOrigins()
	case x < 65:
		p.origin = true
		w.setOrigins()
		w.share(p)
	case x < 73:
		what = "weighed"
		p.weight = []float64{0, 0.5, 1}[w.rng.IntN(3)]
		w.setOrigins()
	case x < 78:
		what = "rolled back"
		if p.origin {
			w.both(func(e *Engine) error {
				return e.ForgetGenerations(ctx, p.id, uint64(w.clock.Now().Add(-24*time.Hour).Unix()))
			})
			w.share(p)
		}
	case x < 82:
		what = "new life"
		if p.origin {
			p.life++
			w.both(func(e *Engine) error { return e.Renew(ctx, p.id, p.life) })
			// The peer still has all its counts, so its former incarnation would count them twice.
			w.both(func(e *Engine) error { return e.ForgetFormer(ctx, p.id) })
			w.share(p)
		}
	case x < 85:
		what = "renamed"
		if p.origin {
			to := fmt.Sprint(p.id, "x")
			w.both(func(e *Engine) error { return e.RenameOrigin(ctx, p.id, to) })
			p.id = to
		}
	case x < 90:
		what = "checkpoint"
		w.home.journal.wakeCheckpoint()
	case x < 94:
		what = "stopped"
		tight := w.limit
		if w.rng.IntN(2) == 0 {
			what = "limit raised"
			w.limit *= 100
		}
		w.restart(false)
		if n := w.home.RemoteMemory().Into; w.limit != tight && n > 0 {
			w.t.Fatalf("%d merged arrays though there is memory", n)
		}
		w.limit = tight // from the next start on
	default:
		what = "killed"
		w.restart(true)
	}
	w.done[what]++
	w.settled()
	w.compare(what)
}

// turnOver has the writer look at the clock.
func (e *Engine) turnOver() { e.queue.between(func() {}) }

// judged returns the expected judgement of a signature. Every origin counts for the lists in its
// own arrays. Origins of one weight whose lists were merged count as one server.
func (w *mergeWorld) judged(n int) bulkhead.Judgement {
	s := sig(bulkhead.Exact, n)
	const most = 64 // more than any signature of the test has
	turns := make([]filter.Key, most)
	for i := range turns {
		turns[i] = keys.Maker{Secret: testSecret}.Turn(keys.Maker{Secret: testSecret}.Base(&s), i+1)
	}
	found := make([]bool, most)
	type voice struct {
		origin string // "": of all that are merged
		weight float64
	}
	type lists [2][most]bool // which turns are there, of spam and revoked
	says := make(map[voice]map[uint64]*lists)
	for _, r := range w.home.Origins() {
		i := slices.IndexFunc(w.peers, func(p *mergePeer) bool { return p.id == r.ID })
		for _, g := range w.peers[i].current.View().Block.Live {
			for k, x := range []struct {
				array Array
				bits  book.Bitset
			}{{ArraySpam, g.Spam}, {ArrayRevoked, g.Revoked}} {
				held := w.held(r.ID, x.array, g.Start)
				if x.bits.HasBatch(turns, found); !found[0] || r.Weight == 0 || held == nil {
					continue
				}
				v := voice{r.ID, r.Weight}
				if held.Merged {
					v.origin = ""
				}
				if says[v] == nil {
					says[v] = make(map[uint64]*lists)
				}
				if says[v][g.Start] == nil {
					says[v][g.Start] = new(lists)
				}
				for i, ok := range found {
					says[v][g.Start][k][i] = says[v][g.Start][k][i] || ok
				}
			}
		}
	}
	var sum verdict.Peers
	for v, of := range says {
		state := verdict.Nothing
		for _, start := range slices.Backward(slices.Sorted(maps.Keys(of))) {
			if !state.Decided() {
				// Listings and revocations take turns: what was listed once more
				// than revoked is listed.
				spam, revoked := slices.Index(of[start][0][:], false), slices.Index(of[start][1][:], false)
				state = state.Next(spam > 0, revoked > 0 && revoked >= spam)
			}
		}
		if state == verdict.Listed || state == verdict.ListedRevoked && v.origin == "" {
			sum.Spam += v.weight
		}
		if state == verdict.Revoked || state == verdict.ListedRevoked {
			sum.Revoked += v.weight
		}
	}
	return verdict.Judge(verdict.Nothing, sum, w.home.accounts.Policy().Promotion)
}

// held returns the state of the replica of an array, or nil if there is none.
func (w *mergeWorld) held(origin string, a Array, start uint64) *ArrayState {
	for _, h := range w.home.Replica(origin) {
		if h.Array == a && h.Start == start {
			return &h
		}
	}
	return nil
}

func (w *mergeWorld) compare(after string) {
	w.t.Helper()
	for _, m := range w.home.replicas.View().Merged {
		w.done["merged "+string(m.Array)]++
		if m.Array != ArrayCounts && m.Weight() < w.home.accounts.Policy().Promotion {
			w.t.Fatalf("after %s: lists of weight %v are merged", after, m.Weight())
		}
		if len(m.Origins()) > 2 {
			w.done["merged of three and more"]++
		}
	}
	over := 0
	for n := range mergeSigs {
		want := 0.0
		for _, p := range w.peers {
			for start, counts := range p.truth {
				if p.origin && w.home.Keeps(ArrayCounts, start) {
					want += p.weight * float64(counts[n])
				}
			}
		}
		f := verdictOf(w.t, w.home, sig(bulkhead.Exact, n)).Findings[0]
		looks := make([]bulkhead.Look, 1)
		if err := w.home.Look(context.Background(), []bulkhead.Signature{sig(bulkhead.Exact, n)}, looks,
			bulkhead.Counts); err != nil {
			w.t.Fatal(err)
		}
		if looks[0].Sightings != f.Sightings {
			w.t.Errorf("signature %d: %d by Look, %d by Check", n, looks[0].Sightings, f.Sightings)
		}
		switch got := float64(f.Sightings); {
		case got < math.Floor(want):
			w.t.Fatalf("after %s: signature %d is counted %v times, want %v", after, n, got, want)
		case got > want+float64(10*len(w.peers)): // more than rounding up
			over++
		}
	}
	for n := mergeSigs; n < mergeSigs+mergeLists; n++ {
		got, want := verdictOf(w.t, w.home, sig(bulkhead.Exact, n)).Findings[0], verdictOf(w.t, w.twin,
			sig(bulkhead.Exact, n)).Findings[0]
		judged := w.judged(n)
		// weighed votes are rounded up
		if got.Judged != judged || max(got.Spam, want.Spam)-min(got.Spam, want.Spam) > uint32(len(w.peers)) {
			w.t.Fatalf("after %s: signature %d is %v by %d votes, want %v by %d", after, n, got.Judged, got.Spam, judged,
				want.Spam)
		}
		if got.Judged != want.Judged {
			w.done[fmt.Sprintf("judged %v, unmerged %v", got.Judged, want.Judged)]++
		}
		w.done[fmt.Sprint("judged ", got.Judged)]++
	}
	// 300 signatures in arrays for thousands.
	if over > 3 {
		w.t.Fatalf("after %s: %d of %d counts too high", after, over, mergeSigs)
	}
}
