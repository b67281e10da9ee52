package book

import (
	"fmt"
	"math"
	"time"
)

// Options is the shape of one book.
type Options struct {
	Generation time.Duration // length of a generation; at least one second
	Keep       int           // generations that live, the open one included; 1 to 366
	Capacity   uint64        // signatures that the first generation is sized for, and the least for any
	Error      float64       // wanted error rate at capacity, in (0, 1): tally, of counts; blocklist, of judgements
	// Memory bounds the arrays of all generations, bytes without the tables of
	// counts that outgrow their cells; 0: no bound. A generation takes a quarter at
	// most, or what Capacity takes, and the oldest ones are given up before their
	// time where a new one would not fit, all but one.
	Memory uint64
}

// Validate returns an error that names the first field out of range.
func (o Options) Validate() error {
	switch {
	case o.Generation < time.Second:
		return fmt.Errorf("generation of %v, want at least 1s", o.Generation)
	case o.Keep < 1 || o.Keep > 366:
		return fmt.Errorf("keep %d generations, want 1 to 366", o.Keep)
	case o.Capacity < 1 || o.Capacity > 1<<40:
		return fmt.Errorf("capacity of %d signatures, want 1 to 2^40", o.Capacity)
	case !(o.Error > 0 && o.Error < 1):
		return fmt.Errorf("error rate %v, want one in (0, 1)", o.Error)
	}
	return nil
}

// Expired reports whether a generation with the given start is older than the book
// keeps.
func (o Options) Expired(now time.Time, start uint64) bool {
	return int64(start) < o.Oldest(now).Unix()
}

// Oldest returns the start of the oldest generation that the book keeps.
func (o Options) Oldest(now time.Time) time.Time {
	return now.Truncate(o.Generation).Add(-time.Duration(o.Keep-1) * o.Generation)
}

// Keeps reports whether a generation with the given start has not expired, and does
// not lie in the future.
func (o Options) Keeps(now time.Time, start uint64) bool {
	return start <= math.MaxInt64/2 && !o.Expired(now, start) && int64(start) <= now.Add(o.Generation).Unix()
}

// ahead returns how far, in seconds, the starts of generations that fill faster
// than seconds pass may run ahead of the clock, being whole seconds themselves.
// Peers take none that is further ahead than its length.
func (o Options) ahead() uint64 { return min(60, uint64(o.Generation/time.Second)/2) }
