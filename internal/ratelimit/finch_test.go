package ratelimit

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// TestFinchTable measures Finch's table with the real limiter: the chance that a new recipient is
// mistaken for a known one, when a sender has used a multiple of the limit within the period.
func TestFinchTable(t *testing.T) {
	const limit = 200
	for _, row := range []struct {
		multiple, printed float64
		keys              int
	}{{0.5, 1.0 / 170_000, 40}, {1, 1.0 / 1700, 400}, {2, 1.0 / 40, 80}, {math.E, 1 / 10.7, 20}, {4, 1 / 3.2, 10}} {
		c := &testClock{epoch}
		rule := recipients(limit)
		rule.Strict, rule.Action, rule.Memory = true, Dunno, 256<<20
		l := open(t, Options{Rules: []Rule{rule}, Now: c.Now})
		missed, asked := 0, 0
		for k := range row.keys {
			user := fmt.Sprint("user", k)
			fill := int(row.multiple * limit)
			for i := range fill {
				limitAs(t, l, user, fmt.Sprint(k, "-", i))
			}
			for i := range limit / 10 {
				asked++
				if !limitAs(t, l, user, fmt.Sprint(k, "new", i)).New {
					missed++
				}
			}
		}
		measured := float64(missed) / float64(asked)
		expected := row.printed * float64(asked)
		t.Logf("%.2f x limit: printed 1 in %.1f, measured %d of %d", row.multiple, 1/row.printed, missed, asked)
		// The queries themselves fill the filter by up to a tenth of the limit.
		if hi := 1.7*expected + 4*math.Sqrt(expected) + 2; float64(missed) > hi || measured < row.printed/2 && expected > 30 {
			t.Errorf("%.2f x limit: %d of %d new recipients were taken for old ones, printed rate %.3g", row.multiple,
				missed, asked, row.printed)
		}
	}
}

func limitAs(t *testing.T, l *Limiter, user, to string) Outcome {
	t.Helper()
	_, _, outcomes, err := l.Apply(rcpt(user, to))
	if err != nil || len(outcomes) != 1 {
		t.Fatalf("%+v, %v", outcomes, err)
	}
	return outcomes[0]
}

// TestFinchRecovery checks why these errors do no harm: a sender at more than e times the limit
// loses the over-full filter before the rate falls below the limit.
func TestFinchRecovery(t *testing.T) {
	c := &testClock{epoch}
	rule := recipients(100)
	rule.Strict = true
	l := open(t, Options{Rules: []Rule{rule}, Now: c.Now})
	for i := range 400 {
		limit(t, l, rcpt("ann", fmt.Sprint(i)))
	}
	for c.now.Before(epoch.Add(3 * time.Hour)) {
		c.now = c.now.Add(time.Minute)
		status, err := l.Show("rcpts", "ann")
		if err != nil || len(status) != 1 {
			t.Fatalf("%+v, %v", status, err)
		}
		if status[0].Rate > rule.Limit {
			continue
		}
		if age := c.now.Sub(epoch); age < rule.Period {
			t.Fatalf("below the limit after %v, with the filter still in use", age)
		}
		if o := limitAs(t, l, "ann", "0"); !o.New {
			t.Error("the over-full filter outlived the countermeasures")
		}
		return
	}
	t.Error("the rate did not fall within three periods")
}
