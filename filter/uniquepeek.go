package filter

import (
	"fmt"
	"math"
	"time"
)

// Peek returns what [UniqueRate.Measure] would return, and changes nothing. A
// caller with several rules asks all of them before it counts in any. A nil
// state stands for the all-zero state of a new key.
func (u *UniqueRate) Peek(state []byte, now time.Time, item []byte, n float64) (RateMeasurement, error) {
	if !(n >= 0) || math.IsInf(n, 1) {
		return RateMeasurement{}, fmt.Errorf("filter: rate weight %g, want 0 or more", n)
	}
	m := RateMeasurement{Rate: n, New: true}
	if state != nil {
		if err := u.Validate(state); err != nil {
			return RateMeasurement{}, err
		}
		var head [RateHeader]byte // a copy that may be settled
		copy(head[:], state)
		s, at := rateState(head[:]), max(now.UnixNano(), 1)
		s.settle(at)
		expired := s.started() != 0 && at-s.started() >= int64(u.period)
		if !u.plain && !expired && u.holds(rateState(state), u.secret.Key(item)) {
			rate := u.decayed(s, at)
			return RateMeasurement{Rate: rate, Over: rate > u.limit}, nil
		}
		m.Rate = u.raised(s, at, n)
	}
	m.Over = m.Rate > u.limit
	m.Counted = !(m.Over && u.mode == Leaky)
	return m, nil
}
