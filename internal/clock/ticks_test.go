package clock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/clock"
)

// TestTicks checks that a loop runs once every interval, and ends with its context.
func TestTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute+time.Second)
		defer cancel()
		var at []time.Duration
		for range clock.Ticks(ctx, time.Minute) {
			at = append(at, time.Since(began))
		}
		if len(at) != 3 || at[0] != time.Minute || at[2] != 3*time.Minute {
			t.Errorf("ticks at %v", at)
		}
		if after := time.Since(began); after != 3*time.Minute+time.Second {
			t.Errorf("the loop ended after %v", after)
		}
		cancel()
		for range clock.Ticks(ctx, time.Nanosecond) {
			t.Fatal("a tick after the context ended")
		}
	})
}
