package api

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
)

// TestThrottle checks that passwords guessed from one network, or for one account from many, hold up
// neither a log-in from another network nor one from where the account has logged in before.
func TestThrottle(t *testing.T) {
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	at := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{198, 51, byte(i), 7}) }
	fail := func(tr *throttle, account string, i int) {
		done, err := tr.enter(t.Context(), account, at(i), now)
		if err != nil {
			t.Fatal(err)
		}
		done(false)
	}
	// occupy fills the lane of a guesser.
	occupy := func(tr *throttle, account string, i int) {
		for n := range maxWaiting {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			entered := make(chan error, 1)
			go func() {
				_, err := tr.enter(ctx, account, at(i), now)
				entered <- err
			}()
			if n == 0 {
				if err := <-entered; err != nil {
					t.Fatal(err)
				}
			}
			for waiting := 0; waiting <= n; {
				tr.mu.Lock()
				waiting = tr.lanes[0].waiting + tr.lanes[1].waiting + tr.lanes[2].waiting
				tr.mu.Unlock()
			}
			if n > 0 {
				defer func() { <-entered }()
				defer cancel()
			}
		}
		if _, err := tr.enter(t.Context(), account, at(i), now); !errors.Is(err, bulkhead.ErrOverLimit) {
			t.Errorf("one guess too many: %v, want a refusal at once", err)
		}
	}
	enter := func(tr *throttle, account string, i int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		done, err := tr.enter(ctx, account, at(i), now)
		if err != nil {
			t.Errorf("a right password is held up: %v", err)
			return
		}
		done(true)
	}
	t.Run("one network", func(t *testing.T) {
		var tr throttle
		for range networkFailures {
			fail(&tr, "ann", 1)
		}
		occupy(&tr, "ann", 1)
		enter(&tr, "ann", 2)
		enter(&tr, "bob", 3)
	})
	t.Run("many networks", func(t *testing.T) {
		var tr throttle
		enter(&tr, "ann", 2)
		for i := range accountFailures {
			fail(&tr, "ann", 10+i)
		}
		occupy(&tr, "ann", 100)
		enter(&tr, "ann", 2)
		enter(&tr, "bob", 3)
	})
}

// TestThrottleIsBounded checks that guesses from many networks for many accounts are forgotten.
func TestThrottleIsBounded(t *testing.T) {
	var tr throttle
	now := time.Now()
	for i := range 3 * maxThrottled {
		done, err := tr.enter(t.Context(), fmt.Sprint("a", i), netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1}), now)
		if err != nil {
			t.Fatal(err)
		}
		done(i%2 == 0)
		if i == 2*maxThrottled-1 && (len(tr.networks) != maxThrottled || len(tr.homes) != maxThrottled) {
			t.Errorf("%d networks and %d homes are remembered, want %d", len(tr.networks), len(tr.homes), maxThrottled)
		}
	}
	if len(tr.networks) > maxThrottled || len(tr.accounts) > maxThrottled || len(tr.homes) > maxThrottled {
		t.Errorf("%d networks, %d accounts and %d homes", len(tr.networks), len(tr.accounts), len(tr.homes))
	}
	if l := tr.lane("a", netip.Addr{}, now.Add(failureMemory)); l != &tr.lanes[2] {
		t.Error("failures are remembered for too long")
	}
}

// TestThrottleLanes checks which log-ins share a lane, by the failures and the log-ins before.
func TestThrottleLanes(t *testing.T) {
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	a, b := netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("203.0.113.2")
	const homely, suspect, others = 0, 1, 2
	type try struct {
		network netip.Addr
		ok      bool
		wait    time.Duration // before it
	}
	fail := func(n int, network netip.Addr, wait time.Duration) (all []try) {
		for range n {
			all = append(all, try{network, false, wait})
		}
		return all
	}
	for i, tt := range []struct {
		tries []try         // for ann
		wait  time.Duration // after them
		of    string
		at    netip.Addr
		want  int
	}{
		{nil, 0, "ann", a, others},
		{fail(networkFailures-1, a, 0), 0, "ann", a, others},
		{fail(networkFailures, a, 0), 0, "ann", a, suspect},
		{fail(networkFailures, a, 0), 0, "bob", a, suspect},
		{fail(networkFailures, a, 0), 0, "ann", b, others},
		{fail(accountFailures-1, a, 0), 0, "ann", b, others},
		{fail(accountFailures, a, 0), 0, "ann", b, suspect},
		{fail(accountFailures, a, 0), 0, "bob", b, others},
		{fail(networkFailures, a, 0), failureMemory - 1, "ann", a, suspect},
		{fail(networkFailures, a, 0), failureMemory, "ann", a, others},
		{fail(networkFailures, a, failureMemory-1), 0, "ann", a, suspect},
		{fail(networkFailures, a, failureMemory), 0, "ann", a, others},
		{append([]try{{a, true, 0}}, fail(networkFailures, a, 0)...), 0, "ann", a, homely},
		{[]try{{a, true, 0}}, 0, "ann", b, others},
		{[]try{{a, true, 0}}, 0, "bob", a, others},
		{[]try{{a, true, 0}}, homeMemory - 1, "ann", a, homely},
		{[]try{{a, true, 0}}, homeMemory, "ann", a, others},
	} {
		var tr throttle
		at := now
		for _, x := range tt.tries {
			at = at.Add(x.wait)
			done, err := tr.enter(t.Context(), "ann", x.network, at)
			if err != nil {
				t.Fatal(err)
			}
			done(x.ok)
		}
		if got := tr.lane(tt.of, door.NetworkOf(tt.at), at.Add(tt.wait)); got != &tr.lanes[tt.want] || got.waiting != 0 {
			t.Errorf("case %d: another lane than %d, or %d wait", i, tt.want, got.waiting)
		}
	}
	var tr throttle
	done, err := tr.enter(t.Context(), "ann", a, now)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tr.enter(ctx, "ann", a, now); !errors.Is(err, context.Canceled) || tr.lanes[others].waiting != 1 {
		t.Errorf("a log-in that was given up: %v, %d wait", err, tr.lanes[others].waiting)
	}
	done(true)
}
