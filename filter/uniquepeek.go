package filter

import (
	"fmt"
	"math"
	"time"
)

// Peek returns what [UniqueRate.Measure] would return, and changes nothing. A caller with several
// rules asks all of them before it counts in any. A nil state stands for the all-zero state of a
// new key.
func (u *UniqueRate) Peek(state []byte, now time.Time, item []byte, n float64) (RateMeasurement, error) {
	if !(n >= 0) || math.IsInf(n, 1) {
		return RateMeasurement{}, fmt.Errorf("filter: rate weight %g, want 0 or more", n)
	}
	if state == nil {
		var fresh [RateHeader]byte
		rate, over := u.raised(fresh[:], now.UnixNano(), n)
		return RateMeasurement{Rate: rate, Over: over, New: true, Counted: !(over && u.mode == Leaky)}, nil
	}
	if err := u.Validate(state); err != nil {
		return RateMeasurement{}, err
	}
	return u.judge(state, max(now.UnixNano(), 1), u.fingerprint(item), n), nil
}
