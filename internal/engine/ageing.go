package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
)

// leastStep is the smallest step of the clock that holds the ageing, even with short generations: a
// restart may take minutes.
const leastStep = time.Hour

// StepLimit returns the [Options].MaxStep of a node with these books: the length of two of the
// shorter generations, and at least an hour.
func StepLimit(tally, block BookOptions) time.Duration {
	return max(leastStep, 2*min(tally.Generation, block.Generation))
}

// An ageingClock is the clock by which generations open and expire. If the machine's clock is more
// than limit ahead of the expected time, the ageing is held: this clock then continues from the
// last plausible time, by the processor's clock.
type ageingClock struct {
	limit time.Duration           // 0: every time is plausible
	wall  func() time.Time        // the machine's clock
	since func() time.Duration    // since the start of the process, by the processor's clock
	last  atomic.Pointer[instant] // the last plausible time; nil: none yet
}

// An instant is a time and the reading of the processor's clock at that time.
type instant struct {
	time   time.Time
	uptime time.Duration
}

func newAgeingClock(o *Options) *ageingClock {
	since := o.Uptime
	if since == nil {
		began := time.Now()
		since = func() time.Duration { return time.Since(began) }
	}
	return &ageingClock{limit: o.MaxStep, wall: o.Now, since: since}
}

// read returns the time by which generations open and expire, the machine's time, and whether the
// ageing is held. Any goroutine may call it.
func (c *ageingClock) read() (now, wall time.Time, held bool) {
	wall = c.wall()
	last := c.last.Load()
	if c.limit == 0 || last == nil {
		return wall, wall, false
	}
	expected := last.time.Add(c.since() - last.uptime)
	if wall.Sub(expected) > c.limit {
		return expected, wall, true
	}
	return wall, wall, false
}

// now returns the time by which generations open and expire.
func (c *ageingClock) now() time.Time {
	now, _, _ := c.read()
	return now
}

// behind reports whether wall is before the expected time.
func (c *ageingClock) behind(wall time.Time) bool {
	last := c.last.Load()
	return last != nil && wall.Before(last.time.Add(c.since()-last.uptime))
}

// trust makes t the last plausible time.
func (c *ageingClock) trust(t time.Time) { c.last.Store(&instant{t, c.since()}) }

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
		v := e.view()
		a.Tally, a.Blocklist = e.opts.Tally.Overdue(wall, v.tally.Starts()), e.opts.Block.Overdue(wall, v.block.Starts())
	}
	return a
}

// beginAgeing sets the clock to the newest record found on start: the time of the last checkpoint,
// or the start of the newest generation. Without a record, it accepts the machine's clock.
func (e *Engine) beginAgeing() {
	v, newest := e.books.Load(), e.stored
	if len(v.tally.Live) > 0 {
		newest = max(newest, v.tally.Live[0].Start)
	}
	if len(v.block.Live) > 0 {
		newest = max(newest, v.block.Live[0].Start)
	}
	if newest > 0 {
		e.clock.trust(time.Unix(int64(newest), 0))
	}
	e.watchClock()
}

// watchClock accepts the machine's time, or logs that it is implausible. It returns the time by
// which generations open, and whether the ageing is held. Only the writer calls it.
func (e *Engine) watchClock() (now time.Time, held bool) {
	now, wall, held := e.clock.read()
	// A clock that is behind, such as one without a battery, will probably be corrected.
	if !held && !e.clock.behind(wall) {
		e.clock.trust(wall)
	}
	if held != e.held {
		e.held = held
		e.logAgeing(now, wall)
	}
	return now, held
}

func (e *Engine) logAgeing(now, wall time.Time) {
	if !e.held {
		e.opts.Log.Info("the clock is plausible again, and generations age as before", "clock", wall.UTC())
		return
	}
	newest := e.clock.last.Load().time.UTC()
	e.opts.Log.Warn("the clock is more than two generations ahead of the newest record: ageing is held",
		"clock", wall.UTC(), "newest_record", newest,
		"consequence", "no generation expires, and counts go on in generations of "+now.UTC().Format(time.RFC3339),
		"remedy",
		fmt.Sprintf("if the clock is wrong, set it right; if this machine was really off since %s, run \"bulkhead clock confirm\"", newest.Format(time.RFC3339)))
}

// confirmation is the change that ends the holding of the ageing.
type confirmation struct{}

// ConfirmClock accepts the machine's clock while the ageing is held. Generations that are older
// than the books keep then expire. If the ageing is not held, ConfirmClock changes nothing.
func (e *Engine) ConfirmClock(ctx context.Context) error { return e.change(ctx, confirmation{}) }

func (confirmation) do(e *Engine) error {
	_, wall, held := e.clock.read()
	if !held {
		return nil
	}
	if err := e.refusing(); err != nil {
		return err // expired generations have to be journalled
	}
	e.clock.trust(wall)
	e.held = false
	e.opts.Log.Warn("an administrator has confirmed the clock", "clock", wall.UTC(), "consequence",
		"generations age again")
	return e.rotate()
}

// keeps reports whether parts of a generation that started at the given Unix second are taken from
// peers. While the ageing is held, the machine's clock may still be right, so generations may start
// as late as it allows.
func (e *Engine) keeps(o book.Options, start uint64) bool {
	now, wall, _ := e.clock.read()
	return o.KeepsBetween(now, wall, start)
}
