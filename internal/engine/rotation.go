package engine

import (
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
)

// rotation opens and drops generations: the body of a rotation entry.
type rotation struct {
	OpenTally *book.TallySpec `json:"open_tally,omitempty"`
	OpenBlock *book.BlockSpec `json:"open_block,omitempty"`
	DropTally []uint64        `json:"drop_tally,omitempty"`
	DropBlock []uint64        `json:"drop_block,omitempty"`
	// The starts below which generations were dropped for lack of memory.
	TallyFrom uint64 `json:"tally_from,omitempty"`
	BlockFrom uint64 `json:"block_from,omitempty"`
}

func (r *rotation) tally() book.Change[book.TallySpec] {
	return book.Change[book.TallySpec]{Open: r.OpenTally, Drop: r.DropTally, From: r.TallyFrom}
}

func (r *rotation) block() book.Change[book.BlockSpec] {
	return book.Change[book.BlockSpec]{Open: r.OpenBlock, Drop: r.DropBlock, From: r.BlockFrom}
}

// rotate opens and drops generations when they are due.
func (e *Engine) rotate() error {
	if e.refusing() != nil || e.opts.Still && len(e.view().tally.Live) > 0 {
		return nil
	}
	v := e.view()
	now, held := e.watchClock()
	defer e.ahead()
	tally, err := e.tally.Plan(v.tally, now, held)
	if err != nil {
		return err
	}
	block, err := e.block.Plan(v.block, now, held)
	if err != nil || tally.Empty() && block.Empty() {
		return err
	}
	r := &rotation{
		OpenTally: tally.Open, DropTally: tally.Drop, TallyFrom: tally.From,
		OpenBlock: block.Open, DropBlock: block.Drop, BlockFrom: block.From,
	}
	entry, err := encodeJSONEntry(entryRotation, r)
	if err != nil {
		return err
	}
	index, err := e.journal(entry)
	if err != nil {
		return nil // journal has logged the reason
	}
	if err := r.apply(e, index); err != nil {
		return err
	}
	if !held {
		e.replicas.DropExpired()
	}
	e.trimSecrets()
	if r.OpenTally != nil {
		e.sweep(now)
	}
	e.counters.forgotten.Add(e.tally.GivenUp(tally, now) + e.block.GivenUp(block, now))
	e.opts.Log.Info("generations rotated", "opened_tally", r.OpenTally != nil, "opened_blocklist", r.OpenBlock != nil,
		"dropped_tally", len(r.DropTally), "dropped_blocklist", len(r.DropBlock))
	return nil
}

// sweep removes unused self-registered accounts.
func (e *Engine) sweep(now time.Time) {
	stale := e.accounts.Stale(now)
	for _, name := range stale {
		if err := e.journalled(entryAccount, &accountChange{Remove: name}); err != nil {
			return // journal has logged the reason
		}
	}
	if len(stale) > 0 {
		e.opts.Log.Info("removed accounts that registered themselves and never helped", "accounts", len(stale))
	}
}

// ahead creates the next generations before they are due.
func (e *Engine) ahead() {
	v, now := e.view(), e.clock.now()
	for _, work := range []func(){e.tally.Ahead(v.tally, now), e.block.Ahead(v.block, now)} {
		if work != nil {
			e.keepers.Go(work)
		}
	}
}

func (r *rotation) apply(e *Engine, _ uint64) (err error) {
	// Before the first checkpoint, nothing else records the key.
	if r.OpenTally != nil {
		if err := e.checkKey(r.OpenTally.CountsGeometry.KeyID); err != nil {
			return err
		}
	}
	next := *e.books.Load()
	if next.tally, err = e.tally.Apply(next.tally, r.tally()); err != nil {
		return err
	}
	if next.block, err = e.block.Apply(next.block, r.block()); err != nil {
		return err
	}
	e.books.Store(&next)
	return nil
}
