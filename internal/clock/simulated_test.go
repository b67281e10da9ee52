//go:build simclock

package clock

import (
	"errors"
	"math"
	"sync"
	"testing"
	"time"
)

// TestClock checks that the clock moves by the given amount and continues from there, and that a
// refused move leaves it unchanged.
func TestClock(t *testing.T) {
	start, before := time.Now(), Now()
	if err := Advance(36 * time.Hour); err != nil {
		t.Fatal(err)
	}
	passed := time.Since(start)
	if got := Since(before); got < 36*time.Hour || got > 36*time.Hour+passed+time.Minute {
		t.Errorf("after an advance of 36h, %v have passed", got)
	}
	if y, want := Now().YearDay(), before.Add(36*time.Hour).YearDay(); y != want {
		t.Errorf("the date is day %d, want %d", y, want)
	}
	for _, d := range []time.Duration{0, -1, -24 * time.Hour, math.MinInt64, math.MaxInt64, MaxAhead,
		MaxAhead - 36*time.Hour + 1} {
		if err := Advance(d); !errors.Is(err, ErrAdvance) {
			t.Errorf("Advance(%v) = %v, want ErrAdvance", d, err)
		}
	}
	if got := Since(before); got > 37*time.Hour {
		t.Errorf("refused advances moved the clock by %v", got-36*time.Hour)
	}
	if err := Advance(MaxAhead - 36*time.Hour); err != nil {
		t.Errorf("the last possible advance: %v", err)
	}
}

// TestClockMovesByAll checks that concurrent moves add up, and that a nanosecond is enough to move
// the clock.
func TestClockMovesByAll(t *testing.T) {
	before := ahead.Swap(0) // earlier tests may have left no room
	defer ahead.Store(before)
	var wg sync.WaitGroup
	const each = 10_000
	for range 4 {
		wg.Go(func() {
			for range each {
				if err := Advance(1); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := ahead.Load(); got != 4*each {
		t.Errorf("moved by %d ns, want %d", got, 4*each)
	}
}

// TestClockGoesBack checks that the clock goes back by the given amount, even to before the
// machine's clock, and that a refused move leaves it unchanged.
func TestClockGoesBack(t *testing.T) {
	before := ahead.Swap(0)
	defer ahead.Store(before)
	for _, tt := range []struct {
		at, by time.Duration
		ok     bool
	}{
		{36 * time.Hour, 35 * time.Hour, true}, {0, 1, true}, {0, 100 * time.Hour, true}, {0, MaxAhead, true},
		{MaxAhead, 2 * MaxAhead, true},
		{0, MaxAhead + 1, false}, {-1, MaxAhead, false}, {0, 0, false}, {0, -1, false}, {0, math.MinInt64, false},
		{0, math.MaxInt64, false},
	} {
		ahead.Store(int64(tt.at))
		err := Retreat(tt.by)
		want := tt.at
		if tt.ok {
			want -= tt.by
		}
		if got := time.Duration(ahead.Load()); got != want || errors.Is(err, ErrAdvance) == tt.ok || (err == nil) != tt.ok {
			t.Errorf("from %v back by %v: at %v, %v, want %v", tt.at, tt.by, got, err, want)
		}
	}
}
