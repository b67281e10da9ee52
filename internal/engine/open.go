package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine/aside"
	"github.com/bulkhead-mail/bulkhead/internal/engine/ballots"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/check"
	"github.com/bulkhead-mail/bulkhead/internal/engine/heal"
	"github.com/bulkhead-mail/bulkhead/internal/engine/keys"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
	"github.com/bulkhead-mail/bulkhead/internal/engine/resolve"
	"github.com/bulkhead-mail/bulkhead/internal/engine/view"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// oddsEvery is the interval at which the odds are measured again.
const oddsEvery = 2 * time.Second

// Open starts an engine: it loads the last checkpoint of opts.Store, replays the journal after it,
// and accepts requests. The caller closes the engine first, and then the store. Errors of damaged
// files are of type *store.DamageError.
func Open(ctx context.Context, opts Options) (*Engine, error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	e := newEngine(opts)
	if opts.Follow != nil {
		e.StandDown(opts.Follow)
	}
	if opts.Store != nil {
		if err := e.load(ctx); err != nil {
			return nil, err
		}
	}
	if opts.Shared != nil && opts.Follow == nil {
		if err := e.join(ctx, func(f func()) { f() }, true); err != nil {
			e.journal.fail("join the shared journal", err)
		}
	}
	e.trimSecrets()
	if err := e.current.Books().Secrets.Check(); err != nil {
		return nil, err
	}
	e.writer.resolver.SetKeys(e.current.Books().Secrets.Maker())
	if err := e.rotate(); err != nil {
		return nil, err
	}
	if err := e.journal.refusing(); err != nil && len(e.current.Books().Tally.Live) == 0 {
		return nil, fmt.Errorf("engine: no generation to start with: %w", err)
	}
	e.checker.Measure()
	go e.write()
	if opts.Standby != nil {
		e.keepers.Go(e.role.confirm)
	}
	e.keepers.Go(e.keep)
	return e, nil
}

// newEngine returns an engine without generations, before anything is loaded.
func newEngine(opts Options) *Engine {
	secrets := keys.NewSecrets(opts.Secret, opts.Past...).Sharing(opts.Former)
	e := &Engine{
		opts:     opts,
		accounts: trust.NewBook(opts.Trust),
		ballots:  ballots.New(ballotBytes),
		clock:    newAgeingClock(&opts),
		queue:    newQueue(),
		journal: journal{log: opts.Log, limit: opts.CheckpointBytes,
			wake: make(chan struct{}, 1)},
	}
	e.clock.overdue = func(wall, expected time.Time) int {
		b := e.current.Books()
		tally, block := b.Tally.Ages(), b.Block.Ages()
		return opts.Tally.Overdue(wall, tally) - opts.Tally.Overdue(expected, tally) +
			opts.Block.Overdue(wall, block) - opts.Block.Overdue(expected, block)
	}
	if opts.Store != nil {
		e.journal.store, e.journal.shared = opts.Store, opts.Shared
	}
	e.role.begin(opts.Standby, opts.Term)
	e.openLearned()
	e.current = view.New(&view.Books{Secrets: secrets}, func() *replica.View { return e.replicas.View() })
	e.pools.seen.New = func() any { return new(bulkhead.Verdict) }
	e.pools.reports.New = func() any { return new(reportAddition) }
	e.replicas = replica.NewSet(replica.Options{
		Known: func(id uint64) bool { return e.current.Books().Secrets.Knows(id) }, Tally: opts.Tally, Block: opts.Block,
		Bytes: opts.RemoteBytes, Store: opts.Store, Still: opts.Still,
		Keeps: e.clock.keeps, Now: e.clock.now, Promotion: func() float64 { return e.accounts.Policy().Promotion },
		Checkpoint: e.journal.wakeCheckpoint,
	})
	e.healer = heal.New(opts.Store, opts.Log, e.current)
	e.checker = check.New(check.Options{
		Current: e.current, Accounts: e.accounts, Whitelist: opts.Whitelist, NeverList: opts.NeverList,
		Threshold: opts.Threshold, NearMatch: opts.NearMatch, Day: opts.day(), Week: opts.Block.Generation, Now: e.clock.now,
		RevocationFirst: opts.RevocationFirst, Exact: opts.Exact, Learned: e.learned, Condemn: opts.LearnCondemns,
	})
	if opts.WantedLost != nil {
		e.SetWantedLost(*opts.WantedLost)
	}
	e.writer = writerState{
		resolver: resolve.New(resolve.Options{
			Accounts: e.accounts, Policy: e.checker.Policy, Threshold: e.checker.Threshold, Now: e.clock.now,
			Day: opts.day(), Learned: e.learned,
		}),
		gatherings: newGatheringLog(),
		tally:      book.NewTally(opts.Tally, opts.Reports, opts.Secret.ID(), opts.Exact, opts.Log),
		block:      book.NewBlocklist(opts.Block, opts.Votes, opts.Names, opts.Secret.ID(), opts.Exact, opts.Log),
	}
	if opts.SetAside != "" && opts.Store != nil {
		e.writer.leaving = leaving{folder: aside.Open(opts.SetAside, e.clock.since), saved: make(map[departure]bool)}
	}
	if opts.Recover != nil && opts.Recover() {
		e.writer.tally.BeginNow()
		e.writer.block.BeginNow()
	}
	return e
}

// Close stops accepting requests, serves the waiting ones, and writes a last checkpoint. Checks
// still work with the data in memory. An error means that the checkpoint failed; nothing is lost,
// because the next start replays the journal.
func (e *Engine) Close(ctx context.Context) error {
	e.close.Do(func() {
		close(e.queue.closing)
		<-e.queue.stopped
		e.role.end()
		e.keepers.Wait()
		e.writer.leaving.tick(e.opts.Log)
		if e.opts.Store != nil && e.journal.failure() == nil {
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
		<-e.queue.closing
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
		case <-e.queue.closing:
			return
		case <-fresh.C:
			e.checker.Measure()
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
			if err := e.replicas.Index(ctx, e.queue.between); err != nil && ctx.Err() == nil {
				e.opts.Log.Error("no index of what peers count", "err", err)
			}
			continue
		case <-checkpoint.C:
			e.writer.leaving.tick(e.opts.Log)
			e.replicas.Crowd() // arrays may have filled since the indexes were made
		case <-e.journal.wake:
			if e.journal.failure() == nil && time.Since(noSnapshot) < checkpointRest {
				continue // every entry requests one again
			}
		}
		if !e.maintain(ctx) {
			noSnapshot = time.Now()
		}
	}
}

func newAgeingClock(o *Options) *ageingClock {
	since := o.Uptime
	if since == nil {
		began := time.Now()
		since = func() time.Duration { return time.Since(began) }
	}
	return &ageingClock{limit: o.MaxStep, wall: o.Now, since: since, confirms: o.Plausible, log: o.Log}
}
