package engine

import (
	"slices"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine/codec"
	"github.com/bulkhead-mail/bulkhead/internal/engine/view"
)

// rotate opens and drops generations when they are due.
func (e *Engine) rotate() error { return e.rotateWithout(nil) }

// rotateWithout is rotate, which also drops the generations of the secrets with the given IDs.
func (e *Engine) rotateWithout(given map[uint64]bool) error {
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
	if err != nil {
		return err
	}
	gone := e.of(given)
	tally.Drop = appendNew(tally.Drop, gone.Tally.Starts())
	block.Drop = appendNew(block.Drop, gone.Block.Starts())
	if tally.Empty() && block.Empty() {
		return nil
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

// of returns the generations that were made with the secrets with the given IDs.
func (e *Engine) of(secrets map[uint64]bool) (out view.Books) {
	books := e.current.Books()
	for _, g := range books.Tally.Live {
		if secrets[g.CountsGeometry.KeyID] {
			out.Tally.Live = append(out.Tally.Live, g)
		}
	}
	for _, g := range books.Block.Live {
		if secrets[g.SpamGeometry.KeyID] {
			out.Block.Live = append(out.Block.Live, g)
		}
	}
	return out
}

// appendNew appends the starts that are not in the list yet.
func appendNew(list, starts []uint64) []uint64 {
	for _, start := range starts {
		if !slices.Contains(list, start) {
			list = append(list, start)
		}
	}
	return list
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
