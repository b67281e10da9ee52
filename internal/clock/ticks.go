package clock

import (
	"context"
	"time"
)

// Ticks yields once every interval until ctx ends, for a range statement. The interval is of real time, also with the
// tag simclock. A body that takes longer than the interval misses ticks.
func Ticks(ctx context.Context, every time.Duration) func(yield func() bool) {
	return func(yield func() bool) {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if ctx.Err() != nil || !yield() {
				return
			}
		}
	}
}
