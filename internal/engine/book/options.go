package book

import (
	"fmt"
	"math"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/arrays"
)

// Options is the shape of one book.
type Options struct {
	Generation time.Duration // length of a generation; at least one second
	Keep       int           // live generations, the open one included; 1 to 366
	Capacity   uint64        // signatures that the first generation is sized for; 1 to 2^40
	// wanted error rate at capacity, in (0, 1): of counts in the tally, of judgements in the blocklist
	Error float64
	// Memory bounds the arrays of all generations in bytes, without their overflow tables; 0: no
	// bound. A generation takes at most a quarter of it; the first takes what Capacity needs. If a
	// new one would not fit, the oldest generations are given up before their time, all but one.
	Memory uint64
	// Floor is the count from which a generation of the tally shows a key to others, up to
	// [arrays.MaxFloor]; 0 and 1: from the first on. A generation keeps the floor that it began
	// with, so a new one opens at once when the floor changes. In the blocklist, Floor is the
	// number of voters from which peers see that the generation lists a signature or takes it off.
	Floor uint32
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
	case o.Floor > arrays.MaxFloor:
		return fmt.Errorf("counts shared from %d on, want 1 to %d", o.Floor, arrays.MaxFloor)
	}
	return nil
}

// Expired reports whether a generation with the given start is too old for the book to keep.
func (o Options) Expired(now time.Time, start uint64) bool {
	return int64(start) < o.Oldest(now).Unix()
}

// Oldest returns the start of the oldest generation that the book keeps.
func (o Options) Oldest(now time.Time) time.Time {
	return now.Truncate(o.Generation).Add(-time.Duration(o.Keep-1) * o.Generation)
}

// Keeps reports whether a generation with the given start has not expired, and does not
// begin later than one length from now.
func (o Options) Keeps(now time.Time, start uint64) bool { return o.KeepsBetween(now, now, start) }

// KeepsBetween is [Options.Keeps] for a clock that shows a time from now to latest.
func (o Options) KeepsBetween(now, latest time.Time, start uint64) bool {
	return start <= math.MaxInt64/2 && !o.Expired(now, start) && int64(start) <= latest.Add(o.Generation).Unix()
}

// Overdue returns how many of the generations with the given starts have expired.
func (o Options) Overdue(now time.Time, starts []uint64) (n int) {
	for _, start := range starts {
		if o.Expired(now, start) {
			n++
		}
	}
	return n
}

// ahead returns how many seconds the starts of generations may run ahead of the clock. They are
// whole seconds, and generations may fill faster than that. Peers reject a generation that is
// further ahead than its length.
func (o Options) ahead() uint64 { return min(60, uint64(o.Generation/time.Second)/2) }
