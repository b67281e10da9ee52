package engine

import (
	"context"
	"math"
	"slices"
	"time"
)

// leastStep is the smallest step of the clock that holds the ageing, even with short generations: a
// restart may take minutes.
const leastStep = time.Hour

// StepLimit returns the [Options].MaxStep of a node with these books: the length of two of the
// shorter generations, and at least an hour.
func StepLimit(tally, block BookOptions) time.Duration {
	return max(leastStep, 2*min(tally.Generation, block.Generation))
}

// Ageing is the state of the ageing of generations.
type Ageing struct {
	// Held means that the machine's clock is implausibly far ahead. No generation expires, and new
	// counts go into generations of the expected time.
	Held bool
	// Newest is the last plausible time, for a held ageing the time of the newest record before it.
	// Now is the time by which generations open, and Clock is the machine's time.
	Newest, Now, Clock time.Time
	// Tally and Blocklist are the numbers of generations that expire at once when Clock is
	// confirmed.
	Tally, Blocklist int
}

// Now returns the time by which generations open and expire. It is the time of [Options.Now],
// unless the ageing is held.
func (e *Engine) Now() time.Time { return e.clock.now() }

// Ageing returns the state of the ageing.
func (e *Engine) Ageing() Ageing {
	now, wall, held := e.clock.read()
	a := Ageing{Held: held, Now: now, Clock: wall, Newest: now}
	if held {
		a.Newest = e.clock.last.Load().time
		b := e.current.Books()
		kept := func(ages []uint64, since uint64) []uint64 {
			return slices.DeleteFunc(ages, func(from uint64) bool { return from >= since })
		}
		since := [2]uint64{math.MaxUint64, math.MaxUint64}
		if wrong := e.clock.wrong.Load(); wrong != nil {
			since = *wrong // these age from the confirmation on
		}
		a.Tally = e.opts.Tally.Overdue(wall, kept(b.Tally.Ages(), since[0]))
		a.Blocklist = e.opts.Block.Overdue(wall, kept(b.Block.Ages(), since[1]))
	}
	return a
}

// ConfirmClock accepts the machine's clock while the ageing is held. Generations that are older
// than the books keep then expire. If the ageing is not held, ConfirmClock changes nothing.
func (e *Engine) ConfirmClock(ctx context.Context) error {
	return e.queue.change(ctx, func() error {
		_, wall, held := e.clock.read()
		if !held {
			return nil
		}
		if err := e.journal.refusing(); err != nil {
			return err // expired generations have to be journalled
		}
		e.clock.confirm(wall)
		return e.rotate()
	})
}
