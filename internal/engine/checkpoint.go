package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine/ballots"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/codec"
	"github.com/bulkhead-mail/bulkhead/internal/engine/learned"
	"github.com/bulkhead-mail/bulkhead/internal/engine/pages"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
	"github.com/bulkhead-mail/bulkhead/internal/engine/view"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// checkpointRest is the minimum time between a failed checkpoint and the next, regardless of the
// journal's size.
const checkpointRest = 30 * time.Second

// The time between two attempts to join a shared journal again, after the first one and at most.
const (
	rejoinAfter = 100 * time.Millisecond
	rejoinEvery = 2 * time.Second
)

// maintain writes a checkpoint, or recovers from a failure. It returns false if
// the checkpoint failed.
func (e *Engine) maintain(ctx context.Context) bool {
	if e.opts.Store == nil {
		return true
	}
	if e.journal.failure() == nil {
		err := e.checkpoint(ctx, e.queue.between)
		if err != nil && ctx.Err() == nil {
			// The journal still holds everything, so reports are still accepted.
			e.opts.Log.Error("checkpoint failed", "err", err, "consequence", "the journal is kept and grows")
		}
		return err == nil
	}
	wait, longest := time.Second, checkpointRest
	if e.opts.Shared != nil && e.opts.Store.Err() == nil { // an exchange with the servers costs little
		wait, longest = rejoinAfter, rejoinEvery
	}
	logged, at := "", time.Time{}
	for ; ; wait = min(2*wait, longest) {
		err := e.recover(ctx)
		if err == nil {
			return true
		}
		if err.Error() != logged || time.Since(at) > time.Minute {
			e.opts.Log.Warn("reports are still refused", "err", err, "next_try", wait)
			logged, at = err.Error(), time.Now()
		}
		select {
		case <-ctx.Done():
			return true
		case <-time.After(wait):
		}
	}
}

// checkpoint writes changed arrays to new files, page by page between batches. The store then
// replaces the manifest and drops the older journal.
func (e *Engine) checkpoint(ctx context.Context, between func(func())) error {
	e.files.mu.Lock()
	defer e.files.mu.Unlock()
	s, err := e.snapshot(between, e.files.written)
	if err != nil {
		return err
	}
	if err := e.opts.Store.Checkpoint(ctx, s.start, s.meta, s.files); err != nil {
		return err
	}
	e.taken(s, between)
	e.counters.checkpoints.Add(1)
	if e.opts.Shared != nil && e.journal.refusing() == nil {
		if err := e.opts.Shared.Drop(ctx, s.start); err != nil {
			e.opts.Log.Warn("the shared journal keeps entries that a checkpoint covers", "err", err)
		}
	}
	return nil
}

// recover makes the node accept reports again.
func (e *Engine) recover(ctx context.Context) error {
	if e.opts.Shared == nil || e.opts.Store.Err() != nil {
		if err := e.rewrite(ctx); err != nil {
			return err
		}
	}
	if e.opts.Shared != nil && e.journal.closed.Load() == nil {
		err := e.rejoin(ctx, true)
		if errors.Is(err, store.ErrFenced) {
			e.replaced(err)
			err = nil
		}
		if err != nil {
			reason := fmt.Errorf("%w: %v", bulkhead.ErrReadOnly, err)
			e.journal.failed.Store(&reason)
			return err
		}
	}
	e.counters.recoveries.Add(1)
	e.journal.failed.Store(nil)
	e.replicas.Wake()
	if e.journal.closed.Load() == nil {
		e.opts.Log.Info("reports are accepted again")
	}
	return nil
}

// rejoin takes what the shared journal has beyond the state, and makes room in it. begin is as in join.
func (e *Engine) rejoin(ctx context.Context, begin bool) error {
	if err := e.join(ctx, e.queue.between, begin); err != nil {
		return err
	}
	err := e.opts.Shared.Room(ctx)
	if !errors.Is(err, store.ErrFull) {
		return err
	}
	start := e.opts.Store.LastIndex() + 1
	if err := e.checkpoint(ctx, e.queue.between); err != nil {
		return err
	}
	if err := e.opts.Shared.Drop(ctx, start); err != nil {
		return err
	}
	return e.opts.Shared.Room(ctx)
}

// rewrite writes everything to new files and starts a fresh journal.
func (e *Engine) rewrite(ctx context.Context) error {
	e.files.mu.Lock()
	defer e.files.mu.Unlock()
	s, err := e.snapshot(e.queue.between, nil)
	if err != nil {
		return err
	}
	if err := e.opts.Store.Recover(ctx, s.start, s.meta, s.files); err != nil {
		return err
	}
	e.taken(s, e.queue.between)
	return nil
}

// taken records that the files of a snapshot are in force.
func (e *Engine) taken(s *snapshot, between func(func())) {
	e.files.written = s.written
	between(s.remote.Written)
}

// release drops references to removed arrays, which would otherwise stay in memory until the next
// checkpoint.
func (e *Engine) release() {
	v := e.current.View()
	live := make(map[any]bool)
	note := func(array any) { live[array] = true }
	for _, g := range e.learned.Live() {
		note(g.Counts)
	}
	v.Books.Each(note)
	v.Remote.Each(note)
	e.files.mu.Lock()
	defer e.files.mu.Unlock()
	maps.DeleteFunc(e.files.written, func(_ string, w written) bool { return !live[w.array] })
}

// checkpointFiles are the contents of the last checkpoint's files, by name: the next one carries
// over those that have not changed. mu is held while a checkpoint is written, because tests write
// one concurrently with keep.
type checkpointFiles struct {
	mu      sync.Mutex
	written map[string]written
}

// A snapshot is a checkpoint that is about to be written.
type snapshot struct {
	last    map[string]written // of the last checkpoint
	between func(func())       // runs a function between two batches
	start   uint64             // first journal entry that the files may miss
	meta    []byte
	files   []store.File
	written map[string]written
	remote  *replica.Snapshot
}

// written is the content of a file: an array at a version, or a later one.
type written struct {
	array   pages.Array
	version uint64
}

// snapshot prepares a checkpoint. Pages are copied only as the files are written; arrays
// unchanged since the last checkpoint are not copied at all.
func (e *Engine) snapshot(between func(func()), last map[string]written) (*snapshot, error) {
	s := &snapshot{last: last, between: between, written: make(map[string]written)}
	m := codec.Meta{Version: codec.MetaVersion, Accounts: "accounts", Ballots: "ballots"}
	var accounts trust.Snapshot
	var votes []ballots.Ballot
	var wounds []byte
	var learnt []*learned.Generation
	var messages learned.Messages
	var books *view.Books
	between(func() { // reports wait for it, so what can be encoded later is only referred to
		s.start = e.opts.Store.LastIndex() + 1
		books = e.current.Books()
		m.KeyID = books.Secrets.IDs[0]
		accounts, votes = e.accounts.Snapshot(), e.ballots.All()
		m.AccountsIndex = e.writer.accountsIndex
		e.journal.bytes = 0
		m.Clock = uint64(max(0, e.clock.now().Unix()))
		s.remote = e.replicas.Snapshot()
		m.Doubts = e.Doubts()
		m.Term, m.Wrong, m.Link = e.Term(), e.clock.wrong.Load(), e.journal.link
		wounds = e.healer.Encode()
		if e.learned.On() {
			m.Learned, learnt, messages = e.learned.Manifest(), e.learned.Live(), e.learned.Messages()
		}
	})
	s.addBooks(&m, books)
	s.addLearned(m.Learned, learnt, messages)
	m.Origins = s.remote.Origins(between, s.add, func(name string, write func(io.Writer) error) {
		s.files = append(s.files, store.File{Name: name, Write: write})
	})
	s.files = append(s.files, store.File{Name: m.Accounts, Write: accounts.Write},
		store.File{Name: m.Ballots, Write: func(w io.Writer) error { return ballots.Write(w, votes) }})
	if wounds != nil {
		m.Wounds = "wounds"
		s.addSmall(m.Wounds, wounds)
	}
	var err error
	s.meta, err = json.Marshal(m)
	return s, err
}

// addBooks adds the generations of the node's own books to a manifest, and their arrays to the
// snapshot.
func (s *snapshot) addBooks(m *codec.Meta, books *view.Books) {
	m.TallyFrom, m.BlockFrom = books.Tally.From, books.Block.From
	for _, g := range books.Tally.Live {
		m.Tally = append(m.Tally, codec.TallyMeta{TallySpec: g.TallySpec, CountsFile: s.addOwn("counts", g.Start, g.Counts),
			UniqueFile: s.addOwn("unique", g.Start, g.Unique)})
	}
	for _, g := range books.Block.Live {
		spam, revoked := g.Shared()
		b := codec.BlockMeta{BlockSpec: g.BlockSpec, SpamFile: s.addOwn("spam", g.Start, spam),
			RevokedFile: s.addOwn("revoked", g.Start, revoked),
			WeightsFile: s.addOwn("weights", g.Start, g.Weights), VotesFile: s.addOwn("votes", g.Start, g.Votes),
			NamesFile: s.addOwn("names", g.Start, g.Names)}
		if g.Floor > 0 {
			b.ListedFile = s.addOwn(book.ListedArray, g.Start, g.Spam)
			b.UnlistedFile = s.addOwn(book.UnlistedArray, g.Start, g.Revoked)
		}
		m.Block = append(m.Block, b)
	}
}

// addLearned adds the files of what the node has learnt. m is nil if it does not learn.
func (s *snapshot) addLearned(m *learned.Manifest, live []*learned.Generation, messages learned.Messages) {
	if m == nil {
		return
	}
	for i, g := range live {
		m.Generations[i].File = s.addOwn("learned", g.Start, g.Counts)
	}
	m.Messages = "learned"
	s.addSmall(m.Messages, messages.Encode())
}

// add adds an array's file.
func (s *snapshot) add(name string, array pages.Array) {
	file := store.File{Name: name}
	now := written{array: array}
	now.version = now.array.Version() // before a page is copied
	if s.last[file.Name] != now {
		file.Write = pages.Writer(now.array, s.between)
	}
	s.files = append(s.files, file)
	s.written[file.Name] = now
}

// addOwn adds the file of an own array, and the file of its sums if peers have replicas of it. It
// returns the name of the first.
func (s *snapshot) addOwn(kind string, start uint64, array any) string {
	name := fmt.Sprintf("%s-%d", kind, start)
	s.add(name, array.(pages.Array))
	if file := &s.files[len(s.files)-1]; codec.IsShared(kind) {
		sums := store.File{Name: codec.SumsOf(name)}
		if file.Write != nil {
			// The store writes files in the order of their names: the sums after the pages.
			file.Write, sums.Write = pages.Summed(array.(pages.Array), s.between)
		}
		s.files = append(s.files, sums)
	}
	return name
}

// addSmall adds a file that is written whole.
func (s *snapshot) addSmall(name string, data []byte) {
	s.files = append(s.files, store.File{Name: name, Write: func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}})
}

// settle rewrites all data recovered from a damaged store, before anything else is written to it.
func (e *Engine) settle(ctx context.Context) error {
	here := func(f func()) { f() }
	s, err := e.snapshot(here, nil)
	if err != nil {
		return err
	}
	if err := e.opts.Store.Recover(ctx, s.start, s.meta, s.files); err != nil {
		return err
	}
	e.taken(s, here)
	return nil
}

// mergeRest is the time between a failed merge and the next try.
const mergeRest = 30 * time.Second

// merge merges arrays of replicas that have no memory of their own. It runs in the goroutine that
// writes checkpoints, because these replace the files that it reads.
func (e *Engine) merge(ctx context.Context) error {
	if e.journal.failure() != nil {
		return e.replicas.Merge(ctx, e.queue.between, nil)
	}
	return e.replicas.Merge(ctx, e.queue.between, func(ctx context.Context) error {
		return e.checkpoint(ctx, e.queue.between)
	})
}
