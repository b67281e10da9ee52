package filter

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestPeek compares Peek with Measure on random histories.
func TestPeek(t *testing.T) {
	for _, c := range []UniqueRateConfig{
		{Limit: 10, Period: time.Hour},
		{Limit: 10, Period: time.Hour, Mode: Strict},
		{Limit: 500, Period: time.Minute, Plain: true},
		{Limit: 500, Period: time.Minute, Plain: true, Mode: Strict},
	} {
		u, err := NewUniqueRate(c)
		if err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(1, 2))
		state := make([]byte, u.StateBytes())
		now := time.Unix(1_800_000_000, 0)
		fresh, err := u.Peek(nil, now, []byte("x"), 1)
		if zero, zeroErr := u.Peek(state, now, []byte("x"), 1); fresh != zero || err != nil || zeroErr != nil {
			t.Errorf("%+v: Peek(nil) = %+v, %v; of a zero state %+v, %v", c, fresh, err, zero, zeroErr)
		}
		for i := range 2000 {
			now = now.Add(time.Duration(random.Int64N(int64(c.Period / 8))))
			item := fmt.Appendf(nil, "rcpt-%d@example.com", random.IntN(40))
			n := float64(random.IntN(3))
			before := bytes.Clone(state)
			peeked, peekErr := u.Peek(state, now, item, n)
			if !bytes.Equal(state, before) {
				t.Fatalf("%+v: step %d: Peek changed the state", c, i)
			}
			measured, err := u.Measure(&state, now, item, n)
			if err != nil || peekErr != nil || peeked != measured {
				t.Fatalf("%+v: step %d: Peek = %+v, %v; Measure = %+v, %v", c, i, peeked, peekErr, measured, err)
			}
		}
		for _, n := range []float64{-1, math.NaN(), math.Inf(1)} {
			if _, err := u.Peek(state, now, nil, n); err == nil {
				t.Errorf("%+v: Peek took a weight of %g", c, n)
			}
		}
		if _, err := u.Peek(state[1:], now, nil, 1); err == nil {
			t.Errorf("%+v: Peek took a state that is too short", c)
		}
	}
}
