package door

import (
	"math"
	"sync/atomic"
	"time"
)

// timeBounds are the upper bounds of the counts of [Times], except the last count, which has none.
var timeBounds = [...]time.Duration{
	10 * time.Microsecond, 30 * time.Microsecond, 100 * time.Microsecond, 300 * time.Microsecond,
	time.Millisecond, 3 * time.Millisecond, 10 * time.Millisecond, 30 * time.Millisecond,
	100 * time.Millisecond, 300 * time.Millisecond, time.Second, 3 * time.Second, 10 * time.Second,
}

// Times counts how long answers took, as a histogram of 10 microseconds to 10 seconds
// with about two bounds a decade. The zero value is empty. Its methods may be called
// concurrently.
type Times struct {
	counts [len(timeBounds) + 1]atomic.Uint64
	sum    atomic.Int64 // nanoseconds
}

// Add counts n answers that took d each. Negative durations count as none.
func (t *Times) Add(d time.Duration, n int) {
	d = max(d, 0)
	i := 0
	for i < len(timeBounds) && d > timeBounds[i] {
		i++
	}
	t.counts[i].Add(uint64(n))
	t.sum.Add(int64(d) * int64(n))
}

// Read returns the number of answers, the sum of their times in seconds, and for each bound in
// seconds the number of answers that took no longer, as in Prometheus histograms. Answers counted
// during the call may be in the sum alone.
func (t *Times) Read() (answers uint64, seconds float64, within map[float64]uint64) {
	within = make(map[float64]uint64, len(timeBounds))
	for i, bound := range timeBounds {
		answers += t.counts[i].Load()
		within[bound.Seconds()] = answers
	}
	answers += t.counts[len(timeBounds)].Load()
	return answers, float64(max(t.sum.Load(), 0)) / math.Pow10(9), within
}
