package filter

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// The sizes of Finch's filter.
const (
	DefaultRateBits   = 16 // bits for each unit of the limit
	DefaultRateHashes = 8
)

// RateHeader is the number of bytes of a rate state besides its items.
const RateHeader = 24

// MaxRateBytes is the size of the largest filter of one key, in bytes.
const MaxRateBytes = 1 << 26

// MeasuredItems is the number of items for which the filter of a limit of 0 is sized, since such a
// limit does not indicate how many items there will be.
const MeasuredItems = 1 << 16

// A RateMode determines how a sender over the limit affects its own rate.
type RateMode uint8

// The modes.
const (
	// Leaky does not count refused events. The measured rate is the rate of accepted events, which
	// never exceeds the limit. A sender over the limit may still send at the limit.
	Leaky RateMode = iota
	// Strict counts every attempt. A sender over the limit gets nothing through until it has slowed
	// down.
	Strict
)

// String returns "leaky", "strict" or "invalid".
func (m RateMode) String() string {
	switch m {
	case Leaky:
		return "leaky"
	case Strict:
		return "strict"
	}
	return "invalid"
}

// A UniqueRateConfig describes a [UniqueRate].
type UniqueRateConfig struct {
	// Limit is the amount that a period may hold, 0 or more. At 0 every event is over the limit, as
	// in Exim: with Strict, this measures.
	Limit float64
	// Period is the constant of the exponential smoothing and the lifetime of the filter, at least
	// a millisecond.
	Period time.Duration
	Mode   RateMode
	// Plain counts every event and keeps no filter, for messages or bytes.
	Plain bool
	// Bits is the filter's size for each unit of the limit, 0 for [DefaultRateBits]. Hashes is its
	// number of functions, 0 for [DefaultRateHashes].
	Bits, Hashes int
	// Secret keys the hash functions.
	Secret Secret
}

// A UniqueRate measures how many different items (recipients of a sender, senders of a host, any
// value) a key uses in a period: Finch's extension of Exim's rate limiter. It is the rule. The
// state of each key is a byte slice that the caller keeps: [UniqueRate.StateBytes] bytes, all zero,
// for a new key, and more when the key has used many items. The memory of a key grows with its use.
// Its items are a list of fingerprints until the list would take more than Finch's filter for the
// limit, and then this filter.
//
// The measured rate decays by 1/e each period. An item that is not in the key's filter raises the
// rate and is added; an item that is in it does not count. The filter is discarded one period after
// its first item, so the rate counts the different items of a period. With x the time since the
// key's last event, in periods, an event of weight n (0 if its item is known) changes the rate r to
//
//	max(n, r exp(-x) + n (1 - exp(-x)) / x)
//
// and to n for a new key. The key is over the limit when this value reaches it. Of events of weight
// 1 in quick succession, a limit of N > 1 therefore admits N, because the first of them weigh
// slightly less than 1 when the last one comes. A single event whose own weight is the limit is
// over it, and so is every event of weight 1 at a limit of 1 or less. This is the rate of Exim's
// specification, chapter "Access control lists", section "Rate limiting incoming messages".
//
// A new item is mistaken for a known one with a probability of n / 2^40 among n fingerprints, and
// of (1 - exp(-n / (2 limit)))^8 in a filter of the default sizes: 0.06 % at the limit, 2.5 % at
// twice the limit. The short lifetime limits these errors: a sender at more than e times its limit
// loses its over-full filter before its rate falls below the limit.
//
// A UniqueRate is immutable, and safe for concurrent use; calls on one state must not overlap.
type UniqueRate struct {
	limit  float64
	period time.Duration
	mode   RateMode
	plain  bool
	secret Secret
	bits   int
	k      int
	whole  int // size in bytes of the filter for the limit
}

// NewUniqueRate returns the rule for c, or an error if the configuration is invalid.
func NewUniqueRate(c UniqueRateConfig) (*UniqueRate, error) {
	if c.Bits == 0 {
		c.Bits = DefaultRateBits
	}
	if c.Hashes == 0 {
		c.Hashes = DefaultRateHashes
	}
	switch {
	case c.Period < time.Millisecond:
		return nil, fmt.Errorf("filter: rate period %v, want at least 1ms", c.Period)
	case c.Mode > Strict:
		return nil, fmt.Errorf("filter: rate mode %d is unknown", c.Mode)
	case c.Bits < 1 || c.Bits > 1024:
		return nil, fmt.Errorf("filter: %d bits for each unit of the limit, want 1 to 1024", c.Bits)
	case c.Hashes < 1 || c.Hashes > MaxHashes:
		return nil, fmt.Errorf("filter: %d hash functions, want 1 to %d", c.Hashes, MaxHashes)
	}
	u := UniqueRate{period: c.Period, mode: c.Mode, plain: c.Plain, secret: c.Secret, bits: c.Bits, k: c.Hashes}
	return u.WithLimit(c.Limit)
}

// WithLimit returns the rule with a different limit for the same states: a key may have a limit of
// its own. A filter keeps its size until its period is over. WithLimit fails if limit is negative,
// not finite, or needs a filter of more than [MaxRateBytes].
func (u *UniqueRate) WithLimit(limit float64) (*UniqueRate, error) {
	if !(limit >= 0) || math.IsInf(limit, 0) {
		return nil, fmt.Errorf("filter: rate limit %g, want 0 or more", limit)
	}
	other := *u
	other.limit = limit
	if u.plain {
		return &other, nil
	}
	items := math.Ceil(limit)
	if limit == 0 {
		items = MeasuredItems
	}
	size := math.Ceil(items * float64(u.bits) / 8)
	if size > MaxRateBytes {
		return nil, fmt.Errorf("filter: limit of %g different items takes %g bytes a key, want at most %d",
			limit, size, MaxRateBytes)
	}
	other.whole = max(int(size), fewBytes)
	return &other, nil
}

// Limit returns the limit, in items per period.
func (u *UniqueRate) Limit() float64 { return u.limit }

// Period returns the smoothing period.
func (u *UniqueRate) Period() time.Duration { return u.period }

// StateBytes returns the size of a new key's state. For a Plain rate, or a limit up to 10, the
// state keeps that size.
func (u *UniqueRate) StateBytes() int {
	if u.plain {
		return RateHeader
	}
	return RateHeader + fewBytes
}

// MaxStateBytes returns the size of a state with the filter for the limit, in bytes: with the
// default sizes [RateHeader] plus 2 bytes for each unit of the limit.
func (u *UniqueRate) MaxStateBytes() int { return RateHeader + u.whole }

// ID returns a fingerprint of everything that gives a state its meaning: the period, the filter's
// size for each item, its functions, and the key. Limit and mode may change.
func (u *UniqueRate) ID() uint64 {
	var b [25]byte
	binary.LittleEndian.PutUint64(b[0:], uint64(u.period))
	binary.LittleEndian.PutUint64(b[8:], uint64(u.bits))
	binary.LittleEndian.PutUint64(b[16:], uint64(u.k))
	if u.plain {
		b[24] = 1
	}
	return u.secret.Key([]byte("unique-rate"), b[:]).Hi
}

// A RateMeasurement is the result of [UniqueRate.Measure].
type RateMeasurement struct {
	Rate    float64 // items per period, including this one if it counts or would count
	Over    bool    // Rate has reached the limit
	New     bool    // the item was not in the filter (always true for a Plain rate)
	Counted bool    // the item is new, and its weight is in the key's rate from now on
}

// Measure counts one item of weight n (1 for a recipient or message, the number of bytes for a rate
// of bytes), and returns the new rate. The item of a Plain rate is not read. *state is replaced by
// a longer slice when its items need one, and cut to [UniqueRate.StateBytes] when they are a period
// old. If the clock was set back, it is treated as having stood still. Measure returns an error,
// and changes nothing, if the state has an impossible length or content, or if n is negative or not
// finite.
func (u *UniqueRate) Measure(state *[]byte, now time.Time, item []byte, n float64) (RateMeasurement, error) {
	if err := u.Validate(*state); err != nil {
		return RateMeasurement{}, err
	}
	if !(n >= 0) || math.IsInf(n, 1) {
		return RateMeasurement{}, fmt.Errorf("filter: rate weight %g, want 0 or more", n)
	}
	return u.measure((*rateState)(state), now.UnixNano(), u.fingerprint(item), n), nil
}

func (u *UniqueRate) measure(s *rateState, now int64, p fingerprint, n float64) RateMeasurement {
	now = max(now, 1)
	m := u.judge(*s, now, p, n)
	s.settle(now)
	if m.Over && u.mode == Leaky {
		return m
	}
	expired := u.expired(*s, now)
	s.set(math.Min(m.Rate, math.MaxFloat64), now)
	if u.plain || !m.New {
		return m
	}
	if expired {
		s.forget()
	}
	if s.started() == 0 {
		s.setStart(now)
	}
	u.add(s, p)
	return m
}

// judge returns the effect of an event, and changes nothing.
func (u *UniqueRate) judge(s rateState, now int64, p fingerprint, n float64) RateMeasurement {
	m := RateMeasurement{New: u.plain || u.expired(s, now) || !u.holds(s, p)}
	if !m.New {
		n = 0
	}
	m.Rate, m.Over = u.raised(s, now, n)
	m.Counted = m.New && !(m.Over && u.mode == Leaky)
	return m
}

// expired reports whether the filter's period is over.
func (u *UniqueRate) expired(s rateState, now int64) bool {
	return s.started() != 0 && now-s.started() >= int64(u.period)
}

// Settle moves a state that lies more than a period in the future, from before the clock was set
// back, to now. Like Measure, it drops items that are a period old and cuts *state. It reports
// whether it did either. [UniqueRate.Measure] does this by itself; Settle is for keys that do not
// come again.
func (u *UniqueRate) Settle(state *[]byte, now time.Time) (bool, error) {
	if err := u.Validate(*state); err != nil {
		return false, err
	}
	s, at := (*rateState)(state), max(now.UnixNano(), 1)
	future, expired := s.changed()-at > int64(u.period), u.expired(*s, at)
	if future {
		s.settle(at)
	}
	if expired {
		s.forget()
	}
	return future || expired, nil
}

// decayed returns the rate at now if nothing is counted.
func (u *UniqueRate) decayed(s rateState, now int64) float64 {
	return s.rate() * math.Exp(-float64(now-s.changed())/float64(u.period))
}

// raised returns the rate at now after adding n, and whether it reaches the limit. The rate is the
// moving average, with weights that fall by 1/e each period, of a stream whose n arrived evenly
// since the last change. A steady stream of r per period is measured as r, not as r + 1/2 as with
// plain addition, and a burst as its sum. The rate is at least n: after a silence the average
// includes the silence before the event, and would admit a sender that first waits and then sends a
// lot.
func (u *UniqueRate) raised(s rateState, now int64, n float64) (rate float64, over bool) {
	x := float64(max(0, now-s.changed())) / float64(u.period)
	switch {
	case s.changed() == 0:
		rate = n
	case x > 0:
		rate = max(n, s.rate()*math.Exp(-x)+n*-math.Expm1(-x)/x)
	case s.rate() > 0:
		// Events with equal clock readings did not happen at once: the average approaches their sum
		// from below, and does not reach it.
		rate = s.rate() + n
		return rate, rate > u.limit
	default:
		rate = n
	}
	return rate, rate >= u.limit
}

// Rate returns the rate at now without counting anything, in items per period.
func (u *UniqueRate) Rate(state []byte, now time.Time) (float64, error) {
	if err := u.Validate(state); err != nil {
		return 0, err
	}
	s := rateState(state)
	return u.decayed(s, max(now.UnixNano(), s.changed())), nil
}

// Idle reports whether state may be dropped. Nothing was counted for a period, so that its filter
// has expired. Its rate has fallen below 1 % of the limit, so that a new state would give the same
// answers to within 1 % (at a limit of 0, below 0.01). The period of silence matters where there is
// no filter: a sender of little each minute would be forgotten each minute.
func (u *UniqueRate) Idle(state []byte, now time.Time) (bool, error) {
	rate, err := u.Rate(state, now)
	if err != nil {
		return false, err
	}
	low := u.limit / 100
	if u.limit == 0 {
		low = 0.01
	}
	return now.UnixNano()-rateState(state).changed() >= int64(u.period) && rate < low, nil
}

// Validate returns an error that wraps [ErrCorrupt] unless this rule can have made state, as far as
// head and length show: a finite rate that is not negative, times in order, no items before the
// first.
func (u *UniqueRate) Validate(state []byte) error {
	if len(state) < u.StateBytes() || len(state) > u.StateBytes() && u.plain {
		return fmt.Errorf("%w: rate state of %d bytes, want %d", ErrCorrupt, len(state), u.StateBytes())
	}
	s := rateState(state)
	rate, changed, started := s.rate(), s.changed(), s.started()
	switch {
	case !(rate >= 0) || math.IsInf(rate, 1):
		return fmt.Errorf("%w: rate %g", ErrCorrupt, rate)
	case changed < 0 || started > changed:
		return fmt.Errorf("%w: filter begun at %d, last change at %d", ErrCorrupt, started, changed)
	case changed == 0 && rate != 0:
		return fmt.Errorf("%w: rate %g of a key that was never seen", ErrCorrupt, rate)
	case u.plain && (started != 0 || s.bloom()):
		return fmt.Errorf("%w: filter begun at %d in a rate without one", ErrCorrupt, started)
	case started == 0 && (s.bloom() || len(s) > u.StateBytes() || fingerprints(s[RateHeader:]) > 0):
		return fmt.Errorf("%w: items in a filter that was never begun", ErrCorrupt)
	}
	return s.validList()
}

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
