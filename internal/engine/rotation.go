package engine

import (
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine/codec"
)

// rotate opens and drops generations when they are due.
func (e *Engine) rotate() error {
	books := e.current.Books()
	if e.journal.refusing() != nil || e.opts.Still && len(books.Tally.Live) > 0 {
		return nil
	}
	now, held := e.clock.watch()
	defer e.ahead()
	tally, err := e.writer.tally.Plan(books.Tally, now, held)
	if err != nil {
		return err
	}
	block, err := e.writer.block.Plan(books.Block, now, held)
	if err != nil || tally.Empty() && block.Empty() {
		return err
	}
	r := &codec.Rotation{
		OpenTally: tally.Open, DropTally: tally.Drop, TallyFrom: tally.From,
		OpenBlock: block.Open, DropBlock: block.Drop, BlockFrom: block.From,
	}
	if err := e.commit(r); err != nil {
		if e.journal.refusing() != nil {
			return nil // the journal has logged the reason
		}
		return err
	}
	if !held {
		e.replicas.DropExpired()
	}
	e.trimSecrets()
	if r.OpenTally != nil {
		e.sweep(now)
	}
	e.counters.forgotten.Add(e.writer.tally.GivenUp(tally, now) + e.writer.block.GivenUp(block, now))
	e.opts.Log.Info("generations rotated", "opened_tally", r.OpenTally != nil, "opened_blocklist", r.OpenBlock != nil,
		"dropped_tally", len(r.DropTally), "dropped_blocklist", len(r.DropBlock))
	return nil
}

// sweep removes unused self-registered accounts.
func (e *Engine) sweep(now time.Time) {
	stale := e.accounts.Stale(now)
	for _, name := range stale {
		if err := e.commit(&codec.Account{Remove: name}); err != nil {
			return // the journal has logged the reason
		}
	}
	if len(stale) > 0 {
		e.opts.Log.Info("self-registered accounts removed: their votes never helped", "accounts", len(stale))
	}
}

// ahead creates the next generations before they are due.
func (e *Engine) ahead() {
	books, now := e.current.Books(), e.clock.now()
	for _, work := range []func(){e.writer.tally.Ahead(books.Tally, now), e.writer.block.Ahead(books.Block, now)} {
		if work != nil {
			e.keepers.Go(work)
		}
	}
}
