package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
)

// A sharedLog is a shared journal in memory, as servers of a stream keep it.
type sharedLog struct {
	mu      sync.Mutex
	link    uint64 // before the first entry
	entries []logged
	full    bool
}

type logged struct {
	writer *sharedWriter
	data   []byte
}

// A sharedWriter is one node's view of a sharedLog. Its faults are faults of a connection.
type sharedWriter struct {
	log   *sharedLog
	at    store.Position
	ok    bool
	begun bool
	// away: nothing arrives. lost: the next entry arrives, and its answer does not.
	away, lost bool
}

var errConnection = errors.New("no connection")

func (w *sharedWriter) Append(entry []byte) (uint64, error) {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	switch {
	case !w.ok:
		return 0, errors.New("not joined")
	case w.away:
		w.ok = false
		return 0, errConnection
	case w.at.Index != uint64(len(w.log.entries)):
		w.ok = false
		return 0, errors.New("wrong last entry")
	case w.log.full:
		w.ok = false
		return 0, store.ErrFull
	}
	w.log.entries = append(w.log.entries, logged{w, slices.Clone(entry)})
	if w.lost {
		w.lost, w.ok = false, false
		return 0, errConnection
	}
	w.at, w.begun = w.at.After(entry), true
	return w.at.Index, nil
}

func (w *sharedWriter) Join(ctx context.Context, at store.Position, begin bool,
	take func(context.Context, store.Position, []store.Entry) error) (store.Position, error) {
	w.log.mu.Lock()
	rest := slices.Clone(w.log.entries[min(int(at.Index), len(w.log.entries)):])
	away := w.away
	w.log.mu.Unlock()
	switch {
	case away:
		return at, errConnection
	case at == store.Position{}:
		at.Link = w.log.link
	}
	for i := range rest {
		e := store.Entry{Index: at.Index + 1, Data: rest[i].data}
		if w.begun && rest[i].writer != w {
			return at, store.ErrFenced
		}
		if err := take(ctx, at, []store.Entry{e}); err != nil {
			return at, err
		}
		at = at.After(e.Data)
	}
	w.at, w.ok = at, true
	return at, nil
}

func (w *sharedWriter) Drop(context.Context, uint64) error {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	w.log.full = false // it would drop more in earnest
	return nil
}

func (w *sharedWriter) Room(context.Context) error {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	if w.log.full {
		return store.ErrFull
	}
	return nil
}

func (w *sharedWriter) Replay(context.Context, uint64, func(uint64, []byte) error) error { return nil }
func (w *sharedWriter) FirstIndex() uint64                                               { return 1 }
func (w *sharedWriter) LastIndex() uint64                                                { return w.at.Index }
func (w *sharedWriter) Err() error                                                       { return nil }
func (w *sharedWriter) Close() error                                                     { return nil }

func (w *sharedWriter) set(change func()) {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	change()
}

// TestShared runs random reports, checkpoints, restarts, lost answers, broken connections, full disks and a full
// journal on a node with a shared journal, and take-overs by a second one. Each report has an ID, and is repeated until
// it is acknowledged. In the end every one is counted once, at both nodes.
func TestShared(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { testShared(t, rand.New(rand.NewPCG(34, seed))) })
	}
}

// A sharedNode is a node of TestShared.
type sharedNode struct {
	dir    string
	fs     *diskFS
	writer *sharedWriter
	engine *Engine
}

func (n *sharedNode) open(t *testing.T, log *sharedLog, follow error) {
	t.Helper()
	n.openWith(t, log, Options{Follow: follow})
}

func (n *sharedNode) openWith(t *testing.T, log *sharedLog, o Options) {
	t.Helper()
	n.writer = &sharedWriter{log: log}
	st, err := store.Open(n.dir, store.Options{FS: n.fs})
	if err != nil {
		t.Fatal(err)
	}
	o.Store, o.Shared = st, n.writer
	if n.engine, err = Open(t.Context(), small(o)); err != nil {
		t.Fatal(err)
	}
}

func (n *sharedNode) close(t *testing.T) {
	t.Helper()
	if err := errors.Join(n.engine.Close(context.Background()), n.engine.opts.Store.Close()); err != nil {
		t.Log(err)
	}
}

func testShared(t *testing.T, rng *rand.Rand) {
	log := &sharedLog{link: 77}
	nodes := [2]*sharedNode{}
	for i := range nodes {
		nodes[i] = &sharedNode{dir: filepath.Join(t.TempDir(), "store"), fs: &diskFS{}}
	}
	nodes[0].open(t, log, nil)
	var copied bytes.Buffer
	if _, err := nodes[0].engine.opts.Store.Backup(t.Context(), &copied); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Restore(t.Context(), &copied, nodes[1].dir, store.Options{}); err != nil {
		t.Fatal(err)
	}
	nodes[1].open(t, log, errors.New("follows"))
	first := 0
	want := make(map[int]int)
	var pending []bulkhead.Report // not acknowledged yet
	number := make(map[string]int)
	acknowledge := func(r bulkhead.Report) bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := nodes[first].engine.Report(ctx, r)
		return err == nil
	}
	for step := range 300 {
		n := nodes[first]
		switch rng.IntN(24) {
		case 0:
			if n.engine.Refusing() == nil && !n.fs.full.Load() {
				writeCheckpoint(t, n.engine)
			}
		case 1:
			n.writer.set(func() { n.writer.lost = true })
		case 2:
			away := rng.IntN(2) == 0
			n.writer.set(func() { n.writer.away = away })
		case 3:
			n.writer.set(func() { log.full = true })
		case 4:
			n.fs.full.Store(rng.IntN(2) == 0)
		case 5: // a restart
			n.fs.full.Store(false)
			n.close(t)
			n.open(t, log, nil)
		case 6: // the first node dies, and the second takes over
			other := nodes[1-first]
			term := max(n.engine.Term().Number, other.engine.Term().Number) + 1
			if err := other.engine.Promote(t.Context(), term); err != nil {
				t.Fatal(err)
			}
			if rng.IntN(2) == 0 && acknowledge(bulkhead.Report{Vote: bulkhead.Sighting, ID: fmt.Sprint("late", step),
				Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 99)}}) {
				t.Fatal("two nodes take reports")
			}
			n.fs.full.Store(false)
			n.close(t)
			n.open(t, log, errors.New("follows"))
			first = 1 - first
		case 7:
			if err := nodes[1-first].engine.CatchUp(t.Context()); err != nil {
				t.Fatal(err)
			}
		default:
			k := rng.IntN(40)
			r := bulkhead.Report{Vote: bulkhead.Sighting, ID: fmt.Sprint(step), Count: 1,
				Signatures: []bulkhead.Signature{sig(bulkhead.Exact, k)}}
			number[r.ID] = k
			pending = append(pending, r)
			pending = slices.DeleteFunc(pending, func(r bulkhead.Report) bool {
				if !acknowledge(r) {
					return false
				}
				want[number[r.ID]]++
				return true
			})
		}
	}
	n := nodes[first]
	n.writer.set(func() { n.writer.away, n.writer.lost = false, false })
	n.fs.full.Store(false)
	for _, r := range pending {
		await.True(t, "a report", func() bool { return acknowledge(r) })
		want[number[r.ID]]++
	}
	check := func(e *Engine) {
		t.Helper()
		for k := range 40 {
			if got := verdictOf(t, e, sig(bulkhead.Exact, k)).Findings[0].Sightings; int(got) != want[k] {
				t.Errorf("signature %d was counted %d times, want %d", k, got, want[k])
			}
		}
	}
	check(n.engine)
	other := nodes[1-first]
	if err := other.engine.CatchUp(t.Context()); err != nil {
		t.Error(err)
	}
	check(other.engine)
	for _, n := range nodes {
		n.close(t)
	}
	n.open(t, log, nil)
	check(n.engine)
	n.close(t)
	if len(log.entries) < 50 {
		t.Errorf("only %d entries", len(log.entries))
	}
}

// TestReplaced has a first node that never appended anything, and is replaced: it decides nothing from then on, neither
// while it runs nor after a restart in which it still takes itself for the first.
func TestReplaced(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		log := &sharedLog{link: 77}
		dir := t.TempDir()
		var nodes [2]*sharedNode
		for i := range nodes {
			nodes[i] = &sharedNode{dir: filepath.Join(dir, fmt.Sprint(i)), fs: &diskFS{}}
		}
		nodes[0].open(t, log, nil)
		if err := nodes[0].engine.Promote(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		var copied bytes.Buffer
		if _, err := nodes[0].engine.opts.Store.Backup(t.Context(), &copied); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Restore(t.Context(), &copied, nodes[1].dir, store.Options{}); err != nil {
			t.Fatal(err)
		}
		nodes[0].close(t)
		open := func() { nodes[0].openWith(t, log, Options{Term: 1}) }
		if !restarted {
			open()
		}
		nodes[1].open(t, log, errors.New("follows"))
		if err := nodes[1].engine.Promote(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		if restarted {
			open()
		}
		last := len(log.entries)
		r := bulkhead.Report{Vote: bulkhead.Sighting, Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 1)}}
		for range 20 {
			if _, err := nodes[0].engine.Report(t.Context(), r); !errors.Is(err, bulkhead.ErrReadOnly) {
				t.Fatalf("a node that was replaced takes a report: %v", err)
			}
			await.True(t, "the end of a recovery", func() bool { return nodes[0].engine.journal.failure() == nil })
		}
		report(t, nodes[1].engine, r)
		if len(log.entries) != last+1 || nodes[0].engine.Refusing() == nil {
			t.Errorf("%d entries after the take-over, want 1; the first node: %v", len(log.entries)-last,
				nodes[0].engine.Refusing())
		}
		nodes[0].close(t)
		nodes[1].close(t)
	}
}

// TestFollowFullDisk fills the disk of a follower at random while it follows. Entries that it could not write are not
// sent again, since it has used their indexes, and it has counted each of them once.
func TestFollowFullDisk(t *testing.T) {
	rng, disk := rand.New(rand.NewPCG(34, 12)), &diskFS{}
	first := open(t, small(Options{Store: openStore(t, filepath.Join(t.TempDir(), "store"))}))
	entries := first.opts.Store.Follow(1 << 30)
	defer entries.Close()
	var copied bytes.Buffer
	if _, err := first.opts.Store.Backup(t.Context(), &copied); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "store")
	if _, err := store.Restore(t.Context(), &copied, dir, store.Options{}); err != nil {
		t.Fatal(err)
	}
	second, st := openDurable(t, dir, Options{Follow: errors.New("follows")}, disk)
	want, refused := make(map[int]uint32), 0
	for step := range 40 {
		for range 1 + rng.IntN(4) {
			k := rng.IntN(20)
			report(t, first, bulkhead.Report{Vote: bulkhead.Sighting, Count: 1,
				Signatures: []bulkhead.Signature{sig(bulkhead.Exact, k)}})
			want[k]++
		}
		disk.full.Store(step%4 == 0)
		next, err := entries.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := second.Follow(t.Context(), next); err != nil {
			if !errors.Is(err, bulkhead.ErrReadOnly) {
				t.Fatal(err)
			}
			refused++
		}
		disk.full.Store(false)
		await.True(t, "a follower that goes on", func() bool { return second.journal.failure() == nil })
		if last := st.LastIndex(); last != next[len(next)-1].Index {
			t.Fatalf("the follower has entries up to %d, want %d", last, next[len(next)-1].Index)
		}
	}
	if err := errors.Join(second.Close(t.Context()), st.Close()); err != nil {
		t.Fatal(err)
	}
	again, st := openDurable(t, dir, Options{Follow: errors.New("follows")}, disk)
	for _, e := range []*Engine{second, again} {
		for k, n := range want {
			if got := verdictOf(t, e, sig(bulkhead.Exact, k)).Findings[0].Sightings; got != n {
				t.Errorf("signature %d was counted %d times, want %d", k, got, n)
			}
		}
	}
	if err := errors.Join(again.Close(t.Context()), st.Close()); err != nil {
		t.Fatal(err)
	}
	if refused < 5 {
		t.Errorf("the disk was full %d times", refused)
	}
}
