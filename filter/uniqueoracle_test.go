package filter

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A rateOracle is the limiter of Exim's specification with one map for the keys and one for each
// key's different items, that is, without a filter.
type rateOracle struct {
	limit  float64
	period time.Duration
	strict bool
	unique bool
	keys   map[string]*oracleKey
}

type oracleKey struct {
	rate  float64
	last  time.Time
	items map[string]bool
	begun time.Time // time of the first of items
}

// event returns the rate of key after an event of weight n. tie is the verdict if the rate equals
// the limit except for rounding.
func (o *rateOracle) event(key, item string, now time.Time, n float64, tie bool) (rate float64, over, isNew bool) {
	k := o.keys[key]
	if k == nil {
		k = &oracleKey{}
	}
	forgotten := len(k.items) > 0 && now.Sub(k.begun) >= o.period
	isNew = !o.unique || forgotten || !k.items[item]
	if !isNew {
		n = 0
	}
	rate = n
	if !k.last.IsZero() {
		// Time passes between two events, at least a nanosecond.
		x := float64(max(1, now.Sub(k.last))) / float64(o.period)
		rate = max(n, n*-math.Expm1(-x)/x+math.Exp(-x)*k.rate)
	}
	over = rate >= o.limit
	if math.Abs(rate-o.limit) < 1e-9*o.limit {
		over = tie
	}
	if over && !o.strict {
		return rate, over, isNew
	}
	k.rate, k.last = rate, now
	o.keys[key] = k
	if o.unique && isNew {
		if forgotten || k.items == nil {
			k.items, k.begun = map[string]bool{}, now
		}
		k.items[item] = true
	}
	return rate, over, isNew
}

// TestUniqueRateOracle sends random events of several keys over ten periods and more: bursts, some
// of them at one instant, even streams, and silences of several periods. Weights range from
// fractions to more than the limit.
func TestUniqueRateOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := UniqueRateConfig{
			Limit: rapid.SampledFrom([]float64{0, 0.5, 1, 2, 20, 100.5}).Draw(t, "limit"), Period: time.Minute,
			Mode: RateMode(rapid.IntRange(0, 1).Draw(t, "mode")), Plain: rapid.Bool().Draw(t, "plain"),
			Bits: 1024, Hashes: 16, // the oracle has no filter errors
		}
		u, err := NewUniqueRate(c)
		if err != nil {
			t.Fatal(err)
		}
		o := rateOracle{limit: c.Limit, period: c.Period, strict: c.Mode == Strict, unique: !c.Plain,
			keys: map[string]*oracleKey{}}
		states := map[string][]byte{}
		for now := rateStart; now.Before(rateStart.Add(10 * c.Period)); {
			pace := rapid.SampledFrom([]time.Duration{0, time.Millisecond, c.Period / 10, 4 * c.Period}).Draw(t, "pace")
			weight := rapid.SampledFrom([]float64{0, 0.25, 1, 1, 1, 7, 4 * c.Limit}).Draw(t, "weight")
			for range rapid.IntRange(1, 40).Draw(t, "events") {
				now = now.Add(time.Duration(rapid.Float64Range(0, 1).Draw(t, "part") * float64(pace)))
				key := rapid.SampledFrom([]string{"ann", "bob", "eve"}).Draw(t, "key")
				x := fmt.Sprint(rapid.IntRange(0, 30).Draw(t, "item"))
				if states[key] == nil {
					states[key] = make([]byte, u.StateBytes())
				}
				peeked, err := u.Peek(states[key], now, []byte(x), weight)
				if err != nil {
					t.Fatal(err)
				}
				state := states[key]
				m, err := u.Measure(&state, now, []byte(x), weight)
				states[key] = state
				if err != nil {
					t.Fatal(err)
				}
				rate, over, isNew := o.event(key, x, now, weight, m.Over)
				want := RateMeasurement{Rate: m.Rate, Over: over, New: isNew, Counted: isNew && (!over || o.strict)}
				if m != want || m != peeked || math.Abs(m.Rate-rate) > 1e-6*rate {
					t.Fatalf("%s of %s: %+v, peeked %+v, want %+v and rate %g", x, key, m, peeked, want, rate)
				}
			}
		}
	})
}

// TestUniqueRateAfterSilence checks that an event weighs at least its own weight, however long the
// silence before it.
func TestUniqueRateAfterSilence(t *testing.T) {
	for _, plain := range []bool{false, true} {
		for _, mode := range []RateMode{Leaky, Strict} {
			u, s := testRate(t, UniqueRateConfig{Limit: 100, Plain: plain, Mode: mode})
			if m, err := u.Measure(&s, rateStart, item(1), 99); err != nil || m.Over || m.Rate != 99 {
				t.Fatalf("99 at first: %+v, %v", m, err)
			}
			later := rateStart.Add(4 * time.Hour)
			if m, err := u.Measure(&s, later, item(2), 400); err != nil || !m.Over || m.Rate != 400 {
				t.Errorf("plain %v, %v: 400 after four periods of silence: %+v, %v, want 400 and over", plain, mode, m, err)
			}
			for i := range 5 {
				later = later.Add(20 * time.Hour)
				if m := measure(t, u, &s, later, item(i)); m.Rate != 1 {
					t.Errorf("plain %v, %v: an event alone: %+v, want rate 1", plain, mode, m)
				}
			}
		}
	}
}

// TestUniqueRateAtLimit checks how many events of one weight pass in one burst.
func TestUniqueRateAtLimit(t *testing.T) {
	for _, tt := range []struct {
		limit, weight float64
		period        time.Duration
		step          time.Duration
		want          int
	}{
		{10, 1, time.Hour, 0, 10},
		{10, 1, time.Hour, time.Microsecond, 10},
		{10, 1, 365 * 24 * time.Hour, 0, 10},
		{10, 1, 365 * 24 * time.Hour, time.Microsecond, 10},
		{2, 1, time.Hour, 0, 2},
		{1, 1, time.Hour, 0, 0}, // a single event has rate 1
		{1, 1, time.Hour, time.Hour, 0},
		{1.5, 1, time.Hour, 0, 1},
		{0.5, 1, time.Hour, 0, 0},
		{100, 100, time.Hour, 0, 0},
		{100, 50, time.Hour, 0, 2},
		{100, 99, time.Hour, 0, 1},
	} {
		for _, mode := range []RateMode{Leaky, Strict} {
			u, s := testRate(t, UniqueRateConfig{Limit: tt.limit, Period: tt.period, Plain: true, Mode: mode})
			passed, now := 0, rateStart
			for range 20 {
				m, err := u.Measure(&s, now, nil, tt.weight)
				if err != nil {
					t.Fatal(err)
				}
				if !m.Over {
					passed++
				}
				now = now.Add(tt.step)
			}
			if passed != tt.want {
				t.Errorf("limit %g in %v, %v: %d events of weight %g pass %v apart, want %d", tt.limit, tt.period, mode, passed,
					tt.weight, tt.step, tt.want)
			}
		}
	}
}
