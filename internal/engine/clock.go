package engine

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
)

// An ageingClock is the clock by which generations open and expire. If the machine's clock is more
// than limit ahead of the expected time, the ageing is held: this clock then continues from the
// last plausible time, by the processor's clock.
type ageingClock struct {
	limit time.Duration // 0: every time is plausible
	// overdue returns how many more generations expire at wall than at expected.
	overdue  func(wall, expected time.Time) int
	confirms func(wall time.Time) string // nil: nothing does
	asked    atomic.Pointer[answer]      // last answer of confirms
	wall     func() time.Time            // the machine's clock
	since    func() time.Duration        // since the start of the process, by the processor's clock
	last     atomic.Pointer[instant]     // the last plausible time; nil: none yet
	log      *slog.Logger
	held     bool // the ageing is held, and this is logged; only the writer uses it
	// wrong is, while the clock is wrong, the first start of the generations of the tally and of the
	// blocklist that are open during that time; nil: it is right.
	wrong atomic.Pointer[[2]uint64]
}

// An instant is a time and the reading of the processor's clock at that time.
type instant struct {
	time   time.Time
	uptime time.Duration
	ran    bool // the clock was plausible then, while this process ran
}

// An answer is what confirms a time, and the difference of that time to the processor's clock.
type answer struct {
	by    string
	ahead time.Duration
	at    time.Duration // by the processor's clock
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
	step := wall.Sub(expected)
	if step <= leastStep || c.confirmed(wall) != "" {
		return wall, wall, false
	}
	if step > c.limit || last.ran || c.overdue(wall, expected) > 0 {
		return expected, wall, true
	}
	return wall, wall, false
}

// confirmed returns what confirms the machine's time, "" if nothing does. It asks at most once a second,
// or when the time was set.
func (c *ageingClock) confirmed(wall time.Time) string {
	if c.confirms == nil {
		return ""
	}
	at := c.since()
	ahead := time.Duration(wall.UnixNano()) - at
	if a := c.asked.Load(); a != nil && at-a.at < time.Second && (ahead-a.ahead).Abs() < time.Second {
		return a.by
	}
	a := &answer{c.confirms(wall), ahead, at}
	c.asked.Store(a)
	return a.by
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

// trust makes t the last plausible time. ran is set if it is the machine's present time.
func (c *ageingClock) trust(t time.Time, ran bool) { c.last.Store(&instant{t, c.since(), ran}) }

// begin sets the clock to the start of the newest record, in Unix seconds. Without a record, which
// is 0, it accepts the machine's clock.
func (c *ageingClock) begin(newest uint64) {
	if newest > 0 {
		c.trust(time.Unix(int64(newest), 0), false)
	}
	c.watch()
}

// watch accepts the machine's time, or logs that it is implausible. It returns the time by which
// generations open, and whether the ageing is held. Only the writer calls it.
func (c *ageingClock) watch() (now time.Time, held bool) {
	now, wall, held := c.read()
	// A clock that is behind, such as one without a battery, will probably be corrected.
	if !held && !c.behind(wall) {
		c.trust(wall, true)
	}
	if held != c.held {
		c.held = held
		c.logAgeing(now, wall)
	}
	return now, held
}

func (c *ageingClock) logAgeing(now, wall time.Time) {
	if !c.held {
		by := "it is where it was before"
		if a := c.asked.Load(); a != nil && a.by != "" {
			by = a.by
		}
		c.log.Info("the clock is plausible again, and generations age as before", "clock", wall.UTC(), "confirmed_by", by)
		return
	}
	newest := c.last.Load().time.UTC()
	c.log.Warn("the clock is ahead of the newest record, and nothing confirms it",
		"clock", wall.UTC(), "newest_record", newest,
		"consequence", "ageing is held: no generation expires, and counts go on in generations of "+
			now.UTC().Format(time.RFC3339),
		"hint", fmt.Sprintf("if the clock is wrong, set it right; if this machine was really off since %s, "+
			"run \"bulkhead clock confirm\"", newest.Format(time.RFC3339)))
}

// confirm ends the holding of the ageing at the machine's time. Only the writer calls it.
func (c *ageingClock) confirm(wall time.Time) {
	c.trust(wall, true)
	c.held = false
	c.log.Warn("an administrator has confirmed the clock", "clock", wall.UTC(), "consequence",
		"generations age again")
}

// keeps reports whether parts of a generation that started at the given Unix second are taken from
// peers. While the ageing is held, the machine's clock may still be right, so generations may start
// as late as it allows.
func (c *ageingClock) keeps(o book.Options, start uint64) bool {
	now, wall, _ := c.read()
	return o.KeepsBetween(now, wall, start)
}

// leastStep is the smallest step of the clock that holds the ageing, even with short generations: a
// restart may take minutes.
const leastStep = time.Hour

// StepLimit returns the [Options].MaxStep of a node with these books: the length of two of the
// shorter generations, and at least an hour.
func StepLimit(tally, block BookOptions) time.Duration {
	return max(leastStep, 2*min(tally.Generation, block.Generation))
}
