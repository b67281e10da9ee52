//go:build simclock

package clock

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// MaxAhead is the furthest that the clock can be moved in total, about fifty years: far enough to
// see everything expire, and within the range of every stored form of a time.
const MaxAhead = 50 * 365 * 24 * time.Hour

// ErrAdvance is wrapped by errors that explain why the clock was not moved.
var ErrAdvance = errors.New("clock: not moved")

// ahead is how far the clock of the whole process has been moved, in nanoseconds. It is negative if
// the clock is behind the machine's.
var ahead atomic.Int64

// Now returns the current time.
func Now() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }

// passed is the sum of all advances, in nanoseconds: the simulated time that has passed.
var passed atomic.Int64

var began = time.Now()

// Uptime returns how long the process has been running, including the time that [Advance] has let
// pass. [Jump] and [Retreat] do not change it.
func Uptime() time.Duration { return time.Since(began) + time.Duration(passed.Load()) }

// Since returns how long ago t was.
func Since(t time.Time) time.Duration { return Now().Sub(t) }

// Advance lets d pass: it moves the clock of the whole process forward by d, which must be
// positive. The clock can be at most [MaxAhead] ahead in total. An error wraps [ErrAdvance], and
// the clock has not moved.
func Advance(d time.Duration) error {
	if d <= 0 {
		return Jump(d)
	}
	passed.Add(int64(d)) // first, so that no reader mistakes the advance for a jump
	err := Jump(d)
	if err != nil {
		passed.Add(-int64(d))
	}
	return err
}

// Jump is Advance for a clock that is set wrong: no time passes.
func Jump(d time.Duration) error {
	for {
		at := ahead.Load()
		switch {
		case d <= 0:
			return fmt.Errorf("%w by %v: it goes forward only", ErrAdvance, d)
		case d > MaxAhead-time.Duration(at):
			return fmt.Errorf("%w by %v: it is %v ahead, limit %v", ErrAdvance, d, time.Duration(at), MaxAhead)
		}
		if ahead.CompareAndSwap(at, at+int64(d)) {
			return nil
		}
	}
}

// Retreat moves the clock of the whole process back by d, which must be positive, to at most
// [MaxAhead] behind the machine's clock. An error wraps [ErrAdvance], and the clock has not moved.
func Retreat(d time.Duration) error {
	for {
		at := ahead.Load()
		switch {
		case d <= 0:
			return fmt.Errorf("%w back by %v", ErrAdvance, d)
		case d > MaxAhead+time.Duration(at):
			return fmt.Errorf("%w back by %v: it is %v ahead, limit %v behind", ErrAdvance, d, time.Duration(at), MaxAhead)
		}
		if ahead.CompareAndSwap(at, at-int64(d)) {
			return nil
		}
	}
}
