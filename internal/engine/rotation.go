package engine

import (
	"slices"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine/codec"
	"github.com/bulkhead-mail/bulkhead/internal/engine/view"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
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
	if err := e.repairAges(now, held); err != nil {
		return err
	}
	books = e.current.Books()
	tally, err := e.writer.tally.Plan(books.Tally, now, held)
	if err != nil {
		return err
	}
	block, err := e.writer.block.Plan(books.Block, now, held)
	if err != nil {
		return err
	}
	books = e.current.Books()
	tally.Drop, block.Drop = e.departed(books, "tally", tally.Drop, tally.From), e.departed(books, "blocklist", block.Drop,
		block.From)
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
		e.writer.sweep.rest = e.accounts.Snapshot()
	}
	e.counters.forgotten.Add(e.writer.tally.GivenUp(tally, now) + e.writer.block.GivenUp(block, now))
	e.opts.Log.Info("generations rotated", "opened_tally", r.OpenTally != nil, "opened_blocklist", r.OpenBlock != nil,
		"dropped_tally", len(r.DropTally), "dropped_blocklist", len(r.DropBlock))
	return nil
}

// repairAges notes which generations are open while the clock is wrong: while the ageing is held, or
// the clock is behind the open generation. When the clock is right again, the starts of these
// generations are not the time of their counts. They then age from that moment on. A held ageing
// begins with new generations, so that older counts age as before.
func (e *Engine) repairAges(now time.Time, held bool) error {
	books, second := e.current.Books(), uint64(max(0, now.Unix()))
	if e.clock.limit == 0 || len(books.Tally.Live) == 0 || len(books.Block.Live) == 0 {
		return nil
	}
	open := [2]uint64{books.Tally.Live[0].Start, books.Block.Live[0].Start}
	length := uint64(e.opts.Tally.Generation / time.Second)
	since, behind := e.clock.wrong.Load(), second+length/2 < open[0]
	switch {
	case since == nil && held:
		e.writer.tally.Fresh()
		e.writer.block.Fresh()
		e.clock.wrong.Store(&[2]uint64{max(second, open[0]+1), max(second, open[1]+1)})
		return nil
	case since == nil && behind:
		e.clock.wrong.Store(&open)
		return nil
	case since == nil || held || behind:
		return nil
	case second < open[0]+length:
		e.clock.wrong.Store(nil)
		return nil // it was wrong for less than a generation
	}
	r := &codec.Rotation{TallySince: since[0], BlockSince: since[1],
		Aged: uint64(now.Truncate(e.opts.Tally.Generation).Unix())}
	if err := e.commit(r); err != nil {
		if e.journal.refusing() != nil {
			return nil // the journal has logged the reason
		}
		return err
	}
	e.clock.wrong.Store(nil)
	e.opts.Log.Info("counts made under a wrong clock age from now on", "aged_from", time.Unix(int64(r.Aged), 0).UTC())
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

// A sweep removes the self-registered accounts that are not used, once in each generation of the tally.
type sweep struct {
	rest    trust.Snapshot // the accounts that it has not looked at yet
	removed int
}

// sweptInTurn is the number of accounts that a sweep looks at in a turn of the writer: about 0.1 ms.
const sweptInTurn = 256

// sweep looks at a few accounts in each turn of the writer, and removes one at most. There may be thousands, and
// each removal waits for the disk.
func (e *Engine) sweep() {
	s := &e.writer.sweep
	if len(s.rest) == 0 || e.journal.refusing() != nil {
		return
	}
	for range min(sweptInTurn, len(s.rest)) {
		name := s.rest[0].Name
		s.rest = s.rest[1:]
		if e.accounts.IsStale(name, e.clock.now()) {
			if e.commit(&codec.Account{Remove: name}) == nil { // the journal logs an error
				s.removed++
			}
			break
		}
	}
	if len(s.rest) > 0 {
		return
	}
	if s.removed > 0 {
		e.opts.Log.Info("self-registered accounts were removed", "accounts", s.removed,
			"reason", "their votes never helped")
	}
	*s = sweep{}
}

// ahead creates the next generations before they are due.
func (e *Engine) ahead() {
	books, now := e.current.Books(), e.clock.now()
	for _, work := range []func(){e.writer.tally.Ahead(books.Tally, now), e.writer.block.Ahead(books.Block, now)} {
		if work != nil {
			e.keepers.Go(func() {
				// One at a time. The system may take milliseconds to find memory, in a call for which the scheduler
				// gives the processor to others late.
				e.keepers.making.Lock()
				defer e.keepers.making.Unlock()
				work()
			})
		}
	}
}
