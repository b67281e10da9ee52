package replica

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/pages"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

var schedules = flag.Int("schedules", 16, "random schedules of TestModel")

const (
	modelKeys = 150              // that are counted, and as many that are listed
	promotion = 0.75             // of the model: weight from which one origin lists
	modelDay  = 24 * time.Hour   // length of a generation
	modelKeep = 3                // generations
	modelRate = 1e-4 / modelKeep // error of a list
)

var errDisk = errors.New("no space")

// A world is origins, and a set of their replicas with little memory. Changes of the set are
// in its journal.
type world struct {
	t       *testing.T
	rng     *rand.Rand
	now     time.Time
	dir     string
	st      *store.Store
	set     *Set
	limit   uint64
	peers   []*peer
	index   uint64
	journal []logged
	stored  []byte          // of the last checkpoint
	busy    bool            // something happens between two steps of a merge
	merging bool            // a merge is under way
	failing bool            // checkpoints fail
	aside   map[string]bool // lists that were merged, by their name here
	done    map[string]int
}

// logged is a change of the set, which is repeated on start.
type logged struct {
	index uint64
	do    func(s *Set, index uint64, replayed bool) error
}

// A peer is the model of an origin's own state.
type peer struct {
	Origin
	life, boot uint64
	before     uint64 // incarnation of the replica, 0 if the set knows none
	counts     bool   // here
	geometry   [2]filter.Geometry
	slices     map[uint64]*slice // by start
	boots      map[Key]uint64    // of the last part that came here
	former     []former          // oldest first
}

// A former is a lost incarnation of a peer whose last copy is in the set.
type former struct {
	life   uint64
	slices map[uint64]*slice
	boots  map[Key]uint64
}

// A slice is a generation of a peer: arrays, and maps of what is in them.
type slice struct {
	counts *arrays.Counting
	lists  [2]*arrays.Bits
	seen   map[uint64]uint32
	listed [2]map[uint64]bool
}

var listArrays = [2]Array{ArraySpam, ArrayRevoked}

// TestModel runs random schedules of origins that count, are weighed, forgotten, renamed, reborn
// with or without their former counts, and removed. The arrays need more memory than there is, and
// the node crashes and restarts. TestModel compares look-ups with maps: they must never show less
// than the origins have, and hardly ever more. go test ./internal/engine/replica -run Model
// -schedules 1000
func TestModel(t *testing.T) {
	done, n := make(map[string]int), *schedules
	if testing.Short() {
		n = min(n, 6)
	}
	for seed := range uint64(n) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 11)), now: now, dir: filepath.Join(t.TempDir(), "data"),
				aside: make(map[string]bool), done: done}
			for i := range 3 + w.rng.IntN(4) {
				w.newPeer(i)
			}
			w.limit = (2 + uint64(w.rng.IntN(6))) * w.peers[0].geometry[0].Bytes()
			w.start()
			w.setOrigins()
			for range 40 {
				w.step()
			}
			if err := w.st.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Log(done)
	for _, what := range []string{"report", "lost", "images", "day", "gone", "weighed", "forgotten", "reborn",
		"restored", "reborn and forgotten", "renamed", "checkpoint", "killed", "raised", "no space", "changed",
		"merged counts", "merged spam", "merged revoked", "put aside", "back"} {
		if done[what] == 0 && n >= 16 {
			t.Errorf("nothing was %s", what)
		}
	}
}

func (w *world) newPeer(i int) {
	p := &peer{Origin: Origin{ID: fmt.Sprint("p", i), Weight: 1}, life: 1, boot: 1, counts: true,
		slices: make(map[uint64]*slice), boots: make(map[Key]uint64)}
	lines := uint64(2 * filter.PageLines)
	if i == 3 {
		lines = 3 * filter.PageLines // it merges with no other array
	}
	p.geometry = [2]filter.Geometry{{Kind: filter.Cells, Lines: lines, K: 4, KeyID: 7},
		{Kind: filter.Bitmap, Lines: lines, K: 8, KeyID: 7}}
	w.peers = append(w.peers, p)
}

// today returns the slice that the peer reports to.
func (w *world) today(p *peer) (uint64, *slice) {
	start := uint64(w.now.Truncate(modelDay).Unix())
	if g := p.slices[start]; g != nil {
		return start, g
	}
	g := &slice{seen: make(map[uint64]uint32), listed: [2]map[uint64]bool{{}, {}}}
	var err error
	if g.counts, err = arrays.NewCounting(p.geometry[0]); err != nil {
		w.t.Fatal(err)
	}
	g.counts.SetGeneration(start)
	for i := range g.lists {
		if g.lists[i], err = arrays.NewBits(p.geometry[1]); err != nil {
			w.t.Fatal(err)
		}
		g.lists[i].SetGeneration(start)
	}
	p.slices[start] = g
	return start, g
}

// start opens the last checkpoint and replays the journal since.
func (w *world) start() {
	var err error
	if w.st, err = store.Open(w.dir, store.Options{Durability: store.Relaxed}); err != nil {
		w.t.Fatal(err)
	}
	o := book.Options{Generation: modelDay, Keep: modelKeep, Capacity: 100, Error: modelKeep * modelRate}
	w.set = NewSet(Options{
		Known: ofSeven, Tally: o, Block: o, Bytes: w.limit, Store: w.st,
		Now: func() time.Time { return w.now }, Promotion: func() float64 { return promotion },
		Checkpoint: func() { w.t.Error("a checkpoint is asked for, and little has come") },
	})
	if w.stored != nil {
		var s []Stored
		if err := errors.Join(json.Unmarshal(w.stored, &s), w.set.Load(s)); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, l := range w.journal {
		if err := l.do(w.set, l.index, true); err != nil {
			w.t.Fatal(err)
		}
	}
	w.set.DropExpired()
	if err := w.set.ThawAll(); err != nil {
		w.t.Fatal(err)
	}
	if err := w.set.Merge(w.t.Context(), func(f func()) { f() }, nil); err != nil {
		w.t.Fatal(err)
	}
	w.set.Wake()
}

// change changes the set and journals the change.
func (w *world) change(do func(s *Set, index uint64, replayed bool) error) {
	w.t.Helper()
	w.index++
	w.journal = append(w.journal, logged{w.index, do})
	if err := do(w.set, w.index, false); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) setOrigins() {
	var list []Origin
	for _, p := range w.peers {
		if p.counts {
			list = append(list, p.Origin)
		}
	}
	w.change(func(s *Set, _ uint64, _ bool) error { s.SetOrigins(list); return nil })
}

// take makes the set take parts, or returns why it may not.
func (w *world) take(p *peer, parts ...Part) error {
	parsed, err := parseAll(w.set, parts)
	if err == nil {
		err = w.set.Prepare(p.ID, parsed)
	}
	if err != nil {
		return err
	}
	for _, part := range parts {
		p.boots[Key{part.Array, part.Start}] = part.Boot
	}
	id := p.ID
	w.change(func(s *Set, index uint64, replayed bool) error {
		parsed, err := parseAll(s, parts)
		if err != nil {
			return err
		}
		return s.Apply(index, id, parsed, replayed)
	})
	return nil
}

// report makes a peer count and list something, and sends it unless it gets lost.
func (w *world) report(p *peer) {
	start, g := w.today(p)
	w.index++
	var keys []filter.Key
	var n []uint32
	for range 1 + w.rng.IntN(30) {
		k, c := w.rng.Uint64N(modelKeys), 1+w.rng.Uint32N(40)
		keys, n = append(keys, key(k)), append(n, c)
		g.seen[k] += c
	}
	before, r := make([]uint32, len(keys)), g.counts.NewRound()
	g.counts.AddBatch(w.index, keys, n, before)
	r.Record(keys, n, before)
	r.Close()
	parts := []Part{{Array: ArrayCounts, Start: start, Geometry: p.geometry[0], Round: r.AppendBody(nil), From: r.From,
		To: r.To, Boot: p.boot}}
	for i, list := range g.lists {
		if w.rng.IntN(2) == 0 {
			continue
		}
		k := w.rng.Uint64N(modelKeys)
		g.listed[i][k] = true
		was, r := make([]bool, 1), list.NewRound()
		list.SetBatch(w.index, []filter.Key{key(k)}, was)
		r.RecordBits([]filter.Key{key(k)}, was)
		r.Close()
		parts = append(parts, Part{Array: listArrays[i], Start: start, Geometry: p.geometry[1], Round: r.AppendBody(nil),
			From: r.From, To: r.To, Boot: p.boot})
	}
	if w.rng.IntN(8) == 0 {
		w.done["lost"]++
	} else if p.counts {
		for _, part := range parts {
			if err := w.take(p, part); err != nil && !errors.Is(err, ErrGap) {
				w.t.Fatal(err)
			}
		}
	}
	w.share(p)
}

// share sends images of all arrays of a peer that its replica does not have as they are.
func (w *world) share(p *peer) {
	if !p.counts {
		return
	}
	for start, g := range p.slices {
		if !w.set.Book(ArrayCounts).Keeps(w.now, start) {
			continue
		}
		w.images(p, ArrayCounts, start, g.counts.Version(), p.geometry[0], g.counts.Image)
		for i, list := range g.lists {
			w.images(p, listArrays[i], start, list.Version(), p.geometry[1], list.Image)
		}
	}
}

func (w *world) images(p *peer, a Array, start, version uint64, g filter.Geometry, image func(int) *arrays.Image) {
	state := w.state(p, a, start)
	if state != nil && state.Version == version && state.Partial == 0 || state == nil && version == 0 {
		return
	}
	w.done["images"]++
	p.boot++
	order := w.rng.Perm(g.Pages())
	for i, at := range order {
		if err := w.take(p, Part{Array: a, Start: start, Geometry: g, Image: image(at).Append(nil), At: version,
			Boot: p.boot}); err != nil {
			w.t.Fatal(err)
		}
		state = w.state(p, a, start)
		if state == nil || state.Boot != p.boot || state.Partial != 0 && state.Partial != version {
			w.t.Fatalf("image %d of %d of version %d: %+v", i+1, len(order), version, state)
		}
	}
	if state.Version != version || state.Partial != 0 {
		w.t.Fatalf("all images of version %d are here: %+v", version, state)
	}
}

func (w *world) state(p *peer, a Array, start uint64) *ArrayState {
	for _, s := range w.set.Arrays(p.ID) {
		if s.Array == a && s.Start == start {
			return &s
		}
	}
	return nil
}

// between runs f between two batches of the writer, after some random batches.
func (w *world) between(f func()) {
	if w.busy && w.rng.IntN(3) == 0 {
		w.busy = false
		w.report(w.peers[w.rng.IntN(len(w.peers))])
		if w.rng.IntN(4) == 0 {
			w.decide(w.peers[w.rng.IntN(len(w.peers))])
		}
		w.busy = true
	}
	f()
}

// checkpoint writes the content of the set, and drops the journal before it.
func (w *world) checkpoint(ctx context.Context) error {
	if w.failing {
		w.done["no space"]++
		return errDisk
	}
	snapshot, start := w.set.Snapshot(), w.index+1
	var files []store.File
	add := func(name string, array pages.Array) {
		files = append(files, store.File{Name: name, Write: pages.Writer(array, w.between)})
	}
	stored := snapshot.Origins(w.between, add, func(name string, write func(io.Writer) error) {
		files = append(files, store.File{Name: name, Write: write})
	})
	meta, err := json.Marshal(stored)
	if err == nil {
		err = w.st.Checkpoint(ctx, 1, []byte("{}"), files)
	}
	if err != nil {
		return err
	}
	w.stored = meta
	w.journal = slices.DeleteFunc(w.journal, func(l logged) bool { return l.index < start })
	snapshot.Written()
	return nil
}

// settle merges as long as the set asks for it.
func (w *world) settle() {
	w.t.Helper()
	again := false // a merge has failed
	for i := 0; ; i++ {
		select {
		case <-w.set.Wanted():
		default:
			if again {
				break
			}
			if w.set.Busy() {
				w.t.Fatal("something is to be merged, and nobody is told")
			}
			return
		}
		w.busy, w.failing = i < 3 && w.rng.IntN(3) == 0, i < 3 && w.rng.IntN(8) == 0
		w.merging = true
		err := w.set.Merge(w.t.Context(), w.between, w.checkpoint)
		w.merging = false
		w.busy, w.failing = false, false
		again = errors.Is(err, errDisk)
		switch {
		case errors.Is(err, ErrChanged):
			w.done["changed"]++
		case err != nil && !again:
			w.t.Fatal(err)
		}
		if i == 50 {
			w.t.Fatal("merged arrays are not settled")
		}
	}
}

// decide changes a peer's weight, or what is held of it.
func (w *world) decide(p *peer) {
	what := ""
	switch x := w.rng.IntN(7); {
	case x < 2:
		what, p.counts, p.former = "gone", !p.counts, nil
		p.before = 0
		w.setOrigins()
	case x < 4:
		what = "weighed"
		p.Weight = []float64{0, 0.5, 1, 1}[w.rng.IntN(4)]
		w.setOrigins()
	case !p.counts:
		return
	case x == 4:
		what = "forgotten"
		id, since := p.ID, uint64(w.now.Add(-modelDay).Unix())
		w.change(func(s *Set, _ uint64, _ bool) error { s.Forget(id, since); return nil })
		for _, f := range p.former {
			maps.DeleteFunc(f.slices, func(start uint64, _ *slice) bool { return start >= since })
		}
		for start := range p.slices {
			if gone := w.state(p, ArrayCounts, start) == nil; start >= since && !gone {
				w.t.Fatalf("generation %d is held, and all from %d on are forgotten", start, since)
			}
		}
	case x == 5:
		what = w.reborn(p)
	default:
		what = "renamed"
		from, to := p.ID, p.ID+"x"
		p.ID = to
		w.change(func(s *Set, _ uint64, _ bool) error { s.Rename(from, to); return nil })
	}
	w.done[what]++
	w.share(p)
}

// reborn begins a new life of a peer: it has lost its store, was restored with what it has, or its
// former incarnations are forgotten.
func (w *world) reborn(p *peer) (what string) {
	p.life++
	if err := w.set.CheckRenewal(p.ID, p.life); err != nil {
		w.t.Fatal(err)
	}
	id, life := p.ID, p.life
	w.change(func(s *Set, _ uint64, _ bool) error { s.Renew(id, life); return nil })
	if held := w.set.Arrays(p.ID); len(held) > 0 {
		w.t.Fatalf("of its life before a peer has %v", held)
	}
	mine := p.slices
	p.former = append(p.former, former{p.before, w.live(p), maps.Clone(p.boots)})
	p.former = p.former[max(0, len(p.former)-maxFormer):]
	p.before, p.slices = p.life, nil
	if !w.merging { // otherwise the content of images for a cold array is not yet counted
		w.compare("reborn")
	}
	p.slices = mine
	switch w.rng.IntN(3) {
	case 0: // it has lost everything
		what, p.slices = "reborn", make(map[uint64]*slice)
	case 1: // it has everything still
		what = "restored"
		var keys []Key
		for start := range p.slices {
			for _, a := range []Array{ArrayCounts, ArraySpam, ArrayRevoked} {
				keys = append(keys, Key{a, start})
			}
		}
		w.change(func(s *Set, _ uint64, _ bool) error { s.Supersede(id, keys); return nil })
		for _, f := range p.former {
			maps.DeleteFunc(f.slices, func(start uint64, _ *slice) bool { return p.slices[start] != nil })
		}
	default:
		what, p.former = "reborn and forgotten", nil
		w.change(func(s *Set, _ uint64, _ bool) error {
			for _, f := range s.Former(id) {
				s.Forget(f.ID, 0)
			}
			return nil
		})
	}
	return what
}

func (w *world) step() {
	p := w.peers[w.rng.IntN(len(w.peers))]
	switch x := w.rng.IntN(100); {
	case x < 45:
		w.done["report"]++
		images := w.done["images"]
		w.report(p)
		if w.done["images"] == images { // what images bring to a cold array is counted with the next merge
			w.compare("report, at once")
		}
	case x < 52:
		w.done["day"]++
		w.now = w.now.Add(time.Duration(12+w.rng.IntN(24)) * time.Hour)
		w.set.DropExpired()
		for _, p := range w.peers {
			w.report(p)
		}
	case x < 80:
		w.decide(p)
	case x < 88:
		w.done["checkpoint"]++
		w.settle()
		if err := w.checkpoint(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
		w.compareArrays(true)
	default:
		what, tight := "killed", w.limit
		if w.rng.IntN(3) == 0 {
			what = "raised"
			w.limit *= 100
		}
		w.done[what]++
		if err := w.st.Close(); err != nil {
			w.t.Fatal(err)
		}
		w.start()
		if m := w.set.Memory(); w.limit != tight && (m.Into > 0 || m.Merged > 0 ||
			slices.ContainsFunc(w.held(), func(s ArrayState) bool { return s.Merged })) {
			w.t.Fatalf("%+v though there is memory for all", m)
		}
		w.limit = tight // from the next start on
	}
	w.settle()
	w.compare("settled")
	w.compareArrays(false)
	w.compareMemory()
}
