package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine/ballots"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/keys"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
	"github.com/bulkhead-mail/bulkhead/internal/engine/resolve"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// An Engine is the clearinghouse of one node. It implements
// [bulkhead.Clearinghouse]; its methods may be called concurrently.
type Engine struct {
	opts     Options
	ballots  *ballots.Book
	accounts *trust.Book
	never    map[bulkhead.Signature]bool
	// neverSchemes has the bit of each scheme that occurs in never.
	neverSchemes uint64

	books     atomic.Pointer[books]
	replicas  *replica.Set
	whitelist atomic.Pointer[Whitelist]
	threshold atomic.Uint32
	odds      atomic.Pointer[odds]
	read      atomic.Pointer[sources] // of the last look-up
	failed    atomic.Pointer[error]   // why reports are refused; nil while they are accepted
	doubts    atomic.Pointer[[]Doubt] // since a salvage; nil for none
	healedBy  atomic.Pointer[[]Healing]
	clock     *ageingClock
	scratch   sync.Pool // of *scratch
	seen      sync.Pool // of *bulkhead.Verdict
	reports   sync.Pool // of *reportAddition
	counters  counters
	watch     watch // of the writer

	measuring sync.Mutex
	measured  map[any]measure // guarded by measuring: results for the arrays that the odds cover

	queue   chan *request
	closing chan struct{} // closed when no further requests are accepted
	stopped chan struct{} // closed when the writer has ended
	wake    chan struct{} // asks for a checkpoint

	close   sync.Once
	closed  error
	keepers sync.WaitGroup

	// Used only by the writer once it runs.
	resolver      *resolve.Resolver
	buf           []byte
	index         uint64 // index of the last entry, on a node without a journal
	accountsIndex uint64 // last journal entry that is in the trust book
	journalBytes  uint64 // since the last checkpoint
	held          bool   // the ageing is held, and this is logged
	stored        uint64 // time of the checkpoint that was loaded, Unix seconds; 0 if it has none
	recorder      recorder
	wounds        *wounds           // nil for none
	healings      map[string]uint64 // pages made whole since the start, by peer
	tally         *book.TallyKeeper
	block         *book.BlockKeeper

	// written is the content of the last checkpoint's files, by name: the next one carries over
	// those that have not changed. writtenMu guards it, and is held while a checkpoint is written,
	// because tests write one concurrently with keep.
	written   map[string]written
	writtenMu sync.Mutex
}

// counters count the work of an engine since it started.
type counters struct {
	checks, reports, refused, entries, checkpoints, recoveries, forgotten, gatherings atomic.Uint64
}

// Open starts an engine: it loads the last checkpoint of opts.Store, replays the journal after it,
// and accepts requests. The caller closes the engine first, and then the store. Errors of damaged
// files are of type *store.DamageError.
func Open(ctx context.Context, opts Options) (*Engine, error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	secrets := keys.NewSecrets(opts.Secret, opts.Past...).Sharing(opts.Former)
	e := &Engine{
		ballots:  ballots.New(ballotBytes),
		opts:     opts,
		accounts: trust.NewBook(opts.Trust),
		never:    make(map[bulkhead.Signature]bool, len(opts.NeverList)),
		queue:    make(chan *request, queueSize),
		closing:  make(chan struct{}),
		stopped:  make(chan struct{}),
		wake:     make(chan struct{}, 1),
		watch:    newWatch(),
		clock:    newAgeingClock(&opts),
		tally:    book.NewTally(opts.Tally, opts.Reports, opts.Secret.ID(), opts.Exact, opts.Log),
		block:    book.NewBlocklist(opts.Block, opts.Votes, opts.Names, opts.Secret.ID(), opts.Exact, opts.Log),
	}
	for _, sig := range opts.NeverList {
		e.never[sig] = true
		e.neverSchemes |= 1 << sig.Scheme()
	}
	e.scratch.New = func() any { return e.newScratch() }
	e.seen.New = func() any { return new(bulkhead.Verdict) }
	e.reports.New = func() any { return new(reportAddition) }
	e.threshold.Store(opts.Threshold)
	e.whitelist.Store(opts.Whitelist)
	e.books.Store(&books{secrets: secrets})
	e.replicas = replica.NewSet(replica.Options{
		Known: func(id uint64) bool { return e.books.Load().secrets.Knows(id) }, Tally: opts.Tally, Block: opts.Block,
		Bytes: opts.RemoteBytes, Store: opts.Store, Still: opts.Still,
		Keeps: e.keeps, Now: e.clock.now, Promotion: func() float64 { return e.accounts.Policy().Promotion },
		Checkpoint: e.wakeCheckpoint,
	})
	e.resolver = resolve.New(resolve.Options{
		Accounts: e.accounts, Policy: e.policy, Threshold: e.threshold.Load, Now: e.clock.now, Day: e.day(),
	})
	if opts.Store != nil {
		if err := e.load(ctx); err != nil {
			return nil, err
		}
	}
	e.trimSecrets()
	if err := e.books.Load().secrets.Check(); err != nil {
		return nil, err
	}
	e.resolver.SetKeys(e.books.Load().secrets.Maker())
	if err := e.rotate(); err != nil {
		return nil, err
	}
	if err := e.refusing(); err != nil && len(e.view().tally.Live) == 0 {
		return nil, fmt.Errorf("engine: no generation to start with: %w", err)
	}
	e.refreshOdds()
	go e.write()
	e.keepers.Go(e.keep)
	return e, nil
}

// Accounts returns the trust book, for reading.
func (e *Engine) Accounts() *trust.Book { return e.accounts }

// SetWhitelist replaces the whitelist; nil empties it.
func (e *Engine) SetWhitelist(w *Whitelist) { e.whitelist.Store(w) }

// SetThreshold sets the count from which a message is bulk; 0 means
// [DefaultThreshold].
func (e *Engine) SetThreshold(n uint32) {
	if n == 0 {
		n = DefaultThreshold
	}
	e.threshold.Store(n)
}

// SetTrust replaces the trust policy. If a field is out of range, it changes nothing and returns an
// error that names the field.
func (e *Engine) SetTrust(p trust.Policy) error {
	if err := p.Validate(); err != nil {
		return err
	}
	e.accounts.SetPolicy(p)
	e.replicas.Wake() // the promotion weight determines which lists may be merged
	return nil
}

// Refusing returns why the node currently refuses reports, or nil.
func (e *Engine) Refusing() error { return e.refusing() }

// Close stops accepting requests, serves the waiting ones, and writes a last checkpoint. Checks
// still work with the data in memory. An error means that the checkpoint failed; nothing is lost,
// because the next start replays the journal.
func (e *Engine) Close(ctx context.Context) error {
	e.close.Do(func() {
		close(e.closing)
		<-e.stopped
		e.keepers.Wait()
		if e.opts.Store != nil && e.refusing() == nil {
			e.closed = e.checkpoint(ctx, func(f func()) { f() })
		}
	})
	return e.closed
}

// keep is the goroutine that writes checkpoints, recovers from failures and refreshes the error
// odds.
func (e *Engine) keep() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-e.closing
		cancel()
	}()
	checkpoint := time.NewTicker(e.opts.CheckpointEvery)
	defer checkpoint.Stop()
	fresh := time.NewTicker(oddsEvery)
	defer fresh.Stop()
	var failed time.Time     // time of the last failed merge
	var noSnapshot time.Time // time of the last failed checkpoint
	for {
		select {
		case <-e.closing:
			return
		case <-fresh.C:
			e.refreshOdds()
			e.release()
			continue
		case <-e.replicas.Wanted():
			if time.Since(failed) < mergeRest {
				continue
			}
			err := e.merge(ctx)
			if err != nil && !errors.Is(err, replica.ErrChanged) && ctx.Err() == nil {
				e.opts.Log.Error("counts of peers could not be merged", "err", err, "next_try", mergeRest)
				failed = time.Now()
				time.AfterFunc(mergeRest, e.replicas.Wake)
			}
			continue
		case <-e.replicas.Crowded():
			if err := e.replicas.Index(ctx, e.between); err != nil && ctx.Err() == nil {
				e.opts.Log.Error("no index of what peers count", "err", err)
			}
			continue
		case <-checkpoint.C:
			e.replicas.Crowd() // arrays may have filled since the indexes were made
		case <-e.wake:
			if e.refusing() == nil && time.Since(noSnapshot) < checkpointRest {
				continue // every entry requests one again
			}
		}
		if !e.maintain(ctx) {
			noSnapshot = time.Now()
		}
	}
}
