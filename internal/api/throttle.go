package api

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
)

// The limits of a throttle.
const (
	networkFailures = 3                // wrong passwords of a network that count as mistakes
	accountFailures = 5                // for an account
	failureMemory   = 10 * time.Minute // without a further failure
	homeMemory      = 30 * 24 * time.Hour
	maxThrottled    = 4096 // networks and accounts, and as many homes
	maxWaiting      = 8    // log-ins in one lane, the current one included
)

// A throttle orders the checks of passwords, each of which occupies a processor. There are three lanes,
// and each checks one password at a time: one for accounts at networks from which they have logged
// in before, one for networks and accounts with several failures, and one for all others. So whoever
// guesses waits for other guesses, and does not hold up a right password from elsewhere. A lane with
// too many log-ins refuses further ones at once. The zero throttle is ready, and its size is bounded. Its
// methods may be called concurrently.
type throttle struct {
	mu       sync.Mutex
	networks map[netip.Addr]attempts
	accounts map[string]attempts
	homes    map[home]time.Time // when each was last used
	lanes    [3]lane
}

// attempts counts the failures of a network or for an account.
type attempts struct {
	failures int
	last     time.Time
}

// A home is a network from which an account has logged in.
type home struct {
	account string
	network netip.Addr
}

// A lane checks one password at a time.
type lane struct {
	waiting int // guarded by the throttle's mu
	turn    chan struct{}
}

// enter waits until a password for an account may be checked. done is called afterwards. The error
// wraps [bulkhead.ErrOverLimit] if too many log-ins wait.
func (t *throttle) enter(ctx context.Context, account string, client netip.Addr,
	now time.Time) (done func(ok bool), err error) {
	network := door.NetworkOf(client)
	t.mu.Lock()
	l := t.lane(account, network, now)
	if l.waiting >= maxWaiting {
		t.mu.Unlock()
		return nil, fmt.Errorf("%w: too many log-ins at once: try again in a moment", bulkhead.ErrOverLimit)
	}
	if l.turn == nil {
		l.turn = make(chan struct{}, 1)
	}
	l.waiting++
	t.mu.Unlock()
	select {
	case l.turn <- struct{}{}:
		return func(ok bool) {
			<-l.turn
			t.left(l, account, network, ok, now)
		}, nil
	case <-ctx.Done():
		t.mu.Lock()
		defer t.mu.Unlock()
		l.waiting--
		return nil, ctx.Err()
	}
}

// lane returns the lane of a log-in. The caller holds mu.
func (t *throttle) lane(account string, network netip.Addr, now time.Time) *lane {
	recent := func(a attempts) int {
		if now.Sub(a.last) >= failureMemory {
			return 0
		}
		return a.failures
	}
	at, known := t.homes[home{account, network}]
	switch {
	case known && now.Sub(at) < homeMemory:
		return &t.lanes[0]
	case recent(t.networks[network]) >= networkFailures || recent(t.accounts[account]) >= accountFailures:
		return &t.lanes[1]
	}
	return &t.lanes[2]
}

// left notes the result of a check.
func (t *throttle) left(l *lane, account string, network netip.Addr, ok bool, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l.waiting--
	if ok {
		t.homes = roomIn(t.homes)
		t.homes[home{account, network}] = now
		return
	}
	t.networks, t.accounts = roomIn(t.networks), roomIn(t.accounts)
	t.networks[network] = oneMore(t.networks[network], now)
	t.accounts[account] = oneMore(t.accounts[account], now)
}

func oneMore(a attempts, now time.Time) attempts {
	if now.Sub(a.last) >= failureMemory {
		a.failures = 0
	}
	return attempts{a.failures + 1, now}
}

// roomIn returns a map with room for one more: m, half of it, or a new one.
func roomIn[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return make(map[K]V)
	}
	if len(m) >= maxThrottled {
		for k := range m {
			if len(m) <= maxThrottled/2 {
				break
			}
			delete(m, k)
		}
	}
	return m
}
